//! One workspace, many processes: the first to need it owns it and opens the store; the others are its clients and make
//! the same calls through a local socket. When the owner goes, a client takes over. `docs/sharing.md` draws the states.
//!
//! A [`SharedLog`] has the interface of the log, whichever side it is on, so the use cases above never ask.
//!
//! Never known here: recipes, pictures, people's words, async.

mod client;
mod finding;
mod owner;
mod protocol;
mod socket;
mod watch;

pub use finding::{Finding, Findings};
pub use protocol::{Change, EventSummary, OwnerInfo};

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::ContentDir;
use crate::model::{Event, Hash, Head, IterationId, SessionId, Summary};
use crate::store::{
    self, Ack, Batch, Detail, Error, Lock, Options, Order, Progress, RecencyKey, Recovery, Status, Store, Totals,
    Trail, Verification,
};

use self::client::{Client, Lost};
use self::owner::Owner;
use self::protocol::{Answer, Ask, Row};

/// How long someone who wants news waits for them to be coming in.
const LISTENING: Duration = Duration::from_secs(10);
/// How long a call looks for someone who can carry it out.
const PATIENCE: Duration = Duration::from_secs(120);

/// A workspace that this process owns, or uses through the process that does.
pub struct SharedLog {
    shared: Arc<Shared>,
}

/// What the workspace and its watching thread share.
struct Shared {
    dir: PathBuf,
    options: Options,
    texts: ContentDir,
    role: Mutex<Role>,
    followers: Mutex<Vec<Sender<Change>>>,
    /// Whether news are coming in, and who waits for that.
    listening: (Mutex<bool>, Condvar),
}

/// Which side this process is on.
#[derive(Clone)]
enum Role {
    Owner(Arc<Owner>),
    Client(Arc<Client>),
    Closed,
}

/// How long a process takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// For one request: it looks for an owner only when it has something to ask.
    OneShot,
    /// For as long as someone uses it: it notices at once when the owner goes, and takes over.
    LongRunning,
}

impl SharedLog {
    /// Takes part in the workspace in `dir`: as a client if someone owns it, as its owner if not.
    pub fn open(dir: &Path, options: Options, stay: Lifetime) -> Result<SharedLog, Error> {
        options.disk.create_dir_all(dir).map_err(|source| Error::Io {
            action: "make the workspace".into(),
            path: dir.to_owned(),
            source,
        })?;
        // One workspace has one name, however the processes spell it.
        let dir = dir.canonicalize().map_err(|source| Error::Io {
            action: "find the workspace".into(),
            path: dir.to_owned(),
            source,
        })?;
        let role = seek(&dir, &options, Instant::now() + PATIENCE)?;
        let texts = store::texts_dir(&dir, options.disk.clone());
        let (role, followers) = (Mutex::new(role), Mutex::new(Vec::new()));
        let listening = (Mutex::new(stay == Lifetime::OneShot), Condvar::new());
        let shared = Shared { dir, options, texts, role, followers, listening };
        let workspace = SharedLog { shared: Arc::new(shared) };
        if stay == Lifetime::LongRunning {
            watch::start(&workspace.shared);
        }
        Ok(workspace)
    }

    /// The directory it is in.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Whether this process owns it now.
    pub fn is_owner(&self) -> bool {
        matches!(*self.shared.role(), Role::Owner(_))
    }

    /// Who owns it now.
    pub fn owner(&self) -> Result<OwnerInfo, Error> {
        loop {
            if let Role::Owner(owner) = self.shared.role().clone() {
                return Ok(owner.info());
            }
            let take = |answer, _| if let Answer::Owner(info) = answer { Some(info) } else { None };
            if let Some(info) = self.shared.ask(&Ask::Owner, None, take)? {
                return Ok(info);
            }
        }
    }

    /// Appends a batch. When this returns, what was acknowledged is on the disk.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        self.run(
            |store| store.append(batch.clone()),
            || Ask::Append(Box::new(batch.clone())),
            |answer, _| if let Answer::Ack(ack) = answer { Some(ack) } else { None },
        )
    }

    /// Where a session stands; none when it was never started.
    pub fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        self.run(
            |store| store.head(id),
            || Ask::Head(id),
            |answer, _| if let Answer::Head(head) = answer { Some(head) } else { None },
        )
    }

    /// All events of a session, in order; empty when it was never started.
    pub fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        if let Some(events) = self.here(|store| store.events(id, detail)) {
            return events;
        }
        self.records(id)?.iter().map(|record| self.decode(record, detail)).collect()
    }

    /// One event of a session; none when it is not there.
    pub fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        self.run(
            |store| store.event(id, seq, detail),
            || Ask::Record(id, seq),
            |answer, bytes| match answer {
                Answer::Records if bytes.is_empty() => Some(None),
                Answer::Records => self.decode(&bytes, detail).ok().map(Some),
                _ => None,
            },
        )
    }

    /// The next `limit` sessions after that place in that order, at most 100,000 at once.
    pub fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        self.run(
            |store| store.page(status, order, after, limit),
            || Ask::Page { status, order, after, limit },
            |answer, bytes| if let Answer::Page = answer { Row::unpack(&bytes) } else { None },
        )
    }

    /// How many sessions and events there are.
    pub fn totals(&self) -> Result<Totals, Error> {
        self.run(
            Store::totals,
            || Ask::Totals,
            |answer, _| if let Answer::Totals(totals) = answer { Some(totals) } else { None },
        )
    }

    /// The iterations that came from this one, in any session.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        self.run(
            |store| store.children(id),
            || Ask::Children(id),
            |answer, _| if let Answer::Children(children) = answer { Some(children) } else { None },
        )
    }

    /// The next `limit` session ids after that one, ordered by day and number.
    pub fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.run(
            |store| store.ids(after, limit),
            || Ask::Ids { after, limit },
            |answer, _| if let Answer::Ids(ids) = answer { Some(ids) } else { None },
        )
    }

    /// A session's events checked in both copies.
    pub fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        if let Some(trail) = self.here(|store| store.trail(id)) {
            return trail;
        }
        let faults = self.run(
            |store| Ok(store.trail(id)?.faults),
            || Ask::Trail(id),
            |answer, _| if let Answer::Trail(faults) = answer { Some(faults) } else { None },
        )?;
        Ok(Trail { events: self.events(id, Detail::Full)?, faults })
    }

    /// The exact bytes of every record of a session, in order, for an export.
    pub fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        loop {
            if let Some(all) = self.here(|store| store.records(id)) {
                return all;
            }
            let from = records.last().and_then(|record| store::place(record)).map_or(0, |seq| seq.saturating_add(1));
            let more: Vec<Vec<u8>> = self.run(
                |store| store.records(id),
                || Ask::Records(id, from),
                |answer, bytes| match answer {
                    Answer::Records => Some(store::split(&bytes).into_iter().map(<[u8]>::to_vec).collect()),
                    _ => None,
                },
            )?;
            if more.is_empty() {
                return Ok(records);
            }
            // When the role changed meanwhile, all of them have come.
            records.retain(|record| store::place(record) < more.first().and_then(|first| store::place(first)));
            records.extend(more);
        }
    }

    /// A long text; none when it is missing or damaged in both copies.
    pub fn text(&self, hash: Hash) -> Option<String> {
        // The file is there for everyone; only the owner can put back one that is not.
        let file = || self.shared.texts.get(hash.0).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        file().or_else(|| {
            let found = self.run(
                |store| Ok(store.text(hash).is_some()),
                || Ask::Text(hash),
                |answer, _| if let Answer::Text(found) = answer { Some(found) } else { None },
            );
            if found.unwrap_or(false) { file() } else { None }
        })
    }

    /// Puts a long text back, for an import. Durable when it returns.
    pub fn put_text(&self, text: &str) -> Result<Hash, Error> {
        let stored = self.shared.texts.put(text.as_bytes()).map_err(|source| Error::Io {
            action: "keep a long text".into(),
            path: self.shared.texts.root().to_owned(),
            source,
        })?;
        Ok(Hash(stored.hash))
    }

    /// Appends records of one session as they were exported; gives how many were new. See [`Store::import`].
    pub fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        self.run(
            |store| store.import(records),
            || Ask::Import(records.concat()),
            |answer, _| if let Answer::Imported(new) = answer { Some(new) } else { None },
        )
    }

    /// Checks every byte of both copies.
    pub fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        self.run_long(
            |store| store.verify(progress.clone()),
            || Ask::Verify,
            progress.as_ref(),
            |answer, _| if let Answer::Verified(found) = answer { Some(found) } else { None },
        )
    }

    /// Rebuilds what [`verify`](SharedLog::verify) finds wrong. None when nothing was wrong.
    pub fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        self.run_long(
            |store| store.repair(progress.clone()),
            || Ask::Repair,
            progress.as_ref(),
            |answer, _| if let Answer::Repaired(recovery) = answer { Some(recovery) } else { None },
        )
    }

    /// Recoveries whose report nobody has read yet, oldest first.
    pub fn unread_recoveries(&self) -> Result<Vec<Recovery>, Error> {
        let unread = store::recoveries(&self.shared.dir).into_iter().filter(|(_, read)| !read);
        Ok(unread.map(|(recovery, _)| recovery).collect())
    }

    /// Every recovery this workspace has been through, oldest first.
    pub fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(store::recoveries(&self.shared.dir).into_iter().map(|(recovery, _)| recovery).collect())
    }

    /// Marks all recoveries as read.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        store::mark_recoveries_read(&self.shared.dir, &self.shared.options.disk)
    }

    /// What happens from now on, whoever does it. Only a workspace opened for [`Lifetime::LongRunning`] hears anything.
    pub fn follow(&self) -> Receiver<Change> {
        let (sender, receiver) = mpsc::channel();
        let (listening, heard) = &self.shared.listening;
        let deaf = listening.lock().unwrap_or_else(PoisonError::into_inner);
        drop(heard.wait_timeout_while(deaf, LISTENING, |listening| !*listening));
        self.shared.followers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    /// Ends cleanly: an owner finishes what it accepted, and another process can take over.
    pub fn close(self) -> Result<(), Error> {
        self.shared.close()
    }

    fn run<T>(
        &self,
        here: impl Fn(&Store) -> Result<T, Error>,
        ask: impl Fn() -> Ask,
        take: impl Fn(Answer, Vec<u8>) -> Option<T>,
    ) -> Result<T, Error> {
        self.run_long(here, ask, None, take)
    }

    /// Carries a call out here, or has the owner do it; looks for the next owner when this one goes.
    fn run_long<T>(
        &self,
        here: impl Fn(&Store) -> Result<T, Error>,
        ask: impl Fn() -> Ask,
        progress: Option<&Progress>,
        take: impl Fn(Answer, Vec<u8>) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            if let Some(done) = self.here(&here) {
                return done;
            }
            if let Some(answer) = self.shared.ask(&ask(), progress, &take)? {
                return Ok(answer);
            }
        }
    }

    /// Uses the store if it is open here.
    fn here<T>(&self, work: impl FnOnce(&Store) -> T) -> Option<T> {
        match self.shared.role().clone() {
            Role::Owner(owner) => owner.with_store(work),
            _ => None,
        }
    }

    fn decode(&self, record: &[u8], detail: Detail) -> Result<Event, Error> {
        let texts = |hash: Hash| self.text(hash);
        store::decode(record, detail, &texts).ok_or(Error::Misuse("the owner sent a record that is none".into()))
    }
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
        self.role.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) -> Result<(), Error> {
        let role = std::mem::replace(&mut *self.role(), Role::Closed);
        match role {
            Role::Owner(owner) => owner.close(),
            Role::Client(_) | Role::Closed => Ok(()),
        }
    }

    /// Asks the owner, and the next one when it goes; none when this process has become the owner itself.
    fn ask<T>(
        &self,
        ask: &Ask,
        progress: Option<&Progress>,
        take: impl Fn(Answer, Vec<u8>) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            let client = match self.role().clone() {
                Role::Client(client) => client,
                Role::Owner(_) => return Ok(None),
                Role::Closed => return Err(Error::Misuse("the workspace was closed".into())),
            };
            match client.call(ask, progress) {
                Ok((Answer::Failed(error), _)) => return Err(error.into()),
                Ok((answer, bytes)) => {
                    let taken = take(answer, bytes).ok_or(Error::Misuse("the owner answered something else".into()));
                    return taken.map(Some);
                }
                Err(Lost::TooLarge) => return Err(Error::Misuse("a request of more than 32 MiB".into())),
                Err(Lost::Gone) => self.seek_again(&client, until)?,
            }
        }
    }

    /// Finds the next owner after `lost`, or becomes it. One thread looks; the others wait for it.
    fn seek_again(&self, lost: &Arc<Client>, until: Instant) -> Result<(), Error> {
        let mut role = self.role();
        match &*role {
            Role::Client(current) if Arc::ptr_eq(current, lost) => {
                *role = seek(&self.dir, &self.options, until)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// News are coming in. When they have before, something may have been missed between; that is said only now, so that
    /// whoever looks for what it was misses nothing after.
    fn hears(&self, again: bool) {
        if again {
            self.tell(&Change::Lagged);
        }
        *self.listening.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.listening.1.notify_all();
    }

    fn tell(&self, news: &Change) {
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.send(news.clone()).is_ok());
    }
}

/// Connects to the owner, or becomes it.
fn seek(dir: &Path, options: &Options, until: Instant) -> Result<Role, Error> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(client) = Client::connect(dir)? {
            return Ok(Role::Client(Arc::new(client)));
        }
        if let Some(lock) = Lock::take(dir, &options.disk)? {
            return Ok(Role::Owner(Owner::start(dir, options, lock)?));
        }
        if Instant::now() >= until {
            return Err(Error::InUse(dir.to_owned()));
        }
        // Someone has the lock and does not listen yet, or has stopped listening and not let go yet: a matter of
        // milliseconds, and nobody to be woken by.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
