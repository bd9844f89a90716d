//! Taking turns: imports and watches of one workspace at the same time, in any number of processes.
//!
//! A run's key keeps it from being recorded twice. But two that look at a folder at different moments draw its runs
//! differently, and then their keys differ too. So a handful of runs is decided and recorded by one at a time, who first
//! takes note of what the others recorded. Reading and hashing, which take long, need no turn.

use std::fs::File;

use crate::model::Timestamp;
use crate::store::{Order, RecencyKey, Status};

use super::intake::Intake;
use crate::workspace::Error;

/// The file that is locked; nothing is in it.
const LOCK: &str = "import.lock";
/// How many sessions are looked at at once.
const ROWS: usize = 1000;

/// A turn, which ends when this is dropped, or with the process.
pub(super) struct Turn {
    /// None where files cannot be locked, or none can be made: then it is as if nobody else were there.
    _lock: Option<File>,
}

impl Intake<'_> {
    /// Waits for its turn, and takes note of what others recorded of pictures that were made at that time or later.
    pub(super) fn turn(&mut self, from: Timestamp) -> Result<Turn, Error> {
        let lock = File::options().create(true).append(true).open(self.workspace.dir().join(LOCK));
        let turn = Turn { _lock: lock.ok().filter(|file| file.lock().is_ok()) };
        self.catch_up(from)?;
        Ok(turn)
    }

    /// A session with a picture was last modified when it was made or later, so that the sessions before need no look.
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
