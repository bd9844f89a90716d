//! A step of a story: an iteration, and its changes from its parent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{IterationId, IterationState, OutcomeStatus, StepLabel, Timestamp};
use crate::workspace::Step;

use super::iterations::message;
use super::{is_zero, limits};

/// An iteration, and what changed since its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoryStep {
    /// The iteration.
    pub reference: IterationId,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// The iteration it was derived from, in any session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// The kind of step: `reroll`, `tweak`, `reprompt`, `remodel`, `refine` or `newIdea`. Absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// What changed, in one line: `+` added, `-` removed, `~` reweighted, `↕` moved, `old→new`. At the beginning: the prompt.
    pub summary: String,
    /// Present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// The provider's message, present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its rating from 1 to 5, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its note, truncated if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The number of rerolls that followed without an annotation and are not steps of their own here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rerolls: u32,
}

/// The maximum size of a step's summary.
const SUMMARY_BYTES: usize = 1200;
/// The maximum size of a note in a step.
const NOTE_BYTES: usize = 400;
/// The maximum number of tags in a step.
const MAX_TAGS: usize = 8;
/// The maximum size of a tag in a step.
const TAG_BYTES: usize = 100;

impl From<&Step> for StoryStep {
    fn from(step: &Step) -> StoryStep {
        let IterationState { iteration, annotation, .. } = &step.state;
        let short = |text: &String, most: usize| limits::clipped(text, most).unwrap_or_else(|| text.clone());
        StoryStep {
            reference: step.id,
            timestamp: iteration.created_at,
            parent: iteration.parent,
            label: step.label,
            summary: short(&step.summary, SUMMARY_BYTES),
            outcome: step.failure(),
            message: message(iteration),
            rating: annotation.rating,
            tags: annotation.tags.iter().take(MAX_TAGS).map(|tag| short(tag, TAG_BYTES)).collect(),
            note: annotation.note.as_ref().map(|note| short(note, NOTE_BYTES)),
            rerolls: step.rerolls,
        }
    }
}
