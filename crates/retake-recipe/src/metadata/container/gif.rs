//! GIF: a sequence of blocks. Comments contain text, and application blocks contain XMP or C2PA.

use std::io::{self, Read, Seek};

use super::bytes::{ByteOrder, u16_at};
use super::input::MediaInput;
use super::{Slot, Texts, jumbf, text};

/// The maximum number of blocks visited.
const MAX_BLOCKS: usize = 100_000;

/// Lists the texts of a GIF.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(6)?;
    let Some(head) = input.array::<7>()? else { return Ok(()) };
    texts.width = u16_at(&head, 0, ByteOrder::Little).map(u32::from);
    texts.height = u16_at(&head, 2, ByteOrder::Little).map(u32::from);
    input.skip(table(head[4]))?;
    for _ in 0..MAX_BLOCKS {
        let at = input.at();
        match input.byte()? {
            Some(0x21) => match input.byte()? {
                Some(0xfe) => {
                    let bytes = blocks(input, texts.room(), false)?;
                    texts.add(Slot::GifComment, at, "Comment", text::ascii(&bytes));
                }
                Some(0xff) => application(input, at, texts)?,
                _ => {
                    blocks(input, 0, false)?;
                }
            },
            Some(0x2c) => {
                let Some(image) = input.array::<9>()? else { return Ok(()) };
                input.skip(table(image[8]) + 1)?;
                blocks(input, 0, false)?;
            }
            Some(0x3b) | None => return Ok(()),
            Some(_) => {
                texts.note(format!("no GIF block begins at byte {at}, where one should"));
                return Ok(());
            }
        }
    }
    texts.note(format!("only the first {MAX_BLOCKS} blocks were visited"));
    Ok(())
}

/// Reads an application block. XMP is written without lengths, so every 255th byte only looks like one.
fn application<R: Read + Seek>(input: &mut MediaInput<R>, at: u64, texts: &mut Texts) -> io::Result<()> {
    let name = match input.byte()? {
        Some(length) => input.bytes(u64::from(length))?,
        None => return Ok(()),
    };
    match name.as_slice() {
        b"XMP DataXMP" => {
            let bytes = blocks(input, texts.room(), true)?;
            let end = memchr::memchr(1, &bytes).unwrap_or(bytes.len());
            texts.add(Slot::Xmp, at, "XMP", text::ascii(bytes.get(..end).unwrap_or_default()));
        }
        b"C2PA_GIF\x01\0\0" => jumbf::read(&blocks(input, jumbf::MAX_BYTES, false)?, at, texts),
        _ => {
            blocks(input, 0, false)?;
        }
    }
    Ok(())
}

/// Returns the size of a colour table in bytes.
fn table(flags: u8) -> u64 {
    if flags & 0x80 == 0 { 0 } else { 3 << (u64::from(flags & 7) + 1) }
}

/// Reads sub-blocks to their end and returns at most `most` bytes of them, with or without the lengths in between.
fn blocks<R: Read + Seek>(input: &mut MediaInput<R>, most: u64, with_lengths: bool) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    while let Some(size @ 1..) = input.byte()? {
        let full = u64::try_from(kept.len()).unwrap_or(u64::MAX).saturating_add(u64::from(size) + 1) > most;
        if full {
            if !input.skip(u64::from(size))? {
                break;
            }
        } else {
            kept.extend(with_lengths.then_some(size));
            kept.append(&mut input.bytes(u64::from(size))?);
        }
    }
    Ok(kept)
}
