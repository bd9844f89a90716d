//! Mutual exclusion between imports and watches of one workspace, in any number of processes.
//!
//! The idempotency key prevents a run from being recorded twice. But two imports that read a folder at different times
//! may group its files differently, and then their keys differ too. Therefore only one process at a time decides and
//! records a batch, after catching up with what the others recorded. Reading and hashing, which take the time, need no
//! lock.

use std::fs::File;

use crate::model::Timestamp;
use crate::store::{Order, RecencyKey, Status};

use super::intake::Intake;
use crate::workspace::Error;

/// The name of the lock file, which is always empty.
const LOCK: &str = "import.lock";
/// The number of sessions read per page.
const ROWS: usize = 1000;

/// The lock, released on drop or when the process exits.
pub(super) struct ImportLock {
    /// `None` if the file cannot be created or locked; then only the keys prevent duplicates.
    _lock: Option<File>,
}

impl Intake<'_> {
    /// Waits for the lock, then catches up with what others recorded for images made at this time or later.
    pub(super) fn lock(&mut self, from: Timestamp) -> Result<ImportLock, Error> {
        let lock = File::options().create(true).append(true).open(self.workspace.dir().join(LOCK));
        let lock = ImportLock { _lock: lock.ok().filter(|file| file.lock().is_ok()) };
        self.catch_up(from)?;
        Ok(lock)
    }

    /// Reads the sessions that changed. A session was last modified no earlier than its images were made, so earlier
    /// sessions can be skipped.
    fn catch_up(&mut self, from: Timestamp) -> Result<(), Error> {
        let events = self.workspace.log.totals()?.events;
        if events == self.events {
            return Ok(());
        }
        let mut after = None;
        loop {
            let rows = self.workspace.log.page(Status::All, Order::Recent, after, ROWS)?;
            let recent = || rows.iter().take_while(|row| row.last_modified_at >= from);
            for row in recent() {
                if self.counts.get(&row.id) != Some(&row.iteration_count()) {
                    self.learn(row.id)?;
                }
            }
            if recent().count() < ROWS {
                break;
            }
            after = rows.last().map(|row| RecencyKey { modified: row.last_modified_at, id: row.id });
        }
        self.events = events;
        Ok(())
    }
}
