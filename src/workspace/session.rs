//! Handles for sessions and iterations, which users of the library keep between calls.

use crate::model::{Annotation, IterationId, IterationState, Recipe, SessionId, Summary, Timestamp};

use super::{Annotating, Error, Naming, Recording, Workspace};

/// A session that starts with the first iteration recorded through it.
#[derive(Clone)]
#[must_use = "a session starts with its first iteration: see `record`"]
pub struct NewSession<'a> {
    workspace: &'a Workspace,
    title: Option<String>,
    project: Option<String>,
}

/// A session in the state in which it was looked up.
#[derive(Clone)]
pub struct SessionHandle<'a> {
    workspace: &'a Workspace,
    summary: Summary,
}

/// An iteration that was just recorded or looked up.
#[derive(Clone)]
pub struct IterationHandle<'a> {
    workspace: &'a Workspace,
    id: IterationId,
    recipe: Recipe,
    session: Summary,
}

impl Workspace {
    /// Prepares a new session. Sessions are never empty, so it is created with its first iteration.
    pub fn start_session(&self) -> NewSession<'_> {
        NewSession { workspace: self, title: None, project: None }
    }

    /// Returns a session.
    pub fn session(&self, id: SessionId) -> Result<SessionHandle<'_>, Error> {
        Ok(SessionHandle { workspace: self, summary: self.summary(id)? })
    }

    /// Returns an iteration.
    pub fn iteration(&self, id: IterationId) -> Result<IterationHandle<'_>, Error> {
        let state = self.state(id)?;
        Ok(IterationHandle::new(self, id, state.iteration.recipe, self.summary(id.session)?))
    }
}

impl<'a> NewSession<'a> {
    /// Sets its title.
    pub fn title(mut self, title: impl Into<String>) -> NewSession<'a> {
        self.title = Some(title.into());
        self
    }

    /// Sets its project.
    pub fn project(mut self, project: impl Into<String>) -> NewSession<'a> {
        self.project = Some(project.into());
        self
    }

    /// Prepares the first iteration, which starts the session when it is committed.
    pub fn record(&self, recipe: Recipe) -> Recording<'a> {
        let mut recording = Recording::new(self.workspace, None, recipe);
        if let Some(title) = &self.title {
            recording = recording.title(title);
        }
        if let Some(project) = &self.project {
            recording = recording.project(project);
        }
        recording
    }
}

impl<'a> SessionHandle<'a> {
    /// Returns its id.
    pub fn id(&self) -> SessionId {
        self.summary.id
    }

    /// Returns its title, project, times and iteration count.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Prepares another iteration of this session.
    pub fn record(&self, recipe: Recipe) -> Recording<'a> {
        Recording::new(self.workspace, Some(self.summary.id), recipe)
    }

    /// Returns its iterations in ascending order. Lost iterations are left out.
    pub fn iterations(&self) -> Result<impl Iterator<Item = (IterationId, IterationState)> + use<>, Error> {
        let id = self.summary.id;
        let session = self.workspace.load_session(id)?;
        Ok(session.iterations.into_iter().map(move |(index, state)| (id.iteration(index), state)))
    }

    /// Prepares a change to its title or project.
    pub fn name(&self) -> Naming<'a> {
        self.workspace.name_session(self.summary.id)
    }

    /// Archives the session, so that it accepts no more iterations.
    pub fn archive(&self, reason: Option<&str>) -> Result<Summary, Error> {
        self.workspace.archive(self.summary.id, reason)
    }

    /// Restores the archived session.
    pub fn restore(&self, reason: Option<&str>) -> Result<Summary, Error> {
        self.workspace.restore(self.summary.id, reason)
    }
}

impl<'a> IterationHandle<'a> {
    pub(super) fn new(workspace: &'a Workspace, id: IterationId, recipe: Recipe, session: Summary) -> Self {
        IterationHandle { workspace, id, recipe, session }
    }

    /// Returns its id.
    pub fn id(&self) -> IterationId {
        self.id
    }

    /// Returns the id of its session.
    pub fn session(&self) -> SessionId {
        self.id.session
    }

    /// Returns the summary of its session.
    pub fn session_summary(&self) -> &Summary {
        &self.session
    }

    /// Returns its recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns when the image was made.
    pub fn created_at(&self) -> Result<Timestamp, Error> {
        Ok(self.workspace.brief_state(self.id)?.iteration.created_at)
    }

    /// Returns its rating, tags and note.
    pub fn annotation(&self) -> Result<Annotation, Error> {
        Ok(self.workspace.brief_state(self.id)?.annotation)
    }

    /// Returns the bytes of one of its images, counted from 0, exactly as they were recorded.
    pub fn image(&self, number: u32) -> Result<Vec<u8>, Error> {
        Ok(self.workspace.image(self.id, number)?.1)
    }

    /// Prepares a change to its rating, tags or note.
    pub fn annotate(&self) -> Annotating<'a> {
        self.workspace.annotate(self.id)
    }
}
