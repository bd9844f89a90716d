//! Records an iteration, in a session or as the first of a new one.

use std::path::Path;

use crate::model::iteration::check_optional_name;
use crate::model::{
    Actor, Cost, Draft, Event, EventBody, Head, Iteration, IterationId, Outcome, OutcomeStatus, Recipe, SessionId,
    Timestamp,
};
use crate::store::{Batch, Target};

use super::image_source::{self, ImageSource};
use super::writing::Author;
use super::{Error, IterationHandle, Workspace};

/// An iteration to be recorded, written by [`commit`](Recording::commit).
#[must_use = "nothing is recorded before `commit`"]
pub struct Recording<'a> {
    workspace: &'a Workspace,
    session: Option<SessionId>,
    recipe: Recipe,
    outcome: Outcome,
    parent: Option<IterationId>,
    created_at: Option<Timestamp>,
    images: Vec<ImageSource>,
    title: Option<String>,
    project: Option<String>,
    expected_iterations: Option<u32>,
    author: Author,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(workspace: &'a Workspace, session: Option<SessionId>, recipe: Recipe) -> Recording<'a> {
        Recording {
            workspace,
            session,
            recipe,
            outcome: Outcome::default(),
            parent: None,
            created_at: None,
            images: Vec::new(),
            title: None,
            project: None,
            expected_iterations: None,
            author: Author::default(),
        }
    }

    /// Adds an image file, whose bytes are copied.
    pub fn image(self, path: impl AsRef<Path>) -> Recording<'a> {
        self.images([ImageSource::File(path.as_ref().to_owned())])
    }

    /// Adds the bytes of an image file.
    pub fn image_bytes(self, bytes: &[u8]) -> Recording<'a> {
        self.images([ImageSource::Bytes(bytes.to_vec())])
    }

    /// Adds images.
    pub fn images(mut self, images: impl IntoIterator<Item = ImageSource>) -> Recording<'a> {
        self.images.extend(images);
        self
    }

    /// Sets the iteration it was derived from, in any session; by default the previous one of its session.
    pub fn parent(mut self, parent: IterationId) -> Recording<'a> {
        self.parent = Some(parent);
        self
    }

    /// Sets the outcome; by default success.
    pub fn outcome(mut self, outcome: Outcome) -> Recording<'a> {
        self.outcome = outcome;
        self
    }

    /// Marks the attempt as failed, with the provider's message.
    pub fn failed(mut self, message: impl Into<String>) -> Recording<'a> {
        (self.outcome.status, self.outcome.message) = (OutcomeStatus::Failed, Some(message.into()));
        self
    }

    /// Marks the attempt as refused, with the provider's message.
    pub fn refused(mut self, message: impl Into<String>) -> Recording<'a> {
        (self.outcome.status, self.outcome.message) = (OutcomeStatus::Refused, Some(message.into()));
        self
    }

    /// Sets the cost.
    pub fn cost(mut self, amount: f64, currency: impl Into<String>) -> Recording<'a> {
        self.outcome.cost = Some(Cost { amount, currency: currency.into() });
        self
    }

    /// Sets the time at which the image was made; by default now. A new session's id gets this day.
    pub fn created_at(mut self, time: Timestamp) -> Recording<'a> {
        self.created_at = Some(time);
        self
    }

    /// Sets the title of the session.
    pub fn title(mut self, title: impl Into<String>) -> Recording<'a> {
        self.title = Some(title.into());
        self
    }

    /// Sets the project of the session.
    pub fn project(mut self, project: impl Into<String>) -> Recording<'a> {
        self.project = Some(project.into());
        self
    }

    /// Fails with [`Error::CountMismatch`] unless the session has exactly this many iterations.
    pub fn expect_iterations(mut self, count: u32) -> Recording<'a> {
        self.expected_iterations = Some(count);
        self
    }

    /// Sets the idempotency key: a retry with the same key is recorded only once.
    pub fn key(mut self, key: impl Into<String>) -> Recording<'a> {
        self.author.key = Some(key.into());
        self
    }

    /// Sets the actor; by default the one the workspace was opened with.
    pub fn actor(mut self, actor: &Actor) -> Recording<'a> {
        self.author.actor = Some(actor.clone());
        self
    }

    /// Sets the actor and the idempotency key.
    #[cfg(feature = "mcp")]
    pub(crate) fn author(mut self, author: Author) -> Recording<'a> {
        self.author = author;
        self
    }

    /// Records the iteration. When this returns, it and its images are durable.
    pub fn commit(self) -> Result<IterationHandle<'a>, Error> {
        let workspace = self.workspace;
        let (mut iteration, head, mut batch) = self.check()?;
        image_source::check_all(&self.images)?;
        self.refuse_early(head.as_ref(), &batch)?;

        // Images must be durable before the event that refers to them.
        iteration.images = workspace.store_images(&self.images)?;
        batch.drafts.push(Draft::Record(Box::new(iteration.clone())));
        let key = batch.key.clone();
        let ack = workspace.log.append(batch)?;
        if ack.repeated {
            workspace.check_repeated(&ack, &key, self.session, |events| self.is_repeated_by(events, &iteration))?;
        }
        let id = ack.head.id;
        let summary = ack.head.summary().ok_or(Error::SessionLost(id))?;
        let index = ack.index.unwrap_or_else(|| summary.current_iteration_index());
        Ok(IterationHandle::new(workspace, id.iteration(index), iteration.recipe, summary))
    }

    /// Checks everything but the images.
    fn check(&self) -> Result<(Iteration, Option<Head>, Batch), Error> {
        let workspace = self.workspace;
        let now = workspace.now();
        let iteration = Iteration {
            created_at: self.created_at.map_or(Ok(now), |time| check_time(time, now))?,
            recipe: self.recipe.clone(),
            outcome: self.outcome.clone(),
            images: Vec::new(),
            parent: self.parent,
            parent_reason: None,
            likely_parent: None,
        };
        iteration.check()?;
        check_optional_name("title", self.title.as_deref())?;
        check_optional_name("project", self.project.as_deref())?;
        if self.session.is_none() && self.expected_iterations.is_some_and(|count| count > 0) {
            return Err(Error::CountOfNewSession);
        }
        let target = self.session.map_or(Target::New(iteration.created_at.day()), Target::Existing);
        let mut batch = workspace.batch(self.author.clone(), target, Vec::new())?;
        let head = self.session.map(|id| workspace.head(id)).transpose()?;
        batch.expected_iterations = self.expected_iterations.filter(|_| self.session.is_some());
        batch.drafts.extend(self.naming(head.as_ref()));
        Ok((iteration, head, batch))
    }

    /// Refuses what the store would refuse, before images are stored for nothing. A retry of a recorded request passes,
    /// since the store knows its result.
    fn refuse_early(&self, head: Option<&Head>, batch: &Batch) -> Result<(), Error> {
        let Some(head) = head else { return Ok(()) };
        let actual = head.last_index.map_or(0, |last| last.saturating_add(1));
        let refusal = match batch.expected_iterations {
            _ if head.archived => Error::Archived(head.id),
            Some(expected) if expected != actual => Error::CountMismatch { session: head.id, expected, actual },
            _ => return Ok(()),
        };
        if self.workspace.has_key(head.id, self.author.key.as_deref())? { Ok(()) } else { Err(refusal) }
    }

    /// Returns the draft that starts the session, or that changes its title or project if they differ.
    fn naming(&self, head: Option<&Head>) -> Option<Draft> {
        let Some(head) = head else {
            return Some(Draft::Start { title: self.title.clone(), project: self.project.clone() });
        };
        let title = self.title.clone().filter(|_| self.title != head.title);
        let project = self.project.clone().filter(|_| self.project != head.project);
        (title.is_some() || project.is_some()).then_some(Draft::Title { title, project })
    }

    /// Returns whether these events, written under the same key, match this recording.
    fn is_repeated_by(&self, events: &[Event], wanted: &Iteration) -> bool {
        let started = events.iter().any(|event| matches!(event.body, EventBody::Started { .. }));
        let hashes = |iteration: &Iteration| iteration.images.iter().map(|image| image.hash).collect::<Vec<_>>();
        started == self.session.is_none()
            && events.iter().any(|event| match &event.body {
                EventBody::Recorded { iteration, .. } => {
                    iteration.recipe == wanted.recipe
                        && iteration.outcome == wanted.outcome
                        && hashes(iteration) == hashes(wanted)
                        && (wanted.parent.is_none() || iteration.parent == wanted.parent)
                        && (self.created_at.is_none() || iteration.created_at == wanted.created_at)
                }
                _ => false,
            })
    }
}

/// How far an image's time may be ahead of our clock, since clocks and time zones differ.
const MAX_AHEAD_MILLIS: i64 = 24 * 60 * 60 * 1000;

fn check_time(time: Timestamp, now: Timestamp) -> Result<Timestamp, Error> {
    if time > now.plus_millis(MAX_AHEAD_MILLIS) {
        return Err(Error::InvalidField {
            field: "createdAt",
            problem: format!("is {time}, which is more than a day ahead of now, {now}"),
            hint: "pass the time at which the image was made, or leave it out".to_owned(),
        });
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_not_from_the_future() {
        let now: Timestamp = "2025-12-11T14:00:00.000Z".parse().unwrap();
        let check = |text: &str| check_time(text.parse().unwrap(), now);
        assert!(check("2025-12-12T13:59:59Z").is_ok(), "clocks differ");
        assert!(check("1999-01-01T00:00:00Z").is_ok(), "imported work");
        assert!(check("2025-12-12T14:00:01Z").unwrap_err().to_string().contains("more than a day ahead"));
    }
}
