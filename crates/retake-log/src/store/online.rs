//! Replaces the database of an open store, because sled failed during a request or a repair was requested.

use std::sync::PoisonError;

use super::database::DatabaseError;
use super::log::{LocalLog, MAX_ATTEMPTS};
use super::open;
use super::rebuild::{self, Loaded, RecoveryContext};
use super::view::AcknowledgedProgress;
use super::{Error, Progress, Recovery};

impl LocalLog {
    /// Queries the database; on failure, replaces it and retries.
    pub(super) fn ask<T>(&self, question: impl Fn() -> Result<T, DatabaseError>) -> Result<T, Error> {
        for attempt in 0..MAX_ATTEMPTS {
            let generation = self.view.generation();
            match question() {
                Ok(answer) => return Ok(answer),
                Err(error) => self.handle(attempt, generation, error)?,
            }
        }
        Err(Error::Database("it keeps failing although it was rebuilt".to_owned()))
    }

    /// Handles an error before another attempt. A transient error is simply retried once: closing an intact database
    /// would not help.
    pub(super) fn handle(&self, attempt: usize, generation: u64, error: DatabaseError) -> Result<(), Error> {
        if attempt == 0 && error.is_transient() {
            return Ok(());
        }
        if attempt + 1 == MAX_ATTEMPTS && error.is_transient() {
            return Err(error.into_error(&self.layout.database()));
        }
        self.rebuild_online(generation, &error)
    }

    /// Reopens the database, unless that was done since `seen`; rebuilds it if the error means damage.
    pub(super) fn rebuild_online(&self, seen: u64, error: &DatabaseError) -> Result<(), Error> {
        let again = error.is_transient() || matches!(error, DatabaseError::Closed) || self.view.is_broken();
        let causes = if again { Vec::new() } else { vec![format!("the database fails: {error}")] };
        self.replace_database(Some(seen), causes, None).map(|_| ())
    }

    /// Rebuilds the database for these reasons, and repairs the journal.
    pub(super) fn repair(&self, causes: Vec<String>, progress: Option<&Progress>) -> Result<Option<Recovery>, Error> {
        self.view.wait_until_applied(None);
        self.replace_database(None, causes, progress)
    }

    /// Closes and reopens the database; with causes, builds a new one.
    fn replace_database(
        &self,
        seen: Option<u64>,
        causes: Vec<String>,
        progress: Option<&Progress>,
    ) -> Result<Option<Recovery>, Error> {
        self.while_still(|| {
            let _maintenance = self.view.maintain();
            if seen.is_some_and(|seen| seen != self.view.generation()) {
                return Ok(None);
            }
            let context = RecoveryContext {
                layout: &self.layout,
                disk: &self.disk,
                files: &self.files,
                workspace: self.workspace,
                texts: &self.texts,
                segment_bytes: self.segment_bytes,
                now: (self.clock)(),
                progress,
                lock: self.lock.clone(),
                // The position reached is known, and part of the checkpoint below.
                acknowledged: None,
            };
            if let Err(error) = self.lock_journal().check_lock() {
                self.view.set_broken(error.to_string());
                return Err(context.error("open the workspace again", self.layout.dir().into())(error));
            }
            // The journal may have been replaced by an older copy: then the database is the only place for these
            // changes.
            if let Err(error) = self.view.apply_all() {
                tracing::warn!(%error, "what is only in the journal is read from there");
            }
            let reached = self.view.ahead().progress;
            self.view.close();
            let mut checkpoint = *self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
            checkpoint.count += 1;
            checkpoint.frame = reached.frame;
            checkpoint.end = reached.end;
            checkpoint.events = reached.totals.events;
            checkpoint.newest = reached.newest;
            let loaded = match causes.is_empty() {
                true => open::load(&context, Some(checkpoint)),
                false => rebuild::rebuild(&context, causes, Some(checkpoint)),
            };
            match loaded {
                Ok(Loaded { database, journal, totals, checkpoint, since_open, recovery }) => {
                    *self.lock_journal() = journal;
                    self.forget_note_file();
                    *self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = checkpoint;
                    let (frame, end, newest) = (checkpoint.frame, checkpoint.end, checkpoint.newest);
                    self.view.replace(database, AcknowledgedProgress { totals, frame, end, newest }, since_open);
                    Ok(recovery)
                }
                Err(error) => {
                    self.view.set_broken(error.to_string());
                    Err(error)
                }
            }
        })
    }
}
