//! Reads generation metadata within the memory budget shared by all decoded images.

use std::io;
use std::path::Path;

pub use retake_recipe::metadata::*;

use super::decode::decode;

/// Reads the metadata of an image file, and of sidecar files that its generator wrote.
pub fn read_file(path: &Path) -> io::Result<Reading> {
    read_with(path, &pixels)
}

/// Reads the metadata of an image file like [`read_file`], given its bytes.
pub fn read_file_bytes(path: &Path, bytes: &[u8]) -> io::Result<Reading> {
    read_contents_with(path, io::Cursor::new(bytes), &pixels)
}

/// Reads the metadata of an image from its bytes.
pub fn read(bytes: &[u8]) -> Reading {
    read_bytes_with(bytes, &pixels)
}

/// Passes the pixels to `lend` while the image holds its part of the budget.
fn pixels(bytes: &[u8], lend: &mut dyn FnMut(Pixels<'_>)) {
    if let Ok(picture) = decode(bytes)
        && let Some(pixels) = picture.pixels().as_rgba8()
    {
        lend(Pixels { width: pixels.width(), rgba: pixels.as_raw() });
    }
}
