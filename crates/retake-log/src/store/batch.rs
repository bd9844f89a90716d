//! Batches to append, their targets and acknowledgements.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, Draft, Head, SessionId, Timestamp};

/// A batch of events, appended atomically.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The session it goes to.
    pub target: Target,
    /// The number of iterations that the caller expects in the session; a mismatch is refused.
    pub expected_iterations: Option<u32>,
    /// The time of the events.
    pub at: Timestamp,
    /// The program and the user that append it.
    pub actor: Actor,
    /// The idempotency key: a second batch with the same key changes nothing and gets the same acknowledgement.
    pub key: String,
    /// The events, in order.
    pub drafts: Vec<Draft>,
}

/// The session a batch goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A new session on this day; its number is chosen in the same write.
    New(NaiveDate),
    /// An existing session.
    Existing(SessionId),
}

/// The acknowledgement of an append, which is durable by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// The session after the append (for a repeated key: its current state).
    pub head: Head,
    /// The index of the iteration that the batch recorded.
    pub index: Option<u32>,
    /// Whether the key was used before, so that nothing was written now.
    pub repeated: bool,
}
