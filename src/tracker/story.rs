//! `story`: how a session went, as what changed from each iteration to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{IterationId, IterationState, OutcomeStatus, StepLabel, Timestamp};

use super::fit::{self, Page};
use super::lineage::Lineage;
use super::{Error, SessionRow, Tracker, cursor, lookup};

/// Which session's story to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoryRequest {
    /// The session's id, such as `session-2025-12-11-001`.
    pub session_id: String,
    /// At most this many steps, the newest (default 200, at most 1000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before: goes on to older steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// How a session went, a page at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoryView {
    /// The session.
    pub session: SessionRow,
    /// Its iterations, oldest first, each with what changed from the one it came from.
    pub steps: Vec<StoryStep>,
    /// Present when there are older ones: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One step: an iteration, and what changed from the one it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoryStep {
    /// The iteration.
    pub reference: IterationId,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// The iteration it came from, in any session; absent for one that came from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// What kind of step it was: `reroll`, `tweak`, `reprompt`, `remodel`, `refine` or `newIdea`. Absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// What changed, in one line: `+` added, `-` removed, `~` reweighted, `↕` moved, `old→new`. At the beginning: the prompt.
    pub summary: String,
    /// Present when the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// Its rating, 1 to 5, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What was noted of it, cut short when it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many rerolls followed it that nobody said anything of, and that are not steps of their own here.
    #[serde(default, skip_serializing_if = "is_none")]
    pub rerolls: u32,
}

impl Tracker {
    /// How a session went: the newest steps, a page at a time.
    pub fn story(&self, request: &StoryRequest) -> Result<StoryView, Error> {
        let id = lookup::session_id(&request.session_id)?;
        let limit = fit::limit(request.limit)?;
        let scope = format!("story {id}");
        let before =
            request.cursor.as_deref().map(|at| cursor::decode(&scope, at, |index| index.parse().ok())).transpose()?;

        let session = SessionRow::new(&self.summary(id)?)?;
        let upper = before.unwrap_or(u32::MAX);
        let mut lineage = Lineage::new(self);
        let indexes: Vec<u32> = lineage
            .session(id)?
            .map(|it| it.iterations.range(..upper).rev().map(|(index, _)| *index).collect())
            .unwrap_or_default();
        let mut view = StoryView { session, steps: Vec::new(), next_cursor: None };
        let mut page = Page::new(limit, &view);
        for index in indexes {
            let Some(step) = lineage.step(id.iteration(index))? else { continue };
            if !page.push(step) {
                let lowest = index.saturating_add(1);
                view.next_cursor = Some(cursor::encode(&scope, &lowest.to_string()));
                break;
            }
        }
        page.rows.reverse();
        view.steps = page.rows;
        Ok(view)
    }

    /// These iterations, each as a step from the one it came from; those that were lost are left out.
    ///
    /// For a face that lays out rows it already has. What was recorded can be long, so this is not an answer by itself.
    pub fn steps(&self, ids: impl IntoIterator<Item = IterationId>) -> Result<Vec<StoryStep>, Error> {
        let mut lineage = Lineage::new(self);
        let steps = ids.into_iter().map(|id| lineage.step(id));
        steps.filter_map(Result::transpose).collect()
    }
}

impl Lineage<'_> {
    /// An iteration as a step from its parent; none when it was lost.
    pub(super) fn step(&mut self, id: IterationId) -> Result<Option<StoryStep>, Error> {
        let Some(state) = self.state(id)? else { return Ok(None) };
        let mut step = told(id, state);
        if let Some(parent) = step.parent {
            match self.changes(parent, id)? {
                Some(changes) => {
                    step.label = Some(changes.label);
                    step.summary = changes.summary;
                }
                None => step.summary = format!("from {parent}, which was not compared"),
            }
        }
        fit::clip(&mut step.summary, SUMMARY_BYTES);
        Ok(Some(step))
    }
}

impl StoryStep {
    /// Whether it is a reroll that went well and of which nobody said anything.
    pub(super) fn is_mere_reroll(&self) -> bool {
        self.label == Some(StepLabel::Reroll) && !self.is_annotated()
    }

    /// Whether anybody said anything of it.
    pub(super) fn is_annotated(&self) -> bool {
        self.rating.is_some() || !self.tags.is_empty() || self.note.is_some()
    }
}

/// What a step's line may take.
const SUMMARY_BYTES: usize = 1200;
/// What a note may take in a step.
const NOTE_BYTES: usize = 400;
/// How many tags a step shows, and what each may take.
const MOST_TAGS: usize = 8;
const TAG_BYTES: usize = 100;

fn told(id: IterationId, state: &IterationState) -> StoryStep {
    let IterationState { iteration, annotation, .. } = state;
    let short = |text: &String, most: usize| fit::clipped(text, most).unwrap_or_else(|| text.clone());
    StoryStep {
        reference: id,
        timestamp: iteration.created_at,
        parent: iteration.parent,
        label: None,
        summary: short(&iteration.recipe.prompt, SUMMARY_BYTES),
        outcome: Some(iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded),
        rating: annotation.rating,
        tags: annotation.tags.iter().take(MOST_TAGS).map(|tag| short(tag, TAG_BYTES)).collect(),
        note: annotation.note.as_ref().map(|note| short(note, NOTE_BYTES)),
        rerolls: 0,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}
