//! Imports records of a session written by another workspace, with their ids, times and hashes.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join3;
use retake_log::model::{Event, EventBody, Hash, Head, SessionId};
use retake_log::store::carrier::decode_exact;
use retake_log::store::texts_of;
use tokio_postgres::types::ToSql;

use super::Error;
use super::connect::begin_patiently;
use super::log::PgLog;
use super::rows::{RecordArrays, numbers};

/// The maximum number of records stored in one transaction.
const MAX_CHUNK: usize = 512;
/// The maximum number of restarts because the session grew meanwhile.
const MAX_RESTARTS: usize = 8;

impl PgLog {
    /// Appends exported records of one session, keeping ids, times and hashes, and returns the number of new ones.
    /// Existing records are skipped; a record that differs from an existing one, or does not follow it, is refused.
    ///
    /// Long texts that the records refer to come from `texts`; those it does not have must already be stored.
    pub fn import(&self, records: &[Vec<u8>], texts: &dyn Fn(Hash) -> Option<String>) -> Result<u64, Error> {
        let mut events = Vec::with_capacity(records.len());
        for bytes in records {
            let first = events.first().map(|event: &Event| event.session);
            let event = decode_exact(bytes).ok_or(misfit(
                first,
                0,
                "it is not a record, or its bytes do not match its hash",
            ))?;
            if first.is_some_and(|first| first != event.session) {
                return Err(misfit(first, event.seq, "it belongs to another session"));
            }
            events.push(event);
        }
        let Some(id) = events.first().map(|event| event.session) else { return Ok(0) };
        // A chain with a gap can be imported if it records the gap itself.
        let lost: BTreeSet<u32> = events.iter().flat_map(lost_by).collect();
        let mut new = 0;
        for (events, records) in events.chunks(MAX_CHUNK).zip(records.chunks(MAX_CHUNK)) {
            new += self.import_chunk(id, events, records, &lost, texts)?;
        }
        self.appender.known.forget(id);
        Ok(new)
    }

    /// Stores a long text, for an import whose records refer to it.
    pub fn put_text(&self, text: &str) -> Result<Hash, Error> {
        let hash = Hash::of(text.as_bytes());
        let values: Vec<super::read::Value> = vec![Box::new(hash.0.to_vec()), Box::new(text.as_bytes().to_vec())];
        self.query(format!("SELECT {}.put_text($1, $2)", self.schema()), values, |_| Ok(()))?;
        Ok(hash)
    }

    fn import_chunk(
        &self,
        id: SessionId,
        events: &[Event],
        records: &[Vec<u8>],
        lost: &BTreeSet<u32>,
        texts: &dyn Fn(Hash) -> Option<String>,
    ) -> Result<u64, Error> {
        for _ in 0..MAX_RESTARTS {
            let before = self.head(id)?;
            let mut head = before.clone().unwrap_or_else(|| Head::new(id));
            let next_seq = head.next_seq;
            let mut arrays = RecordArrays::default();
            for (event, bytes) in events.iter().zip(records) {
                if event.seq < head.next_seq {
                    let there = match event.seq.checked_sub(next_seq) {
                        Some(_) => arrays.records.iter().any(|there| there == bytes),
                        None => self.record(id, event.seq)?.as_ref() == Some(bytes),
                    };
                    if there {
                        continue;
                    }
                    return Err(misfit(Some(id), event.seq, "the id belongs to a different session here"));
                }
                let known_gap = event.seq > head.next_seq && (head.next_seq..event.seq).all(|seq| lost.contains(&seq));
                if event.prev != head.tip && !known_gap {
                    return Err(misfit(Some(id), event.seq, "it does not follow the event before it"));
                }
                for hash in texts_of(bytes) {
                    if let Some(text) = texts(hash) {
                        arrays.push_text(hash, &text);
                    }
                }
                head.advance(event);
                arrays.push(event, bytes.clone());
            }
            let new = arrays.records.len() as u64;
            if new == 0 || self.store_chunk(id, next_seq, arrays)? {
                return Ok(new);
            }
        }
        Err(Error::Misuse(format!("{id} keeps growing while it is imported")))
    }

    /// Stores records on top of `next_seq`; `false` if the session has advanced meanwhile.
    fn store_chunk(&self, id: SessionId, next_seq: u32, arrays: RecordArrays) -> Result<bool, Error> {
        let (day, number) = numbers(id);
        let next_seq = i32::try_from(next_seq).unwrap_or(i32::MAX);
        let parameters = (1..=14).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {}.import_records({parameters})", self.schema());
        let shared = Arc::new((sql, arrays, begin_patiently(self.server.config.attempt_timeout)));
        let stored = self.server.call(move |client| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (sql, a, begin) = &*shared;
                let statement = client.prepare_cached(sql).await?;
                let parameters: [&(dyn ToSql + Sync); 14] = [
                    &day,
                    &number,
                    &next_seq,
                    &a.records,
                    &a.index,
                    &a.time,
                    &a.title,
                    &a.project,
                    &a.keys,
                    &a.key_seq,
                    &a.key_index,
                    &a.links,
                    &a.text_hashes,
                    &a.texts,
                ];
                let (begun, row, committed) = join3(
                    client.batch_execute(begin),
                    client.query_one(&statement, &parameters),
                    client.batch_execute("COMMIT"),
                )
                .await;
                begun?;
                let row = row?;
                committed?;
                Ok(row.get::<_, &str>(0) == "imported")
            })
        })?;
        self.appender.notifier.notify_soon(&self.server);
        Ok(stored)
    }
}

fn lost_by(event: &Event) -> Vec<u32> {
    match &event.body {
        EventBody::Lost(loss) => loss.seqs.clone(),
        _ => Vec::new(),
    }
}

fn misfit(session: Option<SessionId>, seq: u32, problem: &'static str) -> Error {
    Error::Import { session, seq, problem }
}
