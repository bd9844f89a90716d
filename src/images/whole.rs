//! Whether a file that is being written has been written to its end: told from how it ends, since a length that stands
//! still may only be a pause.

use std::fs::File;
use std::io;
use std::path::Path;

use super::header::Header;
use crate::disk::read_at;

/// Whether a picture is written to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Its end is there.
    Whole,
    /// Its end is still to come.
    Partly,
    /// It is of a type whose end cannot be told, or of none: only a length that stands still says something.
    Unknown,
}

/// Where a JPEG's end may be: tools put little behind it.
const JPEG_TAIL: usize = 64 * 1024;

/// Looks at the beginning and the end of a file.
pub fn written(path: &Path) -> io::Result<Written> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let first = read_at(&file, 0, 64)?;
    let tail = |bytes: usize| read_at(&file, length.saturating_sub(bytes as u64), bytes);
    let whole = match Header::of(&first).mime_type {
        // Some tools append a few bytes, and a text chunk may come last but one.
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
    fn a_picture_is_whole_when_its_end_is_there() {
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
