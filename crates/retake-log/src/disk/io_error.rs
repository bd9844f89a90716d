//! Serialisation of I/O errors, so that the error of another process reads like a local one.

use std::io::{Error, ErrorKind};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kinds that callers distinguish, for errors that were not reported by the operating system.
const KINDS: [(&str, ErrorKind); 8] = [
    ("storageFull", ErrorKind::StorageFull),
    ("quotaExceeded", ErrorKind::QuotaExceeded),
    ("fileTooLarge", ErrorKind::FileTooLarge),
    ("permissionDenied", ErrorKind::PermissionDenied),
    ("readOnlyFilesystem", ErrorKind::ReadOnlyFilesystem),
    ("notFound", ErrorKind::NotFound),
    ("invalidData", ErrorKind::InvalidData),
    ("unexpectedEof", ErrorKind::UnexpectedEof),
];

/// An error with its code if the operating system reported it, which is sufficient, and otherwise with kind and
/// message.
#[derive(Serialize, Deserialize)]
struct Portable {
    code: Option<i32>,
    kind: Option<String>,
    message: String,
}

/// Serialises an error.
pub(crate) fn serialize<S: Serializer>(error: &Error, serializer: S) -> Result<S::Ok, S::Error> {
    let kind = KINDS.iter().find(|(_, kind)| *kind == error.kind()).map(|(name, _)| (*name).to_owned());
    Portable { code: error.raw_os_error(), kind, message: error.to_string() }.serialize(serializer)
}

/// Deserialises an error.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Error, D::Error> {
    let Portable { code, kind, message } = Portable::deserialize(deserializer)?;
    if let Some(code) = code {
        return Ok(Error::from_raw_os_error(code));
    }
    let kind =
        KINDS.iter().find(|(name, _)| Some(*name) == kind.as_deref()).map_or(ErrorKind::Other, |(_, kind)| *kind);
    Ok(Error::new(kind, message))
}

/// Serialisation of paths, which may not be valid UTF-8.
pub(crate) mod path {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    /// Serialises a path as it is displayed.
    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&path.to_string_lossy())
    }

    /// Deserialises a path.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        String::deserialize(deserializer).map(PathBuf::from)
    }
}
