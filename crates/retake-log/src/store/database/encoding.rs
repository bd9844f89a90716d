//! The encoding of the values in the trees.

use bincode::Options as _;
use serde::{Deserialize, Serialize};

use crate::model::session::SessionSpan;
use crate::model::{Hash, Head, SessionId, Timestamp};
use crate::store::Totals;
use crate::store::keys::{self, be_u32};
use crate::store::projection::KeyHit;

use super::error::DatabaseError;

#[derive(Serialize, Deserialize)]
struct StoredHead {
    next_seq: u32,
    tip: [u8; 32],
    title: Option<String>,
    project: Option<String>,
    archived: bool,
    span: Option<(i64, i64)>,
    last_index: Option<u32>,
}

pub(super) fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(1 << 20).reject_trailing_bytes()
}

pub(in crate::store) fn encode_head(head: &Head) -> Vec<u8> {
    let stored = StoredHead {
        next_seq: head.next_seq,
        tip: head.tip.0,
        title: head.title.clone(),
        project: head.project.clone(),
        archived: head.archived,
        span: head.span.map(|span| (span.created_at.millis(), span.last_modified_at.millis())),
        last_index: head.last_index,
    };
    // A head is a few hundred bytes; only the limit could make this fail.
    options().serialize(&stored).unwrap_or_default()
}

pub(in crate::store) fn decode_head(id: SessionId, bytes: &[u8]) -> Result<Head, DatabaseError> {
    let wrong = || DatabaseError::Inconsistent(format!("the head of {id} does not decode"));
    let stored: StoredHead = options().deserialize(bytes).map_err(|_| wrong())?;
    let span = match stored.span {
        Some((created, modified)) => Some(SessionSpan {
            created_at: Timestamp::from_millis(created).ok_or_else(wrong)?,
            last_modified_at: Timestamp::from_millis(modified).ok_or_else(wrong)?,
        }),
        None => None,
    };
    Ok(Head {
        id,
        next_seq: stored.next_seq,
        tip: Hash(stored.tip),
        title: stored.title,
        project: stored.project,
        archived: stored.archived,
        span,
        last_index: stored.last_index,
    })
}

pub(in crate::store) fn encode_hit(hit: KeyHit) -> Vec<u8> {
    let mut bytes = keys::numbered_key(hit.session, hit.seq).to_vec();
    bytes.extend_from_slice(&hit.index.map_or(0, |index| index.saturating_add(1)).to_be_bytes());
    bytes
}

pub(in crate::store) fn decode_hit(bytes: &[u8]) -> Option<KeyHit> {
    let (session, seq) = keys::numbered_of(bytes)?;
    Some(KeyHit { session, seq, index: be_u32(bytes, 12)?.checked_sub(1) })
}

pub(in crate::store) fn encode_totals(totals: Totals) -> Vec<u8> {
    [totals.sessions, totals.archived, totals.events].iter().flat_map(|count| count.to_le_bytes()).collect()
}

pub(super) fn decode_totals(bytes: &[u8]) -> Option<Totals> {
    let count = |at| keys::le_u64(bytes, at);
    Some(Totals { sessions: count(0)?, archived: count(8)?, events: count(16)? })
}
