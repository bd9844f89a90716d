//! Imports records of a session written by another workspace, with their ids, times and hashes.

use std::collections::BTreeSet;

use crate::model::{EventBody, SessionId};

use super::Error;
use super::commit::Commit;
use super::commit_queue::await_ticket;
use super::log::{AppendError, LocalLog};
use super::payload::LOST;
use super::record::Record;

/// The number of records appended at once.
const MAX_RECORDS: usize = 1024;

impl LocalLog {
    /// Appends records of one session unchanged. Returns the number of new ones.
    pub(super) fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        // A chain with a gap can be imported if it records the gap itself.
        let lost = |bytes: &Vec<u8>| match Record::read(bytes)?.event(&|_| None)?.0.body {
            EventBody::Lost(loss) => Some(loss.seqs),
            _ => None,
        };
        let lost: BTreeSet<u32> = records.iter().filter_map(lost).flatten().collect();
        let mut new = 0;
        for chunk in records.chunks(MAX_RECORDS) {
            new += self.attempt(|| self.try_import(chunk, &lost))?;
        }
        Ok(new)
    }

    fn try_import(&self, records: &[Vec<u8>], lost: &BTreeSet<u32>) -> Result<u64, AppendError> {
        const NOT_A_RECORD: &str = "it is not a record, or its bytes do not match its hash";
        let misfit = |session, seq, problem: &'static str| {
            AppendError::Caller(Error::Import { session, seq, problem: problem.into() })
        };
        let mut state = self.ready()?;
        let first = records.first().and_then(|bytes| Record::read(bytes));
        let id = first.ok_or_else(|| misfit(None, 0, NOT_A_RECORD))?.header.session;
        while let Some((ticket, _)) = state.queued.heads.get(&id) {
            let ticket = *ticket;
            state = await_ticket(self, state, ticket);
        }
        let mut commit = Commit::new(id, self.view.head(id)?);
        for bytes in records {
            let record = Record::read(bytes).filter(|record| record.bytes.len() == bytes.len());
            let record = record.ok_or_else(|| misfit(Some(id), 0, NOT_A_RECORD))?;
            let (session, seq) = (record.header.session, record.header.seq);
            if session != id {
                return Err(misfit(Some(id), seq, "it belongs to another session"));
            }
            let head = commit.head();
            if seq < head.next_seq {
                let there = match commit.change.records.iter().find(|(there, _, _)| *there == seq) {
                    Some((_, _, there)) => Some(there.clone()),
                    None => self.acknowledged_record(id, seq)?,
                };
                match there {
                    Some(there) if there == *bytes => continue,
                    _ => return Err(misfit(Some(id), seq, "the id belongs to a different session here")),
                }
            }
            // A `lost` event follows the last one that was known when it was written; the events it lists may be back.
            let is_known_gap = seq > head.next_seq && (head.next_seq..seq).all(|seq| lost.contains(&seq));
            if record.header.prev != head.tip && !is_known_gap && record.header.kind != LOST {
                return Err(misfit(Some(id), seq, "it does not follow the event before it"));
            }
            for hash in record.texts() {
                let is_queued = state.queued.texts.contains_key(&hash)
                    || commit.change.texts.iter().any(|(there, _)| *there == hash);
                if !is_queued
                    && !self.view.has_text(hash)?
                    && let Ok(text) = self.texts.get(hash.0)
                    && let Ok(text) = String::from_utf8(text)
                {
                    commit.add_text(hash, &text);
                }
            }
            let (event, _) = record.event(&|_| None).ok_or_else(|| misfit(Some(id), seq, "it cannot be read"))?;
            commit.add(event, bytes.clone());
        }
        let new = commit.change.records.len() as u64;
        if new > 0 {
            self.enqueue(state, commit)?;
        }
        Ok(new)
    }

    /// Returns the bytes of an acknowledged event.
    fn acknowledged_record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, AppendError> {
        {
            let ahead = self.view.ahead();
            let pending = ahead.pending.iter().filter(|(_, change)| change.session() == id);
            let pending = pending.flat_map(|(_, change)| &change.records).find(|(there, _, _)| *there == seq);
            if let Some((_, _, bytes)) = pending {
                return Ok(Some(bytes.clone()));
            }
        }
        let stored = self.view.read()?.events.get(id, seq)?;
        Ok(stored.and_then(|stored| Some(stored.record()?.bytes.to_vec())))
    }
}
