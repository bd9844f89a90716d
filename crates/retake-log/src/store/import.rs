//! Importing: records of a session as another workspace wrote them, with their ids, times and hashes.

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::model::{EventBody, Head, SessionId};

use super::log::{Failure, Log, State, TRIES};
use super::queued::Queued;
use super::record::Record;
use super::Error;

impl Log {
    /// Appends records of one session as they are; gives how many were new.
    pub(super) fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        // A chain with a gap can be brought in when it names the gap itself.
        let lost = |bytes: &Vec<u8>| match Record::read(bytes)?.event(&|_| None)?.0.body {
            EventBody::Lost(loss) => Some(loss.seqs),
            _ => None,
        };
        let lost: BTreeSet<u32> = records.iter().filter_map(lost).flatten().collect();
        let mut new = 0;
        for chunk in records.chunks(1024) {
            let mut tries = 0;
            new += loop {
                let generation = self.generation.load(Ordering::Acquire);
                match self.try_import(chunk, &lost) {
                    Ok(new) => break new,
                    Err(Failure::Error(error)) => return Err(error),
                    Err(Failure::DatabaseError(trouble)) if tries < TRIES => self.rebuild_online(generation, &trouble)?,
                    Err(Failure::DatabaseError(trouble)) => return Err(trouble.into()),
                }
                tries += 1;
            };
        }
        Ok(new)
    }

    fn try_import(&self, records: &[Vec<u8>], lost: &BTreeSet<u32>) -> Result<u64, Failure> {
        let misfit = |session, seq, problem: &'static str| {
            Failure::Error(Error::Import { session, seq, problem: problem.into() })
        };
        let mut state = self.ready(self.lock())?;
        let first = records.first().and_then(|bytes| Record::read(bytes));
        let id = first.ok_or(misfit(None, 0, "it is no record, or its bytes do not match its hash"))?.header.session;
        while let Some((ticket, _)) = state.queued.heads.get(&id) {
            let ticket = *ticket;
            state = self.ready(self.await_ticket(state, ticket))?;
        }
        let before = self.newest_acked(&state, id)?;
        let mut head = before.clone().unwrap_or_else(|| Head::new(id));
        let mut queued = Queued::new(state.next_ticket, before, head.clone());
        for bytes in records {
            let record = Record::read(bytes).filter(|record| record.bytes.len() == bytes.len());
            let record = record.ok_or(misfit(Some(id), 0, "it is no record, or its bytes do not match its hash"))?;
            let (session, seq) = (record.header.session, record.header.seq);
            if session != id {
                return Err(misfit(Some(id), seq, "it belongs to another session"));
            }
            if seq < head.next_seq {
                let there = match queued.change.records.iter().find(|(there, _, _)| *there == seq) {
                    Some((_, _, there)) => Some(there.clone()),
                    None => self.settled_record(&mut state, id, seq)?,
                };
                match there {
                    Some(there) if there == *bytes => continue,
                    _ => return Err(misfit(Some(id), seq, "another event is there already")),
                }
            }
            let known_gap = seq > head.next_seq && (head.next_seq..seq).all(|seq| lost.contains(&seq));
            if record.header.prev != head.tip && !known_gap {
                return Err(misfit(Some(id), seq, "it does not follow the event before it"));
            }
            for hash in record.texts() {
                let ahead = state.acked.texts.contains_key(&hash) || state.queued.texts.contains_key(&hash);
                let ahead = ahead || queued.change.texts.iter().any(|(there, _)| *there == hash);
                if !ahead
                    && self.read()?.text(hash)?.is_none()
                    && let Ok(text) = self.texts.get(hash.0)
                    && let Ok(text) = String::from_utf8(text)
                {
                    queued.take_text(hash, &text);
                }
            }
            let (event, _) = record.event(&|_| None).ok_or(misfit(Some(id), seq, "it cannot be read"))?;
            head.advance(&event);
            queued.take(event, bytes.clone());
        }
        let new = queued.change.records.len() as u64;
        if new > 0 {
            queued.change.after = head;
            self.enqueue(state, queued)?;
        }
        Ok(new)
    }

    /// The bytes of an event that is acknowledged, waiting for the database to have it.
    fn settled_record(
        &self,
        state: &mut MutexGuard<'_, State>,
        id: SessionId,
        seq: u32,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let pending = state.pending.iter().filter(|(_, change)| change.after.id == id);
        let pending = pending.flat_map(|(_, change)| &change.records).find(|(there, _, _)| *there == seq);
        if let Some((_, _, bytes)) = pending {
            return Ok(Some(bytes.clone()));
        }
        let value = self.read()?.events.get(id, seq)?;
        Ok(value.and_then(|value| Some(Record::read_unchecked(&value)?.bytes.to_vec())))
    }
}
