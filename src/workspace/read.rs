//! Reads iterations and sessions, and resolves references.

use crate::model::{
    ExactReference, Head, IterationId, IterationState, Order, Position, Reference, Session, SessionChoice, SessionId,
    Status, Summary,
};
use crate::store::Detail;

use super::{Error, Workspace};

impl Workspace {
    /// Returns the iteration that a reference identifies, or that contains the image it identifies. The iteration was
    /// recorded, but may since have been lost to damage.
    pub fn resolve(&self, reference: Reference) -> Result<IterationId, Error> {
        Ok(self.resolve_exactly(reference)?.iteration)
    }

    /// Returns the iteration that a reference identifies, and the number of the image if it names one. That image
    /// exists.
    pub fn resolve_exactly(&self, reference: Reference) -> Result<ExactReference, Error> {
        let iteration = self.resolve_iteration(reference)?;
        if let Some(number) = reference.image {
            let count = self.brief_state(iteration)?.iteration.images.len();
            if usize::try_from(number).map_or(true, |number| number >= count) {
                return Err(Error::ImageNotFound { iteration, number, count });
            }
        }
        Ok(ExactReference { iteration, image: reference.image })
    }

    fn resolve_iteration(&self, reference: Reference) -> Result<IterationId, Error> {
        let summary = match reference.session {
            SessionChoice::Id(id) => self.summary(id)?,
            SessionChoice::MostRecent => self.most_recent_active()?,
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

    /// Returns the summary of a session. Fails if all of its iterations were lost to damage.
    pub fn summary(&self, id: SessionId) -> Result<Summary, Error> {
        self.head(id)?.summary().ok_or(Error::SessionLost(id))
    }

    /// Returns one iteration with its full recipe and its annotations, without reading the rest of its session.
    pub fn state(&self, id: IterationId) -> Result<IterationState, Error> {
        self.point_read(id, Detail::Full)
    }

    /// Returns one iteration without large parameters, and without reading the rest of its session.
    pub fn brief_state(&self, id: IterationId) -> Result<IterationState, Error> {
        self.point_read(id, Detail::Brief)
    }

    /// Returns the iterations, in any session, whose parent is this one.
    pub fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Ok(self.log.children(id)?)
    }

    /// Returns a session with all its iterations, without large parameters.
    pub fn load_session(&self, id: SessionId) -> Result<Session, Error> {
        Session::fold(self.log.events(id, Detail::Brief)?).ok_or(Error::SessionNotFound(id))
    }

    /// Returns the head of a session, which must exist.
    pub(crate) fn head(&self, id: SessionId) -> Result<Head, Error> {
        self.log.head(id)?.ok_or(Error::SessionNotFound(id))
    }

    /// Returns the most recently modified session that is not archived.
    pub(crate) fn most_recent_active(&self) -> Result<Summary, Error> {
        match self.most_recent(Status::Active)? {
            Some(summary) => Ok(summary),
            None if self.most_recent(Status::All)?.is_some() => Err(Error::AllArchived),
            None => Err(Error::NoSessions),
        }
    }

    /// Returns the most recently modified session with this status.
    pub(crate) fn most_recent(&self, status: Status) -> Result<Option<Summary>, Error> {
        let newest = self.log.page(status, Order::Recent, None, 1)?;
        Ok(newest.first().map(|summary| (**summary).clone()))
    }

    /// Calls `each` with every session, ordered by day and number, holding a few ids in memory at a time.
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

    fn point_read(&self, id: IterationId, detail: Detail) -> Result<IterationState, Error> {
        let state = self.log.iteration(id, detail)?.map_or_else(|| Err(self.missing(id)?), Ok)?;
        state.iteration.images.iter().for_each(|image| self.images.remember(image));
        Ok(state)
    }

    /// Returns why an iteration is not in its session: it was never recorded, or it was lost to damage.
    fn missing(&self, id: IterationId) -> Result<Error, Error> {
        let last = self.summary(id.session)?.current_iteration_index();
        if id.index > last {
            return Ok(Error::IterationNotFound { session: id.session, index: id.index, last });
        }
        let iterations = self.load_session(id.session)?.iterations;
        let nearest = iterations.range(..id.index).next_back().or_else(|| iterations.iter().next());
        let nearest = nearest.map(|(index, _)| id.session.iteration(*index));
        Ok(Error::IterationLost { iteration: id, nearest })
    }
}

/// The number of ids read at once.
const ID_CHUNK: usize = 512;
