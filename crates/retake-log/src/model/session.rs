//! The fold from events to a session: its head (the state that the next event builds on), its summary (a row of the
//! listing), and the session with all its iterations.
//!
//! A [`Summary`] stores only the last index; the count and the current index are computed from it and cannot disagree.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::event::{AnnotationChange, Draft, Event, EventBody};
use super::id::SessionId;
use super::iteration::Iteration;
use retake_recipe::Hash;
use retake_recipe::Timestamp;

/// The state of a session that the next event builds on, and that a listing needs. Folded one event at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session.
    pub id: SessionId,
    /// The sequence number of the next event.
    pub next_seq: u32,
    /// The hash of the last event.
    pub tip: Hash,
    /// The title.
    pub title: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// The time span of its iterations; `None` only while a new session is being created, or after all of them were lost.
    pub span: Option<SessionSpan>,
    /// The last index ever assigned, which after a loss may be above that of the last iteration.
    pub last_index: Option<u32>,
}

/// The time span of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpan {
    /// The time of its first iteration.
    pub created_at: Timestamp,
    /// The time of its latest iteration or annotation; never goes backwards.
    pub last_modified_at: Timestamp,
}

/// A row of the listing. Only [`Head::summary`] creates one, so it always has at least one iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// The time of its first iteration.
    pub created_at: Timestamp,
    /// The time of its latest iteration or annotation.
    pub last_modified_at: Timestamp,
    /// The title.
    pub title: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    last_index: u32,
}

/// The reason why a session refuses a draft.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The session does not exist.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// The session has no such iteration.
    #[error("{id} has no iteration {index}: its last is {last}")]
    NoIteration {
        /// The session.
        id: SessionId,
        /// The requested index.
        index: u32,
        /// Its last index.
        last: u32,
    },
    /// The session is archived and accepts no iterations.
    #[error("{0} is archived")]
    Archived(SessionId),
    /// The session does not have the number of iterations that the caller expected.
    #[error("{id} has {actual} {}, not {expected}", if *actual == 1 { "iteration" } else { "iterations" })]
    Count {
        /// The session.
        id: SessionId,
        /// The expected number.
        expected: u32,
        /// The actual number.
        actual: u32,
    },
    /// All iterations of the session were lost to damage.
    #[error("all iterations of {0} were lost to damage")]
    Gone(SessionId),
    /// The session is full: no index or sequence number is left.
    #[error("{0} is full")]
    Full(SessionId),
}

impl Head {
    /// Creates the head of a session without events.
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

    /// Returns the row of the listing; `None` if the session has no iterations.
    pub fn summary(&self) -> Option<Summary> {
        self.clone().into_summary()
    }

    /// Converts it to the row of the listing; `None` if the session has no iterations.
    pub fn into_summary(self) -> Option<Summary> {
        let span = self.span?;
        Some(Summary {
            id: self.id,
            created_at: span.created_at,
            last_modified_at: span.last_modified_at,
            title: self.title,
            project: self.project,
            archived: self.archived,
            last_index: self.last_index?,
        })
    }

    /// Returns the event for a draft, or why the session refuses it.
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

    /// Returns the index of the next iteration.
    fn next_index(&self) -> Result<u32, Refusal> {
        match self.last_index {
            _ if self.archived => Err(Refusal::Archived(self.id)),
            Some(last) => last.checked_add(1).ok_or(Refusal::Full(self.id)),
            None => Ok(0),
        }
    }

    /// Applies an event.
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
                let not_empty = |name: &String| (!name.is_empty()).then(|| name.clone());
                if let Some(title) = title {
                    self.title = not_empty(title);
                }
                if let Some(project) = project {
                    self.project = not_empty(project);
                }
            }
            EventBody::Archived { .. } => self.archived = true,
            EventBody::Restored { .. } => self.archived = false,
            EventBody::Lost(loss) => self.last_index = self.last_index.max(loss.last_index),
            EventBody::Unknown { .. } => {}
        }
    }

    fn touch(&mut self, at: Timestamp) {
        let span = self.span.get_or_insert(SessionSpan { created_at: at, last_modified_at: at });
        span.last_modified_at = span.last_modified_at.max(at);
    }
}

impl Summary {
    /// Returns the number of iterations ever recorded.
    pub fn iteration_count(&self) -> u32 {
        self.last_index.saturating_add(1)
    }

    /// Returns the index of the last iteration, which is always one less than the count.
    pub fn current_iteration_index(&self) -> u32 {
        self.iteration_count() - 1
    }
}

/// A session with all its iterations, folded from all its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// The head after the last event.
    pub head: Head,
    /// The iterations by index. An index missing below the last one was lost to damage.
    pub iterations: BTreeMap<u32, IterationState>,
    /// The sequence numbers of events that are known to be lost.
    pub lost: BTreeSet<u32>,
}

/// An iteration with its current annotation.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationState {
    /// The iteration as it was recorded.
    pub iteration: Iteration,
    /// The time of recording.
    pub recorded_at: Timestamp,
    /// The actor who recorded it.
    pub recorded_by: super::event::Actor,
    /// The annotation.
    pub annotation: Annotation,
}

/// The latest rating, tags and note of an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// The rating, 1 to 5.
    pub rating: Option<u8>,
    /// The tags.
    pub tags: Vec<String>,
    /// The note.
    pub note: Option<String>,
}

impl Annotation {
    /// Applies a change.
    pub fn apply(&mut self, change: &AnnotationChange) {
        if let Some(rating) = change.rating {
            self.rating = (rating != AnnotationChange::NO_RATING).then_some(rating);
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
    /// Folds the events of a session in the order of their sequence numbers; `None` if there are none.
    pub fn fold(events: impl IntoIterator<Item = Event>) -> Option<Session> {
        let mut events = events.into_iter().peekable();
        let mut session =
            Session { head: Head::new(events.peek()?.session), iterations: BTreeMap::new(), lost: BTreeSet::new() };
        let mut present = BTreeSet::new();
        for event in events {
            session.head.advance(&event);
            // A carrier marks a record that it cannot read as lost at its own place.
            if !matches!(&event.body, EventBody::Lost(loss) if loss.seqs.contains(&event.seq)) {
                present.insert(event.seq);
            }
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
        // Events that were recorded as lost but recovered later are not lost.
        session.lost.retain(|seq| !present.contains(seq));
        Some(session)
    }
}
