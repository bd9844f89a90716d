//! The append-only log: two copies of every event, each able to restore the other.
//!
//! An append is acknowledged when the journal is synced; sled is applied after it and serves all reads.
//! `docs/format.md` specifies the bytes and the guarantees. Four types implement it: `Journal` writes frames,
//! `CommitQueue` groups commits before it, `Projection` derives everything from events, and `View` combines sled with
//! what it lacks; `LocalLog` connects them. The interface is small and independent of the engine: [append](Store::append) a
//! batch with expectations, read a [session](Store::events), [page](Store::page) by recency, [follow](Store::follow)
//! new events.
//!
//! This module does not know about images, wording of errors for people, sockets or async.

mod applier;
mod audit;
mod batch;
pub mod carrier;
mod catalog;
mod catch_up;
mod checkpoint;
mod commit;
mod commit_queue;
mod cursor;
mod database;
mod error;
mod events;
mod findings;
mod fold;
mod frame_sequence;
mod group;
mod head_tree;
mod identity;
mod import;
mod journal;
mod journal_tail;
mod key_index;
mod keys;
mod layout;
mod lock;
mod log;
mod merge;
mod online;
mod open;
mod options;
mod pack;
mod payload;
mod projection;
mod quarantine;
mod read_only;
mod rebuild;
mod recent;
mod record;
mod remedy;
mod report;
mod scan;
mod sealed;
mod sealer;
mod segment;
mod segments;
mod sources;
mod unapplied;
mod view;
mod write_set;

pub use crate::model::{Order, Status};
pub use batch::{Ack, Batch, Target};
/// The former name of [`JournalCursor`], for the search index.
pub use cursor::JournalCursor as Point;
pub use cursor::{JournalCursor, Since};
pub use error::Error;
pub use findings::{Fault, FaultKind, Recovery, SessionLoss, Trail, Verification};
pub use journal::SEALED as FORMAT_VERSION;
pub use options::{Clock, Options, Progress};
pub(crate) use read_only::ReadOnlyStore;
pub use record::{decode, lost, place, split, texts_of};
pub use remedy::Remedy;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use crate::disk::{ContentDir, Disk};
use crate::model::{Event, Hash, Head, IterationId, SessionId, Summary, Timestamp};

use self::layout::Layout;
use self::log::LocalLog;

/// The result of appending several batches together.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupAck {
    /// The acknowledgements of the first batches, in order; all of these are durable.
    pub acks: Vec<Ack>,
    /// The error of the batch after them. Later batches were not attempted.
    pub error: Option<Error>,
}

/// A position in the order of recency: last modification, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecencyKey {
    /// When the session was last modified.
    pub modified: Timestamp,
    /// The session.
    pub id: SessionId,
}

/// The number of sessions and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The number of sessions that have an iteration.
    pub sessions: u64,
    /// The number of archived ones among them.
    pub archived: u64,
    /// The number of events.
    pub events: u64,
}

/// How much of each event to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// Everything.
    Full,
    /// Without `parameters` stored in separate files, which can be large.
    Brief,
}

/// An open store. Every call may come from any thread.
pub struct Store {
    log: Arc<LocalLog>,
    applier: Option<JoinHandle<()>>,
    sealer: Option<JoinHandle<()>>,
    /// The number of this open within the process.
    opening: u64,
    _lock: Lock,
}

/// The number of stores opened in this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// The lock of a workspace. One process holds it at a time; the kernel releases it however that process ends.
pub struct Lock {
    dir: PathBuf,
    file: File,
}

impl Store {
    /// Opens the store of the workspace in `dir`, creating it if necessary and recovering damage. Waits a few seconds
    /// for another process that has it open.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        Store::open_locked(Lock::wait(dir, &options.disk)?, options)
    }

    /// Opens the store of the workspace whose lock this process holds.
    pub fn open_locked(lock: Lock, options: Options) -> Result<Store, Error> {
        let dir = lock.dir.clone();
        let parts = open::open(&lock, &options)?;
        let (checkpoints, checkpointed) = mpsc::sync_channel(1);
        let log = Arc::new(LocalLog::new(parts, checkpoints));
        let (applying, sealing) = (Arc::clone(&log), Arc::clone(&log));
        let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|source| Error::Io { action: "start a thread for".into(), path: dir.clone(), source })
        };
        let applier = start("retake-applier", Box::new(move || applying.apply_until_stopped()))?;
        let opening = OPENINGS.fetch_add(1, Ordering::Relaxed);
        let mut store = Store { log, applier: Some(applier), sealer: None, opening, _lock: lock };
        store.sealer = Some(start("retake-sealer", Box::new(move || sealing.seal_until_stopped(&checkpointed)))?);
        Ok(store)
    }

    /// Appends a batch. It is durable when this returns.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        self.log.append(&batch)
    }

    /// Appends batches in order, with as few syncs as possible, and stops at the first failure. Acknowledged batches
    /// are durable when this returns.
    pub fn append_all(&self, batches: &[Batch]) -> GroupAck {
        self.log.append_all(batches)
    }

    /// Returns the state of a session; `None` if it was never started.
    pub fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        self.log.ask(|| self.log.view.head(id))
    }

    /// Returns all events of a session, in order; empty if it was never started.
    pub fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.log.ask(|| self.log.events(id, detail))
    }

    /// Returns one event of a session by its sequence number; `None` if it does not exist.
    pub fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        self.log.ask(|| self.log.event(id, seq, detail))
    }

    /// Returns the events that record and annotate one iteration, in order, without reading the rest of the session;
    /// empty if the iteration does not exist.
    pub fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.log.ask(|| self.log.events_of_iteration(id, detail))
    }

    /// Returns the exact bytes of the records that record and annotate one iteration, in order.
    pub fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        self.log.ask(|| self.log.records_of_iteration(id))
    }

    /// Returns the next `limit` sessions after a position in this order.
    pub fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        self.log.ask(|| self.log.page(status, order, after, limit))
    }

    /// Counts sessions and events.
    pub fn totals(&self) -> Result<Totals, Error> {
        Ok(self.log.view.ahead().progress.totals)
    }

    /// Returns the iterations derived from this one, in any session, without reading those sessions.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        self.log.ask(|| self.log.children(id))
    }

    /// Returns the next `limit` session ids after `after`, ordered by day and number, including sessions whose
    /// iterations were all lost.
    pub fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.log.ask(|| {
            self.log.view.wait_until_applied(None);
            self.log.view.read()?.ids(after, limit)
        })
    }

    /// Returns a channel of future events, in the order in which they are acknowledged.
    pub fn follow(&self) -> Receiver<Arc<Event>> {
        let (sender, receiver) = mpsc::channel();
        self.add_follower(move |event| sender.send(Arc::clone(event)).is_ok());
        receiver
    }

    /// Calls `follower` with new events, in the order in which they are acknowledged, until it returns `false` or the
    /// store is closed. It is called with the log's state locked, so it must not block.
    pub fn add_follower(&self, follower: impl FnMut(&Arc<Event>) -> bool + Send + 'static) {
        self.log.lock_state().followers.push(Box::new(follower));
    }

    /// Returns a session's events, verified in both copies.
    pub fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        self.log.ask(|| self.log.trail(id))
    }

    /// Returns the exact bytes of every record of a session, in order, for an export.
    pub fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        self.log.ask(|| self.log.records(id))
    }

    /// Returns the exact bytes of one record of a session; `None` if it does not exist.
    pub fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        self.log.ask(|| self.log.record(id, seq))
    }

    /// Returns a long text; `None` if it is missing or damaged in both copies.
    pub fn text(&self, hash: Hash) -> Option<String> {
        self.log.text(hash)
    }

    /// Restores a long text, for an import. It is durable when this returns.
    pub fn put_text(&self, text: &str) -> Result<Hash, Error> {
        self.log.keep_text(text)
    }

    /// Appends exported records of one session, keeping ids, times and hashes. Existing records are skipped; a record
    /// that differs from an existing one, or does not follow it, is refused. Returns the number of new records.
    pub fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        self.log.import(records)
    }

    /// Checks every byte of both copies.
    pub fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        self.log.verify(progress.as_ref())
    }

    /// Rebuilds what [`verify`](Store::verify) finds damaged, each copy from the other; `None` if there is nothing to
    /// repair.
    pub fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        let problems = self.log.verify(progress.as_ref())?.problems;
        if problems.is_empty() { Ok(None) } else { self.log.repair(problems, progress.as_ref()) }
    }

    /// Compresses every journal segment that accepts no more frames and is in both copies, and returns the number
    /// sealed. A long-lived process does so automatically after each checkpoint.
    pub fn seal(&self) -> Result<u32, Error> {
        let error = |source| Error::Io {
            action: "seal a segment of the journal".into(),
            path: self.log.layout.journal(),
            source,
        };
        self.log.seal_segments().map_err(error)
    }

    /// Returns the recoveries whose reports have not been read yet, oldest first.
    pub fn unread_recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(quarantine::reports(&self.log.disk, &self.log.layout)
            .into_iter()
            .filter(|(_, read)| !read)
            .map(|(report, _)| report)
            .collect())
    }

    /// Returns every recovery of this workspace, oldest first.
    pub fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(quarantine::reports(&self.log.disk, &self.log.layout).into_iter().map(|(report, _)| report).collect())
    }

    /// Marks all recoveries as read.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        quarantine::mark_read(&self.log.disk, &self.log.layout)
    }

    /// Closes cleanly: everything acknowledged is in both copies and synced. Dropping does the same, ignoring errors.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(applier) = self.applier.take() else { return Ok(()) };
        self.log.view.stop();
        let _ = applier.join();
        self.log.stop_sealing();
        if let Some(sealer) = self.sealer.take() {
            let _ = sealer.join();
        }
        self.log.lock_state().followers.clear();
        self.log.finish().map_err(|error| error.into_error(&self.log.layout.database()))
    }
}

/// Returns the directory of long texts of a workspace, which any process may read and add to.
pub fn texts_dir(dir: &Path, disk: Disk) -> ContentDir {
    ContentDir::new(disk, dir.join("texts"))
}

/// Returns every recovery of a workspace, oldest first, and whether its report was read.
pub fn recoveries(dir: &Path) -> Vec<(Recovery, bool)> {
    quarantine::reports(&Disk::default(), &Layout::new(dir))
}

/// Marks all recoveries of a workspace as read.
pub fn mark_recoveries_read(dir: &Path, disk: &Disk) -> Result<(), Error> {
    quarantine::mark_read(disk, &Layout::new(dir))
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the database was not closed cleanly; the journal has everything");
        }
    }
}
