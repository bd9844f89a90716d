//! Pictures on their way in: how a request names them, and what is checked before anything is written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::{Images, MAX_IMAGE_BYTES};
use crate::model::ImageRef;
use crate::model::iteration::{MAX_NAME_BYTES, check_count};

use super::{Error, fit};

/// A picture to record: a path, `{"path": …}`, or `{"data": base64, "mimeType": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an image is a path, {\"path\": …}, or {\"data\": base64, \"mimeType\": …}")]
pub enum ImageInput {
    /// The path of an image file.
    Path(String),
    /// An image file.
    File(ImageFile),
    /// The image itself.
    Data(ImageData),
    /// An image file that was opened where only certain files may be read. Never part of a request.
    #[serde(skip)]
    Opened(OpenedImage),
}

/// An open image file.
#[derive(Clone, Debug)]
pub struct OpenedImage {
    file: Arc<File>,
    path: PathBuf,
}

impl OpenedImage {
    /// Returns an open file that is called `path`.
    pub fn new(file: File, path: PathBuf) -> OpenedImage {
        OpenedImage { file: Arc::new(file), path }
    }
}

impl PartialEq for OpenedImage {
    fn eq(&self, other: &OpenedImage) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

impl Eq for OpenedImage {}

/// An image file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageFile {
    /// The path of an image file.
    pub path: String,
}

/// An image in the request itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageData {
    /// The bytes of the image file, as base64.
    pub data: String,
    /// Its media type, such as `image/png`. Only a remark: the type is told from the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A picture that was looked at and can be kept.
pub(super) enum Incoming {
    /// A file to copy.
    File(PathBuf),
    /// The bytes themselves.
    Bytes(Vec<u8>),
    /// An open file to copy.
    Opened(OpenedImage),
}

impl ImageInput {
    /// Makes a relative path absolute.
    pub(super) fn anchor(&mut self, dir: &Path) {
        if let ImageInput::Path(path) | ImageInput::File(ImageFile { path }) = self
            && !path.is_empty()
        {
            *path = dir.join(&*path).to_string_lossy().into_owned();
        }
    }
}

/// Looks at every picture of a request, so that one bad one is found before another is kept.
pub(super) fn checked(inputs: &[ImageInput]) -> Result<Vec<Incoming>, Error> {
    check_count("images", inputs.len())?;
    inputs.iter().enumerate().map(|(number, input)| check(number, input)).collect()
}

impl Incoming {
    /// Keeps the picture; when this returns it lasts.
    pub(super) fn keep(&self, images: &Images) -> Result<ImageRef, Error> {
        let mut kept = match self {
            Incoming::File(path) => images.put_file(path)?,
            Incoming::Bytes(bytes) => images.put(bytes)?,
            Incoming::Opened(opened) => images.put_open(&opened.file, &opened.path)?,
        };
        if let Some(name) = &mut kept.name {
            name.retain(|c| !c.is_control());
            fit::clip(name, MAX_NAME_BYTES);
        }
        Ok(kept)
    }
}

fn check(number: usize, input: &ImageInput) -> Result<Incoming, Error> {
    match input {
        ImageInput::Path(path) | ImageInput::File(ImageFile { path }) => {
            let path = PathBuf::from(path);
            check_file(&format!("images[{number}]"), &path)?;
            Ok(Incoming::File(path))
        }
        ImageInput::Opened(opened) => {
            let bytes = opened.file.metadata().map_or(0, |found| found.len());
            check_size(&format!("images[{number}]"), &opened.path.display().to_string(), bytes)?;
            Ok(Incoming::Opened(opened.clone()))
        }
        ImageInput::Data(ImageData { data, .. }) => {
            let bytes = decode(data).ok_or_else(|| {
                Error::invalid(
                    format!("images[{number}].data is not base64"),
                    "give the bytes of the image file as base64, or the path of the file",
                )
            })?;
            check_size(&format!("images[{number}]"), "data", bytes.len() as u64)?;
            Ok(Incoming::Bytes(bytes))
        }
    }
}

/// Whether a file can be read and is neither empty nor too large; `name` is what it is called in the request.
pub(super) fn check_file(name: &str, path: &Path) -> Result<(), Error> {
    let shown = path.display();
    let hint = "give the path of an image file, absolute or from the directory Retake runs in";
    let unread = |error: io::Error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "there is no such file",
            io::ErrorKind::PermissionDenied => "not allowed to read the file",
            _ => "cannot read the file",
        };
        Error::invalid(format!("{name}: {what}: {shown}"), hint).caused_by(error)
    };
    let found = fs::metadata(path).map_err(unread)?;
    if !found.is_file() {
        let what = if found.is_dir() { "a directory" } else { "no regular file" };
        return Err(Error::invalid(format!("{name} is {what}: {shown}"), hint));
    }
    check_size(name, &shown.to_string(), found.len())?;
    File::open(path).map_err(unread)?;
    Ok(())
}

fn check_size(name: &str, what: &str, bytes: u64) -> Result<(), Error> {
    let problem = match bytes {
        0 => "is empty".to_owned(),
        1..=MAX_IMAGE_BYTES => return Ok(()),
        _ => format!("has {bytes} bytes, and at most {MAX_IMAGE_BYTES} are allowed"),
    };
    Err(Error::invalid(
        format!("{name} {problem}: {what}"),
        "give a whole image file, or record without it and say in `message` what came out",
    ))
}

/// Reads the base64 that people and programs write: padded or not, either alphabet, with line breaks, as a data URL.
fn decode(data: &str) -> Option<Vec<u8>> {
    let data = match data.trim_start().strip_prefix("data:") {
        Some(url) => url.split_once(";base64,")?.1,
        None => data,
    };
    let digits: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let alphabet =
        if digits.contains(&b'-') || digits.contains(&b'_') { alphabet::URL_SAFE } else { alphabet::STANDARD };
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&alphabet, config).decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_base64_that_is_about() {
        for data in ["aGk/fn4+", "aGk_fn4-", "data:image/png;base64,aGk/fn4+", "aGk/\r\nfn4+\n"] {
            assert_eq!(decode(data).as_deref(), Some(&b"hi?~~>"[..]), "{data}");
        }
        assert_eq!(decode("aGk").as_deref(), Some(&b"hi"[..]));
        assert_eq!(decode("aGk=").as_deref(), Some(&b"hi"[..]));
        for data in ["not base64!", "data:image/png,abc", "a", "aGk/fn4-"] {
            assert_eq!(decode(data), None, "{data}");
        }
    }

    #[test]
    fn a_bad_picture_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.png");
        fs::write(&empty, "").unwrap();
        let message = |path: &Path| {
            let input = ImageInput::Path(path.to_string_lossy().into_owned());
            checked(&[ImageInput::Data(ImageData { data: "aGk=".to_owned(), mime_type: None }), input])
                .err()
                .unwrap()
                .message
        };
        let absent = dir.path().join("absent.png");
        assert_eq!(message(&absent), format!("images[1]: there is no such file: {}", absent.display()));
        assert_eq!(message(dir.path()), format!("images[1] is a directory: {}", dir.path().display()));
        assert_eq!(message(&empty), format!("images[1] is empty: {}", empty.display()));
        assert!(message(&empty.join("below")).contains("there is no such file"));
        assert!(message(Path::new("")).contains("there is no such file"));
    }

    #[test]
    fn an_entry_has_three_spellings_and_no_others() {
        let read = serde_json::from_str::<ImageInput>;
        for json in
            [r#""a.png""#, r#"{"path":"a.png"}"#, r#"{"data":"aGk=","mimeType":"image/png"}"#, r#"{"data":"aGk="}"#]
        {
            let input = read(json).unwrap();
            assert_eq!(serde_json::to_string(&input).unwrap(), json);
        }
        for json in ["7", "{}", r#"{"url":"http://x"}"#, r#"{"path":"a","data":"b"}"#, "null"] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains("an image is a path"), "{error}");
        }
    }
}
