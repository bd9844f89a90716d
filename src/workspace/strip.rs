//! The filmstrip of a session: its iterations side by side, with the lanes that branches take, a window at a time.

use std::collections::BTreeMap;

use crate::model::diff::RecipeDiff;
use crate::model::{Hash, IterationId, IterationState, OutcomeStatus, Session, SessionId, Summary, Timestamp};

use super::writing::truncate;
use super::{Error, Workspace};

/// A window of a filmstrip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strip {
    /// The session.
    pub session: Summary,
    /// The number of lanes that its branches take; 1 if there are none.
    pub lanes: u32,
    /// The iterations of the window, in ascending order, without those that were lost.
    pub steps: Vec<StripStep>,
}

/// An iteration in a filmstrip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripStep {
    /// Its index.
    pub index: u32,
    /// When the image was made.
    pub timestamp: Timestamp,
    /// Its prompt, truncated.
    pub prompt: String,
    /// Its first image.
    pub image: Option<Hash>,
    /// Its outcome.
    pub outcome: OutcomeStatus,
    /// Its rating.
    pub rating: Option<u8>,
    /// The iteration it was derived from.
    pub parent: Option<IterationId>,
    /// What changed since its parent, in one line; `None` if the parent is elsewhere or lost.
    pub change: Option<String>,
    /// Its lane, from 0.
    pub lane: u32,
    /// The lane of its parent, if that is in this session.
    pub parent_lane: Option<u32>,
}

/// The maximum size of a prompt.
const MAX_PROMPT_BYTES: usize = 160;
/// The maximum size of a line of changes.
const MAX_CHANGE_BYTES: usize = 200;

impl Workspace {
    /// Returns at most `limit` iterations of a session, from an index on.
    pub fn strip(&self, id: SessionId, from: u32, limit: u32) -> Result<Strip, Error> {
        let summary = self.summary(id)?;
        let session = self.load_session(id)?;
        let lanes = lanes(&session);
        let window = session.iterations.range(from..from.saturating_add(limit));
        let steps = window.map(|(index, state)| {
            state.iteration.images.iter().for_each(|image| self.images.remember(image));
            step(&session, *index, state, &lanes)
        });
        let steps = steps.collect();
        let count = lanes.values().max().map_or(1, |last| last.saturating_add(1));
        Ok(Strip { session: summary, lanes: count, steps })
    }
}

fn step(session: &Session, index: u32, state: &IterationState, lanes: &BTreeMap<u32, u32>) -> StripStep {
    let iteration = &state.iteration;
    let id = session.head.id;
    let mut prompt = iteration.recipe.prompt.clone();
    truncate(&mut prompt, MAX_PROMPT_BYTES);
    let parent = iteration.parent;
    let here = parent.filter(|parent| parent.session == id).map(|parent| parent.index);
    let change = here.and_then(|parent| session.iterations.get(&parent)).map(|parent| {
        let mut line = RecipeDiff::between(&parent.iteration.recipe, &iteration.recipe).summary;
        truncate(&mut line, MAX_CHANGE_BYTES);
        line
    });
    StripStep {
        index,
        timestamp: iteration.created_at,
        prompt,
        image: iteration.images.first().map(|image| image.hash),
        outcome: iteration.outcome.status,
        rating: state.annotation.rating,
        parent,
        change,
        lane: lanes.get(&index).copied().unwrap_or(0),
        parent_lane: here.and_then(|parent| lanes.get(&parent).copied()),
    }
}

/// Returns the lane of every iteration: the first child continues in its parent's lane, and a later one takes the lowest
/// free lane. A lane is free once nothing in it continues.
fn lanes(session: &Session) -> BTreeMap<u32, u32> {
    let parent_of = |index: u32| {
        let parent = session.iterations.get(&index)?.iteration.parent?;
        Some(parent.index).filter(|parent_index| parent.session == session.head.id && *parent_index < index)
    };
    // The child that continues in each parent's lane.
    let mut heir: BTreeMap<u32, u32> = BTreeMap::new();
    for &index in session.iterations.keys() {
        if let Some(parent) = parent_of(index) {
            heir.entry(parent).or_insert(index);
        }
    }
    let mut lanes: BTreeMap<u32, u32> = BTreeMap::new();
    // The index up to which each lane is taken.
    let mut taken: Vec<u32> = Vec::new();
    for &index in session.iterations.keys() {
        let parent = parent_of(index);
        let inherited =
            parent.filter(|parent| heir.get(parent) == Some(&index)).and_then(|parent| lanes.get(&parent).copied());
        let lane = inherited.unwrap_or_else(|| {
            let mut end = index;
            while let Some(next) = heir.get(&end) {
                end = *next;
            }
            // Never the parent's own lane, where it would seem to follow the parent's first child.
            let parents = parent.and_then(|parent| lanes.get(&parent).copied());
            let free = (0u32..).zip(&taken).position(|(lane, until)| *until < index && Some(lane) != parents);
            let at = free.unwrap_or(taken.len());
            match taken.get_mut(at) {
                Some(until) => *until = end,
                None => taken.push(end),
            }
            u32::try_from(at).unwrap_or(u32::MAX)
        });
        lanes.insert(index, lane);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, Annotation, Head, Iteration, Outcome, Recipe};

    fn laid_out(parents: &[Option<u32>]) -> Vec<u32> {
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        let iterations = (0..).zip(parents).map(|(index, parent)| {
            let iteration = Iteration {
                created_at: Timestamp::from_millis(0).unwrap(),
                recipe: Recipe::default(),
                outcome: Outcome::default(),
                images: Vec::new(),
                parent: parent.map(|parent| id.iteration(parent)),
                parent_reason: None,
                likely_parent: None,
            };
            let recorded_by = Actor { client: String::new(), user: String::new() };
            let recorded_at = iteration.created_at;
            (index, IterationState { iteration, recorded_at, recorded_by, annotation: Annotation::default() })
        });
        let session = Session { head: Head::new(id), iterations: iterations.collect(), lost: Default::default() };
        lanes(&session).into_values().collect()
    }

    #[test]
    fn a_straight_session_has_one_lane() {
        assert_eq!(laid_out(&[None, Some(0), Some(1), Some(2)]), [0, 0, 0, 0]);
    }

    #[test]
    fn a_branch_takes_a_lane_of_its_own_and_gives_it_back() {
        // 0 ─ 1 ─ 2 ─────── 6
        //     └─ 3   └ 4 ─ 5
        assert_eq!(laid_out(&[None, Some(0), Some(1), Some(1), Some(2), Some(4), Some(2)]), [0, 0, 0, 1, 0, 0, 1]);
        // Rerolls of one iteration share a lane, one after the other.
        assert_eq!(laid_out(&[None, Some(0), Some(0), Some(0), Some(1)]), [0, 0, 1, 1, 0]);
    }
}
