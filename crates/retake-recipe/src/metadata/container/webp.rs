//! WebP: a sequence of chunks in a RIFF file.

use std::io::{self, Read, Seek};

use super::bytes::{ByteOrder, u16_at, u32_at};
use super::input::MediaInput;
use super::{Slot, Texts, exif, jumbf, text};

/// Lists the texts of a WebP.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(12)?;
    while input.left() >= 8 {
        let at = input.at();
        let Some([kind @ .., a, b, c, d]) = input.array::<8>()? else { return Ok(()) };
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        let kind: &[u8; 4] = &kind;
        if !kind.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ') {
            texts.note(format!("no WebP chunk begins at byte {at}, where one should"));
            return Ok(());
        }
        if length > input.left() {
            texts.note(format!("the WebP ends inside the chunk at byte {at}"));
        }
        match kind {
            b"VP8X" | b"VP8 " | b"VP8L" => {
                let head = input.bytes(length.min(10))?;
                size(kind, &head, texts);
                input.skip(length.saturating_sub(10))?;
            }
            b"EXIF" | b"XMP " if length > texts.room() => {
                texts.note(format!("a text of {length} bytes is left out, at byte {at}"));
                input.skip(length)?;
            }
            b"EXIF" => exif::read(&input.bytes(length)?, at + 8, texts),
            b"C2PA" if length <= jumbf::MAX_BYTES => jumbf::read(&input.bytes(length)?, at, texts),
            b"XMP " => {
                let packet = input.bytes(length)?;
                texts.add(Slot::Xmp, at, "XMP", text::ascii(&packet));
            }
            _ => {
                input.skip(length)?;
            }
        }
        // Chunks of odd length are padded by all but a few writers.
        if length % 2 == 1 && input.peek(1)?.first() == Some(&0) {
            input.skip(1)?;
        }
    }
    Ok(())
}

fn size(kind: &[u8; 4], head: &[u8], texts: &mut Texts) {
    let three = |at: usize| {
        let low = u32::from(u16_at(head, at, ByteOrder::Little)?);
        Some(low | u32::from(*head.get(at + 2)?) << 16)
    };
    let (width, height, alpha) = match kind {
        b"VP8X" => {
            (three(4).map(|w| w + 1), three(7).map(|h| h + 1), head.first().is_some_and(|flags| flags & 16 != 0))
        }
        b"VP8 " => {
            let side = |at| u16_at(head, at, ByteOrder::Little).map(|side| u32::from(side & 0x3fff));
            (side(6), side(8), false)
        }
        _ => {
            let bits = u32_at(head, 1, ByteOrder::Little);
            let side = |shift: u32| bits.map(|bits| (bits >> shift & 0x3fff) + 1);
            (side(0), side(14), bits.is_some_and(|bits| bits >> 28 & 1 == 1))
        }
    };
    texts.width = texts.width.or(width);
    texts.height = texts.height.or(height);
    texts.alpha |= alpha;
}
