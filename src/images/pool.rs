//! Heavy work within bounds: on as many threads as there are cores, and never more pictures in memory at once than fit,
//! however many threads, calls and workspaces want one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

/// What files that are being decoded may take in memory, all together.
pub(super) static FILES_IN_MEMORY: Gate = Gate::new(256 * 1024 * 1024);
/// What decoded pictures may take in memory, all together: a few of the usual, or one of the largest.
pub(super) static PIXELS_IN_MEMORY: Gate = Gate::new(512 * 1024 * 1024);

/// Threads for each core: while one waits for the disk, another works.
const PER_CORE: usize = 2;

/// Does some work on every item, on all cores, and gives the answers in the order of the items. `go_on` is told after each
/// how many are done; once it says no, no other is begun, and the answers are those of a beginning.
pub fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    go_on: impl Fn(u64) -> bool + Sync,
) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(PER_CORE, |cores| cores.get() * PER_CORE).min(items.len());
    let (next, finished, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let answers: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let answer = work(item);
                    answers.lock().push((number, answer));
                    if !go_on(finished.fetch_add(1, Ordering::Relaxed) as u64 + 1) {
                        stopped.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut answers = answers.into_inner();
    answers.sort_unstable_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
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
    pub(super) const fn new(most: u64) -> Gate {
        Gate { most, taken: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until there is room for that many bytes.
    pub(super) fn take(&self, bytes: u64) -> Taken<'_> {
        let mut taken = self.taken.lock();
        while *taken > 0 && taken.saturating_add(bytes) > self.most {
            self.freed.wait(&mut taken);
        }
        *taken = taken.saturating_add(bytes);
        Taken { gate: self, bytes }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut taken = self.gate.taken.lock();
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
        assert_eq!(*gate.taken.lock(), 0);
    }

    #[test]
    fn all_is_done_and_answered_in_order() {
        let items: Vec<u64> = (0..1000).collect();
        let most = AtomicU64::new(0);
        let answers = on_all_cores(&items, |item| item * 2, |done| most.fetch_max(done, Ordering::Relaxed) < u64::MAX);
        assert_eq!(answers, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), 1000);
        assert!(on_all_cores(&[0_u8; 0], |item| *item, |_| true).is_empty());
    }

    #[test]
    fn nothing_is_begun_once_it_is_stopped() {
        let items: Vec<usize> = (0..500).collect();
        let begun = on_all_cores(&items, |item| *item, |done| done < 10);
        let workers = thread::available_parallelism().map_or(1, usize::from) * PER_CORE;
        assert!((10..=10 + workers).contains(&begun.len()), "{}", begun.len());
        assert_eq!(begun, items[..begun.len()]);
    }
}
