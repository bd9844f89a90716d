//! GIF: a chain of blocks; only comments hold text.

use std::io::{self, Read, Seek};

use super::bytes::{Order, u16_at};
use super::input::Input;
use super::{Slot, Texts, text};

/// Lists the comments of a GIF.
pub(super) fn walk<R: Read + Seek>(input: &mut Input<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(6)?;
    let Some(head) = input.array::<7>()? else { return Ok(()) };
    texts.width = u16_at(&head, 0, Order::Little).map(u32::from);
    texts.height = u16_at(&head, 2, Order::Little).map(u32::from);
    input.skip(table(head[4]))?;
    loop {
        let at = input.at();
        match input.byte()? {
            Some(0x21) => {
                let comment = input.byte()? == Some(0xfe);
                let bytes = blocks(input, if comment { texts.room() } else { 0 })?;
                if comment {
                    texts.add(Slot::GifComment, at, "Comment", text::ascii(&bytes));
                }
            }
            Some(0x2c) => {
                let Some(picture) = input.array::<9>()? else { return Ok(()) };
                input.skip(table(picture[8]) + 1)?;
                blocks(input, 0)?;
            }
            Some(0x3b) | None => return Ok(()),
            Some(_) => {
                texts.note(format!("no block of a GIF where one should begin, at byte {at}"));
                return Ok(());
            }
        }
    }
}

/// The bytes of a colour table.
fn table(flags: u8) -> u64 {
    if flags & 0x80 == 0 { 0 } else { 3 << (u64::from(flags & 7) + 1) }
}

/// Reads a row of sub-blocks, and keeps at most so much.
fn blocks<R: Read + Seek>(input: &mut Input<R>, most: u64) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    while let Some(size @ 1..) = input.byte()? {
        let full = u64::try_from(kept.len()).unwrap_or(u64::MAX).saturating_add(u64::from(size)) > most;
        if full {
            input.skip(u64::from(size))?;
        } else {
            kept.append(&mut input.bytes(u64::from(size))?);
        }
    }
    Ok(kept)
}
