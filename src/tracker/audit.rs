//! `audit`: everything that ever happened to a session, and whether all of it checks out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, Hash, IterationId, SessionId, Timestamp};

use super::{Error, Tracker};

/// Which session to audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditRequest {
    /// The session's id, such as `session-2025-12-11-001`.
    pub session_id: String,
    /// At most this many events (default 200, at most 1000). A page may hold fewer; `nextCursor` says whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Everything that happened to a session, oldest first, a page at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    /// The session.
    pub session_id: SessionId,
    /// Its events, oldest first.
    pub events: Vec<AuditEvent>,
    /// How many events there are in all.
    pub total_events: u64,
    /// Whether every event of the session is there, unchanged, in both copies, and names the one before it.
    pub chain: ChainView,
    /// Whether the images of all its iterations are there, unchanged. Only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<ImagesCheck>,
    /// The places in the chain whose events were lost to damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// Present when there are more events: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One event of a session's trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// Its place in the chain, from 0.
    pub seq: u32,
    /// What happened: `started`, `recorded`, `annotated`, `titled`, `archived`, `restored`, `lost`, or `unknown` for an
    /// event of a newer version.
    pub kind: String,
    /// When it was recorded (UTC).
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// Why, where someone said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The iteration it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The hash of this event.
    pub hash: Hash,
    /// The hash of the event before it; zeros for the first.
    pub prev: Hash,
    /// What happened, in a few words.
    pub summary: String,
}

/// Whether a session's chain holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// Whether nothing is wrong with it.
    pub holds: bool,
    /// What is wrong, at most 50 of it.
    pub faults: Vec<ChainFault>,
    /// How many more faults there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub faults_omitted: u64,
}

/// Something wrong at one place of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainFault {
    /// The place.
    pub seq: u32,
    /// What is wrong there.
    pub what: String,
}

/// Whether a session's images are there, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagesCheck {
    /// How many were read and compared with their hash.
    pub checked: u64,
    /// Those whose file is gone, at most 50.
    pub missing: Vec<ImageFault>,
    /// Those whose file holds something else, at most 50.
    pub damaged: Vec<ImageFault>,
    /// How many more are missing or damaged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
}

/// An image that is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFault {
    /// The iteration it belongs to.
    pub reference: IterationId,
    /// The hash of the bytes that should be there.
    pub hash: Hash,
}

impl Tracker {
    /// Everything that happened to a session, and whether the chain and the images check out.
    pub fn audit(&self, request: &AuditRequest) -> Result<AuditView, Error> {
        let _ = request;
        todo!()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
