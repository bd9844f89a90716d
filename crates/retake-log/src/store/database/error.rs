//! The errors of sled, and a guard that turns its panics into errors.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use crate::platform;
use crate::store::Error;
use crate::store::key_index::KeyIndexError;

/// The reason why a database operation failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum DatabaseError {
    #[error("{}", sled_words(.0))]
    Sled(#[from] sled::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it panicked: {0}")]
    Panic(String),
    #[error("it did not answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Inconsistent(String),
    #[error("it is not open")]
    Closed,
}

/// Words an error of sled for people, since its own message ends in offsets and a backtrace.
fn sled_words(error: &sled::Error) -> String {
    match error {
        sled::Error::Corruption { .. } => "its data is corrupted".to_owned(),
        sled::Error::CollectionNotFound(_) => "a part of it is missing".to_owned(),
        // The error for settings that it cannot parse, and for files that start differently.
        sled::Error::Unsupported(_) => "its files are not recognised".to_owned(),
        sled::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

impl From<KeyIndexError> for DatabaseError {
    fn from(error: KeyIndexError) -> DatabaseError {
        match error {
            KeyIndexError::Io { source, .. } => DatabaseError::Io(source),
            KeyIndexError::Damaged(_) => DatabaseError::Inconsistent(error.to_string()),
        }
    }
}

impl DatabaseError {
    /// Returns whether the system refused the operation, which says nothing about the data on disk: a retry decides.
    pub(in crate::store) fn is_transient(&self) -> bool {
        match self {
            DatabaseError::Sled(sled::Error::Io(error)) | DatabaseError::Io(error) => {
                is_transient(error) || is_lock_error(error)
            }
            DatabaseError::Panic(text) => os_error_in(text).is_some_and(|error| is_transient(&error)),
            DatabaseError::Timeout(_) => true,
            _ => false,
        }
    }

    /// Converts it for the caller.
    pub(in crate::store) fn into_error(self, path: &Path) -> Error {
        let text = self.to_string();
        let source = match self {
            DatabaseError::Sled(sled::Error::Io(error)) | DatabaseError::Io(error) => Some(error),
            DatabaseError::Panic(panic) => os_error_in(&panic),
            DatabaseError::Timeout(_) => Some(io::Error::new(io::ErrorKind::TimedOut, text.clone())),
            _ => None,
        };
        match source {
            Some(source) => Error::Io { action: "use the database".into(), path: path.to_owned(), source },
            None => Error::Database(text),
        }
    }
}

/// Returns whether an I/O error may be transient. Errors about a name or a file type are not, and neither are errors
/// about the contents (which carry no OS error code).
pub(in crate::store) fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as Io;
    const STRUCTURAL: [Io; 6] =
        [Io::NotFound, Io::NotADirectory, Io::IsADirectory, Io::InvalidInput, Io::InvalidData, Io::UnexpectedEof];
    let is_structural =
        STRUCTURAL.contains(&error.kind()) || platform::is_no_such_device(error) || platform::is_link_loop(error);
    let is_shortage = matches!(
        error.kind(),
        Io::StorageFull
            | Io::QuotaExceeded
            | Io::FileTooLarge
            | Io::PermissionDenied
            | Io::ReadOnlyFilesystem
            | Io::WouldBlock
            | Io::OutOfMemory
            | Io::Interrupted
            | Io::TimedOut
    );
    !is_structural && (error.raw_os_error().is_some() || is_shortage)
}

/// Returns the OS error quoted in a panic message, since sled unwraps some results of system calls.
pub(super) fn os_error_in(text: &str) -> Option<io::Error> {
    let (_, code) = text.split_once("Os { code: ")?;
    let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(io::Error::from_raw_os_error)
}

/// Runs something in which sled may panic.
pub(in crate::store) fn guard<T>(work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // A panic inside sled is an expected result, and its trace on the terminal would look like a crash of ours.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(DatabaseError::Panic(text.unwrap_or("no message").chars().take(200).collect()))
    })
}

pub(super) fn is_lock_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("acquire lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_sled_are_worded_for_people() {
        let corruption = sled::Error::Corruption { at: None, bt: () };
        for (error, expected) in [
            (corruption, "its data is corrupted"),
            (sled::Error::Unsupported("a version of 1970".to_owned()), "its files are not recognised"),
            (sled::Error::CollectionNotFound("heads".into()), "a part of it is missing"),
            (sled::Error::Io(io::Error::other("no medium")), "no medium"),
        ] {
            assert_eq!(DatabaseError::Sled(error).to_string(), expected);
        }
    }
}
