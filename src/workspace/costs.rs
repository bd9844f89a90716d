//! What sessions cost: the sum over their iterations, each currency for itself.
//!
//! Costs are not part of a session's head, which is stored and shared in frozen forms; they are added up from its events
//! when they are asked for. An open workspace remembers the sums and adds only what is new.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::model::{Cost, EventBody, SessionId, amounts};
use crate::store::Detail;

use super::{Error, Workspace};

/// The sums that were added up since the workspace was opened.
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

/// The maximum number of sums that are remembered.
const MAX_SUMS: usize = 50_000;
/// The maximum number of new events that are read one by one; beyond, all are read at once.
const MAX_SINGLE: u32 = 32;

impl Workspace {
    /// Returns what the iterations of a session cost together, each currency for itself; empty if no cost is known.
    pub fn cost(&self, id: SessionId) -> Result<Vec<Cost>, Error> {
        let next_seq = self.head(id)?.next_seq;
        let known = self.costs.sums.lock().get(&id).cloned();
        let sum = match known {
            Some(sum) if sum.next_seq == next_seq => return Ok(sum.costs),
            Some(sum) if sum.next_seq < next_seq && next_seq - sum.next_seq <= MAX_SINGLE => {
                let mut costs = sum.costs;
                for seq in sum.next_seq..next_seq {
                    costs.extend(self.log.event(id, seq, Detail::Brief)?.and_then(|event| cost_of(event.body)));
                }
                amounts::total(&costs)
            }
            _ => {
                let events = self.log.events(id, Detail::Brief)?;
                let costs: Vec<Cost> = events.into_iter().filter_map(|event| cost_of(event.body)).collect();
                amounts::total(&costs)
            }
        };
        let mut sums = self.costs.sums.lock();
        if sums.len() >= MAX_SUMS {
            sums.clear();
        }
        sums.insert(id, Sum { next_seq, costs: sum.clone() });
        Ok(sum)
    }
}

fn cost_of(body: EventBody) -> Option<Cost> {
    match body {
        EventBody::Recorded { iteration, .. } => iteration.outcome.cost,
        _ => None,
    }
}
