//! Images in requests: by path, or as base64-encoded bytes.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::workspace::{ImageSource, OpenedImage};

use super::Error;
use super::error::RequestError;

/// An image to record: a path, `{"path": …}`, or `{"data": base64, "mimeType": …}`.
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
    /// Its media type, such as `image/png`. Informational: the type is detected from the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

impl ImageInput {
    /// Converts a `file://` URI to its path.
    pub(crate) fn take_file_uri(&mut self) {
        if let ImageInput::Path(path) | ImageInput::File(ImageFile { path }) = self
            && let Some(named) = from_file_uri(path)
        {
            *path = named;
        }
    }

    /// Makes a relative path absolute.
    pub(super) fn anchor(&mut self, dir: &Path) {
        if let ImageInput::Path(path) | ImageInput::File(ImageFile { path }) = self
            && !path.is_empty()
        {
            *path = dir.join(&*path).to_string_lossy().into_owned();
        }
    }
}

/// Returns the path of a `file://` URI; `None` if the text is not one.
fn from_file_uri(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = percent_decoded(rest)?;
    // `file:///C:/a.png`
    let has_drive = path.strip_prefix('/').filter(|rest| rest.as_bytes().get(1) == Some(&b':'));
    Some(has_drive.map_or(path.clone(), str::to_owned))
}

/// Decodes percent escapes; `None` if the result is not UTF-8. Malformed escapes are kept.
fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

/// Decodes the images of a request.
pub(super) fn sources(inputs: &[ImageInput]) -> Result<Vec<ImageSource>, Error> {
    let decoded = inputs.iter().enumerate().map(|(number, input)| match input {
        ImageInput::Path(path) | ImageInput::File(ImageFile { path }) => Ok(ImageSource::File(PathBuf::from(path))),
        ImageInput::Opened(opened) => Ok(ImageSource::Opened(opened.clone())),
        ImageInput::Data(ImageData { data, .. }) => {
            decode(data).map(ImageSource::Bytes).ok_or_else(|| RequestError::NotBase64 { number }.into())
        }
    });
    decoded.collect()
}

/// Decodes base64 leniently: padded or not, in either alphabet, with line breaks, or as a data URL.
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
    fn decodes_every_common_form_of_base64() {
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
    fn a_file_uri_is_a_path() {
        for (uri, path) in [
            ("file:///tmp/a%20b.png", "/tmp/a b.png"),
            ("file://localhost/tmp/a.png", "/tmp/a.png"),
            ("file:///C:/a.png", "C:/a.png"),
            ("/tmp/file.png", "/tmp/file.png"),
        ] {
            let mut input = ImageInput::Path(uri.to_owned());
            input.take_file_uri();
            assert_eq!(input, ImageInput::Path(path.to_owned()));
        }
    }

    #[test]
    fn an_image_has_three_spellings_and_no_others() {
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
