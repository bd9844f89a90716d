//! Opening a workspace: lock it, find the journal's end, open sled, compare what sled wrote since its last snapshot with
//! the journal, and apply what it lacks. A healthy workspace is never read in full; anything else goes to
//! [`rebuild`](super::rebuild).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::disk::{ContentDir, Disk, read_at};
use crate::model::{EventBody, Head, SessionId};

use super::database::{Change, Database, KeyHit, Trouble, event_value, guard, recency_of};
use super::journal::{
    FORMAT, Journal, Position, SEGMENT_HEADER, STANDS_FOR_LOST, SegmentHeader, segment_path, segments,
};
use super::log::Parts;
use super::mark::Mark;
use super::rebuild::{self, Loaded, Site};
use super::record::Record;
use super::scan::{Entry, Frame, Stretch, read_segment, walk};
use super::{Error, Options, Totals, keys, quarantine};

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
    let site = Site {
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
    let loaded = load(&site, Mark::read(&journal_dir))?;
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
pub(super) fn load(site: &Site<'_>, mark: Option<Mark>) -> Result<Loaded, Error> {
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
        Err(Trouble::Wrong("it is missing".to_owned()))
    };
    match database {
        Ok(database) if causes.is_empty() => match catch_up(site, &journal_dir, &outline, mark, &database) {
            Ok(caught_up) => {
                quarantine::settle(site.disk, site.dir).map_err(|source| Error::Io {
                    action: "name the report of a recovery".into(),
                    path: site.dir.join("quarantine"),
                    source,
                })?;
                return healthy(site, &journal_dir, mark, database, caught_up);
            }
            Err(Behind::Damage(cause)) => causes.push(cause),
            Err(Behind::Io(path, source)) => return Err(Error::Io { action: "read the journal".into(), path, source }),
        },
        Ok(_) => {}
        Err(trouble) if trouble.is_refusal() => {
            let Trouble::Sled(sled::Error::Io(source)) = trouble else { return Err(trouble.into()) };
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

enum Behind {
    Damage(String),
    Io(std::path::PathBuf, io::Error),
}

impl From<Trouble> for Behind {
    fn from(trouble: Trouble) -> Behind {
        Behind::Damage(format!("the database fails: {trouble}"))
    }
}

/// Compares the tail of the journal with the database and applies what it lacks.
fn catch_up(
    site: &Site<'_>,
    journal_dir: &Path,
    outline: &Outline,
    mark: Option<Mark>,
    database: &Database,
) -> Result<CaughtUp, Behind> {
    let start = Position { segment: 1, offset: SEGMENT_HEADER };
    let position = match database.position()? {
        Some(position) => position,
        None if outline.headers.len() == 1 && database.events.is_empty() => {
            // Brand-new, or killed before the first event was applied: the walk below fills it.
            database.finish(start, Totals::default())?;
            start
        }
        None => return Err(Behind::Damage("the database was never filled".to_owned())),
    };
    let mut tail = Tail { site, database, position, totals: database.totals()?, ..Tail::new(site, database) };
    let unchecked = mark.map_or(start, |mark| mark.unchecked);
    let whole = unchecked < position && tail.totals.events <= SMALL;
    tail.thorough = whole;
    let from = if whole { start } else { unchecked.min(position) };
    if from == start {
        tail.expected = Some(1);
    }
    let last = outline.headers.last().map_or(0, |(number, _)| *number);
    if last < position.segment.max(mark.map_or(0, |mark| mark.end.segment)) {
        return Err(Behind::Damage(format!("segment {} of the journal is missing", last + 1)));
    }
    let mut end = from;
    let mut spoilt = false;
    for (number, header) in outline.headers.iter().filter(|(number, _)| *number >= from.segment) {
        let base = if *number == from.segment { from.offset.max(SEGMENT_HEADER) } else { SEGMENT_HEADER };
        if *number != from.segment
            && let (Some(header), Some(expected)) = (header, tail.expected)
            && header.first_frame != expected
        {
            return Err(Behind::Damage(format!(
                "frames {expected} to {} of the journal are missing",
                header.first_frame - 1
            )));
        }
        let path = segment_path(journal_dir, *number);
        let bytes = read_segment(&path, base).map_err(|error| Behind::Io(path, error))?;
        let void_from = outline.void_from(*number);
        let mut failed = None;
        let mut junk = None;
        let behind = walk(&bytes, base, &mut |stretch| match stretch {
            _ if failed.is_some() => {}
            Stretch::Frame(frame) => failed = tail.take(*number, &frame, void_from).err(),
            Stretch::Ruin(ruin) if ruin.followed => {
                failed =
                    Some(Behind::Damage(format!("the journal is damaged at byte {} of segment {number}", ruin.start)));
            }
            Stretch::Ruin(ruin) => junk = Some(ruin.start),
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
        return Err(Behind::Damage("the journal ends before what was acknowledged".to_owned()));
    }
    let next_frame = match (tail.expected, mark) {
        (Some(expected), _) => expected,
        (None, Some(mark)) if mark.end == end => mark.frame + 1,
        // Nothing to read and no witness of the number: only reading all of the journal tells.
        _ => return Err(Behind::Damage("the mark of the journal is missing".to_owned())),
    };
    let expected_events = mark.map_or(0, |mark| mark.events);
    if tail.totals.events < expected_events {
        return Err(Behind::Damage("the database has fewer events than were acknowledged".to_owned()));
    }
    if whole {
        tail.check_counts()?;
    }
    Ok(CaughtUp { end, next_frame, spoilt, totals: tail.totals, snapshot: position, applied: tail.applied })
}

fn healthy(
    site: &Site<'_>,
    journal_dir: &Path,
    mark: Option<Mark>,
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
    let mut mark = Mark { frame: next_frame - 1, end, events: totals.events, unchecked: snapshot, ..old };
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
    site: &'a Site<'a>,
    database: &'a Database,
    position: Position,
    expected: Option<u64>,
    totals: Totals,
    changes: Vec<Change>,
    compared: BTreeSet<SessionId>,
    /// Whether sessions are folded again rather than asked for their last event only.
    thorough: bool,
    applied: usize,
}

impl<'a> Tail<'a> {
    fn new(site: &'a Site<'a>, database: &'a Database) -> Tail<'a> {
        Tail {
            site,
            database,
            position: Position::default(),
            expected: None,
            totals: Totals::default(),
            changes: Vec::new(),
            compared: BTreeSet::new(),
            thorough: false,
            applied: 0,
        }
    }

    fn take(&mut self, segment: u32, frame: &Frame<'_>, void_from: u64) -> Result<(), Behind> {
        if frame.number >= void_from {
            return Ok(());
        }
        let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
        if self.expected.is_some_and(|expected| frame.number != expected && !stands_for_lost) {
            return Err(Behind::Damage(format!("frame {} of the journal follows where another belongs", frame.number)));
        }
        self.expected = Some(frame.number + 1);
        let end = Position { segment, offset: frame.end };
        if end > self.position && !frame.entries.iter().all(|(_, entry)| entry.is_true()) {
            return Err(Behind::Damage(format!("frame {} of the journal was altered", frame.number)));
        }
        let mut texts = Vec::new();
        for (offset, entry) in &frame.entries {
            let position = Position { segment, offset: *offset };
            match entry {
                Entry::Record(record) if end <= self.position => self.compare(record, position)?,
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
        if self.changes.len() >= 256 { self.flush() } else { Ok(()) }
    }

    fn compare(&mut self, record: &Record<'_>, position: Position) -> Result<(), Behind> {
        let id = record.header.session;
        let stored = self.database.events.get(keys::numbered_key(id, record.header.seq)).map_err(Trouble::from)?;
        if stored.as_deref() != Some(event_value(record.bytes, position).as_slice()) {
            let seq = record.header.seq;
            let other = stored.as_deref().and_then(Record::read).filter(|other| other.hash != record.hash);
            return Err(Behind::Damage(match other {
                // No accident does this: both are whole, so one of them was rewritten.
                Some(_) => format!("the journal and the database hold different events at place {seq} of {id}"),
                None => format!("the database lacks event {seq} of {id}"),
            }));
        }
        self.compared.insert(id);
        Ok(())
    }

    fn apply(
        &mut self,
        record: &Record<'_>,
        position: Position,
        end: Position,
        texts: Vec<(crate::model::Hash, Position)>,
    ) -> Result<(), Behind> {
        let id = record.header.session;
        let (event, _) = record
            .event(&|_| None)
            .ok_or_else(|| Behind::Damage(format!("event {} of {id} cannot be read", record.header.seq)))?;
        let before = match self.changes.iter().rev().find(|change| change.after.id == id) {
            Some(change) => Some(change.after.clone()),
            None => self.database.head(id)?,
        };
        let mut after = before.clone().unwrap_or_else(|| Head::new(id));
        if event.seq < after.next_seq || event.prev != after.tip {
            return Err(Behind::Damage(format!("event {} of {id} does not follow what the database has", event.seq)));
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

    fn flush(&mut self) -> Result<(), Behind> {
        let changes = std::mem::take(&mut self.changes);
        Ok(self.database.apply(&changes)?)
    }

    fn finish(&mut self) -> Result<(), Behind> {
        self.flush()?;
        for id in &self.compared {
            if self.thorough { check_session(self.database, *id)? } else { check_tip(self.database, *id)? }
        }
        Ok(())
    }

    /// Whether the trees hold as many entries as the totals say.
    fn check_counts(&self) -> Result<(), Behind> {
        let wrong = |what: &str| Err(Behind::Damage(format!("the database's {what} disagree with its totals")));
        let count = |tree: &sled::Tree| tree.iter().keys().try_fold(0u64, |count, key| key.map(|_| count + 1));
        if count(&self.database.events).map_err(Trouble::from)? != self.totals.events {
            return wrong("events");
        }
        if count(&self.database.recency).map_err(Trouble::from)? != self.totals.sessions {
            return wrong("sessions");
        }
        Ok(())
    }
}

/// Checks that a session's head stands at its last event, and is in the listing. A head follows from the events up to its
/// tip, so one that names the last of them is the one those events give.
fn check_tip(database: &Database, id: SessionId) -> Result<(), Trouble> {
    let head = database.head(id)?.ok_or_else(|| Trouble::Wrong(format!("it does not know {id}")))?;
    let last = guard(|| Ok(database.events.scan_prefix(keys::session_key(id)).next_back().transpose()?))?;
    let place = |value: &[u8]| Record::read_unchecked(value).map(|record| (record.header.seq, record.hash));
    let last = last.and_then(|(_, value)| place(&value));
    if last != head.next_seq.checked_sub(1).map(|seq| (seq, head.tip)) {
        return Err(Trouble::Wrong(format!("what it says of {id} differs from its events")));
    }
    listed(database, &head)
}

fn listed(database: &Database, head: &Head) -> Result<(), Trouble> {
    match recency_of(head) {
        Some(key) if !guard(|| Ok(database.recency.contains_key(key)?))? => {
            Err(Trouble::Wrong(format!("{} is not in its listing", head.id)))
        }
        _ => Ok(()),
    }
}

/// Checks a session's head and its place in the recency order against its events.
pub(super) fn check_session(database: &Database, id: SessionId) -> Result<(), Trouble> {
    let mut head = Head::new(id);
    for (seq, value) in database.events_of(id)? {
        let event = Record::read_unchecked(&value).and_then(|record| record.event(&|_| None));
        let (event, _) = event.ok_or_else(|| Trouble::Wrong(format!("event {seq} of {id} cannot be read")))?;
        head.advance(&event);
    }
    if database.head(id)?.as_ref() != Some(&head) {
        return Err(Trouble::Wrong(format!("what it says of {id} differs from its events")));
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
    let id = match from_journal {
        Some(id) => id,
        None => random_id().map_err(|source| Error::Io {
            action: "draw a random id for the workspace".into(),
            path: dir.to_owned(),
            source,
        })?,
    };
    let identity = Identity { format: FORMAT, id: format!("{:032x}", u128::from_be_bytes(id)) };
    let text = toml::to_string(&identity).unwrap_or_default();
    disk.replace(&path, text.as_bytes()).map_err(|source| Error::Io {
        action: "write the workspace's identity".into(),
        path,
        source,
    })?;
    Ok(id)
}

fn random_id() -> io::Result<[u8; 16]> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(id)
}
