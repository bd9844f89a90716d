//! `archive` and `restore`: put a session away, and take it out again. Nothing is ever deleted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::iteration::{MAX_NOTE_BYTES, check_text};
use crate::model::{Actor, Draft, EventBody, Refusal};
use crate::store::Target;

use super::{Error, SessionRow, Tracker, lookup};

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
        self.put_away(actor, request, true)
    }

    /// Takes a session out of the archive. Nothing happens when it is active already.
    pub fn restore(&self, actor: &Actor, request: &ArchiveRequest) -> Result<SessionRow, Error> {
        self.put_away(actor, request, false)
    }

    fn put_away(&self, actor: &Actor, request: &ArchiveRequest, archived: bool) -> Result<SessionRow, Error> {
        let id = lookup::session_id(&request.session_id)?;
        let reason = request.reason.clone().filter(|reason| !reason.trim().is_empty());
        if let Some(reason) = &reason {
            check_text("reason", reason, MAX_NOTE_BYTES)?;
        }
        let draft = if archived { Draft::Archive { reason } } else { Draft::Restore { reason } };
        let key = request.idempotency_key.as_deref();
        let batch = self.batch(actor, key, Target::Existing(id), vec![draft])?;
        let summary = self.summary(id)?;
        if summary.archived == archived {
            return SessionRow::new(&summary);
        }

        let key = batch.key.clone();
        let ack = self.store.append(batch)?;
        if ack.repeated {
            self.check_repeated(&ack, &key, Some(id), |events| {
                events.iter().any(|event| match event.body {
                    EventBody::Archived { .. } => archived,
                    EventBody::Restored { .. } => !archived,
                    _ => false,
                })
            })?;
        }
        SessionRow::new(&ack.head.summary().ok_or(Refusal::Gone(id))?)
    }
}
