//! `update-session`: sets the title and the project of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Api, Error, SessionRow};

/// The new title or project of a session. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateRequest {
    /// The session's id, such as `session-2025-12-11-001`, or `latest`.
    pub session_id: String,
    /// The title; an empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project that the session belongs to; an empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl Api<'_> {
    /// Sets the title or the project of a session.
    pub fn update_session(&self, request: &UpdateRequest) -> Result<SessionRow, Error> {
        let id = self.session_id(&request.session_id)?;
        let mut naming = self.workspace.name_session(id).author(self.author(request.idempotency_key.as_ref()));
        if let Some(title) = &request.title {
            naming = naming.title(title);
        }
        if let Some(project) = &request.project {
            naming = naming.project(project);
        }
        self.row(&naming.commit()?)
    }
}
