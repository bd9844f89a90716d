//! sled: the database that serves all reads. It is derived from the journal, applied after it, and can be rebuilt.
//!
//! A damaged sled may refuse to open, panic, hang, or fail on a page. All of that is reported as a [`DatabaseError`]. A
//! [transient](DatabaseError::is_transient) one says nothing about the data on disk and must never start a recovery;
//! any other means that the database has to be rebuilt from the journal.

mod checks;
mod encoding;
mod error;
mod files;
mod idempotency;

pub(super) use self::encoding::{decode_head, decode_hit, encode_head, encode_hit, encode_totals};
pub(super) use self::error::{DatabaseError, guard, is_transient};

use std::path::{Path, PathBuf};
use std::sync::{RwLock, mpsc};
use std::thread;
use std::time::Duration;

use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional};
use sled::{IVec, Tree};

use crate::disk::{Disk, Op};
use crate::model::{Hash, Head, IterationId, SessionId};

use self::encoding::decode_totals;
use self::files::{check_files, open_waiting, sync_files};
use super::events::EventTree;
use super::head_tree::HeadTree;
use super::journal::{JournalPosition, SEGMENT_HEADER};
use super::key_index::KeyIndex;
use super::keys::{self, le_u32};
use super::projection::{CommitChange, Projection};
use super::write_set::WriteSet;
use super::{RecencyKey, Totals};

/// The version of the trees' layout. A database of another version is rebuilt.
///
/// Version 2 had one item per event, key and head; version 3 only had links between iterations of different sessions.
const SCHEMA: u32 = 4;
/// The first position of every journal.
const START: JournalPosition = JournalPosition { segment: 1, offset: SEGMENT_HEADER };

/// An open database. Dropping it closes it, even if sled panics.
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
    /// Every session that has an iteration, by recency, with its head: a page of the listing is one range of it.
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
    /// Opens or creates the database at `path`. Nothing that sled does to its files can take this process down.
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

    /// Records the workspace it belongs to.
    pub(super) fn set_workspace(&self, id: [u8; 16]) -> Result<(), DatabaseError> {
        guard(|| Ok(self.meta.insert("workspace", &id).map(|_| ())?))
    }

    /// Returns the journal position of the newest commit of which anything may be in the trees. It is recorded before
    /// the first entry of a commit, so after a crash it may be ahead of [`position`](Database::position).
    pub(super) fn high_water(&self) -> Result<Option<JournalPosition>, DatabaseError> {
        Ok(guard(|| Ok(self.meta.get("applying")?))?.and_then(|bytes| JournalPosition::from_bytes(&bytes)))
    }

    /// Returns the journal position up to which everything is applied; `None` if the database has another layout or was
    /// never filled.
    pub(super) fn position(&self) -> Result<Option<JournalPosition>, DatabaseError> {
        let schema = guard(|| Ok(self.meta.get("schema")?))?;
        if schema.as_deref().and_then(|bytes| le_u32(bytes, 0)) != Some(SCHEMA) {
            return Ok(None);
        }
        Ok(guard(|| Ok(self.meta.get("position")?))?.and_then(|bytes| JournalPosition::from_bytes(&bytes)))
    }

    pub(super) fn totals(&self) -> Result<Totals, DatabaseError> {
        let bytes = guard(|| Ok(self.meta.get("totals")?))?;
        bytes
            .and_then(|bytes| decode_totals(&bytes))
            .ok_or_else(|| DatabaseError::Inconsistent("it has no totals".to_owned()))
    }

    /// Records that everything up to `position` is applied: the last step of building a database.
    pub(super) fn finish(
        &self,
        workspace: [u8; 16],
        position: JournalPosition,
        totals: Totals,
    ) -> Result<(), DatabaseError> {
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

    /// Returns whether the database is complete but has the layout of an earlier version.
    pub(super) fn is_older_layout(&self) -> Result<bool, DatabaseError> {
        let schema = guard(|| Ok(self.meta.get("schema")?))?;
        Ok(schema.as_deref().and_then(|bytes| le_u32(bytes, 0)).is_some_and(|schema| schema < SCHEMA))
    }

    /// Returns the highest number in use on this day.
    pub(super) fn last_of_day(&self, day: u32) -> Result<u32, DatabaseError> {
        Ok(guard(|| Ok(self.days.get(day.to_be_bytes())?))?.and_then(|bytes| le_u32(&bytes, 0)).unwrap_or(0))
    }

    pub(super) fn text(&self, hash: Hash) -> Result<Option<JournalPosition>, DatabaseError> {
        Ok(guard(|| Ok(self.texts.get(hash.0)?))?.and_then(|bytes| JournalPosition::from_bytes(&bytes)))
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

    /// Returns the heads of at most `limit` sessions of one status after `after`, in the given order of recency.
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

    /// Applies commits. First come the items that are only found through their own key and never change: after a crash
    /// they may already exist, and applying them again has no effect. Then, in one transaction, everything that
    /// describes the current state. Keys come last: until then, readers find them among the unapplied changes, and
    /// after a crash they are read from the journal on open.
    ///
    /// sled blocks readers while a transaction runs, and reads each value before it replaces it, so transactions are
    /// kept small.
    pub(super) fn apply<'a>(&self, changes: impl IntoIterator<Item = &'a CommitChange>) -> Result<(), DatabaseError> {
        let Some(sum) = WriteSet::of(changes) else { return Ok(()) };
        self.disk.observe(Op::WriteDatabase(&self.path))?;
        // Nothing else writes heads, so they can be read before the transaction.
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

    /// Writes the derived data of a whole session, in a database that is being built.
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

    /// Reserves session numbers up to this one.
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

    /// Makes applied commits durable: sled's flush, and the sync that it leaves out.
    pub(super) fn sync(&self) -> Result<(), DatabaseError> {
        self.disk.observe(Op::SyncDatabase(&self.path))?;
        self.events.flush()?;
        guard(|| {
            self.db.flush()?;
            Ok(sync_files(&self.path)?)
        })?;
        self.write_keys()
    }

    /// Returns the tree in which a recovery collects candidates; it is dropped before the database is used.
    pub(super) fn candidates(&self) -> Result<Tree, DatabaseError> {
        guard(|| Ok(self.db.open_tree("candidates")?))
    }

    pub(super) fn drop_candidates(&self) -> Result<(), DatabaseError> {
        guard(|| Ok(self.db.drop_tree("candidates").map(|_| ())?))
    }
}

/// Returns the key of a session in the recency order, if it is listed.
pub(super) fn recency_of(head: &Head) -> Option<[u8; 17]> {
    let span = head.span?;
    Some(keys::recency_key(head.archived, RecencyKey { modified: span.last_modified_at, id: head.id }))
}
