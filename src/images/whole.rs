//! Detects whether a file that is being written is complete, by how it ends: a size that no longer changes may only be a
//! pause.

use std::fs::File;
use std::io;
use std::path::Path;

use super::header::Header;
use crate::disk::read_at;

/// How much of an image file has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it: it ends as its format ends.
    Whole,
    /// Only a part.
    Partly,
    /// The end of this type of file cannot be recognised: only its size can tell.
    Unknown,
}

/// The part of a JPEG in which its end is searched: tools append little after it.
const JPEG_TAIL: usize = 64 * 1024;

/// Checks the beginning and the end of a file.
pub fn written(path: &Path) -> io::Result<Written> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let first = read_at(&file, 0, 64)?;
    let tail = |bytes: usize| read_at(&file, length.saturating_sub(bytes as u64), bytes);
    let whole = match Header::of(&first).mime_type {
        // Some tools append a few bytes.
        "image/png" => tail(64)?.windows(8).any(|part| part == b"IEND\xae\x42\x60\x82"),
        "image/jpeg" => tail(JPEG_TAIL)?.windows(2).any(|part| part == b"\xff\xd9"),
        "image/webp" => {
            let size = first.get(4..8).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
            size.is_some_and(|size| length >= u64::from(size) + 8)
        }
        "image/gif" => tail(1)? == b"\x3b",
        _ => return Ok(Written::Unknown),
    };
    Ok(if whole { Written::Whole } else { Written::Partly })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_if_it_ends_as_its_format_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("picture");
        for format in [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::WebP] {
            let mut bytes = io::Cursor::new(Vec::new());
            image::RgbImage::from_fn(40, 30, |x, y| image::Rgb([x, y, 9].map(|side| side.to_le_bytes()[0])))
                .write_to(&mut bytes, format)
                .unwrap();
            let bytes = bytes.into_inner();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(written(&path).unwrap(), Written::Whole, "{format:?}");
            for end in [20, bytes.len() / 2, bytes.len() - 9] {
                std::fs::write(&path, &bytes[..end]).unwrap();
                assert_eq!(written(&path).unwrap(), Written::Partly, "{format:?} cut at {end}");
            }
        }
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(written(&path).unwrap(), Written::Unknown);
        std::fs::write(&path, "").unwrap();
        assert_eq!(written(&path).unwrap(), Written::Unknown);
    }
}
