//! Reads bytes that may be damaged: the walk over a segment shared by opening, rebuilding and verifying, and the search
//! for records in files without any intact structure.

use memchr::memmem;

use crate::model::Hash;

use super::journal::{FRAME_HEADER, FRAME_MAGIC, STANDS_FOR_LOST, TEXT_HEADER, TEXT_MAGIC};
use super::keys::{le_u16, le_u32, le_u64};
use super::record::{self, Header, Record};

/// An entry of the journal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    Record(Record<'a>),
    Text(Hash, &'a str),
}

impl Entry<'_> {
    /// Returns whether it matches its hash. A frame's checksum detects accidents; only the hash detects edits.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Entry::Record(record) => Record::read(record.bytes).is_some(),
            Entry::Text(hash, text) => Hash::of(text.as_bytes()) == *hash,
        }
    }
}

/// An intact frame.
pub(super) struct Frame<'a> {
    pub(super) number: u64,
    pub(super) flags: u16,
    /// The offsets of its first byte in the segment, and of the byte after it.
    pub(super) start: u64,
    pub(super) end: u64,
    /// All bytes, including the header.
    pub(super) bytes: &'a [u8],
    /// Its entries, each with its offset in the segment.
    pub(super) entries: Vec<(u64, Entry<'a>)>,
}

/// Bytes that are not a frame, with what can be recovered from them.
pub(super) struct DamagedSpan<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Entries that are nevertheless intact.
    pub(super) entries: Vec<(u64, Entry<'a>)>,
    /// Headers of records that are not intact.
    pub(super) headers: Vec<Header>,
    /// Whether an intact frame follows in the same segment.
    pub(super) is_followed: bool,
    /// Whether this can be a write interrupted by a power cut: see [`is_torn`].
    pub(super) is_torn: bool,
}

/// An item found by a walk.
pub(super) enum ScanItem<'a> {
    Frame(Frame<'a>),
    Damage(DamagedSpan<'a>),
}

/// Walks the frames in `bytes`, which start at offset `base` of their segment, and returns the offset after the last
/// intact one.
pub(super) fn walk<'a>(bytes: &'a [u8], base: u64, visit: &mut dyn FnMut(ScanItem<'a>)) -> u64 {
    let mut at = 0;
    let mut end = base;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if let Some((frame, length)) = frame_at(rest, base + at as u64) {
            at += length;
            end = base + at as u64;
            visit(ScanItem::Frame(frame));
            continue;
        }
        let Some(last) = last_nonzero(rest) else { return end };
        let next = next_frame(rest);
        let span = rest.get(..next.unwrap_or(last + 1)).unwrap_or_default();
        let start = base + at as u64;
        let (entries, headers) = carve(span, start);
        visit(ScanItem::Damage(DamagedSpan {
            start,
            end: start + span.len() as u64,
            entries,
            headers,
            is_followed: next.is_some(),
            is_torn: next.is_none() && is_torn(span, start),
        }));
        match next {
            Some(next) => at += next,
            None => return end,
        }
    }
}

/// Returns the position of the last byte that is not zero. A segment ends in up to a megabyte of zeros, which are
/// skipped by the page: a search by the byte took a tenth of the time to open a workspace.
pub(super) fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    const PAGE: usize = 4096;
    let mut end = bytes.len();
    for page in bytes.rchunks(PAGE) {
        // Without a branch per byte, so that it is compiled to vector instructions.
        if page.iter().fold(0, |all, byte| all | byte) != 0 {
            return page.iter().rposition(|byte| *byte != 0).map(|at| end - page.len() + at);
        }
        end -= page.len();
    }
    None
}

/// The size of the smallest unit that a disk writes atomically.
const SECTOR: u64 = 512;

/// Returns whether the last bytes of a segment, which start at `start`, can be an incomplete write. A frame is written
/// only after the previous one was synced, so there is at most one; and space is filled with zeros in advance, so each
/// sector contains either what was written or zeros. A frame with all of its sectors present was written completely and
/// damaged later.
fn is_torn(span: &[u8], start: u64) -> bool {
    let headers: Vec<usize> =
        memmem::find_iter(span, &FRAME_MAGIC).filter(|at| frame_length(span, *at).is_some()).collect();
    let size = |length: u64| usize::try_from(length).unwrap_or(usize::MAX);
    let length = match headers.as_slice() {
        [] => FRAME_HEADER,
        [0] => frame_length(span, 0).unwrap_or(FRAME_HEADER),
        // A frame that starts after other bytes cannot be the interrupted write.
        [_, ..] => return false,
    };
    let mut from = 0;
    while from < length {
        let until = size((start + from as u64) / SECTOR * SECTOR + SECTOR - start).min(length);
        // Beyond the span there are only zeros, or the file was truncated.
        if span.get(from..until.min(span.len())).unwrap_or_default().iter().all(|byte| *byte == 0) {
            return true;
        }
        from = until;
    }
    length > span.len()
}

/// Returns the length of the frame whose header is at `at`, if that header is intact.
fn frame_length(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?;
    if crc32fast::hash(bytes.get(..28)?) != le_u32(bytes, 28)? {
        return None;
    }
    usize::try_from(le_u32(bytes, 8)?).ok()?.checked_add(FRAME_HEADER)
}

/// Finds intact entries anywhere in `bytes`, and headers of records that are not intact.
pub(super) fn carve(bytes: &[u8], base: u64) -> (Vec<(u64, Entry<'_>)>, Vec<Header>) {
    let mut entries = Vec::new();
    let mut headers = Vec::new();
    for at in memmem::find_iter(bytes, &record::MAGIC) {
        let rest = bytes.get(at..).unwrap_or_default();
        match (Record::read(rest), Header::read(rest)) {
            (Some(record), _) => entries.push((base + at as u64, Entry::Record(record))),
            (None, Some(header)) => headers.push(header),
            (None, None) => {}
        }
    }
    for at in memmem::find_iter(bytes, &TEXT_MAGIC) {
        let text = text_at(bytes.get(at..).unwrap_or_default(), true);
        entries.extend(text.map(|(entry, _)| (base + at as u64, entry)));
    }
    (entries, headers)
}

fn next_frame(bytes: &[u8]) -> Option<usize> {
    let found = |at: &usize| *at > 0 && frame_at(bytes.get(*at..).unwrap_or_default(), 0).is_some();
    memmem::find_iter(bytes, &FRAME_MAGIC).find(found)
}

/// Returns the intact frame at the start of `bytes`, and its length; `start` is its offset in the segment.
pub(super) fn frame_at(bytes: &[u8], start: u64) -> Option<(Frame<'_>, usize)> {
    if !bytes.starts_with(&FRAME_MAGIC) || crc32fast::hash(bytes.get(..28)?) != le_u32(bytes, 28)? {
        return None;
    }
    let length = usize::try_from(le_u32(bytes, 8)?).ok()?;
    let body = bytes.get(FRAME_HEADER..FRAME_HEADER.checked_add(length)?)?;
    if crc32fast::hash(body) != le_u32(bytes, 24)? {
        return None;
    }
    let flags = le_u16(bytes, 6)?;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < body.len() && flags & STANDS_FOR_LOST == 0 {
        let rest = body.get(at..)?;
        let offset = start + (FRAME_HEADER + at) as u64;
        let (entry, length) = match Record::read_unchecked(rest) {
            Some(record) => (Entry::Record(record), record.bytes.len()),
            None => text_at(rest, false)?,
        };
        entries.push((offset, entry));
        at += length;
    }
    let bytes = bytes.get(..FRAME_HEADER + length)?;
    let end = start + bytes.len() as u64;
    Some((Frame { number: le_u64(bytes, 16)?, flags, start, end, bytes, entries }, bytes.len()))
}

fn text_at(bytes: &[u8], check: bool) -> Option<(Entry<'_>, usize)> {
    if !bytes.starts_with(&TEXT_MAGIC) || crc32fast::hash(bytes.get(..40)?) != le_u32(bytes, 40)? {
        return None;
    }
    let end = TEXT_HEADER.checked_add(usize::try_from(le_u32(bytes, 4)?).ok()?)?;
    let text = bytes.get(TEXT_HEADER..end)?;
    let hash = Hash(bytes.get(8..40)?.try_into().ok()?);
    if check && Hash::of(text) != hash {
        return None;
    }
    Some((Entry::Text(hash, std::str::from_utf8(text).ok()?), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, EventBody, Timestamp};
    use crate::store::journal::frame_bytes;

    fn record(seq: u32) -> Vec<u8> {
        let actor = Actor { client: "test".to_owned(), user: "me".to_owned() };
        let place = ("session-2025-12-11-001".parse().unwrap(), seq, Hash::NONE);
        let body = EventBody::Archived { reason: Some("R".repeat(100)) };
        record::encode(place, Timestamp::from_millis(1).unwrap(), &actor, "key", body).bytes
    }

    fn frames(count: u32) -> Vec<u8> {
        (0..count)
            .flat_map(|number| {
                let body = [record(2 * number), record(2 * number + 1)].concat();
                frame_bytes(&body, 2, 0, u64::from(number) + 1).unwrap()
            })
            .collect()
    }

    /// Counts what a walk finds: intact frames, entries and headers in damaged spans, and damaged spans with and
    /// without a frame after them.
    fn found(bytes: &[u8]) -> (usize, usize, usize, usize, usize) {
        let mut found = (0, 0, 0, 0, 0);
        walk(bytes, 64, &mut |item| match item {
            ScanItem::Frame(_) => found.0 += 1,
            ScanItem::Damage(span) => {
                found.1 += span.entries.len();
                found.2 += span.headers.len();
                if span.is_followed { found.3 += 1 } else { found.4 += 1 }
            }
        });
        found
    }

    #[test]
    fn one_flipped_bit_costs_one_record() {
        let whole = frames(3);
        let frame = whole.len() / 3;
        assert_eq!(found(&whole), (3, 0, 0, 0, 0));
        for (at, expected) in [
            (frame + 4, (2, 2, 0, 1, 0)),                 // the frame's header: both records are found
            (frame + FRAME_HEADER + 80, (2, 1, 1, 1, 0)), // a payload: the other is found, this one named
            (frame + FRAME_HEADER + 20, (2, 1, 0, 1, 0)), // a record's header: the other is found
            (2 * frame + FRAME_HEADER + 80, (2, 1, 1, 0, 1)), // in the last frame nothing follows
        ] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert_eq!(found(&bytes), expected, "at {at}");
        }
    }

    #[test]
    fn zeros_end_a_segment_only_where_nothing_follows() {
        let mut bytes = frames(3);
        let frame = bytes.len() / 3;
        bytes.resize(bytes.len() + 10_000, 0);
        assert_eq!(found(&bytes), (3, 0, 0, 0, 0));
        bytes[frame..2 * frame].fill(0);
        assert_eq!(found(&bytes), (2, 0, 0, 1, 0));
        bytes[2 * frame..].fill(0);
        assert_eq!(found(&bytes), (1, 0, 0, 0, 0));
    }

    fn is_torn_tail(bytes: &[u8]) -> Option<bool> {
        let mut torn = None;
        walk(bytes, 64, &mut |item| {
            if let ScanItem::Damage(span) = item {
                torn = Some(span.is_torn);
            }
        });
        torn
    }

    #[test]
    fn a_torn_write_has_sectors_that_were_never_written() {
        let long: Vec<u8> = (0..8).flat_map(record).collect();
        let mut whole = frames(1);
        let start = whole.len();
        whole.extend(frame_bytes(&long, 8, 0, 2).unwrap());
        whole.resize(whole.len() + 4096, 0);
        assert_eq!(is_torn_tail(&whole), None);
        let mut flipped = whole.clone();
        flipped[start + 700] ^= 1;
        assert_eq!(is_torn_tail(&flipped), Some(false), "every sector was written");
        let mut header = whole.clone();
        header[start + 9] ^= 1;
        assert_eq!(is_torn_tail(&header), Some(false), "the header was written");
        let mut torn = whole.clone();
        torn[1024 - 64..1536 - 64].fill(0);
        assert_eq!(is_torn_tail(&torn), Some(true), "a sector is missing");
        assert_eq!(is_torn_tail(&whole[..start + 600]), Some(true), "the end is missing");
        let mut two = frames(3);
        let frame = two.len() / 3;
        two[frame + 100] ^= 1;
        two[2 * frame + 100] ^= 1;
        assert_eq!(is_torn_tail(&two), Some(false), "a frame is written only after the one before it was synced");
    }

    #[test]
    fn the_last_byte_before_zeros_is_found_in_any_page() {
        for length in [0, 1, 4095, 4096, 4097, 10_000] {
            let mut bytes = vec![0; length];
            assert_eq!(last_nonzero(&bytes), None);
            for at in [0, 1, 4094, 4095, 4096, 5903, 5904, 9999].into_iter().filter(|at| *at < length) {
                bytes[at] = 1;
                assert_eq!(last_nonzero(&bytes), Some(at), "of {length}");
            }
        }
    }

    #[test]
    fn false_lengths_are_rejected() {
        for length in [0, 1, 1000, u32::MAX / 2, u32::MAX] {
            let mut bytes = frames(2);
            bytes[8..12].copy_from_slice(&length.to_le_bytes());
            let crc = crc32fast::hash(&bytes[..28]);
            bytes[28..32].copy_from_slice(&crc.to_le_bytes());
            let (frames, entries, ..) = found(&bytes);
            assert_eq!((frames, entries), (1, 2), "length {length}");
        }
    }
}
