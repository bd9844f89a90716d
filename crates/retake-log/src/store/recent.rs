//! The newest summaries, kept decoded, so that the cost of the first pages does not depend on the number of sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Head, SessionId, Summary};

use super::{RecencyKey, Status};

/// The number of summaries kept.
pub(super) const MAX_RECENT: usize = 512;

/// All sessions above the floor, most recent last.
pub(super) struct RecentSessions {
    rows: BTreeMap<RecencyKey, Arc<Summary>>,
    /// The key at or below which nothing is kept; `None` if everything is kept.
    floor: Option<RecencyKey>,
}

/// The part of a page covered by the newest sessions.
pub(super) struct RecentPage {
    pub(super) rows: Vec<Arc<Summary>>,
    /// The position to continue reading from, if they do not cover all of it.
    pub(super) go_on_after: Option<RecencyKey>,
}

/// Returns the position of a session in the listing.
pub(super) fn place_of(summary: &Summary) -> RecencyKey {
    RecencyKey { modified: summary.last_modified_at, id: summary.id }
}

impl RecentSessions {
    /// Creates the list from the newest sessions; `complete` if these are all.
    pub(super) fn new(newest: Vec<Arc<Summary>>, complete: bool) -> RecentSessions {
        let floor = if complete { None } else { newest.iter().map(|row| place_of(row)).min() };
        let mut recent = RecentSessions { rows: newest.into_iter().map(|row| (place_of(&row), row)).collect(), floor };
        if let Some(floor) = floor {
            recent.rows.remove(&floor);
        }
        recent.shrink();
        recent
    }

    /// Applies the change that a commit made to a session.
    pub(super) fn update(&mut self, before: Option<&Head>, after: &Head) {
        if let Some(before) = before.and_then(Head::summary) {
            self.rows.remove(&place_of(&before));
        }
        if let Some(after) = after.summary() {
            let place = place_of(&after);
            if self.floor.is_none_or(|floor| place > floor) {
                self.rows.insert(place, Arc::new(after));
                self.shrink();
            }
        }
    }

    /// Returns the next rows after `after`, most recent first.
    pub(super) fn page(&self, status: Status, after: Option<RecencyKey>, limit: usize) -> RecentPage {
        if let (Some(after), Some(floor)) = (after, self.floor)
            && after <= floor
        {
            return RecentPage { rows: Vec::new(), go_on_after: Some(after) };
        }
        let wanted = |row: &&Arc<Summary>| match status {
            Status::All => true,
            Status::Active => !row.archived,
            Status::Archived => row.archived,
        };
        let below = match after {
            Some(after) => self.rows.range(..after),
            None => self.rows.range(..),
        };
        let rows: Vec<_> = below.rev().map(|(_, row)| row).filter(wanted).take(limit).cloned().collect();
        // The floor itself is not kept, so the rest is read from just above it.
        let go_on_after = self.floor.filter(|_| rows.len() < limit).map(above);
        RecentPage { rows, go_on_after }
    }

    fn shrink(&mut self) {
        while self.rows.len() > MAX_RECENT {
            if let Some((place, _)) = self.rows.pop_first() {
                self.floor = Some(place);
            }
        }
    }
}

/// Returns the position just above this one; nothing lies between, since numbers are consecutive.
fn above(place: RecencyKey) -> RecencyKey {
    let number = place.id.number().saturating_add(1);
    let id = SessionId::new(place.id.day(), number).unwrap_or(place.id);
    RecencyKey { modified: place.modified, id }
}
