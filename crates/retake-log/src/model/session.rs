//! The fold from events to a session: its head (what the next event builds on), its summary (a row of the listing), and
//! the whole session with its iterations.
//!
//! The index rule lives here: a [`Summary`] is made from the last index, and both numbers it shows are computed from it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::event::{AnnotationChange, Draft, Event, EventBody};
use super::id::SessionId;
use super::iteration::Iteration;
use retake_recipe::Hash;
use retake_recipe::Timestamp;

/// What the next event of a session builds on, and all a listing needs. Folded one event at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session.
    pub id: SessionId,
    /// The place the next event takes.
    pub next_seq: u32,
    /// The hash of the last event.
    pub tip: Hash,
    /// The title.
    pub title: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// The iterations there are; none only while a new session is being put together, or after all of them were lost.
    pub span: Option<Span>,
    /// The last index ever given out, which recovery may know to be beyond the last iteration there is.
    pub last_index: Option<u32>,
}

/// From when to when a session's work lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When its first iteration was made.
    pub created_at: Timestamp,
    /// When its latest iteration was made or annotated; never goes back.
    pub last_modified_at: Timestamp,
}

/// A row of the listing. Only made by [`Head::summary`], so it always has at least one iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// When its first iteration was made.
    pub created_at: Timestamp,
    /// When its latest iteration was made or annotated.
    pub last_modified_at: Timestamp,
    /// The title.
    pub title: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    last_index: u32,
}

/// Why a session does not take a draft.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// There is no such iteration in the session.
    #[error("{id} has no iteration {index}: its last is {last}")]
    NoIteration {
        /// The session.
        id: SessionId,
        /// What was asked for.
        index: u32,
        /// Its last index.
        last: u32,
    },
    /// The session is archived and takes no more iterations.
    #[error("{0} is archived")]
    Archived(SessionId),
    /// The session has another number of iterations than the caller built on.
    #[error("{id} has {actual} iterations, not {expected}")]
    Count {
        /// The session.
        id: SessionId,
        /// What the caller expected.
        expected: u32,
        /// What there are.
        actual: u32,
    },
    /// All iterations of the session were lost to damage.
    #[error("all iterations of {0} were lost to damage")]
    Gone(SessionId),
    /// The session is full: an index or a place in the chain would not fit.
    #[error("{0} is full")]
    Full(SessionId),
}

impl Head {
    /// The head of a session to which nothing has happened yet.
    pub fn new(id: SessionId) -> Head {
        Head {
            id,
            next_seq: 0,
            tip: Hash::NONE,
            title: None,
            project: None,
            archived: false,
            span: None,
            last_index: None,
        }
    }

    /// The row of the listing; none when there is no iteration to show.
    pub fn summary(&self) -> Option<Summary> {
        let span = self.span?;
        Some(Summary {
            id: self.id,
            created_at: span.created_at,
            last_modified_at: span.last_modified_at,
            title: self.title.clone(),
            project: self.project.clone(),
            archived: self.archived,
            last_index: self.last_index?,
        })
    }

    /// Whether the session takes this draft, and what event it becomes.
    pub fn place(&self, draft: Draft) -> Result<EventBody, Refusal> {
        if self.next_seq == u32::MAX {
            return Err(Refusal::Full(self.id));
        }
        let existing = || self.summary().ok_or(Refusal::Gone(self.id));
        Ok(match draft {
            Draft::Start { title, project } => EventBody::Started { title, project },
            Draft::Record(mut iteration) => {
                let index = self.next_index()?;
                if iteration.parent.is_none() {
                    iteration.parent = self.last_index.map(|last| self.id.iteration(last));
                }
                EventBody::Recorded { index, iteration }
            }
            Draft::BringIn(iteration) => EventBody::Recorded { index: self.next_index()?, iteration },
            Draft::Annotate { index, change } => {
                let last = existing()?.last_index;
                if index > last {
                    return Err(Refusal::NoIteration { id: self.id, index, last });
                }
                EventBody::Annotated { index, change }
            }
            Draft::Title { title, project } => EventBody::Titled { title, project },
            Draft::Archive { reason } => {
                existing()?;
                EventBody::Archived { reason }
            }
            Draft::Restore { reason } => {
                existing()?;
                EventBody::Restored { reason }
            }
            Draft::Lose(loss) => EventBody::Lost(loss),
        })
    }

    /// The index that the next iteration gets.
    fn next_index(&self) -> Result<u32, Refusal> {
        match self.last_index {
            _ if self.archived => Err(Refusal::Archived(self.id)),
            Some(last) => last.checked_add(1).ok_or(Refusal::Full(self.id)),
            None => Ok(0),
        }
    }

    /// The head after this event.
    pub fn advance(&mut self, event: &Event) {
        self.next_seq = event.seq.saturating_add(1);
        self.tip = event.hash;
        match &event.body {
            EventBody::Started { title, project } => {
                self.title.clone_from(title);
                self.project.clone_from(project);
            }
            EventBody::Recorded { index, iteration } => {
                self.last_index = self.last_index.max(Some(*index));
                self.touch(iteration.created_at);
            }
            EventBody::Annotated { .. } => {
                if self.span.is_some() {
                    self.touch(event.at);
                }
            }
            EventBody::Titled { title, project } => {
                if title.is_some() {
                    self.title.clone_from(title);
                }
                if project.is_some() {
                    self.project.clone_from(project);
                }
            }
            EventBody::Archived { .. } => self.archived = true,
            EventBody::Restored { .. } => self.archived = false,
            EventBody::Lost(loss) => self.last_index = self.last_index.max(loss.last_index),
            EventBody::Unknown { .. } => {}
        }
    }

    fn touch(&mut self, at: Timestamp) {
        let span = self.span.get_or_insert(Span { created_at: at, last_modified_at: at });
        span.last_modified_at = span.last_modified_at.max(at);
    }
}

impl Summary {
    /// How many iterations were ever recorded.
    pub fn iteration_count(&self) -> u32 {
        self.last_index.saturating_add(1)
    }

    /// The index of the last one: always one less than the count.
    pub fn current_iteration_index(&self) -> u32 {
        self.iteration_count() - 1
    }
}

/// A session with all its iterations, folded from all its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Where it stands.
    pub head: Head,
    /// Its iterations by index. An index that is missing below the last was lost to damage.
    pub iterations: BTreeMap<u32, IterationState>,
    /// The places in the chain that are known to be lost.
    pub lost: BTreeSet<u32>,
}

/// An iteration as it stands, with what was said of it since.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationState {
    /// What was recorded.
    pub iteration: Iteration,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Who recorded it.
    pub recorded_by: super::event::Actor,
    /// What was said of it.
    pub annotation: Annotation,
}

/// The newest word on an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// 1 to 5.
    pub rating: Option<u8>,
    /// Tags.
    pub tags: Vec<String>,
    /// A note.
    pub note: Option<String>,
}

impl Annotation {
    /// The annotation after this change.
    pub fn apply(&mut self, change: &AnnotationChange) {
        if let Some(rating) = change.rating {
            self.rating = Some(rating);
        }
        if let Some(tags) = &change.tags {
            self.tags.clone_from(tags);
        }
        if let Some(note) = &change.note {
            self.note = (!note.is_empty()).then(|| note.clone());
        }
    }
}

impl Session {
    /// Folds a session's events, in the order of their places; none when there are none.
    pub fn fold(events: impl IntoIterator<Item = Event>) -> Option<Session> {
        let mut events = events.into_iter().peekable();
        let mut session =
            Session { head: Head::new(events.peek()?.session), iterations: BTreeMap::new(), lost: BTreeSet::new() };
        for event in events {
            session.head.advance(&event);
            match event.body {
                EventBody::Recorded { index, iteration } => {
                    let state = IterationState {
                        iteration: *iteration,
                        recorded_at: event.at,
                        recorded_by: event.actor,
                        annotation: Annotation::default(),
                    };
                    session.iterations.insert(index, state);
                }
                EventBody::Annotated { index, change } => {
                    if let Some(state) = session.iterations.get_mut(&index) {
                        state.annotation.apply(&change);
                    }
                }
                EventBody::Lost(loss) => session.lost.extend(loss.seqs),
                _ => {}
            }
        }
        Some(session)
    }
}
