//! JPEG: a chain of segments up to the first scan.

use std::io::{self, Read, Seek};

use super::bytes::{Order, u16_at};
use super::input::Input;
use super::{Slot, Texts, exif, text};

/// What an XMP segment begins with.
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Lists the texts of a JPEG.
pub(super) fn walk<R: Read + Seek>(input: &mut Input<R>, texts: &mut Texts) -> io::Result<()> {
    input.skip(2)?;
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
