//! Images for tests, as the bytes of PNG files.

use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::{GrayImage, ImageFormat, Luma, RgbImage};

use crate::Random;

/// The smallest PNG: one black pixel.
pub const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0x60, 0, 0, 0, 2, 0,
    1, 0x48, 0xaf, 0xa4, 0x71, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// [`PIXEL`] in base64.
pub const PIXEL_BASE64: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/// Encodes an image as PNG.
pub fn encode(image: &RgbImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

/// Returns a PNG of one shade of grey.
pub fn plain(width: u32, height: u32, shade: u8) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    GrayImage::from_pixel(width, height, Luma([shade])).write_to(&mut file, ImageFormat::Png).unwrap();
    file.into_inner()
}

/// Returns a PNG of 16 × 16 pixels in a unique pattern, with these `tEXt` chunks.
pub fn patterned(pattern: u64, texts: &[(&str, &str)]) -> Vec<u8> {
    patterned_at(pattern, 16, texts)
}

/// Returns the same image as [`patterned`] at another size, a multiple of 8.
pub fn patterned_at(pattern: u64, side: u32, texts: &[(&str, &str)]) -> Vec<u8> {
    let mut random = Random::new(pattern);
    let cells: Vec<u8> = (0..64).map(|_| random.next_u64().to_le_bytes()[0]).collect();
    let mut rows = Vec::new();
    for y in 0..side {
        rows.push(0);
        rows.extend((0..side).map(|x| cells[(y * 8 / side * 8 + x * 8 / side) as usize]));
    }
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::none());
    zlib.write_all(&rows).unwrap();
    let size = side.to_be_bytes();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &[&size[..], &size[..], &[8, 0, 0, 0, 0]].concat()));
    for (key, text) in texts {
        file.extend(chunk(b"tEXt", &[key.as_bytes(), b"\0", text.as_bytes()].concat()));
    }
    file.extend(chunk(b"IDAT", &zlib.finish().unwrap()));
    file.extend(chunk(b"IEND", b""));
    file
}

/// Returns a chunk of a PNG.
pub fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(&[kind, data].concat());
    [&u32::try_from(data.len()).unwrap().to_be_bytes(), kind.as_slice(), data, &crc.to_be_bytes()].concat()
}
