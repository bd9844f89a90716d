//! A commit on its way to the journal: the bytes of its frame's part, the change it makes to the database, and who waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};

use crate::model::{Event, EventBody, Hash, Head, IterationId};

use super::Totals;
use super::database::{Change, KeyHit};
use super::journal::{Position, text_bytes};
use super::keys;

/// A commit on its way to the journal. Positions in its change are relative to the body until it is written.
pub(super) struct Queued {
    pub(super) ticket: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) entries: u32,
    pub(super) change: Change,
    pub(super) events: Vec<Event>,
    pub(super) waiter: Arc<Waiter>,
}

/// The thread that waits for a commit. Each is told by itself: one signal for all would wake them only to queue for the
/// state's lock.
pub(super) struct Waiter {
    thread: Thread,
    told: AtomicU8,
}

/// What a waiter can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitOutcome {
    /// Nobody leads: look whether you must.
    Lead,
    /// Your commit is on the disk.
    Acknowledged,
    /// The disk refused your commit.
    Refused,
}

const NOTHING: u8 = 0;
const LEAD: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const REFUSED: u8 = 3;

impl Waiter {
    /// The thread that asks.
    fn current() -> Arc<Waiter> {
        Arc::new(Waiter { thread: thread::current(), told: AtomicU8::new(NOTHING) })
    }

    /// Waits to be told something. What a commit came to is told for good, a call to lead once.
    pub(super) fn wait(&self) -> CommitOutcome {
        loop {
            match self.told.load(Ordering::Acquire) {
                ACKNOWLEDGED => return CommitOutcome::Acknowledged,
                REFUSED => return CommitOutcome::Refused,
                LEAD if self.told.compare_exchange(LEAD, NOTHING, Ordering::AcqRel, Ordering::Acquire).is_ok() => {
                    return CommitOutcome::Lead;
                }
                _ => thread::park(),
            }
        }
    }

    /// Whether its commit is still to be written.
    pub(super) fn is_waiting(&self) -> bool {
        self.told.load(Ordering::Acquire) < ACKNOWLEDGED
    }

    /// Tells what became of the commit; the thread notices when it is [woken](Waiter::wake).
    pub(super) fn settle(&self, told: CommitOutcome) {
        self.told.store(if told == CommitOutcome::Refused { REFUSED } else { ACKNOWLEDGED }, Ordering::Release);
    }

    pub(super) fn wake(&self) {
        self.thread.unpark();
    }

    /// Asks the thread to lead, unless its commit has been settled meanwhile.
    pub(super) fn call_to_lead(&self) {
        if self.told.compare_exchange(NOTHING, LEAD, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.wake();
        }
    }
}

impl Queued {
    pub(super) fn new(ticket: u64, before: Option<Head>, after: Head) -> Queued {
        let change = Change {
            end: Position::default(),
            before,
            after,
            records: Vec::new(),
            keys: Vec::new(),
            children: Vec::new(),
            texts: Vec::new(),
            totals: Totals::default(),
        };
        Queued { ticket, bytes: Vec::new(), entries: 0, change, events: Vec::new(), waiter: Waiter::current() }
    }

    pub(super) fn take_text(&mut self, hash: Hash, text: &str) {
        self.change.texts.push((hash, self.here()));
        self.bytes.extend_from_slice(&text_bytes(text));
        self.entries += 1;
    }

    pub(super) fn take(&mut self, event: Event, bytes: Vec<u8>) {
        let key = keys::idempotency_key(&event.key);
        let mut hit = KeyHit { session: event.session, seq: event.seq, index: None };
        if let EventBody::Recorded { index, iteration } = &event.body {
            hit.index = Some(*index);
            let child = IterationId { session: event.session, index: *index };
            self.change.children.extend(keys::link(iteration, child));
        }
        match self.change.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => known.index = known.index.or(hit.index),
            None => self.change.keys.push((key, hit)),
        }
        self.change.records.push((event.seq, self.here(), bytes.clone()));
        self.bytes.extend_from_slice(&bytes);
        self.entries += 1;
        self.events.push(event);
    }

    /// The place of the next entry, within the commit.
    fn here(&self) -> Position {
        Position { segment: 0, offset: self.bytes.len() as u64 }
    }

    /// Turns positions within the commit into positions in the journal.
    pub(super) fn locate(&mut self, body: Position, offset: u64, end: Position) {
        let move_by = |position: &mut Position| {
            *position = Position { segment: body.segment, offset: body.offset + offset + position.offset };
        };
        self.change.records.iter_mut().for_each(|(_, position, _)| move_by(position));
        self.change.texts.iter_mut().for_each(|(_, position)| move_by(position));
        self.change.end = end;
    }
}
