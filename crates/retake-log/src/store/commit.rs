//! A commit to be written to the journal: the bytes of its part of a frame, and the change it makes.

use crate::model::{Event, Hash, Head, SessionId};

use super::journal::{JournalPosition, text_bytes};
use super::projection::{CommitChange, Projection};

/// A commit to be written to the journal. Positions in its change are relative to its bytes until it is written.
pub(super) struct Commit {
    pub(super) bytes: Vec<u8>,
    /// The number of texts and records in the bytes.
    pub(super) entries: u32,
    pub(super) change: CommitChange,
    pub(super) events: Vec<Event>,
}

impl Commit {
    /// Creates an empty commit to a session.
    pub(super) fn new(id: SessionId, before: Option<Head>) -> Commit {
        let change = CommitChange::new(Projection::new(id, before));
        Commit { bytes: Vec::new(), entries: 0, change, events: Vec::new() }
    }

    /// Returns the state of the session after the commit so far.
    pub(super) fn head(&self) -> &Head {
        self.change.head()
    }

    /// Adds a long text.
    pub(super) fn add_text(&mut self, hash: Hash, text: &str) {
        self.change.texts.push((hash, self.here()));
        self.bytes.extend_from_slice(&text_bytes(text));
        self.entries += 1;
    }

    /// Adds the session's next event.
    pub(super) fn add(&mut self, event: Event, bytes: Vec<u8>) {
        self.change.projection.apply(&event);
        let here = self.here();
        self.bytes.extend_from_slice(&bytes);
        self.change.records.push((event.seq, here, bytes));
        self.entries += 1;
        self.events.push(event);
    }

    /// Converts positions within the commit to positions in the journal, where its bytes are at `offset` of a body.
    pub(super) fn locate(&mut self, body: JournalPosition, offset: u64, end: JournalPosition) {
        let move_by = |position: &mut JournalPosition| {
            *position = JournalPosition { segment: body.segment, offset: body.offset + offset + position.offset };
        };
        self.change.records.iter_mut().for_each(|(_, position, _)| move_by(position));
        self.change.texts.iter_mut().for_each(|(_, position)| move_by(position));
        self.change.end = end;
    }

    /// Returns the position of the next entry within the commit.
    fn here(&self) -> JournalPosition {
        JournalPosition { segment: 0, offset: self.bytes.len() as u64 }
    }
}
