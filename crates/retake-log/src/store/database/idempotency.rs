//! The idempotency keys: a separate index next to sled's trees.

use std::sync::PoisonError;

use crate::store::journal::JournalPosition;
use crate::store::key_index::Key;
use crate::store::projection::KeyHit;

use super::error::DatabaseError;
use super::{Database, START};

/// The number of new keys that are written without waiting for the next checkpoint.
const MAX_PENDING_KEYS: usize = 8192;
/// The number of keys that a rebuild collects before it writes them.
const MAX_FOUND_KEYS: usize = 128 << 10;

impl Database {
    /// Returns the use of an idempotency key.
    pub(in crate::store) fn key(&self, key: Key) -> Result<Option<KeyHit>, DatabaseError> {
        Ok(self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key)?)
    }

    /// Returns the journal position up to which every key is known. After a crash, it may be before
    /// [`position`](Database::position).
    pub(in crate::store) fn keys_end(&self) -> JournalPosition {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).end()
    }

    /// Adds the keys of a range of the journal that ends at `end`.
    pub(in crate::store) fn put_keys(
        &self,
        put: impl IntoIterator<Item = (Key, KeyHit)>,
        end: JournalPosition,
    ) -> Result<(), DatabaseError> {
        let pending = {
            let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            keys.insert(put, end);
            keys.pending()
        };
        if pending < MAX_PENDING_KEYS { Ok(()) } else { self.write_keys() }
    }

    /// Adds keys found by a rebuild.
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

    /// Writes all keys. Lookups continue meanwhile.
    pub(super) fn write_keys(&self) -> Result<(), DatabaseError> {
        loop {
            let job = self.keys.read().unwrap_or_else(PoisonError::into_inner).next_job();
            let Some(job) = job else { return Ok(()) };
            let run = job.run()?;
            self.keys.write().unwrap_or_else(PoisonError::into_inner).install(run);
        }
    }
}
