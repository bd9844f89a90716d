//! One interface for both carriers of the log, so that the same suite runs against each.

use std::sync::Arc;

use retake_log::model::{Event, Head, IterationId, Session, SessionId, Summary};
use retake_log::store::{Ack, Batch, Detail, Error, Fault, Order, RecencyKey, Status, Store, Totals};
use retake_team::PgLog;
use retake_testutils::Contents;

/// The operations of the log that both carriers have.
pub(crate) trait Carrier: Send + Sync {
    fn append(&self, batch: Batch) -> Result<Ack, Error>;
    fn head(&self, id: SessionId) -> Result<Option<Head>, Error>;
    fn events(&self, id: SessionId) -> Result<Vec<Event>, Error>;
    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error>;
    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error>;
    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error>;
    fn totals(&self) -> Result<Totals, Error>;
    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error>;
    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error>;
    fn faults(&self, id: SessionId) -> Result<Vec<Fault>, Error>;
    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error>;
    fn put_text(&self, text: &str);
    fn problems(&self) -> Vec<String>;
}

impl Carrier for Store {
    fn append(&self, batch: Batch) -> Result<Ack, Error> {
        Store::append(self, batch)
    }
    fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        Store::head(self, id)
    }
    fn events(&self, id: SessionId) -> Result<Vec<Event>, Error> {
        Store::events(self, id, Detail::Full)
    }
    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        Store::records(self, id)
    }
    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        Store::records_of_iteration(self, id)
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
    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Store::children(self, id)
    }
    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        Store::ids(self, after, limit)
    }
    fn faults(&self, id: SessionId) -> Result<Vec<Fault>, Error> {
        Ok(Store::trail(self, id)?.faults)
    }
    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        Store::import(self, records)
    }
    fn put_text(&self, text: &str) {
        Store::put_text(self, text).unwrap();
    }
    fn problems(&self) -> Vec<String> {
        Store::verify(self, None).unwrap().problems
    }
}

impl Carrier for PgLog {
    fn append(&self, batch: Batch) -> Result<Ack, Error> {
        Ok(PgLog::append(self, batch)?)
    }
    fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        Ok(PgLog::head(self, id)?)
    }
    fn events(&self, id: SessionId) -> Result<Vec<Event>, Error> {
        Ok(PgLog::events(self, id, Detail::Full)?)
    }
    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(PgLog::records(self, id)?)
    }
    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(PgLog::records_of_iteration(self, id)?)
    }
    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        Ok(PgLog::page(self, status, order, after, limit)?)
    }
    fn totals(&self) -> Result<Totals, Error> {
        Ok(PgLog::totals(self)?)
    }
    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Ok(PgLog::children(self, id)?)
    }
    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        Ok(PgLog::ids(self, after, limit)?)
    }
    fn faults(&self, id: SessionId) -> Result<Vec<Fault>, Error> {
        Ok(PgLog::trail(self, id)?.faults)
    }
    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        Ok(PgLog::import(self, records, &|_| None)?)
    }
    fn put_text(&self, text: &str) {
        PgLog::put_text(self, text).unwrap();
    }
    fn problems(&self) -> Vec<String> {
        PgLog::verify(self, None).unwrap().problems
    }
}

/// Returns every session with all its events, and the listing, from either carrier.
pub(crate) fn contents(log: &dyn Carrier) -> Contents {
    let mut sessions = Vec::new();
    for id in all_ids(log) {
        let events = log.events(id).unwrap();
        let head = log.head(id).unwrap().unwrap();
        assert_eq!(Session::fold(events.clone()).unwrap().head, head, "the head of {id} is not what its events say");
        assert_eq!(log.faults(id).unwrap(), []);
        sessions.push((head, events));
    }
    let rows = log.page(Status::All, Order::Recent, None, 100_000).unwrap();
    let listing = rows.iter().map(|row| format!("{} {} {}", row.id, row.iteration_count(), row.last_modified_at));
    Contents { sessions, listing: listing.collect(), totals: log.totals().unwrap() }
}

pub(crate) fn all_ids(log: &dyn Carrier) -> Vec<SessionId> {
    let mut all = Vec::new();
    loop {
        let ids = log.ids(all.last().copied(), 100).unwrap();
        if ids.is_empty() {
            return all;
        }
        all.extend(ids);
    }
}
