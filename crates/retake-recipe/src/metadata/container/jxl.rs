//! JPEG XL: a bare codestream, which has no texts, or boxes, which may be compressed.

use std::io::{self, Read, Seek};

use brotli_decompressor::Decompressor;

use super::bmff::{Head, capped, exif_block};
use super::input::MediaInput;
use super::{Slot, Texts, jumbf, text};

/// The first bytes of a bare codestream.
pub(super) const CODESTREAM: &[u8] = &[0xff, 0x0a];
/// The first bytes of a JPEG XL file in boxes.
pub(super) const CONTAINER: &[u8] = b"\0\0\0\x0cJXL \r\n\x87\n";

/// Reads the size of the image from the beginning of its codestream.
pub(super) fn size(codestream: &[u8], texts: &mut Texts) {
    let Some(bytes) = codestream.strip_prefix(CODESTREAM) else { return };
    let mut bits = CodestreamBits { bytes, at: 0 };
    if let Some((width, height)) = read_size(&mut bits) {
        (texts.width, texts.height) = (Some(width), Some(height));
    }
}

/// Reads a box whose contents are compressed with Brotli.
pub(super) fn compressed_box<R: Read + Seek>(
    input: &mut MediaInput<R>,
    head: Head,
    texts: &mut Texts,
) -> io::Result<()> {
    let Some(kind) = input.array::<4>()? else { return Ok(()) };
    if ![*b"Exif", *b"xml ", *b"jumb"].contains(&kind) {
        return Ok(());
    }
    let packed = capped(input, head, texts.room(), "compressed box", texts)?;
    let Some(contents) = texts.inflate(Decompressor::new(packed.as_slice(), 4096), false) else {
        texts.note(format!("a compressed box cannot be unpacked, at byte {}", head.start));
        return Ok(());
    };
    match &kind {
        b"Exif" => exif_block(&contents, head.start, texts),
        b"xml " => texts.add(Slot::Xmp, head.start, "XMP", text::ascii(&contents)),
        _ => {
            let size = u32::try_from(contents.len().saturating_add(8)).unwrap_or(0);
            let store = [&size.to_be_bytes(), b"jumb".as_slice(), &contents].concat();
            jumbf::read(&store, head.start, texts);
        }
    }
    Ok(())
}

/// Parses `SizeHeader`: the height, then a ratio that determines the width, or the width itself.
fn read_size(bits: &mut CodestreamBits<'_>) -> Option<(u32, u32)> {
    let small = bits.take(1)? == 1;
    let side = |bits: &mut CodestreamBits<'_>| {
        if small {
            return Some((bits.take(5)? + 1) * 8);
        }
        let length = match bits.take(2)? {
            0 => 9,
            1 => 13,
            2 => 18,
            _ => 30,
        };
        Some(bits.take(length)? + 1)
    };
    let height = side(bits)?;
    let scaled = |times: u64, by: u64| u32::try_from(u64::from(height) * times / by).ok();
    let width = match bits.take(3)? {
        1 => height,
        2 => scaled(12, 10)?,
        3 => scaled(4, 3)?,
        4 => scaled(3, 2)?,
        5 => scaled(16, 9)?,
        6 => scaled(5, 4)?,
        7 => scaled(2, 1)?,
        _ => side(bits)?,
    };
    Some((width, height))
}

/// The bits of a codestream, least significant first.
struct CodestreamBits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl CodestreamBits<'_> {
    fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for place in 0..count {
            let bit = self.bytes.get(self.at / 8)? >> (self.at % 8) & 1;
            value |= u32::from(bit) << place;
            self.at += 1;
        }
        Some(value)
    }
}
