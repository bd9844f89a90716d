//! IPTC records, in a Photoshop resource: some tools repeat the description there, and vendors credit themselves.

use super::bytes::{ByteOrder, u16_at, u32_at};
use super::{Slot, Texts, text};

/// The resource that holds IPTC records.
const IPTC: u16 = 0x0404;

/// Lists the texts of a JPEG's APP13 segment at `offset` of the file.
pub(super) fn read(segment: &[u8], offset: u64, texts: &mut Texts) {
    if let Some(found) = segment.strip_prefix(b"Photoshop 3.0\0") {
        resources(found, offset, texts);
    }
}

/// Lists the texts of Photoshop's resources.
pub(super) fn resources(mut rest: &[u8], offset: u64, texts: &mut Texts) {
    while let Some(resource) = rest.strip_prefix(b"8BIM") {
        let Some(id) = u16_at(resource, 0, ByteOrder::Big) else { return };
        // A length-prefixed name, padded to an even length.
        let name = resource.get(2).map_or(0, |length| (usize::from(*length) + 2) & !1);
        let Some(size) = u32_at(resource, 2 + name, ByteOrder::Big).and_then(|size| usize::try_from(size).ok()) else {
            return;
        };
        let start = 6 + name;
        let Some(data) = resource.get(start..).and_then(|data| data.get(..size.min(data.len()))) else { return };
        if id == IPTC {
            records(data, offset, texts);
        }
        rest = resource.get(start.saturating_add(size).saturating_add(size % 2)..).unwrap_or_default();
    }
}

/// Lists the texts of IPTC records.
pub(super) fn records(mut data: &[u8], offset: u64, texts: &mut Texts) {
    while let [0x1c, record, kind, rest @ ..] = data {
        let Some(length) = u16_at(rest, 0, ByteOrder::Big).map(usize::from) else { return };
        let Some(value) = rest.get(2..).and_then(|value| value.get(..length.min(value.len()))) else { return };
        // Record 2 contains the texts for people; record 1 and the version do not.
        if *record == 2 && *kind != 0 {
            let name = match kind {
                5 => "ObjectName".to_owned(),
                80 => "By-line".to_owned(),
                110 => "Credit".to_owned(),
                115 => "Source".to_owned(),
                120 => "Caption".to_owned(),
                kind => format!("2:{kind}"),
            };
            texts.add(Slot::Iptc, offset, name, text::ascii(value));
        }
        data = rest.get(2 + length..).unwrap_or_default();
    }
}
