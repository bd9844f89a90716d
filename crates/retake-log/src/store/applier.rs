//! The applier: a thread that applied_epoch acknowledged commits into the database in order, and keeps the database quick to open.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::database::{Database, DatabaseError, guard};
use super::log::{Log, State};

/// How many events one transaction applies at the most. sled lets nobody read while a transaction runs.
const MOST_APPLIED: usize = 256;
/// How many events are worth a transaction: sled writes, and wakes all its threads, twice for each however small.
pub(super) const WORTH_APPLYING: usize = 128;
/// How long fewer than that wait for more, unless someone waits for them.
const GATHER: Duration = Duration::from_millis(50);
/// sled writes a snapshot only when it is opened, and reads all its log behind the snapshot when it is opened again. So
/// that opening stays quick after a kill, it is closed and opened when its log has grown by this many events.
const REOPEN_AFTER: usize = 24 * 1024;
/// The same when nobody is waiting.
const REOPEN_AFTER_IDLE: usize = 8 * 1024;
/// How long applied commits may wait for a checkpoint.
const CHECKPOINT_AFTER: Duration = Duration::from_secs(5);

impl Log {
    /// Moves acknowledged commits into the database until the log stops. Runs on its own thread.
    pub(super) fn apply_until_stopped(&self) {
        loop {
            let state = self.lock();
            let idle = |state: &mut State| (state.pending.is_empty() || state.broken.is_some()) && !state.stopping;
            let (state, timed_out) = if !state.dirty {
                (self.work.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner), false)
            } else {
                let waited = self.work.wait_timeout_while(state, CHECKPOINT_AFTER, idle);
                let (state, result) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, result.timed_out())
            };
            let nothing = state.pending.is_empty() || state.broken.is_some();
            let gathering = |state: &mut State| {
                state.pending_events < WORTH_APPLYING && state.wanted <= state.applied && !state.stopping
            };
            let state = if nothing {
                state
            } else {
                self.work.wait_timeout_while(state, GATHER, gathering).unwrap_or_else(PoisonError::into_inner).0
            };
            let (stopping, since_open) = (state.stopping, state.since_open);
            drop(state);
            let worked = if nothing && stopping {
                return;
            } else if timed_out {
                self.quietly(|| if since_open > REOPEN_AFTER_IDLE { self.reopen() } else { self.checkpoint() })
            } else {
                self.quietly(|| self.apply_some())
            };
            if let Err((generation, trouble)) = worked
                && let Err(error) = self.rebuild_online(generation, &trouble)
            {
                tracing::error!(%error, "the database could not be mended; the next request tries again");
            }
        }
    }

    /// Makes everything applied last in the database, and writes the mark.
    pub(super) fn checkpoint(&self) -> Result<(), DatabaseError> {
        let mark = {
            let mut state = self.lock();
            state.mark.count += 1;
            state.mark.events = state.totals.events;
            state.dirty = false;
            state.mark
        };
        self.read()?.sync()?;
        if let Err(error) = mark.write(&self.disk, &self.dir.join("journal")) {
            tracing::warn!(%error, "the mark cannot be written");
        }
        Ok(())
    }

    fn quietly(&self, work: impl FnOnce() -> Result<(), DatabaseError>) -> Result<(), (u64, DatabaseError)> {
        let _maintenance = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation.load(Ordering::Acquire);
        work().map_err(|trouble| (generation, trouble))
    }

    fn apply_some(&self) -> Result<(), DatabaseError> {
        let mut taken = Vec::new();
        let mut ticket = 0;
        {
            let state = self.lock();
            let mut events = 0;
            // They stay pending until they are applied: an import looks for records there first.
            let mut end = None;
            for (said, change) in &state.pending {
                // Never part of a frame: the position that is stored with them is behind all of it.
                if events >= MOST_APPLIED && end != Some(change.end) {
                    break;
                }
                end = Some(change.end);
                events += change.records.len();
                ticket = *said;
                taken.push(Arc::clone(change));
            }
        }
        if taken.is_empty() {
            return Ok(());
        }
        self.read()?.apply(taken.iter().map(Arc::as_ref))?;
        let events = taken.iter().map(|change| change.records.len()).sum::<usize>();
        let mut state = self.lock();
        state.pending_events -= events;
        state.since_open += events;
        state.dirty = true;
        state.applied = ticket;
        state.pending.drain(..taken.len());
        taken.iter().for_each(|change| state.acked.forget_change(ticket, change));
        self.applied_epoch.fetch_add(1, Ordering::AcqRel);
        let reopen = state.since_open > REOPEN_AFTER;
        drop(state);
        self.applied.notify_all();
        if reopen { self.reopen() } else { Ok(()) }
    }

    /// Closes and opens sled, which makes it write a snapshot, and notes from where its log is not covered by it.
    fn reopen(&self) -> Result<(), DatabaseError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let old = database.take();
        let position = match &old {
            Some(old) => {
                old.sync()?;
                old.position()?
            }
            None => None,
        };
        drop(old);
        *database = Some(Database::open(&self.dir.join("db"))?);
        drop(database);
        let mut state = self.lock();
        state.since_open = 0;
        if let Some(position) = position {
            state.mark.unchecked = position;
        }
        drop(state);
        self.checkpoint()
    }

    /// The checkpoint of a log that ends: nothing needs to be written when nothing was applied since the last one.
    pub(super) fn last_checkpoint(&self) -> Result<(), DatabaseError> {
        let dirty = self.lock().dirty;
        let checked = if dirty { self.checkpoint() } else { Ok(()) };
        let database = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        guard(|| {
            drop(database);
            Ok(())
        })?;
        checked
    }

    /// Tells the applier to finish what there is and end.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.work.notify_all();
    }
}
