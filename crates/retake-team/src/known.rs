//! What this process remembers about sessions and days. It may be stale: the server decides.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::NaiveDate;
use retake_log::model::{Head, SessionId};

/// The maximum number of remembered heads.
const MAX_REMEMBERED_HEADS: usize = 1024;
/// The number of groups of new sessions that take the lock first after a wrong guess at the next number.
const CAUTIOUS_GROUPS: u32 = 16;

/// The heads and the last number of a day that this process saw last.
#[derive(Default)]
pub(crate) struct Known {
    state: Mutex<State>,
    cautious: AtomicU32,
}

#[derive(Default)]
struct State {
    heads: HashMap<SessionId, Head>,
    day: Option<(NaiveDate, u32)>,
}

impl Known {
    pub(crate) fn remember(&self, head: &Head) {
        let mut state = self.state();
        if state.heads.len() >= MAX_REMEMBERED_HEADS {
            state.heads.clear();
        }
        state.remember_number(head.id);
        state.heads.insert(head.id, head.clone());
    }

    /// Returns the last known state of a session.
    pub(crate) fn head(&self, id: SessionId) -> Option<Head> {
        self.state().heads.get(&id).cloned()
    }

    pub(crate) fn forget(&self, id: SessionId) {
        self.state().heads.remove(&id);
    }

    /// Returns the last number of a day; `None` if it is unknown, or if other machines create sessions too, so that a
    /// guess would probably be wrong.
    pub(crate) fn guess_last_number(&self, day: NaiveDate) -> Option<u32> {
        let is_cautious =
            self.cautious.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
        self.state().day.filter(|(known, _)| *known == day && !is_cautious).map(|(_, last)| last)
    }

    /// Records that a guess at a day's last number was wrong.
    pub(crate) fn guess_failed(&self) {
        self.cautious.store(CAUTIOUS_GROUPS, Ordering::Release);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember_number(&mut self, id: SessionId) {
        let number = id.number().get();
        match &mut self.day {
            Some((day, last)) if *day == id.day() => *last = (*last).max(number),
            Some((day, _)) if *day > id.day() => {}
            day => *day = Some((id.day(), number)),
        }
    }
}
