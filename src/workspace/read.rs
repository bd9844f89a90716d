//! Reading: from a reference to an iteration, one iteration at a time or a whole session.

use crate::model::{
    Event, EventBody, Head, IterationId, IterationState, Order, Position, Reference, Session, SessionChoice, SessionId,
    Status, Summary,
};
use crate::store::Detail;

use super::{Error, Workspace};

impl Workspace {
    /// Returns the iteration that a reference stands for. It was recorded once, though damage may have taken it since.
    pub fn resolve(&self, reference: Reference) -> Result<IterationId, Error> {
        let summary = match reference.session {
            SessionChoice::Id(id) => self.summary(id)?,
            SessionChoice::MostRecent => self.most_recent(Status::All)?.ok_or(Error::NoSessions)?,
        };
        let last = summary.current_iteration_index();
        let index = match reference.position {
            Position::Index(index) => index,
            Position::First => 0,
            Position::Unsaid | Position::Latest => last,
        };
        if index > last {
            return Err(Error::IterationNotFound { session: summary.id, index, last });
        }
        Ok(summary.id.iteration(index))
    }

    /// Returns the summary of a session. Fails if damage left none of its iterations.
    pub fn summary(&self, id: SessionId) -> Result<Summary, Error> {
        self.head(id)?.summary().ok_or(Error::SessionLost(id))
    }

    /// Returns one iteration with its whole recipe and its annotations.
    ///
    /// Only this iteration's parameters are read: those of a long session together can be larger than memory.
    pub fn state(&self, id: IterationId) -> Result<IterationState, Error> {
        let events = self.log.events(id.session, Detail::Brief)?;
        let seq = events.iter().find(|event| is_recording_of(event, id.index)).map(|event| event.seq);
        let mut state = self.take_iteration(id, Session::fold(events))?;
        let whole = seq.map(|seq| self.log.event(id.session, seq, Detail::Full)).transpose()?.flatten();
        if let Some(Event { body: EventBody::Recorded { iteration, .. }, .. }) = whole {
            state.iteration = *iteration;
        }
        state.iteration.images.iter().for_each(|image| self.images.remember(image));
        Ok(state)
    }

    /// Returns one iteration without its large parameters.
    pub fn brief_state(&self, id: IterationId) -> Result<IterationState, Error> {
        let state = self.take_iteration(id, Session::fold(self.log.events(id.session, Detail::Brief)?))?;
        state.iteration.images.iter().for_each(|image| self.images.remember(image));
        Ok(state)
    }

    /// Returns the iterations that name this one as their parent, in any session.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Ok(self.log.children(id)?)
    }

    /// Returns a session with all its iterations, without their large parameters.
    pub fn load_session(&self, id: SessionId) -> Result<Session, Error> {
        Session::fold(self.log.events(id, Detail::Brief)?).ok_or(Error::SessionNotFound(id))
    }

    /// Returns the head of a session, which must exist.
    pub(crate) fn head(&self, id: SessionId) -> Result<Head, Error> {
        self.log.head(id)?.ok_or(Error::SessionNotFound(id))
    }

    /// Returns the most recently modified session with that status.
    pub(crate) fn most_recent(&self, status: Status) -> Result<Option<Summary>, Error> {
        let newest = self.log.page(status, Order::Recent, None, 1)?;
        Ok(newest.first().map(|summary| (**summary).clone()))
    }

    /// Calls `each` with every session, by day and number, holding a few ids in memory at a time.
    pub(crate) fn each_session(&self, mut each: impl FnMut(SessionId) -> Result<(), Error>) -> Result<(), Error> {
        let mut after = None;
        loop {
            let ids = self.log.ids(after, ID_CHUNK)?;
            for id in &ids {
                each(*id)?;
            }
            match ids.last() {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }

    /// Takes an iteration out of its session, or says why it is not there: it never was, or damage took it.
    fn take_iteration(&self, id: IterationId, session: Option<Session>) -> Result<IterationState, Error> {
        let mut iterations = session.map(|session| session.iterations).unwrap_or_default();
        if let Some(state) = iterations.remove(&id.index) {
            return Ok(state);
        }
        let last = self.summary(id.session)?.current_iteration_index();
        if id.index > last {
            return Err(Error::IterationNotFound { session: id.session, index: id.index, last });
        }
        let nearest = iterations.range(..id.index).next_back().or_else(|| iterations.iter().next());
        let nearest = nearest.map(|(index, _)| id.session.iteration(*index));
        Err(Error::IterationLost { iteration: id, nearest })
    }
}

/// The number of ids read at once.
const ID_CHUNK: usize = 512;

fn is_recording_of(event: &Event, index: u32) -> bool {
    matches!(event.body, EventBody::Recorded { index: recorded, .. } if recorded == index)
}
