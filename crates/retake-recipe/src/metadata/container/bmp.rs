//! BMP: a header with the size of the image. The format cannot contain texts.

use std::io::{self, Read, Seek};

use super::Texts;
use super::bytes::{ByteOrder, u16_at, u32_at};
use super::input::MediaInput;

/// Returns whether these are the first bytes of a BMP: the signature, and a header of a known size.
pub(super) fn is_bmp(bytes: &[u8]) -> bool {
    let header = u32_at(bytes, 14, ByteOrder::Little);
    bytes.starts_with(b"BM") && matches!(header, Some(12 | 16 | 40 | 52 | 56 | 64 | 108 | 124))
}

/// Reads the size of a BMP.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    let head = input.bytes(26)?;
    let short = |at| u16_at(&head, at, ByteOrder::Little).map(u32::from);
    // A negative height means that the rows start at the top.
    let long = |at| u32_at(&head, at, ByteOrder::Little).map(|side| side.cast_signed().unsigned_abs());
    (texts.width, texts.height) = match u32_at(&head, 14, ByteOrder::Little) {
        Some(12) => (short(18), short(20)),
        _ => (long(18), long(22)),
    };
    Ok(())
}
