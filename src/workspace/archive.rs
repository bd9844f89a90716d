//! Archiving and restoring sessions. Nothing is ever deleted.

use crate::model::iteration::{MAX_NOTE_BYTES, check_text};
use crate::model::{Draft, EventBody, SessionId, Summary};
use crate::store::Target;

use super::writing::Author;
use super::{Error, Workspace};

impl Workspace {
    /// Archives a session, so that it accepts no more iterations. Does nothing if it is already archived.
    pub fn archive(&self, id: SessionId, reason: Option<&str>) -> Result<Summary, Error> {
        self.set_archived(id, true, reason, Author::default())
    }

    /// Restores an archived session. Does nothing if it is already active.
    pub fn restore(&self, id: SessionId, reason: Option<&str>) -> Result<Summary, Error> {
        self.set_archived(id, false, reason, Author::default())
    }

    /// Archives or restores a session on behalf of `author`.
    pub(crate) fn set_archived(
        &self,
        id: SessionId,
        archived: bool,
        reason: Option<&str>,
        author: Author,
    ) -> Result<Summary, Error> {
        let reason = reason.filter(|reason| !reason.trim().is_empty()).map(str::to_owned);
        if let Some(reason) = &reason {
            check_text("reason", reason, MAX_NOTE_BYTES)?;
        }
        let draft = if archived { Draft::Archive { reason } } else { Draft::Restore { reason } };
        let batch = self.batch(author, Target::Existing(id), vec![draft])?;
        let summary = self.summary(id)?;
        if summary.archived == archived {
            return Ok(summary);
        }
        let key = batch.key.clone();
        let ack = self.log.append(batch)?;
        if ack.repeated {
            self.check_repeated(&ack, &key, Some(id), |events| {
                events.iter().any(|event| match event.body {
                    EventBody::Archived { .. } => archived,
                    EventBody::Restored { .. } => !archived,
                    _ => false,
                })
            })?;
        }
        ack.head.summary().ok_or(Error::SessionLost(id))
    }
}
