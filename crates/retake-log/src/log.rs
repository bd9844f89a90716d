//! The interface of the log, which every carrier (storage backend) implements.
//!
//! [`Store`] stores it in a journal and sled. Another carrier (a database server) implements the same trait; nothing
//! above this trait knows which one is used.

use std::sync::Arc;

use crate::model::{Event, EventBody, Hash, Head, IterationId, SessionId, Summary};
use crate::store::{
    self, Ack, Batch, Detail, Error, GroupAck, JournalCursor, Order, Progress, RecencyKey, Recovery, Since, Status,
    Store, Totals, Trail, Verification,
};

/// Opens a carrier of the log other than the embedded store, for the process that becomes the owner of a workspace.
pub type OpenLog = Arc<dyn Fn() -> Result<Box<dyn Log>, Error> + Send + Sync>;

/// The maximum number of records of one session that [`Log::records_from`] reads individually; beyond that, it reads
/// the whole session.
const MAX_SINGLE_READS: u32 = 32;

/// A callback for acknowledged events; it is dropped once it returns `false`.
pub type Follower = Box<dyn FnMut(&Arc<Event>) -> bool + Send>;

/// An append-only log of sessions.
pub trait Log: Send + Sync {
    /// Appends a batch atomically, checking the caller's expectation and the idempotency key. It is durable when this
    /// returns.
    fn append(&self, batch: Batch) -> Result<Ack, Error>;

    /// Appends batches in order, each as [`append`](Log::append) does, and stops at the first failure. A carrier may
    /// make several of them durable at once.
    fn append_all(&self, batches: Vec<Batch>) -> GroupAck {
        let mut acks = Vec::with_capacity(batches.len());
        for batch in batches {
            match self.append(batch) {
                Ok(ack) => acks.push(ack),
                Err(error) => return GroupAck { acks, error: Some(error) },
            }
        }
        GroupAck { acks, error: None }
    }

    /// Returns the state of a session; `None` if it was never started.
    fn head(&self, id: SessionId) -> Result<Option<Head>, Error>;

    /// Returns the exact bytes of one record; `None` if it does not exist.
    fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error>;

    /// Returns the exact bytes of every record of a session, in order.
    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error>;

    /// Returns the exact bytes of the records that record and annotate one iteration, in order; empty if the iteration
    /// does not exist. The cost does not depend on the length of the session.
    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error>;

    /// Returns at most `limit` records of several sessions, each starting at a sequence number, in the order of
    /// `places` and sequence numbers. A carrier for which every call is a round trip uses a single query.
    fn records_from(&self, places: &[(SessionId, u32)], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut found = Vec::new();
        for (id, from) in places {
            let next_seq = self.head(*id)?.map_or(0, |head| head.next_seq);
            if *from > 0 && next_seq.saturating_sub(*from) <= MAX_SINGLE_READS {
                for seq in *from..next_seq {
                    found.extend(self.record(*id, seq)?);
                }
            } else if next_seq > *from {
                let records = self.records(*id)?.into_iter();
                found.extend(records.filter(|record| store::place(record).is_some_and(|seq| seq >= *from)));
            }
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Calls `take` with all events of each session, in the order of `ids`, until it fails. A carrier for which every
    /// call is a round trip reads many sessions at once.
    fn each_session(
        &self,
        ids: &[SessionId],
        detail: Detail,
        take: &mut dyn FnMut(SessionId, Vec<Event>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        ids.iter().try_for_each(|id| take(*id, self.events(*id, detail)?))
    }

    /// Returns the next `limit` sessions after a position in the order of recency.
    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error>;

    /// Returns the number of sessions and events.
    fn totals(&self) -> Result<Totals, Error>;

    /// Returns the iterations derived from this one, in any session.
    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error>;

    /// Returns the next `limit` session ids after `after`, ordered by day and number.
    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// Returns a long text; `None` if it is missing or damaged in every copy.
    fn text(&self, hash: Hash) -> Option<String>;

    /// Calls `follower` with new events, in the order in which they are acknowledged. It may be called with internal
    /// state locked, so it must only pass the event on.
    fn follow(&self, follower: Follower);

    /// Returns the cursor after everything acknowledged so far.
    fn point(&self) -> Result<JournalCursor, Error>;

    /// Returns some of what was acknowledged after a cursor; `None` if the cursor does not belong to this log.
    fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error>;

    /// Returns whether nothing was acknowledged after a cursor, without reading anything.
    fn ends_at(&self, point: &JournalCursor) -> bool;

    /// Returns a number that identifies this open of the log within the process.
    fn opening(&self) -> u64;

    /// Appends exported records of one session unchanged, and returns how many were new.
    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error>;

    /// Returns a session's events with the problems found in any copy.
    fn trail(&self, id: SessionId) -> Result<Trail, Error>;

    /// Checks every byte of every copy.
    fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error>;

    /// Repairs what [`verify`](Log::verify) finds; `None` if there is nothing to repair.
    fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error>;

    /// Returns every recovery of this log, oldest first.
    fn recoveries(&self) -> Result<Vec<Recovery>, Error>;

    /// Closes the log; everything acknowledged stays.
    fn close(self: Box<Self>) -> Result<(), Error>;

    /// Returns one event of a session; `None` if it does not exist.
    fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        Ok(decode_all(id, self.record(id, seq)?.as_slice(), detail, &|hash| self.text(hash), &|id| self.head(id))?
            .pop())
    }

    /// Returns the events that record and annotate one iteration, in order.
    fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, Error> {
        let records = self.records_of_iteration(id)?;
        decode_all(id.session, &records, detail, &|hash| self.text(hash), &|id| self.head(id))
    }

    /// Returns all events of a session, in order; empty if it was never started.
    fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        decode_all(id, &self.records(id)?, detail, &|hash| self.text(hash), &|id| self.head(id))
    }
}

/// Decodes the records of one session that a carrier returned.
pub(crate) fn decode_all(
    id: SessionId,
    records: &[Vec<u8>],
    detail: Detail,
    texts: &dyn Fn(Hash) -> Option<String>,
    head: HeadSource<'_>,
) -> Result<Vec<Event>, Error> {
    let decode = |record: &Vec<u8>| match store::decode(record, detail, texts) {
        Some(event) => Ok(Some(event)),
        None => lost_event(record, &[id], head),
    };
    records.iter().filter_map(|record| decode(record).transpose()).collect()
}

/// Returns where a session stands.
pub type HeadSource<'a> = &'a dyn Fn(SessionId) -> Result<Option<Head>, Error>;

/// Returns the loss of a record that a carrier returned and that does not match its hash, at its place in its session,
/// so that the damage costs only what that record contained; `None` if it does not even seem to belong to one of these
/// sessions.
pub fn lost_event(record: &[u8], of: &[SessionId], head: HeadSource<'_>) -> Result<Option<Event>, Error> {
    tracing::warn!(seq = store::place(record), "a record of the log does not match its hash");
    let Some(mut event) = store::lost(record).filter(|event| of.contains(&event.session)) else { return Ok(None) };
    if let EventBody::Lost(loss) = &mut event.body {
        // It may have been the last iteration, whose index is in use.
        loss.last_index = head(event.session)?.and_then(|head| head.last_index);
    }
    Ok(Some(event))
}

impl Log for Store {
    fn append(&self, batch: Batch) -> Result<Ack, Error> {
        Store::append(self, batch)
    }

    fn append_all(&self, batches: Vec<Batch>) -> GroupAck {
        Store::append_all(self, &batches)
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        Store::head(self, id)
    }

    fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        Store::record(self, id, seq)
    }

    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        Store::records(self, id)
    }

    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        Store::page(self, status, order, after, limit)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Store::totals(self)
    }

    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        Store::records_of_iteration(self, id)
    }

    fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, Error> {
        Store::events_of_iteration(self, id, detail)
    }

    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Store::children(self, id)
    }

    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        Store::ids(self, after, limit)
    }

    fn text(&self, hash: Hash) -> Option<String> {
        Store::text(self, hash)
    }

    fn follow(&self, follower: Follower) {
        Store::add_follower(self, follower);
    }

    fn point(&self) -> Result<JournalCursor, Error> {
        Store::point(self)
    }

    fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error> {
        Store::since(self, point)
    }

    fn ends_at(&self, point: &JournalCursor) -> bool {
        Store::ends_at(self, point)
    }

    fn opening(&self) -> u64 {
        Store::opening(self)
    }

    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        Store::import(self, records)
    }

    fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        Store::trail(self, id)
    }

    fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        Store::verify(self, progress)
    }

    fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        Store::repair(self, progress)
    }

    fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Store::recoveries(self)
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Store::close(*self)
    }

    fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        Store::event(self, id, seq, detail)
    }

    fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        Store::events(self, id, detail)
    }
}
