//! How events lie in sled: one value per event, the record followed by the place of its copy in the journal.
//!
//! Everything else asks [`EventTree`] for events, so that another layout changes this file only.

use sled::{IVec, Tree};

use crate::model::{Hash, SessionId};

use super::database::{DatabaseError, guard};
use super::journal::Position;
use super::keys::{self, be_u32};
use super::record::Record;

/// The events of all sessions, by session and place.
#[derive(Clone)]
pub(super) struct EventTree {
    tree: Tree,
}

/// An event as sled has it.
#[derive(Clone, Debug)]
pub(super) struct StoredEvent {
    pub(super) seq: u32,
    value: IVec,
}

impl StoredEvent {
    /// Returns the record, without checking its hash: sled checks its pages. `None` if the value is not a record.
    pub(super) fn record(&self) -> Option<Record<'_>> {
        Record::read_unchecked(&self.value)
    }

    /// Returns the record if it matches its hash.
    pub(super) fn checked_record(&self) -> Option<Record<'_>> {
        Record::read(&self.value)
    }

    /// Returns the place of the copy in the journal.
    pub(super) fn position(&self) -> Option<Position> {
        Position::from_bytes(self.value.get(self.record()?.bytes.len()..)?)
    }
}

impl EventTree {
    pub(super) fn new(tree: Tree) -> EventTree {
        EventTree { tree }
    }

    pub(super) fn get(&self, id: SessionId, seq: u32) -> Result<Option<StoredEvent>, DatabaseError> {
        guard(|| Ok(self.tree.get(keys::numbered_key(id, seq))?.map(|value| StoredEvent { seq, value })))
    }

    pub(super) fn put(&self, id: SessionId, seq: u32, value: &IVec) -> Result<(), DatabaseError> {
        self.tree.insert(keys::numbered_key(id, seq), value)?;
        Ok(())
    }

    pub(super) fn remove(&self, id: SessionId, seq: u32) -> Result<(), DatabaseError> {
        guard(|| Ok(self.tree.remove(keys::numbered_key(id, seq)).map(|_| ())?))
    }

    /// Returns the events of a session in order.
    pub(super) fn of_session(&self, id: SessionId) -> Result<Vec<StoredEvent>, DatabaseError> {
        guard(|| {
            self.tree.scan_prefix(keys::session_key(id)).map(|item| stored(item?).map(|(_, event)| event)).collect()
        })
    }

    /// Returns the place and hash of a session's last event.
    pub(super) fn tip(&self, id: SessionId) -> Result<Option<(u32, Hash)>, DatabaseError> {
        let last = guard(|| Ok(self.tree.scan_prefix(keys::session_key(id)).next_back().transpose()?))?;
        let Some((_, event)) = last.map(stored).transpose()? else { return Ok(None) };
        Ok(event.record().map(|record| (event.seq, record.hash)))
    }

    /// Calls `visit` for each session with all of its events, until the first error.
    pub(super) fn for_each_session<E: From<DatabaseError>>(
        &self,
        mut visit: impl FnMut(SessionId, Vec<StoredEvent>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut current: Option<(SessionId, Vec<StoredEvent>)> = None;
        let mut items = self.tree.iter();
        // An iterator repeats an error for ever, so the first one ends the loop.
        while let Some(item) = guard(|| Ok(items.next().transpose()?))? {
            let (id, event) = stored(item)?;
            match &mut current {
                Some((same, events)) if *same == id => events.push(event),
                _ => {
                    if let Some((id, events)) = current.replace((id, vec![event])) {
                        visit(id, events)?;
                    }
                }
            }
        }
        current.map_or(Ok(()), |(id, events)| visit(id, events))
    }

    /// Counts the events by reading all keys.
    pub(super) fn count(&self) -> Result<u64, DatabaseError> {
        guard(|| self.tree.iter().keys().try_fold(0, |count, key| key.map(|_| count + 1)).map_err(DatabaseError::from))
    }

    pub(super) fn is_empty(&self) -> Result<bool, DatabaseError> {
        guard(|| Ok(self.tree.iter().next().transpose()?.is_none()))
    }
}

/// Encodes an event for the tree.
pub(super) fn event_value(record: &[u8], position: Position) -> IVec {
    let mut value = Vec::with_capacity(record.len() + 12);
    value.extend_from_slice(record);
    value.extend_from_slice(&position.to_bytes());
    value.into()
}

fn stored((key, value): (IVec, IVec)) -> Result<(SessionId, StoredEvent), DatabaseError> {
    let place = keys::session_of(&key).zip(be_u32(&key, 8));
    let (id, seq) = place.ok_or_else(|| DatabaseError::Inconsistent("an event has a bad key".to_owned()))?;
    Ok((id, StoredEvent { seq, value }))
}
