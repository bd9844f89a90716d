//! The append-only log: two copies of every event, each able to restore the other.
//!
//! An append is acknowledged when the journal is synced; sled is applied after it and answers every question.
//! `docs/format.md` draws the bytes and states the promises. Four types carry it: `Journal` writes frames, `CommitQueue`
//! groups commits before it, `Projection` derives everything from events, `View` holds sled and what it lacks; `Log` is
//! the wiring. The interface is small and independent of the engine:
//! [append](Store::append) a batch with expectations, read a [session](Store::events), [page](Store::page) by recency,
//! [follow](Store::follow) what is new.
//!
//! Not known here: images, wording of errors for people, sockets, async.

mod applier;
mod audit;
pub mod carrier;
mod catalog;
mod catch_up;
mod checkpoint;
mod commit;
mod commit_queue;
mod cursor;
mod database;
mod events;
mod fold;
mod head_tree;
mod identity;
mod import;
mod journal;
mod key_index;
mod keys;
mod layout;
mod lock;
mod log;
mod merge;
mod online;
mod open;
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
/// The former name of [`JournalCursor`], for the search index.
pub use cursor::JournalCursor as Point;
pub use cursor::{JournalCursor, Since};
pub use journal::SEALED as FORMAT_VERSION;
pub(crate) use read_only::ReadOnlyStore;
pub use remedy::Remedy;

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::disk::{ContentDir, Disk};
use crate::model::{Actor, Draft, Event, Hash, Head, IterationId, Refusal, SessionId, Summary, Timestamp};

use self::layout::Layout;
use self::log::Log;
use self::record::Record;

/// What to append, all or nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The session it goes to.
    pub target: Target,
    /// How many iterations the caller believes the session has; refused when it has another number.
    pub expected_iterations: Option<u32>,
    /// When it happens.
    pub at: Timestamp,
    /// Who does it.
    pub actor: Actor,
    /// The idempotency key: a second batch with the same key changes nothing and gets the first one's answer.
    pub key: String,
    /// What happens, in this order.
    pub drafts: Vec<Draft>,
}

/// The session a batch goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A new session of that day; its number is chosen in the same write.
    New(NaiveDate),
    /// This one.
    Existing(SessionId),
}

/// What an append came to. By the time it is returned it is on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// The session as it stands (for a repeated key: as it stands now).
    pub head: Head,
    /// The index of the iteration that the batch recorded.
    pub index: Option<u32>,
    /// Whether this key had been seen before, so that nothing was written now.
    pub repeated: bool,
}

/// A place in the recency order: last modification, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecencyKey {
    /// When the session was last modified.
    pub modified: Timestamp,
    /// The session.
    pub id: SessionId,
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// All sessions that have an iteration.
    pub sessions: u64,
    /// Those of them that are archived.
    pub archived: u64,
    /// All events.
    pub events: u64,
}

/// What can go wrong in the store. It is serialised as it is on its way from the owner of a workspace to a client.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The session does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another process has the workspace open.
    #[error("the workspace is in use by another process: {0}")]
    InUse(#[serde(with = "crate::disk::io_error::path")] PathBuf),
    /// The process that owns the workspace does not answer: it is suspended, or stuck.
    #[error("{} has the workspace open and does not answer", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Unresponsive {
        /// Its process id, where it is known.
        pid: Option<u32>,
    },
    /// The process that owns the workspace cannot be understood.
    #[error("{0}")]
    Incompatible(String),
    /// The workspace was written by a newer version.
    #[error("the workspace has format {found}, and this version reads up to {known}: {path}")]
    NewerFormat {
        /// Its format.
        found: u32,
        /// What we know.
        known: u32,
        /// The file that says so.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {action}: {path}")]
    Io {
        /// What was tried.
        action: Cow<'static, str>,
        /// On what.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
        /// What the system answered.
        #[serde(with = "crate::disk::io_error")]
        source: std::io::Error,
    },
    /// A write that failed, and of which nothing could be written to say that it does not count. Another attempt with the
    /// same idempotency key is safe: it finds the write or makes it.
    #[error("the outcome of this write is unknown; it is safe to retry it with the same key: {path}")]
    OutcomeUnknown {
        /// The journal.
        path: PathBuf,
        /// What the system answered.
        #[serde(with = "crate::disk::io_error")]
        source: std::io::Error,
    },
    /// The database fails, and rebuilding it did not help.
    #[error("the database failed: {0}")]
    Database(String),
    /// The server that carries the log cannot be reached, or failed.
    #[error("{problem}")]
    Server {
        /// What happened, and to which server.
        problem: String,
        /// What to do about it.
        remedy: Option<Remedy>,
        /// Whether the same call may succeed later.
        temporary: bool,
    },
    /// A record that was to be imported does not fit.
    #[error("event {seq} of {} cannot be imported: {problem}", session.map_or("an unknown session".to_owned(), |id| id.to_string()))]
    Import {
        /// The session, where it is known.
        session: Option<SessionId>,
        /// The place in its chain.
        seq: u32,
        /// What is wrong with it.
        problem: Cow<'static, str>,
    },
    /// A batch that no caller may build.
    #[error("{0}")]
    Misuse(Cow<'static, str>),
}

/// How much of each event to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detail {
    /// Everything.
    Full,
    /// Without `parameters` that are kept in a file of their own, which can be large.
    Brief,
}

/// A session's events with what is wrong with them.
#[derive(Clone, Debug)]
pub struct Trail {
    /// Every event that can be read, in order.
    pub events: Vec<Event>,
    /// What is wrong: empty when the chain holds in both copies.
    pub faults: Vec<Fault>,
}

/// Something wrong at one place of a session's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The place.
    pub seq: u32,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What can be wrong at one place of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The event is gone from both copies.
    Missing,
    /// The event names another predecessor than the one there is.
    Unlinked,
    /// The database's copy is missing or does not match its hash.
    DatabaseCopy,
    /// The journal's copy is missing or does not match its hash.
    JournalCopy,
    /// A long text of the event is missing or does not match its hash.
    Text,
}

/// What a check of the whole store found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Bytes of journal read.
    pub journal_bytes: u64,
    /// What is wrong and can be repaired, each in one line; empty when both copies are whole and agree.
    pub problems: Vec<String>,
    /// What is on record as lost, each in one line.
    pub lost: Vec<String>,
}

/// What a recovery did, kept as `report.json` beside what it set aside.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The directory under `quarantine/` that holds what was set aside.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// What was noticed.
    pub causes: Vec<String>,
    /// How many events are gone from every copy.
    pub lost_events: u64,
    /// Where they were, as far as is known.
    pub losses: Vec<SessionLoss>,
    /// Events put back into the journal from the database.
    pub restored_to_journal: u64,
    /// What was set aside, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// All of it in a sentence.
    pub message: String,
}

/// Events that are gone from every copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionLoss {
    /// The session, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The places in its chain.
    pub seqs: Vec<u32>,
    /// The iterations among them, where it is known.
    pub iterations: Vec<u32>,
    /// The latest time before the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The earliest time after the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Tells the time, for reports and names in quarantine.
    pub clock: Clock,
    /// Called with how far long work has come.
    pub progress: Option<Progress>,
    /// The file system.
    pub disk: Disk,
    /// A segment of the journal that would grow past this many bytes is followed by the next.
    pub segment_bytes: u64,
    /// A segment of the journal that takes no more frames is compressed if it has at least this many bytes.
    pub seal_from: u64,
    /// How long an acknowledged change may wait for a checkpoint, which makes the second copy durable.
    pub checkpoint_after: Duration,
}

impl Options {
    /// The usual options, with that clock.
    pub fn new(clock: Clock) -> Options {
        Options {
            clock,
            progress: None,
            disk: Disk::default(),
            segment_bytes: 64 << 20,
            seal_from: 1 << 20,
            checkpoint_after: Duration::from_secs(5),
        }
    }
}

/// Tells the time. It comes from outside, so that everything can be compared to the letter.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Called with how far long work has come: what it is, how much is done, of how much (0 where that is unknown).
pub type Progress = Arc<dyn Fn(&str, u64, u64) + Send + Sync>;

/// An open store. Every call may come from any thread.
pub struct Store {
    log: Arc<Log>,
    applier: Option<JoinHandle<()>>,
    sealer: Option<JoinHandle<()>>,
    /// Which opening of this process it is.
    opening: u64,
    _lock: Lock,
}

/// How often a store was opened in this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// The right to open a workspace. One process has it at a time; the kernel takes it back however that process ends.
pub struct Lock {
    dir: PathBuf,
    file: File,
}

impl Store {
    /// Opens the store of the workspace in `dir`, making it when there is none, and recovering what is damaged. Waits a
    /// little when another process has it.
    pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
        Store::open_locked(Lock::wait(dir, &options.disk)?, options)
    }

    /// Opens the store of the workspace that this process has the lock of.
    pub fn open_locked(lock: Lock, options: Options) -> Result<Store, Error> {
        let dir = lock.dir.clone();
        let parts = open::open(&lock, &options)?;
        let (checkpoints, checkpointed) = mpsc::sync_channel(1);
        let log = Arc::new(Log::new(parts, checkpoints));
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

    /// Appends a batch. When this returns, what was acknowledged is on the disk.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        self.log.append(&batch)
    }

    /// Returns where a session stands; `None` if it was never started.
    pub fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        self.log.ask(|| self.log.view.head(id))
    }

    /// All events of a session, in order; empty when it was never started.
    pub fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.log.ask(|| self.log.events(id, detail))
    }

    /// Returns one event of a session, by its place; `None` if it is not there.
    pub fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        self.log.ask(|| self.log.event(id, seq, detail))
    }

    /// Returns the events that record and annotate one iteration, in order; empty if the session has no such iteration.
    /// The rest of the session is not read.
    pub fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.log.ask(|| self.log.events_of_iteration(id, detail))
    }

    /// Returns the exact bytes of the records that record and annotate one iteration, in order.
    pub fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        self.log.ask(|| self.log.records_of_iteration(id))
    }

    /// The next `limit` sessions after that place in that order.
    pub fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        self.log.ask(|| self.log.page(status, order, after, limit))
    }

    /// How many sessions and events there are.
    pub fn totals(&self) -> Result<Totals, Error> {
        Ok(self.log.view.ahead().progress.totals)
    }

    /// Returns the iterations derived from this one, in any session, without reading those sessions.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        self.log.ask(|| self.log.children(id))
    }

    /// The next `limit` session ids after that one, ordered by day and number, including those whose iterations were
    /// all lost.
    pub fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.log.ask(|| {
            self.log.view.settle(None);
            self.log.view.read()?.ids(after, limit)
        })
    }

    /// New events from now on, in the order they were acknowledged.
    pub fn follow(&self) -> Receiver<Arc<Event>> {
        let (sender, receiver) = mpsc::channel();
        self.tell(move |event| sender.send(Arc::clone(event)).is_ok());
        receiver
    }

    /// Tells `follower` of new events, in the order they are acknowledged, until it says no or the store is closed. It is
    /// called with the log's state locked: it must only pass on.
    pub fn tell(&self, follower: impl FnMut(&Arc<Event>) -> bool + Send + 'static) {
        self.log.lock_state().followers.push(Box::new(follower));
    }

    /// A session's events checked in both copies.
    pub fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        self.log.ask(|| self.log.trail(id))
    }

    /// The exact bytes of every record of a session, in order, for an export.
    pub fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        self.log.ask(|| self.log.records(id))
    }

    /// Returns the exact bytes of one record of a session; `None` if it is not there.
    pub fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        self.log.ask(|| self.log.record(id, seq))
    }

    /// Returns a long text; `None` if it is missing or damaged in both copies.
    pub fn text(&self, hash: Hash) -> Option<String> {
        self.log.text(hash)
    }

    /// Puts a long text back, for an import. Durable when it returns.
    pub fn put_text(&self, text: &str) -> Result<Hash, Error> {
        self.log.keep_text(text)
    }

    /// Appends records of one session as they were exported, keeping ids, times and hashes. Records that are here
    /// already are skipped; one that differs from what is here, or does not follow it, is refused. Returns how many were
    /// new.
    pub fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        self.log.import(records)
    }

    /// Checks every byte of both copies.
    pub fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        self.log.verify(progress.as_ref())
    }

    /// Rebuilds what [`verify`](Store::verify) finds wrong, each copy from the other. `None` if nothing was wrong.
    pub fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        let problems = self.log.verify(progress.as_ref())?.problems;
        if problems.is_empty() { Ok(None) } else { self.log.repair(problems, progress.as_ref()) }
    }

    /// Compresses every segment of the journal that takes no more frames and is in both copies, and returns how many. A
    /// long-lived process does so by itself after each checkpoint.
    pub fn seal(&self) -> Result<u32, Error> {
        let error = |source| Error::Io {
            action: "seal a segment of the journal".into(),
            path: self.log.layout.journal(),
            source,
        };
        self.log.seal_segments().map_err(error)
    }

    /// Returns the recoveries whose report was not read yet, oldest first.
    pub fn unread_recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(quarantine::reports(&self.log.disk, &self.log.layout)
            .into_iter()
            .filter(|(_, read)| !read)
            .map(|(report, _)| report)
            .collect())
    }

    /// Every recovery this workspace has been through, oldest first.
    pub fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(quarantine::reports(&self.log.disk, &self.log.layout).into_iter().map(|(report, _)| report).collect())
    }

    /// Marks all recoveries as read.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        quarantine::mark_read(&self.log.disk, &self.log.layout)
    }

    /// Ends cleanly: everything acknowledged is in both copies and synced. Dropping does the same, silently.
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

/// Returns the event of a record, with its long texts from `texts`; `None` if it is not a record, or altered.
pub fn decode(record: &[u8], detail: Detail, texts: &dyn Fn(Hash) -> Option<String>) -> Option<Event> {
    Record::read(record)?.event_in(detail, texts).map(|(event, _)| event)
}

/// The long texts a record names, by hash.
pub fn texts_of(record: &[u8]) -> Vec<Hash> {
    Record::read(record).map(|record| record.texts()).unwrap_or_default()
}

/// A record's place in its session's chain.
pub fn place(record: &[u8]) -> Option<u32> {
    Some(Record::read_unchecked(record)?.header.seq)
}

/// Splits consecutive records, up to the first bytes that are not a record.
pub fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some(record) = Record::read_unchecked(bytes) {
        records.push(record.bytes);
        bytes = bytes.get(record.bytes.len()..).unwrap_or_default();
    }
    records
}

/// The directory of long texts of a workspace, which any process may read and add to.
pub fn texts_dir(dir: &Path, disk: Disk) -> ContentDir {
    ContentDir::new(disk, dir.join("texts"))
}

/// Every recovery a workspace has been through, oldest first, and whether its report was read.
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
