//! The findings of checks and recoveries: faults of a session's chain, the state of both copies, and losses.

use serde::{Deserialize, Serialize};

use crate::model::{Event, SessionId, Timestamp};

/// A session's events and their faults.
#[derive(Clone, Debug)]
pub struct Trail {
    /// Every event that can be read, in order.
    pub events: Vec<Event>,
    /// The faults; empty if the chain holds in both copies.
    pub faults: Vec<Fault>,
}

/// A fault at one position of a session's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The sequence number.
    pub seq: u32,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// The kinds of faults in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The event is missing from both copies.
    Missing,
    /// The event refers to another predecessor than the actual one.
    Unlinked,
    /// The database's copy is missing or does not match its hash.
    DatabaseCopy,
    /// The journal's copy is missing or does not match its hash.
    JournalCopy,
    /// A long text of the event is missing or does not match its hash.
    Text,
}

/// The result of verifying the whole store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Bytes of journal read.
    pub journal_bytes: u64,
    /// Problems that can be repaired, one per line; empty if both copies are intact and agree.
    pub problems: Vec<String>,
    /// Recorded losses, one per line.
    pub lost: Vec<String>,
}

/// The report of a recovery, stored as `report.json` next to the quarantined files.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The directory under `quarantine/` that holds the quarantined files.
    pub name: String,
    /// When it happened.
    pub at: Timestamp,
    /// The causes.
    pub causes: Vec<String>,
    /// The number of events missing from every copy.
    pub lost_events: u64,
    /// Their positions, as far as known.
    pub losses: Vec<SessionLoss>,
    /// The number of events restored to the journal from the database.
    pub restored_to_journal: u64,
    /// The quarantined files, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// A summary in a sentence.
    pub message: String,
}

/// Events missing from every copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionLoss {
    /// The session, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The sequence numbers.
    pub seqs: Vec<u32>,
    /// The iterations among them, if known.
    pub iterations: Vec<u32>,
    /// The latest time before the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The earliest time after the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}
