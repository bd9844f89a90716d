//! From what callers write to what it means: session ids, references, and the sessions behind them.

use crate::model::{
    Head, IterationId, IterationState, Position, Reference, Refusal, Session, SessionChoice, SessionId, Summary,
};
use crate::store::{Detail, Order, Status};

use super::{Error, ErrorKind, SessionRow, Tracker};

impl Tracker {
    /// The iteration that a reference means. It was recorded once, though damage may have taken it since.
    pub fn resolve(&self, reference: &str) -> Result<IterationId, Error> {
        let parsed: Reference = reference.parse().map_err(|error: crate::model::reference::NotAReference| {
            Error::invalid(
                error.to_string(),
                "write session-YYYY-MM-DD-NNN#INDEX, a session id for its last iteration, or latest",
            )
        })?;
        let summary = match parsed.session {
            SessionChoice::Id(id) => self.summary(id)?,
            SessionChoice::MostRecent => self.most_recent()?,
        };
        let last = summary.current_iteration_index();
        let index = match parsed.position {
            Position::Index(index) => index,
            Position::First => 0,
            Position::Unsaid | Position::Latest => last,
        };
        if index > last {
            return Err(Refusal::NoIteration { id: summary.id, index, last }.into());
        }
        Ok(summary.id.iteration(index))
    }

    /// The row of one session, by its id.
    pub fn session(&self, id: &str) -> Result<SessionRow, Error> {
        SessionRow::new(&self.summary(session_id(id)?)?)
    }

    /// Where a session stands, which must have been started.
    pub(super) fn head(&self, id: SessionId) -> Result<Head, Error> {
        self.log.head(id)?.ok_or_else(|| Refusal::NoSession(id).into())
    }

    /// A session's summary, of which damage must have left something.
    pub(super) fn summary(&self, id: SessionId) -> Result<Summary, Error> {
        self.head(id)?.summary().ok_or_else(|| Refusal::Gone(id).into())
    }

    /// A session with its iterations, without their large parameters.
    pub(super) fn folded(&self, id: SessionId) -> Result<Session, Error> {
        Session::fold(self.log.events(id, Detail::Brief)?).ok_or_else(|| Refusal::NoSession(id).into())
    }

    fn most_recent(&self) -> Result<Summary, Error> {
        let newest = self.log.page(Status::All, Order::Recent, None, 1)?;
        newest.first().map(|summary| (**summary).clone()).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                "the workspace has no sessions yet",
                "record an iteration without a sessionId: that starts one",
            )
        })
    }
}

/// A session id as callers write it.
pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    text.parse().map_err(|error: crate::model::id::ParseIdError| {
        let hint = match text.split_once('#') {
            Some((id, _)) if id.parse::<SessionId>().is_ok() => format!("leave the iteration out: {id}"),
            _ => "write it as it was given out, or list the sessions to see which there are".to_owned(),
        };
        Error::invalid(error.to_string(), hint)
    })
}

/// One iteration of a session, which damage may have taken.
pub(super) fn iteration_of(session: Option<Session>, id: IterationId) -> Result<IterationState, Error> {
    let mut iterations = session.map(|session| session.iterations).unwrap_or_default();
    iterations.remove(&id.index).ok_or_else(|| {
        let near = iterations.range(..id.index).next_back().or_else(|| iterations.iter().next());
        let near = near.map(|(index, _)| format!("the nearest that is left is {}; ", id.session.iteration(*index)));
        let hint = format!("{}audit {} to see what is known of it", near.unwrap_or_default(), id.session);
        Error::new(ErrorKind::Damaged, format!("{id} was lost to damage"), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_an_id_only() {
        assert!(session_id("session-2025-12-11-001").is_ok());
        let error = session_id("session-2025-12-11-001#3").unwrap_err();
        assert_eq!(error.hint, "leave the iteration out: session-2025-12-11-001");
        for text in ["", "latest", "session-2025-12-11-1", "../etc", "session-2025-02-30-001#x"] {
            let error = session_id(text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains("is not a session id"), "{error}");
        }
    }
}
