//! What is appended and what comes of it: batches, their targets and acknowledgements.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::model::{Actor, Draft, Head, SessionId, Timestamp};

/// What to append, all or nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The session it goes to.
    pub target: Target,
    /// How many iterations the caller believes the session has; refused if it has another number.
    pub expected_iterations: Option<u32>,
    /// When it happens.
    pub at: Timestamp,
    /// The program and the person who append it.
    pub actor: Actor,
    /// The idempotency key: a second batch with the same key changes nothing and gets the first one's answer.
    pub key: String,
    /// What happens, in this order.
    pub drafts: Vec<Draft>,
}

/// The session a batch goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A new session of that day; its number is chosen in the same write.
    New(NaiveDate),
    /// This one.
    Existing(SessionId),
}

/// The acknowledgement of an append, which is on the disk by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ack {
    /// The session as it stands (for a repeated key: as it stands now).
    pub head: Head,
    /// The index of the iteration that the batch recorded.
    pub index: Option<u32>,
    /// Whether this key had been seen before, so that nothing was written now.
    pub repeated: bool,
}
