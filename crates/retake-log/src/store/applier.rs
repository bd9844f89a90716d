//! The applier: a thread that applies acknowledged commits to the database, and keeps the database quick to open.

use std::sync::PoisonError;

use super::database::DatabaseError;
use super::journal::JournalPosition;
use super::log::LocalLog;
use super::view::Work;

/// The number of events after which sled is closed and reopened. sled writes a snapshot only when it is opened, and
/// then replays its log from the last snapshot, so this keeps opening fast after a kill.
const REOPEN_AFTER: usize = 6 * 1024;
/// The same at a checkpoint and on close, when a pause is more acceptable.
const REOPEN_AT_CHECKPOINT: usize = 2 * 1024;

impl LocalLog {
    /// Applies commits and writes checkpoints until the log stops. Runs on its own thread.
    pub(super) fn apply_until_stopped(&self) {
        loop {
            let work = self.view.wait_for_work(self.checkpoint_after);
            if work == Work::Stop {
                return;
            }
            let worked = {
                let _maintenance = self.view.maintain();
                let generation = self.view.generation();
                self.work(work).map_err(|error| (generation, error))
            };
            if let Err((generation, error)) = worked
                && let Err(error) = self.rebuild_online(generation, &error)
            {
                tracing::error!(%error, "the database could not be opened again; the next request tries to");
            }
        }
    }

    fn work(&self, work: Work) -> Result<(), DatabaseError> {
        if work == Work::Checkpoint {
            self.view.apply_all()?;
            let reopen = self.view.since_open() > REOPEN_AT_CHECKPOINT;
            return if reopen { self.reopen() } else { self.write_checkpoint(None) };
        }
        self.view.apply_some()?;
        if self.view.since_open() > REOPEN_AFTER { self.reopen() } else { Ok(()) }
    }

    /// Makes applied commits durable in the database, and writes the checkpoint.
    fn write_checkpoint(&self, snapshot: Option<JournalPosition>) -> Result<(), DatabaseError> {
        let progress = self.view.sync()?;
        let mut checkpoint = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        checkpoint.count += 1;
        checkpoint.frame = progress.frame;
        checkpoint.end = progress.end;
        checkpoint.events = progress.totals.events;
        checkpoint.newest = progress.newest;
        checkpoint.unchecked = snapshot.unwrap_or(checkpoint.unchecked);
        if let Err(error) = self.lock_journal().write_checkpoint(&checkpoint) {
            tracing::warn!(%error, "the checkpoint cannot be written");
        } else {
            self.wake_sealer();
        }
        self.forget_note_file();
        Ok(())
    }

    /// Closes and reopens sled, which makes it write a snapshot, and records the position from which its log is not
    /// covered by it.
    fn reopen(&self) -> Result<(), DatabaseError> {
        self.lock_journal().check_lock()?;
        let position = self.view.reopen()?;
        self.write_checkpoint(Some(position))
    }

    /// Shuts down: everything acknowledged is in both copies and synced.
    pub(super) fn finish(&self) -> Result<(), DatabaseError> {
        let _maintenance = self.view.maintain();
        // If the workspace was moved, its paths no longer refer to it, so nothing can be synced by name.
        let is_in_place = self.lock_journal().check_lock();
        let checked = match is_in_place {
            Ok(()) if self.view.is_unsynced() && !self.view.is_broken() => {
                self.view.apply_all().and_then(|()| match self.view.since_open() > REOPEN_AT_CHECKPOINT {
                    true => self.reopen(),
                    false => self.write_checkpoint(None),
                })
            }
            Ok(()) => Ok(()),
            Err(error) => Err(DatabaseError::Io(error)),
        };
        self.view.close();
        checked
    }
}
