//! PNG: a sequence of chunks. Texts may come after the pixels, and some tools append chunks after `IEND`, so the file
//! is walked to its end.

use std::io::{self, Read, Seek};

use flate2::read::ZlibDecoder;

use super::bytes::{ByteOrder, u32_at};
use super::input::MediaInput;
use super::{Slot, Texts, exif, jumbf, text};

/// The first bytes of a PNG.
pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";
/// The keyword of XMP in a PNG.
const XMP_KEYWORD: &str = "XML:com.adobe.xmp";

/// The maximum number of chunks visited; an image of many small pieces has some tens of thousands.
const MAX_CHUNKS: usize = 1_000_000;

/// Lists the texts of a PNG.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(8)?;
    let mut ended = false;
    for _ in 0..MAX_CHUNKS {
        let at = input.at();
        let Some([a, b, c, d, kind @ ..]) = input.array::<8>()? else {
            if !ended {
                texts.note(format!("the PNG has no IEND chunk; it ends at byte {at}"));
            }
            return Ok(());
        };
        let length = u64::from(u32::from_be_bytes([a, b, c, d]));
        let known = [*b"tEXt", *b"zTXt", *b"iTXt", *b"eXIf", *b"caBX", *b"comf", *b"IEND"].contains(&kind);
        if ended && !known {
            // Other data that was appended to the file.
            return Ok(());
        }
        if !kind.iter().all(u8::is_ascii_alphabetic) {
            texts.note(format!("no PNG chunk begins at byte {at}, where one should"));
            return Ok(());
        }
        let kind: &[u8; 4] = &kind;
        let whole = length <= input.left();
        match kind {
            b"IEND" => {
                ended = true;
                input.skip(length)?;
            }
            b"IHDR" => {
                let head = input.bytes(length.min(13))?;
                texts.width = u32_at(&head, 0, ByteOrder::Big);
                texts.height = u32_at(&head, 4, ByteOrder::Big);
                texts.alpha = matches!(head.get(9), Some(4 | 6));
                input.skip(length.saturating_sub(13))?;
            }
            b"tEXt" | b"zTXt" | b"iTXt" | b"comf" | b"eXIf" if length > texts.room() => {
                texts.note(format!("a text of {length} bytes is left out, at byte {at}"));
                input.skip(length)?;
            }
            b"tEXt" => keyed(&input.bytes(length)?, "tEXt", at, texts),
            b"comf" => keyed(&input.bytes(length)?, "comf", at, texts),
            b"zTXt" => compressed(&input.bytes(length)?, at, texts),
            b"iTXt" => international(&input.bytes(length)?, at, texts),
            b"caBX" if length <= jumbf::MAX_BYTES => jumbf::read(&input.bytes(length)?, at, texts),
            b"eXIf" => exif::read(&input.bytes(length)?, at + 8, texts),
            _ => {
                input.skip(length)?;
            }
        }
        if !whole || !input.skip(4)? {
            if !ended {
                texts.note(format!("the PNG ends inside the chunk at byte {at}"));
            }
            return Ok(());
        }
    }
    texts.note(format!("only the first {MAX_CHUNKS} chunks were visited"));
    Ok(())
}

/// Reads `keyword NUL text`.
fn keyed(bytes: &[u8], chunk: &'static str, at: u64, texts: &mut Texts) {
    let (key, value) = split_nul(bytes).unwrap_or((b"", bytes));
    add(chunk, at, key, value, texts);
}

/// Reads `keyword NUL method zlib`.
fn compressed(bytes: &[u8], at: u64, texts: &mut Texts) {
    let Some((key, [_, deflated @ ..])) = split_nul(bytes) else {
        return texts.note(format!("the zTXt chunk at byte {at} has no text"));
    };
    match texts.inflate(ZlibDecoder::new(deflated), true) {
        Some(value) => add("zTXt", at, key, &value, texts),
        None => texts.note(format!("the zTXt chunk at byte {at} cannot be inflated")),
    }
}

/// Reads `keyword NUL compressed method language NUL translated NUL text`.
fn international(bytes: &[u8], at: u64, texts: &mut Texts) {
    let parts = split_nul(bytes).and_then(|(key, rest)| {
        let [flag, _, rest @ ..] = rest else { return None };
        let (_, rest) = split_nul(rest)?;
        let (_, value) = split_nul(rest)?;
        Some((key, *flag, value))
    });
    let Some((key, flag, value)) = parts else {
        return texts.note(format!("the iTXt chunk at byte {at} has no text"));
    };
    let value = match flag {
        0 => Some(value.to_vec()),
        _ => texts.inflate(ZlibDecoder::new(value), true),
    };
    let Some(value) = value else {
        return texts.note(format!("the iTXt chunk at byte {at} cannot be inflated"));
    };
    add("iTXt", at, key, &value, texts);
}

/// Adds a text under its keyword. An XMP packet belongs into `iTXt`, but tools that save a copy of an image may put it
/// into a chunk of another kind.
fn add(chunk: &'static str, at: u64, key: &[u8], value: &[u8], texts: &mut Texts) {
    let key = text::decode(key);
    let slot = if key == XMP_KEYWORD { Slot::Xmp } else { Slot::PngChunk(chunk) };
    texts.add(slot, at, key, trimmed(value));
}

fn split_nul(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(0, bytes)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// Decodes a text without the trailing NULs that some tools write.
fn trimmed(bytes: &[u8]) -> String {
    let mut value = text::decode(bytes);
    value.truncate(value.trim_end_matches('\0').len());
    value
}
