//! Consistency checks of the database: sled may silently come up with less than it had.

use crate::model::{Head, SessionId};
use crate::store::Totals;
use crate::store::journal::JournalPosition;
use crate::store::projection::Projection;

use super::encoding::encode_head;
use super::error::{DatabaseError, guard};
use super::{Database, recency_of};

/// The number of sessions at each end of the listing that are checked when a database is reopened.
const SAMPLE: usize = 8;

impl Database {
    /// Checks that a reopened database is the one that was closed: its position, its totals, and the heads of some
    /// sessions. sled may silently come up with less than it had.
    pub(in crate::store) fn check_reopened(
        &self,
        position: JournalPosition,
        totals: Totals,
    ) -> Result<(), DatabaseError> {
        let (found, counted) = (self.position()?, self.totals()?);
        if found != Some(position) || counted != totals {
            return Err(DatabaseError::Inconsistent("it came up with less than was written".to_owned()));
        }
        let mut sample: Vec<SessionId> = Vec::new();
        for archived in [false, true] {
            for recent_first in [false, true] {
                let listed = self.listed(archived, recent_first, None, SAMPLE)?;
                sample.extend(listed.into_iter().map(|(place, _)| place.id));
            }
        }
        if sample.is_empty() && totals.sessions > 0 {
            return Err(DatabaseError::Inconsistent("its listing is empty".to_owned()));
        }
        sample.into_iter().try_for_each(|id| self.check_tip(id))
    }

    /// Checks that a session's head matches its last event, and is in the listing. A head is determined by the events
    /// up to its tip, so a matching tip implies a matching head.
    pub(in crate::store) fn check_tip(&self, id: SessionId) -> Result<(), DatabaseError> {
        let head = self.head(id)?.ok_or_else(|| DatabaseError::Inconsistent(format!("it does not know {id}")))?;
        if self.events.tip(id)? != head.next_seq.checked_sub(1).map(|seq| (seq, head.tip)) {
            return Err(DatabaseError::Inconsistent(format!("the head of {id} differs from its events")));
        }
        self.check_listed(&head)
    }

    /// Checks a session's head and its listing entry against all of its events.
    pub(in crate::store) fn check_session(&self, id: SessionId) -> Result<(), DatabaseError> {
        let mut projection = Projection::new(id, None);
        for stored in self.events.of_session(id)? {
            let event = stored.record().and_then(|record| record.event(&|_| None));
            let (event, _) = event
                .ok_or_else(|| DatabaseError::Inconsistent(format!("event {} of {id} cannot be read", stored.seq)))?;
            projection.apply(&event);
        }
        if self.head(id)?.as_ref() != Some(&projection.after) {
            return Err(DatabaseError::Inconsistent(format!("the head of {id} differs from its events")));
        }
        self.check_listed(&projection.after)
    }

    pub(in crate::store) fn check_listed(&self, head: &Head) -> Result<(), DatabaseError> {
        match recency_of(head) {
            Some(key) => match guard(|| Ok(self.listing.get(key)?))? {
                Some(row) if *row == *encode_head(head) => Ok(()),
                _ => Err(DatabaseError::Inconsistent(format!("the listing entry of {} is out of date", head.id))),
            },
            None => Ok(()),
        }
    }
}
