//! JPEG: a chain of segments up to the first scan.

use std::io::{self, Read, Seek};

use super::bytes::{Order, u16_at};
use super::input::Input;
use super::{Slot, Texts, exif, iptc, jumbf, text};

/// What an XMP segment begins with.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Lists the texts of a JPEG.
pub(super) fn walk<R: Read + Seek>(input: &mut Input<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(2)?;
    let mut manifests = Manifests::default();
    segments(input, texts, &mut manifests)?;
    if let Some(offset) = manifests.offset {
        jumbf::read(&manifests.bytes, offset, texts);
    }
    Ok(())
}

/// The C2PA manifest store, which may lie in many segments.
#[derive(Default)]
struct Manifests {
    offset: Option<u64>,
    bytes: Vec<u8>,
}

impl Manifests {
    /// `JP`, which box, which part of it, the head of the box again, and the part.
    fn add(&mut self, segment: &[u8], offset: u64) {
        let Some(part) = segment.strip_prefix(b"JP").and_then(|rest| rest.get(6..)) else { return };
        let room = jumbf::MAX_BYTES.saturating_sub(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX));
        if u64::try_from(part.len()).unwrap_or(u64::MAX) > room {
            return;
        }
        let again = if self.offset.is_some() { 8 } else { 0 };
        self.offset.get_or_insert(offset);
        self.bytes.extend_from_slice(part.get(again..).unwrap_or_default());
    }
}

fn segments<R: Read + Seek>(input: &mut Input<R>, texts: &mut Texts, manifests: &mut Manifests) -> io::Result<()> {
    loop {
        let at = input.at();
        let marker = match input.array::<2>()? {
            Some([0xff, marker]) => marker,
            Some(_) => {
                texts.note(format!("no segment of a JPEG where one should begin, at byte {at}"));
                return Ok(());
            }
            None => {
                texts.note(format!("the JPEG ends before its picture, at byte {at}"));
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
            texts.note(format!("the JPEG makes no sense from byte {at} on"));
            return Ok(());
        };
        let length = u64::from(length);
        if length > input.left() {
            texts.note(format!("the JPEG ends inside the segment at byte {at}"));
        }
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let frame = input.bytes(length.min(5))?;
                texts.height = u16_at(&frame, 1, Order::Big).map(u32::from);
                texts.width = u16_at(&frame, 3, Order::Big).map(u32::from);
                input.skip(length.saturating_sub(5))?;
            }
            0xe1 => {
                let segment = input.bytes(length)?;
                if segment.starts_with(b"Exif\0") {
                    exif::read(&segment, at + 4, texts);
                } else if let Some(packet) = segment.strip_prefix(XMP) {
                    texts.add(Slot::Xmp, at, "XMP", text::ascii(packet));
                }
            }
            0xeb => manifests.add(&input.bytes(length)?, at),
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
