//! Reading the journal after a point: how something that is derived from the log catches up with it without following
//! every append.

use std::io;

use serde::{Deserialize, Serialize};

use crate::model::{Event, Hash};

use super::journal::{Position, SEGMENT_HEADER};
use super::log::Log;
use super::scan::{Entry, frame_at};
use super::{Detail, Error, Store};

/// A point between two commits of the journal. It holds the bytes before it, so that it is not mistaken for a point of
/// another journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalCursor {
    segment: u32,
    offset: u64,
    /// The last bytes before it: the hash of the last event, as a rule.
    before: [u8; 32],
    /// How many events there were in all.
    pub events: u64,
}

impl JournalCursor {
    /// Creates a point of a carrier that has no journal: `place` is its own way to name a position.
    pub fn of_carrier(place: [u8; 32], events: u64) -> JournalCursor {
        JournalCursor { segment: u32::MAX, offset: 0, before: place, events }
    }

    /// Returns the position of a point that was created by [`of_carrier`](JournalCursor::of_carrier); `None` for one of a journal.
    pub fn carrier_place(&self) -> Option<[u8; 32]> {
        (self.segment == u32::MAX).then_some(self.before)
    }
}

/// What was acknowledged after a point.
#[derive(Debug)]
pub struct Since {
    /// The events, in the order of the journal.
    pub events: Vec<Event>,
    /// The point after them.
    pub point: JournalCursor,
    /// Whether nothing else had been acknowledged when this was asked.
    pub complete: bool,
}

/// How much of the journal is read at once.
const CHUNK: usize = 1 << 20;

impl Store {
    /// Returns the point after everything that is acknowledged.
    pub fn point(&self) -> Result<JournalCursor, Error> {
        let (end, events) = self.log.acknowledged();
        self.log.point(end, events).ok_or_else(|| self.log.unreadable(end))
    }

    /// Returns the number of this opening among all of this process. Recoveries happen while opening, and the journal
    /// belongs to this process afterwards: what was found out about either holds as long as this is the same.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    /// Returns whether nothing was acknowledged after a point of this journal. Reads nothing.
    pub fn ends_at(&self, point: &JournalCursor) -> bool {
        let at = Position { segment: point.segment, offset: point.offset };
        self.log.acknowledged() == (at, point.events)
    }

    /// Returns some of what was acknowledged after a point. `None` if the point is not one of this journal, or if what
    /// lies after it cannot be read: then a follower must begin again from what the log holds now.
    pub fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error> {
        let (end, events) = self.log.acknowledged();
        let at = Position { segment: point.segment, offset: point.offset };
        if at > end || point.events > events || self.log.point(at, point.events) != Some(*point) {
            return Ok(None);
        }
        if at == end {
            return Ok(Some(Since { events: Vec::new(), point: *point, complete: true }));
        }
        Ok(self.log.since(at, end, point.events))
    }
}

impl Log {
    /// Returns the byte after everything acknowledged, and how many events that is.
    fn acknowledged(&self) -> (Position, u64) {
        let progress = self.view.ahead().progress;
        (progress.end, progress.totals.events)
    }

    fn point(&self, at: Position, events: u64) -> Option<JournalCursor> {
        let mut before = [0; 32];
        let bytes = self.files.open(at.segment).ok()??.read_at(at.offset.checked_sub(32)?, 32).ok()?;
        before.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        Some(JournalCursor { segment: at.segment, offset: at.offset, before, events })
    }

    fn since(&self, mut at: Position, end: Position, before: u64) -> Option<Since> {
        let mut found = Vec::new();
        let mut count = before;
        let mut chunk = CHUNK;
        while at < end && found.is_empty() {
            // A refused frame may lie after the last one that counts: the next segment says where that ended.
            let last = if at.segment == end.segment {
                end.offset
            } else {
                self.files.header(at.segment + 1).ok()??.previous_end
            };
            if at.offset >= last {
                at = Position { segment: at.segment + 1, offset: SEGMENT_HEADER };
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

    fn unreadable(&self, end: Position) -> Error {
        Error::Io {
            action: "read the journal".into(),
            path: self.layout.segment(end.segment),
            source: io::ErrorKind::NotFound.into(),
        }
    }
}
