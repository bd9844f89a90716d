//! The calls of the log.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::{Hash, Head, IterationId, SessionId, Summary};
use crate::store::{
    self, Ack, Batch, Error, Fault, GroupAck, Order, RecencyKey, Recovery, Status, Totals, Verification,
};

use super::call::{Call, CallContext, Registry};
use super::packed::{Records, Rows};
use super::protocol::OwnerInfo;

/// The maximum size of the records in one answer, unless a single record is larger.
const MAX_RECORD_BYTES: usize = 8 << 20;
/// The maximum number of records of several sessions in one answer.
const MAX_RECORDS: usize = 8192;
/// The maximum number of rows in one answer.
const MAX_ROWS: usize = 100_000;

/// Returns a registry with all calls of this module.
pub(super) fn registry() -> Registry {
    let mut calls = Registry::default();
    calls.add::<Append>();
    calls.add::<AppendAll>();
    calls.add::<GetHead>();
    calls.add::<GetRecord>();
    calls.add::<GetRecords>();
    calls.add::<GetIterationRecords>();
    calls.add::<GetRecordsFrom>();
    calls.add::<GetPage>();
    calls.add::<GetTotals>();
    calls.add::<GetChildren>();
    calls.add::<GetIds>();
    calls.add::<GetFaults>();
    calls.add::<RestoreText>();
    calls.add::<Import>();
    calls.add::<Verify>();
    calls.add::<Repair>();
    calls.add::<GetOwner>();
    calls
}

/// Appends a batch.
#[derive(Serialize, Deserialize)]
pub(super) struct Append(pub(super) Batch);

impl Call for Append {
    const NAME: &'static str = "append";
    type Answer = Ack;

    fn run(self, context: &CallContext<'_>) -> Result<Ack, Error> {
        context.log.append(self.0)
    }
}

/// Appends batches in order, up to the first that fails.
#[derive(Serialize, Deserialize)]
pub(super) struct AppendAll(pub(super) Vec<Batch>);

impl Call for AppendAll {
    const NAME: &'static str = "append-all";
    type Answer = GroupAck;

    fn run(self, context: &CallContext<'_>) -> Result<GroupAck, Error> {
        Ok(context.log.append_all(self.0))
    }
}

/// Reads the state of a session.
#[derive(Serialize, Deserialize)]
pub(super) struct GetHead(pub(super) SessionId);

impl Call for GetHead {
    const NAME: &'static str = "head";
    type Answer = Option<Head>;

    fn run(self, context: &CallContext<'_>) -> Result<Option<Head>, Error> {
        context.log.head(self.0)
    }
}

/// Reads one record; the answer is empty if it does not exist.
#[derive(Serialize, Deserialize)]
pub(super) struct GetRecord {
    pub(super) session: SessionId,
    pub(super) seq: u32,
}

impl Call for GetRecord {
    const NAME: &'static str = "record";
    type Answer = Records;

    fn run(self, context: &CallContext<'_>) -> Result<Records, Error> {
        Ok(Records(context.log.record(self.session, self.seq)?.into_iter().collect()))
    }
}

/// Reads the records of a session from a position: as many as fit into an answer.
#[derive(Serialize, Deserialize)]
pub(super) struct GetRecords {
    pub(super) session: SessionId,
    pub(super) from: u32,
}

impl Call for GetRecords {
    const NAME: &'static str = "records";
    type Answer = Records;

    fn run(self, context: &CallContext<'_>) -> Result<Records, Error> {
        let mut bytes = 0;
        let records = context.log.records(self.session)?.into_iter();
        let wanted = records.filter(|record| store::place(record).is_some_and(|seq| seq >= self.from));
        let fitting = wanted.take_while(|record| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= MAX_RECORD_BYTES
        });
        Ok(Records(fitting.collect()))
    }
}

/// Reads the records that record and annotate one iteration.
#[derive(Serialize, Deserialize)]
pub(super) struct GetIterationRecords(pub(super) IterationId);

impl Call for GetIterationRecords {
    const NAME: &'static str = "iteration";
    type Answer = Records;

    fn run(self, context: &CallContext<'_>) -> Result<Records, Error> {
        Ok(Records(context.log.records_of_iteration(self.0)?))
    }
}

/// Reads records of several sessions, each from a position: as many as fit into an answer. The second part of the
/// answer states whether these are all.
#[derive(Serialize, Deserialize)]
pub(super) struct GetRecordsFrom(pub(super) Vec<(SessionId, u32)>);

impl Call for GetRecordsFrom {
    const NAME: &'static str = "recordsFrom";
    type Answer = (Records, bool);

    fn run(self, context: &CallContext<'_>) -> Result<(Records, bool), Error> {
        let mut records = context.log.records_from(&self.0, MAX_RECORDS)?;
        let mut complete = records.len() < MAX_RECORDS;
        let mut bytes = 0;
        let fitting = records.iter().take_while(|record| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= MAX_RECORD_BYTES
        });
        let fitting = fitting.count();
        complete &= fitting == records.len();
        records.truncate(fitting);
        Ok((Records(records), complete))
    }
}

/// Reads a page of sessions.
#[derive(Serialize, Deserialize)]
pub(super) struct GetPage {
    pub(super) status: Status,
    pub(super) order: Order,
    pub(super) after: Option<RecencyKey>,
    pub(super) limit: usize,
}

impl Call for GetPage {
    const NAME: &'static str = "page";
    type Answer = Rows;

    fn run(self, context: &CallContext<'_>) -> Result<Rows, Error> {
        let GetPage { status, order, after, limit } = self;
        let rows: Vec<Arc<Summary>> = context.log.page(status, order, after, limit.min(MAX_ROWS))?;
        Ok(Rows(rows))
    }
}

/// Counts sessions and events.
#[derive(Serialize, Deserialize)]
pub(super) struct GetTotals;

impl Call for GetTotals {
    const NAME: &'static str = "totals";
    type Answer = Totals;

    fn run(self, context: &CallContext<'_>) -> Result<Totals, Error> {
        context.log.totals()
    }
}

/// Finds the iterations derived from one.
#[derive(Serialize, Deserialize)]
pub(super) struct GetChildren(pub(super) IterationId);

impl Call for GetChildren {
    const NAME: &'static str = "children";
    type Answer = Vec<IterationId>;

    fn run(self, context: &CallContext<'_>) -> Result<Vec<IterationId>, Error> {
        context.log.children(self.0)
    }
}

/// Lists session ids.
#[derive(Serialize, Deserialize)]
pub(super) struct GetIds {
    pub(super) after: Option<SessionId>,
    pub(super) limit: usize,
}

impl Call for GetIds {
    const NAME: &'static str = "ids";
    type Answer = Vec<SessionId>;

    fn run(self, context: &CallContext<'_>) -> Result<Vec<SessionId>, Error> {
        context.log.ids(self.after, self.limit.min(MAX_ROWS))
    }
}

/// Verifies a session in every copy. The events themselves are read with [`GetRecords`].
#[derive(Serialize, Deserialize)]
pub(super) struct GetFaults(pub(super) SessionId);

impl Call for GetFaults {
    const NAME: &'static str = "faults";
    type Answer = Vec<Fault>;

    fn run(self, context: &CallContext<'_>) -> Result<Vec<Fault>, Error> {
        Ok(context.log.trail(self.0)?.faults)
    }
}

/// Ensures that the file of a long text exists, restoring it if necessary. Returns whether it does.
#[derive(Serialize, Deserialize)]
pub(super) struct RestoreText(pub(super) Hash);

impl Call for RestoreText {
    const NAME: &'static str = "text";
    type Answer = bool;

    fn run(self, context: &CallContext<'_>) -> Result<bool, Error> {
        Ok(context.log.text(self.0).is_some())
    }
}

/// Appends exported records of one session; returns how many were new.
#[derive(Serialize, Deserialize)]
pub(super) struct Import(pub(super) Records);

impl Call for Import {
    const NAME: &'static str = "import";
    type Answer = u64;

    fn run(self, context: &CallContext<'_>) -> Result<u64, Error> {
        context.log.import(&self.0.0)
    }
}

/// Checks every byte of every copy.
#[derive(Serialize, Deserialize)]
pub(super) struct Verify;

impl Call for Verify {
    const NAME: &'static str = "verify";
    type Answer = Verification;

    fn run(self, context: &CallContext<'_>) -> Result<Verification, Error> {
        context.log.verify(context.progress.cloned())
    }
}

/// Repairs what verification finds.
#[derive(Serialize, Deserialize)]
pub(super) struct Repair;

impl Call for Repair {
    const NAME: &'static str = "repair";
    type Answer = Option<Recovery>;

    fn run(self, context: &CallContext<'_>) -> Result<Option<Recovery>, Error> {
        context.log.repair(context.progress.cloned())
    }
}

/// Describes the process that owns the workspace.
#[derive(Serialize, Deserialize)]
pub(super) struct GetOwner;

impl Call for GetOwner {
    const NAME: &'static str = "owner";
    type Answer = OwnerInfo;

    fn run(self, context: &CallContext<'_>) -> Result<OwnerInfo, Error> {
        Ok(context.owner_info())
    }
}
