//! Packs: the storage of a session's events in sled.
//!
//! A pack is one value with several consecutive records of one session, compressed together. sled pays for every item
//! (a leaf page holds at most 16 of them, and the page table of all of them is read on open), so ten records per value
//! need a tenth of the pages; and records of one session are similar, so together they compress to less than a third.
//! The key is the session and the sequence number of the first record.
//!
//! New records extend the last pack of their session until it is full. Rewriting it is cheap: the applier collects
//! records before it writes, so that a busy session's pack is rewritten once for many of them, and an idle session's
//! pack is rewritten rarely.
//!
//! Every pack carries a magic number, its session and checksums, so that it can be found in the raw files of a damaged
//! database. LZ4 was chosen over zstd because it decompresses about five times as fast for a sixth more space
//! (`benches/README.md`), and because `lz4_flex` is pure Rust.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use memchr::memmem;

use crate::model::SessionId;

use super::journal::JournalPosition;
use super::keys::{self, le_u16, le_u32};
use super::payload;
use super::record::{self, Record};

/// The first bytes of every pack.
pub(super) const MAGIC: [u8; 4] = [0xF4, b'R', b'T', b'P'];

const VERSION: u8 = 1;
/// The flag of a compressed body.
const COMPRESSED: u8 = 1;
/// The length of a header without its list of annotated iterations.
const FIXED_HEADER: usize = 44;
/// The length of a journal position, which follows each record.
pub(super) const POSITION: usize = 12;
/// The uncompressed size at which a pack is full.
const FULL_BODY: usize = 12 << 10;
/// The maximum size of a value: sled keeps pages above 128 KiB in files that it never syncs, and a page holds up to 16
/// values.
const MAX_VALUE: usize = 7 << 10;
/// The maximum number of annotated iterations in a header; with more of them, a new pack is started.
const MAX_ANNOTATED: usize = 128;
/// The maximum uncompressed size that is accepted in a header.
const MAX_BODY: usize = 1 << 20;

/// A record to be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackEntry<'a> {
    /// The bytes of the record.
    pub(super) record: &'a [u8],
    /// The position of its copy in the journal.
    pub(super) position: JournalPosition,
}

impl<'a> PackEntry<'a> {
    /// Parses a record that is followed by the position of its copy in the journal.
    pub(super) fn from_value(value: &'a [u8]) -> Option<PackEntry<'a>> {
        let record = Record::read_unchecked(value)?;
        let position = JournalPosition::from_bytes(value.get(record.bytes.len()..)?)?;
        Some(PackEntry { record: record.bytes, position })
    }

    /// Returns the sequence number of the record.
    pub(super) fn seq(&self) -> u32 {
        le_u32(self.record, 24).unwrap_or(0)
    }
}

/// The changes that add new records to the packs of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// The sequence numbers of obsolete packs, whose records are now in other packs.
    pub(super) remove: Vec<u32>,
    /// The packs to write: the sequence number in the key, and the value.
    pub(super) write: Vec<(u32, Vec<u8>)>,
}

/// The header of a pack, which describes its contents without decompressing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackHeader {
    /// The session of its records.
    pub(super) session: SessionId,
    /// The sequence numbers of its first and last record.
    pub(super) seqs: RangeInclusive<u32>,
    /// The number of records.
    pub(super) count: u32,
    /// The indexes of the first and last iteration recorded in it.
    pub(super) iterations: Option<RangeInclusive<u32>>,
    /// The indexes of the iterations annotated in it, ascending.
    pub(super) annotated: Vec<u32>,
    flags: u8,
    body: usize,
    stored: usize,
    length: usize,
}

/// A pack with its records decompressed.
#[derive(Clone, Debug)]
pub(super) struct Pack {
    /// The header.
    pub(super) header: PackHeader,
    body: Vec<u8>,
}

/// Merges records into packs of one session, given all of its packs from the first new record on. A record replaces one
/// with the same number, so that merging the same records twice changes nothing: after a crash, part of a batch is
/// applied again.
pub(super) fn merge(packs: &[Pack], new: &[PackEntry<'_>]) -> Rewrite {
    let mut entries: BTreeMap<u32, PackEntry<'_>> = BTreeMap::new();
    entries.extend(packs.iter().flat_map(Pack::entries).map(|entry| (entry.seq(), entry)));
    let mut changed = false;
    for entry in new {
        let before = entries.insert(entry.seq(), *entry);
        changed |= before.as_ref() != Some(entry);
    }
    if !changed {
        return Rewrite::default();
    }
    let entries: Vec<PackEntry<'_>> = entries.into_values().collect();
    let mut write = Vec::new();
    let mut rest = entries.as_slice();
    while !rest.is_empty() {
        let (now, later) = rest.split_at(fitting(rest).max(1));
        write_pack(now, &mut write);
        rest = later;
    }
    let starts = packs.iter().map(|pack| *pack.header.seqs.start());
    let remove = starts.filter(|start| !write.iter().any(|(written, _)| written == start)).collect();
    Rewrite { remove, write }
}

/// Returns the body of every pack found in `bytes`, including damaged ones that can still be decompressed, since the
/// records in it carry their own hashes.
pub(super) fn salvage(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    memmem::find_iter(bytes, &MAGIC).filter_map(|at| {
        let value = bytes.get(at..)?;
        PackHeader::read(value)?.unpack(value, Damage::Tolerated)
    })
}

impl PackHeader {
    /// Parses the header at the start of a value; `None` if it is invalid.
    pub(super) fn read(value: &[u8]) -> Option<PackHeader> {
        if !value.starts_with(&MAGIC) || *value.get(4)? != VERSION {
            return None;
        }
        let annotated = usize::from(le_u16(value, 6)?);
        let length = FIXED_HEADER + 4 * annotated + 4;
        if crc32fast::hash(value.get(..length - 4)?) != le_u32(value, length - 4)? {
            return None;
        }
        let size = |at| le_u32(value, at).and_then(|size| usize::try_from(size).ok());
        let iterations = le_u32(value, 32)?.checked_sub(1).zip(le_u32(value, 36)?.checked_sub(1));
        Some(PackHeader {
            session: keys::session_from(le_u32(value, 8)?, le_u32(value, 12)?)?,
            seqs: le_u32(value, 16)?..=le_u32(value, 20)?,
            count: le_u32(value, 40)?,
            iterations: iterations.map(|(first, last)| first..=last),
            annotated: (0..annotated).map(|at| le_u32(value, FIXED_HEADER + 4 * at)).collect::<Option<_>>()?,
            flags: *value.get(5)?,
            body: size(24).filter(|body| *body <= MAX_BODY)?,
            stored: size(28)?,
            length,
        })
    }

    /// Returns whether the pack contains anything about the iteration with this index.
    pub(super) fn concerns(&self, index: u32) -> bool {
        let recorded = self.iterations.as_ref().is_some_and(|indexes| indexes.contains(&index));
        recorded || self.annotated.binary_search(&index).is_ok()
    }

    fn unpack(&self, value: &[u8], damage: Damage) -> Option<Vec<u8>> {
        let stored = value.get(self.length..self.length.checked_add(self.stored)?)?;
        let sound = le_u32(value, self.length + self.stored) == Some(crc32fast::hash(stored));
        if !sound && damage == Damage::Refused {
            return None;
        }
        if self.flags & COMPRESSED == 0 {
            return Some(stored.to_vec());
        }
        let body = lz4_flex::block::decompress(stored, self.body).ok()?;
        (!sound || body.len() == self.body).then_some(body)
    }
}

/// How to handle a body that does not match its checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    Refused,
    Tolerated,
}

impl Pack {
    /// Parses a pack; `None` if the value is not a pack or does not match its checksums.
    pub(super) fn read(value: &[u8]) -> Option<Pack> {
        let header = PackHeader::read(value)?;
        let body = header.unpack(value, Damage::Refused)?;
        Some(Pack { header, body })
    }

    /// Returns the records in order, each with the position of its copy in the journal.
    pub(super) fn records(&self) -> impl Iterator<Item = (Record<'_>, JournalPosition)> {
        records_in(&self.body)
    }

    /// Returns the records in order, each followed by its position.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Returns the records in order, ready to be repacked.
    pub(super) fn entries(&self) -> impl Iterator<Item = PackEntry<'_>> {
        self.records().map(|(record, position)| PackEntry { record: record.bytes, position })
    }
}

/// Returns the records of a decompressed body.
pub(super) fn records_in(body: &[u8]) -> impl Iterator<Item = (Record<'_>, JournalPosition)> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let record = Record::read_unchecked(rest)?;
        let position = JournalPosition::from_bytes(rest.get(record.bytes.len()..)?)?;
        rest = rest.get(record.bytes.len() + POSITION..)?;
        Some((record, position))
    })
}

/// Returns how many of the entries fit into one pack.
fn fitting(entries: &[PackEntry<'_>]) -> usize {
    let (mut body, mut annotated) = (0, 0);
    let fits = |entry: &&PackEntry<'_>| {
        body += entry.record.len() + POSITION;
        annotated += usize::from(matches!(subject(entry.record), Some(Subject::Annotated(_))));
        body <= FULL_BODY && annotated <= MAX_ANNOTATED
    };
    entries.iter().take_while(fits).count()
}

/// Writes the entries as one pack, or as two if they do not compress enough.
fn write_pack(entries: &[PackEntry<'_>], packs: &mut Vec<(u32, Vec<u8>)>) {
    let Some((first, last)) = entries.first().zip(entries.last()) else { return };
    let Some(session) = Record::read_unchecked(first.record).map(|record| record.header.session) else { return };
    let mut body = Vec::with_capacity(entries.iter().map(|entry| entry.record.len() + POSITION).sum());
    let mut annotated = Vec::new();
    let mut iterations: Option<(u32, u32)> = None;
    for entry in entries {
        body.extend_from_slice(entry.record);
        body.extend_from_slice(&entry.position.to_bytes());
        match subject(entry.record) {
            Some(Subject::Recorded(index)) => {
                iterations = Some(iterations.map_or((index, index), |(low, high)| (low.min(index), high.max(index))));
            }
            Some(Subject::Annotated(index)) => annotated.push(index),
            None => {}
        }
    }
    annotated.sort_unstable();
    annotated.dedup();
    let packed = lz4_flex::block::compress(&body);
    let (flags, stored) = if packed.len() < body.len() { (COMPRESSED, &packed) } else { (0, &body) };
    if stored.len() + FIXED_HEADER + 4 * annotated.len() + 8 > MAX_VALUE && entries.len() > 1 {
        let (left, right) = entries.split_at(entries.len() / 2);
        write_pack(left, packs);
        write_pack(right, packs);
        return;
    }
    let (day, number) = keys::numbers(session);
    let short = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let marks = iterations.map_or([0, 0], |(low, high)| [low.saturating_add(1), high.saturating_add(1)]);
    let mut value = Vec::with_capacity(FIXED_HEADER + 4 * annotated.len() + stored.len() + 8);
    value.extend_from_slice(&MAGIC);
    value.extend_from_slice(&[VERSION, flags]);
    // Never more than entries fit, far below 65,536.
    value.extend_from_slice(&u16::try_from(annotated.len()).unwrap_or(u16::MAX).to_le_bytes());
    let seqs = [first.seq(), last.seq()];
    let lengths = [short(body.len()), short(stored.len())];
    for field in [[day, number], seqs, lengths, marks].into_iter().flatten().chain([short(entries.len())]) {
        value.extend_from_slice(&field.to_le_bytes());
    }
    for index in &annotated {
        value.extend_from_slice(&index.to_le_bytes());
    }
    let crc = crc32fast::hash(&value);
    value.extend_from_slice(&crc.to_le_bytes());
    value.extend_from_slice(stored);
    value.extend_from_slice(&crc32fast::hash(stored).to_le_bytes());
    packs.push((first.seq(), value));
}

/// Returns whether a record records or annotates the iteration with this index.
pub(super) fn concerns(record: &[u8], index: u32) -> bool {
    matches!(subject(record), Some(Subject::Recorded(found) | Subject::Annotated(found)) if found == index)
}

/// The iteration that an event records or annotates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Recorded(u32),
    Annotated(u32),
}

/// Returns the iteration that a record concerns, without decoding its payload. In all versions so far of the two kinds
/// that concern one, the index follows the names of the client, the user and the idempotency key.
fn subject(record: &[u8]) -> Option<Subject> {
    let kind = le_u16(record, 6)?;
    let mut at = record::HEADER;
    for _ in 0..3 {
        at = at.checked_add(8)?.checked_add(usize::try_from(keys::le_u64(record, at)?).ok()?)?;
    }
    let index = le_u32(record, at)?;
    match (kind, le_u16(record, 8)?) {
        (payload::RECORDED, 1..=3) => Some(Subject::Recorded(index)),
        (payload::ANNOTATED, 1 | 2) => Some(Subject::Annotated(index)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Actor, AnnotationChange, EventBody, Hash, Timestamp};

    /// A record followed by its position.
    type Value = Vec<u8>;

    fn id() -> SessionId {
        "session-2025-12-11-001".parse().unwrap()
    }

    /// Returns an event that contains only a text, as long and as random as needed.
    fn archived(seq: u32, reason: &str) -> Value {
        encoded(seq, EventBody::Archived { reason: Some(reason.to_owned()) })
    }

    fn annotated(seq: u32, index: u32) -> Value {
        let change = AnnotationChange { rating: Some(3), ..AnnotationChange::default() };
        encoded(seq, EventBody::Annotated { index, change })
    }

    fn encoded(seq: u32, body: EventBody) -> Value {
        let actor = Actor { client: "test".to_owned(), user: "me".to_owned() };
        let at = Timestamp::from_millis(1).unwrap();
        let mut value = record::encode((id(), seq, Hash::NONE), at, &actor, &format!("key {seq}"), body).bytes;
        value.extend_from_slice(&JournalPosition { segment: 1, offset: u64::from(seq) * 1000 }.to_bytes());
        value
    }

    /// Returns text that does not compress.
    fn noise(seed: u32, length: usize) -> String {
        let hex = |part: u32| blake3::hash(&[seed.to_le_bytes(), part.to_le_bytes()].concat()).to_hex().to_string();
        (0..).flat_map(|part| hex(part).into_bytes()).map(char::from).take(length).collect()
    }

    /// Applies a rewrite as the database does.
    fn apply(packs: &mut BTreeMap<u32, Vec<u8>>, rewrite: Rewrite) {
        rewrite.remove.iter().for_each(|seq| drop(packs.remove(seq)));
        packs.extend(rewrite.write);
    }

    fn read_all(packs: &BTreeMap<u32, Vec<u8>>) -> Vec<Value> {
        let mut entries = Vec::new();
        for (key, value) in packs {
            assert!(value.len() <= MAX_VALUE, "a value of {} bytes", value.len());
            let pack = Pack::read(value).unwrap();
            assert_eq!(pack.header.seqs.start(), key, "the key names the first record");
            let value = |entry: PackEntry<'_>| [entry.record, &entry.position.to_bytes()].concat();
            entries.extend(pack.entries().map(value));
        }
        entries
    }

    /// Merges a batch as the database does: with the packs from the one that contains the first new record.
    fn merge_batch(packs: &mut BTreeMap<u32, Vec<u8>>, batch: &[Value]) {
        let batch: Vec<PackEntry<'_>> = batch.iter().map(|value| PackEntry::from_value(value).unwrap()).collect();
        let Some(first) = batch.iter().map(PackEntry::seq).min() else { return };
        let from = packs.range(..=first).next_back().map_or(0, |(key, _)| *key);
        let affected: Vec<Pack> = packs.range(from..).map(|(_, value)| Pack::read(value).unwrap()).collect();
        apply(packs, merge(&affected, &batch));
    }

    proptest! {
        #[test]
        fn records_round_trip(
            lengths in prop::collection::vec(0usize..4000, 1..60),
            cuts in prop::collection::vec(1usize..9, 1..60),
            late in prop::collection::vec(0usize..60, 0..5),
        ) {
            let all: Vec<Value> =
                lengths.iter().zip(0..).map(|(length, seq)| archived(seq, &noise(seq, *length))).collect();
            let held_back: Vec<usize> = late.into_iter().filter(|at| *at < all.len()).collect();
            let mut packs = BTreeMap::new();
            let mut rest = all.as_slice();
            for cut in cuts.iter().cycle() {
                let (batch, later) = rest.split_at((*cut).min(rest.len()));
                let is_late = |value: &Value| held_back.iter().any(|at| all[*at] == *value);
                let batch: Vec<_> = batch.iter().filter(|value| !is_late(value)).cloned().collect();
                merge_batch(&mut packs, &batch);
                // A crash may have happened before the batch was recorded as applied.
                merge_batch(&mut packs, &batch);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            for at in held_back {
                merge_batch(&mut packs, &[all[at].clone()]);
            }
            prop_assert_eq!(read_all(&packs), all);
        }

        #[test]
        fn damaged_values_are_refused_or_read_unchanged(at in 0usize..4000, flip in 1u8..) {
            let batch: Vec<_> = (0..20).map(|seq| archived(seq, "the same words every time")).collect();
            let mut packs = BTreeMap::new();
            merge_batch(&mut packs, &batch);
            let value = packs.get_mut(&0).unwrap();
            let length = value.len();
            value[at % length] ^= flip;
            prop_assert!(Pack::read(value).is_none());
        }
    }

    #[test]
    fn similar_records_share_one_small_value() {
        let batch: Vec<_> = (0..20).map(|seq| archived(seq, &"lighthouse ".repeat(30))).collect();
        let mut packs = BTreeMap::new();
        for entry in &batch {
            merge_batch(&mut packs, std::slice::from_ref(entry));
        }
        let raw: usize = batch.iter().map(Vec::len).sum();
        let stored: usize = packs.values().map(Vec::len).sum();
        assert_eq!(packs.len(), 1);
        assert!(stored * 3 < raw, "{stored} of {raw} bytes");
    }

    /// Events of a payload version that is missing from `subject` would be hidden from readers of single iterations.
    #[test]
    fn the_subject_of_every_payload_version_is_known() {
        let bare = crate::model::Iteration {
            created_at: Timestamp::from_millis(0).unwrap(),
            recipe: crate::model::Recipe::new("a fox"),
            outcome: crate::model::Outcome::default(),
            images: Vec::new(),
            parent: None,
            parent_reason: None,
            likely_parent: None,
        };
        let reasoned = crate::model::Iteration { parent_reason: Some("its init image".to_owned()), ..bare.clone() };
        let mut extra = bare.clone();
        extra.recipe.loras = vec![crate::model::Lora::new("fur", 0.8).with("hash", "1f")];
        let recorded = [bare, reasoned, extra].map(|it| EventBody::Recorded { index: 7, iteration: Box::new(it) });
        let ratings = (0..=5).map(|rating| AnnotationChange { rating: Some(rating), ..AnnotationChange::default() });
        let annotated = ratings.map(|change| EventBody::Annotated { index: 7, change });
        let actor = Actor { client: "client".to_owned(), user: String::new() };
        for body in recorded.into_iter().chain(annotated) {
            let place = (id(), 3, Hash::NONE);
            let at = Timestamp::from_millis(0).unwrap();
            let record = record::encode(place, at, &actor, "key", body);
            assert!(concerns(&record.bytes, 7) && !concerns(&record.bytes, 8), "{:?}", record.event.body);
        }
    }

    #[test]
    fn headers_list_the_iterations_of_a_pack() {
        let entries = [archived(0, "x"), annotated(1, 7), annotated(2, 3), annotated(3, 7)];
        let mut packs = BTreeMap::new();
        merge_batch(&mut packs, &entries);
        let header = PackHeader::read(&packs[&0]).unwrap();
        assert_eq!((header.session, header.seqs.clone(), header.count), (id(), 0..=3, 4));
        assert_eq!(header.annotated, [3, 7]);
        assert!(header.concerns(3) && header.concerns(7) && !header.concerns(5));
    }

    #[test]
    fn packs_are_found_in_raw_bytes_and_damage_costs_the_records_it_hits() {
        let batch: Vec<_> = (0..12).map(|seq| archived(seq, &noise(seq, 200))).collect();
        let mut packs = BTreeMap::new();
        merge_batch(&mut packs, &batch);
        let mut raw = b"page ".repeat(100);
        packs.values().for_each(|value| raw.extend_from_slice(value));
        let whole = |raw: &[u8]| -> usize {
            let is_whole =
                |body: &Vec<u8>| records_in(body).filter(|(found, _)| Record::read(found.bytes).is_some()).count();
            salvage(raw).map(|body| is_whole(&body)).sum()
        };
        assert_eq!(whole(&raw), 12);
        // The noise is stored uncompressed, so that flipping one of its bytes damages one record.
        let last = raw.len() - 150;
        raw[last] ^= 1;
        assert!((10..12).contains(&whole(&raw)), "{} of 12 records", whole(&raw));
    }
}
