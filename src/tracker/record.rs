//! `record`: one more iteration, in a session or as the first of a new one.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Actor, Cost, IterationId, Lora, OutcomeStatus, Seed};

use super::{Error, SessionRow, Tracker};

/// An iteration to record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordRequest {
    /// The prompt exactly as it was typed.
    pub prompt: String,
    /// The session to add to, such as `session-2025-12-11-001`. Leave it out to start a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The iteration it came from, in any session, as a reference such as `session-2025-12-11-001#3`. By default the
    /// one before it in the session. To go back to an earlier attempt, name that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The prompt as sent, when it was expanded or rewritten on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<String>,
    /// What the picture should not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model file's hash, as the generator writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_hash: Option<String>,
    /// The seed: a whole number from 0 to 18446744073709551615, as a number or, so that no digit is lost, as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The number of sampling steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// CFG or guidance scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// The sampler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The width asked for, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height asked for, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Denoising strength, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denoise: Option<f64>,
    /// LoRAs with their weights, in the order they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
    /// The provider or tool that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Every other parameter, kept as it is given.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// What came of it: `succeeded` (the default), `failed` or `refused`. Record failures too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// What the provider said, mostly when it failed or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// When the picture was made, such as `2025-12-11T14:45:22.456Z`; by default now. A new session's id gets this day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Its pictures: each a path, `{"path": …}`, or `{"data": base64, "mimeType": …}`. The bytes are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageInput>,
    /// A title for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// How many iterations you believe the session has: refused when someone else has added to it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_iteration_count: Option<u32>,
    /// Any text that is unique to this recording: asking again with the same one records nothing twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A picture to record: a path, `{"path": …}`, or `{"data": base64, "mimeType": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "an image is a path, {\"path\": …}, or {\"data\": base64, \"mimeType\": …}")]
pub enum ImageInput {
    /// The path of an image file.
    Path(String),
    /// An image file.
    File(ImageFile),
    /// The image itself.
    Data(ImageData),
}

/// An image file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageFile {
    /// The path of an image file.
    pub path: String,
}

/// An image in the request itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageData {
    /// The bytes of the image file, as base64.
    pub data: String,
    /// Its media type, such as `image/png`. Only a remark: the type is told from the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The new iteration.
    pub reference: IterationId,
    /// The row of its session as it stands now.
    pub session: SessionRow,
}

impl RecordRequest {
    /// Makes relative image paths absolute, for a request that another process will carry out.
    pub fn anchor(&mut self, dir: &Path) {
        let _ = dir;
        todo!()
    }
}

impl Tracker {
    /// Records an iteration. When this returns, it and its images are on the disk.
    pub fn record(&self, actor: &Actor, request: &RecordRequest) -> Result<Recorded, Error> {
        let _ = (actor, request);
        todo!()
    }
}
