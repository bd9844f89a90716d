//! `archive` and `restore`: put a session away, and take it out again. Nothing is ever deleted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Actor;

use super::{Error, SessionRow, Tracker};

/// Which session to archive or restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchiveRequest {
    /// The session's id, such as `session-2025-12-11-001`.
    pub session_id: String,
    /// Why, for the audit trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Any text that is unique to this change: asking again with the same one changes nothing twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl Tracker {
    /// Archives a session: it takes no more iterations. Nothing happens when it is archived already.
    pub fn archive(&self, actor: &Actor, request: &ArchiveRequest) -> Result<SessionRow, Error> {
        let _ = (actor, request);
        todo!()
    }

    /// Takes a session out of the archive. Nothing happens when it is active already.
    pub fn restore(&self, actor: &Actor, request: &ArchiveRequest) -> Result<SessionRow, Error> {
        let _ = (actor, request);
        todo!()
    }
}
