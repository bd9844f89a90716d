//! Recovery: a new database from all that can be found, the journal made whole again, and the losses named.
//!
//! Nothing is changed where it lies. Events go into a new database beside the old one; what the journal lacks is
//! appended to it; damaged segments and the old database are set aside by name; the report comes last. Every step can be
//! repeated, so dying anywhere in between costs time only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::disk::{ContentDir, Disk};
use crate::model::{Actor, Event, EventBody, Hash, Head, IterationId, Loss, SessionId, Timestamp};

use super::database::{Database, KeyHit, Trouble, encode_head, encode_hit, event_value, recency_of};
use super::journal::{
    FORMAT, FRAME_HEADER, Journal, PUT_BACK, Position, SEGMENT_HEADER, STANDS_FOR_LOST, SegmentHeader, frame_bytes,
    segment_path, text_bytes,
};
use super::mark::Mark;
use super::open::{Outline, outline};
use super::record::{self, Record};
use super::scan::{Entry, Stretch, carve, read_segment, walk};
use super::{Error, Progress, Recovery, SessionLoss, Totals, keys, quarantine};

/// How much is put back in one frame.
const FRAME_BYTES: usize = 1 << 20;
/// How much of a raw file is searched at once, and how far two pieces overlap: more than the longest record.
const PIECE: usize = 32 << 20;
const OVERLAP: usize = 2 << 20;

/// The workspace that is being opened or mended.
pub(super) struct Site<'a> {
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
    pub(super) mark: Mark,
    /// Events applied since sled was opened.
    pub(super) since_open: usize,
    /// What had to be done, unless nothing was lost and nothing set aside.
    pub(super) recovery: Option<Recovery>,
}

impl Site<'_> {
    fn tell(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }

    pub(super) fn journal_dir(&self) -> PathBuf {
        self.dir.join("journal")
    }
}

/// Rebuilds the database, mends the journal and names what is lost. The old database must be closed.
pub(super) fn rebuild(site: &Site<'_>, causes: Vec<String>, mark: Option<Mark>) -> Result<Loaded, Error> {
    for cause in &causes {
        tracing::warn!(cause, "recovering");
    }
    let io_error = |action, path: PathBuf| move |source| Error::Io { action, path, source };
    let fresh = site.dir.join("db.new");
    match fs::remove_dir_all(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error("clear an unfinished database", fresh)(error));
        }
        _ => {}
    }
    let mut work = Work::begin(site, Database::open(&fresh)?, mark)?;
    work.read_journal()?;
    if !work.journal_is_whole() {
        work.search_old_databases();
    }
    work.put_back()?;
    work.derive()?;
    work.finish(causes, &fresh)
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        Error::Database(trouble.to_string())
    }
}

/// What is known of a session from elsewhere than its events.
#[derive(Clone, Copy, Default)]
struct Evidence {
    next_seq: u32,
    last_index: Option<u32>,
}

/// How a segment looked.
struct Segment {
    number: u32,
    header: Option<SegmentHeader>,
    /// Start, end and number of each whole frame.
    frames: Vec<(u64, u64, u64)>,
    /// Bytes between frames that are none.
    ruins: Vec<(u64, u64)>,
    /// Junk behind the last frame.
    junk: bool,
}

struct Work<'a> {
    site: &'a Site<'a>,
    database: Database,
    mark: Option<Mark>,
    outline: Outline,
    segments: Vec<Segment>,
    journal: Option<Journal>,
    evidence: BTreeMap<SessionId, Evidence>,
    /// Events that must have been there, by count.
    expected_events: u64,
    highest_frame: u64,
    /// Records and texts that no whole frame holds.
    missing: Vec<Vec<u8>>,
    missing_keys: BTreeSet<[u8; 12]>,
    missing_texts: BTreeSet<Hash>,
    restored: u64,
    losses: Vec<SessionLoss>,
    totals: Totals,
    newest: (u32, u32),
}

impl<'a> Work<'a> {
    fn begin(site: &'a Site<'a>, database: Database, mark: Option<Mark>) -> Result<Work<'a>, Error> {
        let journal_dir = site.journal_dir();
        let outline = outline(&journal_dir).map_err(|source| Error::Io {
            action: "read the journal",
            path: journal_dir,
            source,
        })?;
        Ok(Work {
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
            missing_keys: BTreeSet::new(),
            missing_texts: BTreeSet::new(),
            restored: 0,
            losses: Vec::new(),
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
            walk(frames, SEGMENT_HEADER, &mut |stretch| match stretch {
                Stretch::Frame(frame) => {
                    if frame.number >= void_from || failed.is_some() {
                        return;
                    }
                    segment.frames.push((frame.start, frame.end, frame.number));
                    self.highest_frame = self.highest_frame.max(frame.number);
                    for (offset, entry) in &frame.entries {
                        if let Entry::Record(_) = entry
                            && self.mark.is_some_and(|mark| frame.number > mark.frame)
                        {
                            events_since_mark += 1;
                        }
                        let position = Position { segment: number, offset: *offset };
                        failed = failed.take().or(self.take(entry, position).err());
                    }
                }
                Stretch::Ruin(ruin) => {
                    let known =
                        self.mark.is_some_and(|mark| Position { segment: number, offset: ruin.start } < mark.end);
                    if ruin.followed || known {
                        segment.ruins.push((ruin.start, ruin.end));
                        salvaged.extend(ruin.entries.iter().map(|(_, entry)| owned(entry)));
                        ruin.headers.iter().for_each(|header| self.heard_of(header.session, header.seq + 1, None));
                    }
                    segment.junk |= !ruin.followed;
                }
            });
            if let Some(trouble) = failed {
                return Err(trouble.into());
            }
            self.segments.push(segment);
        }
        self.expected_events = self.mark.map_or(0, |mark| mark.events + events_since_mark);
        salvaged.into_iter().for_each(|bytes| self.offer(bytes));
        Ok(())
    }

    /// Whether every frame from the first to the last that was acknowledged is there, so that no other source is needed.
    fn journal_is_whole(&self) -> bool {
        let mut expected = 1;
        for segment in &self.segments {
            if !segment.ruins.is_empty() || segment.header.is_none() {
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

    /// Takes records from databases that are damaged, replaced, or set aside by a recovery that did not finish.
    fn search_old_databases(&mut self) {
        let mut places = vec![self.site.dir.join("db")];
        places.extend(quarantine::unfinished(self.site.dir).into_iter().map(|place| place.join("db")));
        for place in places.iter().filter(|place| place.is_dir()) {
            // First by sled's own reading, on a copy: opening may overwrite what could still be carved.
            let copy = self.site.dir.join("db.copy");
            let _ = fs::remove_dir_all(&copy);
            if copy_dir(place, &copy).is_ok()
                && let Ok(database) = Database::open(&copy)
            {
                self.question(&database);
            }
            let _ = fs::remove_dir_all(&copy);
            let mut files = Vec::new();
            files_below(place, &mut files);
            for (at, file) in files.iter().enumerate() {
                self.site.tell("searching the old database", at as u64, files.len() as u64);
                self.search_file(file);
            }
        }
    }

    fn question(&mut self, database: &Database) {
        for item in database.events.iter() {
            // An error would come again for ever.
            let Ok((_, value)) = item else { break };
            if let Some(record) = Record::read(&value) {
                self.offer(record.bytes.to_vec());
            }
        }
        for item in database.heads.iter() {
            let Ok((key, value)) = item else { break };
            if let Some(id) = keys::session_of(&key)
                && let Ok(head) = super::database::decode_head(id, &value)
            {
                self.heard_of(id, head.next_seq, head.last_index);
            }
        }
        for item in database.days.iter() {
            let Ok((key, value)) = item else { break };
            if let (Some(day), Some(number)) = (keys::be_u32(&key, 0), keys::le_u32(&value, 0)) {
                self.newest_of_day(day, number);
            }
        }
        if let Ok(totals) = database.totals() {
            self.expected_events = self.expected_events.max(totals.events);
        }
    }

    fn search_file(&mut self, path: &Path) {
        let Ok(mut file) = fs::File::open(path) else { return };
        let mut piece = Vec::new();
        loop {
            let keep = piece.len().min(OVERLAP);
            piece.drain(..piece.len() - keep);
            let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
            if !matches!(read, Ok(more) if more > 0) {
                return;
            }
            let (entries, _) = carve(&piece, 0);
            let found: Vec<_> = entries.iter().map(|(_, entry)| owned(entry)).collect();
            found.into_iter().for_each(|bytes| self.offer(bytes));
        }
    }

    fn heard_of(&mut self, id: SessionId, next_seq: u32, last_index: Option<u32>) {
        let evidence = self.evidence.entry(id).or_default();
        evidence.next_seq = evidence.next_seq.max(next_seq);
        evidence.last_index = evidence.last_index.max(last_index);
    }

    fn newest_of_day(&mut self, day: u32, number: u32) {
        if let Some(id) = keys::session_from(day, number) {
            self.heard_of(id, 0, None);
        }
    }

    /// Takes something that a whole frame of the journal holds.
    fn take(&mut self, entry: &Entry<'_>, position: Position) -> Result<(), Trouble> {
        match entry {
            Entry::Record(record) => {
                let key = keys::numbered_key(record.header.session, record.header.seq);
                self.database.events.insert(key, event_value(record.bytes, position))?;
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
    fn offer(&mut self, bytes: Vec<u8>) {
        if let Some(record) = Record::read(&bytes) {
            let key = keys::numbered_key(record.header.session, record.header.seq);
            let there = self.database.events.contains_key(key).unwrap_or(false);
            if !there && self.missing_keys.insert(key) {
                self.missing.push(bytes);
            }
        } else if let (entries, _) = carve(&bytes, 0)
            && let Some((_, Entry::Text(hash, _))) = entries.first()
        {
            let there = self.database.texts.contains_key(hash.0).unwrap_or(false);
            if !there && self.missing_texts.insert(*hash) {
                self.missing.push(bytes);
            }
        }
    }

    /// Opens the end of the journal for writing. In a damaged journal that is a new segment, so that what this recovery
    /// writes never lies in a segment that is still to be mended.
    fn journal(&mut self) -> Result<&mut Journal, Error> {
        if self.journal.is_none() {
            let dir = self.site.journal_dir();
            let io_error = |source| Error::Io { action: "open the journal", path: dir.clone(), source };
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
        self.journal.as_mut().ok_or(Error::Misuse("the journal was just opened"))
    }

    /// Appends to the journal what only other places had.
    fn put_back(&mut self) -> Result<(), Error> {
        let mut body = Vec::new();
        let mut entries = Vec::new();
        for bytes in std::mem::take(&mut self.missing) {
            entries.push((body.len() as u64, bytes.len()));
            body.extend_from_slice(&bytes);
            if body.len() >= FRAME_BYTES {
                self.put_back_frame(&std::mem::take(&mut body), &std::mem::take(&mut entries))?;
            }
        }
        if body.is_empty() { Ok(()) } else { self.put_back_frame(&body, &entries) }
    }

    fn put_back_frame(&mut self, body: &[u8], entries: &[(u64, usize)]) -> Result<(), Error> {
        let path = self.site.journal_dir();
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let written = self.journal()?.commit(body, count, PUT_BACK);
        let written = written.map_err(|source| Error::Io { action: "write the journal", path, source })?;
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
        for item in events.iter() {
            let (key, value) = item.map_err(Trouble::from)?;
            let Some((id, _)) = keys::numbered_of(&key) else { continue };
            let event =
                Record::read_unchecked(&value).and_then(|record| Some((record.event(&|_| None)?, record.texts())));
            let Some(((event, _), texts)) = event else {
                let _ = events.remove(key);
                continue;
            };
            for hash in texts {
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
        if self.database.texts.contains_key(hash.0).map_err(Trouble::from)? {
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
            if let Some(parent) = iteration.parent {
                let child = IterationId { session: event.session, index: *index };
                self.database.children.insert(keys::child_key(parent, child), &[]).map_err(Trouble::from)?;
            }
        }
        if !event.key.is_empty() {
            self.database.keys.insert(key, encode_hit(hit)).map_err(Trouble::from)?;
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
        let write = || -> Result<(), sled::Error> {
            self.database.heads.insert(keys::session_key(head.id), encode_head(head))?;
            if let Some(key) = recency_of(head) {
                self.database.recency.insert(key, &[])?;
            }
            let last =
                self.database.days.get(day.to_be_bytes())?.and_then(|bytes| keys::le_u32(&bytes, 0)).unwrap_or(0);
            self.database.days.insert(day.to_be_bytes(), &last.max(number).to_le_bytes())?;
            Ok(())
        };
        write().map_err(|error| Trouble::from(error).into())
    }

    /// Gives the new database its name, sets the old one and damaged segments aside, and writes the report.
    fn finish(mut self, causes: Vec<String>, fresh: &Path) -> Result<Loaded, Error> {
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

        let name = quarantine::new_name(self.site.dir, self.site.now);
        let place = self.site.dir.join("quarantine").join(&name);
        let mut quarantined = Vec::new();
        let damaged = self.mend_journal(&place)?;
        quarantined.extend(damaged.into_iter().map(|segment| format!("quarantine/{name}/{segment:08}.log")));
        let old = self.site.dir.join("db");
        let Work { site, database, journal, losses, totals, restored, newest, mark, .. } = self;
        drop(database);
        if old.exists() {
            let target = place.join("db");
            let moved = site.disk.create_dir_all(&place).and_then(|()| site.disk.rename(&old, &target));
            moved.map_err(|source| Error::Io { action: "set the old database aside", path: target, source })?;
            quarantined.push(format!("quarantine/{name}/db"));
        }
        let renamed = site.disk.rename(fresh, &old);
        renamed.map_err(|source| Error::Io {
            action: "put the new database in its place",
            path: old.clone(),
            source,
        })?;
        let mark = Mark {
            count: mark.map_or(1, |mark| mark.count + 1),
            frame: next_frame - 1,
            end: position,
            events: totals.events,
            unchecked: position,
            newest,
        };
        let journal_dir = site.journal_dir();
        mark.write(site.disk, &journal_dir).map_err(|source| Error::Io {
            action: "write the mark",
            path: journal_dir.join("mark"),
            source,
        })?;
        let lost_events = lost_before + unnamed;
        let mut recovery = None;
        if lost_events > 0 || restored > 0 || !quarantined.is_empty() || !losses.is_empty() {
            let message = message(&causes, lost_events, &losses, restored);
            let report = Recovery {
                name,
                at: site.now,
                causes,
                lost_events,
                losses,
                restored_to_journal: restored,
                quarantined,
                message,
            };
            for unfinished in quarantine::unfinished(site.dir) {
                let name = unfinished.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
                let report = Recovery { name, ..report.clone() };
                write_report(site, &report)?;
            }
            write_report(site, &report)?;
            recovery = Some(report);
        }
        let database = Database::open(&old)?;
        let journal = journal.ok_or(Error::Misuse("the journal was opened above"))?;
        Ok(Loaded { database, journal, totals, mark, since_open: 0, recovery })
    }

    /// Writes a mended copy of every damaged segment in its place, after the damaged one has a second name in quarantine.
    fn mend_journal(&self, place: &Path) -> Result<Vec<u32>, Error> {
        let mut mended = Vec::new();
        let mut first = 1;
        for (at, segment) in self.segments.iter().enumerate() {
            let follower = self.segments.get(at + 1);
            let next = follower.and_then(|next| {
                next.header
                    .map(|header| (header.first_frame, header.previous_end))
                    .or(next.frames.first().map(|(_, _, n)| (*n, 0)))
            });
            let unknown = (segment.last_frame().max(first - 1) + 1, 0);
            let (until, end) = if follower.is_some() { next.unwrap_or(unknown) } else { (self.highest_frame + 1, 0) };
            let sound = segment.is_sound(first) && segment.last_frame().max(first - 1) + 1 >= until;
            let path = segment_path(&self.site.journal_dir(), segment.number);
            if !sound {
                let old = fs::read(&path).unwrap_or_default();
                let new = segment.mended(&old, self.site.workspace, first, until, end);
                let replaced = self.site.disk.create_dir_all(place).and_then(|()| {
                    let aside = place.join(format!("{:08}.log", segment.number));
                    if path.exists() && !aside.exists() {
                        self.site.disk.link(&path, &aside)?;
                    }
                    self.site.disk.replace(&path, &new)
                });
                replaced.map_err(|source| Error::Io { action: "mend a segment of the journal", path, source })?;
                if !old.is_empty() {
                    mended.push(segment.number);
                }
            }
            first = until.max(segment.last_frame() + 1);
        }
        Ok(mended)
    }
}

impl Segment {
    fn new(number: u32, header: Option<SegmentHeader>) -> Segment {
        Segment { number, header, frames: Vec::new(), ruins: Vec::new(), junk: false }
    }

    fn last_frame(&self) -> u64 {
        self.frames.last().map_or(0, |(_, _, number)| *number)
    }

    fn is_sound(&self, first: u64) -> bool {
        let numbers = self.frames.iter().map(|(_, _, number)| *number);
        let contiguous = numbers.zip(first..).all(|(number, expected)| number <= expected);
        self.header.is_some() && self.ruins.is_empty() && contiguous
    }

    /// The segment with its whole frames where they were, and frames that stand for the lost ones between them: it begins
    /// with frame `first`, the next segment with `until`, and the next one remembers that this one reached to `end`.
    fn mended(&self, old: &[u8], workspace: [u8; 16], first: u64, until: u64, end: u64) -> Vec<u8> {
        let first_frame = self.header.map_or(first, |header| header.first_frame);
        let previous_end = self.header.map_or(0, |header| header.previous_end);
        let header = SegmentHeader { format: FORMAT, segment: self.number, workspace, first_frame, previous_end };
        let mut new = header.to_bytes();
        let mut last = first_frame.saturating_sub(1);
        let size = |offset: u64| usize::try_from(offset).unwrap_or(0);
        for (start, end, number) in &self.frames {
            let room = size(*start).saturating_sub(new.len());
            if room > 0 {
                stand_in(&mut new, last.max(number.saturating_sub(1)), room);
            }
            new.extend_from_slice(old.get(size(*start)..size(*end)).unwrap_or_default());
            last = *number;
        }
        let room = size(end).saturating_sub(new.len());
        if last + 1 < until || room > 0 {
            stand_in(&mut new, last.max(until.saturating_sub(1)), room.max(FRAME_HEADER));
        }
        new
    }
}

/// A frame that stands for all lost ones up to that number and fills that many bytes.
fn stand_in(new: &mut Vec<u8>, number: u64, room: usize) {
    let body = vec![0; room.saturating_sub(FRAME_HEADER)];
    if let Ok(frame) = frame_bytes(&body, 0, STANDS_FOR_LOST, number) {
        new.extend_from_slice(&frame);
    }
}

/// A session on its way from events to a head.
struct Fold {
    head: Head,
    events: u64,
    known_lost: BTreeSet<u32>,
    /// Places that are missing, and the times around the first and last of them.
    gaps: Vec<u32>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
    last_at: Option<Timestamp>,
    indexes: BTreeSet<u32>,
    known_last_index: Option<u32>,
    key: String,
    key_seq: u32,
    key_index: Option<u32>,
}

impl Fold {
    fn new(id: SessionId) -> Fold {
        Fold {
            head: Head::new(id),
            events: 0,
            known_lost: BTreeSet::new(),
            gaps: Vec::new(),
            after: None,
            before: None,
            last_at: None,
            indexes: BTreeSet::new(),
            known_last_index: None,
            key: String::new(),
            key_seq: 0,
            key_index: None,
        }
    }

    fn take(&mut self, event: &Event) {
        if event.seq > self.head.next_seq {
            self.gaps.extend(self.head.next_seq..event.seq);
            self.after = self.after.or(self.last_at);
            self.before = Some(event.at);
        }
        if event.key != self.key {
            (self.key, self.key_seq, self.key_index) = (event.key.clone(), event.seq, None);
        }
        match &event.body {
            EventBody::Recorded { index, .. } => {
                self.indexes.insert(*index);
                self.key_index = Some(*index);
            }
            EventBody::Lost(loss) => {
                self.known_lost.extend(&loss.seqs);
                self.known_last_index = self.known_last_index.max(loss.last_index);
            }
            _ => {}
        }
        self.last_at = Some(event.at);
        self.events += 1;
        self.head.advance(event);
    }

    /// What is missing and not on record as lost yet.
    fn loss(&self, evidence: Evidence) -> Option<(Loss, SessionLoss)> {
        let mut seqs: Vec<u32> = self.gaps.iter().copied().filter(|seq| !self.known_lost.contains(seq)).collect();
        let at_end = evidence.next_seq > self.head.next_seq;
        seqs.extend(self.head.next_seq..evidence.next_seq);
        let never_seen = self.events == 0;
        if seqs.is_empty() && !never_seen {
            return None;
        }
        let last_index = evidence.last_index.filter(|last| Some(*last) > self.head.last_index);
        let after = if self.after.is_some() || !at_end { self.after } else { self.last_at };
        let before = if at_end { None } else { self.before };
        let last = self.head.last_index.max(evidence.last_index);
        let missing = last.map(|last| (0..=last).filter(|index| !self.indexes.contains(index)).collect());
        let iterations = missing.unwrap_or_default();
        let named = SessionLoss { session: Some(self.head.id), seqs: seqs.clone(), iterations, after, before };
        Some((Loss { seqs, last_index, after, before }, named))
    }
}

fn write_report(site: &Site<'_>, report: &Recovery) -> Result<(), Error> {
    let path = site.dir.join("quarantine").join(&report.name);
    quarantine::write_report(site.disk, site.dir, report).map_err(|source| Error::Io {
        action: "write the report of a recovery",
        path,
        source,
    })
}

fn message(causes: &[String], lost: u64, losses: &[SessionLoss], restored: u64) -> String {
    let mut message = format!("Damage was found ({}).", causes.join("; "));
    if restored > 0 {
        message += &format!(" {restored} events were put back into the journal from the database.");
    }
    if lost == 0 && losses.is_empty() {
        return message + " Nothing was lost.";
    }
    message += &format!(" {lost} events could not be found in any copy.");
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

fn owned(entry: &Entry<'_>) -> Vec<u8> {
    match entry {
        Entry::Record(record) => record.bytes.to_vec(),
        Entry::Text(_, text) => text_bytes(text),
    }
}

fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, files);
        } else {
            files.push(path);
        }
    }
}
