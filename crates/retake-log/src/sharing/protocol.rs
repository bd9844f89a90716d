//! The messages between a client and the owner, as plain values.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Event, EventBody, EventKind, IterationId, SessionId, Timestamp};
use crate::store::Error;

/// The protocol version after the greeting. Processes with different versions do not communicate.
pub(super) const PROTOCOL: u32 = 2;

/// The first frame in each direction, as JSON. Its format never changes, so that any two versions can identify each
/// other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) pid: u32,
}

impl Hello {
    pub(super) fn ours() -> Hello {
        Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
    }
}

/// A frame from a client.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// A call; see [`Call`](super::Call).
    Call {
        /// The number that its responses carry.
        id: u64,
        /// The name of the call.
        name: String,
        /// The encoded call.
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// A subscription to all events from now on, which ends with the connection.
    Follow,
}

/// A frame from the owner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Response {
    /// The encoded answer to a call.
    Answer {
        id: u64,
        #[serde(with = "serde_bytes")]
        body: Vec<u8>,
    },
    /// A call failed.
    Failed { id: u64, error: Error },
    /// A call is in progress. Sent at least once a second, which distinguishes a slow owner from one that is not
    /// running.
    Working { id: u64 },
    /// The progress of a call.
    Progress { id: u64, what: String, done: u64, total: u64 },
    /// The subscription has begun.
    Following,
    /// An event was acknowledged.
    Event(EventSummary),
    /// The owner is closing the workspace, and there will be no more events.
    Goodbye,
}

/// The process that owns a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerInfo {
    /// Its process id.
    pub pid: u32,
    /// Its version of Retake.
    pub version: String,
    /// The protocol it speaks.
    pub protocol: u32,
    /// When it became the owner.
    pub since: Timestamp,
    /// How many connections it has.
    #[serde(default)]
    pub clients: u32,
    /// The address it listens on; `None` if no socket could be created, so that no other process can participate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<PathBuf>,
}

/// A change in a workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// An event was acknowledged.
    Event(EventSummary),
    /// Events may have been missed because the owner changed.
    Lagged,
}

/// An event as subscribers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSummary {
    /// The session it belongs to.
    pub session: SessionId,
    /// Its place in the session's chain.
    pub seq: u32,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// The iteration it concerns.
    pub index: Option<u32>,
    /// The parent of a recorded iteration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent: Option<IterationId>,
}

impl From<&Event> for EventSummary {
    fn from(event: &Event) -> EventSummary {
        let (index, parent) = match &event.body {
            EventBody::Recorded { index, iteration } => (Some(*index), iteration.parent),
            EventBody::Annotated { index, .. } => (Some(*index), None),
            _ => (None, None),
        };
        let kind = event.body.kind();
        EventSummary { session: event.session, seq: event.seq, at: event.at, kind, index, parent }
    }
}
