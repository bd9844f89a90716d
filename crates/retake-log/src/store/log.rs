//! Appending and reading: one writer at a time with group commit, and the database following behind.
//!
//! An append is decided under the state's lock: whether the session takes it, what id, index and place it gets. It joins
//! the queue. Whoever finds nobody leading writes the whole queue as one frame, syncs it, and acknowledges everyone in
//! it; the others wait. So one writer pays no hand-over, and many share one fdatasync. Acknowledged commits go to the
//! applier, a thread that applied_epoch them into sled in order; until then questions find them in the overlay.
//!
//! Locks, always taken in this order: `maintenance`, `state`, `database`, `journal`.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::disk::{ContentDir, Disk};
use crate::model::{Draft, Event, EventBody, Hash, Head, Refusal, SessionId};

use super::applier::WORTH_APPLYING;
use super::database::{Change, Database, KeyHit, DatabaseError};
use super::journal::Journal;
use super::keys;
use super::checkpoint::Checkpoint;
use super::unapplied::Unapplied;
use super::queued::{Queued, CommitOutcome, Waiter};
use super::record;
use super::recent::RecentSessions;
use super::{Ack, Batch, Clock, Error, Target, Totals};

/// How many events the database may be behind before appends wait for it.
const MOST_BEHIND: usize = 8192;
/// How often a question is asked again after the database was mended for it.
pub(super) const TRIES: usize = 3;

/// An open log.
pub(super) struct Log {
    pub(super) dir: PathBuf,
    pub(super) disk: Disk,
    pub(super) workspace: [u8; 16],
    pub(super) texts: ContentDir,
    pub(super) clock: Clock,
    pub(super) segment_bytes: u64,
    /// Held while the database is applied to, checked, closed or rebuilt.
    pub(super) maintenance: Mutex<()>,
    pub(super) state: Mutex<State>,
    /// Signalled when a group was acknowledged or refused, for those who wait for another's commit.
    settled: Condvar,
    /// Signalled when the applier has something to do.
    pub(super) work: Condvar,
    /// Signalled when the applier has done something.
    pub(super) applied: Condvar,
    pub(super) journal: Mutex<Journal>,
    /// None only while it is being replaced, with the lock held for writing.
    pub(super) database: RwLock<Option<Database>>,
    /// Counts rebuilt databases, so that trouble seen twice is mended once.
    pub(super) generation: AtomicU64,
    /// Counts how often commits have moved from the overlay to the database, so that what was looked up without the
    /// state's lock is known to hold still.
    pub(super) applied_epoch: AtomicU64,
}

/// Someone who is told of every acknowledged event, until it says no.
pub(super) type Follower = Box<dyn FnMut(&Arc<Event>) -> bool + Send>;

pub(super) struct State {
    pub(super) queue: Vec<Queued>,
    leading: bool,
    /// No append begins while this is set: the database is being rebuilt.
    pub(super) rebuilding: bool,
    pub(super) next_ticket: u64,
    /// The last ticket that was acknowledged or refused.
    settled: u64,
    /// Tickets that were refused by the disk, with how many of them have yet to hear of it.
    refused: Vec<(std::ops::RangeInclusive<u64>, u64, Arc<io::Error>)>,
    pub(super) queued: Unapplied,
    pub(super) acked: Unapplied,
    /// Commits that the database lacks, in order, with their tickets.
    pub(super) pending: VecDeque<(u64, Arc<Change>)>,
    pub(super) pending_events: usize,
    pub(super) applied: u64,
    pub(super) acked_ticket: u64,
    /// The last ticket that someone waits for in the database.
    pub(super) wanted: u64,
    /// The newest summaries; none until a page was asked for.
    pub(super) window: Option<RecentSessions>,
    pub(super) totals: Totals,
    pub(super) mark: Checkpoint,
    /// Events applied since sled was opened.
    pub(super) since_open: usize,
    /// Whether something was applied since the last checkpoint.
    pub(super) dirty: bool,
    pub(super) followers: Vec<Follower>,
    pub(super) stopping: bool,
    /// Why there is no database now: rebuilding it failed, as on a full disk. The next request tries again.
    pub(super) broken: Option<String>,
}

/// What opening found.
pub(super) struct Parts {
    pub(super) dir: PathBuf,
    pub(super) disk: Disk,
    pub(super) workspace: [u8; 16],
    pub(super) texts: ContentDir,
    pub(super) clock: Clock,
    pub(super) segment_bytes: u64,
    pub(super) journal: Journal,
    pub(super) database: Database,
    pub(super) totals: Totals,
    pub(super) mark: Checkpoint,
    pub(super) since_open: usize,
}

impl Log {
    pub(super) fn new(parts: Parts) -> Log {
        let Parts { dir, disk, workspace, texts, clock, segment_bytes, journal, database, totals, mark, since_open } =
            parts;
        let state = State {
            queue: Vec::new(),
            leading: false,
            rebuilding: false,
            next_ticket: 1,
            settled: 0,
            refused: Vec::new(),
            queued: Unapplied::default(),
            acked: Unapplied::default(),
            pending: VecDeque::new(),
            pending_events: 0,
            applied: 0,
            acked_ticket: 0,
            wanted: 0,
            window: None,
            totals,
            mark,
            since_open,
            dirty: since_open > 0,
            followers: Vec::new(),
            stopping: false,
            broken: None,
        };
        Log {
            dir,
            disk,
            workspace,
            texts,
            clock,
            segment_bytes,
            maintenance: Mutex::new(()),
            state: Mutex::new(state),
            settled: Condvar::new(),
            work: Condvar::new(),
            applied: Condvar::new(),
            journal: Mutex::new(journal),
            database: RwLock::new(Some(database)),
            generation: AtomicU64::new(0),
            applied_epoch: AtomicU64::new(0),
        }
    }

    /// Appends a batch; on the disk when it returns.
    pub(super) fn append(&self, batch: Batch) -> Result<Ack, Error> {
        if batch.drafts.is_empty() {
            return Err(Error::Misuse("a batch must have a draft".into()));
        }
        let texts = self.keep_texts(&batch)?;
        for _ in 0..TRIES {
            let generation = self.generation.load(Ordering::Acquire);
            match self.try_append(&batch, &texts) {
                Ok(ack) => return Ok(ack),
                Err(Failure::Error(error)) => return Err(error),
                Err(Failure::DatabaseError(trouble)) => self.rebuild_online(generation, &trouble)?,
            }
        }
        Err(Error::Database("it fails again and again, although it was rebuilt".to_owned()))
    }

    /// What the acknowledged events say of a session.
    pub(super) fn head(&self, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        if let Some((_, head)) = self.lock().acked.heads.get(&id) {
            return Ok(Some(head.clone()));
        }
        self.read()?.head(id)
    }

    /// Waits until every acknowledged event of this session (of all, when none is named) is in the database.
    pub(super) fn settle(&self, session: Option<SessionId>) {
        let mut state = self.lock();
        let until = match session {
            Some(id) => state.acked.heads.get(&id).map_or(0, |(ticket, _)| *ticket),
            None => state.acked_ticket,
        };
        if state.applied < until {
            state.wanted = state.wanted.max(until);
            self.work.notify_one();
        }
        let waiting = |state: &mut State| state.applied < until && state.broken.is_none();
        drop(self.applied.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner));
    }

    /// The database, for reading. DatabaseError when a rebuild failed and left none.
    pub(super) fn read(&self) -> Result<Reading<'_>, DatabaseError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(DatabaseError::Absent);
        }
        Ok(Reading(guard))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A long text: from its file, else from the journal, putting the file back.
    pub(super) fn text(&self, hash: Hash) -> Option<String> {
        if let Ok(bytes) = self.texts.get(hash.0) {
            return String::from_utf8(bytes).ok();
        }
        self.settle(None);
        let position = self.read().ok()?.text(hash).ok()??;
        let text = super::audit::text_in_journal(&self.dir, position, hash)?;
        if let Err(error) = self.texts.put(text.as_bytes()) {
            tracing::warn!(%hash, %error, "a long text is only in the journal, and its file cannot be written");
        }
        Some(text)
    }

    /// Writes the long texts of a batch to their files, and gives those that the journal may not hold yet.
    fn keep_texts(&self, batch: &Batch) -> Result<Vec<(Hash, String)>, Error> {
        let mut kept = Vec::new();
        for draft in batch.drafts.iter().filter(|draft| super::payload::may_be_long(draft)) {
            let body = provisional(draft);
            for text in super::payload::encode(&batch.actor, &batch.key, &body).texts {
                kept.push((self.keep_text(&text)?, text));
            }
        }
        Ok(kept)
    }

    pub(super) fn keep_text(&self, text: &str) -> Result<Hash, Error> {
        let stored = self.texts.put(text.as_bytes()).map_err(|source| Error::Io {
            action: "keep a long text".into(),
            path: self.texts.root().to_owned(),
            source,
        })?;
        Ok(Hash(stored.hash))
    }

    fn try_append(&self, batch: &Batch, texts: &[(Hash, String)]) -> Result<Ack, Failure> {
        let key = keys::idempotency_key(&batch.key);
        let mut stored = self.look_up(batch, key)?;
        let mut state = self.ready(self.lock())?;
        for _ in 0..TRIES {
            if stored.applied_epoch == self.applied_epoch.load(Ordering::Acquire) {
                break;
            }
            drop(state);
            stored = self.look_up(batch, key)?;
            state = self.ready(self.lock())?;
        }
        while let Some((ticket, _)) = state.queued.keys.get(&key) {
            // The same request is on its way: its fate decides.
            let ticket = *ticket;
            state = self.ready(self.await_ticket(state, ticket))?;
        }
        let known = match state.acked.keys.get(&key) {
            Some((_, hit)) => Some(*hit),
            None if self.applied_epoch.load(Ordering::Acquire) == stored.applied_epoch => stored.key,
            None => self.read()?.key(key)?,
        };
        if let Some(hit) = known {
            let head = self.newest_acked(&state, hit.session)?.ok_or(Refusal::NoSession(hit.session))?;
            return Ok(Ack { head, index: hit.index, repeated: true });
        }
        let (before, mut head) = self.target(&state, batch, stored)?;
        let mut queued = Queued::new(state.next_ticket, before, head.clone());
        for (hash, text) in texts {
            let ahead = state.queued.texts.contains_key(hash) || state.acked.texts.contains_key(hash);
            if !ahead && self.read()?.text(*hash)?.is_none() {
                queued.take_text(*hash, text);
            }
        }
        for draft in &batch.drafts {
            let body = head.place(draft.clone())?;
            let place = (head.id, head.next_seq, head.tip);
            let record = record::encode(place, batch.at, &batch.actor, &batch.key, body);
            head.advance(&record.event);
            queued.take(record.event, record.bytes);
        }
        queued.change.after = head.clone();
        let index = queued.change.keys.first().and_then(|(_, hit)| hit.index);
        self.enqueue(state, queued)?;
        Ok(Ack { head, index, repeated: false })
    }

    /// Queues a commit and waits until it is acknowledged or refused.
    pub(super) fn enqueue<'a>(&'a self, mut state: MutexGuard<'a, State>, queued: Queued) -> Result<(), Failure> {
        let (ticket, waiter) = (queued.ticket, Arc::clone(&queued.waiter));
        state.next_ticket += 1;
        state.queued.add(ticket, &queued.change);
        state.queue.push(queued);
        loop {
            // Whoever leads calls the next one when it is done, or finds the queue empty.
            if waiter.is_waiting() && !state.leading {
                self.lead(state);
            } else {
                drop(state);
            }
            match waiter.wait() {
                CommitOutcome::Acknowledged => return Ok(()),
                CommitOutcome::Refused => return Err(self.refusal(ticket)),
                CommitOutcome::Lead => state = self.lock(),
            }
        }
    }

    fn refusal(&self, ticket: u64) -> Failure {
        let error = self.lock().refusal(ticket);
        let source = error
            .map_or(io::Error::other("no reason was given"), |error| io::Error::new(error.kind(), error.to_string()));
        Failure::Error(Error::Io { action: "write the journal".into(), path: self.dir.join("journal"), source })
    }

    /// Waits until an append may begin.
    pub(super) fn ready<'a>(&'a self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, Failure> {
        let busy = |state: &mut State| state.broken.is_none() && (state.rebuilding || state.pending_events >= MOST_BEHIND);
        let state = self.applied.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner);
        match &state.broken {
            Some(why) => Err(Failure::DatabaseError(DatabaseError::Wrong(why.clone()))),
            None => Ok(state),
        }
    }

    /// What the database says of a batch. Looked up without the state's lock: sled keeps readers waiting while the
    /// applier writes, and nobody else should wait with them.
    fn look_up(&self, batch: &Batch, key: [u8; 16]) -> Result<Stored, DatabaseError> {
        let applied_epoch = self.applied_epoch.load(Ordering::Acquire);
        let database = self.read()?;
        let head = match batch.target {
            Target::Existing(id) => database.head(id)?,
            Target::New(_) => None,
        };
        Ok(Stored { applied_epoch, key: database.key(key)?, head })
    }

    /// The session that a batch goes to: as it stands, and as it will.
    fn target(&self, state: &State, batch: &Batch, stored: Stored) -> Result<(Option<Head>, Head), Failure> {
        match batch.target {
            Target::New(day) => {
                let number = keys::day_number(day);
                let ahead = [&state.queued, &state.acked].into_iter().find_map(|overlay| overlay.days.get(&number));
                let last = match ahead {
                    Some((_, last)) => *last,
                    None => self.read()?.last_of_day(number)?,
                };
                let id = last.checked_add(1).and_then(|next| keys::session_from(number, next));
                let id = id.ok_or(Failure::Error(Error::Misuse("that day cannot have another session".into())))?;
                if !matches!(batch.drafts.as_slice(), [Draft::Start { .. }, Draft::Record(_) | Draft::BringIn(_), ..]) {
                    return Err(Failure::Error(Error::Misuse("a session begins with its first iteration".into())));
                }
                Ok((None, Head::new(id)))
            }
            Target::Existing(id) => {
                let ahead = [&state.queued, &state.acked].into_iter().find_map(|overlay| overlay.heads.get(&id));
                let head = match ahead {
                    Some((_, head)) => Some(head.clone()),
                    None if self.applied_epoch.load(Ordering::Acquire) == stored.applied_epoch => stored.head,
                    None => self.read()?.head(id)?,
                };
                let head = head.ok_or(Refusal::NoSession(id))?;
                let actual = head.last_index.map_or(0, |last| last.saturating_add(1));
                match batch.expected_iterations {
                    Some(expected) if expected != actual => Err(Refusal::Count { id, expected, actual })?,
                    _ => Ok((Some(head.clone()), head)),
                }
            }
        }
    }

    pub(super) fn newest_acked(&self, state: &State, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        match state.acked.heads.get(&id) {
            Some((_, head)) => Ok(Some(head.clone())),
            None => self.read()?.head(id),
        }
    }

    /// Waits until another's ticket is settled.
    pub(super) fn await_ticket<'a>(&'a self, state: MutexGuard<'a, State>, ticket: u64) -> MutexGuard<'a, State> {
        let open = |state: &mut State| state.settled < ticket;
        self.settled.wait_while(state, open).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is queued as one frame, and acknowledges or refuses all of it.
    fn lead(&self, mut state: MutexGuard<'_, State>) {
        state.leading = true;
        let group = std::mem::take(&mut state.queue);
        drop(state);
        let mut waiters: Vec<Arc<Waiter>> = group.iter().map(|queued| Arc::clone(&queued.waiter)).collect();
        let mut body = Vec::with_capacity(group.iter().map(|queued| queued.bytes.len()).sum());
        group.iter().for_each(|queued| body.extend_from_slice(&queued.bytes));
        let entries = group.iter().map(|queued| queued.entries).sum();
        let written = self.journal.lock().unwrap_or_else(PoisonError::into_inner).commit(&body, entries, 0);
        let mut state = self.lock();
        let behind = state.pending_events;
        match written {
            Ok(written) => {
                let mut offset = 0;
                for mut queued in group {
                    queued.locate(written.body, offset, written.end);
                    offset += queued.bytes.len() as u64;
                    state.acknowledge(queued);
                }
                let last = state.settled;
                state.queued.forget(last);
                state.mark.frame = written.frame;
                state.mark.end = written.end;
                // The applier waits for the first event, and then for enough of them.
                if behind == 0 || (behind < WORTH_APPLYING && state.pending_events >= WORTH_APPLYING) {
                    self.work.notify_one();
                }
            }
            Err(error) => {
                waiters.extend(state.queue.iter().map(|queued| Arc::clone(&queued.waiter)));
                state.refuse(error);
                waiters.iter().for_each(|waiter| waiter.settle(CommitOutcome::Refused));
            }
        }
        state.leading = false;
        let next = state.queue.first().map(|queued| Arc::clone(&queued.waiter));
        drop(state);
        // First of all the disk is given work again.
        next.iter().for_each(|next| next.call_to_lead());
        waiters.iter().for_each(|waiter| waiter.wake());
        self.settled.notify_all();
    }

    /// Runs `work` while no append is under way and none can begin, then wakes whoever waits.
    pub(super) fn while_still<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.rebuilding = true;
        let busy = |state: &mut State| state.leading || !state.queue.is_empty();
        drop(self.settled.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner));
        let done = work();
        self.lock().rebuilding = false;
        self.applied.notify_all();
        done
    }
}

/// What the database said when commits had been moved into it that often.
struct Stored {
    applied_epoch: u64,
    key: Option<KeyHit>,
    head: Option<Head>,
}

/// The database, held for reading.
pub(super) struct Reading<'a>(RwLockReadGuard<'a, Option<Database>>);

impl std::ops::Deref for Reading<'_> {
    type Target = Database;

    #[expect(clippy::expect_used, reason = "Log::read checked it, and the lock is held since")]
    fn deref(&self) -> &Database {
        self.0.as_ref().expect("checked when the lock was taken")
    }
}

/// Why an append did not happen: for the caller, or for us to mend.
pub(super) enum Failure {
    Error(Error),
    DatabaseError(DatabaseError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Error(Error::Refused(refusal))
    }
}

impl From<DatabaseError> for Failure {
    fn from(trouble: DatabaseError) -> Failure {
        Failure::DatabaseError(trouble)
    }
}

impl State {
    fn acknowledge(&mut self, mut queued: Queued) {
        let change = &mut queued.change;
        let listed = |head: Option<&Head>| head.is_some_and(|head| head.span.is_some());
        let archived = |head: Option<&Head>| head.is_some_and(|head| head.span.is_some() && head.archived);
        let (before, after) = (change.before.as_ref(), Some(&change.after));
        self.totals.sessions = self.totals.sessions + u64::from(listed(after)) - u64::from(listed(before));
        self.totals.archived = self.totals.archived + u64::from(archived(after)) - u64::from(archived(before));
        self.totals.events += change.records.len() as u64;
        if let Some(window) = &mut self.window {
            window.update(before, &change.after);
        }
        change.totals = self.totals;
        if change.before.is_none() {
            self.mark.newest = self.mark.newest.max(keys::numbers(change.after.id));
        }
        self.acked.add(queued.ticket, &queued.change);
        self.settled = queued.ticket;
        self.acked_ticket = queued.ticket;
        self.pending_events += queued.change.records.len();
        self.pending.push_back((queued.ticket, Arc::new(queued.change)));
        queued.waiter.settle(CommitOutcome::Acknowledged);
        if !self.followers.is_empty() {
            for event in queued.events {
                let event = Arc::new(event);
                self.followers.retain_mut(|follower| follower(&event));
            }
        }
    }

    /// Refuses everything that is queued or was in the group: what came later built on it.
    fn refuse(&mut self, error: io::Error) {
        let (first, last) = (self.settled + 1, self.next_ticket - 1);
        self.queue.clear();
        self.queued = Unapplied::default();
        self.refused.push((first..=last, last + 1 - first, Arc::new(error)));
        self.settled = last;
    }

    fn refusal(&mut self, ticket: u64) -> Option<Arc<io::Error>> {
        let at = self.refused.iter().position(|(tickets, _, _)| tickets.contains(&ticket))?;
        let (_, waiting, error) = self.refused.get_mut(at)?;
        let error = Arc::clone(error);
        *waiting -= 1;
        if *waiting == 0 {
            self.refused.remove(at);
        }
        Some(error)
    }

    /// Everything acknowledged is in the database now: it was rebuilt from the journal.
    pub(super) fn caught_up(&mut self, totals: Totals) {
        self.pending.clear();
        self.pending_events = 0;
        self.applied = self.acked_ticket;
        self.acked = Unapplied::default();
        self.window = None;
        self.totals = totals;
        self.since_open = 0;
    }
}

/// The body that a draft will become, for the texts in it: its index and parent do not matter.
fn provisional(draft: &Draft) -> EventBody {
    match draft.clone() {
        Draft::Start { title, project } => EventBody::Started { title, project },
        Draft::Record(iteration) | Draft::BringIn(iteration) => EventBody::Recorded { index: 0, iteration },
        Draft::Annotate { index, change } => EventBody::Annotated { index, change },
        Draft::Title { title, project } => EventBody::Titled { title, project },
        Draft::Archive { reason } => EventBody::Archived { reason },
        Draft::Restore { reason } => EventBody::Restored { reason },
        Draft::Lose(loss) => EventBody::Lost(loss),
    }
}
