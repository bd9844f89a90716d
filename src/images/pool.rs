//! Heavy work within bounds: on as many threads as there are cores, and never more pictures in memory at once than fit,
//! however many threads want one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Does some work on every item, on all cores. `go_on` is told after each how many are done; once it says no, no other is
/// begun, and this returns when those that were have ended.
pub fn on_all_cores<T: Sync>(items: &[T], work: impl Fn(&T) + Sync, go_on: impl Fn(u64) -> bool + Sync) {
    let workers = thread::available_parallelism().map_or(2, usize::from).min(items.len());
    let (next, finished, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed)
                    && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    work(item);
                    if !go_on(finished.fetch_add(1, Ordering::Relaxed) as u64 + 1) {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn memory_is_never_passed_and_what_is_too_large_goes_alone() {
        let gate = Gate::new(100);
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let sizes: Vec<u64> = (0..200).map(|number| if number % 50 == 7 { 250 } else { 30 + number % 40 }).collect();
        thread::scope(|scope| {
            let (gate, held, most) = (&gate, &held, &most);
            for part in sizes.chunks(25) {
                scope.spawn(move || {
                    for size in part {
                        let _room = gate.take(*size);
                        let now = held.fetch_add(*size, Ordering::SeqCst) + size;
                        assert!(now <= 100 || now == *size, "{now} bytes are held at once");
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        held.fetch_sub(*size, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 250);
        assert_eq!(*gate.taken(), 0);
    }

    #[test]
    fn all_is_done_unless_it_is_stopped() {
        let items: Vec<u64> = (1..=500).collect();
        let sum = AtomicU64::new(0);
        on_all_cores(&items, |item| _ = sum.fetch_add(*item, Ordering::Relaxed), |_| true);
        assert_eq!(sum.into_inner(), 125_250);
        let begun = AtomicU64::new(0);
        on_all_cores(&items, |_| _ = begun.fetch_add(1, Ordering::Relaxed), |done| done < 10);
        assert!(begun.into_inner() < 500);
        on_all_cores(&[0_u8; 0], |_| (), |_| true);
    }
}
