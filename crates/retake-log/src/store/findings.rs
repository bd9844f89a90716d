//! What checks and recoveries find: faults of a session's chain, the state of both copies, and what is lost.

use serde::{Deserialize, Serialize};

use crate::model::{Event, SessionId, Timestamp};

/// A session's events with what is wrong with them.
#[derive(Clone, Debug)]
pub struct Trail {
    /// Every event that can be read, in order.
    pub events: Vec<Event>,
    /// What is wrong: empty when the chain holds in both copies.
    pub faults: Vec<Fault>,
}

/// Something wrong at one place of a session's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The place.
    pub seq: u32,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What can be wrong at one place of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The event is gone from both copies.
    Missing,
    /// The event names another predecessor than the one there is.
    Unlinked,
    /// The database's copy is missing or does not match its hash.
    DatabaseCopy,
    /// The journal's copy is missing or does not match its hash.
    JournalCopy,
    /// A long text of the event is missing or does not match its hash.
    Text,
}

/// What a check of the whole store found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Sessions checked.
    pub sessions: u64,
    /// Events checked.
    pub events: u64,
    /// Bytes of journal read.
    pub journal_bytes: u64,
    /// What is wrong and can be repaired, each in one line; empty when both copies are whole and agree.
    pub problems: Vec<String>,
    /// What is on record as lost, each in one line.
    pub lost: Vec<String>,
}

/// What a recovery did, kept as `report.json` beside what it set aside.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// The directory under `quarantine/` that holds what was set aside.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// What was noticed.
    pub causes: Vec<String>,
    /// How many events are gone from every copy.
    pub lost_events: u64,
    /// Where they were, as far as is known.
    pub losses: Vec<SessionLoss>,
    /// Events put back into the journal from the database.
    pub restored_to_journal: u64,
    /// What was set aside, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// All of it in a sentence.
    pub message: String,
}

/// Events that are gone from every copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionLoss {
    /// The session, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The places in its chain.
    pub seqs: Vec<u32>,
    /// The iterations among them, where it is known.
    pub iterations: Vec<u32>,
    /// The latest time before the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// The earliest time after the gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}
