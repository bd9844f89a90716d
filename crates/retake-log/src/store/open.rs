//! Opening a workspace: lock it, find the journal's end, open sled, compare what sled wrote since its last snapshot with
//! the journal, and apply what it lacks. A healthy workspace is never read in full; anything else goes to
//! [`rebuild`](super::rebuild).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::disk::{ContentDir, Disk, read_at};
use crate::model::{EventBody, Head, SessionId};

use super::database::{Change, Database, DatabaseError, KeyHit, encode_head, event_value, guard, recency_of};
use super::journal::{
    FORMAT, Journal, Position, SEGMENT_HEADER, STANDS_FOR_LOST, SegmentHeader, segment_path, segments,
};
use super::event_tree::StoredEvent;
use super::key_index::Key;
use super::log::Parts;
use super::checkpoint::Checkpoint;
use super::rebuild::{self, Loaded, RecoveryContext};
use super::record::Record;
use super::scan::{Entry, Frame, ScanItem, read_segment, walk};
use super::{Error, Options, Totals, keys, quarantine};

/// Why a database of an earlier version is made again.
pub(super) const UPGRADE: &str = "the database has the layout of an earlier version";
/// A workspace with no more events than this is compared in full when sled has written since its last snapshot.
const SMALL: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct Identity {
    format: u32,
    id: String,
}

/// What the files of the journal look like, without reading them.
pub(super) struct Outline {
    pub(super) headers: Vec<(u32, Option<SegmentHeader>)>,
    pub(super) causes: Vec<String>,
}

pub(super) fn open(dir: &Path, options: &Options) -> Result<Parts, Error> {
    let disk = &options.disk;
    let io_error = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action: action.into(), path, source }
    };
    let workspace = identity(disk, dir)?;
    let journal_dir = dir.join("journal");
    let texts = ContentDir::new(disk.clone(), dir.join("texts"));
    let site = RecoveryContext {
        dir,
        disk,
        workspace,
        texts: &texts,
        segment_bytes: options.segment_bytes,
        now: (options.clock)(),
        progress: options.progress.as_ref(),
    };

    let found = segments(&journal_dir).map_err(io_error("read the journal", &journal_dir))?;
    if found.is_empty() && !dir.join("db").exists() && quarantine::unfinished(dir).is_empty() {
        let header = SegmentHeader { format: FORMAT, segment: 1, workspace, first_frame: 1, previous_end: 0 };
        Journal::create_segment(disk, &journal_dir, header).map_err(io_error("make the journal", &journal_dir))?;
    }
    let loaded = load(&site, Checkpoint::read(&journal_dir))?;
    let Loaded { journal, database, totals, mark, since_open, .. } = loaded;
    let (dir, disk) = (dir.to_owned(), disk.clone());
    let parts = Parts {
        dir,
        disk,
        workspace,
        texts,
        clock: options.clock.clone(),
        segment_bytes: options.segment_bytes,
        journal,
        database,
        totals,
        mark,
        since_open,
    };
    Ok(parts)
}

/// Opens sled and the journal's end when they agree; rebuilds what does not.
pub(super) fn load(site: &RecoveryContext<'_>, mark: Option<Checkpoint>) -> Result<Loaded, Error> {
    let (journal_dir, database_dir) = (site.dir.join("journal"), site.dir.join("db"));
    let outline = outline(&journal_dir).map_err(|source| Error::Io {
        action: "read the journal".into(),
        path: journal_dir.clone(),
        source,
    })?;
    let newer = outline.headers.iter().filter_map(|(_, header)| *header).find(|header| header.format > FORMAT);
    if let Some(header) = newer {
        let path = segment_path(&journal_dir, header.segment);
        return Err(Error::NewerFormat { found: header.format, known: FORMAT, path });
    }
    let mut causes = outline.causes.clone();
    if quarantine::interrupted(site.dir) {
        causes.push("a recovery was interrupted".to_owned());
    }
    let database = if database_dir.exists() || outline.is_empty_journal(&journal_dir) {
        Database::open(&database_dir)
    } else {
        Err(DatabaseError::Wrong("it is missing".to_owned()))
    };
    match database {
        Ok(database) if database.is_older_layout().unwrap_or(false) => causes.push(UPGRADE.to_owned()),
        Ok(database) if causes.is_empty() => match catch_up(site, &journal_dir, &outline, mark, &database) {
            Ok(caught_up) => {
                quarantine::settle(site.disk, site.dir).map_err(|source| Error::Io {
                    action: "name the report of a recovery".into(),
                    path: site.dir.join("quarantine"),
                    source,
                })?;
                return healthy(site, &journal_dir, mark, database, caught_up);
            }
            Err(CatchUpError::Damage(cause)) => causes.push(cause),
            Err(CatchUpError::Io(path, source)) => return Err(Error::Io { action: "read the journal".into(), path, source }),
        },
        Ok(_) => {}
        Err(trouble) if trouble.is_refusal() => {
            let DatabaseError::Sled(sled::Error::Io(source)) = trouble else { return Err(trouble.into()) };
            return Err(Error::Io { action: "open the database".into(), path: database_dir, source });
        }
        Err(trouble) => causes.push(format!("the database does not open: {trouble}")),
    }
    rebuild::rebuild(site, causes, mark)
}

/// Looks at the segments' names, sizes and headers.
pub(super) fn outline(journal_dir: &Path) -> io::Result<Outline> {
    let mut causes = Vec::new();
    let mut headers: Vec<(u32, Option<SegmentHeader>)> = Vec::new();
    let mut lengths = Vec::new();
    for number in segments(journal_dir)? {
        let file = File::open(segment_path(journal_dir, number))?;
        let header = SegmentHeader::from_bytes(&read_at(&file, 0, 64)?).filter(|header| header.segment == number);
        if header.is_none() {
            causes.push(format!("segment {number} of the journal has a damaged header"));
        }
        headers.push((number, header));
        lengths.push(file.metadata()?.len());
    }
    let last = headers.last().map_or(0, |(number, _)| *number);
    for number in 1..last {
        if !headers.iter().any(|(there, _)| *there == number) {
            causes.push(format!("segment {number} of the journal is missing"));
        }
    }
    for (((number, _), length), (_, next)) in headers.iter().zip(&lengths).zip(headers.iter().skip(1)) {
        if next.is_some_and(|next| next.segment == number + 1 && next.previous_end > *length) {
            causes.push(format!("segment {number} of the journal has been cut"));
        }
    }
    if headers.is_empty() {
        causes.push("the journal is missing".to_owned());
    }
    Ok(Outline { headers, causes })
}

impl Outline {
    /// Whether this journal has never held anything, so that a missing database is no surprise.
    fn is_empty_journal(&self, journal_dir: &Path) -> bool {
        let [(number, Some(header))] = self.headers.as_slice() else { return false };
        let length = fs::metadata(segment_path(journal_dir, *number)).map_or(0, |file| file.len());
        *number == 1 && header.first_frame == 1 && length == SEGMENT_HEADER
    }

    /// From which frame number on the frames of a segment do not count, because a later segment has them.
    pub(super) fn void_from(&self, segment: u32) -> u64 {
        let later = self.headers.iter().filter(|(number, _)| *number > segment);
        later.filter_map(|(_, header)| Some((*header)?.first_frame)).min().unwrap_or(u64::MAX)
    }
}

/// What catching up found.
struct CaughtUp {
    end: Position,
    next_frame: u64,
    spoilt: bool,
    totals: Totals,
    /// Where sled's snapshot ends, in the journal.
    snapshot: Position,
    applied: usize,
}

enum CatchUpError {
    Damage(String),
    Io(std::path::PathBuf, io::Error),
}

impl From<DatabaseError> for CatchUpError {
    fn from(trouble: DatabaseError) -> CatchUpError {
        CatchUpError::Damage(format!("the database fails: {trouble}"))
    }
}

/// Compares the tail of the journal with the database and applies what it lacks.
fn catch_up(
    site: &RecoveryContext<'_>,
    journal_dir: &Path,
    outline: &Outline,
    mark: Option<Checkpoint>,
    database: &Database,
) -> Result<CaughtUp, CatchUpError> {
    let start = Position { segment: 1, offset: SEGMENT_HEADER };
    let position = match database.position()? {
        Some(position) => position,
        None if outline.headers.len() == 1 && database.events.is_empty() => {
            // Brand-new, or killed before the first event was applied: the walk below fills it.
            database.finish(start, Totals::default())?;
            start
        }
        None => return Err(CatchUpError::Damage("the database was never filled".to_owned())),
    };
    let mut tail = Tail { site, database, position, totals: database.totals()?, ..Tail::new(site, database) };
    let unchecked = mark.map_or(start, |mark| mark.unchecked);
    let whole = unchecked < position && tail.totals.events <= SMALL;
    tail.thorough = whole;
    tail.keys_end = database.keys_end();
    let from = if whole { start } else { unchecked.min(position).min(tail.keys_end) };
    if from == start {
        tail.expected = Some(1);
    }
    let last = outline.headers.last().map_or(0, |(number, _)| *number);
    if last < position.segment.max(mark.map_or(0, |mark| mark.end.segment)) {
        return Err(CatchUpError::Damage(format!("segment {} of the journal is missing", last + 1)));
    }
    let mut end = from;
    let mut spoilt = false;
    for (number, header) in outline.headers.iter().filter(|(number, _)| *number >= from.segment) {
        let base = if *number == from.segment { from.offset.max(SEGMENT_HEADER) } else { SEGMENT_HEADER };
        if *number != from.segment
            && let (Some(header), Some(expected)) = (header, tail.expected)
            && header.first_frame != expected
        {
            return Err(CatchUpError::Damage(format!(
                "frames {expected} to {} of the journal are missing",
                header.first_frame - 1
            )));
        }
        let path = segment_path(journal_dir, *number);
        let bytes = read_segment(&path, base).map_err(|error| CatchUpError::Io(path, error))?;
        let void_from = outline.void_from(*number);
        let mut failed = None;
        let mut junk = None;
        let behind = walk(&bytes, base, &mut |item| match item {
            _ if failed.is_some() => {}
            ScanItem::Frame(frame) => failed = tail.take(*number, &frame, void_from).err(),
            ScanItem::DamagedSpan(span) if span.is_followed => {
                failed =
                    Some(CatchUpError::Damage(format!("the journal is damaged at byte {} of segment {number}", span.start)));
            }
            ScanItem::DamagedSpan(span) => junk = Some(span.start),
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        end = Position { segment: *number, offset: behind };
        spoilt = junk.is_some();
    }
    tail.finish()?;
    let acknowledged = mark.map_or(position, |mark| mark.end.max(position));
    let last_frame = tail.expected.map(|expected| expected - 1);
    if end < acknowledged || mark.is_some_and(|mark| last_frame.is_some_and(|last| last < mark.frame)) {
        return Err(CatchUpError::Damage("the journal ends before what was acknowledged".to_owned()));
    }
    let next_frame = match (tail.expected, mark) {
        (Some(expected), _) => expected,
        (None, Some(mark)) if mark.end == end => mark.frame + 1,
        // Nothing to read and no witness of the number: only reading all of the journal tells.
        _ => return Err(CatchUpError::Damage("the mark of the journal is missing".to_owned())),
    };
    let expected_events = mark.map_or(0, |mark| mark.events);
    if tail.totals.events < expected_events {
        return Err(CatchUpError::Damage("the database has fewer events than were acknowledged".to_owned()));
    }
    if whole {
        tail.check_counts()?;
    }
    Ok(CaughtUp { end, next_frame, spoilt, totals: tail.totals, snapshot: position, applied: tail.applied })
}

fn healthy(
    site: &RecoveryContext<'_>,
    journal_dir: &Path,
    mark: Option<Checkpoint>,
    database: Database,
    caught_up: CaughtUp,
) -> Result<Loaded, Error> {
    let CaughtUp { end, next_frame, spoilt, totals, snapshot, applied } = caught_up;
    let journal = Journal::resume(site, end, next_frame, spoilt).map_err(|source| Error::Io {
        action: "open the journal".into(),
        path: segment_path(journal_dir, end.segment),
        source,
    })?;
    let old = mark.unwrap_or_default();
    let mut mark = Checkpoint { frame: next_frame - 1, end, events: totals.events, unchecked: snapshot, ..old };
    if mark != old {
        mark.count += 1;
        mark.write(site.disk, journal_dir).map_err(|source| Error::Io {
            action: "write the mark".into(),
            path: journal_dir.join("mark"),
            source,
        })?;
    }
    Ok(Loaded { journal, database, totals, mark, since_open: applied, recovery: None })
}

/// The tail of the journal on its way into the database.
struct Tail<'a> {
    site: &'a RecoveryContext<'a>,
    database: &'a Database,
    position: Position,
    expected: Option<u64>,
    totals: Totals,
    changes: Vec<Change>,
    /// Events that the database should have, by session.
    compared: BTreeMap<SessionId, Vec<(u32, Vec<u8>)>>,
    /// Whether sessions are folded again rather than asked for their last event only.
    thorough: bool,
    applied: usize,
    /// Up to where the key index knows all keys, and those after it that belong to applied events.
    keys_end: Position,
    missing_keys: BTreeMap<Key, KeyHit>,
}

impl<'a> Tail<'a> {
    fn new(site: &'a RecoveryContext<'a>, database: &'a Database) -> Tail<'a> {
        Tail {
            site,
            database,
            position: Position::default(),
            expected: None,
            totals: Totals::default(),
            changes: Vec::new(),
            compared: BTreeMap::new(),
            thorough: false,
            applied: 0,
            keys_end: Position::default(),
            missing_keys: BTreeMap::new(),
        }
    }

    fn take(&mut self, segment: u32, frame: &Frame<'_>, void_from: u64) -> Result<(), CatchUpError> {
        if frame.number >= void_from {
            return Ok(());
        }
        let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
        if self.expected.is_some_and(|expected| frame.number != expected && !stands_for_lost) {
            return Err(CatchUpError::Damage(format!("frame {} of the journal follows where another belongs", frame.number)));
        }
        self.expected = Some(frame.number + 1);
        let end = Position { segment, offset: frame.end };
        if end > self.position && !frame.entries.iter().all(|(_, entry)| entry.is_true()) {
            return Err(CatchUpError::Damage(format!("frame {} of the journal was altered", frame.number)));
        }
        let mut texts = Vec::new();
        for (offset, entry) in &frame.entries {
            let position = Position { segment, offset: *offset };
            match entry {
                Entry::Record(record) if end <= self.position => {
                    self.compare(record, position);
                    if end > self.keys_end {
                        self.note_key(record)?;
                    }
                }
                Entry::Record(record) => self.apply(record, position, end, std::mem::take(&mut texts))?,
                Entry::Text(hash, text) => {
                    texts.push((*hash, position));
                    if end > self.position && self.site.texts.check(hash.0).is_err() {
                        // The file was synced before the frame, so it was damaged since; it comes back when it is read.
                        let _ = self.site.texts.put(text.as_bytes());
                    }
                }
            }
        }
        if self.changes.len() >= 256 || self.missing_keys.len() >= 256 && end > self.position {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Notes an event that the database should have. They are compared session by session, since a session's events lie
    /// together there.
    fn compare(&mut self, record: &Record<'_>, position: Position) {
        let expected = (record.header.seq, event_value(record.bytes, position));
        self.compared.entry(record.header.session).or_default().push(expected);
    }

    /// Compares the noted events of a session with what the database has.
    fn compare_session(&self, id: SessionId, expected: &[(u32, Vec<u8>)]) -> Result<(), CatchUpError> {
        let seqs = || expected.iter().map(|(seq, _)| *seq);
        let (Some(first), Some(last)) = (seqs().min(), seqs().max()) else { return Ok(()) };
        let stored: BTreeMap<u32, StoredEvent> = self.database.events.between(id, first, last)?.into_iter().collect();
        for (seq, expected) in expected {
            let stored = stored.get(seq);
            if stored.is_some_and(|stored| **stored == **expected) {
                continue;
            }
            let record = Record::read(expected);
            let other = stored.and_then(|stored| Record::read(stored));
            let differs = other.is_some_and(|other| record.is_none_or(|record| record.hash != other.hash));
            return Err(CatchUpError::Damage(match differs {
                // No accident does this: both are whole, so one of them was rewritten.
                true => format!("the journal and the database hold different events at place {seq} of {id}"),
                false => format!("the database lacks event {seq} of {id}"),
            }));
        }
        Ok(())
    }

    fn apply(
        &mut self,
        record: &Record<'_>,
        position: Position,
        end: Position,
        texts: Vec<(crate::model::Hash, Position)>,
    ) -> Result<(), CatchUpError> {
        let id = record.header.session;
        let (event, _) = record
            .event(&|_| None)
            .ok_or_else(|| CatchUpError::Damage(format!("event {} of {id} cannot be read", record.header.seq)))?;
        let before = match self.changes.iter().rev().find(|change| change.after.id == id) {
            Some(change) => Some(change.after.clone()),
            None => self.database.head(id)?,
        };
        let mut after = before.clone().unwrap_or_else(|| Head::new(id));
        if event.seq < after.next_seq || event.prev != after.tip {
            return Err(CatchUpError::Damage(format!("event {} of {id} does not follow what the database has", event.seq)));
        }
        after.advance(&event);
        let key = keys::idempotency_key(&event.key);
        let mut hit = KeyHit { session: id, seq: event.seq, index: None };
        let known = self.changes.iter().rev().flat_map(|change| &change.keys).find(|(known, _)| *known == key);
        if let Some((_, known)) = known {
            hit = *known;
        }
        let mut children = Vec::new();
        if let EventBody::Recorded { index, iteration } = &event.body {
            hit.index = Some(*index);
            children.extend(keys::link(iteration, id.iteration(*index)));
        }
        let listed = |head: &Head| u64::from(head.span.is_some());
        let archived = |head: &Head| u64::from(head.span.is_some() && head.archived);
        self.totals.sessions = self.totals.sessions + listed(&after) - before.as_ref().map_or(0, listed);
        self.totals.archived = self.totals.archived + archived(&after) - before.as_ref().map_or(0, archived);
        self.totals.events += 1;
        self.applied += 1;
        let records = vec![(event.seq, position, record.bytes.to_vec())];
        self.changes.push(Change {
            end,
            before,
            after,
            records,
            keys: vec![(key, hit)],
            children,
            texts,
            totals: self.totals,
        });
        Ok(())
    }

    /// Notes the key of an event that is applied, but whose key was not written before a crash.
    fn note_key(&mut self, record: &Record<'_>) -> Result<(), CatchUpError> {
        let (id, seq) = (record.header.session, record.header.seq);
        let (event, _) = record
            .event(&|_| None)
            .ok_or_else(|| CatchUpError::Damage(format!("event {seq} of {id} cannot be read")))?;
        let key = keys::idempotency_key(&event.key);
        let hit = self.missing_keys.entry(key).or_insert(KeyHit { session: id, seq, index: None });
        if let EventBody::Recorded { index, .. } = &event.body {
            hit.index = Some(*index);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CatchUpError> {
        if self.position > self.keys_end {
            // Everything up to the database's own position was walked before the first change.
            self.database.add_keys(std::mem::take(&mut self.missing_keys), self.position)?;
            self.keys_end = self.position;
        }
        let changes = std::mem::take(&mut self.changes);
        Ok(self.database.apply(&changes)?)
    }

    fn finish(&mut self) -> Result<(), CatchUpError> {
        self.flush()?;
        for (id, expected) in &self.compared {
            self.compare_session(*id, expected)?;
            if self.thorough { check_session(self.database, *id)? } else { check_tip(self.database, *id)? }
        }
        Ok(())
    }

    /// Whether the trees hold as many entries as the totals say.
    fn check_counts(&self) -> Result<(), CatchUpError> {
        let wrong = |what: &str| Err(CatchUpError::Damage(format!("the database's {what} disagree with its totals")));
        let count = |tree: &sled::Tree| tree.iter().keys().try_fold(0u64, |count, key| key.map(|_| count + 1));
        if self.database.events.count()? != self.totals.events {
            return wrong("events");
        }
        if count(&self.database.recency).map_err(DatabaseError::from)? != self.totals.sessions {
            return wrong("sessions");
        }
        Ok(())
    }
}

/// Checks that a session's head stands at its last event, and is in the listing. A head follows from the events up to its
/// tip, so one that names the last of them is the one those events give.
fn check_tip(database: &Database, id: SessionId) -> Result<(), DatabaseError> {
    let head = database.head(id)?.ok_or_else(|| DatabaseError::Wrong(format!("it does not know {id}")))?;
    let place = |value: &[u8]| Record::read_unchecked(value).map(|record| (record.header.seq, record.hash));
    let last = database.events.last(id)?.and_then(|value| place(&value));
    if last != head.next_seq.checked_sub(1).map(|seq| (seq, head.tip)) {
        return Err(DatabaseError::Wrong(format!("what it says of {id} differs from its events")));
    }
    listed(database, &head)
}

fn listed(database: &Database, head: &Head) -> Result<(), DatabaseError> {
    match recency_of(head) {
        Some(key) => match guard(|| Ok(database.recency.get(key)?))? {
            Some(row) if *row == *encode_head(head) => Ok(()),
            _ => Err(DatabaseError::Wrong(format!("{} is not in its listing", head.id))),
        },
        None => Ok(()),
    }
}

/// Checks a session's head and its place in the recency order against its events.
pub(super) fn check_session(database: &Database, id: SessionId) -> Result<(), DatabaseError> {
    let mut head = Head::new(id);
    for (seq, value) in database.events_of(id)? {
        let event = Record::read_unchecked(&value).and_then(|record| record.event(&|_| None));
        let (event, _) = event.ok_or_else(|| DatabaseError::Wrong(format!("event {seq} of {id} cannot be read")))?;
        head.advance(&event);
    }
    if database.head(id)?.as_ref() != Some(&head) {
        return Err(DatabaseError::Wrong(format!("what it says of {id} differs from its events")));
    }
    listed(database, &head)
}

/// The workspace's id, from `retake.toml`, else from the journal, else made up.
fn identity(disk: &Disk, dir: &Path) -> Result<[u8; 16], Error> {
    let path = dir.join("retake.toml");
    let text = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(Error::Io { action: "read the workspace's identity".into(), path, source }),
    };
    let said = text.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    // The format counts even where the rest cannot be read: what a newer version wrote is not ours to mend.
    let format = said.and_then(|text| text.parse::<toml::Table>().ok()?.get("format")?.as_integer());
    if let Some(found) = format.filter(|found| *found > i64::from(FORMAT)) {
        return Err(Error::NewerFormat { found: u32::try_from(found).unwrap_or(u32::MAX), known: FORMAT, path });
    }
    let identity =
        said.and_then(|text| toml::from_str::<Identity>(text).ok()).filter(|identity| identity.id.len() == 32);
    if let Some(id) = identity.and_then(|identity| u128::from_str_radix(&identity.id, 16).ok()) {
        return Ok(id.to_be_bytes());
    }
    let outline = outline(&dir.join("journal")).ok();
    let from_journal =
        outline.and_then(|outline| outline.headers.iter().find_map(|(_, header)| Some((*header)?.workspace)));
    let id = from_journal.unwrap_or_else(random_id);
    let identity = Identity { format: FORMAT, id: format!("{:032x}", u128::from_be_bytes(id)) };
    let text = toml::to_string(&identity).unwrap_or_default();
    disk.replace(&path, text.as_bytes()).map_err(|source| Error::Io {
        action: "write the workspace's identity".into(),
        path,
        source,
    })?;
    Ok(id)
}

fn random_id() -> [u8; 16] {
    use std::hash::{BuildHasher, RandomState};
    let mut id = [0; 16];
    for half in id.chunks_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_be_bytes());
    }
    id
}
