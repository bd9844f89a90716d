//! EXIF: a TIFF directory, of which the few tags with text are read. A custom reader, because it must accept what the
//! tools write: a repeated `Exif` marker, tags in the wrong directory, offsets beyond the end.

use super::bytes::{ByteOrder, u16_at, u32_at};
use super::{Slot, Texts, text};

/// The maximum number of entries read from one directory.
pub(super) const MAX_ENTRIES: u16 = 512;

/// The tag that points to the EXIF directory.
pub(super) const EXIF_DIRECTORY: u16 = 0x8769;
const USER_COMMENT: u16 = 0x9286;
const MAKER_NOTE: u16 = 0x927c;

/// Lists the texts of an EXIF block at `offset` of the file.
pub(super) fn read(block: &[u8], offset: u64, texts: &mut Texts) {
    let mark = block.strip_prefix(b"Exif\0").map_or(0, |_| 6);
    // A tool and its library may both have written the marker.
    let mark = block.get(mark..).and_then(|rest| rest.strip_prefix(b"Exif\0")).map_or(mark, |_| mark + 6);
    let Some(tiff) = block.get(mark..) else { return };
    let offset = offset + u64::try_from(mark).unwrap_or(0);
    let Some(order) = byte_order(tiff) else {
        return texts.note(format!("EXIF without a byte order mark, at byte {offset}"));
    };
    let mut tiff = Tiff { bytes: tiff, order, offset, texts };
    let Some(first) = u32_at(tiff.bytes, 4, order) else { return };
    if let Some(exif) = tiff.directory(first, "IFD0") {
        tiff.directory(exif, "ExifIFD");
    }
}

/// Returns the byte order stated in a TIFF header.
pub(super) fn byte_order(tiff: &[u8]) -> Option<ByteOrder> {
    match tiff {
        [b'I', b'I', ..] => Some(ByteOrder::Little),
        [b'M', b'M', ..] => Some(ByteOrder::Big),
        _ => None,
    }
}

/// Returns the text of a tag's value; `None` for a tag without text.
pub(super) fn tag_text(tag: u16, kind: u16, value: &[u8], order: ByteOrder) -> Option<String> {
    match (tag, kind) {
        (USER_COMMENT, _) => Some(text::user_comment(value, order)),
        (MAKER_NOTE, 2 | 7) if value.iter().all(|byte| byte.is_ascii_graphic() || matches!(byte, 0 | b' ')) => {
            Some(text::ascii(value))
        }
        (0x9c9b..=0x9c9f, 1) => Some(text::utf16_le(value)),
        // ASCII, and UTF-8 as of Exif 3.0.
        (_, 2 | 129) => Some(text::ascii(value)),
        _ => None,
    }
}

struct Tiff<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    offset: u64,
    texts: &'a mut Texts,
}

impl Tiff<'_> {
    /// Reads the texts of one directory and returns the offset of the EXIF directory, if there is one.
    fn directory(&mut self, at: u32, name: &'static str) -> Option<u32> {
        let at = usize::try_from(at).ok()?;
        let count = u16_at(self.bytes, at, self.order)?.min(MAX_ENTRIES);
        let mut exif = None;
        for entry in 0..usize::from(count) {
            let entry = at.checked_add(2 + 12 * entry)?;
            let Some(tag) = u16_at(self.bytes, entry, self.order) else { break };
            if tag == EXIF_DIRECTORY {
                exif = u32_at(self.bytes, entry + 8, self.order);
            } else {
                self.tag(tag, entry, name);
            }
        }
        exif
    }

    fn tag(&mut self, tag: u16, entry: usize, directory: &'static str) -> Option<()> {
        let kind = u16_at(self.bytes, entry + 2, self.order)?;
        let count = usize::try_from(u32_at(self.bytes, entry + 4, self.order)?).ok()?;
        let at = match count {
            0..=4 => entry + 8,
            _ => usize::try_from(u32_at(self.bytes, entry + 8, self.order)?).ok()?,
        };
        // The count may exceed the available bytes.
        let rest = self.bytes.get(at..)?;
        let value = rest.get(..count.min(rest.len()))?;
        let text = tag_text(tag, kind, value, self.order)?;
        let offset = self.offset + u64::try_from(at).ok()?;
        self.texts.add(Slot::Exif(directory), offset, tag_name(tag), text);
        Some(())
    }
}

/// Returns the name of a tag, or its number in hexadecimal.
pub(super) fn tag_name(tag: u16) -> String {
    let name = match tag {
        0x010d => "DocumentName",
        0x010e => "ImageDescription",
        0x010f => "Make",
        0x0110 => "Model",
        0x0131 => "Software",
        0x0132 => "DateTime",
        0x013b => "Artist",
        0x013c => "HostComputer",
        0x8298 => "Copyright",
        0x9003 => "DateTimeOriginal",
        0x9004 => "DateTimeDigitized",
        0x9010 => "OffsetTime",
        MAKER_NOTE => "MakerNote",
        USER_COMMENT => "UserComment",
        0x9c9b => "XPTitle",
        0x9c9c => "XPComment",
        0x9c9d => "XPAuthor",
        0x9c9e => "XPKeywords",
        0x9c9f => "XPSubject",
        _ => return format!("0x{tag:04X}"),
    };
    name.to_owned()
}
