//! Recovery: a new database from all that can be found, the journal made whole again, and the losses named.
//!
//! Nothing is changed where it lies. Events go into a new database beside the old one; what the journal lacks is
//! appended to it; damaged segments and the old database are set aside by name; the report comes last. Every step can be
//! repeated, so dying anywhere in between costs time only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{ContentDir, Disk};
use crate::model::{Actor, Event, EventBody, Hash, SessionId, Timestamp};

use super::database::{Database, DatabaseError, KeyHit, encode_head, recency_of};
use super::event_tree::unpack;
use super::fold::{Evidence, Fold};
use super::journal::{FORMAT, Journal, PUT_BACK, Position, SEGMENT_HEADER, SegmentHeader, segment_path, text_bytes};
use super::checkpoint::Checkpoint;
use super::open::{Outline, UPGRADE, outline};
use super::record::{self, Record};
use super::scan::{Entry, ScanItem, carve, read_segment, walk};
use super::segment::{self, Segment};
use super::{Error, Progress, Recovery, SessionLoss, Totals, keys, quarantine};

/// How much is put back in one frame.
const FRAME_BYTES: usize = 1 << 20;

/// The workspace that is being opened or mended.
pub(super) struct RecoveryContext<'a> {
    pub(super) dir: &'a Path,
    pub(super) disk: &'a Disk,
    pub(super) workspace: [u8; 16],
    pub(super) texts: &'a ContentDir,
    pub(super) segment_bytes: u64,
    pub(super) now: Timestamp,
    pub(super) progress: Option<&'a Progress>,
}

/// A workspace whose two copies are whole and agree.
pub(super) struct Loaded {
    pub(super) database: Database,
    pub(super) journal: Journal,
    pub(super) totals: Totals,
    pub(super) mark: Checkpoint,
    /// Events applied since sled was opened.
    pub(super) since_open: usize,
    /// What had to be done, unless nothing was lost and nothing set aside.
    pub(super) recovery: Option<Recovery>,
}

impl RecoveryContext<'_> {
    pub(super) fn tell(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }

    pub(super) fn journal_dir(&self) -> PathBuf {
        self.dir.join("journal")
    }
}

/// Rebuilds the database, mends the journal and names what is lost. The old database must be closed.
pub(super) fn rebuild(site: &RecoveryContext<'_>, causes: Vec<String>, mark: Option<Checkpoint>) -> Result<Loaded, Error> {
    for cause in &causes {
        tracing::warn!(cause, "recovering");
    }
    let io_error =
        |action: &'static str, path: PathBuf| move |source| Error::Io { action: action.into(), path, source };
    let fresh = site.dir.join("db.new");
    match fs::remove_dir_all(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("clear an unfinished database", fresh)(error));
        }
        _ => {}
    }
    let name = quarantine::name_for(site.dir, site.now);
    let place = site.dir.join("quarantine").join(&name);
    site.disk.create_dir_all(&place).map_err(io_error("make room for what is set aside", place.clone()))?;
    let mut work = Rebuild::begin(site, Database::open(&fresh)?, mark)?;
    work.read_journal()?;
    if !work.journal_is_whole() {
        work.search_old_databases()?;
    }
    work.put_back()?;
    work.derive()?;
    work.finish(causes, &fresh, name)
}

impl From<DatabaseError> for Error {
    fn from(trouble: DatabaseError) -> Error {
        Error::Database(trouble.to_string())
    }
}

/// A recovery under way.
pub(super) struct Rebuild<'a> {
    pub(super) site: &'a RecoveryContext<'a>,
    database: Database,
    mark: Option<Checkpoint>,
    outline: Outline,
    segments: Vec<Segment>,
    journal: Option<Journal>,
    evidence: BTreeMap<SessionId, Evidence>,
    /// Events that must have been there, by count.
    pub(super) expected_events: u64,
    highest_frame: u64,
    /// Records and texts that no whole frame holds.
    missing: Vec<Vec<u8>>,
    missing_bytes: usize,
    missing_keys: BTreeSet<[u8; 12]>,
    missing_texts: BTreeSet<Hash>,
    restored: u64,
    losses: Vec<SessionLoss>,
    /// Losses that a recovery named before it died.
    unreported: Vec<SessionLoss>,
    totals: Totals,
    newest: (u32, u32),
}

impl<'a> Rebuild<'a> {
    fn begin(site: &'a RecoveryContext<'a>, database: Database, mark: Option<Checkpoint>) -> Result<Rebuild<'a>, Error> {
        let journal_dir = site.journal_dir();
        let outline = outline(&journal_dir).map_err(|source| Error::Io {
            action: "read the journal".into(),
            path: journal_dir,
            source,
        })?;
        Ok(Rebuild {
            site,
            database,
            mark,
            outline,
            segments: Vec::new(),
            journal: None,
            evidence: BTreeMap::new(),
            expected_events: 0,
            highest_frame: mark.map_or(0, |mark| mark.frame),
            missing: Vec::new(),
            missing_bytes: 0,
            missing_keys: BTreeSet::new(),
            missing_texts: BTreeSet::new(),
            restored: 0,
            losses: Vec::new(),
            unreported: Vec::new(),
            totals: Totals::default(),
            newest: mark.map_or((0, 0), |mark| mark.newest),
        })
    }

    /// Takes everything that is whole in the journal, and notes what is not.
    fn read_journal(&mut self) -> Result<(), Error> {
        let last = self.outline.headers.last().map_or(0, |(number, _)| *number);
        let mut events_since_mark = 0;
        let mut salvaged = Vec::new();
        for number in 1..=last {
            self.site.tell("reading the journal", u64::from(number), u64::from(last));
            let path = segment_path(&self.site.journal_dir(), number);
            let bytes = read_segment(&path, 0).unwrap_or_default();
            let header =
                self.outline.headers.iter().find(|(there, _)| *there == number).and_then(|(_, header)| *header);
            let mut segment = Segment::new(number, header);
            let void_from = self.outline.void_from(number);
            let mut failed = None;
            let frames = bytes.get(64..).unwrap_or_default();
            walk(frames, SEGMENT_HEADER, &mut |item| match item {
                ScanItem::Frame(frame) => {
                    if frame.number >= void_from || failed.is_some() {
                        return;
                    }
                    self.highest_frame = self.highest_frame.max(frame.number);
                    if !frame.entries.iter().all(|(_, entry)| entry.is_true()) {
                        // A checksum that fits and a hash that does not: someone has been here. The other copy decides.
                        segment.damaged.push((frame.start, frame.end));
                        let (kept, altered): (Vec<_>, Vec<_>) =
                            frame.entries.iter().partition(|(_, entry)| entry.is_true());
                        salvaged.extend(kept.iter().map(|(_, entry)| owned(entry)));
                        for (_, entry) in altered {
                            if let Entry::Record(record) = entry {
                                self.heard_of(record.header.session, record.header.seq + 1, None);
                            }
                        }
                        return;
                    }
                    segment.frames.push((frame.start, frame.end, frame.number));
                    let since_mark = self.mark.is_some_and(|mark| frame.number > mark.frame);
                    for (offset, entry) in &frame.entries {
                        if let Entry::Record(record) = entry
                            && since_mark
                        {
                            // What a recovery put back is not new; what it named before it died is still to be reported.
                            if frame.flags & PUT_BACK == 0 {
                                events_since_mark += 1;
                            } else {
                                self.unreported.extend(named_by(record));
                            }
                        }
                        let position = Position { segment: number, offset: *offset };
                        failed = failed.take().or(self.take(entry, position).err());
                    }
                }
                ScanItem::DamagedSpan(span) => {
                    let known =
                        self.mark.is_some_and(|mark| Position { segment: number, offset: span.start } < mark.end);
                    if span.is_followed || known {
                        segment.damaged.push((span.start, span.end));
                        salvaged.extend(span.entries.iter().map(|(_, entry)| owned(entry)));
                        span.headers.iter().for_each(|header| self.heard_of(header.session, header.seq + 1, None));
                    }
                    segment.junk |= !span.is_followed;
                }
            });
            if let Some(trouble) = failed {
                return Err(trouble.into());
            }
            self.segments.push(segment);
        }
        self.expected_events = self.mark.map_or(0, |mark| mark.events + events_since_mark);
        salvaged.into_iter().try_for_each(|bytes| self.offer(bytes))
    }

    /// Whether every frame from the first to the last that was acknowledged is there, so that no other source is needed.
    fn journal_is_whole(&self) -> bool {
        let mut expected = 1;
        for segment in &self.segments {
            if !segment.damaged.is_empty() || segment.header.is_none() {
                return false;
            }
            for (_, _, number) in &segment.frames {
                if *number > expected {
                    return false;
                }
                expected = expected.max(*number + 1);
            }
        }
        // A database that is ahead of the journal shows in the mark; without one, look.
        self.mark.is_some_and(|mark| mark.frame < expected) && self.segments.len() == self.outline.headers.len()
    }

    pub(super) fn heard_of(&mut self, id: SessionId, next_seq: u32, last_index: Option<u32>) {
        let evidence = self.evidence.entry(id).or_default();
        evidence.next_seq = evidence.next_seq.max(next_seq);
        evidence.last_index = evidence.last_index.max(last_index);
    }

    pub(super) fn newest_of_day(&mut self, day: u32, number: u32) {
        if let Some(id) = keys::session_from(day, number) {
            self.heard_of(id, 0, None);
        }
    }

    /// Takes something that a whole frame of the journal holds.
    fn take(&mut self, entry: &Entry<'_>, position: Position) -> Result<(), DatabaseError> {
        match entry {
            Entry::Record(record) => {
                self.database.events.insert(record, position)?;
            }
            Entry::Text(hash, text) => {
                self.database.texts.insert(hash.0, position.to_bytes().to_vec())?;
                if self.site.texts.check(hash.0).is_err()
                    && let Err(error) = self.site.texts.put(text.as_bytes())
                {
                    tracing::warn!(%hash, %error, "a long text cannot be written back to its file");
                }
            }
        }
        Ok(())
    }

    /// Considers something that was found elsewhere: it is kept when the journal does not have it.
    pub(super) fn offer(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        let new = if let Some(record) = Record::read(&bytes) {
            let key = keys::numbered_key(record.header.session, record.header.seq);
            let known = self.database.events.contains(record.header.session, record.header.seq)?;
            !known && self.missing_keys.insert(key)
        } else if let Some((_, Entry::Text(hash, _))) = carve(&bytes, 0).0.first() {
            !self.database.texts.contains_key(hash.0).map_err(DatabaseError::from)? && self.missing_texts.insert(*hash)
        } else {
            false
        };
        if new {
            self.missing_bytes += bytes.len();
            self.missing.push(bytes);
        }
        if self.missing_bytes > FRAME_BYTES { self.put_back() } else { Ok(()) }
    }

    /// Opens the end of the journal for writing. In a damaged journal that is a new segment, so that what this recovery
    /// writes never lies in a segment that is still to be mended.
    fn journal(&mut self) -> Result<&mut Journal, Error> {
        if self.journal.is_none() {
            let dir = self.site.journal_dir();
            let io_error = |source| Error::Io { action: "open the journal".into(), path: dir.clone(), source };
            let whole = self.journal_is_whole();
            if self.segments.is_empty() {
                let (format, workspace) = (FORMAT, self.site.workspace);
                let header = SegmentHeader { format, segment: 1, workspace, first_frame: 1, previous_end: 0 };
                Journal::create_segment(self.site.disk, &dir, header).map_err(io_error)?;
                self.segments.push(Segment::new(1, Some(header)));
            }
            let last = self.segments.last();
            let segment = last.map_or(1, |segment| segment.number);
            let offset = last.and_then(|segment| segment.frames.last()).map_or(SEGMENT_HEADER, |(_, end, _)| *end);
            let spoilt = !whole || last.is_some_and(|segment| segment.junk);
            let end = Position { segment, offset };
            let journal = Journal::resume(self.site, end, self.highest_frame + 1, spoilt).map_err(io_error)?;
            self.journal = Some(journal);
        }
        self.journal.as_mut().ok_or(Error::Misuse("the journal was just opened".into()))
    }

    /// Appends to the journal what only other places had.
    pub(super) fn put_back(&mut self) -> Result<(), Error> {
        let (mut body, mut entries) = (Vec::new(), Vec::new());
        for bytes in std::mem::take(&mut self.missing) {
            entries.push((body.len() as u64, bytes.len()));
            body.extend_from_slice(&bytes);
        }
        self.missing_bytes = 0;
        self.missing_keys.clear();
        self.missing_texts.clear();
        if body.is_empty() { Ok(()) } else { self.put_back_frame(&body, &entries) }
    }

    fn put_back_frame(&mut self, body: &[u8], entries: &[(u64, usize)]) -> Result<(), Error> {
        let path = self.site.journal_dir();
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let written = self.journal()?.commit(body, count, PUT_BACK);
        let written = written.map_err(|source| Error::Io { action: "write the journal".into(), path, source })?;
        for (offset, entry) in carve(body, 0).0 {
            if entries.iter().any(|(start, _)| *start == offset) {
                let position = Position { segment: written.body.segment, offset: written.body.offset + offset };
                self.take(&entry, position)?;
                self.restored += u64::from(matches!(entry, Entry::Record(_)));
            }
        }
        Ok(())
    }

    /// Folds every session: heads, recency, keys, lineage, counters; and names what is missing.
    fn derive(&mut self) -> Result<(), Error> {
        let events = self.database.events.clone();
        let mut fold: Option<Fold> = None;
        let mut done = 0;
        for value in events.packs()? {
            for (seq, value) in unpack(&value.map_err(DatabaseError::from)?)? {
                let Some(record) = Record::read_unchecked(&value) else { continue };
                let id = record.header.session;
                let Some((event, _)) = record.event(&|_| None) else {
                    events.remove(id, seq)?;
                    continue;
                };
                for hash in record.texts() {
                    self.keep_text_twice(hash)?;
                }
                if fold.as_ref().is_none_or(|fold| fold.head.id != id) {
                    let finished = fold.replace(Fold::new(id));
                    finished.map_or(Ok(()), |fold| self.end_session(fold))?;
                }
                if let Some(fold) = &mut fold {
                    self.index(fold, &event)?;
                    fold.take(&event);
                }
                done += 1;
                if done % 4096 == 0 {
                    self.site.tell("rebuilding the database", done, self.expected_events.max(done));
                }
            }
        }
        fold.map_or(Ok(()), |fold| self.end_session(fold))?;
        // Sessions that are known only from elsewhere.
        self.newest_of_day(self.newest.0, self.newest.1);
        for (id, _) in self.evidence.clone() {
            if self.database.head(id)?.is_none() {
                self.end_session(Fold::new(id))?;
            }
        }
        Ok(())
    }

    /// A long text that only its file holds goes into the journal as well.
    fn keep_text_twice(&mut self, hash: Hash) -> Result<(), Error> {
        if self.database.texts.contains_key(hash.0).map_err(DatabaseError::from)? {
            return Ok(());
        }
        if let Ok(bytes) = self.site.texts.get(hash.0)
            && let Ok(text) = String::from_utf8(bytes)
        {
            let bytes = text_bytes(&text);
            self.put_back_frame(&bytes, &[(0, bytes.len())])?;
        }
        Ok(())
    }

    fn index(&mut self, fold: &Fold, event: &Event) -> Result<(), Error> {
        let key = keys::idempotency_key(&event.key);
        let first = if fold.key == event.key { fold.key_seq } else { event.seq };
        let mut hit =
            KeyHit { session: event.session, seq: first, index: fold.key_index.filter(|_| fold.key == event.key) };
        if let EventBody::Recorded { index, iteration } = &event.body {
            hit.index = Some(*index);
            if let Some((parent, child)) = keys::link(iteration, event.session.iteration(*index)) {
                self.database.children.insert(keys::child_key(parent, child), &[]).map_err(DatabaseError::from)?;
            }
        }
        if !event.key.is_empty() {
            self.database.add_found_key(key, hit)?;
        }
        Ok(())
    }

    /// Writes what a session's events say, after naming what is missing among them.
    fn end_session(&mut self, mut fold: Fold) -> Result<(), Error> {
        let evidence = self.evidence.get(&fold.head.id).copied().unwrap_or_default();
        if let Some((loss, named)) = fold.loss(evidence) {
            self.losses.push(named);
            let seq = fold.head.next_seq.max(evidence.next_seq);
            let actor = Actor { client: "retake recovery".to_owned(), user: String::new() };
            let key = format!("lost-{}-{seq}", fold.head.id);
            let place = (fold.head.id, seq, fold.head.tip);
            let record = record::encode(place, self.site.now, &actor, &key, EventBody::Lost(loss));
            self.put_back_frame(&record.bytes, &[(0, record.bytes.len())])?;
            self.restored -= 1;
            self.index(&fold, &record.event)?;
            fold.take(&record.event);
        }
        let head = &fold.head;
        let (day, number) = keys::numbers(head.id);
        self.newest = self.newest.max((day, number));
        self.totals.events += fold.events;
        self.totals.sessions += u64::from(head.span.is_some());
        self.totals.archived += u64::from(head.span.is_some() && head.archived);
        self.database.heads.insert(head)?;
        let write = || -> Result<(), sled::Error> {
            if let Some(key) = recency_of(head) {
                self.database.recency.insert(key, encode_head(head))?;
            }
            let last =
                self.database.days.get(day.to_be_bytes())?.and_then(|bytes| keys::le_u32(&bytes, 0)).unwrap_or(0);
            self.database.days.insert(day.to_be_bytes(), &last.max(number).to_le_bytes())?;
            Ok(())
        };
        write().map_err(|error| DatabaseError::from(error).into())
    }

    /// Gives the new database its name, sets the old one and damaged segments aside, and writes the report.
    fn finish(mut self, causes: Vec<String>, fresh: &Path, name: String) -> Result<Loaded, Error> {
        self.losses.append(&mut self.unreported);
        let lost_before = self.losses.iter().map(|loss| loss.seqs.len() as u64).sum::<u64>();
        let found = self.totals.events - self.losses.len() as u64;
        let unnamed = self.expected_events.saturating_sub(found + lost_before);
        if unnamed > 0 {
            self.losses.push(SessionLoss {
                session: None,
                seqs: Vec::new(),
                iterations: Vec::new(),
                after: None,
                before: None,
            });
        }
        let position = self.journal()?.position();
        let next_frame = self.journal()?.next_frame();
        self.database.finish(position, self.totals)?;

        let place = self.site.dir.join("quarantine").join(&name);
        let mut quarantined = Vec::new();
        let damaged = segment::mend(self.site, &self.segments, self.highest_frame, &place)?;
        quarantined.extend(damaged.into_iter().map(|segment| format!("quarantine/{name}/{segment:08}.log")));
        let old = self.site.dir.join("db");
        let Rebuild { site, database, journal, losses, totals, restored, newest, mark, .. } = self;
        drop(database);
        let io_error = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action: action.into(), path, source }
        };
        if old.exists() {
            let mut names = std::iter::once("db".to_owned()).chain((2..).map(|number| format!("db-{number}")));
            let free = names.find(|name| !place.join(name).exists()).unwrap_or_default();
            let moved = site.disk.rename(&old, &place.join(&free));
            moved.map_err(io_error("set the old database aside", &place))?;
            quarantined.push(format!("quarantine/{name}/{free}"));
        }
        let upgraded = causes.iter().all(|cause| cause == UPGRADE) && restored == 0 && losses.is_empty();
        let upgraded = upgraded && quarantined.iter().all(|path| !path.ends_with(".log"));
        let lost_events = lost_before + unnamed;
        let mut recovery = None;
        if !upgraded && (restored > 0 || !quarantined.is_empty() || !losses.is_empty()) {
            let (at, restored_to_journal) = (site.now, restored);
            let message = message(&causes, lost_events, &losses, restored);
            let report = Recovery { name, at, causes, lost_events, losses, restored_to_journal, quarantined, message };
            let written = quarantine::write_pending(site.disk, &place, &report);
            written.map_err(io_error("write the report of a recovery", &place))?;
            recovery = Some(report);
        }
        site.disk.rename(fresh, &old).map_err(io_error("put the new database in its place", &old))?;
        let mark = Checkpoint {
            count: mark.map_or(1, |mark| mark.count + 1),
            frame: next_frame - 1,
            end: position,
            events: totals.events,
            unchecked: position,
            newest,
        };
        mark.write(site.disk, &site.journal_dir()).map_err(io_error("write the mark", &site.journal_dir()))?;
        if recovery.is_some() {
            quarantine::settle(site.disk, site.dir).map_err(io_error("name the report of a recovery", &place))?;
        } else if upgraded {
            // The new database has everything that the old one had, and so has the journal.
            let _ = fs::remove_dir_all(&place);
        } else {
            // Nothing was set aside: it was only the database that someone had deleted.
            let _ = fs::remove_dir(&place);
        }
        let database = Database::open(&old)?;
        let journal = journal.ok_or(Error::Misuse("the journal was opened above".into()))?;
        Ok(Loaded { database, journal, totals, mark, since_open: 0, recovery })
    }
}

fn message(causes: &[String], lost: u64, losses: &[SessionLoss], restored: u64) -> String {
    let mut message = format!("Damage was found ({}).", causes.join("; "));
    if restored > 0 {
        message += &format!(" {} put back into the journal from the database.", were(restored));
    }
    if lost == 0 && losses.is_empty() {
        return message + " Nothing was lost.";
    }
    message += &match lost {
        1 => " 1 event could not be found in any copy.".to_owned(),
        lost => format!(" {lost} events could not be found in any copy."),
    };
    for loss in losses.iter().take(20) {
        let Some(session) = loss.session else {
            message += " Of some of them nothing is known but that they were there.";
            continue;
        };
        let list = |numbers: &[u32]| numbers.iter().take(20).map(u32::to_string).collect::<Vec<_>>().join(", ");
        message += &format!(" {session} lost events {}", list(&loss.seqs));
        if !loss.iterations.is_empty() {
            message += &format!(" (iterations {})", list(&loss.iterations));
        }
        match (loss.after, loss.before) {
            (Some(after), Some(before)) => message += &format!(" from between {after} and {before}"),
            (Some(after), None) => message += &format!(" from after {after}"),
            (None, Some(before)) => message += &format!(" from before {before}"),
            (None, None) => {}
        }
        message.push('.');
    }
    message
}

/// The loss that a `lost` event names.
fn named_by(record: &Record<'_>) -> Option<SessionLoss> {
    match record.event(&|_| None)?.0.body {
        EventBody::Lost(loss) => Some(SessionLoss {
            session: Some(record.header.session),
            seqs: loss.seqs,
            iterations: Vec::new(),
            after: loss.after,
            before: loss.before,
        }),
        _ => None,
    }
}

fn were(events: u64) -> String {
    if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") }
}

pub(super) fn owned(entry: &Entry<'_>) -> Vec<u8> {
    match entry {
        Entry::Record(record) => record.bytes.to_vec(),
        Entry::Text(_, text) => text_bytes(text),
    }
}
