//! Recovery: a new database from everything valid that any copy holds, the journal made whole again, and losses named.
//!
//! Nothing is changed where it lies. What the journal holds goes into a new database beside the old one; what other copies
//! hold (the old database, segments and databases in quarantine) is merged in where the chains allow it; what the journal
//! lacks is appended to it; damaged and foreign files are set aside by name; the report comes last. Every step can be
//! repeated, so dying anywhere in between costs time only. A read that fails ends the recovery with that error: only
//! bytes that were read are judged. `docs/format.md` states the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{ContentDir, Disk, FileId, FileKind};
use crate::model::{Actor, EventBody, Hash, SessionId, Timestamp};

use super::checkpoint::Checkpoint;
use super::database::{Database, DatabaseError};
use super::events::event_value;
use super::fold::{Evidence, Fold};
use super::journal::{
    Journal, JournalEnd, PUT_BACK, Position, SEGMENT_HEADER, STANDS_FOR_LOST, SegmentHeader, frame_hash, text_bytes,
};
use super::layout::{Layout, segment_name};
use super::merge::Rank;
use super::open::UPGRADE;
use super::projection::Projection;
use super::record::{self, Record};
use super::scan::{DamagedSpan, Entry, Frame, ScanItem, carve, walk};
use super::segment::{self, SegmentState};
use super::segments::{JournalFiles, Outline, StrayKind};
use super::{Error, Progress, Recovery, SessionLoss, Totals, keys, quarantine, report};

/// How much is put back in one frame.
const FRAME_BYTES: usize = 1 << 20;
/// How often a rebuilt database is opened before it is given up for now.
const REOPEN_ATTEMPTS: usize = 3;

/// The workspace that is being opened or rebuilt.
pub(super) struct RecoveryContext<'a> {
    pub(super) layout: &'a Layout,
    pub(super) disk: &'a Disk,
    pub(super) files: &'a JournalFiles,
    pub(super) workspace: [u8; 16],
    pub(super) texts: &'a ContentDir,
    pub(super) segment_bytes: u64,
    pub(super) now: Timestamp,
    pub(super) progress: Option<&'a Progress>,
    /// The lock that stands for the workspace, with its identity.
    pub(super) lock: Option<(PathBuf, FileId)>,
}

/// A workspace whose two copies are whole and agree.
pub(super) struct Loaded {
    pub(super) database: Database,
    pub(super) journal: Journal,
    pub(super) totals: Totals,
    pub(super) checkpoint: Checkpoint,
    /// Events applied since sled was opened.
    pub(super) since_open: usize,
    /// What had to be done, unless nothing was lost and nothing set aside.
    pub(super) recovery: Option<Recovery>,
}

impl RecoveryContext<'_> {
    /// Reports how far the work has come.
    pub(super) fn tell(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }

    /// Returns what words an I/O error.
    pub(super) fn error(&self, action: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action: action.into(), path, source }
    }
}

/// Rebuilds the database, repairs the journal and names what is lost. The old database must be closed.
pub(super) fn rebuild(
    context: &RecoveryContext<'_>,
    causes: Vec<String>,
    checkpoint: Option<Checkpoint>,
) -> Result<Loaded, Error> {
    for cause in &causes {
        tracing::warn!(cause, "recovering");
    }
    let fresh = context.layout.new_database();
    for leftover in [&fresh, &context.layout.database_copy()] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(context.error("clear an unfinished database", leftover.clone())(error));
            }
            _ => {}
        }
    }
    let look = context.error("look at what was set aside", context.layout.quarantine());
    let name = quarantine::name_for(context.disk, context.layout, context.now).map_err(look)?;
    let place = context.layout.quarantined(&name);
    let create = context.error("make room for what is set aside", place.clone());
    context.disk.create_dir_all(&place).map_err(create)?;
    set_aside_what_is_not_a_journal(context, &place)?;
    let database = Database::open(context.disk, &fresh).map_err(|error| error.into_error(&fresh))?;
    let mut rebuild = Rebuild::begin(context, database, checkpoint, name)?;
    rebuild.read_journal()?;
    rebuild.read_other_copies()?;
    rebuild.merge()?;
    rebuild.derive()?;
    rebuild.finish(causes)
}

/// Moves anything but a directory away from the journal's name.
fn set_aside_what_is_not_a_journal(context: &RecoveryContext<'_>, place: &Path) -> Result<(), Error> {
    let journal = context.layout.journal();
    let error = || context.error("set aside what is not the journal", journal.clone());
    match context.disk.kind(&journal).map_err(error())? {
        FileKind::Absent | FileKind::Directory => Ok(()),
        FileKind::File(_) | FileKind::Other => {
            let free = quarantine::free_name(context.disk, place, "journal").map_err(error())?;
            context.disk.rename(&journal, &place.join(free)).map_err(error())
        }
    }
}

/// A recovery under way.
pub(super) struct Rebuild<'a> {
    pub(super) context: &'a RecoveryContext<'a>,
    pub(super) database: Database,
    pub(super) candidates: sled::Tree,
    checkpoint: Option<Checkpoint>,
    pub(super) outline: Outline,
    name: String,
    segments: Vec<SegmentState>,
    journal: Option<Journal>,
    evidence: BTreeMap<SessionId, Evidence>,
    /// Events that must have been there, by count.
    pub(super) expected_events: u64,
    /// Whether the old database belongs to another workspace.
    pub(super) database_is_foreign: bool,
    highest_frame: u64,
    /// Records and texts that no whole frame of the journal holds.
    missing: Vec<Vec<u8>>,
    missing_bytes: usize,
    missing_texts: BTreeSet<Hash>,
    restored: u64,
    /// Events that contradict the chain they claim to be part of; they stay in quarantine.
    pub(super) contradicting: u64,
    losses: Vec<SessionLoss>,
    /// Losses that a recovery named before it died.
    unreported: Vec<SessionLoss>,
    totals: Totals,
    newest: (u32, u32),
}

impl<'a> Rebuild<'a> {
    fn begin(
        context: &'a RecoveryContext<'a>,
        database: Database,
        checkpoint: Option<Checkpoint>,
        name: String,
    ) -> Result<Rebuild<'a>, Error> {
        let known = checkpoint.map_or(0, |checkpoint| checkpoint.end.segment);
        let outline =
            context.files.outline(known).map_err(context.error("read the journal", context.layout.journal()))?;
        // A checkpoint of version 0.1 does not say whose it is: beside a foreign journal it is foreign too.
        let is_foreign = outline.segments.is_empty()
            && outline.strays.iter().any(|stray| matches!(stray.kind, StrayKind::Foreign(_)));
        let checkpoint = checkpoint.filter(|checkpoint| !is_foreign || checkpoint.workspace == context.workspace);
        let candidates = database.candidates()?;
        Ok(Rebuild {
            context,
            database,
            candidates,
            checkpoint,
            outline,
            name,
            segments: Vec::new(),
            journal: None,
            evidence: BTreeMap::new(),
            expected_events: 0,
            database_is_foreign: false,
            highest_frame: checkpoint.map_or(0, |checkpoint| checkpoint.frame),
            missing: Vec::new(),
            missing_bytes: 0,
            missing_texts: BTreeSet::new(),
            restored: 0,
            contradicting: 0,
            losses: Vec::new(),
            unreported: Vec::new(),
            totals: Totals::default(),
            newest: checkpoint.map_or((0, 0), |checkpoint| checkpoint.newest),
        })
    }

    /// Takes everything that is whole in the journal, and notes what is not.
    fn read_journal(&mut self) -> Result<(), Error> {
        let last = self.outline.last();
        let mut since_checkpoint = 0;
        let mut salvaged = Vec::new();
        let mut previous: Option<(u64, [u8; 12])> = None;
        for number in 1..=last {
            self.context.tell("reading the journal", u64::from(number), u64::from(last));
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
        self.expected_events = self.checkpoint.map_or(0, |checkpoint| checkpoint.events + since_checkpoint);
        salvaged.into_iter().try_for_each(|bytes| self.offer(&bytes, Rank::Journal))
    }

    fn take_frame(
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
            // A checksum that fits and a hash that does not: it was edited. The other copy decides.
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
                // What a recovery put back is not new; what it named before it died is still to be reported.
                if frame.flags & PUT_BACK == 0 {
                    scan.since_checkpoint += 1;
                } else {
                    self.unreported.extend(report::named_by(record));
                }
            }
            self.take(entry, Position { segment: scan.number, offset: *offset })?;
        }
        Ok(())
    }

    fn take_damage(&mut self, scan: &mut SegmentScan, segment: &mut SegmentState, span: &DamagedSpan<'_>) {
        if span.start >= self.outline.void_offset(scan.number, scan.last_frame) {
            segment.has_junk = true;
            return;
        }
        let start = Position { segment: scan.number, offset: span.start };
        let was_acknowledged = self.checkpoint.is_some_and(|checkpoint| start < checkpoint.end);
        let is_last = scan.number == self.outline.last();
        if span.is_followed || was_acknowledged || (is_last && !span.is_torn) {
            segment.damaged.push((span.start, span.end));
            scan.salvaged.extend(span.entries.iter().map(|(_, entry)| owned(entry)));
            span.headers.iter().for_each(|header| self.heard_of(header.session, header.seq + 1, None));
        }
        segment.has_junk |= !span.is_followed;
    }

    /// Notes that a session reached this far, whatever becomes of its events.
    pub(super) fn heard_of(&mut self, id: SessionId, next_seq: u32, last_index: Option<u32>) {
        let evidence = self.evidence.entry(id).or_default();
        evidence.next_seq = evidence.next_seq.max(next_seq);
        evidence.last_index = evidence.last_index.max(last_index);
    }

    /// Notes that this many sessions of a day were started.
    pub(super) fn newest_of_day(&mut self, day: u32, number: u32) {
        if let Some(id) = keys::session_from(day, number) {
            self.heard_of(id, 0, None);
        }
    }

    /// Takes something that a whole frame of the journal holds. What is there already stays; another event at the same
    /// place becomes a candidate.
    fn take(&mut self, entry: &Entry<'_>, position: Position) -> Result<(), DatabaseError> {
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

    /// Considers a record or a text that was found elsewhere than in a whole frame.
    pub(super) fn offer(&mut self, bytes: &[u8], rank: Rank) -> Result<(), Error> {
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

    fn offer_record(&mut self, record: &Record<'_>, rank: Rank) -> Result<(), DatabaseError> {
        let there = self.database.events.get(record.header.session, record.header.seq)?;
        if there.is_some_and(|there| there.record().is_some_and(|there| there.hash == record.hash)) {
            return Ok(());
        }
        self.put_candidate(record, rank, None)
    }

    /// Appends a record to what is put back into the journal.
    pub(super) fn put_back_later(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.missing_bytes += bytes.len();
        self.missing.push(bytes);
        if self.missing_bytes > FRAME_BYTES { self.put_back() } else { Ok(()) }
    }

    /// Opens the end of the journal. What a recovery writes goes to a new segment, since any other may still turn out to
    /// need repair; one that writes nothing goes on in the last segment if that is sound.
    fn journal(&mut self, to_write: bool) -> Result<&mut Journal, Error> {
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
            self.clear_name(segment.saturating_add(1))?;
            let last = self.segments.last();
            let there = last.is_some_and(|segment| segment.there && segment.header.is_some());
            let offset = last.and_then(|segment| segment.frames.last()).map_or(SEGMENT_HEADER, |(_, end, _)| *end);
            let at = JournalEnd {
                end: Position { segment, offset },
                next_frame: self.highest_frame + 1,
                last_frame: last.map_or([0; 12], |segment| segment.last_frame_hash),
                is_spoilt: to_write
                    || needs_repair.contains(&segment)
                    || last.is_some_and(|segment| segment.has_junk || segment.header.is_none()),
                synced: Position::default(),
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

    /// Sets aside a stray file that has the name of a segment that is about to be written.
    fn clear_name(&mut self, number: u32) -> Result<(), Error> {
        let name = segment_name(number);
        let strays = std::mem::take(&mut self.outline.strays);
        let (now, later): (Vec<_>, Vec<_>) = strays.into_iter().partition(|stray| stray.name == name);
        self.outline.strays = later;
        for stray in now {
            self.set_stray_aside(&stray)?;
        }
        Ok(())
    }

    fn set_stray_aside(&self, stray: &super::segments::Stray) -> Result<String, Error> {
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

    /// Appends to the journal what only other places had.
    pub(super) fn put_back(&mut self) -> Result<(), Error> {
        let (mut body, mut entries) = (Vec::new(), Vec::new());
        for bytes in std::mem::take(&mut self.missing) {
            entries.push(body.len() as u64);
            body.extend_from_slice(&bytes);
        }
        self.missing_bytes = 0;
        self.missing_texts.clear();
        if body.is_empty() { Ok(()) } else { self.put_back_frame(&body, &entries) }
    }

    fn put_back_frame(&mut self, body: &[u8], entries: &[u64]) -> Result<(), Error> {
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
                let position = Position { segment: written.body.segment, offset: written.body.offset + offset };
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

    /// Takes an event out of the journal that another one replaced: its frame is treated as damaged, and what else it
    /// holds is put back.
    pub(super) fn cut_out(&mut self, position: Position) -> Result<(), Error> {
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
        if let Some((frame, _)) = bytes.as_deref().and_then(|bytes| super::scan::frame_at(bytes, start)) {
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

    /// Folds every session: heads, recency, keys, lineage, counters; and names what is missing.
    fn derive(&mut self) -> Result<(), Error> {
        self.put_back()?;
        let events = self.database.events.clone();
        let mut done = 0;
        events.for_each_session(|id, stored| -> Result<(), Error> {
            let mut fold = Fold::new(id);
            for stored in stored {
                let event = stored.record().and_then(|record| Some((record.event(&|_| None)?.0, record.texts())));
                let Some((event, texts)) = event else {
                    events.remove(id, stored.seq)?;
                    continue;
                };
                for hash in texts {
                    self.keep_text_twice(hash)?;
                }
                fold.take(&event);
            }
            done += fold.projection.events;
            self.context.tell("rebuilding the database", done, self.expected_events.max(done));
            self.end_session(fold)
        })?;
        // Sessions that are known only from elsewhere.
        self.newest_of_day(self.newest.0, self.newest.1);
        for (id, _) in self.evidence.clone() {
            if self.database.head(id)?.is_none() {
                self.end_session(Fold::new(id))?;
            }
        }
        Ok(())
    }

    /// Puts a long text into the journal that only its file holds.
    fn keep_text_twice(&mut self, hash: Hash) -> Result<(), Error> {
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

    /// Writes what a session's events derive to, after naming what is missing among them.
    fn end_session(&mut self, mut fold: Fold) -> Result<(), Error> {
        let id = fold.projection.after.id;
        let evidence = self.evidence.get(&id).copied().unwrap_or_default();
        if let Some((loss, named)) = fold.loss(evidence) {
            self.losses.push(named);
            let head = &fold.projection.after;
            let seq = head.next_seq.max(evidence.next_seq);
            let actor = Actor { client: "retake recovery".to_owned(), user: String::new() };
            let key = format!("lost-{id}-{seq}");
            let record = record::encode((id, seq, head.tip), self.context.now, &actor, &key, EventBody::Lost(loss));
            self.put_back_frame(&record.bytes, &[0])?;
            self.restored -= 1;
            fold.take(&record.event);
        }
        self.newest = self.newest.max(keys::numbers(id));
        self.totals.advance(&Projection { before: None, ..fold.projection.clone() });
        self.database.put_session(&fold.projection)?;
        Ok(())
    }

    /// Gives the new database its name, sets the old one and damaged segments aside, and writes the report.
    fn finish(mut self, causes: Vec<String>) -> Result<Loaded, Error> {
        let context = self.context;
        let layout = context.layout;
        self.losses.append(&mut self.unreported);
        let named = self.losses.iter().map(|loss| loss.seqs.len() as u64).sum::<u64>();
        let found = self.totals.events.saturating_sub(self.losses.len() as u64);
        let unnamed = self.expected_events.saturating_sub(found + named);
        if unnamed > 0 {
            self.losses.push(report::unnamed_loss());
        }
        let position = self.journal(false)?.position();
        let next_frame = self.journal(false)?.next_frame();
        self.database.drop_candidates()?;
        self.database.finish(context.workspace, position, self.totals)?;
        let returned = quarantine::returned(context.disk, layout, &self.database, self.totals.events)
            .map_err(context.error("look at the reports of recoveries", layout.quarantine()))?;

        let place = layout.quarantined(&self.name);
        let mut quarantined = Vec::new();
        for stray in std::mem::take(&mut self.outline.strays) {
            quarantined.push(self.set_stray_aside(&stray)?);
        }
        let damaged = segment::repair(context, &self.segments, self.highest_frame, &place)?;
        quarantined.extend(damaged.into_iter().map(|segment| format!("quarantine/{}/{segment:08}.log", self.name)));
        quarantined.extend(self.set_aside(&layout.checkpoint(), "mark", true)?);
        let old_name = if self.database_is_foreign { format!("{}db", quarantine::FOREIGN) } else { "db".to_owned() };
        quarantined.extend(self.set_aside(&layout.database(), &old_name, false)?);
        let Rebuild {
            database,
            candidates,
            journal,
            losses,
            totals,
            restored,
            newest,
            checkpoint,
            name,
            contradicting,
            expected_events,
            ..
        } = self;
        drop(candidates);
        drop(database);
        let lost_events = named + unnamed;
        // The new database has everything that the old one had, and so has the journal.
        let old_database = format!("quarantine/{name}/db");
        let is_upgrade = causes.iter().all(|cause| cause == UPGRADE)
            && restored == 0
            && losses.is_empty()
            && quarantined.iter().all(|path| *path == old_database);
        let mut recovery = None;
        if !is_upgrade && (restored > 0 || !quarantined.is_empty() || !losses.is_empty()) {
            let message = report::message(&causes, lost_events, &losses, restored, contradicting);
            let report = Recovery {
                name,
                at: context.now,
                causes,
                lost_events,
                losses,
                restored_to_journal: restored,
                quarantined,
                message,
            };
            quarantine::write_pending(context.disk, &place, &report, expected_events.max(totals.events))
                .map_err(context.error("write the report of a recovery", place.clone()))?;
            recovery = Some(report);
        }
        let (fresh, path) = (layout.new_database(), layout.database());
        context.disk.rename(&fresh, &path).map_err(context.error("put the new database in its place", path.clone()))?;
        let checkpoint = Checkpoint {
            count: checkpoint.map_or(1, |checkpoint| checkpoint.count + 1),
            frame: next_frame - 1,
            end: position,
            events: totals.events,
            unchecked: position,
            newest,
            workspace: context.workspace,
        };
        let journal = journal.ok_or(Error::Misuse("the journal was opened above".into()))?;
        journal.write_checkpoint(&checkpoint).map_err(context.error("write the checkpoint", layout.checkpoint()))?;
        quarantine::withdraw(context.disk, returned)
            .map_err(context.error("withdraw losses that came back", layout.quarantine()))?;
        if recovery.is_some() {
            quarantine::settle(context.disk, layout)
                .map_err(context.error("name the report of a recovery", place.clone()))?;
        } else if is_upgrade {
            let _ = fs::remove_dir_all(&place);
        } else {
            // Nothing was set aside: only the database had been deleted.
            let _ = fs::remove_dir(&place);
        }
        let database = reopen(context, &path, position, totals)?;
        Ok(Loaded { database, journal, totals, checkpoint, since_open: 0, recovery })
    }

    /// Moves something into quarantine; with `unless_file`, only what is not a regular file.
    fn set_aside(&self, path: &Path, name: &str, unless_file: bool) -> Result<Option<String>, Error> {
        let error = || self.context.error("set the old files aside", path.to_owned());
        match self.context.disk.kind(path).map_err(error())? {
            FileKind::Absent => return Ok(None),
            FileKind::File(_) if unless_file => return Ok(None),
            _ => {}
        }
        let place = self.context.layout.quarantined(&self.name);
        let free = quarantine::free_name(self.context.disk, &place, name).map_err(error())?;
        self.context.disk.rename(path, &place.join(&free)).map_err(error())?;
        Ok(Some(format!("quarantine/{}/{free}", self.name)))
    }
}

/// Opens the rebuilt database and compares it with what was written: a read that fails while sled opens can make it come
/// up with less.
fn reopen(context: &RecoveryContext<'_>, path: &Path, position: Position, totals: Totals) -> Result<Database, Error> {
    let mut last = None;
    for _ in 0..REOPEN_ATTEMPTS {
        let opened = Database::open(context.disk, path);
        let checked = opened.and_then(|database| database.check_reopened(position, totals).map(|()| database));
        match checked {
            Ok(database) => return Ok(database),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or(DatabaseError::Closed);
    Err(error.into_error(path))
}

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Error {
        error.into_error(Path::new("db"))
    }
}

/// What is noted while one segment is read.
struct SegmentScan {
    number: u32,
    void_from: u64,
    /// The end and hash of the last whole frame.
    last_frame: Option<(u64, [u8; 12])>,
    since_checkpoint: u64,
    salvaged: Vec<Vec<u8>>,
    failed: Option<DatabaseError>,
}

/// Returns the bytes of an entry as the journal keeps it.
pub(super) fn owned(entry: &Entry<'_>) -> Vec<u8> {
    match entry {
        Entry::Record(record) => record.bytes.to_vec(),
        Entry::Text(_, text) => text_bytes(text),
    }
}
