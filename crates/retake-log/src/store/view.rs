//! The view: combines sled with commits that are acknowledged but not in sled yet.
//!
//! [`read`](View::read) reads from sled, the other methods from both. Acknowledged commits are [pushed](View::push) and
//! later [applied](View::apply_some) in order.
//!
//! Lock order: the log's state, `maintenance`, `ahead`, `database`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::model::{Hash, Head, SessionId};

use super::Totals;
use super::database::{Database, DatabaseError};
use super::journal::JournalPosition;
use super::keys;
use super::projection::{CommitChange, KeyHit};
use super::recent::RecentSessions;
use super::unapplied::Unapplied;

/// The maximum number of events per transaction. sled blocks readers while a transaction runs.
const MAX_APPLIED: usize = 256;
/// The number of events that justify a transaction: sled writes, and wakes all its threads, twice for each, however
/// small.
const WORTH_APPLYING: usize = 128;
/// How long fewer events wait for more, unless a reader waits for them.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// The maximum number of events by which the database may lag before appends wait for it.
const MAX_LAG: usize = 8192;

/// The database, with the changes it does not have yet.
pub(super) struct View {
    disk: Disk,
    path: PathBuf,
    /// Held while changes are applied, or while the database is checked, closed or rebuilt.
    maintenance: Mutex<()>,
    ahead: Mutex<Ahead>,
    /// Signalled when there is something to apply.
    work: Condvar,
    /// Signalled when something was applied.
    applied: Condvar,
    /// `None` only while it is being replaced, or after that failed.
    database: RwLock<Option<Database>>,
    /// The number of replaced databases, so that an error seen twice is handled once.
    generation: AtomicU64,
}

/// The changes ahead of the database, and its progress.
pub(super) struct Ahead {
    pub(super) unapplied: Unapplied,
    /// Commits that the database lacks, in order, with their tickets.
    pub(super) pending: VecDeque<(u64, Arc<CommitChange>)>,
    pending_events: usize,
    applied_ticket: u64,
    acknowledged_ticket: u64,
    /// The last ticket that a reader waits for.
    wanted: u64,
    /// The newest summaries; `None` until a page was requested.
    pub(super) recent: Option<RecentSessions>,
    pub(super) progress: AcknowledgedProgress,
    /// The number of events applied since sled was opened.
    since_open: usize,
    /// When the first change that no checkpoint covers was acknowledged.
    unsynced_since: Option<Instant>,
    is_stopping: bool,
    /// Why there is no database: replacing it failed, for example on a full disk. The next request tries again.
    broken: Option<String>,
    /// The number of times commits were applied to the database.
    epoch: u64,
}

/// The progress of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcknowledgedProgress {
    pub(super) totals: Totals,
    /// The last acknowledged frame.
    pub(super) frame: u64,
    /// The journal position after it.
    pub(super) end: JournalPosition,
    /// The day and number of the newest session.
    pub(super) newest: (u32, u32),
}

/// What the database contained of a batch at this epoch.
pub(super) struct Snapshot {
    epoch: u64,
    key: Option<KeyHit>,
    head: Option<Head>,
}

/// The next task of the applier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Apply,
    Checkpoint,
    Stop,
}

/// The database, locked for reading.
pub(super) struct Reader<'a>(RwLockReadGuard<'a, Option<Database>>);

impl std::ops::Deref for Reader<'_> {
    type Target = Database;

    #[expect(clippy::expect_used, reason = "View::read checked it, and the lock is held since")]
    fn deref(&self) -> &Database {
        self.0.as_ref().expect("checked when the lock was taken")
    }
}

impl View {
    pub(super) fn new(
        disk: Disk,
        path: PathBuf,
        database: Database,
        progress: AcknowledgedProgress,
        since_open: usize,
    ) -> View {
        let ahead = Ahead {
            unapplied: Unapplied::default(),
            pending: VecDeque::new(),
            pending_events: 0,
            applied_ticket: 0,
            acknowledged_ticket: 0,
            wanted: 0,
            recent: None,
            progress,
            since_open,
            unsynced_since: (since_open > 0).then(Instant::now),
            is_stopping: false,
            broken: None,
            epoch: 0,
        };
        View {
            disk,
            path,
            maintenance: Mutex::new(()),
            ahead: Mutex::new(ahead),
            work: Condvar::new(),
            applied: Condvar::new(),
            database: RwLock::new(Some(database)),
            generation: AtomicU64::new(0),
        }
    }

    /// Locks the database for reading; an error if replacing it failed and left none.
    pub(super) fn read(&self) -> Result<Reader<'_>, DatabaseError> {
        let guard = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            return Err(DatabaseError::Closed);
        }
        Ok(Reader(guard))
    }

    /// Locks the changes ahead of the database.
    pub(super) fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prevents the database from being changed, checked, closed or replaced meanwhile.
    pub(super) fn maintain(&self) -> MutexGuard<'_, ()> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the state of a session after everything acknowledged.
    pub(super) fn head(&self, id: SessionId) -> Result<Option<Head>, DatabaseError> {
        if let Some((_, head)) = self.ahead().unapplied.heads.get(&id) {
            return Ok(Some(head.clone()));
        }
        self.read()?.head(id)
    }

    /// Looks up what the database contains of a batch, without any lock: sled blocks readers while the applier writes,
    /// and nothing else should wait with them.
    pub(super) fn look_up(&self, key: Option<[u8; 16]>, session: Option<SessionId>) -> Result<Snapshot, DatabaseError> {
        let epoch = self.ahead().epoch;
        let database = self.read()?;
        let key = key.map_or(Ok(None), |key| database.key(key))?;
        let head = session.map_or(Ok(None), |id| database.head(id))?;
        Ok(Snapshot { epoch, key, head })
    }

    /// Returns whether nothing was applied to the database since a snapshot.
    pub(super) fn is_current(&self, snapshot: &Snapshot) -> bool {
        self.ahead().epoch == snapshot.epoch
    }

    /// Returns the use of an acknowledged key.
    pub(super) fn key(&self, key: [u8; 16], snapshot: &Snapshot) -> Result<Option<KeyHit>, DatabaseError> {
        {
            let ahead = self.ahead();
            match ahead.unapplied.keys.get(&key) {
                Some((_, hit)) => return Ok(Some(*hit)),
                None if ahead.epoch == snapshot.epoch => return Ok(snapshot.key),
                None => {}
            }
        }
        self.read()?.key(key)
    }

    /// Returns the state of a session after everything acknowledged, from a snapshot if that is current.
    pub(super) fn head_since(&self, id: SessionId, snapshot: Snapshot) -> Result<Option<Head>, DatabaseError> {
        {
            let ahead = self.ahead();
            match ahead.unapplied.heads.get(&id) {
                Some((_, head)) => return Ok(Some(head.clone())),
                None if ahead.epoch == snapshot.epoch => return Ok(snapshot.head),
                None => {}
            }
        }
        self.read()?.head(id)
    }

    /// Returns the highest number in use on a day.
    pub(super) fn last_of_day(&self, day: u32) -> Result<u32, DatabaseError> {
        if let Some((_, last)) = self.ahead().unapplied.days.get(&day) {
            return Ok(*last);
        }
        self.read()?.last_of_day(day)
    }

    /// Returns whether the journal contains a long text.
    pub(super) fn has_text(&self, hash: Hash) -> Result<bool, DatabaseError> {
        if self.ahead().unapplied.texts.contains_key(&hash) {
            return Ok(true);
        }
        Ok(self.read()?.text(hash)?.is_some())
    }

    /// Adds acknowledged commits.
    pub(super) fn push(
        &self,
        changes: impl IntoIterator<Item = (u64, CommitChange)>,
        frame: u64,
        end: JournalPosition,
    ) {
        let mut ahead = self.ahead();
        let before = ahead.pending_events;
        for (ticket, mut change) in changes {
            ahead.progress.totals.advance(&change.projection);
            change.totals = ahead.progress.totals;
            if let Some(recent) = &mut ahead.recent {
                recent.update(change.projection.before.as_ref(), change.head());
            }
            if change.is_new_session() {
                ahead.progress.newest = ahead.progress.newest.max(keys::numbers(change.session()));
            }
            ahead.unapplied.add(ticket, &change);
            ahead.acknowledged_ticket = ticket;
            ahead.pending_events += change.records.len();
            ahead.pending.push_back((ticket, Arc::new(change)));
        }
        (ahead.progress.frame, ahead.progress.end) = (frame, end);
        ahead.unsynced_since.get_or_insert_with(Instant::now);
        // The applier waits for the first event, and then for enough of them.
        if before == 0 || (before < WORTH_APPLYING && ahead.pending_events >= WORTH_APPLYING) {
            self.work.notify_one();
        }
    }

    /// Waits until every acknowledged event of this session (or of all sessions) is in the database.
    pub(super) fn wait_until_applied(&self, session: Option<SessionId>) {
        let mut ahead = self.ahead();
        let until = match session {
            Some(id) => ahead.unapplied.heads.get(&id).map_or(0, |(ticket, _)| *ticket),
            None => ahead.acknowledged_ticket,
        };
        if ahead.applied_ticket < until {
            ahead.wanted = ahead.wanted.max(until);
            self.work.notify_one();
        }
        let is_waiting = |ahead: &mut Ahead| ahead.applied_ticket < until && ahead.broken.is_none();
        drop(self.applied.wait_while(ahead, is_waiting).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the lag of the database allows another commit.
    pub(super) fn wait_for_room(&self) -> Result<(), DatabaseError> {
        let is_full = |ahead: &mut Ahead| ahead.broken.is_none() && ahead.pending_events >= MAX_LAG;
        let ahead = self.applied.wait_while(self.ahead(), is_full).unwrap_or_else(PoisonError::into_inner);
        match &ahead.broken {
            Some(why) => Err(DatabaseError::Inconsistent(why.clone())),
            None => Ok(()),
        }
    }

    /// Returns whether the database must be reopened before anything else.
    pub(super) fn is_broken(&self) -> bool {
        self.ahead().broken.is_some()
    }

    /// Marks the database as needing to be reopened before anything else.
    pub(super) fn set_broken(&self, why: String) {
        self.ahead().broken = Some(why);
        self.applied.notify_all();
    }

    /// Waits for something to do. Under any load, a checkpoint is due this long after the first change that none
    /// covers.
    pub(super) fn wait_for_work(&self, checkpoint_after: Duration) -> Work {
        let mut ahead = self.ahead();
        let mut gathering_since: Option<Instant> = None;
        loop {
            let has_pending = !ahead.pending.is_empty() && ahead.broken.is_none();
            if ahead.is_stopping && !has_pending {
                return Work::Stop;
            }
            let due = ahead.unsynced_since.filter(|_| ahead.broken.is_none()).map(|since| since + checkpoint_after);
            let now = Instant::now();
            if due.is_some_and(|due| due <= now) {
                return Work::Checkpoint;
            }
            let gathered = has_pending.then(|| *gathering_since.get_or_insert(now) + BATCH_DELAY);
            let is_worth_it = ahead.pending_events >= WORTH_APPLYING || ahead.wanted > ahead.applied_ticket;
            if has_pending && (is_worth_it || ahead.is_stopping || gathered.is_some_and(|until| until <= now)) {
                return Work::Apply;
            }
            ahead = match [due, gathered].into_iter().flatten().min() {
                Some(until) => {
                    let waited = self.work.wait_timeout(ahead, until.saturating_duration_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work.wait(ahead).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Applies some pending commits, whole frames only: the position stored with them is after a complete frame.
    pub(super) fn apply_some(&self) -> Result<(), DatabaseError> {
        let mut taken = Vec::new();
        let mut last = 0;
        {
            let ahead = self.ahead();
            let (mut events, mut end) = (0, None);
            // They stay pending until they are applied: an import looks for records there first.
            for (ticket, change) in &ahead.pending {
                if events >= MAX_APPLIED && end != Some(change.end) {
                    break;
                }
                end = Some(change.end);
                events += change.records.len();
                last = *ticket;
                taken.push(Arc::clone(change));
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.read()?.apply(taken.iter().map(Arc::as_ref))?;
        let events = taken.iter().map(|change| change.records.len()).sum::<usize>();
        let mut ahead = self.ahead();
        ahead.pending_events -= events;
        ahead.since_open += events;
        ahead.applied_ticket = last;
        ahead.pending.drain(..taken.len());
        taken.iter().for_each(|change| ahead.unapplied.forget_change(last, change));
        ahead.epoch += 1;
        drop(ahead);
        self.applied.notify_all();
        Ok(())
    }

    /// Applies everything that is currently pending.
    pub(super) fn apply_all(&self) -> Result<(), DatabaseError> {
        let until = self.ahead().acknowledged_ticket;
        while self.ahead().applied_ticket < until {
            self.apply_some()?;
        }
        Ok(())
    }

    /// Returns the number of events applied since sled was opened.
    pub(super) fn since_open(&self) -> usize {
        self.ahead().since_open
    }

    /// Returns whether something was acknowledged since the last checkpoint.
    pub(super) fn is_unsynced(&self) -> bool {
        self.ahead().unsynced_since.is_some()
    }

    /// Syncs the database, and returns the progress of the log before that.
    pub(super) fn sync(&self) -> Result<AcknowledgedProgress, DatabaseError> {
        let progress = {
            let mut ahead = self.ahead();
            // What is still pending has to wait for the next checkpoint.
            ahead.unsynced_since = (!ahead.pending.is_empty()).then(Instant::now);
            ahead.progress
        };
        let synced = self.read()?.sync();
        if synced.is_err() {
            self.ahead().unsynced_since.get_or_insert_with(Instant::now);
        }
        synced.map(|()| progress)
    }

    /// Closes and reopens sled, which makes it write a snapshot, and compares the result with what was closed. Returns
    /// the position that the snapshot covers.
    pub(super) fn reopen(&self) -> Result<JournalPosition, DatabaseError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let old = database.as_ref().ok_or(DatabaseError::Closed)?;
        old.sync()?;
        let position = old.position()?.ok_or_else(|| DatabaseError::Inconsistent("it has no position".to_owned()))?;
        let totals = old.totals()?;
        *database = None;
        let new = Database::open(&self.disk, &self.path)?;
        new.check_reopened(position, totals)?;
        *database = Some(new);
        drop(database);
        self.ahead().since_open = 0;
        Ok(position)
    }

    /// Closes the database permanently.
    pub(super) fn close(&self) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Installs a database that contains everything acknowledged, since it was caught up with the journal.
    pub(super) fn replace(&self, database: Database, progress: AcknowledgedProgress, since_open: usize) {
        *self.database.write().unwrap_or_else(PoisonError::into_inner) = Some(database);
        let mut ahead = self.ahead();
        ahead.pending.clear();
        ahead.pending_events = 0;
        ahead.applied_ticket = ahead.acknowledged_ticket;
        ahead.unapplied = Unapplied::default();
        ahead.recent = None;
        ahead.progress = progress;
        ahead.since_open = since_open;
        ahead.broken = None;
        ahead.epoch += 1;
        self.generation.fetch_add(1, Ordering::AcqRel);
        drop(ahead);
        self.applied.notify_all();
    }

    /// Makes the applier finish pending work and exit.
    pub(super) fn stop(&self) {
        self.ahead().is_stopping = true;
        self.work.notify_all();
    }
}
