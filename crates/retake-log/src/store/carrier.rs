//! Encoding for other carriers of the log: the same bytes for the same batch, and decoding of records.
//!
//! The embedded store and a database server keep identical records, so that a session can be copied between them byte
//! for byte and its hash chain still verifies. Encoding is therefore implemented only once, here.

use crate::model::{Draft, Event, EventBody, Hash, Head, IterationId};

use super::record::{self, Record};
use super::{Batch, Error, Target, keys, payload};

/// A batch placed on a session's head and encoded, ready to be stored by any carrier.
#[derive(Clone, Debug)]
pub struct EncodedBatch {
    /// The session after the batch.
    pub head: Head,
    /// The index of the first iteration that the batch records.
    pub index: Option<u32>,
    /// The records in the order of the chain.
    pub records: Vec<EncodedRecord>,
    /// The long texts that the records refer to, to be stored before or together with them.
    pub texts: Vec<(Hash, String)>,
}

/// A record's bytes with the event they encode.
#[derive(Clone, Debug)]
pub struct EncodedRecord {
    /// The event.
    pub event: Event,
    /// Its exact bytes.
    pub bytes: Vec<u8>,
}

/// Places a batch on `head` and encodes its records.
///
/// The caller guarantees that `head` is the session's state when the records are stored, and has checked the
/// idempotency key and the expected number of iterations.
pub fn encode_batch(mut head: Head, batch: &Batch) -> Result<EncodedBatch, Error> {
    if matches!(batch.target, Target::New(_))
        && !matches!(batch.drafts.as_slice(), [Draft::Start { .. }, Draft::Record(_) | Draft::BringIn(_), ..])
    {
        return Err(Error::Misuse("a session begins with its first iteration".into()));
    }
    let (mut records, mut texts, mut index) = (Vec::with_capacity(batch.drafts.len()), Vec::new(), None);
    for draft in &batch.drafts {
        let body = head.place(draft.clone())?;
        if payload::may_be_long(draft) {
            let long = payload::encode(&batch.actor, &batch.key, &body).texts;
            texts.extend(long.into_iter().map(|text| (Hash::of(text.as_bytes()), text)));
        }
        let place = (head.id, head.next_seq, head.tip);
        let record = record::encode(place, batch.at, &batch.actor, &batch.key, body);
        head.advance(&record.event);
        if let EventBody::Recorded { index: recorded, .. } = &record.event.body {
            index = index.or(Some(*recorded));
        }
        records.push(EncodedRecord { event: record.event, bytes: record.bytes });
    }
    Ok(EncodedBatch { head, index, records, texts })
}

/// Returns the fixed-size digest under which carriers store an idempotency key, which may be any text.
pub fn idempotency_digest(key: &str) -> [u8; 16] {
    keys::idempotency_key(key)
}

/// Returns the parent and the child of an event that records a derived iteration, unless the parent is the previous
/// iteration: carriers read that link, which nearly every iteration has, from the child itself.
pub fn parent_link(event: &Event) -> Option<(IterationId, IterationId)> {
    match &event.body {
        EventBody::Recorded { index, iteration } => keys::link(iteration, event.session.iteration(*index)),
        _ => None,
    }
}

/// Decodes a record that must be exactly `bytes`, without its long texts; `None` if it is altered or not a record.
pub fn decode_exact(bytes: &[u8]) -> Option<Event> {
    let record = Record::read(bytes).filter(|record| record.bytes.len() == bytes.len())?;
    Some(record.event(&|_| None)?.0)
}
