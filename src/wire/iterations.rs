//! `list-iterations`: lists the newest iterations of one session, in ascending order.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Cost, Iteration, IterationId, IterationState, OutcomeStatus, Seed, SessionId, Timestamp};

use super::limits::{self, PageRows};
use super::{Api, Error, ImageView, cursor};

/// Which iterations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IterationsRequest {
    /// The session's id, such as `session-2025-12-11-001`, or `latest`.
    pub session_id: String,
    /// Maximum number of iterations, the newest ones (default 200, at most 1000). A page may hold fewer; `nextCursor` tells
    /// whether there are older ones.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page: leads to older iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether each row names its images, with the first of each as a thumbnail of at most 256 pixels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_images: bool,
}

/// A page of a session's iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationList {
    /// The session.
    pub session_id: SessionId,
    /// The newest iterations before the cursor, in ascending order.
    pub iterations: Vec<IterationRow>,
    /// The number of iterations in the session.
    pub total_iterations: u32,
    /// The number of iterations on this page.
    pub returned_count: u32,
    /// Present if there are older ones: pass it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Indexes within this page's range that were lost to damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
}

/// An iteration in a list, with what one needs to choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationRow {
    /// Its index in the session, from 0.
    pub index: u32,
    /// The prompt as typed, truncated if it is long.
    pub prompt: String,
    /// Present and true if `prompt` was truncated: `get-iteration` has more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_truncated: bool,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// Present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// The provider's message, present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The iteration it was derived from, present if that is not the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// Present and true if it has no known parent, although it is not the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_parent: bool,
    /// Its rating from 1 to 5, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// What is known about how it was made.
    pub metadata: Metadata,
    /// Its images, if `includeImages` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<ImageView>>,
}

/// What is known about how an iteration was made; what is unknown is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The width in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// The number of sampling steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// CFG or guidance scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// The sampler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The seed, as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Api<'_> {
    /// Lists the newest iterations of a session, a page at a time.
    pub fn iterations(&self, request: &IterationsRequest) -> Result<IterationList, Error> {
        let id = self.session_id(&request.session_id)?;
        let limit = limits::limit(request.limit)?;
        let scope = format!("iterations {id}");
        let before =
            request.cursor.as_deref().map(|at| cursor::decode(&scope, at, |index| index.parse().ok())).transpose()?;

        let total = self.workspace.summary(id)?.iteration_count();
        let session = self.workspace.load_session(id)?;
        let upper = before.unwrap_or(total).min(total);
        let lost = |lower: u32| -> Vec<u32> {
            (lower..upper).filter(|index| !session.iterations.contains_key(index)).take(MAX_LOST).collect()
        };
        let mut list = IterationList {
            session_id: id,
            iterations: Vec::new(),
            total_iterations: total,
            returned_count: 0,
            next_cursor: None,
            lost: lost(0),
        };
        let mut page = PageRows::new(limit, self.reply_bytes, &list);
        let mut lower = 0;
        for (&index, state) in session.iterations.range(..upper).rev() {
            let images = request.include_images.then(|| self.image_views(id.iteration(index), &state.iteration.images));
            if !page.push(row(id.iteration(index), state, images)) {
                lower = index.saturating_add(1);
                list.next_cursor = Some(cursor::encode(&scope, &lower.to_string()));
                break;
            }
        }
        page.rows.reverse();
        list.lost = lost(lower);
        list.returned_count = u32::try_from(page.rows.len()).unwrap_or(u32::MAX);
        list.iterations = page.rows;
        Ok(list)
    }
}

/// The maximum number of lost indexes on a page; an audit names the events.
const MAX_LOST: usize = 200;
/// The maximum size of a prompt in a row: most fit, and a page has space for dozens of long ones.
const PROMPT_BYTES: usize = 1000;
/// The maximum size of a message in a row.
const MESSAGE_BYTES: usize = 300;
/// The maximum size of a name in a row. Recorded names are shorter, but imported ones may not be.
const NAME_BYTES: usize = 1024;

fn row(id: IterationId, state: &IterationState, images: Option<Vec<ImageView>>) -> IterationRow {
    let iteration = &state.iteration;
    let before = id.index.checked_sub(1).map(|index| id.session.iteration(index));
    let cut = limits::clipped(&iteration.recipe.prompt, PROMPT_BYTES);
    IterationRow {
        index: id.index,
        prompt_truncated: cut.is_some(),
        prompt: cut.unwrap_or_else(|| iteration.recipe.prompt.clone()),
        timestamp: iteration.created_at,
        outcome: Some(iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded),
        message: message(iteration),
        parent: iteration.parent.filter(|parent| Some(*parent) != before),
        no_parent: iteration.parent.is_none() && before.is_some(),
        rating: state.annotation.rating,
        metadata: metadata(iteration),
        images,
    }
}

/// Returns the beginning of the provider's message if the attempt did not succeed.
pub(super) fn message(iteration: &Iteration) -> Option<String> {
    let text = iteration.outcome.message.clone().filter(|_| iteration.outcome.status != OutcomeStatus::Succeeded);
    text.map(|mut text| {
        limits::clip(&mut text, MESSAGE_BYTES);
        text
    })
}

/// Returns what is known about how an iteration was made.
pub(super) fn metadata(iteration: &Iteration) -> Metadata {
    let Iteration { recipe, outcome, images, .. } = iteration;
    let name = |name: &Option<String>| {
        let mut name = name.clone()?;
        limits::clip(&mut name, NAME_BYTES);
        Some(name)
    };
    // If the requested size is unknown, use the size of the result.
    let made = images.first();
    let mut cost = outcome.cost.clone();
    if let Some(cost) = &mut cost {
        limits::clip(&mut cost.currency, NAME_BYTES);
    }
    Metadata {
        width: recipe.width.or_else(|| made?.width),
        height: recipe.height.or_else(|| made?.height),
        steps: recipe.steps,
        guidance_scale: recipe.guidance_scale,
        sampler: name(&recipe.sampler),
        model: name(&recipe.model),
        seed: recipe.seed,
        generation_time_ms: outcome.generation_time_ms,
        cost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Actor, Annotation, Outcome, Recipe};

    fn state(prompt: &str, parent: Option<&str>) -> IterationState {
        IterationState {
            iteration: Iteration {
                created_at: Timestamp::from_millis(1_765_464_322_456).unwrap(),
                recipe: Recipe { prompt: prompt.to_owned(), seed: Some(Seed(u64::MAX)), ..Recipe::default() },
                outcome: Outcome::default(),
                images: Vec::new(),
                parent: parent.map(|parent| parent.parse().unwrap()),
                parent_reason: None,
                likely_parent: None,
            },
            recorded_at: Timestamp::from_millis(0).unwrap(),
            recorded_by: Actor { client: String::new(), user: String::new() },
            annotation: Annotation::default(),
        }
    }

    fn shown(state: &IterationState) -> String {
        serde_json::to_string(&row("session-2025-12-11-001#3".parse().unwrap(), state, None)).unwrap()
    }

    #[test]
    fn a_row_omits_default_values() {
        let plain = r#"{"index":3,"prompt":"a cat","timestamp":"2025-12-11T14:45:22.456Z","metadata":{"seed":"18446744073709551615"}}"#;
        assert_eq!(shown(&state("a cat", Some("session-2025-12-11-001#2"))), plain);
        assert!(shown(&state("a cat", None)).contains(r#""noParent":true"#));

        let mut branch = state("a cat", Some("session-2025-12-11-001#0"));
        branch.iteration.outcome.status = OutcomeStatus::Refused;
        branch.annotation.rating = Some(4);
        assert!(shown(&branch).contains(
            r#""timestamp":"2025-12-11T14:45:22.456Z","outcome":"refused","parent":"session-2025-12-11-001#0","rating":4,"metadata""#
        ));
    }

    #[test]
    fn a_long_prompt_is_truncated_and_marked() {
        let long = shown(&state(&"\"猫\" ".repeat(1000), None));
        assert!(long.contains(r#"…","promptTruncated":true,"#), "{long}");
        assert!(long.len() < PROMPT_BYTES + 200, "{}", long.len());
    }
}
