//! Sharing a workspace between processes: the first process that needs it owns it and opens the store; the others are
//! its clients and make the same calls through a local socket. When the owner exits, a client takes over.
//! `docs/sharing.md` describes the states.
//!
//! A [`SharedLog`] has the interface of the log on either side, so the use cases above need not distinguish them.
//!
//! This module does not know about recipes, images, search or async.

mod call;
mod calls;
mod client;
mod connection;
mod owner;
mod owner_wait;
mod packed;
mod polling;
mod protocol;
mod watch;

#[cfg(test)]
#[cfg(unix)]
mod tests;

pub use call::{Call, CallContext, Extension, LogHandle, Registry};
pub use owner_wait::{OnWait, WaitNotice};
pub use packed::Records;
pub use protocol::{Change, EventSummary, OwnerInfo};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::disk::ContentDir;
use crate::log::{self, Log, OpenLog};
use crate::model::{Event, Hash, Head, IterationId, IterationState, Session, SessionId, Summary};
use crate::store::{
    self, Ack, Batch, Detail, Error, GroupAck, Lock, Options, Order, Progress, ReadOnlyStore, RecencyKey, Recovery,
    Status, Totals, Trail, Verification,
};

use self::calls::{
    Append, AppendAll, GetChildren, GetFaults, GetHead, GetIds, GetIterationRecords, GetOwner, GetPage, GetRecord,
    GetRecords, GetRecordsFrom, GetTotals, Import, Repair, RestoreText, Verify,
};
use self::client::{CallError, Client};
use self::connection::{decode, encode};
use self::owner::{Claim, Owner};
use self::owner_wait::OwnerWait;

/// How long a new follower waits for events to start arriving.
const LISTENING_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of sessions whose events are requested in one call.
const MAX_SESSIONS_AT_ONCE: usize = 1024;
/// How long a call is retried with successive owners after they die; an unresponsive one has its own timeout.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// A workspace that this process owns, or uses through its owner.
pub struct SharedLog {
    shared: Arc<Shared>,
}

/// How to participate in a workspace.
#[derive(Clone)]
pub struct Participation {
    /// How long this process participates.
    pub lifetime: Lifetime,
    /// Additional functions of the owner.
    pub extensions: Vec<Arc<dyn Extension>>,
    /// Called while the owner does not respond; without it, a warning is logged.
    pub on_wait: Option<OnWait>,
    /// How long a silent owner is waited for; half a minute by default.
    pub owner_timeout: Option<Duration>,
    /// Opens the log if it is not the embedded store; the directory then holds only what belongs to this machine.
    pub carrier: Option<OpenLog>,
}

impl From<Lifetime> for Participation {
    fn from(lifetime: Lifetime) -> Participation {
        Participation { lifetime, extensions: Vec::new(), on_wait: None, owner_timeout: None, carrier: None }
    }
}

/// How long a process participates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For one request: it looks for an owner only when it makes a call.
    OneShot,
    /// For as long as it is used: it notices at once when the owner exits, and takes over.
    LongRunning,
}

/// The state shared with the watching thread.
struct Shared {
    dir: PathBuf,
    options: Options,
    extensions: Vec<Arc<dyn Extension>>,
    waiting: OwnerWait,
    carrier: Option<OpenLog>,
    texts: ContentDir,
    role: Mutex<Role>,
    followers: Mutex<Vec<Sender<Change>>>,
    /// Whether events are arriving, and a signal for when they start to.
    listening: (Mutex<bool>, Condvar),
}

/// The role of this process.
#[derive(Clone)]
enum Role {
    Owner(Arc<Owner>),
    Client(Arc<Client>),
    Closed,
}

impl SharedLog {
    /// Joins the workspace in `dir`: as a client if it has an owner, otherwise as its owner.
    pub fn open(dir: &Path, options: Options, how: impl Into<Participation>) -> Result<SharedLog, Error> {
        let failed =
            |action: &'static str| move |source| Error::Io { action: action.into(), path: dir.to_owned(), source };
        options.disk.create_dir_all(dir).map_err(failed("create the workspace"))?;
        // Canonicalize, so that all processes use the same name for the workspace.
        let path = dir.canonicalize().map_err(failed("find the workspace"))?;
        let Participation { lifetime, extensions, on_wait, owner_timeout, carrier } = how.into();
        let waiting = OwnerWait::new(on_wait, owner_timeout);
        let role = connect_or_become_owner(&path, &options, &extensions, &waiting, carrier.as_ref())?;
        let shared = Arc::new(Shared {
            texts: store::texts_dir(&path, options.disk.clone()),
            dir: path,
            options,
            extensions,
            waiting,
            carrier,
            role: Mutex::new(role),
            followers: Mutex::new(Vec::new()),
            listening: (Mutex::new(lifetime == Lifetime::OneShot), Condvar::new()),
        });
        if lifetime == Lifetime::LongRunning {
            watch::start(&shared);
        }
        Ok(SharedLog { shared })
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Returns whether this process currently owns it.
    pub fn is_owner(&self) -> bool {
        matches!(*self.shared.role(), Role::Owner(_))
    }

    /// Returns the process that currently owns it.
    pub fn owner(&self) -> Result<OwnerInfo, Error> {
        self.call(GetOwner, None)
    }

    /// Appends a batch. It is durable when this returns.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        self.call(Append(batch), None)
    }

    /// Appends batches in order, with as few syncs as possible, and stops at the first failure. Acknowledged batches
    /// are durable when this returns. They cross the socket as one message, so the caller must limit their size.
    pub fn append_all(&self, batches: Vec<Batch>) -> GroupAck {
        let answer = self.call(AppendAll(batches), None);
        answer.unwrap_or_else(|error| GroupAck { acks: Vec::new(), error: Some(error) })
    }

    /// Returns the state of a session; `None` if it was never started.
    pub fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        self.call(GetHead(id), None)
    }

    /// Returns all events of a session, in order; empty if it was never started.
    pub fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        if let Some(events) = self.here(|log| log.events(id, detail)) {
            return events;
        }
        self.decode_all(id, &self.records(id)?, detail)
    }

    /// Returns the events of several sessions, each from a sequence number, without large parameters, in the order of
    /// `places` and sequence numbers. Makes only a few calls to a remote log, however many sessions there are.
    pub fn brief_events_from(&self, places: &[(SessionId, u32)]) -> Result<Vec<Event>, Error> {
        let mut events: Vec<Event> = Vec::new();
        for chunk in places.chunks(MAX_SESSIONS_AT_ONCE) {
            let mut left = chunk.to_vec();
            loop {
                let (records, complete) = self.call(GetRecordsFrom(left.clone()), None)?;
                let mut last = None;
                for record in &records.0 {
                    let event = match self.decode(record, Detail::Brief) {
                        Some(event) => event,
                        None => {
                            let ids: Vec<SessionId> = left.iter().map(|(id, _)| *id).collect();
                            match log::lost_event(record, &ids, &|id| self.head(id))? {
                                Some(event) => event,
                                None => continue,
                            }
                        }
                    };
                    last = Some((event.session, event.seq));
                    events.push(event);
                }
                let Some((session, seq)) = last.filter(|_| !complete) else { break };
                let reached = left.iter().position(|(id, _)| *id == session).unwrap_or(left.len());
                left.drain(..reached);
                if let Some((_, from)) = left.first_mut() {
                    *from = seq.saturating_add(1);
                }
            }
        }
        Ok(events)
    }

    /// Returns one event of a session; `None` if it does not exist.
    pub fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        if let Some(event) = self.here(|log| log.event(id, seq, detail)) {
            return event;
        }
        let record = self.call(GetRecord { session: id, seq }, None)?;
        Ok(self.decode_all(id, &record.0, detail)?.pop())
    }

    /// Returns one iteration with its annotations, without reading the rest of its session; `None` if it does not
    /// exist.
    pub fn iteration(&self, id: IterationId, detail: Detail) -> Result<Option<IterationState>, Error> {
        let events = match self.here(|log| log.events_of_iteration(id, detail)) {
            Some(events) => events?,
            None => {
                let records = self.call(GetIterationRecords(id), None)?.0;
                self.decode_all(id.session, &records, detail)?
            }
        };
        Ok(Session::fold(events).and_then(|mut session| session.iterations.remove(&id.index)))
    }

    /// Returns the next `limit` sessions after a position in this order, at most 100,000 at once.
    pub fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        Ok(self.call(GetPage { status, order, after, limit }, None)?.0)
    }

    /// Returns the number of sessions and events.
    pub fn totals(&self) -> Result<Totals, Error> {
        self.call(GetTotals, None)
    }

    /// Returns the iterations derived from this one, in any session.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        self.call(GetChildren(id), None)
    }

    /// Returns the next `limit` session ids after `after`, ordered by day and number.
    pub fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.call(GetIds { after, limit }, None)
    }

    /// Returns a session's events with the problems found in either copy.
    pub fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        if let Some(trail) = self.here(|log| log.trail(id)) {
            return trail;
        }
        let faults = self.call(GetFaults(id), None)?;
        Ok(Trail { events: self.events(id, Detail::Full)?, faults })
    }

    /// Returns the exact bytes of every record of a session, in order, for an export.
    pub fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        loop {
            if let Some(all) = self.here(|log| log.records(id)) {
                return all;
            }
            let from = records.last().and_then(|record| store::place(record)).map_or(0, |seq| seq.saturating_add(1));
            let more = self.call(GetRecords { session: id, from }, None)?.0;
            if more.is_empty() {
                return Ok(records);
            }
            records.extend(more);
        }
    }

    /// Returns a long text; `None` if it is missing or damaged in both copies.
    pub fn text(&self, hash: Hash) -> Option<String> {
        // Any process can read the file; only the owner can restore a missing one.
        let file = || self.shared.texts.get(hash.0).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        file().or_else(|| if self.call(RestoreText(hash), None).unwrap_or(false) { file() } else { None })
    }

    /// Restores a long text, for an import. It is durable when this returns.
    pub fn put_text(&self, text: &str) -> Result<Hash, Error> {
        let stored = self.shared.texts.put(text.as_bytes()).map_err(|source| Error::Io {
            action: "keep a long text".into(),
            path: self.shared.texts.root().to_owned(),
            source,
        })?;
        Ok(Hash(stored.hash))
    }

    /// Appends exported records of one session, and returns the number of new ones. See
    /// [`Store::import`](store::Store::import).
    pub fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        match self.here(|log| log.import(records)) {
            Some(imported) => imported,
            None => self.call(Import(Records(records.to_vec())), None),
        }
    }

    /// Checks every byte of both copies.
    pub fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        self.call(Verify, progress.as_ref())
    }

    /// Rebuilds what [`verify`](SharedLog::verify) finds damaged; `None` if there is nothing to repair.
    pub fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        self.call(Repair, progress.as_ref())
    }

    /// Returns the recoveries whose reports are unread, oldest first.
    pub fn unread_recoveries(&self) -> Result<Vec<Recovery>, Error> {
        let unread = store::recoveries(&self.reports_dir()).into_iter().filter(|(_, read)| !read);
        Ok(unread.map(|(recovery, _)| recovery).collect())
    }

    /// Returns every recovery of this workspace, oldest first.
    pub fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(store::recoveries(&self.reports_dir()).into_iter().map(|(recovery, _)| recovery).collect())
    }

    /// Marks all recoveries as read.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        store::mark_recoveries_read(&self.shared.dir, &self.shared.options.disk)
    }

    /// Returns a channel of all future changes, by any process. Only a workspace opened with [`Lifetime::LongRunning`]
    /// receives any.
    pub fn follow(&self) -> Receiver<Change> {
        let (sender, receiver) = mpsc::channel();
        let (listening, changed) = &self.shared.listening;
        changed.wait_while_for(&mut listening.lock(), |listening| !*listening, LISTENING_TIMEOUT);
        self.shared.followers.lock().push(sender);
        receiver
    }

    /// Closes it: an owner finishes the calls it has accepted, and another process can take over.
    pub fn close(self) -> Result<(), Error> {
        self.shared.close()
    }

    /// Makes a call: runs it if this process owns the workspace, otherwise sends it to the owner. If that owner exits,
    /// the call is retried with the next one.
    pub fn call<C: Call>(&self, call: C, progress: Option<&Progress>) -> Result<C::Answer, Error> {
        let mut call = Some(call);
        let until = Instant::now() + CALL_TIMEOUT;
        loop {
            let role = self.shared.role().clone();
            let client = match role {
                Role::Closed => return Err(Error::Misuse("the workspace was closed".into())),
                Role::Owner(owner) => {
                    let answer = owner.run(progress, |context| call.take().map(|call| call.run(context)));
                    match answer.flatten() {
                        Some(answer) => return answer,
                        // It was closed meanwhile.
                        None => continue,
                    }
                }
                Role::Client(client) => client,
            };
            let Some(call) = &call else { return Err(Error::Misuse("the workspace was closed".into())) };
            let body = encode(call).map_err(|error| misuse(C::NAME, "encode", &error))?;
            match client.call(C::NAME, &body, progress, &self.shared.waiting) {
                Ok(answer) => return decode(&answer).map_err(|error| misuse(C::NAME, "decode the answer to", &error)),
                Err(CallError::Failed(error)) => return Err(error),
                Err(CallError::Unresponsive(pid)) => return Err(Error::Unresponsive { pid }),
                Err(CallError::Unsendable(error)) => return Err(misuse(C::NAME, "send", &error)),
                Err(CallError::Gone) if Instant::now() < until => self.shared.reconnect(&client)?,
                Err(CallError::Gone) => return Err(Error::InUse(self.shared.dir.clone())),
            }
        }
    }

    fn reports_dir(&self) -> PathBuf {
        match &*self.shared.role() {
            Role::Owner(owner) => owner.reports_dir().to_owned(),
            Role::Client(_) | Role::Closed => self.shared.dir.clone(),
        }
    }

    /// Uses the log if it is open in this process.
    fn here<T>(&self, work: impl FnOnce(&dyn Log) -> T) -> Option<T> {
        match self.shared.role().clone() {
            Role::Owner(owner) => owner.with_log(work),
            _ => None,
        }
    }

    /// Decodes a record with the long texts of this workspace; `None` if it does not match its hash.
    pub fn decode(&self, record: &[u8], detail: Detail) -> Option<Event> {
        store::decode(record, detail, &|hash| self.text(hash))
    }

    /// Decodes records of one session with the long texts of this workspace.
    fn decode_all(&self, id: SessionId, records: &[Vec<u8>], detail: Detail) -> Result<Vec<Event>, Error> {
        log::decode_all(id, records, detail, &|hash| self.text(hash), &|id| self.head(id))
    }
}

/// Returns the process that last claimed to own the workspace in `dir`, without connecting to it. It may be gone or
/// unresponsive.
pub fn claimed_owner(dir: &Path) -> Option<OwnerInfo> {
    Claim::read(dir).map(OwnerInfo::from)
}

fn misuse(call: &str, action: &str, error: &std::io::Error) -> Error {
    Error::Misuse(format!("cannot {action} the call {call:?}: {error}").into())
}

impl Drop for SharedLog {
    fn drop(&mut self) {
        if let Err(error) = self.shared.close() {
            tracing::warn!(%error, "the workspace was not closed cleanly; the journal has everything");
        }
    }
}

impl Shared {
    fn role(&self) -> MutexGuard<'_, Role> {
        self.role.lock()
    }

    fn close(&self) -> Result<(), Error> {
        let role = std::mem::replace(&mut *self.role(), Role::Closed);
        match role {
            Role::Owner(owner) => owner.close(),
            Role::Client(_) | Role::Closed => Ok(()),
        }
    }

    /// Finds the next owner after `lost`, or becomes it. One thread does this; the others wait.
    fn reconnect(&self, lost: &Arc<Client>) -> Result<(), Error> {
        let mut role = self.role();
        match &*role {
            Role::Client(current) if Arc::ptr_eq(current, lost) => {
                let carrier = self.carrier.as_ref();
                *role = connect_or_become_owner(&self.dir, &self.options, &self.extensions, &self.waiting, carrier)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Records that events are arriving. If this is not the first time, some may have been missed in between; followers
    /// are only notified now, so that they miss nothing after they have caught up.
    fn mark_listening(&self, again: bool) {
        if again {
            self.notify(&Change::Lagged);
        }
        *self.listening.0.lock() = true;
        self.listening.1.notify_all();
    }

    fn notify(&self, change: &Change) {
        let mut followers = self.followers.lock();
        followers.retain(|follower| follower.send(change.clone()).is_ok());
    }
}

/// Connects to the owner, or becomes it.
fn connect_or_become_owner(
    dir: &Path,
    options: &Options,
    extensions: &[Arc<dyn Extension>],
    waiting: &OwnerWait,
    carrier: Option<&OpenLog>,
) -> Result<Role, Error> {
    let mut pause = Duration::from_micros(500);
    let since = Instant::now();
    let mut reported = since;
    loop {
        if let Some(client) = Client::connect(dir, waiting)? {
            return Ok(Role::Client(Arc::new(client)));
        }
        match Lock::take(dir, &options.disk) {
            Ok(Some(lock)) => return Ok(Role::Owner(Owner::start(dir, options, lock, extensions, carrier)?)),
            Ok(None) => {}
            Err(error) if carrier.is_none() && ReadOnlyStore::is_wanted(&error, dir) => {
                tracing::info!(%error, "the workspace can only be read; a copy of its state is used");
                return Ok(Role::Owner(Owner::start_read_only(dir, options, extensions)?));
            }
            Err(error) => return Err(error),
        }
        let pid = || claimed_owner(dir).map(|owner| owner.pid);
        if waiting.is_over(since) {
            return Err(Error::Unresponsive { pid: pid() });
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            waiting.report(pid(), since);
        }
        // A process holds the lock but is not listening yet, or has stopped listening but not released the lock yet.
        // That takes milliseconds, and there is no event to wait for.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
