//! Detects from its end whether a file being written is complete, since a size that stays the same may only be a pause.

use std::fs::File;
use std::io;
use std::path::Path;

use super::header::Header;
use crate::disk::read_at;

/// How much of an image file has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// All of it: it ends as its format requires.
    Complete,
    /// Only a part.
    Partial,
    /// The end of this type of file cannot be recognised: only its size can tell.
    Unknown,
}

/// The size of the tail in which the end of a JPEG is searched: tools append little after it.
const JPEG_TAIL: usize = 64 * 1024;

/// Checks the beginning and the end of a file.
pub fn completeness(path: &Path) -> io::Result<Completeness> {
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
        "video/mp4" | "video/quicktime" => has_all_boxes(&file, length)?,
        "video/webm" | "video/x-matroska" => match segment_end(&first) {
            Some(end) => length >= end,
            // Encoders write the length of the segment at the end, and some never do.
            None => return Ok(Completeness::Unknown),
        },
        _ => return Ok(Completeness::Unknown),
    };
    Ok(if whole { Completeness::Complete } else { Completeness::Partial })
}

/// The maximum number of boxes visited in a video: fragments of long recordings have one or two each.
const MAX_BOXES: usize = 10_000;

/// Returns whether the boxes of a video end where the file ends, and include its directory, which encoders write last.
fn has_all_boxes(file: &File, length: u64) -> io::Result<bool> {
    let (mut at, mut has_directory) = (0_u64, false);
    for _ in 0..MAX_BOXES {
        if at >= length {
            break;
        }
        let head = read_at(file, at, 16)?;
        let (Some(size), Some(kind)) = (head.first_chunk::<4>(), head.get(4..8)) else { return Ok(false) };
        has_directory |= kind == b"moov";
        let size = match (u32::from_be_bytes(*size), head.last_chunk::<8>()) {
            // This box extends to the end of the file, wherever that is.
            (0, _) => return Ok(has_directory),
            (1, Some(long)) if head.len() == 16 => u64::from_be_bytes(*long),
            (size, _) => u64::from(size),
        };
        if size < 8 {
            // Some tools append zeros after the last box.
            return Ok(has_directory);
        }
        at = at.saturating_add(size);
    }
    Ok(has_directory && at <= length)
}

/// Returns the end of the segment of a Matroska file, given its beginning: the header and then the segment.
fn segment_end(first: &[u8]) -> Option<u64> {
    let (header, length) = element_size(first.get(4..)?)?;
    let segment = 4 + length + usize::try_from(header?).ok()?;
    let rest = first.get(segment..)?.strip_prefix(b"\x18\x53\x80\x67")?;
    let (size, length) = element_size(rest)?;
    (segment as u64 + 4 + length as u64).checked_add(size?)
}

/// Returns the size of a Matroska element, `None` if it is unknown (all bits set), and the number of bytes of the size
/// field.
fn element_size(bytes: &[u8]) -> Option<(Option<u64>, usize)> {
    let first = *bytes.first()?;
    let length = usize::try_from(first.leading_zeros()).ok()? + 1;
    let stated = bytes.get(..length).filter(|_| length <= 8)?;
    let mask = 0xff_u64 >> length;
    let known = u64::from(first) & mask != mask || stated.iter().skip(1).any(|byte| *byte != 0xff);
    let size = stated.iter().skip(1).fold(u64::from(first) & mask, |size, byte| size << 8 | u64::from(*byte));
    Some((known.then_some(size), length))
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
            assert_eq!(completeness(&path).unwrap(), Completeness::Complete, "{format:?}");
            for end in [20, bytes.len() / 2, bytes.len() - 9] {
                std::fs::write(&path, &bytes[..end]).unwrap();
                assert_eq!(completeness(&path).unwrap(), Completeness::Partial, "{format:?} cut at {end}");
            }
        }
        for video in [retake_testutils::videos::WEBM, retake_testutils::videos::MP4] {
            std::fs::write(&path, video).unwrap();
            assert_eq!(completeness(&path).unwrap(), Completeness::Complete);
            for end in [48, video.len() / 2, video.len() - 9] {
                std::fs::write(&path, &video[..end]).unwrap();
                assert_eq!(completeness(&path).unwrap(), Completeness::Partial, "cut at {end}");
            }
        }
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(completeness(&path).unwrap(), Completeness::Unknown);
        std::fs::write(&path, "").unwrap();
        assert_eq!(completeness(&path).unwrap(), Completeness::Unknown);
    }
}
