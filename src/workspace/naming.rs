//! Renames a session: sets its title and its project.

use crate::model::iteration::check_name;
use crate::model::{Actor, Draft, EventBody, Head, SessionId, Summary};
use crate::store::Target;

use super::writing::Author;
use super::{Error, Workspace};

/// A change to the title or project of a session, written by [`commit`](Naming::commit). Fields that are not set stay
/// unchanged.
#[must_use = "nothing is written before `commit`"]
pub struct Naming<'a> {
    workspace: &'a Workspace,
    id: SessionId,
    title: Option<String>,
    project: Option<String>,
    author: Author,
}

impl Workspace {
    /// Prepares a change to the title or project of a session.
    pub fn name_session(&self, id: SessionId) -> Naming<'_> {
        Naming { workspace: self, id, title: None, project: None, author: Author::default() }
    }
}

impl<'a> Naming<'a> {
    /// Sets the title; an empty text removes it.
    pub fn title(mut self, title: impl Into<String>) -> Naming<'a> {
        self.title = Some(title.into());
        self
    }

    /// Sets the project; an empty text removes it.
    pub fn project(mut self, project: impl Into<String>) -> Naming<'a> {
        self.project = Some(project.into());
        self
    }

    /// Sets the idempotency key: a retry with the same key is applied only once.
    pub fn key(mut self, key: impl Into<String>) -> Naming<'a> {
        self.author.key = Some(key.into());
        self
    }

    /// Sets the actor; by default the one the workspace was opened with.
    pub fn actor(mut self, actor: &Actor) -> Naming<'a> {
        self.author.actor = Some(actor.clone());
        self
    }

    /// Sets the actor and the idempotency key.
    #[cfg(feature = "mcp")]
    pub(crate) fn author(mut self, author: Author) -> Naming<'a> {
        self.author = author;
        self
    }

    /// Writes the change and returns the current summary. Writes nothing if there is no change. An archived session can
    /// be renamed too, since that does not change its iterations.
    pub fn commit(self) -> Result<Summary, Error> {
        let Naming { workspace, id, title, project, author } = self;
        let (title, project) = (name("title", title)?, name("project", project)?);
        if title.is_none() && project.is_none() {
            return Err(Error::NothingToName);
        }
        let head = workspace.head(id)?;
        let is_retry = workspace.has_key(id, author.key.as_deref())?;
        let draft = Draft::Title { title: title.clone(), project: project.clone() };
        let batch = workspace.batch(author, Target::Existing(id), vec![draft])?;
        if !is_retry && is_named(&head, title.as_deref(), project.as_deref()) {
            return head.summary().ok_or(Error::SessionLost(id));
        }
        let key = batch.key.clone();
        let ack = workspace.log.append(batch)?;
        if ack.repeated {
            let wanted = EventBody::Titled { title, project };
            workspace.check_repeated(&ack, &key, Some(id), |events| events.iter().any(|event| event.body == wanted))?;
        }
        ack.head.summary().ok_or(Error::SessionLost(id))
    }
}

/// Checks a name, and reduces a blank one to an empty text, which removes it.
fn name(field: &'static str, name: Option<String>) -> Result<Option<String>, Error> {
    match name {
        Some(name) if name.trim().is_empty() => Ok(Some(String::new())),
        Some(name) => {
            check_name(field, &name)?;
            Ok(Some(name))
        }
        None => Ok(None),
    }
}

/// Returns whether a session already has these names.
fn is_named(head: &Head, title: Option<&str>, project: Option<&str>) -> bool {
    let has = |present: Option<&str>, wanted: Option<&str>| wanted.is_none_or(|wanted| present.unwrap_or("") == wanted);
    has(head.title.as_deref(), title) && has(head.project.as_deref(), project)
}
