//! `archive-session` and `restore-session`. Nothing is ever deleted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Api, Error, SessionRow};

/// The session to archive or restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchiveRequest {
    /// The session's id, such as `session-2025-12-11-001`, or `latest`.
    pub session_id: String,
    /// The reason, for the audit trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl Api<'_> {
    /// Archives a session, so that it accepts no more iterations. Does nothing if it is already archived.
    pub fn archive(&self, request: &ArchiveRequest) -> Result<SessionRow, Error> {
        self.set_archived(request, true)
    }

    /// Restores an archived session. Does nothing if it is already active.
    pub fn restore(&self, request: &ArchiveRequest) -> Result<SessionRow, Error> {
        self.set_archived(request, false)
    }

    fn set_archived(&self, request: &ArchiveRequest, archived: bool) -> Result<SessionRow, Error> {
        let id = self.session_id(&request.session_id)?;
        let author = self.author(request.idempotency_key.as_ref());
        self.row(&self.workspace.set_archived(id, archived, request.reason.as_deref(), author)?)
    }
}
