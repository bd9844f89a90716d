//! Reads the journal for a recovery: intact frames go into the new database, everything else becomes a candidate.

use crate::store::Error;
use crate::store::database::DatabaseError;
use crate::store::events::event_value;
use crate::store::journal::{JournalPosition, PUT_BACK, SEGMENT_HEADER, STANDS_FOR_LOST, frame_hash, text_bytes};
use crate::store::merge::Rank;
use crate::store::record::Record;
use crate::store::report;
use crate::store::scan::{DamagedSpan, Entry, Frame, ScanItem, carve, walk};
use crate::store::segment::SegmentState;
use crate::store::segments::JournalFiles;

use super::Rebuild;

/// The maximum number of missing segments at the end of the journal whose numbers are kept.
const MAX_MISSING_SEGMENTS: u32 = 1000;

/// The state of reading one segment.
pub(super) struct SegmentScan {
    number: u32,
    void_from: u64,
    /// The end and hash of the last intact frame.
    last_frame: Option<(u64, [u8; 12])>,
    since_checkpoint: u64,
    salvaged: Vec<Vec<u8>>,
    failed: Option<DatabaseError>,
}

impl Rebuild<'_> {
    /// Reads everything intact in the journal, and records the rest.
    pub(super) fn read_journal(&mut self) -> Result<(), Error> {
        // Missing segments at the end keep their numbers, in case they come back.
        let known = self.checkpoint.map_or(0, |checkpoint| checkpoint.end.segment);
        let known = known.min(self.outline.last().saturating_add(MAX_MISSING_SEGMENTS));
        let last = self.outline.last().max(known);
        let mut since_checkpoint = 0;
        let mut salvaged = Vec::new();
        let mut previous: Option<(u64, [u8; 12])> = None;
        for number in 1..=last {
            self.context.report("reading the journal", u64::from(number), u64::from(last));
            let there = self.outline.segments.iter().any(|segment| segment.number == number);
            let path = self.context.layout.segment(number);
            let read = |files: &JournalFiles| files.read(number, 0);
            let bytes = if there { read(self.context.files) } else { Ok(None) };
            let bytes = bytes.map_err(self.context.error("read the journal", path))?.unwrap_or_default();
            let header = self.outline.header(number);
            let mut segment = SegmentState::new(number, header, there);
            segment.is_fork = header.zip(previous).is_some_and(|(header, (end, hash))| {
                header.previous_end == end && header.previous_frame != [0; 12] && header.previous_frame != hash
            });
            let mut scan = SegmentScan {
                number,
                void_from: self.outline.void_from(number),
                last_frame: None,
                since_checkpoint: 0,
                salvaged: Vec::new(),
                failed: None,
            };
            let frames = bytes.get(64..).unwrap_or_default();
            walk(frames, SEGMENT_HEADER, &mut |item| {
                if scan.failed.is_none() {
                    scan.failed = match item {
                        ScanItem::Frame(frame) => self.take_frame(&mut scan, &mut segment, &frame),
                        ScanItem::Damage(span) => {
                            self.take_damage(&mut scan, &mut segment, &span);
                            Ok(())
                        }
                    }
                    .err();
                }
            });
            if let Some(error) = scan.failed {
                return Err(error.into_error(&self.context.layout.new_database()));
            }
            since_checkpoint += scan.since_checkpoint;
            salvaged.append(&mut scan.salvaged);
            previous = scan.last_frame;
            segment.last_frame_hash = scan.last_frame.map_or([0; 12], |(_, hash)| hash);
            self.segments.push(segment);
        }
        let noted = self.context.acknowledged.map_or(0, |note| note.events);
        self.expected_events = self.checkpoint.map_or(0, |checkpoint| checkpoint.events + since_checkpoint).max(noted);
        salvaged.into_iter().try_for_each(|bytes| self.offer(&bytes, Rank::Journal))
    }

    pub(super) fn take_frame(
        &mut self,
        scan: &mut SegmentScan,
        segment: &mut SegmentState,
        frame: &Frame<'_>,
    ) -> Result<(), DatabaseError> {
        if frame.number >= scan.void_from {
            return Ok(());
        }
        self.highest_frame = self.highest_frame.max(frame.number);
        let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
        scan.last_frame = (!stands_for_lost).then(|| (frame.end, frame_hash(frame.bytes)));
        if segment.is_fork || !frame.entries.iter().all(|(_, entry)| entry.is_true()) {
            // The checksum matches but the hash does not: it was edited. The other copy decides.
            segment.damaged.push((frame.start, frame.end));
            for (_, entry) in &frame.entries {
                match entry {
                    entry if entry.is_true() => scan.salvaged.push(owned(entry)),
                    Entry::Record(record) => self.heard_of(record.header.session, record.header.seq + 1, None),
                    Entry::Text(..) => {}
                }
            }
            return Ok(());
        }
        segment.frames.push((frame.start, frame.end, frame.number));
        let is_new = self.checkpoint.is_some_and(|checkpoint| frame.number > checkpoint.frame);
        for (offset, entry) in &frame.entries {
            if let Entry::Record(record) = entry
                && is_new
            {
                // Events restored by a recovery are not new; losses recorded before it died must still be reported.
                if frame.flags & PUT_BACK == 0 {
                    scan.since_checkpoint += 1;
                } else {
                    self.unreported.extend(report::named_by(record));
                }
            }
            self.take(entry, JournalPosition { segment: scan.number, offset: *offset })?;
        }
        Ok(())
    }

    pub(super) fn take_damage(&mut self, scan: &mut SegmentScan, segment: &mut SegmentState, span: &DamagedSpan<'_>) {
        if span.start >= self.outline.void_offset(scan.number, scan.last_frame) {
            segment.has_junk = true;
            return;
        }
        let start = JournalPosition { segment: scan.number, offset: span.start };
        let was_acknowledged = self.checkpoint.is_some_and(|checkpoint| start < checkpoint.end);
        let is_last = scan.number == self.outline.last();
        if span.is_followed || was_acknowledged || (is_last && !span.is_torn) {
            segment.damaged.push((span.start, span.end));
            scan.salvaged.extend(span.entries.iter().map(|(_, entry)| owned(entry)));
            span.headers.iter().for_each(|header| self.heard_of_record(*header));
        }
        segment.has_junk |= !span.is_followed;
    }

    /// Adds an entry of an intact frame of the journal. An existing entry stays; another event with the same sequence
    /// number becomes a candidate.
    pub(super) fn take(&mut self, entry: &Entry<'_>, position: JournalPosition) -> Result<(), DatabaseError> {
        match entry {
            Entry::Record(record) => {
                let (id, seq) = (record.header.session, record.header.seq);
                match self.database.events.get(id, seq)? {
                    None => self.database.events.put(id, seq, &event_value(record.bytes, position))?,
                    Some(there) if there.record().is_some_and(|there| there.hash == record.hash) => {}
                    Some(_) => self.put_candidate(record, Rank::Journal, Some(position))?,
                }
            }
            Entry::Text(hash, text) => {
                self.database.texts.insert(hash.0, position.to_bytes().to_vec())?;
                if self.context.texts.check(hash.0).is_err()
                    && let Err(error) = self.context.texts.put(text.as_bytes())
                {
                    tracing::warn!(%hash, %error, "a long text cannot be written back to its file");
                }
            }
        }
        Ok(())
    }

    /// Considers a record or a text that was found outside of an intact frame.
    pub(in crate::store) fn offer(&mut self, bytes: &[u8], rank: Rank) -> Result<(), Error> {
        let offered = if let Some(record) = Record::read(bytes) {
            self.offer_record(&record, rank)
        } else if let Some((_, Entry::Text(hash, _))) = carve(bytes, 0).0.first() {
            let known = self.database.texts.contains_key(hash.0).map_err(DatabaseError::from);
            known.map(|known| {
                if !known && self.missing_texts.insert(*hash) {
                    self.missing_bytes += bytes.len();
                    self.missing.push(bytes.to_vec());
                }
            })
        } else {
            Ok(())
        };
        offered.map_err(|error| error.into_error(&self.context.layout.new_database()))
    }

    pub(super) fn offer_record(&mut self, record: &Record<'_>, rank: Rank) -> Result<(), DatabaseError> {
        let there = self.database.events.get(record.header.session, record.header.seq)?;
        if there.is_some_and(|there| there.record().is_some_and(|there| there.hash == record.hash)) {
            return Ok(());
        }
        self.put_candidate(record, rank, None)
    }
}

/// Returns the bytes of an entry as stored in the journal.
pub(in crate::store) fn owned(entry: &Entry<'_>) -> Vec<u8> {
    match entry {
        Entry::Record(record) => record.bytes.to_vec(),
        Entry::Text(_, text) => text_bytes(text),
    }
}
