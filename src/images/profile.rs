//! Limits colour profiles, which decoders read completely before the first pixel, whatever their size.
//!
//! A profile in a PNG file is compressed, so a file of a megabyte can contain one of a gigabyte. Its size is measured
//! here before a decoder sees the file, by inflating it into a small buffer. JPEG and WebP contain uncompressed
//! profiles, but decoders copy them, so they count as well.

use std::io::Read;

use flate2::bufread::ZlibDecoder;

/// The maximum size of a profile. Those of printing presses have two or three megabytes.
pub(super) const MAX_PROFILE_BYTES: u64 = 4 * 1024 * 1024;

/// Returns whether the colour profiles in a file of this media type are small enough to be decoded.
pub(super) fn is_bounded(bytes: &[u8], mime_type: &str) -> bool {
    match mime_type {
        "image/png" => png_chunks(bytes).all(|(kind, data)| kind != b"iCCP" || inflates_within_bounds(data)),
        "image/jpeg" => jpeg_profile_bytes(bytes) <= MAX_PROFILE_BYTES,
        "image/webp" => webp_profile_bytes(bytes) <= MAX_PROFILE_BYTES,
        _ => true,
    }
}

/// Returns the chunks of a PNG file before its pixels.
fn png_chunks(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_be_bytes(rest.get(..4)?.try_into().ok()?)).ok()?;
        let kind = rest.get(4..8)?;
        // A truncated chunk counts too: a decoder may read what is there.
        let end = length.checked_add(8)?.min(rest.len());
        let data = rest.get(8..end)?;
        rest = rest.get(end.checked_add(4)?..).unwrap_or_default();
        (kind != b"IDAT").then_some((kind, data))
    })
}

/// Returns whether the profile of an iCCP chunk (name, zero, method, zlib stream) inflates to a reasonable size.
fn inflates_within_bounds(chunk: &[u8]) -> bool {
    let Some(name) = memchr::memchr(0, chunk) else { return true };
    let Some(stream) = chunk.get(name + 2..) else { return true };
    let mut inflated = ZlibDecoder::new(stream).take(MAX_PROFILE_BYTES + 1);
    let mut buffer = [0; 16 * 1024];
    let mut total = 0;
    loop {
        match inflated.read(&mut buffer) {
            Ok(0) => return total <= MAX_PROFILE_BYTES,
            Ok(read) => total += read as u64,
            // A corrupt stream also ends for the decoder, after the same number of bytes.
            Err(_) => return total <= MAX_PROFILE_BYTES,
        }
    }
}

fn jpeg_profile_bytes(bytes: &[u8]) -> u64 {
    let mut total = 0;
    let mut at = 2;
    // Only segments before the first scan, which starts the pixels.
    while let Some(&[0xff, marker]) = bytes.get(at..at + 2).and_then(|pair| <&[u8; 2]>::try_from(pair).ok()) {
        if marker == 0xff {
            at += 1;
            continue;
        }
        if matches!(marker, 0xda | 0xd9) {
            break;
        }
        let Some(length) = bytes.get(at + 2..at + 4).and_then(|length| <[u8; 2]>::try_from(length).ok()) else { break };
        let length = usize::from(u16::from_be_bytes(length)).max(2);
        if marker == 0xe2 && bytes.get(at + 4..).is_some_and(|data| data.starts_with(b"ICC_PROFILE\0")) {
            total += length as u64;
        }
        at += 2 + length;
    }
    total
}

fn webp_profile_bytes(bytes: &[u8]) -> u64 {
    let mut total = 0;
    let mut rest = bytes.get(12..).unwrap_or_default();
    while let (Some(kind), Some(length)) = (rest.get(..4), rest.get(4..8)) {
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        if kind == b"ICCP" {
            total += u64::from(length);
        }
        // Chunks are padded to an even length.
        let next = usize::try_from(u64::from(length) + u64::from(length & 1) + 8).unwrap_or(usize::MAX);
        rest = rest.get(next..).unwrap_or_default();
    }
    total
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use image::ImageFormat;

    use super::*;
    use crate::images::decode::{Undecodable, decode};
    use crate::images::header::Header;

    fn encoded(format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image::RgbImage::new(8, 8).write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    /// Returns a PNG file with a profile of this many zeros, which compress to a thousandth.
    fn png_with_profile(bytes: usize) -> Vec<u8> {
        let mut stream = ZlibEncoder::new(b"name\0\0".to_vec(), Compression::fast());
        stream.write_all(&vec![0; bytes]).unwrap();
        let data = stream.finish().unwrap();
        let chunk = [b"iCCP", &data[..]].concat();
        let chunk =
            [&u32::try_from(data.len()).unwrap().to_be_bytes()[..], &chunk, &crc32fast::hash(&chunk).to_be_bytes()];
        let png = encoded(ImageFormat::Png);
        [&png[..33], &chunk.concat(), &png[33..]].concat()
    }

    #[test]
    fn a_usual_profile_is_decoded_and_a_huge_one_is_not() {
        assert!(decode(&png_with_profile(3000)).is_ok());
        let bomb = png_with_profile(64 << 20);
        assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
        assert_eq!(decode(&bomb).err(), Some(Undecodable::TooLargeProfile));
        assert_eq!(Header::of(&bomb).mime_type, "image/png", "its type is still known");
    }

    #[test]
    fn profiles_of_jpeg_and_webp_count() {
        let segment = [&[0xff, 0xe2, 0xff, 0xff][..], b"ICC_PROFILE\0", &vec![0; 65_535 - 14]].concat();
        let jpeg = encoded(ImageFormat::Jpeg);
        let with = |count: usize| [&jpeg[..2], &segment.repeat(count), &jpeg[2..]].concat();
        assert!(is_bounded(&with(1), "image/jpeg"));
        assert!(!is_bounded(&with(65), "image/jpeg"));

        let chunk = |length: u32| [&b"RIFF\0\0\0\0WEBPICCP"[..], &length.to_le_bytes()].concat();
        assert!(is_bounded(&chunk(3000), "image/webp"));
        assert!(!is_bounded(&chunk(u32::MAX), "image/webp"));
    }

    #[test]
    fn truncated_and_malformed_files_are_read_safely() {
        let png = png_with_profile(3000);
        for end in 0..png.len() {
            is_bounded(&png[..end], "image/png");
            is_bounded(&png[..end], "image/jpeg");
            is_bounded(&png[..end], "image/webp");
        }
    }
}
