//! Heavy work within bounds: never more pictures in memory at once than fit, however many threads want one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What pictures may take in memory, all together. Who would pass it waits until others are done; what is larger than all
/// of it goes alone.
pub(super) struct Gate {
    most: u64,
    taken: Mutex<u64>,
    freed: Condvar,
}

/// A part of it, given back when dropped. Nobody who holds one may ask for another of the same gate.
pub(super) struct Taken<'a> {
    gate: &'a Gate,
    bytes: u64,
}

impl Gate {
    pub(super) fn new(most: u64) -> Gate {
        Gate { most, taken: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until there is room for that many bytes.
    pub(super) fn take(&self, bytes: u64) -> Taken<'_> {
        let mut taken = self.taken();
        while *taken > 0 && taken.saturating_add(bytes) > self.most {
            taken = self.freed.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = taken.saturating_add(bytes);
        Taken { gate: self, bytes }
    }

    /// A sum is whole even when whoever held it panicked.
    fn taken(&self) -> MutexGuard<'_, u64> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut taken = self.gate.taken();
        *taken = taken.saturating_sub(self.bytes);
        self.gate.freed.notify_all();
    }
}
