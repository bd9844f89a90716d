//! The storage of events in sled: several records of a session per value, a [pack](super::pack).
//!
//! All access to events goes through [`EventTree`], so that another layout only changes this file. The applier is the
//! only writer of an open store. A rebuild finds records in the order of the journal, in which sessions alternate: it
//! puts them one by one, and a buffer ensures that each pack is written once for many of its records.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sled::{IVec, Tree};

use crate::model::{Hash, SessionId};

use super::database::{DatabaseError, guard};
use super::journal::JournalPosition;
use super::keys;
use super::pack::{self, Pack, PackEntry, PackHeader, Rewrite};
use super::record::{self, Record};

/// The size of buffered records at which the buffer is written.
const BUFFER_BYTES: usize = 16 << 20;

/// The events of all sessions, by session and sequence number.
#[derive(Clone)]
pub(super) struct EventTree {
    tree: Tree,
    buffer: Arc<Buffer>,
}

/// Records that were put one by one and are not in the tree yet.
#[derive(Default)]
struct Buffer {
    /// The number of bytes, so that readers of an open store need no lock.
    bytes: AtomicUsize,
    sessions: Mutex<Buffered>,
}

type Buffered = BTreeMap<SessionId, BTreeMap<u32, IVec>>;

/// An event stored in sled. Shares the memory of its pack.
#[derive(Clone, Debug)]
pub(super) struct StoredEvent {
    pub(super) seq: u32,
    body: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl StoredEvent {
    /// Returns the record without verifying its hash, since sled checks its pages. `None` if the value is not a record.
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Record::read_unchecked(self.value())
    }

    /// Returns the record if it matches its hash.
    pub(super) fn checked_record(&self) -> Option<Record<'_>> {
        Record::read(self.value())
    }

    /// Returns the position of its copy in the journal.
    pub(super) fn position(&self) -> Option<JournalPosition> {
        JournalPosition::from_bytes(self.value().get(self.record()?.bytes.len()..)?)
    }

    /// Returns the record, followed by the position.
    fn value(&self) -> &[u8] {
        self.body.get(self.range.clone()).unwrap_or_default()
    }

    fn alone(seq: u32, value: &[u8]) -> StoredEvent {
        StoredEvent { seq, range: 0..value.len(), body: Arc::new(value.to_vec()) }
    }
}

impl EventTree {
    pub(super) fn new(tree: Tree) -> EventTree {
        EventTree { tree, buffer: Arc::default() }
    }

    pub(super) fn get(&self, id: SessionId, seq: u32) -> Result<Option<StoredEvent>, DatabaseError> {
        if let Some(buffered) = self.buffered() {
            let found = buffered.get(&id).and_then(|records| records.get(&seq));
            if let Some(value) = found {
                return Ok(Some(StoredEvent::alone(seq, value)));
            }
        }
        let Some((_, value)) = guard(|| self.pack_at(id, seq))? else { return Ok(None) };
        if PackHeader::read(&value).is_some_and(|header| !header.seqs.contains(&seq)) {
            return Ok(None);
        }
        Ok(unpack(&value)?.into_iter().find(|event| event.seq == seq))
    }

    /// Puts one event, replacing one with the same number. `value` is an [`event_value`].
    pub(super) fn put(&self, id: SessionId, seq: u32, value: &IVec) -> Result<(), DatabaseError> {
        let bytes = {
            let mut sessions = self.buffer.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.entry(id).or_default().insert(seq, value.clone());
            self.buffer.bytes.fetch_add(value.len(), Ordering::AcqRel) + value.len()
        };
        if bytes > BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes new events of an open store directly, without the buffer, which readers would have to check.
    pub(super) fn append(&self, events: &[(SessionId, u32, IVec)]) -> Result<(), DatabaseError> {
        let mut sessions: BTreeMap<SessionId, Vec<PackEntry<'_>>> = BTreeMap::new();
        for (id, _, value) in events {
            sessions.entry(*id).or_default().push(PackEntry::from_value(value).ok_or_else(unreadable)?);
        }
        sessions.into_iter().try_for_each(|(id, entries)| self.merge(id, &entries))
    }

    pub(super) fn remove(&self, id: SessionId, seq: u32) -> Result<(), DatabaseError> {
        self.flush()?;
        guard(|| {
            let Some((key, value)) = self.pack_at(id, seq)? else { return Ok(()) };
            let pack = Pack::read(&value).ok_or_else(unreadable)?;
            let kept: Vec<PackEntry<'_>> = pack.entries().filter(|entry| entry.seq() != seq).collect();
            self.tree.remove(key)?;
            self.write(id, &pack::merge(&[], &kept))
        })
    }

    /// Writes the buffer.
    pub(super) fn flush(&self) -> Result<(), DatabaseError> {
        let sessions = match self.buffered() {
            Some(mut buffered) => {
                self.buffer.bytes.store(0, Ordering::Release);
                std::mem::take(&mut *buffered)
            }
            None => return Ok(()),
        };
        for (id, records) in sessions {
            let entries: Option<Vec<_>> = records.values().map(|value| PackEntry::from_value(value)).collect();
            self.merge(id, &entries.ok_or_else(unreadable)?)?;
        }
        Ok(())
    }

    /// Returns the events of a session in order.
    pub(super) fn of_session(&self, id: SessionId) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.between(id, 0, u32::MAX)
    }

    /// Returns the events of a session in a range of sequence numbers, in order. May include others around them.
    pub(super) fn between(&self, id: SessionId, from: u32, to: u32) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.flush()?;
        guard(|| {
            let start = if from == 0 { None } else { self.pack_at(id, from)?.map(|(key, _)| key) };
            let start = start.unwrap_or_else(|| keys::numbered_key(id, from));
            let mut events = Vec::new();
            for value in self.tree.range(start..=keys::numbered_key(id, to)).values() {
                events.extend(unpack(&value?)?);
            }
            Ok(events)
        })
    }

    /// Returns the events that record or annotate an iteration. Packs that do not concern it are not decompressed.
    pub(super) fn of_iteration(&self, id: SessionId, index: u32) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.flush()?;
        guard(|| {
            // Every iteration has its own event, so it cannot come before the sequence number that equals its index.
            let start = self.pack_at(id, index)?.map(|(key, _)| key);
            let start = start.unwrap_or_else(|| keys::numbered_key(id, 0));
            let mut events = Vec::new();
            for value in self.tree.range(start..=keys::numbered_key(id, u32::MAX)).values() {
                let value = value?;
                if PackHeader::read(&value).ok_or_else(unreadable)?.concerns(index) {
                    let concerning = |event: &StoredEvent| pack::concerns(event.value(), index);
                    events.extend(unpack(&value)?.into_iter().filter(concerning));
                }
            }
            Ok(events)
        })
    }

    /// Returns the sequence number and hash of a session's last event.
    pub(super) fn tip(&self, id: SessionId) -> Result<Option<(u32, Hash)>, DatabaseError> {
        self.flush()?;
        let Some((_, value)) = guard(|| self.pack_at(id, u32::MAX))? else { return Ok(None) };
        let last = unpack(&value)?.pop();
        Ok(last.and_then(|event| Some((event.seq, event.record()?.hash))))
    }

    /// Calls `visit` for each session with all of its events, until the first error.
    pub(super) fn for_each_session<E: From<DatabaseError>>(
        &self,
        mut visit: impl FnMut(SessionId, Vec<StoredEvent>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.flush()?;
        let mut current: Option<(SessionId, Vec<StoredEvent>)> = None;
        let mut items = self.tree.iter();
        // An iterator repeats an error forever, so the first one ends the loop.
        while let Some((key, value)) = guard(|| Ok(items.next().transpose()?))? {
            let id = keys::session_of(&key).ok_or_else(unreadable)?;
            let events = unpack(&value)?;
            match &mut current {
                Some((same, all)) if *same == id => all.extend(events),
                _ => {
                    if let Some((id, events)) = current.replace((id, events)) {
                        visit(id, events)?;
                    }
                }
            }
        }
        current.map_or(Ok(()), |(id, events)| visit(id, events))
    }

    /// Counts the events by reading the headers of all packs.
    pub(super) fn count(&self) -> Result<u64, DatabaseError> {
        self.flush()?;
        guard(|| {
            let mut count = 0;
            for value in self.tree.iter().values() {
                // A value that is not a pack is a single record, as in version 0.1.
                count += PackHeader::read(&value?).map_or(1, |header| u64::from(header.count));
            }
            Ok(count)
        })
    }

    pub(super) fn is_empty(&self) -> Result<bool, DatabaseError> {
        self.flush()?;
        guard(|| Ok(self.tree.iter().next().transpose()?.is_none()))
    }

    /// Locks the buffer if it is not empty.
    fn buffered(&self) -> Option<MutexGuard<'_, Buffered>> {
        let is_empty = self.buffer.bytes.load(Ordering::Acquire) == 0;
        (!is_empty).then(|| self.buffer.sessions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn merge(&self, id: SessionId, entries: &[PackEntry<'_>]) -> Result<(), DatabaseError> {
        let Some(first) = entries.iter().map(PackEntry::seq).min() else { return Ok(()) };
        guard(|| {
            let start = self.pack_at(id, first)?.map_or(keys::numbered_key(id, first), |(key, _)| key);
            let mut packs = Vec::new();
            for value in self.tree.range(start..=keys::numbered_key(id, u32::MAX)).values() {
                packs.push(Pack::read(&value?).ok_or_else(unreadable)?);
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

    /// Returns the pack that holds an event, if it exists: the last one that starts at or before it.
    fn pack_at(&self, id: SessionId, seq: u32) -> Result<Option<([u8; 12], IVec)>, DatabaseError> {
        let range = keys::numbered_key(id, 0)..=keys::numbered_key(id, seq);
        let Some((key, value)) = self.tree.range(range).next_back().transpose()? else { return Ok(None) };
        Ok(Some((key.as_ref().try_into().map_err(|_| unreadable())?, value)))
    }
}

/// Encodes an event for the tree.
pub(super) fn event_value(record: &[u8], position: JournalPosition) -> IVec {
    let mut value = Vec::with_capacity(record.len() + pack::POSITION);
    value.extend_from_slice(record);
    value.extend_from_slice(&position.to_bytes());
    value.into()
}

/// Unpacks a value. A database of version 0.1 has a single record in every value, which a recovery must be able to
/// read.
fn unpack(value: &[u8]) -> Result<Vec<StoredEvent>, DatabaseError> {
    if let Some(record) = Record::read_unchecked(value) {
        return Ok(vec![StoredEvent::alone(record.header.seq, value)]);
    }
    let body = Arc::new(Pack::read(value).ok_or_else(unreadable)?.into_body());
    let mut events = Vec::new();
    let mut start = 0;
    while start < body.len() {
        // The pack matched its checksums, so the records need not be decoded to find their ends.
        let (seq, length) = body.get(start..).and_then(record::seq_and_length).ok_or_else(unreadable)?;
        let end = start + length + pack::POSITION;
        events.push(StoredEvent { seq, body: Arc::clone(&body), range: start..end });
        start = end;
    }
    #[cfg(test)]
    tests::UNPACKED.set(tests::UNPACKED.get() + events.len());
    if start == body.len() { Ok(events) } else { Err(unreadable()) }
}

fn unreadable() -> DatabaseError {
    DatabaseError::Inconsistent("a pack of events cannot be read".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::model::{Actor, Draft, Iteration, Outcome, Recipe, Timestamp};
    use crate::store::{Batch, Detail, Options, Store, Target};

    thread_local! {
        /// The number of records that this thread has unpacked.
        pub(super) static UNPACKED: Cell<usize> = const { Cell::new(0) };
    }

    fn unpacked_by<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = UNPACKED.get();
        let result = work();
        (result, UNPACKED.get() - before)
    }

    /// Reading one iteration unpacks the same few records however long its session is.
    #[test]
    fn an_iteration_of_a_long_session_is_read_alone() {
        let home = tempfile::tempdir().unwrap();
        let now = Timestamp::from_millis(1_765_464_322_456).unwrap();
        let store = Store::open(home.path(), Options::new(std::sync::Arc::new(move || now))).unwrap();
        let draft = |index: u32| {
            Draft::Record(Box::new(Iteration {
                created_at: now,
                recipe: Recipe::new(format!("a fox, take {index}")),
                outcome: Outcome::default(),
                images: Vec::new(),
                parent: None,
                parent_reason: None,
                likely_parent: None,
            }))
        };
        let actor = Actor { client: "test".to_owned(), user: "me".to_owned() };
        let append = |target: Target, key: String, drafts: Vec<Draft>| {
            store
                .append(Batch { target, expected_iterations: None, at: now, actor: actor.clone(), key, drafts })
                .unwrap()
                .head
                .id
        };
        let first = vec![Draft::Start { title: None, project: None }, draft(0)];
        let id = append(Target::New(now.day()), "first".to_owned(), first);
        for hundred in 0..100 {
            let from = hundred * 100 + u32::from(hundred == 0);
            let drafts = (from..(hundred + 1) * 100).map(draft).collect();
            append(Target::Existing(id), format!("batch {hundred}"), drafts);
        }
        let ((), all) = unpacked_by(|| assert_eq!(store.events(id, Detail::Brief).unwrap().len(), 10_001));
        assert!(all >= 10_000, "{all}");
        for index in [0, 1, 4321, 9998, 9999] {
            let (events, unpacked) =
                unpacked_by(|| store.events_of_iteration(id.iteration(index), Detail::Full).unwrap());
            assert_eq!(events.len(), 1, "iteration {index}");
            assert!(unpacked < 200, "{unpacked} records were unpacked for iteration {index}");
            let (children, unpacked) = unpacked_by(|| store.children(id.iteration(index)).unwrap());
            assert_eq!(children.len(), usize::from(index < 9999), "iteration {index}");
            assert!(unpacked < 200, "{unpacked} records were unpacked for the children of iteration {index}");
        }
    }
}
