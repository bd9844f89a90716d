//! sled: the database that answers every question. It is derived from the journal, applied after it, and can be rebuilt.
//!
//! A damaged sled may refuse to open, panic, hang, or fail at one page. All of that comes out of here as
//! [`DatabaseError`]. One that [is transient](DatabaseError::is_transient) says nothing about what is on the disk and
//! must never start a recovery; any other means that the database has to be rebuilt from the journal.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Once, PoisonError, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bincode::Options as _;
use serde::{Deserialize, Serialize};
use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};
use sled::{IVec, Tree};

use crate::disk::{Disk, FileKind, Op};
use crate::model::session::Span;
use crate::model::{Hash, Head, IterationId, SessionId, Timestamp};

use super::events::EventTree;
use super::head_tree::HeadTree;
use super::journal::{Position, SEGMENT_HEADER};
use super::key_index::{Key, KeyIndex, KeyIndexError};
use super::keys::{self, be_u32, le_u32};
use super::projection::{Change, KeyHit, Projection};
use super::write_set::WriteSet;
use super::{Error, RecencyKey, Totals};

/// The version of the trees' layout: a database of another version is rebuilt.
///
/// Version 2 had one item per event, key and head.
const SCHEMA: u32 = 3;
/// How much of its pages sled keeps in memory: a page of the listing and a long history fit many times over.
const CACHE_BYTES: u64 = 16 << 20;
/// How many new keys are written out without waiting for the next checkpoint.
const MAX_PENDING_KEYS: usize = 8192;
/// How many keys a rebuild holds before it writes them out.
const MAX_FOUND_KEYS: usize = 128 << 10;
/// The first position of every journal.
const START: Position = Position { segment: 1, offset: SEGMENT_HEADER };
/// How many sessions at each end of the listing are checked when a database is opened again.
const SAMPLE: usize = 8;

/// Why the database did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("{0}")]
    Sled(#[from] sled::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it panicked: {0}")]
    Panic(String),
    #[error("it did not answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Inconsistent(String),
    #[error("it is not open")]
    Closed,
}

/// An open database. Dropping it closes it, whatever sled does meanwhile.
pub(super) struct Database {
    path: PathBuf,
    disk: Disk,
    /// `None` only while it is being dropped.
    trees: Option<Trees>,
}

/// sled's handles.
pub(super) struct Trees {
    db: sled::Db,
    pub(super) events: EventTree,
    pub(super) heads: HeadTree,
    /// Every session that has an iteration, by recency, with its head: a page of the listing is one stretch of it.
    pub(super) listing: Tree,
    keys: RwLock<KeyIndex>,
    pub(super) children: Tree,
    pub(super) days: Tree,
    pub(super) texts: Tree,
    meta: Tree,
}

impl std::ops::Deref for Database {
    type Target = Trees;

    #[expect(clippy::expect_used, reason = "only drop takes the trees")]
    fn deref(&self) -> &Trees {
        self.trees.as_ref().expect("the database is not being dropped")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let trees = self.trees.take();
        // sled flushes when it is dropped, and panics if that fails.
        let closed = guard(|| {
            drop(trees);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::warn!(%error, "the database was not closed cleanly; the journal has everything");
        }
    }
}

impl Database {
    /// Opens or makes the database at `path`. Nothing that sled does to its files can take this process down.
    pub(super) fn open(disk: &Disk, path: &Path) -> Result<Database, DatabaseError> {
        disk.observe(Op::OpenDatabase(path))?;
        let size = check_files(disk, path)?;
        let timeout = Duration::from_secs(30 + size / (16 << 20));
        let (sender, receiver) = mpsc::channel();
        let (owned, observed) = (path.to_owned(), disk.clone());
        thread::Builder::new().name("retake-open".to_owned()).spawn(move || {
            let _ = sender.send(guard(|| open_waiting(&observed, &owned)));
        })?;
        match receiver.recv_timeout(timeout) {
            Ok(opened) => opened,
            Err(_) => Err(DatabaseError::Timeout(timeout)),
        }
    }

    /// Returns the id of the workspace it belongs to; `None` in databases of version 0.1.
    pub(super) fn workspace(&self) -> Result<Option<[u8; 16]>, DatabaseError> {
        let bytes = guard(|| Ok(self.meta.get("workspace")?))?;
        Ok(bytes.and_then(|bytes| bytes.as_ref().try_into().ok()))
    }

    /// Notes the workspace it belongs to.
    pub(super) fn set_workspace(&self, id: [u8; 16]) -> Result<(), DatabaseError> {
        guard(|| Ok(self.meta.insert("workspace", &id).map(|_| ())?))
    }

    /// Returns the journal position of the newest commit of which anything may be in the trees. It is noted before the
    /// first entry of a commit and so may be ahead of [`position`](Database::position) after a crash.
    pub(super) fn high_water(&self) -> Result<Option<Position>, DatabaseError> {
        Ok(guard(|| Ok(self.meta.get("applying")?))?.and_then(|bytes| Position::from_bytes(&bytes)))
    }

    /// The journal position up to which everything is applied; none when the layout is not ours or never filled.
    pub(super) fn position(&self) -> Result<Option<Position>, DatabaseError> {
        let schema = guard(|| Ok(self.meta.get("schema")?))?;
        if schema.as_deref().and_then(|bytes| le_u32(bytes, 0)) != Some(SCHEMA) {
            return Ok(None);
        }
        Ok(guard(|| Ok(self.meta.get("position")?))?.and_then(|bytes| Position::from_bytes(&bytes)))
    }

    pub(super) fn totals(&self) -> Result<Totals, DatabaseError> {
        let bytes = guard(|| Ok(self.meta.get("totals")?))?;
        bytes
            .and_then(|bytes| decode_totals(&bytes))
            .ok_or_else(|| DatabaseError::Inconsistent("it has no totals".to_owned()))
    }

    /// Says that everything up to `position` is applied: the last act of building one.
    pub(super) fn finish(&self, workspace: [u8; 16], position: Position, totals: Totals) -> Result<(), DatabaseError> {
        self.put_keys([], position)?;
        guard(|| {
            self.meta.insert("workspace", &workspace)?;
            self.meta.insert("schema", &SCHEMA.to_le_bytes())?;
            self.meta.insert("totals", encode_totals(totals))?;
            self.meta.insert("applying", position.to_bytes().to_vec())?;
            self.meta.insert("position", position.to_bytes().to_vec())?;
            Ok(())
        })?;
        self.sync()
    }

    pub(super) fn head(&self, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        self.heads.get(id)
    }

    /// Returns what an idempotency key was used for.
    pub(super) fn key(&self, key: Key) -> Result<Option<KeyHit>, DatabaseError> {
        Ok(self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key)?)
    }

    /// Returns the position of the journal up to which every key is known. After a crash it may be behind
    /// [`position`](Database::position).
    pub(super) fn keys_end(&self) -> Position {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).end()
    }

    /// Adds the keys of a stretch of the journal that ends at `end`.
    pub(super) fn put_keys(
        &self,
        put: impl IntoIterator<Item = (Key, KeyHit)>,
        end: Position,
    ) -> Result<(), DatabaseError> {
        let pending = {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keys.insert(put, end);
            keys.pending()
        };
        if pending < MAX_PENDING_KEYS { Ok(()) } else { self.write_keys() }
    }

    /// Adds keys that a rebuild found.
    fn put_found_keys(&self, found: &[(Key, KeyHit)]) -> Result<(), DatabaseError> {
        {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keys.insert(found.iter().copied(), START);
            if keys.pending() < MAX_FOUND_KEYS {
                return Ok(());
            }
            keys.end_early();
        }
        self.write_keys()
    }

    /// Writes out all keys. Lookups go on meanwhile.
    fn write_keys(&self) -> Result<(), DatabaseError> {
        loop {
            let job = self.keys.read().unwrap_or_else(PoisonError::into_inner).next_job();
            let Some(job) = job else { return Ok(()) };
            let run = job.run()?;
            self.keys.write().unwrap_or_else(PoisonError::into_inner).install(run);
        }
    }

    /// Returns whether the database is complete, but in a layout of an earlier version.
    pub(super) fn is_older_layout(&self) -> Result<bool, DatabaseError> {
        let schema = guard(|| Ok(self.meta.get("schema")?))?;
        Ok(schema.as_deref().and_then(|bytes| le_u32(bytes, 0)).is_some_and(|schema| schema < SCHEMA))
    }

    /// The highest number given out on that day.
    pub(super) fn last_of_day(&self, day: u32) -> Result<u32, DatabaseError> {
        Ok(guard(|| Ok(self.days.get(day.to_be_bytes())?))?.and_then(|bytes| le_u32(&bytes, 0)).unwrap_or(0))
    }

    pub(super) fn text(&self, hash: Hash) -> Result<Option<Position>, DatabaseError> {
        Ok(guard(|| Ok(self.texts.get(hash.0)?))?.and_then(|bytes| Position::from_bytes(&bytes)))
    }

    pub(super) fn children(&self, id: IterationId) -> Result<Vec<IterationId>, DatabaseError> {
        guard(|| {
            let mut children = Vec::new();
            for key in self.children.scan_prefix(keys::numbered_key(id.session, id.index)).keys() {
                let child = key?.get(12..).and_then(keys::numbered_of);
                children.extend(child.map(|(session, index)| IterationId { session, index }));
            }
            Ok(children)
        })
    }

    pub(super) fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, DatabaseError> {
        self.heads.ids(after, limit)
    }

    /// Returns the heads of the next sessions of one status after `after`, at most `limit`, most recent first or last.
    pub(super) fn listed(
        &self,
        archived: bool,
        recent_first: bool,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<(RecencyKey, Head)>, DatabaseError> {
        use std::ops::Bound::{Excluded, Included};
        guard(|| {
            let (low, high) = (vec![u8::from(archived)], vec![u8::from(archived) + 1]);
            let after = after.map(|place| keys::recency_key(archived, place).to_vec());
            let mut listed = Vec::new();
            let mut keep = |(key, value): (IVec, IVec)| match keys::place_of(&key) {
                Some((_, place)) => {
                    listed.push((place, decode_head(place.id, &value)?));
                    Ok(())
                }
                None => Err(DatabaseError::Inconsistent("the listing has a bad key".to_owned())),
            };
            if recent_first {
                let range = self.listing.range((Included(low), Excluded(after.unwrap_or(high))));
                for item in range.rev().take(limit) {
                    keep(item?)?;
                }
            } else {
                let start = after.map_or(Included(low), Excluded);
                for item in self.listing.range((start, Excluded(high))).take(limit) {
                    keep(item?)?;
                }
            }
            Ok(listed)
        })
    }

    /// Applies commits. First what is only ever found through its own key and never changes: after a crash it may be
    /// there already, and is applied again to the same end. Then, in one transaction, everything that says where things
    /// stand. Keys come last: until then readers find them among what is not applied yet, and after a crash opening reads
    /// them from the journal.
    ///
    /// sled blocks readers while a transaction runs, and reads each value before it replaces it: so the less in it the
    /// better.
    pub(super) fn apply<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Result<(), DatabaseError> {
        let Some(sum) = WriteSet::of(changes) else { return Ok(()) };
        self.disk.observe(Op::WriteDatabase(&self.path))?;
        // Nothing else writes heads, so they may be read before the transaction.
        let blocks = self.heads.blocks(sum.sessions.iter().map(|(id, session)| (*id, session.head.as_ref())))?;
        guard(|| {
            self.meta.insert("applying", &sum.position)?;
            self.events.append(&sum.events)?;
            for key in &sum.children {
                self.children.insert(key, &[])?;
            }
            for (hash, position) in &sum.texts {
                self.texts.insert(hash.0, position)?;
            }
            let trees = (self.heads.tree(), &self.listing, &self.days, &self.meta);
            let applied = trees.transaction(|(heads, listing, days, meta)| {
                for (key, block) in &blocks {
                    heads.insert(key, block.as_slice())?;
                }
                for session in sum.sessions.values() {
                    if let Some(key) = session.recency_before.filter(|before| session.recency_after != Some(*before)) {
                        listing.remove(&key)?;
                    }
                    if let Some(key) = session.recency_after {
                        listing.insert(&key, &session.head)?;
                    }
                }
                for (day, number) in &sum.days {
                    let last = days.get(day.to_be_bytes())?.and_then(|bytes| le_u32(&bytes, 0)).unwrap_or(0);
                    days.insert(&day.to_be_bytes(), &last.max(*number).to_le_bytes())?;
                }
                meta.insert("totals", &sum.totals)?;
                meta.insert("position", &sum.position)?;
                Ok::<(), ConflictableTransactionError<()>>(())
            });
            match applied {
                Ok(()) => Ok(()),
                Err(TransactionError::Storage(error)) => Err(DatabaseError::Sled(error)),
                Err(TransactionError::Abort(())) => {
                    Err(DatabaseError::Inconsistent("a transaction was aborted".to_owned()))
                }
            }
        })?;
        self.put_keys(sum.keys, sum.end)
    }

    /// Writes what the events of a whole session derive to, in a database that is being built.
    pub(super) fn put_session(&self, projection: &Projection) -> Result<(), DatabaseError> {
        let head = &projection.after;
        self.heads.insert(head)?;
        self.put_found_keys(&projection.keys)?;
        guard(|| {
            if let Some(key) = recency_of(head) {
                self.listing.insert(key, encode_head(head))?;
            }
            for (parent, child) in &projection.children {
                self.children.insert(keys::child_key(*parent, *child), &[])?;
            }
            let (day, number) = keys::numbers(head.id);
            self.reserve(day, number)
        })
    }

    /// Keeps session numbers up to this one from being given out.
    fn reserve(&self, day: u32, number: u32) -> Result<(), DatabaseError> {
        let last = self.days.get(day.to_be_bytes())?.and_then(|bytes| le_u32(&bytes, 0)).unwrap_or(0);
        self.days.insert(day.to_be_bytes(), &last.max(number).to_le_bytes())?;
        Ok(())
    }

    /// Counts the sessions in the listing by reading all of it.
    pub(super) fn count_listed(&self) -> Result<u64, DatabaseError> {
        guard(|| {
            self.listing.iter().keys().try_fold(0, |count, key| key.map(|_| count + 1)).map_err(DatabaseError::from)
        })
    }

    /// Makes what is applied durable: sled's flush, and the sync that it leaves out.
    pub(super) fn sync(&self) -> Result<(), DatabaseError> {
        self.disk.observe(Op::SyncDatabase(&self.path))?;
        self.events.flush()?;
        guard(|| {
            self.db.flush()?;
            Ok(sync_files(&self.path)?)
        })?;
        self.write_keys()
    }

    /// Checks that a database that was just opened is the one that was closed: its position, its totals, and the heads
    /// of some sessions. sled may come up with less than it had and not say so.
    pub(super) fn check_reopened(&self, position: Position, totals: Totals) -> Result<(), DatabaseError> {
        let (found, counted) = (self.position()?, self.totals()?);
        if found != Some(position) || counted != totals {
            return Err(DatabaseError::Inconsistent("it came up with less than was written".to_owned()));
        }
        let mut sample: Vec<SessionId> = Vec::new();
        for archived in [false, true] {
            for recent_first in [false, true] {
                let listed = self.listed(archived, recent_first, None, SAMPLE)?;
                sample.extend(listed.into_iter().map(|(place, _)| place.id));
            }
        }
        if sample.is_empty() && totals.sessions > 0 {
            return Err(DatabaseError::Inconsistent("its listing is empty".to_owned()));
        }
        sample.into_iter().try_for_each(|id| self.check_tip(id))
    }

    /// Checks that a session's head stands at its last event, and is in the listing. A head follows from the events up
    /// to its tip, so one that names the last of them is the one those events give.
    pub(super) fn check_tip(&self, id: SessionId) -> Result<(), DatabaseError> {
        let head = self.head(id)?.ok_or_else(|| DatabaseError::Inconsistent(format!("it does not know {id}")))?;
        if self.events.tip(id)? != head.next_seq.checked_sub(1).map(|seq| (seq, head.tip)) {
            return Err(DatabaseError::Inconsistent(format!("the head of {id} differs from its events")));
        }
        self.check_listed(&head)
    }

    /// Checks a session's head and its place in the listing against all of its events.
    pub(super) fn check_session(&self, id: SessionId) -> Result<(), DatabaseError> {
        let mut projection = Projection::new(id, None);
        for stored in self.events.of_session(id)? {
            let event = stored.record().and_then(|record| record.event(&|_| None));
            let (event, _) = event
                .ok_or_else(|| DatabaseError::Inconsistent(format!("event {} of {id} cannot be read", stored.seq)))?;
            projection.apply(&event);
        }
        if self.head(id)?.as_ref() != Some(&projection.after) {
            return Err(DatabaseError::Inconsistent(format!("the head of {id} differs from its events")));
        }
        self.check_listed(&projection.after)
    }

    pub(super) fn check_listed(&self, head: &Head) -> Result<(), DatabaseError> {
        match recency_of(head) {
            Some(key) => match guard(|| Ok(self.listing.get(key)?))? {
                Some(row) if *row == *encode_head(head) => Ok(()),
                _ => Err(DatabaseError::Inconsistent(format!("{} is not in its listing as it stands", head.id))),
            },
            None => Ok(()),
        }
    }

    /// Returns the tree that a recovery collects candidates in; it is dropped before the database is used.
    pub(super) fn candidates(&self) -> Result<Tree, DatabaseError> {
        guard(|| Ok(self.db.open_tree("candidates")?))
    }

    pub(super) fn drop_candidates(&self) -> Result<(), DatabaseError> {
        guard(|| Ok(self.db.drop_tree("candidates").map(|_| ())?))
    }
}

impl From<KeyIndexError> for DatabaseError {
    fn from(error: KeyIndexError) -> DatabaseError {
        match error {
            KeyIndexError::Io { source, .. } => DatabaseError::Io(source),
            KeyIndexError::Damaged(_) => DatabaseError::Inconsistent(error.to_string()),
        }
    }
}

impl DatabaseError {
    /// Returns whether the system said no, which says nothing about what is on the disk: trying again decides.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            DatabaseError::Sled(sled::Error::Io(error)) | DatabaseError::Io(error) => {
                is_transient(error) || is_lock_error(error)
            }
            DatabaseError::Panic(text) => os_error_in(text).is_some_and(|error| is_transient(&error)),
            DatabaseError::Timeout(_) => true,
            _ => false,
        }
    }

    /// Words it for the caller.
    pub(super) fn into_error(self, path: &Path) -> Error {
        let text = self.to_string();
        let source = match self {
            DatabaseError::Sled(sled::Error::Io(error)) | DatabaseError::Io(error) => Some(error),
            DatabaseError::Panic(panic) => os_error_in(&panic),
            DatabaseError::Timeout(_) => Some(io::Error::new(io::ErrorKind::TimedOut, text.clone())),
            _ => None,
        };
        match source {
            Some(source) => Error::Io { action: "use the database".into(), path: path.to_owned(), source },
            None => Error::Database(text),
        }
    }
}

/// Returns whether an I/O error may pass by itself. What the system says about a name or a kind of file does not pass,
/// and neither does what a reader says about bytes (which carries no code of the system).
pub(super) fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as Io;
    const STRUCTURAL: [Io; 6] =
        [Io::NotFound, Io::NotADirectory, Io::IsADirectory, Io::InvalidInput, Io::InvalidData, Io::UnexpectedEof];
    // ENXIO, ENODEV, ELOOP: a socket, a device that is not there, links that go round in a circle.
    let is_structural =
        STRUCTURAL.contains(&error.kind()) || (cfg!(unix) && matches!(error.raw_os_error(), Some(6 | 19 | 40)));
    let is_shortage = matches!(
        error.kind(),
        Io::StorageFull
            | Io::QuotaExceeded
            | Io::FileTooLarge
            | Io::PermissionDenied
            | Io::ReadOnlyFilesystem
            | Io::WouldBlock
            | Io::OutOfMemory
            | Io::Interrupted
            | Io::TimedOut
    );
    !is_structural && (error.raw_os_error().is_some() || is_shortage)
}

/// Returns the system's error that a panic's message quotes: sled unwraps some results of the system.
fn os_error_in(text: &str) -> Option<io::Error> {
    let (_, code) = text.split_once("Os { code: ")?;
    let digits: String = code.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(io::Error::from_raw_os_error)
}

/// Checks that sled will find nothing but regular files, since a FIFO would block it for ever, and returns the size of
/// the largest.
fn check_files(disk: &Disk, path: &Path) -> Result<u64, DatabaseError> {
    let wrong = |name: &str| DatabaseError::Inconsistent(format!("{name} is not what the database keeps there"));
    match disk.kind(path)? {
        FileKind::Absent => return Ok(0),
        FileKind::Directory => {}
        FileKind::File(_) | FileKind::Other => return Err(wrong("its directory")),
    }
    let mut size = 0;
    for name in disk.list(path)? {
        match disk.kind(&path.join(&name))? {
            FileKind::File(bytes) => size = size.max(bytes),
            FileKind::Directory if name == "blobs" || name == "keys" => {}
            FileKind::Absent => {}
            FileKind::Directory | FileKind::Other => return Err(wrong(&name)),
        }
    }
    Ok(size)
}

/// Runs something that sled may panic in.
pub(super) fn guard<T>(work: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, DatabaseError> {
    thread_local!(static QUIET: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // A panic inside sled is an answer we expect, and its trace on the terminal would look like a crash of ours.
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(DatabaseError::Panic(text.unwrap_or("no message").chars().take(200).collect()))
    })
}

/// The key of a session in the recency order, if it is listed.
pub(super) fn recency_of(head: &Head) -> Option<[u8; 17]> {
    let span = head.span?;
    Some(keys::recency_key(head.archived, RecencyKey { modified: span.last_modified_at, id: head.id }))
}

/// sled refuses a directory for some milliseconds after another handle of this process was dropped.
fn open_waiting(disk: &Disk, path: &Path) -> Result<Database, DatabaseError> {
    let begun = Instant::now();
    loop {
        match open_now(disk, path) {
            Err(DatabaseError::Sled(sled::Error::Io(error)))
                if is_lock_error(&error) && begun.elapsed() < Duration::from_secs(5) =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            opened => return opened,
        }
    }
}

/// Opens a tree of an earlier layout, if there is one.
fn older_tree(db: &sled::Db, name: &str) -> Option<Tree> {
    let exists = db.tree_names().iter().any(|known| known == name.as_bytes());
    if exists { db.open_tree(name).ok() } else { None }
}

fn is_lock_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("acquire lock")
}

fn open_now(disk: &Disk, path: &Path) -> Result<Database, DatabaseError> {
    let db = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
    let tree = |name: &str| db.open_tree(name);
    let trees = Trees {
        events: EventTree::new(tree("events")?),
        // Version 0.1 had trees `heads`, `recency` and `keys`; the names are not used again.
        heads: HeadTree::new(tree("head_blocks")?, older_tree(&db, "heads")),
        listing: tree("listing")?,
        keys: RwLock::new(KeyIndex::open(&path.join("keys"), START)?),
        children: tree("children")?,
        days: tree("days")?,
        texts: tree("texts")?,
        meta: tree("meta")?,
        db,
    };
    Ok(Database { path: path.to_owned(), disk: disk.clone(), trees: Some(trees) })
}

fn sync_files(path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_data()?;
        }
    }
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

#[derive(Serialize, Deserialize)]
struct StoredHead {
    next_seq: u32,
    tip: [u8; 32],
    title: Option<String>,
    project: Option<String>,
    archived: bool,
    span: Option<(i64, i64)>,
    last_index: Option<u32>,
}

fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(1 << 20).reject_trailing_bytes()
}

pub(super) fn encode_head(head: &Head) -> Vec<u8> {
    let stored = StoredHead {
        next_seq: head.next_seq,
        tip: head.tip.0,
        title: head.title.clone(),
        project: head.project.clone(),
        archived: head.archived,
        span: head.span.map(|span| (span.created_at.millis(), span.last_modified_at.millis())),
        last_index: head.last_index,
    };
    // A head is a few hundred bytes; only the limit could make this fail.
    options().serialize(&stored).unwrap_or_default()
}

pub(super) fn decode_head(id: SessionId, bytes: &[u8]) -> Result<Head, DatabaseError> {
    let wrong = || DatabaseError::Inconsistent(format!("the head of {id} does not decode"));
    let stored: StoredHead = options().deserialize(bytes).map_err(|_| wrong())?;
    let span = match stored.span {
        Some((created, modified)) => Some(Span {
            created_at: Timestamp::from_millis(created).ok_or_else(wrong)?,
            last_modified_at: Timestamp::from_millis(modified).ok_or_else(wrong)?,
        }),
        None => None,
    };
    Ok(Head {
        id,
        next_seq: stored.next_seq,
        tip: Hash(stored.tip),
        title: stored.title,
        project: stored.project,
        archived: stored.archived,
        span,
        last_index: stored.last_index,
    })
}

pub(super) fn encode_hit(hit: KeyHit) -> Vec<u8> {
    let mut bytes = keys::numbered_key(hit.session, hit.seq).to_vec();
    bytes.extend_from_slice(&hit.index.map_or(0, |index| index.saturating_add(1)).to_be_bytes());
    bytes
}

pub(super) fn decode_hit(bytes: &[u8]) -> Option<KeyHit> {
    let (session, seq) = keys::numbered_of(bytes)?;
    Some(KeyHit { session, seq, index: be_u32(bytes, 12)?.checked_sub(1) })
}

pub(super) fn encode_totals(totals: Totals) -> Vec<u8> {
    [totals.sessions, totals.archived, totals.events].iter().flat_map(|count| count.to_le_bytes()).collect()
}

fn decode_totals(bytes: &[u8]) -> Option<Totals> {
    let count = |at| keys::le_u64(bytes, at);
    Some(Totals { sessions: count(0)?, archived: count(8)?, events: count(16)? })
}
