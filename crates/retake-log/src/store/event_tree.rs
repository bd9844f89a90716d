//! The tree of events: every record of every session, in [packs](super::pack).
//!
//! Callers see single records; that they lie in packs is known here only. The applier is the only writer of an open
//! store. A rebuild finds records in the order of the journal, in which sessions alternate; it inserts them through a
//! buffer, so that each pack is written once for many of its records.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sled::{IVec, Tree};

use crate::model::SessionId;

use super::database::{DatabaseError, guard};
use super::journal::Position;
use super::keys;
use super::pack::{self, Pack, PackEntry, PackHeader, Rewrite};
use super::record::Record;

/// The bytes of inserted records at which the buffer is written out.
const BUFFER_BYTES: usize = 16 << 20;

/// All events. Cheap to clone, as sled's handles are.
#[derive(Clone)]
pub(super) struct EventTree {
    tree: Tree,
    buffer: Arc<Buffer>,
}

/// Records that were inserted one by one and are not in the tree yet.
#[derive(Default)]
struct Buffer {
    /// How many bytes there are, so that readers need no lock when there are none.
    bytes: AtomicUsize,
    records: Mutex<BTreeMap<SessionId, BTreeMap<u32, (Vec<u8>, Position)>>>,
}

/// A stored record followed by the position of its copy in the journal. Shares the memory of its pack.
#[derive(Clone, Debug)]
pub(super) struct StoredEvent {
    body: Arc<[u8]>,
    range: Range<usize>,
}

/// One commit's part for a session: the place, the journal position and the bytes of each record.
pub(super) type NewRecords<'a> = Vec<(u32, Position, &'a [u8])>;

impl Deref for StoredEvent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.body.get(self.range.clone()).unwrap_or_default()
    }
}

impl EventTree {
    /// Wraps the tree that holds the packs.
    pub(super) fn new(tree: Tree) -> EventTree {
        EventTree { tree, buffer: Arc::default() }
    }

    /// Returns one event of a session.
    pub(super) fn get(&self, id: SessionId, seq: u32) -> Result<Option<StoredEvent>, DatabaseError> {
        self.flush()?;
        let Some((_, value)) = guard(|| self.pack_at(id, seq))? else { return Ok(None) };
        Ok(unpack(&value)?.into_iter().find(|(found, _)| *found == seq).map(|(_, event)| event))
    }

    /// Reports whether an event is there.
    pub(super) fn contains(&self, id: SessionId, seq: u32) -> Result<bool, DatabaseError> {
        if self.buffer.bytes.load(Ordering::Acquire) > 0 {
            let records = self.buffer.records.lock().unwrap_or_else(PoisonError::into_inner);
            if records.get(&id).is_some_and(|records| records.contains_key(&seq)) {
                return Ok(true);
            }
        }
        let Some((_, value)) = guard(|| self.pack_at(id, seq))? else { return Ok(false) };
        Ok(unpack(&value)?.iter().any(|(found, _)| *found == seq))
    }

    /// Returns all events of a session in order.
    pub(super) fn of(&self, id: SessionId) -> Result<Vec<(u32, StoredEvent)>, DatabaseError> {
        self.flush()?;
        let values: Vec<IVec> = guard(|| Ok(self.tree.scan_prefix(keys::session_key(id)).values().collect::<Result<_, _>>()?))?;
        let mut events = Vec::new();
        for value in values {
            events.extend(unpack(&value)?);
        }
        Ok(events)
    }

    /// Returns the events of a session from one place to another.
    pub(super) fn between(&self, id: SessionId, from: u32, to: u32) -> Result<Vec<(u32, StoredEvent)>, DatabaseError> {
        self.flush()?;
        guard(|| {
            let start = self.pack_at(id, from)?.map_or(keys::numbered_key(id, from), |(key, _)| key);
            let mut events = Vec::new();
            for value in self.tree.range(start..=keys::numbered_key(id, to)).values() {
                events.extend(unpack(&value?)?);
            }
            Ok(events)
        })
    }

    /// Returns the events that record or annotate one iteration, without reading the packs that do not concern it.
    pub(super) fn of_iteration(&self, id: SessionId, index: u32) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.flush()?;
        guard(|| {
            let mut events = Vec::new();
            // Every iteration takes at least one event after the first: its own is not before this place.
            let from = self.pack_at(id, index.saturating_add(1))?;
            let start = from.map_or(keys::numbered_key(id, 0), |(key, _)| key);
            for item in self.tree.range(start..=keys::numbered_key(id, u32::MAX)) {
                let (_, value) = item?;
                let header = PackHeader::read(&value).ok_or_else(damaged)?;
                if header.concerns(index) {
                    events.extend(unpack(&value)?.into_iter().map(|(_, event)| event));
                }
            }
            Ok(events)
        })
    }

    /// Returns the last event of a session.
    pub(super) fn last(&self, id: SessionId) -> Result<Option<StoredEvent>, DatabaseError> {
        self.flush()?;
        let last = guard(|| self.pack_at(id, u32::MAX))?;
        Ok(last.map(|(_, value)| unpack(&value)).transpose()?.and_then(|mut events| Some(events.pop()?.1)))
    }

    /// Reports whether there are no events.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.bytes.load(Ordering::Acquire) == 0 && self.tree.is_empty()
    }

    /// Counts all events.
    pub(super) fn count(&self) -> Result<u64, DatabaseError> {
        self.flush()?;
        guard(|| {
            let mut count = 0;
            for value in self.tree.iter().values() {
                count += u64::from(PackHeader::read(&value?).ok_or_else(damaged)?.count);
            }
            Ok(count)
        })
    }

    /// Returns the values of all packs in order, as they are stored: those that sled cannot read end the iteration.
    pub(super) fn packs(&self) -> Result<impl Iterator<Item = Result<IVec, sled::Error>> + use<>, DatabaseError> {
        self.flush()?;
        let mut failed = false;
        // sled's iterator returns the same error for ever.
        Ok(self.tree.iter().values().take_while(move |value| !std::mem::replace(&mut failed, value.is_err())))
    }

    /// Appends records of several sessions.
    pub(super) fn append(&self, sessions: &BTreeMap<SessionId, NewRecords<'_>>) -> Result<(), DatabaseError> {
        for (id, records) in sessions {
            let entry = |(_, position, bytes): &(u32, Position, &[u8])| PackEntry {
                record: Cow::Owned(bytes.to_vec()),
                position: *position,
            };
            self.merge(*id, &records.iter().map(entry).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Inserts one record, in the place of one with the same number.
    pub(super) fn insert(&self, record: &Record<'_>, position: Position) -> Result<(), DatabaseError> {
        let (id, seq) = (record.header.session, record.header.seq);
        let bytes = {
            let mut records = self.buffer.records.lock().unwrap_or_else(PoisonError::into_inner);
            records.entry(id).or_default().insert(seq, (record.bytes.to_vec(), position));
            self.buffer.bytes.fetch_add(record.bytes.len(), Ordering::AcqRel) + record.bytes.len()
        };
        if bytes > BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Removes one record.
    pub(super) fn remove(&self, id: SessionId, seq: u32) -> Result<(), DatabaseError> {
        self.flush()?;
        guard(|| {
            let Some((key, value)) = self.pack_at(id, seq)? else { return Ok(()) };
            let pack = Pack::read(&value).ok_or_else(damaged)?;
            let kept: Vec<PackEntry<'_>> = pack
                .records()
                .filter(|(record, _)| record.header.seq != seq)
                .map(|(record, position)| PackEntry { record: Cow::Borrowed(record.bytes), position })
                .collect();
            self.tree.remove(key)?;
            self.write(id, &pack::merge(&[], &kept))
        })
    }

    /// Writes the buffer out.
    pub(super) fn flush(&self) -> Result<(), DatabaseError> {
        if self.buffer.bytes.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let records = {
            let mut records = self.buffer.records.lock().unwrap_or_else(PoisonError::into_inner);
            self.buffer.bytes.store(0, Ordering::Release);
            std::mem::take(&mut *records)
        };
        for (id, records) in records {
            let entry = |(bytes, position)| PackEntry { record: Cow::Owned(bytes), position };
            self.merge(id, &records.into_values().map(entry).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    fn merge(&self, id: SessionId, entries: &[PackEntry<'_>]) -> Result<(), DatabaseError> {
        let seqs = entries.iter().filter_map(|entry| Some(Record::read_unchecked(&entry.record)?.header.seq));
        let Some(first) = seqs.min() else { return Ok(()) };
        guard(|| {
            let start = self.pack_at(id, first)?.map_or(keys::numbered_key(id, first), |(key, _)| key);
            let mut packs = Vec::new();
            for value in self.tree.range(start..=keys::numbered_key(id, u32::MAX)).values() {
                packs.push(Pack::read(&value?).ok_or_else(damaged)?);
            }
            self.write(id, &pack::merge(&packs, entries))
        })
    }

    fn write(&self, id: SessionId, rewrite: &Rewrite) -> Result<(), DatabaseError> {
        for (seq, value) in &rewrite.write {
            self.tree.insert(keys::numbered_key(id, *seq), value.as_slice())?;
        }
        // Last, so that no record is missing in between.
        for seq in &rewrite.remove {
            self.tree.remove(keys::numbered_key(id, *seq))?;
        }
        Ok(())
    }

    /// Returns the pack that holds an event, if it is there at all: the last one that begins at or before it.
    fn pack_at(&self, id: SessionId, seq: u32) -> Result<Option<([u8; 12], IVec)>, DatabaseError> {
        let range = self.tree.range(keys::numbered_key(id, 0)..=keys::numbered_key(id, seq)).next_back().transpose()?;
        let Some((key, value)) = range else { return Ok(None) };
        let key = key.as_ref().try_into().map_err(|_| damaged())?;
        Ok(Some((key, value)))
    }
}

/// Takes a pack apart.
pub(super) fn unpack(value: &[u8]) -> Result<Vec<(u32, StoredEvent)>, DatabaseError> {
    let body: Arc<[u8]> = Pack::read(value).ok_or_else(damaged)?.into_body().into();
    let mut start = 0;
    let mut events = Vec::new();
    for (record, _) in pack::records_in(&body) {
        let end = start + record.bytes.len() + pack::POSITION;
        events.push((record.header.seq, start..end));
        start = end;
    }
    if start != body.len() {
        return Err(damaged());
    }
    let share = |(seq, range)| (seq, StoredEvent { body: Arc::clone(&body), range });
    Ok(events.into_iter().map(share).collect())
}

fn damaged() -> DatabaseError {
    DatabaseError::Wrong("a pack of events cannot be read".to_owned())
}
