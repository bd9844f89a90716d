//! JPEG: a sequence of segments up to the first scan.

use std::io::{self, Read, Seek};

use super::bytes::{ByteOrder, u16_at, u32_at};
use super::input::MediaInput;
use super::{Slot, Texts, exif, iptc, jumbf, text};

/// The prefix of an XMP segment.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
/// The prefix of a segment with a part of a longer XMP packet.
const EXTENDED_XMP: &[u8] = b"http://ns.adobe.com/xmp/extension/\0";

/// Lists the texts of a JPEG.
pub(super) fn walk<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(2)?;
    let mut parts = Parts::default();
    segments(input, texts, &mut parts)?;
    if let Some(offset) = parts.manifests_at {
        jumbf::read(&parts.manifests, offset, texts);
    }
    if let Some(offset) = parts.extended_at {
        texts.add(Slot::Xmp, offset, "extended XMP", text::ascii(&parts.extended));
    }
    Ok(())
}

/// Texts spread over several segments.
#[derive(Default)]
struct Parts {
    manifests_at: Option<u64>,
    manifests: Vec<u8>,
    extended_at: Option<u64>,
    extended: Vec<u8>,
}

impl Parts {
    /// Adds a part of a JUMBF box: `JP`, the number of the box, the number of the part, the box header again.
    fn add_manifest(&mut self, segment: &[u8], offset: u64) {
        let Some((number, part)) =
            segment.strip_prefix(b"JP").and_then(|rest| Some((u32_at(rest, 2, ByteOrder::Big)?, rest.get(6..)?)))
        else {
            return;
        };
        let room = jumbf::MAX_BYTES.saturating_sub(u64::try_from(self.manifests.len()).unwrap_or(u64::MAX));
        if u64::try_from(part.len()).unwrap_or(u64::MAX) > room {
            return;
        }
        let again = if number > 1 { 8 } else { 0 };
        self.manifests_at.get_or_insert(offset);
        self.manifests.extend_from_slice(part.get(again..).unwrap_or_default());
    }

    /// Adds a part of a longer XMP packet: a digest, the total length, the offset of the part.
    fn add_xmp(&mut self, part: &[u8], offset: u64, room: u64) {
        let Some(part) = part.get(40..) else { return };
        let length = u64::try_from(self.extended.len().saturating_add(part.len())).unwrap_or(u64::MAX);
        if length <= room {
            self.extended_at.get_or_insert(offset);
            self.extended.extend_from_slice(part);
        }
    }
}

fn segments<R: Read + Seek>(input: &mut MediaInput<R>, texts: &mut Texts, parts: &mut Parts) -> io::Result<()> {
    loop {
        let at = input.at();
        let marker = match input.array::<2>()? {
            Some([0xff, marker]) => marker,
            Some(_) => {
                texts.note(format!("no JPEG segment begins at byte {at}, where one should"));
                return Ok(());
            }
            None => {
                texts.note(format!("the JPEG ends before its image data, at byte {at}"));
                return Ok(());
            }
        };
        match marker {
            // A fill byte: the marker is the next one.
            0xff => {
                input.back(1)?;
                continue;
            }
            // Markers without a length.
            0x01 | 0xd0..=0xd8 => continue,
            // The scan, or the end.
            0xda | 0xd9 => return Ok(()),
            _ => {}
        }
        let Some(length) = input.array::<2>()?.map(u16::from_be_bytes).and_then(|length| length.checked_sub(2)) else {
            texts.note(format!("the JPEG segment at byte {at} has no valid length"));
            return Ok(());
        };
        let length = u64::from(length);
        if length > input.left() {
            texts.note(format!("the JPEG ends inside the segment at byte {at}"));
        }
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let frame = input.bytes(length.min(5))?;
                texts.height = u16_at(&frame, 1, ByteOrder::Big).map(u32::from);
                texts.width = u16_at(&frame, 3, ByteOrder::Big).map(u32::from);
                input.skip(length.saturating_sub(5))?;
            }
            0xe1 => {
                let segment = input.bytes(length)?;
                if segment.starts_with(b"Exif\0") {
                    exif::read(&segment, at + 4, texts);
                } else if let Some(packet) = segment.strip_prefix(XMP) {
                    texts.add(Slot::Xmp, at, "XMP", text::ascii(packet));
                } else if let Some(part) = segment.strip_prefix(EXTENDED_XMP) {
                    parts.add_xmp(part, at, texts.room());
                }
            }
            0xeb => parts.add_manifest(&input.bytes(length)?, at),
            0xed => iptc::read(&input.bytes(length)?, at, texts),
            0xfe => {
                let comment = input.bytes(length)?;
                texts.add(Slot::JpegComment, at, "Comment", text::ascii(&comment));
            }
            _ => {
                input.skip(length)?;
            }
        }
    }
}
