//! `annotate`: rate, tag or note an iteration. Appended; the newest word counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, IterationId};

use super::{Error, Tracker};

/// What to say of an iteration. What is left out stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotateRequest {
    /// The iteration, such as `session-2025-12-11-001#3` or `latest`.
    pub reference: String,
    /// 1 (worst) to 5 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub rating: Option<u8>,
    /// The tags it has from now on, replacing those it had; an empty list removes them. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The note it has from now on; an empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Any text that is unique to this change: asking again with the same one changes nothing twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The newest word on an iteration; what was never said is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationView {
    /// 1 (worst) to 5 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The annotations of an iteration as they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationsView {
    /// The iteration.
    pub reference: IterationId,
    /// Its annotations now.
    pub annotations: AnnotationView,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Tracker {
    /// Rates, tags or notes an iteration.
    pub fn annotate(&self, actor: &Actor, request: &AnnotateRequest) -> Result<AnnotationsView, Error> {
        let _ = (actor, request);
        todo!()
    }
}
