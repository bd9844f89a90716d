//! `iterations`: the newest iterations of one session, in ascending order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Cost, IterationId, OutcomeStatus, Seed, SessionId, Timestamp};

use super::{Error, ImageView, Tracker};

/// Which iterations to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IterationsRequest {
    /// The session's id, such as `session-2025-12-11-001`.
    pub session_id: String,
    /// At most this many, the newest ones (default 200, at most 1000). A page may hold fewer; `nextCursor` says whether
    /// there are older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before: leads to older iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether each row also names its images.
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
    /// How many iterations the session has in all.
    pub total_iterations: u32,
    /// How many this page holds.
    pub returned_count: u32,
    /// Present when there are older ones: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Indexes within this page's range that were lost to damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
}

/// An iteration in a list: enough to choose by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationRow {
    /// Its index in the session, from 0.
    pub index: u32,
    /// The prompt as typed, cut short when it is long.
    pub prompt: String,
    /// Present and true when `prompt` was cut: `get-iteration` has more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_truncated: bool,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// Present when the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// The iteration it came from, present when that is not the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// Its rating, 1 to 5, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// What is known of how it was made.
    pub metadata: Metadata,
    /// Its images, when `includeImages` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<ImageView>>,
}

/// What is known of how an iteration was made; what is unknown is absent.
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

impl Tracker {
    /// The newest iterations of a session, a page at a time.
    pub fn iterations(&self, request: &IterationsRequest) -> Result<IterationList, Error> {
        let _ = request;
        todo!()
    }
}
