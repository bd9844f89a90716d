//! A record: one event in its envelope, with the same bytes in both copies. `docs/format.md` specifies it.
//!
//! A record is self-verifying: its last 32 bytes are the hash of everything before them, which the next event refers
//! to.

use crate::model::{Actor, Event, EventBody, Hash, Loss, SessionId, Timestamp};

use super::Detail;
use super::keys::{self, le_u16, le_u32, le_u64};
use super::payload::{self, TextSource};

pub(super) const MAGIC: [u8; 4] = [0xF6, b'R', b'T', b'E'];
const ENVELOPE: u16 = 1;
/// The length of a record's header.
pub(super) const HEADER: usize = 72;
/// The length of the hash at a record's end.
pub(super) const TRAILER: usize = 32;

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: u16,
    pub(super) version: u16,
    pub(super) payload: usize,
    pub(super) session: SessionId,
    pub(super) seq: u32,
    pub(super) at: Timestamp,
    pub(super) prev: Hash,
}

/// A record whose hash has been verified, or that comes from a verified source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) header: Header,
    pub(super) hash: Hash,
    /// All bytes, from the header to the hash.
    pub(super) bytes: &'a [u8],
}

/// A new record. The long texts it refers to were stored before: see [`payload::encode`].
pub(super) struct NewRecord {
    pub(super) bytes: Vec<u8>,
    pub(super) event: Event,
}

/// Decodes the event of a record, with its long texts from `texts`; `None` if it is altered or not a record.
pub fn decode(record: &[u8], detail: Detail, texts: &dyn Fn(Hash) -> Option<String>) -> Option<Event> {
    Record::read(record)?.event_in(detail, texts).map(|(event, _)| event)
}

/// Returns an event that marks an altered record as lost, at its place; `None` if not even its header can be read.
pub fn lost(record: &[u8]) -> Option<Event> {
    let Record { header: Header { session, seq, at, prev, .. }, hash, .. } = Record::read_unchecked(record)?;
    let actor = Actor { client: String::new(), user: String::new() };
    let body = EventBody::Lost(Loss { seqs: vec![seq], last_index: None, after: None, before: None });
    Some(Event { session, seq, at, actor, key: String::new(), body, prev, hash })
}

/// Returns the hashes of the long texts that a record refers to.
pub fn texts_of(record: &[u8]) -> Vec<Hash> {
    Record::read(record).map(|record| record.texts()).unwrap_or_default()
}

/// Returns a record's sequence number in its session's chain.
pub fn place(record: &[u8]) -> Option<u32> {
    Some(Record::read_unchecked(record)?.header.seq)
}

/// Splits consecutive records, up to the first bytes that are not a record.
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some(record) = Record::read_unchecked(bytes) {
        records.push(record.bytes);
        bytes = bytes.get(record.bytes.len()..).unwrap_or_default();
    }
    records
}

/// Encodes the record of an event with its sequence number.
pub(super) fn encode(
    (session, seq, prev): (SessionId, u32, Hash),
    at: Timestamp,
    actor: &Actor,
    key: &str,
    body: EventBody,
) -> NewRecord {
    let payload = payload::encode(actor, key, &body);
    let mut bytes = Vec::with_capacity(HEADER + payload.bytes.len() + TRAILER);
    let (day, number) = keys::numbers(session);
    bytes.extend_from_slice(&MAGIC);
    for short in [ENVELOPE, payload.kind, payload.version, 0] {
        bytes.extend_from_slice(&short.to_le_bytes());
    }
    // Payloads are smaller than a megabyte.
    let length = u32::try_from(payload.bytes.len()).unwrap_or(u32::MAX);
    for number in [length, day, number, seq] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&at.millis().to_le_bytes());
    bytes.extend_from_slice(&prev.0);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&payload.bytes);
    let hash = Hash::of(&bytes);
    bytes.extend_from_slice(&hash.0);
    let event = Event { session, seq, at, actor: actor.clone(), key: key.to_owned(), body, prev, hash };
    NewRecord { bytes, event }
}

/// Returns the sequence number and the length of the record at the start of trusted bytes; `None` if there is none.
pub(super) fn seq_and_length(bytes: &[u8]) -> Option<(u32, usize)> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let payload = usize::try_from(le_u32(bytes, 12)?).ok()?;
    let length = HEADER.checked_add(payload)?.checked_add(TRAILER)?;
    (length <= bytes.len()).then_some((le_u32(bytes, 24)?, length))
}

impl Header {
    /// Parses the header at the start of `bytes`; `None` if it is invalid.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        if !bytes.starts_with(&MAGIC) || le_u16(bytes, 4)? != ENVELOPE {
            return None;
        }
        if crc32fast::hash(bytes.get(..68)?) != le_u32(bytes, 68)? {
            return None;
        }
        let payload = le_u32(bytes, 12)?;
        Some(Header {
            kind: le_u16(bytes, 6)?,
            version: le_u16(bytes, 8)?,
            payload: usize::try_from(payload).ok().filter(|_| u64::from(payload) <= payload::MAX_PAYLOAD)?,
            session: keys::session_from(le_u32(bytes, 16)?, le_u32(bytes, 20)?)?,
            seq: le_u32(bytes, 24)?,
            at: Timestamp::from_millis(le_u64(bytes, 28)?.cast_signed())?,
            prev: Hash(bytes.get(36..68)?.try_into().ok()?),
        })
    }
}

impl<'a> Record<'a> {
    /// Parses the record at the start of `bytes` and verifies its hash.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let record = Record::read_unchecked(bytes)?;
        let (content, _) = record.bytes.split_at_checked(HEADER + record.header.payload)?;
        (Hash::of(content) == record.hash).then_some(record)
    }

    /// Parses the record at the start of `bytes` without verifying its hash, since sled checks its pages.
    pub(super) fn read_unchecked(bytes: &'a [u8]) -> Option<Record<'a>> {
        let header = Header::read(bytes)?;
        let bytes = bytes.get(..HEADER + header.payload + TRAILER)?;
        let hash = bytes.get(HEADER + header.payload..)?.try_into().ok()?;
        Some(Record { header, hash: Hash(hash), bytes })
    }

    /// Returns the event, with its long texts from `texts`, and the hashes of those that are missing.
    pub(super) fn event(&self, texts: TextSource<'_>) -> Option<(Event, Vec<Hash>)> {
        self.event_in(Detail::Full, texts)
    }

    /// Decodes the event with this level of detail.
    pub(super) fn event_in(&self, detail: Detail, texts: TextSource<'_>) -> Option<(Event, Vec<Hash>)> {
        let Header { kind, version, session, seq, at, prev, .. } = self.header;
        let decoded = payload::decode(kind, version, self.payload(), detail, texts)?;
        let payload::Decoded { actor, key, body, missing_texts } = decoded;
        Some((Event { session, seq, at, actor, key, body, prev, hash: self.hash }, missing_texts))
    }

    /// Returns the hashes of the long texts that it refers to.
    pub(super) fn texts(&self) -> Vec<Hash> {
        payload::texts_named(self.header.kind, self.header.version, self.payload())
    }

    fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER..HEADER + self.header.payload).unwrap_or_default()
    }
}
