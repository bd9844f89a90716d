//! TIFF: directories anywhere in the file, with the tags of EXIF, XMP and IPTC among those of the image.

use std::io::{self, ErrorKind, Read, Seek};

use super::bytes::{ByteOrder, u16_at, u32_at};
use super::exif::{self, EXIF_DIRECTORY, MAX_ENTRIES};
use super::input::MediaInput;
use super::{Slot, Texts, iptc, text};

/// The maximum number of directories read.
const MAX_DIRECTORIES: usize = 16;
const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const XMP: u16 = 700;
const IPTC: u16 = 33_723;
const PHOTOSHOP: u16 = 34_377;

/// Returns whether these are the first bytes of a TIFF file.
pub(super) fn is_tiff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*")
}

/// Lists the texts of a TIFF file.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    let Some(head) = input.array::<8>()? else { return Ok(()) };
    let Some(order) = exif::byte_order(&head) else { return Ok(()) };
    let mut pending: Vec<(u32, &'static str)> = vec![(u32_at(&head, 4, order).unwrap_or(0), "IFD0")];
    let mut seen = Vec::new();
    while let Some((at, name)) = pending.pop() {
        if at < 8 || seen.contains(&at) || seen.len() >= MAX_DIRECTORIES {
            continue;
        }
        seen.push(at);
        match directory(input, at, name, order, texts) {
            Ok(found) => pending.extend(found),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                texts.note(format!("the TIFF directory at byte {at} was already passed in this stream"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads one directory and returns the directories it points to.
fn directory<R: Read + Seek>(
    input: &mut MediaInput<R>,
    at: u32,
    name: &'static str,
    order: ByteOrder,
    texts: &mut Texts,
) -> io::Result<Vec<(u32, &'static str)>> {
    input.seek_to(u64::from(at))?;
    let Some(count) = input.array::<2>()?.and_then(|count| u16_at(&count, 0, order)) else { return Ok(Vec::new()) };
    let entries = input.bytes(u64::from(count.min(MAX_ENTRIES)) * 12)?;
    let next = if count <= MAX_ENTRIES { input.array::<4>()? } else { None };
    let mut found = Vec::new();
    if let Some(next) = next.and_then(|next| u32_at(&next, 0, order)).filter(|_| name == "IFD0") {
        found.push((next, "IFD1"));
    }
    for entry in entries.chunks_exact(12) {
        let part = |at| u16_at(entry, at, order);
        let (Some(tag), Some(kind), Some(count)) = (part(0), part(2), u32_at(entry, 4, order)) else { break };
        let inline = u32_at(entry, 8, order);
        let number = if kind == 3 { part(8).map(u32::from) } else { inline };
        match tag {
            WIDTH if texts.width.is_none() => texts.width = number,
            HEIGHT if texts.height.is_none() => texts.height = number,
            EXIF_DIRECTORY => found.extend(inline.map(|at| (at, "ExifIFD"))),
            XMP | IPTC | PHOTOSHOP => {
                let width = if kind == 4 { 4 } else { 1 };
                let (value, offset) = value(input, entry, u64::from(count) * width, order, texts)?;
                match tag {
                    XMP => texts.add(Slot::Xmp, offset, "XMP", text::ascii(&value)),
                    IPTC => iptc::records(&value, offset, texts),
                    _ => iptc::resources(&value, offset, texts),
                }
            }
            // Whether a tag contains text is known without its value, so the values of others are not read.
            _ if matches!(kind, 1 | 2 | 7 | 129) && exif::tag_text(tag, kind, b"", order).is_some() => {
                let (value, offset) = value(input, entry, u64::from(count), order, texts)?;
                if let Some(text) = exif::tag_text(tag, kind, &value, order) {
                    texts.add(Slot::Exif(name), offset, exif::tag_name(tag), text);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Reads the value of an entry: from the entry if it fits, otherwise from where it points to.
fn value<R: Read + Seek>(
    input: &mut MediaInput<R>,
    entry: &[u8],
    length: u64,
    order: ByteOrder,
    texts: &mut Texts,
) -> io::Result<(Vec<u8>, u64)> {
    if length <= 4 {
        let inline = entry.get(8..).and_then(|value| value.get(..usize::try_from(length).ok()?));
        return Ok((inline.unwrap_or_default().to_vec(), input.at()));
    }
    let at = u64::from(u32_at(entry, 8, order).unwrap_or(0));
    if length > texts.room() {
        texts.note(format!("a text of {length} bytes is left out, at byte {at}"));
        return Ok((Vec::new(), at));
    }
    input.seek_to(at)?;
    Ok((input.bytes(length)?, at))
}
