//! The commit queue: tickets, a leader, and waiters.
//!
//! A commit joins the queue under the lock of the state it was decided in. The first thread that finds no leader leads:
//! it writes everything queued as one group and settles all of it, while the others sleep. A single writer therefore
//! pays for no hand-over, and many share one sync. The queue does not know about journals or databases: see
//! [`Committer`].

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use super::journal::CommitError;

/// Writes the groups of a queue.
pub(super) trait Committer {
    /// The state guarded by the lock under which commits are decided.
    type State;
    /// A commit.
    type Item;
    /// The location of a written group.
    type Written;

    fn state(&self) -> MutexGuard<'_, Self::State>;
    fn queue(state: &mut Self::State) -> &mut CommitQueue<Self::Item>;
    /// Returns the condition variable that is signalled when a group is settled.
    fn settled(&self) -> &Condvar;
    /// Writes a group. Called without the lock, by one thread at a time.
    fn write(&self, group: &[(u64, Self::Item)]) -> Result<Self::Written, CommitError>;
    /// Applies a written group to the state.
    fn acknowledge(&self, state: &mut Self::State, group: Vec<(u64, Self::Item)>, written: Self::Written);
    /// Removes everything queued from the state: later commits built on the refused ones.
    fn refuse(&self, state: &mut Self::State, error: &CommitError);
}

/// Commits waiting to be written.
pub(super) struct CommitQueue<T> {
    items: Vec<(u64, T, Arc<Waiter>)>,
    is_led: bool,
    next_ticket: u64,
    /// The last ticket that was acknowledged or refused.
    last_settled: u64,
    /// Refused tickets, with the number of their holders that have not been notified yet.
    refused: Vec<(RangeInclusive<u64>, u64, Arc<CommitError>)>,
}

impl<T> Default for CommitQueue<T> {
    fn default() -> CommitQueue<T> {
        CommitQueue { items: Vec::new(), is_led: false, next_ticket: 1, last_settled: 0, refused: Vec::new() }
    }
}

impl<T> CommitQueue<T> {
    /// Returns the next ticket.
    pub(super) fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Returns whether nothing is queued or being written.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_led && self.items.is_empty()
    }

    fn push(&mut self, item: T) -> (u64, Arc<Waiter>) {
        let (ticket, waiter) = (self.next_ticket, Waiter::current());
        self.next_ticket += 1;
        self.items.push((ticket, item, Arc::clone(&waiter)));
        (ticket, waiter)
    }

    fn refuse(&mut self, error: CommitError) {
        let (first, last) = (self.last_settled + 1, self.next_ticket - 1);
        self.items.clear();
        self.refused.push((first..=last, last + 1 - first, Arc::new(error)));
        self.last_settled = last;
    }

    fn refusal(&mut self, ticket: u64) -> Option<Arc<CommitError>> {
        let at = self.refused.iter().position(|(tickets, _, _)| tickets.contains(&ticket))?;
        let (_, waiting, error) = self.refused.get_mut(at)?;
        let error = Arc::clone(error);
        *waiting -= 1;
        if *waiting == 0 {
            self.refused.remove(at);
        }
        Some(error)
    }
}

/// A commit's position in the queue. It must be [awaited](wait_for), since the thread that queued it may have to lead.
#[must_use]
pub(super) struct QueuedCommit {
    ticket: u64,
    waiter: Arc<Waiter>,
}

/// Queues a commit and waits until it is acknowledged or refused.
pub(super) fn submit<C: Committer>(
    committer: &C,
    mut state: MutexGuard<'_, C::State>,
    item: C::Item,
) -> Result<(), Arc<CommitError>> {
    let queued = join::<C>(&mut state, item);
    wait_for(committer, state, &queued)
}

/// Queues a commit. While the state stays locked, consecutive commits are written in one group.
pub(super) fn join<C: Committer>(state: &mut C::State, item: C::Item) -> QueuedCommit {
    let (ticket, waiter) = C::queue(state).push(item);
    QueuedCommit { ticket, waiter }
}

/// Waits until a queued commit is acknowledged or refused; leads if no thread does.
pub(super) fn wait_for<C: Committer>(
    committer: &C,
    state: MutexGuard<'_, C::State>,
    queued: &QueuedCommit,
) -> Result<(), Arc<CommitError>> {
    let QueuedCommit { ticket, waiter } = queued;
    let mut held = Some(state);
    loop {
        if let Some(mut state) = held.take() {
            // A leader calls the next one when it is done, or finds the queue empty.
            if waiter.is_waiting() && !C::queue(&mut state).is_led {
                lead(committer, state);
            }
        }
        match waiter.wait() {
            CommitOutcome::Acknowledged => return Ok(()),
            CommitOutcome::Refused => {
                let error = C::queue(&mut committer.state()).refusal(*ticket);
                return Err(error.unwrap_or_else(|| {
                    Arc::new(CommitError::Unknown(std::io::Error::other("the reason of a refusal was lost")))
                }));
            }
            CommitOutcome::Lead => held = Some(committer.state()),
        }
    }
}

/// Waits until a ticket is settled.
pub(super) fn await_ticket<'a, C: Committer>(
    committer: &'a C,
    state: MutexGuard<'a, C::State>,
    ticket: u64,
) -> MutexGuard<'a, C::State> {
    let is_open = |state: &mut C::State| C::queue(state).last_settled < ticket;
    committer.settled().wait_while(state, is_open).unwrap_or_else(PoisonError::into_inner)
}

/// Writes everything queued as one group, and acknowledges or refuses all of it.
fn lead<C: Committer>(committer: &C, mut state: MutexGuard<'_, C::State>) {
    let queue = C::queue(&mut state);
    queue.is_led = true;
    let (mut group, mut waiters) = (Vec::new(), Vec::new());
    for (ticket, item, waiter) in std::mem::take(&mut queue.items) {
        group.push((ticket, item));
        waiters.push(waiter);
    }
    drop(state);
    let written = committer.write(&group);
    let mut state = committer.state();
    let outcome = match written {
        Ok(written) => {
            C::queue(&mut state).last_settled = group.last().map_or(0, |(ticket, _)| *ticket);
            committer.acknowledge(&mut state, group, written);
            CommitOutcome::Acknowledged
        }
        Err(error) => {
            committer.refuse(&mut state, &error);
            let queue = C::queue(&mut state);
            waiters.extend(queue.items.iter().map(|(_, _, waiter)| Arc::clone(waiter)));
            queue.refuse(error);
            CommitOutcome::Refused
        }
    };
    waiters.iter().for_each(|waiter| waiter.settle(outcome));
    let queue = C::queue(&mut state);
    queue.is_led = false;
    let next = queue.items.first().map(|(_, _, waiter)| Arc::clone(waiter));
    drop(state);
    // Keep the disk busy: wake the next leader first.
    next.iter().for_each(|next| next.call_to_lead());
    waiters.iter().for_each(|waiter| waiter.wake());
    committer.settled().notify_all();
}

/// The thread waiting for a commit. Each is woken individually: a shared signal would wake them only to contend for the
/// state's lock.
struct Waiter {
    thread: Thread,
    signal: AtomicU8,
}

/// The signal to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitOutcome {
    /// No thread is leading: this one checks whether it must.
    Lead,
    /// The commit is durable.
    Acknowledged,
    /// The commit was refused.
    Refused,
}

const NOTHING: u8 = 0;
const LEAD: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const REFUSED: u8 = 3;

impl Waiter {
    fn current() -> Arc<Waiter> {
        Arc::new(Waiter { thread: thread::current(), signal: AtomicU8::new(NOTHING) })
    }

    /// Waits for a signal. The outcome of a commit persists; a call to lead is consumed.
    fn wait(&self) -> CommitOutcome {
        loop {
            match self.signal.load(Ordering::Acquire) {
                ACKNOWLEDGED => return CommitOutcome::Acknowledged,
                REFUSED => return CommitOutcome::Refused,
                LEAD if self.signal.compare_exchange(LEAD, NOTHING, Ordering::AcqRel, Ordering::Acquire).is_ok() => {
                    return CommitOutcome::Lead;
                }
                _ => thread::park(),
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.signal.load(Ordering::Acquire) < ACKNOWLEDGED
    }

    /// Sets the outcome; the thread notices when it is [woken](Waiter::wake).
    fn settle(&self, outcome: CommitOutcome) {
        self.signal.store(if outcome == CommitOutcome::Refused { REFUSED } else { ACKNOWLEDGED }, Ordering::Release);
    }

    fn wake(&self) {
        self.thread.unpark();
    }

    /// Asks the thread to lead, unless its commit has been settled meanwhile.
    fn call_to_lead(&self) {
        if self.signal.compare_exchange(NOTHING, LEAD, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Writes numbers to a list, and refuses every group that contains a multiple of ten.
    #[derive(Default)]
    struct List {
        state: Mutex<ListState>,
        settled: Condvar,
        groups: Mutex<Vec<Vec<u64>>>,
    }

    #[derive(Default)]
    struct ListState {
        queue: CommitQueue<u64>,
        acknowledged: Vec<u64>,
    }

    impl Committer for List {
        type State = ListState;
        type Item = u64;
        type Written = ();

        fn state(&self) -> MutexGuard<'_, ListState> {
            self.state.lock().unwrap()
        }

        fn queue(state: &mut ListState) -> &mut CommitQueue<u64> {
            &mut state.queue
        }

        fn settled(&self) -> &Condvar {
            &self.settled
        }

        fn write(&self, group: &[(u64, u64)]) -> Result<(), CommitError> {
            let items: Vec<u64> = group.iter().map(|(_, item)| *item).collect();
            let refused = items.iter().any(|item| item % 10 == 0);
            self.groups.lock().unwrap().push(items);
            if refused { Err(CommitError::Refused(std::io::Error::other("ten"))) } else { Ok(()) }
        }

        fn acknowledge(&self, state: &mut ListState, group: Vec<(u64, u64)>, (): ()) {
            assert!(group.windows(2).all(|pair| pair[0].0 < pair[1].0));
            state.acknowledged.extend(group.iter().map(|(_, item)| *item));
        }

        fn refuse(&self, _: &mut ListState, _: &CommitError) {}
    }

    #[test]
    fn every_commit_is_settled_once_and_in_the_order_of_tickets() {
        let list = Arc::new(List::default());
        let threads: Vec<_> = (0..8u64)
            .map(|thread| {
                let list = Arc::clone(&list);
                thread::spawn(move || {
                    let mine = (0..200).map(|n| 1 + thread * 1000 + n);
                    mine.filter(|item| submit(&*list, list.state(), *item).is_ok()).collect::<Vec<u64>>()
                })
            })
            .collect();
        let mut acknowledged: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let mut state = list.state();
        assert!(state.queue.is_idle());
        assert!(state.queue.refused.is_empty(), "everyone has learnt of it");
        assert_eq!(state.queue.last_settled, 1600);
        acknowledged.sort_unstable();
        state.acknowledged.sort_unstable();
        assert_eq!(acknowledged, state.acknowledged);
        assert!(acknowledged.iter().all(|item| item % 10 != 0));
        let written: usize = list.groups.lock().unwrap().iter().map(Vec::len).sum();
        assert!(written <= 1600);
    }
}
