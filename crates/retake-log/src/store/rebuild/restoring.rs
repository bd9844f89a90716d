//! Writes to the journal during a recovery: restores what only other copies had, in a separate segment.

use std::io;

use crate::disk::FileKind;
use crate::model::Hash;
use crate::store::database::DatabaseError;
use crate::store::events::event_value;
use crate::store::journal::{
    Journal, JournalEnd, JournalPosition, PUT_BACK, SEGMENT_HEADER, SegmentHeader, text_bytes,
};
use crate::store::layout::segment_name;
use crate::store::record::Record;
use crate::store::scan::{Entry, carve, frame_at};
use crate::store::segment::{self, SegmentState};
use crate::store::segments::{Stray, StrayKind};
use crate::store::{Error, quarantine};

use super::Rebuild;
use super::reading::owned;

/// The maximum size of restored entries in one frame.
const FRAME_BYTES: usize = 1 << 20;

impl Rebuild<'_> {
    /// Adds a record to be restored to the journal.
    pub(in crate::store) fn put_back_later(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.missing_bytes += bytes.len();
        self.missing.push(bytes);
        if self.missing_bytes > FRAME_BYTES { self.put_back() } else { Ok(()) }
    }

    /// Opens the end of the journal. A recovery writes to a new segment, since any other may still turn out to need
    /// repair; one that writes nothing continues in the last segment if that is intact.
    pub(super) fn journal(&mut self, to_write: bool) -> Result<&mut Journal, Error> {
        if self.journal.is_none() {
            let layout = self.context.layout;
            if self.segments.is_empty() {
                let header = SegmentHeader::first(self.context.workspace);
                self.clear_name(1)?;
                Journal::create_segment(self.context.disk, layout, header)
                    .map_err(self.context.error("create the journal", layout.journal()))?;
                self.segments.push(SegmentState::new(1, Some(header), true));
            }
            let needs_repair = segment::damaged(&self.segments, self.highest_frame);
            let last = self.segments.last();
            let segment = last.map_or(1, |segment| segment.number);
            self.clear_name(segment)?;
            self.clear_name(segment.saturating_add(1))?;
            let last = self.segments.last();
            let there = last.is_some_and(|segment| segment.there && segment.header.is_some());
            let offset = last.and_then(|segment| segment.frames.last()).map_or(SEGMENT_HEADER, |(_, end, _)| *end);
            let at = JournalEnd {
                end: JournalPosition { segment, offset },
                next_frame: self.highest_frame + 1,
                last_frame: last.map_or([0; 12], |segment| segment.last_frame_hash),
                is_spoilt: to_write
                    || needs_repair.contains(&segment)
                    || last.is_some_and(|segment| segment.has_junk || segment.header.is_none()),
                synced: JournalPosition::default(),
            };
            if !there {
                // Its name must exist for the next segment to follow; it is repaired before this recovery ends.
                let path = layout.segment(segment);
                if self.context.disk.kind(&path).map_err(self.context.error("open the journal", path.clone()))?
                    == FileKind::Absent
                {
                    let header = SegmentHeader {
                        segment,
                        first_frame: self.highest_frame + 1,
                        ..SegmentHeader::first(self.context.workspace)
                    };
                    Journal::create_segment(self.context.disk, layout, header)
                        .map_err(self.context.error("create a segment of the journal", path))?;
                }
            }
            let journal = Journal::resume(self.context, at)
                .map_err(self.context.error("open the journal", layout.segment(segment)))?;
            self.journal = Some(journal);
        }
        self.journal.as_mut().ok_or(Error::Misuse("the journal was just opened".into()))
    }

    /// Quarantines a stray file with the name of a segment that is about to be written.
    pub(super) fn clear_name(&mut self, number: u32) -> Result<(), Error> {
        let name = segment_name(number);
        let strays = std::mem::take(&mut self.outline.strays);
        let (now, later): (Vec<_>, Vec<_>) = strays.into_iter().partition(|stray| stray.name == name);
        self.outline.strays = later;
        for stray in now {
            let name = self.set_stray_aside(&stray)?;
            self.quarantined.push(name);
        }
        Ok(())
    }

    pub(super) fn set_stray_aside(&self, stray: &Stray) -> Result<String, Error> {
        let place = self.context.layout.quarantined(&self.name);
        let path = self.context.layout.journal().join(&stray.name);
        let wanted = match stray.kind {
            StrayKind::Foreign(_) => format!("{}{}", quarantine::FOREIGN, stray.name),
            StrayKind::Misnamed(_) | StrayKind::NotAFile => format!("stray-{}", stray.name),
        };
        let error = || self.context.error("set a file of the journal aside", path.clone());
        let free = quarantine::free_name(self.context.disk, &place, &wanted).map_err(error())?;
        self.context.disk.rename(&path, &place.join(&free)).map_err(error())?;
        Ok(format!("quarantine/{}/{free}", self.name))
    }

    /// Appends to the journal what only other copies had.
    pub(in crate::store) fn put_back(&mut self) -> Result<(), Error> {
        let (mut body, mut entries) = (Vec::new(), Vec::new());
        for bytes in std::mem::take(&mut self.missing) {
            entries.push(body.len() as u64);
            body.extend_from_slice(&bytes);
        }
        self.missing_bytes = 0;
        self.missing_texts.clear();
        if body.is_empty() { Ok(()) } else { self.put_back_frame(&body, &entries) }
    }

    pub(super) fn put_back_frame(&mut self, body: &[u8], entries: &[u64]) -> Result<(), Error> {
        let path = self.context.layout.journal();
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let written = self.journal(true)?.commit(body, count, PUT_BACK);
        let written = written.map_err(|error| Error::Io {
            action: "write the journal".into(),
            path,
            source: io::Error::new(error.source().kind(), error.source().to_string()),
        })?;
        let stored = || -> Result<(), DatabaseError> {
            for (offset, entry) in carve(body, 0).0 {
                if entries.binary_search(&offset).is_err() {
                    continue;
                }
                let position = JournalPosition { segment: written.body.segment, offset: written.body.offset + offset };
                match &entry {
                    Entry::Record(record) => {
                        let value = event_value(record.bytes, position);
                        self.database.events.put(record.header.session, record.header.seq, &value)?;
                        self.restored += 1;
                    }
                    Entry::Text(hash, _) => {
                        self.database.texts.insert(hash.0, position.to_bytes().to_vec())?;
                    }
                }
            }
            Ok(())
        };
        let mut stored = stored;
        stored().map_err(|error| error.into_error(&self.context.layout.new_database()))
    }

    /// Removes an event from the journal that another one replaced: its frame is treated as damaged, and its other
    /// entries are restored.
    pub(in crate::store) fn cut_out(&mut self, position: JournalPosition) -> Result<(), Error> {
        self.expected_events = self.expected_events.saturating_sub(1);
        let Some(segment) = self.segments.iter_mut().find(|segment| segment.number == position.segment) else {
            return Ok(());
        };
        let holds = |(start, end, _): &(u64, u64, u64)| (*start..*end).contains(&position.offset);
        let Some(at) = segment.frames.iter().position(holds) else { return Ok(()) };
        let (start, end, _) = segment.frames.remove(at);
        segment.damaged.push((start, end));
        let path = self.context.layout.segment(position.segment);
        let bytes =
            self.context.files.read(position.segment, start).map_err(self.context.error("read the journal", path))?;
        let mut others = Vec::new();
        if let Some((frame, _)) = bytes.as_deref().and_then(|bytes| frame_at(bytes, start)) {
            let rest = frame.entries.iter().filter(|(offset, _)| *offset != position.offset);
            others.extend(rest.map(|(_, entry)| owned(entry)));
        }
        for bytes in others {
            let stays = match Record::read(&bytes) {
                Some(record) => {
                    let there = self.database.events.get(record.header.session, record.header.seq)?;
                    there.is_some_and(|there| there.record().is_some_and(|there| there.hash == record.hash))
                }
                None => true,
            };
            if stays {
                self.put_back_later(bytes)?;
            }
        }
        Ok(())
    }

    /// Adds a long text to the journal that exists only in its file.
    pub(super) fn keep_text_twice(&mut self, hash: Hash) -> Result<(), Error> {
        if self.database.texts.contains_key(hash.0).map_err(DatabaseError::from)? {
            return Ok(());
        }
        if let Ok(bytes) = self.context.texts.get(hash.0)
            && let Ok(text) = String::from_utf8(bytes)
        {
            self.put_back_frame(&text_bytes(&text), &[0])?;
        }
        Ok(())
    }
}
