//! Limits on heavy work: a number of threads derived from the number of cores, and memory budgets for images shared by
//! all threads, calls and workspaces of the process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

/// The budget for encoded files that are being decoded.
pub(super) static FILE_MEMORY: MemoryBudget = MemoryBudget::new(256 * 1024 * 1024);
/// The budget for decoded pixels: a few images of typical size, or one of the largest.
pub(super) static PIXEL_MEMORY: MemoryBudget = MemoryBudget::new(512 * 1024 * 1024);

/// The number of threads per core: while one waits for the disk, another one works.
const THREADS_PER_CORE: usize = 2;

/// Calls `work` for every item on all cores, and returns the results in the order of the items. Calls `go_on` after
/// each item with the number of finished ones; once it returns `false`, no further item is started, and the results
/// cover only the first items.
pub fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    go_on: impl Fn(u64) -> bool + Sync,
) -> Vec<R> {
    let workers = thread::available_parallelism()
        .map_or(THREADS_PER_CORE, |cores| cores.get() * THREADS_PER_CORE)
        .min(items.len());
    let (next, finished, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let answers: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        let worker = || {
            while !stopped.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(number) else { return };
                let answer = work(item);
                answers.lock().push((number, answer));
                if !go_on(finished.fetch_add(1, Ordering::Relaxed) as u64 + 1) {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
        };
        for _ in 1..workers {
            // If the system cannot start more threads, the existing ones do the work; the calling thread always takes
            // part.
            if let Err(error) = thread::Builder::new().name("retake-images".to_owned()).spawn_scoped(scope, worker) {
                tracing::debug!(%error, "cannot start a thread");
                break;
            }
        }
        worker();
    });
    let mut answers = answers.into_inner();
    answers.sort_unstable_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A memory budget. Acquiring more than is left waits for other permits to be dropped; a request above the whole budget
/// waits until it is alone.
pub(super) struct MemoryBudget {
    max: u64,
    taken: Mutex<u64>,
    freed: Condvar,
}

/// A permit for part of a budget, returned on drop. A thread that holds one must not acquire another of the same
/// budget, or two such threads could deadlock.
pub(super) struct Permit<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    pub(super) const fn new(max: u64) -> MemoryBudget {
        MemoryBudget { max, taken: Mutex::new(0), freed: Condvar::new() }
    }

    /// Waits until this many bytes are available.
    pub(super) fn acquire(&self, bytes: u64) -> Permit<'_> {
        let mut taken = self.taken.lock();
        while *taken > 0 && taken.saturating_add(bytes) > self.max {
            self.freed.wait(&mut taken);
        }
        *taken = taken.saturating_add(bytes);
        Permit { budget: self, bytes }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        *taken = taken.saturating_sub(self.bytes);
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn a_budget_is_never_exceeded_except_by_a_single_large_request() {
        let budget = MemoryBudget::new(100);
        let (held, max) = (AtomicU64::new(0), AtomicU64::new(0));
        let sizes: Vec<u64> = (0..200).map(|number| if number % 50 == 7 { 250 } else { 30 + number % 40 }).collect();
        thread::scope(|scope| {
            let (budget, held, max) = (&budget, &held, &max);
            for part in sizes.chunks(25) {
                scope.spawn(move || {
                    for size in part {
                        let _permit = budget.acquire(*size);
                        let now = held.fetch_add(*size, Ordering::SeqCst) + size;
                        assert!(now <= 100 || now == *size, "{now} bytes are held at once");
                        max.fetch_max(now, Ordering::SeqCst);
                        thread::yield_now();
                        held.fetch_sub(*size, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(max.into_inner(), 250);
        assert_eq!(*budget.taken.lock(), 0);
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let most = AtomicU64::new(0);
        let answers = on_all_cores(&items, |item| item * 2, |done| most.fetch_max(done, Ordering::Relaxed) < u64::MAX);
        assert_eq!(answers, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(most.into_inner(), 1000);
        assert!(on_all_cores(&[0_u8; 0], |item| *item, |_| true).is_empty());
    }

    #[test]
    fn no_item_is_started_once_stopped() {
        let items: Vec<usize> = (0..500).collect();
        let begun = on_all_cores(&items, |item| *item, |done| done < 10);
        let workers = thread::available_parallelism().map_or(1, usize::from) * THREADS_PER_CORE;
        assert!((10..=10 + workers).contains(&begun.len()), "{}", begun.len());
        assert_eq!(begun, items[..begun.len()]);
    }
}
