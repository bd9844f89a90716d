//! Events: the only records ever written. Everything else is derived from them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::iteration::Iteration;
use retake_recipe::Hash;
use retake_recipe::Timestamp;

/// An event of a session, with its time, its actor and the hash of the previous event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The session.
    pub session: SessionId,
    /// Its sequence number within the session, from 0, without gaps.
    pub seq: u32,
    /// The time at which it was recorded.
    pub at: Timestamp,
    /// The actor.
    pub actor: Actor,
    /// The idempotency key of its request.
    pub key: String,
    /// The kind of event and its contents.
    pub body: EventBody,
    /// The hash of the session's previous event; [`Hash::NONE`] for the first.
    pub prev: Hash,
    /// The hash of this event's bytes on disk.
    pub hash: Hash,
}

/// Who did something: the program and the person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// The client program, such as `retake-cli 0.1.0` or an MCP client's name and version.
    pub client: String,
    /// The user it ran as.
    pub user: String,
}

/// The kind of an event and its contents.
#[derive(Clone, Debug, PartialEq)]
pub enum EventBody {
    /// The session was started; always written together with its first iteration.
    Started {
        /// Its title.
        title: Option<String>,
        /// Its project.
        project: Option<String>,
    },
    /// An iteration was recorded.
    Recorded {
        /// Its index in the session.
        index: u32,
        /// The iteration.
        iteration: Box<Iteration>,
    },
    /// An iteration was rated, tagged or given a note.
    Annotated {
        /// Its index.
        index: u32,
        /// The change.
        change: AnnotationChange,
    },
    /// The title or the project of the session was changed.
    Titled {
        /// The new title, if it changed; empty if it was removed.
        title: Option<String>,
        /// The new project, if it changed; empty if it was removed.
        project: Option<String>,
    },
    /// The session was archived.
    Archived {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// The archived session was restored.
    Restored {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// Recovery found that events of this session are missing from every copy. This is recorded so that the loss stays
    /// known, the chain continues, and no index or id is assigned twice.
    Lost(Loss),
    /// An event of a kind that only newer versions know: kept, shown as unknown, and skipped.
    Unknown {
        /// The number of its kind.
        kind: u16,
        /// The version of its payload.
        version: u16,
    },
}

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventKind {
    /// A session was started.
    Started,
    /// An iteration was recorded.
    Recorded,
    /// An iteration was annotated.
    Annotated,
    /// A session's title or project was changed.
    Titled,
    /// A session was archived.
    Archived,
    /// An archived session was restored.
    Restored,
    /// Events were lost.
    Lost,
    /// An event of a newer version.
    Unknown,
}

impl EventKind {
    /// Returns its name, the same in every face.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Started => "started",
            EventKind::Recorded => "recorded",
            EventKind::Annotated => "annotated",
            EventKind::Titled => "titled",
            EventKind::Archived => "archived",
            EventKind::Restored => "restored",
            EventKind::Lost => "lost",
            EventKind::Unknown => "unknown",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A gap in the chain of a session that recovery could not fill from any copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The sequence numbers of the lost events.
    pub seqs: Vec<u32>,
    /// The last index that was ever assigned, if the lost events were the last ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_index: Option<u32>,
    /// The latest time before the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The earliest time after the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}

/// A change to an annotation. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotationChange {
    /// The new rating, 1 to 5; [`NO_RATING`](Self::NO_RATING) removes it.
    pub rating: Option<u8>,
    /// The new tags, replacing the old ones; empty removes them.
    pub tags: Option<Vec<String>>,
    /// The new note; empty removes it.
    pub note: Option<String>,
}

impl AnnotationChange {
    /// The value of `rating` that removes a rating.
    pub const NO_RATING: u8 = 0;
}

/// An event to be appended, before its session assigns an index and a sequence number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Draft {
    /// Starts a session; must be followed by `Record` in the same batch.
    Start {
        /// Its title.
        title: Option<String>,
        /// Its project.
        project: Option<String>,
    },
    /// Records an iteration. Without a parent, the previous iteration of the session becomes its parent.
    Record(Box<Iteration>),
    /// Rates or tags an iteration, or gives it a note.
    Annotate {
        /// Its index.
        index: u32,
        /// The change.
        change: AnnotationChange,
    },
    /// Changes the title or the project of the session.
    Title {
        /// The new title, if it changes; empty removes it.
        title: Option<String>,
        /// The new project, if it changes; empty removes it.
        project: Option<String>,
    },
    /// Archives the session.
    Archive {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// Restores the archived session.
    Restore {
        /// The reason, if one was given.
        reason: Option<String>,
    },
    /// Records a loss.
    Lose(Loss),
    /// Records an imported iteration. Without a parent, its origin is unknown: the previous iteration does not become
    /// its parent.
    BringIn(Box<Iteration>),
}

impl EventBody {
    /// Returns the kind of event.
    pub fn kind(&self) -> EventKind {
        match self {
            EventBody::Started { .. } => EventKind::Started,
            EventBody::Recorded { .. } => EventKind::Recorded,
            EventBody::Annotated { .. } => EventKind::Annotated,
            EventBody::Titled { .. } => EventKind::Titled,
            EventBody::Archived { .. } => EventKind::Archived,
            EventBody::Restored { .. } => EventKind::Restored,
            EventBody::Lost(_) => EventKind::Lost,
            EventBody::Unknown { .. } => EventKind::Unknown,
        }
    }

    /// Returns the reason, if one was given.
    pub fn reason(&self) -> Option<&str> {
        match self {
            EventBody::Archived { reason } | EventBody::Restored { reason } => reason.as_deref(),
            _ => None,
        }
    }
}
