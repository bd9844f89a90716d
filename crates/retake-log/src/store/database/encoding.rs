//! The encoding of the values in the trees.

use bincode::Options as _;
use serde::{Deserialize, Serialize};

use crate::model::session::SessionSpan;
use crate::model::{Hash, Head, SessionId, Timestamp};
use crate::store::Totals;
use crate::store::keys::{self, be_u32};
use crate::store::projection::KeyHit;

use super::error::DatabaseError;

/// A session's head, after the next sequence number and the 32 bytes of its tip. Those are not fields here because
/// bincode decodes arrays byte by byte, which took a tenth of the time to read a page of the listing.
#[derive(Serialize, Deserialize)]
struct StoredHead {
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
        title: head.title.clone(),
        project: head.project.clone(),
        archived: head.archived,
        span: head.span.map(|span| (span.created_at.millis(), span.last_modified_at.millis())),
        last_index: head.last_index,
    };
    // A head is a few hundred bytes; only the limit could make this fail.
    let mut bytes = options().serialize(&head.next_seq).unwrap_or_default();
    bytes.extend_from_slice(&head.tip.0);
    bytes.extend(options().serialize(&stored).unwrap_or_default());
    bytes
}

pub(in crate::store) fn decode_head(id: SessionId, bytes: &[u8]) -> Result<Head, DatabaseError> {
    let wrong = || DatabaseError::Inconsistent(format!("the head of {id} does not decode"));
    let mut rest = bytes;
    let next_seq: u32 = options().deserialize_from(&mut rest).map_err(|_| wrong())?;
    let (tip, rest) = rest.split_first_chunk::<32>().ok_or_else(wrong)?;
    let stored: StoredHead = options().deserialize(rest).map_err(|_| wrong())?;
    let span = match stored.span {
        Some((created, modified)) => Some(SessionSpan {
            created_at: Timestamp::from_millis(created).ok_or_else(wrong)?,
            last_modified_at: Timestamp::from_millis(modified).ok_or_else(wrong)?,
        }),
        None => None,
    };
    Ok(Head {
        id,
        next_seq,
        tip: Hash(*tip),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All fields in one structure, as they were encoded first.
    #[derive(Serialize)]
    struct WholeHead {
        next_seq: u32,
        tip: [u8; 32],
        title: Option<String>,
        project: Option<String>,
        archived: bool,
        span: Option<(i64, i64)>,
        last_index: Option<u32>,
    }

    #[test]
    fn the_bytes_of_a_head_stay_the_same() {
        let id: SessionId = "session-2025-12-11-001".parse().unwrap();
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        for (next_seq, title, span, last_index) in [
            (1, None, None, None),
            (250, Some("a title"), Some((-1, 5)), Some(0)),
            (251, None, Some((1_765_447_200_000, 1_765_447_200_001)), Some(70_000)),
            (u32::MAX, Some(""), Some((0, 0)), Some(u32::MAX)),
        ] {
            let head = Head {
                id,
                next_seq,
                tip: Hash::of(&next_seq.to_le_bytes()),
                title: title.map(str::to_owned),
                project: Some("cards".to_owned()),
                archived: next_seq == 251,
                span: span.map(|(from, to)| SessionSpan { created_at: time(from), last_modified_at: time(to) }),
                last_index,
            };
            let whole = WholeHead {
                next_seq,
                tip: head.tip.0,
                title: head.title.clone(),
                project: head.project.clone(),
                archived: head.archived,
                span,
                last_index,
            };
            let bytes = options().serialize(&whole).unwrap();
            assert_eq!(encode_head(&head), bytes);
            assert_eq!(decode_head(id, &bytes).unwrap(), head);
            for length in 0..bytes.len() {
                decode_head(id, &bytes[..length]).unwrap_err();
            }
            decode_head(id, &[bytes.as_slice(), &[0]].concat()).unwrap_err();
        }
    }
}
