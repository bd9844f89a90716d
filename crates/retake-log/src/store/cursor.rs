//! Reading the journal after a cursor, which lets derived data catch up with the log without following every append.

use std::io;

use serde::{Deserialize, Serialize};

use crate::model::{Event, Hash};

use super::journal::{JournalPosition, SEGMENT_HEADER};
use super::log::LocalLog;
use super::scan::{Entry, frame_at};
use super::{Detail, Error, Store};

/// A position between two commits of the journal. It contains the preceding bytes, so that it is not mistaken for a
/// position of another journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalCursor {
    segment: u32,
    offset: u64,
    /// The bytes before it: usually the hash of the last event.
    before: [u8; 32],
    /// The total number of events up to it.
    pub events: u64,
}

impl JournalCursor {
    /// Creates a cursor for a carrier without a journal: `place` is its own representation of a position.
    pub fn of_carrier(place: [u8; 32], events: u64) -> JournalCursor {
        JournalCursor { segment: u32::MAX, offset: 0, before: place, events }
    }

    /// Returns the position of a cursor created by [`of_carrier`](JournalCursor::of_carrier); `None` for a journal
    /// cursor.
    pub fn carrier_place(&self) -> Option<[u8; 32]> {
        (self.segment == u32::MAX).then_some(self.before)
    }
}

/// Events acknowledged after a cursor.
#[derive(Debug)]
pub struct Since {
    /// The events, in the order of the journal.
    pub events: Vec<Event>,
    /// The cursor after them.
    pub point: JournalCursor,
    /// Whether these were all events acknowledged at the time of the call.
    pub complete: bool,
}

/// The number of bytes of the journal read at once.
const CHUNK: usize = 1 << 20;

impl Store {
    /// Returns the cursor after everything acknowledged.
    pub fn point(&self) -> Result<JournalCursor, Error> {
        let (end, events) = self.log.acknowledged();
        self.log.point(end, events).ok_or_else(|| self.log.unreadable(end))
    }

    /// Returns a number that is unique to this open of the log within the process. Recovery only runs during open, and
    /// the journal belongs to this process afterwards, so anything learned about either stays valid while this number
    /// is unchanged.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    /// Returns whether nothing was acknowledged after a cursor of this journal, without reading anything.
    pub fn ends_at(&self, point: &JournalCursor) -> bool {
        let at = JournalPosition { segment: point.segment, offset: point.offset };
        self.log.acknowledged() == (at, point.events)
    }

    /// Returns some of what was acknowledged after a cursor. `None` if the cursor is not one of this journal, or if the
    /// journal after it cannot be read: then a follower must start over from the current state of the log.
    pub fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error> {
        let (end, events) = self.log.acknowledged();
        let at = JournalPosition { segment: point.segment, offset: point.offset };
        if at > end || point.events > events || self.log.point(at, point.events) != Some(*point) {
            return Ok(None);
        }
        if at == end {
            return Ok(Some(Since { events: Vec::new(), point: *point, complete: true }));
        }
        Ok(self.log.since(at, end, point.events))
    }
}

impl LocalLog {
    /// Returns the end of everything acknowledged, and the number of events.
    fn acknowledged(&self) -> (JournalPosition, u64) {
        let progress = self.view.ahead().progress;
        (progress.end, progress.totals.events)
    }

    fn point(&self, at: JournalPosition, events: u64) -> Option<JournalCursor> {
        let mut before = [0; 32];
        let bytes = self.files.open(at.segment).ok()??.read_at(at.offset.checked_sub(32)?, 32).ok()?;
        before.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Some(JournalCursor { segment: at.segment, offset: at.offset, before, events })
    }

    fn since(&self, mut at: JournalPosition, end: JournalPosition, before: u64) -> Option<Since> {
        let mut found = Vec::new();
        let mut count = before;
        let mut chunk = CHUNK;
        while at < end && found.is_empty() {
            // A refused frame may follow the last one that counts: the next segment states where that one ended.
            let last = if at.segment == end.segment {
                end.offset
            } else {
                self.files.header(at.segment + 1).ok()??.previous_end
            };
            if at.offset >= last {
                at = JournalPosition { segment: at.segment + 1, offset: SEGMENT_HEADER };
                continue;
            }
            let file = self.files.open(at.segment).ok()??;
            let left = usize::try_from(last - at.offset).ok()?;
            let bytes = file.read_at(at.offset, left.min(chunk)).ok()?;
            let mut read = 0;
            while let Some((frame, length)) = frame_at(bytes.get(read..).unwrap_or_default(), at.offset + read as u64) {
                for (_, entry) in &frame.entries {
                    let Entry::Record(record) = entry else { continue };
                    let texts = |hash: Hash| self.text(hash);
                    found.push(record.event_in(Detail::Brief, &texts)?.0);
                    count += 1;
                }
                read += length;
            }
            if read == 0 {
                // A frame that is longer than what was read, or not a frame.
                if bytes.len() == left {
                    return None;
                }
                chunk = chunk.saturating_mul(4);
            }
            at.offset += read as u64;
        }
        Some(Since { events: found, point: self.point(at, count)?, complete: at == end })
    }

    fn unreadable(&self, end: JournalPosition) -> Error {
        Error::Io {
            action: "read the journal".into(),
            path: self.layout.segment(end.segment),
            source: io::ErrorKind::NotFound.into(),
        }
    }
}
