//! Events: the only thing ever written. Everything else is computed from them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::iteration::Iteration;
use retake_recipe::Hash;
use retake_recipe::Timestamp;

/// Something that happened to a session, with when, who, and the hash of the event before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The session it happened to.
    pub session: SessionId,
    /// Its place in the session's chain, from 0, without gaps.
    pub seq: u32,
    /// When it was recorded.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// The idempotency key of the request it came from.
    pub key: String,
    /// What happened.
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

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum EventBody {
    /// The session began; always written together with its first iteration.
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
    /// An iteration was rated, tagged or noted.
    Annotated {
        /// Which one.
        index: u32,
        /// What changed.
        change: AnnotationChange,
    },
    /// The session got another title or project.
    Titled {
        /// The new title, if that changed.
        title: Option<String>,
        /// The new project, if that changed.
        project: Option<String>,
    },
    /// The session was archived.
    Archived {
        /// Why.
        reason: Option<String>,
    },
    /// The session was taken out of the archive.
    Restored {
        /// Why.
        reason: Option<String>,
    },
    /// Recovery found that events of this session are gone from every copy. Written so that the loss stays on record,
    /// the chain goes on, and no index or id is given out twice.
    Lost(Loss),
    /// A kind of event from a newer version: kept, shown as such, and skipped.
    Unknown {
        /// Its number.
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
    /// A session got another title or project.
    Titled,
    /// A session was archived.
    Archived,
    /// A session was restored from the archive.
    Restored,
    /// Events were found to be lost.
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

/// What recovery could not find anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The places in the chain that are gone.
    pub seqs: Vec<u32>,
    /// The last index that was ever given out, when the lost events were the last ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_index: Option<u32>,
    /// The latest time before the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The earliest time after the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}

/// A change to an annotation: what is absent stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnotationChange {
    /// 1 to 5.
    pub rating: Option<u8>,
    /// The new tags, replacing the old ones; empty removes them.
    pub tags: Option<Vec<String>>,
    /// The new note; empty removes it.
    pub note: Option<String>,
}

/// What someone wants to happen, before the session it happens to has given it an index and a place in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Draft {
    /// Begin a session; must be followed by `Record` in the same batch.
    Start {
        /// Its title.
        title: Option<String>,
        /// Its project.
        project: Option<String>,
    },
    /// Record an iteration. Without a parent it comes from the one before it.
    Record(Box<Iteration>),
    /// Rate, tag or note an iteration.
    Annotate {
        /// Which one.
        index: u32,
        /// What changes.
        change: AnnotationChange,
    },
    /// Give the session another title or project.
    Title {
        /// The new title, if that changes.
        title: Option<String>,
        /// The new project, if that changes.
        project: Option<String>,
    },
    /// Archive the session.
    Archive {
        /// Why.
        reason: Option<String>,
    },
    /// Take the session out of the archive.
    Restore {
        /// Why.
        reason: Option<String>,
    },
    /// Name a loss.
    Lose(Loss),
    /// Record an iteration that was made elsewhere, before. Its parent is the one that is given: without one it came from
    /// nothing that is known, and the one before it is not taken for its parent.
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

    /// Why it was done, where someone said.
    pub fn reason(&self) -> Option<&str> {
        match self {
            EventBody::Archived { reason } | EventBody::Restored { reason } => reason.as_deref(),
            _ => None,
        }
    }
}
