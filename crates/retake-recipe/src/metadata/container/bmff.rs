//! The ISO base media file format: AVIF, HEIC, JPEG XL, MP4 and QuickTime all consist of nested boxes.
//!
//! Boxes are walked without loading them, so a video of any length costs a few reads. Texts are in `moov/udta` and
//! `moov/meta` (see [`super::quicktime`]), in items of a still image (see [`super::heif`]), in `Exif`, `xml ` and
//! `brob` boxes of JPEG XL, and in `uuid` boxes (XMP, C2PA).

use std::io::{self, ErrorKind, Read, Seek};

use super::bytes::{ByteOrder, u32_at};
use super::heif::{self, Item, ItemKind};
use super::input::MediaInput;
use super::{Format, Slot, Texts, exif, jumbf, jxl, quicktime, text};

/// The maximum number of boxes visited in one file.
const MAX_BOXES: usize = 50_000;
/// The maximum nesting depth of boxes.
const MAX_DEPTH: usize = 8;
/// The maximum size of a still image's item directory.
const MAX_META: u64 = 4 * 1024 * 1024;

/// The `uuid` of a box that holds XMP.
const XMP_UUID: [u8; 16] = *b"\xbe\x7a\xcf\xcb\x97\xa9\x42\xe8\x9c\x71\x99\x94\x91\xe3\xaf\xac";
/// The `uuid` of a box that holds a C2PA manifest store.
const C2PA_UUID: [u8; 16] = *b"\xd8\xfe\xc3\xd6\x1b\x0e\x48\x3c\x92\x97\x58\x28\x87\x7e\xc4\x81";

/// The header of a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) kind: [u8; 4],
    /// The offset of the box.
    pub(super) start: u64,
    /// The end of its contents, at most the end of its parent.
    pub(super) end: u64,
}

impl Head {
    /// Returns the number of bytes left in the box.
    pub(super) fn left<R: Read + Seek>(&self, input: &MediaInput<R>) -> u64 {
        self.end.saturating_sub(input.at())
    }
}

/// The state of a walk.
#[derive(Default)]
pub(super) struct BoxWalk {
    visited: usize,
    /// Items of a still image in boxes that were not reached yet.
    items: Vec<Item>,
    /// The names of numbered metadata items.
    pub(super) keys: Vec<String>,
}

/// Lists the texts of a file made of boxes.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    let mut walk = BoxWalk::default();
    let end = input.at().saturating_add(input.left());
    walk.boxes(input, end, 0, texts)?;
    // Items before their directory: only a seekable input can go back.
    for item in std::mem::take(&mut walk.items) {
        match input.seek_to(item.offset) {
            Ok(()) => take_item(input, item, texts)?,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                texts.note(format!("the {} at byte {} was already passed in this stream", item.kind, item.offset));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl BoxWalk {
    /// Visits the boxes up to `end`.
    pub(super) fn boxes<R: Read + Seek>(
        &mut self,
        input: &mut MediaInput<R>,
        end: u64,
        depth: usize,
        texts: &mut Texts,
    ) -> io::Result<()> {
        while input.at().saturating_add(8) <= end {
            if self.visited >= MAX_BOXES {
                texts.note(format!("only the first {MAX_BOXES} boxes were visited"));
                input.seek_to(end)?;
                return Ok(());
            }
            self.visited += 1;
            let Some(head) = head(input, end, texts)? else { return Ok(()) };
            self.visit(input, head, depth, texts)?;
            input.seek_to(head.end.max(input.at()))?;
        }
        Ok(())
    }

    fn visit<R: Read + Seek>(
        &mut self,
        input: &mut MediaInput<R>,
        head: Head,
        depth: usize,
        texts: &mut Texts,
    ) -> io::Result<()> {
        let left = head.left(input);
        match &head.kind {
            b"moov" | b"trak" | b"udta" if depth < MAX_DEPTH => {
                if head.kind == *b"udta" {
                    return quicktime::user_data(self, input, head, depth, texts);
                }
                self.boxes(input, head.end, depth + 1, texts)
            }
            b"meta" if depth == 0 && texts.format.is_some_and(Format::is_still) => {
                if left > MAX_META {
                    texts.note(format!("an item directory of {left} bytes is not read, at byte {}", head.start));
                    return Ok(());
                }
                let offset = input.at();
                let directory = heif::read(&input.bytes(left)?, offset);
                texts.width = texts.width.or(directory.width);
                texts.height = texts.height.or(directory.height);
                self.items.extend(directory.items);
                self.items.sort_by_key(|item| item.offset);
                Ok(())
            }
            b"meta" if depth < MAX_DEPTH => quicktime::meta(self, input, head, depth, texts),
            b"tkhd" => {
                quicktime::track_size(&input.bytes(left.min(104))?, texts);
                Ok(())
            }
            b"mdat" | b"idat" => self.take_items_in(input, head, texts),
            b"uuid" => uuid(input, head, texts),
            b"jumb" => {
                let begins = head.start;
                input.back(8)?;
                let store = capped(input, head, jumbf::MAX_BYTES, "C2PA manifest store", texts)?;
                jumbf::read(&store, begins, texts);
                Ok(())
            }
            b"Exif" => {
                let block = capped(input, head, texts.room(), "EXIF block", texts)?;
                exif_block(&block, head.start + 8, texts);
                Ok(())
            }
            b"xml " => {
                let packet = capped(input, head, texts.room(), "XMP packet", texts)?;
                texts.add(Slot::Xmp, head.start, "XMP", text::ascii(&packet));
                Ok(())
            }
            b"brob" => jxl::compressed_box(input, head, texts),
            b"jxlc" => {
                jxl::size(&input.bytes(left.min(16))?, texts);
                Ok(())
            }
            b"jxlp" => {
                // The part number comes first; only the first part has the header.
                if let [0, 0, 0, 0, codestream @ ..] | [0x80, 0, 0, 0, codestream @ ..] =
                    input.bytes(left.min(20))?.as_slice()
                {
                    jxl::size(codestream, texts);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads the items in this box, in the order of the file.
    fn take_items_in<R: Read + Seek>(
        &mut self,
        input: &mut MediaInput<R>,
        head: Head,
        texts: &mut Texts,
    ) -> io::Result<()> {
        let (inside, other) = std::mem::take(&mut self.items)
            .into_iter()
            .partition::<Vec<Item>, _>(|item| (head.start..head.end).contains(&item.offset));
        self.items = other;
        for item in inside {
            if item.offset >= input.at() {
                input.seek_to(item.offset)?;
                take_item(input, item, texts)?;
            } else {
                // Overlapping items are left for the end, where a seekable input can go back.
                self.items.push(item);
            }
        }
        Ok(())
    }
}

/// Reads the header of a box; `None` if no box can start here.
fn head<R: Read + Seek>(input: &mut MediaInput<R>, parent_end: u64, texts: &mut Texts) -> io::Result<Option<Head>> {
    let start = input.at();
    let Some([a, b, c, d, kind @ ..]) = input.array::<8>()? else { return Ok(None) };
    let mut size = u64::from(u32::from_be_bytes([a, b, c, d]));
    let mut length = 8;
    if size == 1 {
        let Some(long) = input.array::<8>()? else { return Ok(None) };
        (size, length) = (u64::from_be_bytes(long), 16);
    }
    let end = if size == 0 { parent_end } else { start.saturating_add(size) };
    if size != 0 && size < length {
        // Four zero bytes end a QuickTime list.
        if (size, kind) != (0, [0; 4]) {
            texts.note(format!("a box of {size} bytes is too small, at byte {start}"));
        }
        return Ok(None);
    }
    if end > parent_end {
        texts.note(format!("the file ends inside the {:?} box at byte {start}", String::from_utf8_lossy(&kind)));
    }
    Ok(Some(Head { kind, start, end: end.min(parent_end) }))
}

/// Reads the rest of a box; if it is larger than `most`, adds a note instead.
pub(super) fn capped<R: Read + Seek>(
    input: &mut MediaInput<R>,
    head: Head,
    most: u64,
    what: &str,
    texts: &mut Texts,
) -> io::Result<Vec<u8>> {
    let left = head.left(input);
    if left > most {
        texts.note(format!("a {what} of {left} bytes is left out, at byte {}", head.start));
        return Ok(Vec::new());
    }
    input.bytes(left)
}

fn take_item<R: Read + Seek>(input: &mut MediaInput<R>, item: Item, texts: &mut Texts) -> io::Result<()> {
    if item.length > texts.room() {
        texts.note(format!("a {} of {} bytes is left out, at byte {}", item.kind, item.length, item.offset));
        return Ok(());
    }
    let bytes = input.bytes(item.length)?;
    match item.kind {
        ItemKind::Exif => exif_block(&bytes, item.offset, texts),
        ItemKind::Xmp => texts.add(Slot::Xmp, item.offset, "XMP", text::ascii(&bytes)),
    }
    Ok(())
}

/// Reads EXIF after the offset of its TIFF header.
pub(super) fn exif_block(block: &[u8], offset: u64, texts: &mut Texts) {
    let Some(skip) = u32_at(block, 0, ByteOrder::Big) else { return };
    let start = usize::try_from(skip).ok().and_then(|skip| skip.checked_add(4)).filter(|start| *start < block.len());
    // Some writers omit the offset.
    let start = start.unwrap_or(if exif::byte_order(block).is_some() { 0 } else { 4 });
    let rest = block.get(start..).unwrap_or_default();
    exif::read(rest, offset + u64::try_from(start).unwrap_or(0), texts);
}

fn uuid<R: Read + Seek>(input: &mut MediaInput<R>, head: Head, texts: &mut Texts) -> io::Result<()> {
    let Some(id) = input.array::<16>()? else { return Ok(()) };
    if id == XMP_UUID {
        let packet = capped(input, head, texts.room(), "XMP packet", texts)?;
        texts.add(Slot::Xmp, head.start, "XMP", text::ascii(&packet));
    } else if id == C2PA_UUID {
        // Version and flags, a NUL-terminated purpose, and for a manifest the offset of the hashes.
        let store = capped(input, head, jumbf::MAX_BYTES, "C2PA manifest store", texts)?;
        let purpose = store.get(4..).and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default();
        if ["manifest".as_bytes(), b"original", b"update"].contains(&purpose) {
            jumbf::read(store.get(4 + purpose.len() + 1 + 8..).unwrap_or_default(), head.start, texts);
        }
    }
    Ok(())
}
