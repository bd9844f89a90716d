//! Mutual exclusion between imports and watches of one workspace, in any number of processes.
//!
//! A run's key keeps it from being recorded twice. But two imports that read a folder at different moments may group its
//! files differently, and then their keys differ too. So only one at a time decides and records some runs, and first
//! learns what the others recorded. Reading and hashing, which take long, need no lock.

use std::fs::File;

use crate::model::Timestamp;
use crate::store::{Order, RecencyKey, Status};

use super::intake::Intake;
use crate::workspace::Error;

/// The name of the lock file, which stays empty.
const LOCK: &str = "import.lock";
/// The number of sessions that are read at once.
const ROWS: usize = 1000;

/// The lock, which is released when this is dropped, or when the process ends.
pub(super) struct Turn {
    /// `None` if the file cannot be created or locked: then keys alone prevent duplicates.
    _lock: Option<File>,
}

impl Intake<'_> {
    /// Waits for the lock, and learns what others recorded of images that were made at that time or later.
    pub(super) fn turn(&mut self, from: Timestamp) -> Result<Turn, Error> {
        let lock = File::options().create(true).append(true).open(self.workspace.dir().join(LOCK));
        let turn = Turn { _lock: lock.ok().filter(|file| file.lock().is_ok()) };
        self.catch_up(from)?;
        Ok(turn)
    }

    /// Reads the sessions that changed. One with an image was last modified when the image was made or later, so that
    /// earlier sessions need not be read.
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
