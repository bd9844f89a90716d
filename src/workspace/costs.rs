//! The costs of sessions: the sum over their iterations, by currency.
//!
//! Costs are not part of a session's head, whose stored format is frozen; they are summed up from its events on demand.
//! An open workspace caches the sums and only adds what is new.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::model::{Cost, EventBody, SessionId, amounts};

use super::{Error, Workspace};

/// The sums computed since the workspace was opened.
#[derive(Default)]
pub(super) struct Costs {
    sums: Mutex<HashMap<SessionId, Sum>>,
}

/// The sum of a session up to an event.
#[derive(Clone, Default)]
struct Sum {
    next_seq: u32,
    costs: Vec<Cost>,
}

/// The maximum number of cached sums.
const MAX_SUMS: usize = 50_000;

impl Workspace {
    /// Returns the total cost of a session's iterations, by currency; empty if no cost is known.
    pub fn cost(&self, id: SessionId) -> Result<Vec<Cost>, Error> {
        Ok(self.costs(&[id])?.pop().unwrap_or_default())
    }

    /// Returns the total cost of each of these sessions, in order, by currency, from one read of the log.
    pub fn costs(&self, ids: &[SessionId]) -> Result<Vec<Vec<Cost>>, Error> {
        let mut known: HashMap<SessionId, Sum> = {
            let sums = self.costs.sums.lock();
            ids.iter().map(|id| (*id, sums.get(id).cloned().unwrap_or_default())).collect()
        };
        let places: Vec<(SessionId, u32)> =
            ids.iter().map(|id| (*id, known.get(id).map_or(0, |sum| sum.next_seq))).collect();
        let mut changed: BTreeSet<SessionId> = BTreeSet::new();
        for event in self.log.brief_events_from(&places)? {
            let sum = known.entry(event.session).or_default();
            sum.next_seq = sum.next_seq.max(event.seq.saturating_add(1));
            changed.insert(event.session);
            sum.costs.extend(cost_of(event.body));
        }
        let mut sums = self.costs.sums.lock();
        if sums.len().saturating_add(changed.len()) > MAX_SUMS {
            sums.clear();
        }
        for id in changed {
            if let Some(sum) = known.get_mut(&id) {
                sum.costs = amounts::total(&sum.costs);
                sums.insert(id, sum.clone());
            }
        }
        Ok(ids.iter().map(|id| known.get(id).map(|sum| sum.costs.clone()).unwrap_or_default()).collect())
    }
}

fn cost_of(body: EventBody) -> Option<Cost> {
    match body {
        EventBody::Recorded { iteration, .. } => iteration.outcome.cost,
        _ => None,
    }
}
