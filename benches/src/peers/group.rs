//! Group commit as in our log: the first writer without a leader writes for all waiters. The peers use it too, so that
//! a comparison with many writers compares engines rather than waiting strategies.

use std::sync::{Condvar, Mutex};

/// The writes waiting for the leader.
pub(crate) struct Group<T> {
    state: Mutex<State<T>>,
    settled: Condvar,
}

struct State<T> {
    queue: Vec<T>,
    leading: bool,
    queued: u64,
    settled: u64,
}

impl<T> Group<T> {
    pub(crate) fn new() -> Group<T> {
        let state = State { queue: Vec::new(), leading: false, queued: 0, settled: 0 };
        Group { state: Mutex::new(state), settled: Condvar::new() }
    }

    /// Returns once `item` was part of a finished `write` by this thread or another.
    pub(crate) fn submit(&self, item: T, write: impl Fn(Vec<T>)) {
        let mut state = self.state.lock().unwrap();
        state.queue.push(item);
        state.queued += 1;
        let ticket = state.queued;
        while state.settled < ticket {
            if state.leading {
                state = self.settled.wait(state).unwrap();
                continue;
            }
            state.leading = true;
            let group = std::mem::take(&mut state.queue);
            let last = state.queued;
            drop(state);
            write(group);
            state = self.state.lock().unwrap();
            state.settled = last;
            state.leading = false;
            self.settled.notify_all();
        }
    }
}
