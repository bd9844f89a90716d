//! Detects the type of a file and the size of its image from its first bytes, without decoding it.

use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::{ImageFormat, ImageReader, Limits};
use retake_recipe::metadata::{Format, read_outline};

use super::profile;

/// The media type of a file that is not an image or video of a known type.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The maximum number of bytes read. Cameras and editors put megabytes of metadata before the first pixel, but not
/// more.
const MAX_HEADER_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum allocation for reading a header.
const MAX_ALLOC: u64 = 64 * 1024 * 1024;

/// The type and size of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The media type.
    pub mime_type: &'static str,
    /// The width, if it could be read.
    pub width: Option<u32>,
    /// The height, if it could be read.
    pub height: Option<u32>,
}

impl Header {
    /// The header of an unknown type.
    pub const UNKNOWN: Header = Header { mime_type: UNKNOWN_TYPE, width: None, height: None };

    /// Reads the header from the contents of a file, or from their beginning.
    pub fn of(bytes: &[u8]) -> Header {
        let mime_type = sniff(bytes);
        let size = match mime_type {
            _ if !profile::is_bounded(bytes, mime_type) => None,
            "image/png" => decoded_size(bytes, ImageFormat::Png),
            "image/jpeg" => decoded_size(bytes, ImageFormat::Jpeg),
            "image/webp" => decoded_size(bytes, ImageFormat::WebP),
            "image/gif" => gif_size(bytes),
            UNKNOWN_TYPE => None,
            // For types that are not decoded, the size is in the container.
            _ => read_outline(Cursor::new(bytes)).ok().and_then(|outline| outline.width.zip(outline.height)),
        };
        Header { mime_type, width: size.map(|(width, _)| width), height: size.map(|(_, height)| height) }
    }
}

/// Reads the header of a file.
pub(super) fn read(file: impl Read) -> Header {
    let mut bytes = Vec::new();
    // What was read before an error still determines the type.
    let _ = file.take(MAX_HEADER_BYTES).read_to_end(&mut bytes);
    Header::of(&bytes)
}

/// Detects the media type by signatures that do not occur in other formats by chance.
pub(super) fn sniff(bytes: &[u8]) -> &'static str {
    match Format::of(bytes) {
        Some(format) => format.mime_type(),
        None if bytes.starts_with(b"v/1\x01") => "image/x-exr",
        None => UNKNOWN_TYPE,
    }
}

/// Returns whether images of this media type are decoded.
pub fn is_decoded(mime_type: &str) -> bool {
    matches!(mime_type, "image/png" | "image/jpeg" | "image/webp" | "image/gif")
}

fn decoded_size(bytes: &[u8], format: ImageFormat) -> Option<(u32, u32)> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_ALLOC);
    reader.limits(limits);
    // A decoder that panics on a malformed file must not fail the recording.
    catch_unwind(AssertUnwindSafe(|| reader.into_dimensions().ok())).ok().flatten()
}

fn gif_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let side = |offset: usize| Some(u32::from(u16::from_le_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?)));
    Some((side(6)?, side(8)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(format: ImageFormat, width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image::RgbImage::new(width, height).write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn type_and_size_are_read() {
        for (format, mime_type) in
            [(ImageFormat::Png, "image/png"), (ImageFormat::Jpeg, "image/jpeg"), (ImageFormat::WebP, "image/webp")]
        {
            let header = Header::of(&encoded(format, 31, 17));
            assert_eq!(header, Header { mime_type, width: Some(31), height: Some(17) });
        }
        let gif = Header::of(b"GIF89a\x40\x01\xf0\x00rest");
        assert_eq!(gif, Header { mime_type: "image/gif", width: Some(320), height: Some(240) });
    }

    #[test]
    fn other_files_have_an_unknown_type() {
        for bytes in [
            &b""[..],
            b"P3 prompt",
            b"BMW at night",
            b"RIFFxxxxWAVE",
            b"\x89PN",
            b"<svg/>",
            b"ID3",
            b"The wide road",
            b"the ftyp box",
        ] {
            assert_eq!(Header::of(bytes), Header::UNKNOWN, "{bytes:?}");
        }
    }

    #[test]
    fn a_truncated_or_damaged_file_keeps_its_type() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP] {
            let whole = encoded(format, 64, 64);
            let known = Header::of(&whole).mime_type;
            for end in 12..whole.len().min(400) {
                assert_eq!(Header::of(&whole[..end]).mime_type, known);
            }
            for at in 12..whole.len().min(400) {
                let mut damaged = whole.clone();
                damaged[at] ^= 0xff;
                assert_eq!(Header::of(&damaged).mime_type, known);
            }
        }
    }

    #[test]
    fn a_decompression_bomb_costs_nothing() {
        // 60000 × 60000 pixels would be 10 GB; only the header is read.
        let mut png = encoded(ImageFormat::Png, 1, 1);
        png[16..20].copy_from_slice(&60_000u32.to_be_bytes());
        png[20..24].copy_from_slice(&60_000u32.to_be_bytes());
        let crc = crc32fast::hash(&png[12..29]);
        png[29..33].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(Header::of(&png).mime_type, "image/png");
    }
}
