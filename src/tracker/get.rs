//! `get`: one iteration with everything that is known of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, Cost, IterationId, IterationState, OutcomeStatus, Recipe, SessionId, Timestamp};

use super::{AnnotationView, Error, ImageView, SessionRow, Tracker};

/// Which iteration to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetRequest {
    /// The iteration: `session-2025-12-11-001#3`, `session-2025-12-11-001` (its last), `latest` (the last of the most
    /// recent session), or `#3`, `#first`, `#latest` of the most recent session.
    pub reference: String,
    /// Whether to send the full picture too, where it is small enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_image: bool,
}

/// One iteration with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationView {
    /// Its reference, exact: `session-2025-12-11-001#3`.
    pub reference: IterationId,
    /// Its session.
    pub session_id: SessionId,
    /// Its index there, from 0.
    pub index: u32,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// When it was recorded, which for work brought in is later (UTC).
    pub recorded_at: Timestamp,
    /// Who recorded it.
    pub recorded_by: Actor,
    /// What came of it.
    pub outcome: OutcomeView,
    /// All it takes to make it again.
    pub recipe: RecipeView,
    /// The iteration it came from, in any session; absent for one that came from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// The iterations that came from it, in any session.
    pub children: Vec<IterationId>,
    /// The newest rating, tags and note.
    pub annotations: AnnotationView,
    /// Its pictures.
    pub images: Vec<ImageView>,
    /// The row of its session, with title, project and whether it is archived.
    pub session: SessionRow,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    /// Whether it worked.
    pub status: OutcomeStatus,
    /// What the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// A recipe, and what was left out of it to keep the answer small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipeView {
    /// The recipe.
    #[serde(flatten)]
    pub recipe: Recipe,
    /// Present when `parameters` was left out because it is large: its size as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_omitted_bytes: Option<u64>,
}

impl Tracker {
    /// One iteration with everything that is known of it, cut to the size of an answer.
    pub fn get(&self, request: &GetRequest) -> Result<IterationView, Error> {
        let _ = request;
        todo!()
    }

    /// One iteration whole, however large its recipe is.
    pub fn whole(&self, reference: &str) -> Result<(IterationId, IterationState), Error> {
        let _ = reference;
        todo!()
    }
}
