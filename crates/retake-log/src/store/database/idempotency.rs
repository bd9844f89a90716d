//! The idempotency keys: an index of its own beside sled's trees.

use std::sync::PoisonError;

use crate::store::journal::Position;
use crate::store::key_index::Key;
use crate::store::projection::KeyHit;

use super::error::DatabaseError;
use super::{Database, START};

/// How many new keys are written out without waiting for the next checkpoint.
const MAX_PENDING_KEYS: usize = 8192;
/// How many keys a rebuild holds before it writes them out.
const MAX_FOUND_KEYS: usize = 128 << 10;

impl Database {
    /// Returns what an idempotency key was used for.
    pub(in crate::store) fn key(&self, key: Key) -> Result<Option<KeyHit>, DatabaseError> {
        Ok(self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key)?)
    }

    /// Returns the position of the journal up to which every key is known. After a crash it may come before
    /// [`position`](Database::position).
    pub(in crate::store) fn keys_end(&self) -> Position {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).end()
    }

    /// Adds the keys of a stretch of the journal that ends at `end`.
    pub(in crate::store) fn put_keys(
        &self,
        put: impl IntoIterator<Item = (Key, KeyHit)>,
        end: Position,
    ) -> Result<(), DatabaseError> {
        let pending = {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keys.insert(put, end);
            keys.pending()
        };
        if pending < MAX_PENDING_KEYS { Ok(()) } else { self.write_keys() }
    }

    /// Adds keys that a rebuild found.
    pub(super) fn put_found_keys(&self, found: &[(Key, KeyHit)]) -> Result<(), DatabaseError> {
        {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keys.insert(found.iter().copied(), START);
            if keys.pending() < MAX_FOUND_KEYS {
                return Ok(());
            }
            keys.end_early();
        }
        self.write_keys()
    }

    /// Writes out all keys. Lookups go on meanwhile.
    pub(super) fn write_keys(&self) -> Result<(), DatabaseError> {
        loop {
            let job = self.keys.read().unwrap_or_else(PoisonError::into_inner).next_job();
            let Some(job) = job else { return Ok(()) };
            let run = job.run()?;
            self.keys.write().unwrap_or_else(PoisonError::into_inner).install(run);
        }
    }
}
