//! sled: the database every question is answered from. Derived from the journal, applied behind it, rebuilt at will.
//!
//! A damaged sled may refuse to open, panic, hang, or fail at one page. All of that comes out of here as [`DatabaseError`],
//! and whoever gets it rebuilds the database from the journal.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bincode::Options as _;
use serde::{Deserialize, Serialize};
use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};
use sled::{IVec, Tree};

use crate::model::session::Span;
use crate::model::{Hash, Head, IterationId, SessionId, Timestamp};

use super::event_tree::{EventTree, StoredEvent};
use super::head_tree::HeadTree;
use super::journal::{Position, SEGMENT_HEADER};
use super::key_index::{Key, KeyIndex, KeyIndexError};
use super::keys::{self, be_u32, le_u32};
use super::write_set::WriteSet;
use super::{RecencyKey, Totals};

/// The version of the layout. Version 2 kept one item per event, key and head.
const SCHEMA: u32 = 3;
/// sled's cache. It holds whole pages of up to 16 packs, of which a page of the listing or a history needs a few.
const CACHE_BYTES: u64 = 12 << 20;
/// The number of new keys that are written out before the next checkpoint does.
const MAX_PENDING_KEYS: usize = 8192;
/// The first position of every journal.
const START: Position = Position { segment: 1, offset: SEGMENT_HEADER };

/// The database cannot be trusted any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum DatabaseError {
    #[error("{0}")]
    Sled(#[from] sled::Error),
    #[error("it panicked: {0}")]
    Panic(String),
    #[error("it did not answer for {0:?}")]
    Hang(Duration),
    #[error("{0}")]
    Wrong(String),
    #[error("it is not open")]
    Absent,
}

/// The trees. Cheap to clone, as sled's handles are.
#[derive(Clone)]
pub(super) struct Database {
    path: PathBuf,
    db: sled::Db,
    pub(super) events: EventTree,
    pub(super) heads: HeadTree,
    /// The listing: every session that has an iteration, by recency, with its head.
    pub(super) recency: Tree,
    keys: Arc<Mutex<KeyIndex>>,
    pub(super) children: Tree,
    pub(super) days: Tree,
    pub(super) texts: Tree,
    meta: Tree,
}

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHit {
    pub(super) session: SessionId,
    pub(super) seq: u32,
    pub(super) index: Option<u32>,
}

/// One commit as the database takes it.
#[derive(Debug)]
pub(super) struct Change {
    /// The byte of the journal behind it.
    pub(super) end: Position,
    /// The session before, unless it is new.
    pub(super) before: Option<Head>,
    /// The session after.
    pub(super) after: Head,
    /// Its records, each with its place in the chain and in the journal.
    pub(super) records: Vec<(u32, Position, Vec<u8>)>,
    /// Its idempotency keys: one, unless it was imported.
    pub(super) keys: Vec<([u8; 16], KeyHit)>,
    /// The parents and children it links.
    pub(super) children: Vec<(IterationId, IterationId)>,
    /// The long texts it brought into the journal.
    pub(super) texts: Vec<(Hash, Position)>,
    /// All counts after it.
    pub(super) totals: Totals,
}

impl Database {
    /// Opens or makes the database at `path`. Nothing that sled does to its files can take this process down.
    pub(super) fn open(path: &Path) -> Result<Database, DatabaseError> {
        let size = std::fs::metadata(path.join("db")).map_or(0, |file| file.len());
        let patience = Duration::from_secs(30 + size / (16 << 20));
        let (sender, receiver) = mpsc::channel();
        let owned = path.to_owned();
        let opener = thread::Builder::new().name("retake-open".to_owned()).spawn(move || {
            let _ = sender.send(guard(|| open_waiting(&owned)));
        });
        if let Err(error) = opener {
            return Err(DatabaseError::Wrong(format!("no thread to open it: {error}")));
        }
        match receiver.recv_timeout(patience) {
            Ok(opened) => opened,
            Err(_) => Err(DatabaseError::Hang(patience)),
        }
    }

    /// The journal position up to which everything is applied; none when the layout is not ours or never filled.
    pub(super) fn position(&self) -> Result<Option<Position>, DatabaseError> {
        let schema = self.meta.get("schema")?;
        if schema.as_deref().and_then(|bytes| le_u32(bytes, 0)) != Some(SCHEMA) {
            return Ok(None);
        }
        Ok(self.meta.get("position")?.and_then(|bytes| Position::from_bytes(&bytes)))
    }

    pub(super) fn totals(&self) -> Result<Totals, DatabaseError> {
        let bytes = self.meta.get("totals")?;
        bytes.and_then(|bytes| decode_totals(&bytes)).ok_or_else(|| DatabaseError::Wrong("it has no totals".to_owned()))
    }

    /// Says that everything up to `position` is applied: the last act of building one.
    pub(super) fn finish(&self, position: Position, totals: Totals) -> Result<(), DatabaseError> {
        self.add_keys([], position)?;
        self.meta.insert("schema", &SCHEMA.to_le_bytes())?;
        self.meta.insert("totals", encode_totals(totals))?;
        self.meta.insert("position", position.to_bytes().to_vec())?;
        self.sync()
    }

    pub(super) fn head(&self, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        self.heads.get(id)
    }

    /// Returns the records of a session in order.
    pub(super) fn events_of(&self, id: SessionId) -> Result<Vec<(u32, StoredEvent)>, DatabaseError> {
        self.events.of(id)
    }

    /// Returns what an idempotency key was used for.
    pub(super) fn key(&self, key: Key) -> Result<Option<KeyHit>, DatabaseError> {
        Ok(self.keys().get(key)?)
    }

    /// Returns the position of the journal up to which every key is known.
    pub(super) fn keys_end(&self) -> Position {
        self.keys().end()
    }

    /// Adds the keys of a stretch of the journal that ends at `end`.
    pub(super) fn add_keys(
        &self,
        added: impl IntoIterator<Item = (Key, KeyHit)>,
        end: Position,
    ) -> Result<(), DatabaseError> {
        let mut keys = self.keys();
        keys.insert(added, end);
        if keys.pending() >= MAX_PENDING_KEYS { Ok(keys.flush()?) } else { Ok(()) }
    }

    /// Adds a key that a rebuild found.
    pub(super) fn add_found_key(&self, key: Key, hit: KeyHit) -> Result<(), DatabaseError> {
        let mut keys = self.keys();
        keys.insert([(key, hit)], START);
        if keys.pending() >= 16 * MAX_PENDING_KEYS { Ok(keys.spill()?) } else { Ok(()) }
    }

    fn keys(&self) -> MutexGuard<'_, KeyIndex> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the database has a layout of an earlier version, with everything in it.
    pub(super) fn is_older_layout(&self) -> Result<bool, DatabaseError> {
        let schema = self.meta.get("schema")?;
        Ok(schema.as_deref().and_then(|bytes| le_u32(bytes, 0)).is_some_and(|schema| schema < SCHEMA))
    }

    /// Returns a tree of an earlier layout, if there is one.
    pub(super) fn older_tree(&self, name: &str) -> Option<Tree> {
        let known = self.db.tree_names().iter().any(|known| known == name.as_bytes());
        if known { self.db.open_tree(name).ok() } else { None }
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
            let mut keep = |key: IVec, value: IVec| match keys::place_of(&key) {
                Some((_, place)) => {
                    listed.push((place, decode_head(place.id, &value)?));
                    Ok(())
                }
                None => Err(DatabaseError::Wrong("the recency order has a bad key".to_owned())),
            };
            if recent_first {
                let range = self.recency.range((Included(low), Excluded(after.unwrap_or(high))));
                for item in range.rev().take(limit) {
                    let (key, value) = item?;
                    keep(key, value)?;
                }
            } else {
                let start = after.map_or(Included(low), Excluded);
                for item in self.recency.range((start, Excluded(high))).take(limit) {
                    let (key, value) = item?;
                    keep(key, value)?;
                }
            }
            Ok(listed)
        })
    }

    /// Applies commits. First what is only ever found through its own key and never changes: after a crash it may be
    /// there already, and is applied again to the same end. Then, in one transaction, everything that says where things
    /// stand. Keys come last: until then, readers find them among the unapplied commits, and after a crash opening reads
    /// them from the journal.
    ///
    /// sled blocks readers while a transaction runs, and reads each value before it replaces it: so the less in it the
    /// better.
    pub(super) fn apply<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Result<(), DatabaseError> {
        let Some(sum) = WriteSet::of(changes) else { return Ok(()) };
        self.events.append(&sum.events)?;
        let blocks = self.heads.blocks(sum.sessions.iter().map(|(id, session)| (*id, session.head.as_ref())))?;
        guard(|| {
            for key in &sum.children {
                self.children.insert(key, &[])?;
            }
            for (hash, position) in &sum.texts {
                self.texts.insert(hash.0, position)?;
            }
            let trees = (self.heads.tree(), &self.recency, &self.days, &self.meta);
            let applied = trees.transaction(|(heads, recency, days, meta)| {
                for (key, block) in &blocks {
                    heads.insert(key, block.as_slice())?;
                }
                for session in sum.sessions.values() {
                    if let Some(key) = session.recency_before.filter(|before| session.recency_after != Some(*before)) {
                        recency.remove(&key)?;
                    }
                    if let Some(key) = session.recency_after {
                        recency.insert(&key, &session.head)?;
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
                Err(TransactionError::Abort(())) => Err(DatabaseError::Wrong("a transaction was aborted".to_owned())),
            }
        })?;
        self.add_keys(sum.keys, sum.end)
    }

    /// Makes what is applied last: sled's flush, and the sync that it leaves out.
    pub(super) fn sync(&self) -> Result<(), DatabaseError> {
        self.events.flush()?;
        guard(|| {
            self.db.flush()?;
            sync_files(&self.path).map_err(|error| DatabaseError::Sled(error.into()))
        })?;
        Ok(self.keys().flush()?)
    }
}

impl From<KeyIndexError> for DatabaseError {
    fn from(error: KeyIndexError) -> DatabaseError {
        match error {
            KeyIndexError::Io { source, .. } => DatabaseError::Sled(source.into()),
            KeyIndexError::Damaged(_) => DatabaseError::Wrong(error.to_string()),
        }
    }
}

impl DatabaseError {
    /// Whether the disk said no, which says nothing about what is on it: opening it again decides.
    pub(super) fn is_refusal(&self) -> bool {
        use io::ErrorKind as Io;
        let DatabaseError::Sled(sled::Error::Io(error)) = self else { return false };
        let refused = [
            Io::StorageFull,
            Io::QuotaExceeded,
            Io::FileTooLarge,
            Io::PermissionDenied,
            Io::ReadOnlyFilesystem,
            Io::WouldBlock,
            Io::OutOfMemory,
        ];
        refused.contains(&error.kind()) || is_lock_error(error)
    }
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

/// A record with the place of its copy in the journal.
pub(super) fn event_value(record: &[u8], position: Position) -> Vec<u8> {
    let mut value = Vec::with_capacity(record.len() + 12);
    value.extend_from_slice(record);
    value.extend_from_slice(&position.to_bytes());
    value
}

/// The place of a record's copy in the journal.
pub(super) fn position_in(value: &[u8], record: usize) -> Option<Position> {
    Position::from_bytes(value.get(record..)?)
}

/// The key of a session in the recency order, if it is listed.
pub(super) fn recency_of(head: &Head) -> Option<[u8; 17]> {
    let span = head.span?;
    Some(keys::recency_key(head.archived, RecencyKey { modified: span.last_modified_at, id: head.id }))
}

/// sled refuses a directory for some milliseconds after another handle of this process was dropped.
fn open_waiting(path: &Path) -> Result<Database, DatabaseError> {
    let begun = Instant::now();
    loop {
        match open_now(path) {
            Err(DatabaseError::Sled(sled::Error::Io(error)))
                if is_lock_error(&error) && begun.elapsed() < Duration::from_secs(5) =>
            {
                thread::sleep(Duration::from_millis(2));
            }
            opened => return opened,
        }
    }
}

fn is_lock_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("acquire lock")
}

fn open_now(path: &Path) -> Result<Database, DatabaseError> {
    let db = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
    let tree = |name: &str| db.open_tree(name);
    Ok(Database {
        path: path.to_owned(),
        // Names of their own: an earlier layout called its trees `events`, `heads`, `recency` and `keys`.
        events: EventTree::new(tree("packs")?),
        heads: HeadTree::new(tree("head_blocks")?),
        recency: tree("listing")?,
        keys: Arc::new(Mutex::new(KeyIndex::open(&path.join("keys"), START)?)),
        children: tree("children")?,
        days: tree("days")?,
        texts: tree("texts")?,
        meta: tree("meta")?,
        db,
    })
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
    let wrong = || DatabaseError::Wrong(format!("the head of {id} does not decode"));
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
