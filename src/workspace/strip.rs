//! The filmstrip of a session: its iterations in a row, with a lane for each branch, read in windows.

use std::collections::BTreeMap;

use crate::model::diff::RecipeDiff;
use crate::model::{
    Annotation, Hash, IterationId, IterationState, OutcomeStatus, Session, SessionId, StepLabel, Summary, Timestamp,
};

use super::image_rating::{cover_image, image_rating};
use super::writing::truncate;
use super::{Error, Workspace};

/// A window of a filmstrip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strip {
    /// The session.
    pub session: Summary,
    /// The number of lanes; 1 if there are no branches.
    pub lanes: u32,
    /// The subject of an untitled session: the beginning of its first prompt, or the name of its first file.
    pub subject: Option<String>,
    /// The mark of every iteration of the session, by index.
    pub marks: Vec<Mark>,
    /// The image chosen as the cover: the index of its iteration, and its number there.
    pub cover: Option<(u32, u32)>,
    /// The iterations of the window, in ascending order, without lost ones.
    pub steps: Vec<StripStep>,
}

/// The tag of a rejected iteration. Galleries hide it; nothing is deleted.
pub const REJECTED_TAG: &str = "rejected";

/// The review state of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Not rated and not rejected.
    Unreviewed,
    /// Rated, from 1 to 5.
    Rated(u8),
    /// Rejected, whatever its rating.
    Rejected,
    /// Lost to damage.
    Lost,
}

impl Mark {
    /// Returns the mark of an annotation.
    pub fn of(annotation: &Annotation) -> Mark {
        match annotation.rating {
            _ if annotation.tags.iter().any(|tag| tag == REJECTED_TAG) => Mark::Rejected,
            Some(rating) => Mark::Rated(rating),
            None => Mark::Unreviewed,
        }
    }
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
    /// Its images.
    pub images: Vec<StripImage>,
    /// Its outcome.
    pub outcome: OutcomeStatus,
    /// Its rating.
    pub rating: Option<u8>,
    /// Its review state.
    pub mark: Mark,
    /// The iteration it was derived from.
    pub parent: Option<IterationId>,
    /// The kind of step from its parent; `None` if the parent is elsewhere or lost.
    pub label: Option<StepLabel>,
    /// The changes from its parent, in one line; `None` if the parent is elsewhere or lost.
    pub change: Option<String>,
    /// Its lane, from 0.
    pub lane: u32,
    /// The lane of its parent, if that is in this session.
    pub parent_lane: Option<u32>,
}

/// An image in a filmstrip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripImage {
    /// Its hash.
    pub hash: Hash,
    /// Its media type.
    pub mime_type: String,
    /// Its width and height in pixels, if they could be read.
    pub size: Option<(u32, u32)>,
    /// Its own rating.
    pub rating: Option<u8>,
}

/// The maximum size of a prompt.
const MAX_PROMPT_BYTES: usize = 160;
/// The maximum size of a line of changes.
const MAX_CHANGE_BYTES: usize = 200;

impl Workspace {
    /// Returns at most `limit` iterations of a session, starting at an index.
    #[doc(hidden)]
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
        let marks = (0..summary.iteration_count())
            .map(|index| session.iterations.get(&index).map_or(Mark::Lost, |state| Mark::of(&state.annotation)));
        let marks = marks.collect();
        Ok(Strip {
            subject: subject(&session),
            cover: chosen_cover(&session),
            session: summary,
            lanes: count,
            marks,
            steps,
        })
    }
}

fn step(session: &Session, index: u32, state: &IterationState, lanes: &BTreeMap<u32, u32>) -> StripStep {
    let iteration = &state.iteration;
    let id = session.head.id;
    let mut prompt = iteration.recipe.prompt.clone();
    truncate(&mut prompt, MAX_PROMPT_BYTES);
    let parent = iteration.parent;
    let here = parent.filter(|parent| parent.session == id).map(|parent| parent.index);
    let diff = here
        .and_then(|parent| session.iterations.get(&parent))
        .map(|parent| RecipeDiff::between(&parent.iteration.recipe, &iteration.recipe));
    let (label, change) = diff.map(|diff| (diff.label, diff.summary)).unzip();
    let change = change.map(|mut line| {
        truncate(&mut line, MAX_CHANGE_BYTES);
        line
    });
    let Annotation { rating, tags, .. } = &state.annotation;
    let images = iteration.images.iter().enumerate().map(|(number, image)| StripImage {
        hash: image.hash,
        mime_type: image.mime_type.clone(),
        size: image.width.zip(image.height),
        rating: image_rating(*rating, tags, number),
    });
    StripStep {
        index,
        timestamp: iteration.created_at,
        prompt,
        images: images.collect(),
        outcome: iteration.outcome.status,
        rating: state.annotation.rating,
        mark: Mark::of(&state.annotation),
        parent,
        label,
        change,
        lane: lanes.get(&index).copied().unwrap_or(0),
        parent_lane: here.and_then(|parent| lanes.get(&parent).copied()),
    }
}

/// Returns the image that was chosen as the cover of the session.
fn chosen_cover(session: &Session) -> Option<(u32, u32)> {
    session.iterations.iter().rev().find_map(|(index, state)| {
        let number = state.annotation.tags.iter().find_map(|tag| cover_image(tag))?;
        Some((*index, u32::try_from(number).ok()?))
    })
}

/// Returns the subject of an untitled session.
pub(crate) fn subject(session: &Session) -> Option<String> {
    let text = |state: &IterationState| {
        let prompt = state.iteration.recipe.prompt.trim();
        let name = || state.iteration.images.first().and_then(|image| image.name.clone());
        if prompt.is_empty() { name() } else { Some(prompt.to_owned()) }
    };
    session.iterations.values().find_map(text).map(|mut text| {
        truncate(&mut text, MAX_PROMPT_BYTES);
        text
    })
}

/// Assigns a lane to every iteration: the first child continues in its parent's lane, and later children take the
/// lowest free lane. A lane is free once nothing in it continues.
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
    // The last index in each lane.
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
            // Never the parent's own lane, where it would appear to follow the parent's first child.
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
    fn a_branch_takes_a_lane_and_releases_it() {
        // 0 ─ 1 ─ 2 ─────── 6
        //     └─ 3   └ 4 ─ 5
        assert_eq!(laid_out(&[None, Some(0), Some(1), Some(1), Some(2), Some(4), Some(2)]), [0, 0, 0, 1, 0, 0, 1]);
        // Rerolls of one iteration share a lane.
        assert_eq!(laid_out(&[None, Some(0), Some(0), Some(0), Some(1)]), [0, 0, 1, 1, 0]);
    }
}
