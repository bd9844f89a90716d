//! Mending a store that is open: sled failed under a question, or someone asked for a repair.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::database::{DatabaseError, guard};
use super::log::{Log, TRIES};
use super::checkpoint::Checkpoint;
use super::open;
use super::rebuild::{self, Loaded, RecoveryContext};
use super::{Error, Progress, Recovery};

impl Log {
    /// Asks the database, and mends it when it fails.
    pub(super) fn ask<T>(&self, question: impl Fn() -> Result<T, DatabaseError>) -> Result<T, Error> {
        for _ in 0..TRIES {
            let generation = self.generation.load(Ordering::Acquire);
            match question() {
                Ok(answer) => return Ok(answer),
                Err(trouble) => self.rebuild_online(generation, &trouble)?,
            }
        }
        Err(Error::Database("it fails again and again, although it was rebuilt".to_owned()))
    }

    /// Mends the database, unless someone has since `seen`. One that the disk refused may only need opening again.
    pub(super) fn rebuild_online(&self, seen: u64, trouble: &DatabaseError) -> Result<(), Error> {
        let again = trouble.is_refusal() || matches!(trouble, DatabaseError::Absent) || self.lock().broken.is_some();
        let causes = if again { Vec::new() } else { vec![format!("the database fails: {trouble}")] };
        self.replace_database(Some(seen), causes, None).map(|_| ())
    }

    /// Rebuilds the database for these reasons, and mends the journal.
    pub(super) fn repair(&self, causes: Vec<String>, progress: Option<&Progress>) -> Result<Option<Recovery>, Error> {
        self.settle(None);
        self.replace_database(None, causes, progress)
    }

    /// Closes the database and opens it again; with causes, opens a new one.
    fn replace_database(
        &self,
        seen: Option<u64>,
        causes: Vec<String>,
        progress: Option<&Progress>,
    ) -> Result<Option<Recovery>, Error> {
        let _maintenance = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_some_and(|seen| seen != self.generation.load(Ordering::Acquire)) {
            return Ok(None);
        }
        self.while_still(|| {
            let mut mark = {
                let state = self.lock();
                Checkpoint { events: state.totals.events, ..state.mark }
            };
            mark.count += 1;
            let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
            let old = database.take();
            let _ = guard(|| {
                drop(old);
                Ok(())
            });
            let site = RecoveryContext {
                dir: &self.dir,
                disk: &self.disk,
                workspace: self.workspace,
                texts: &self.texts,
                segment_bytes: self.segment_bytes,
                now: (self.clock)(),
                progress,
            };
            let loaded = match causes.is_empty() {
                true => open::load(&site, Some(mark)),
                false => rebuild::rebuild(&site, causes, Some(mark)),
            };
            match loaded {
                Ok(Loaded { database: new, journal, totals, mark, since_open, recovery }) => {
                    *database = Some(new);
                    drop(database);
                    *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = journal;
                    let mut state = self.lock();
                    state.caught_up(totals);
                    self.applied_epoch.fetch_add(1, Ordering::AcqRel);
                    state.since_open = since_open;
                    state.mark = mark;
                    state.broken = None;
                    self.generation.fetch_add(1, Ordering::AcqRel);
                    Ok(recovery)
                }
                Err(error) => {
                    drop(database);
                    self.lock().broken = Some(error.to_string());
                    Err(error)
                }
            }
        })
    }
}
