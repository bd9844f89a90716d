//! What is said between a client and the owner: only enums and plain values.

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{Datelike, NaiveDate};
use serde::{Deserialize, Serialize};

use crate::model::session::Span;
use crate::model::{Event, EventBody, Hash, Head, IterationId, Refusal, SessionId, Summary, Timestamp};
use crate::search::{Found, Question};
use crate::store::{Ack, Batch, Error, Fault, Order, RecencyKey, Recovery, Status, Totals, Verification};

/// Raised when an older version could not understand a newer one any more.
pub(super) const PROTOCOL: u32 = 1;

/// The first frame each way. Its shape never changes, so that any two versions can name each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) pid: u32,
}

impl Hello {
    pub(super) fn ours() -> Hello {
        Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() }
    }
}

/// Who owns a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerInfo {
    /// Its process.
    pub pid: u32,
    /// Its version of Retake.
    pub version: String,
    /// The protocol it speaks.
    pub protocol: u32,
    /// Since when.
    pub since: Timestamp,
    /// How many other processes are connected to it.
    pub clients: u32,
    /// Where it listens; none when no socket could be made, and nobody else can take part.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub socket: Option<PathBuf>,
}

/// What a client asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    Append(Box<Batch>),
    Head(SessionId),
    Record(SessionId, u32),
    Page {
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    },
    Totals,
    Children(IterationId),
    Ids {
        after: Option<SessionId>,
        limit: usize,
    },
    Trail(SessionId),
    /// The records of a session from a place on, as many as fit.
    Records(SessionId, u32),
    /// Whether a long text can be had; its file is there afterwards.
    Text(Hash),
    /// The records to import travel as bytes behind the JSON.
    Import(#[serde(skip)] Vec<u8>),
    /// What iterations there are that fit. Long when the index must be made first.
    Search(Box<Question>),
    Verify,
    Repair,
    Owner,
    /// News from now on, until either side goes. Answered once with who the owner is.
    Follow,
}

/// What the owner answers. Records travel as bytes behind the JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Ack(Ack),
    Head(Option<Head>),
    Records,
    /// The rows travel as bytes behind the JSON: see [`Row`].
    Page,
    Totals(Totals),
    Children(Vec<IterationId>),
    Ids(Vec<SessionId>),
    Trail(Vec<Fault>),
    Text(bool),
    Imported(u64),
    /// With the sessions of the hits; what was recorded travels as bytes behind the JSON.
    Found(Found, Vec<Head>),
    Verified(Verification),
    Repaired(Option<Recovery>),
    Owner(OwnerInfo),
    /// Not an answer yet: how far it has come.
    Progress(String, u64, u64),
    Change(EventSummary),
    /// There will be no more news: the owner lets go of the workspace.
    Goodbye,
    Failed(Failure),
}

/// A row of the listing in few bytes: a page is asked for often, and ids and times are slow to read as text.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    day: i32,
    number: u32,
    created: i64,
    modified: i64,
    last_index: u32,
    archived: bool,
    title: Option<String>,
    project: Option<String>,
}

impl Row {
    pub(super) fn pack<'a>(rows: impl Iterator<Item = &'a Summary>) -> Vec<u8> {
        let row = |row: &Summary| Row {
            day: row.id.day().num_days_from_ce(),
            number: row.id.number().get(),
            created: row.created_at.millis(),
            modified: row.last_modified_at.millis(),
            last_index: row.current_iteration_index(),
            archived: row.archived,
            title: row.title.clone(),
            project: row.project.clone(),
        };
        // Only a limit could make this fail, and there is none.
        bincode::serialize(&rows.map(row).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// None when the bytes are no rows.
    pub(super) fn unpack(bytes: &[u8]) -> Option<Vec<Arc<Summary>>> {
        let rows: Vec<Row> = bincode::deserialize(bytes).ok()?;
        rows.into_iter().map(|row| row.summary().map(Arc::new)).collect()
    }

    fn summary(self) -> Option<Summary> {
        let day = NaiveDate::from_num_days_from_ce_opt(self.day)?;
        let span = Span {
            created_at: Timestamp::from_millis(self.created)?,
            last_modified_at: Timestamp::from_millis(self.modified)?,
        };
        let head = Head {
            title: self.title,
            project: self.project,
            archived: self.archived,
            span: Some(span),
            last_index: Some(self.last_index),
            ..Head::new(SessionId::new(day, NonZeroU32::new(self.number)?)?)
        };
        head.summary()
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// An event was acknowledged.
    Event(EventSummary),
    /// Something may have happened that was not heard: the owner changed.
    Lagged,
}

/// An event, as far as someone needs to know who follows the news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSummary {
    /// The session it happened to.
    pub session: SessionId,
    /// Its place in the chain.
    pub seq: u32,
    /// When.
    pub at: Timestamp,
    /// The word for what happened.
    pub kind: String,
    /// The iteration it concerns.
    pub index: Option<u32>,
}

impl From<&Event> for EventSummary {
    fn from(event: &Event) -> EventSummary {
        let index = match &event.body {
            EventBody::Recorded { index, .. } | EventBody::Annotated { index, .. } => Some(*index),
            _ => None,
        };
        EventSummary { session: event.session, seq: event.seq, at: event.at, kind: event.body.kind().to_owned(), index }
    }
}

/// A store's error on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Refused(Refusal),
    InUse(PathBuf),
    NewerFormat { found: u32, known: u32, path: PathBuf },
    Io { action: String, path: PathBuf, kind: IoKind, message: String },
    OutcomeUnknown { path: PathBuf, message: String },
    Database(String),
    Import { session: Option<SessionId>, seq: u32, problem: String },
    Misuse(String),
}

/// The kinds of I/O error that people are told of in words of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum IoKind {
    StorageFull,
    QuotaExceeded,
    FileTooLarge,
    PermissionDenied,
    ReadOnlyFilesystem,
    NotFound,
    Other,
}

const KINDS: [(IoKind, io::ErrorKind); 6] = [
    (IoKind::StorageFull, io::ErrorKind::StorageFull),
    (IoKind::QuotaExceeded, io::ErrorKind::QuotaExceeded),
    (IoKind::FileTooLarge, io::ErrorKind::FileTooLarge),
    (IoKind::PermissionDenied, io::ErrorKind::PermissionDenied),
    (IoKind::ReadOnlyFilesystem, io::ErrorKind::ReadOnlyFilesystem),
    (IoKind::NotFound, io::ErrorKind::NotFound),
];

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Refused(refusal) => Failure::Refused(refusal),
            Error::InUse(path) => Failure::InUse(path),
            Error::NewerFormat { found, known, path } => Failure::NewerFormat { found, known, path },
            Error::Io { action, path, source } => {
                let kind =
                    KINDS.iter().find(|(_, kind)| *kind == source.kind()).map_or(IoKind::Other, |(kind, _)| *kind);
                Failure::Io { action: action.into_owned(), path, kind, message: source.to_string() }
            }
            Error::OutcomeUnknown { path, source } => Failure::OutcomeUnknown { path, message: source.to_string() },
            Error::Database(message) => Failure::Database(message),
            Error::Import { session, seq, problem } => Failure::Import { session, seq, problem: problem.into_owned() },
            Error::Misuse(message) => Failure::Misuse(message.into_owned()),
            Error::Incompatible(owner) => Failure::Misuse(owner),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Refused(refusal) => Error::Refused(refusal),
            Failure::InUse(path) => Error::InUse(path),
            Failure::NewerFormat { found, known, path } => Error::NewerFormat { found, known, path },
            Failure::Io { action, path, kind, message } => {
                let kind =
                    KINDS.iter().find(|(known, _)| *known == kind).map_or(io::ErrorKind::Other, |(_, kind)| *kind);
                Error::Io { action: action.into(), path, source: io::Error::new(kind, message) }
            }
            Failure::OutcomeUnknown { path, message } => {
                Error::OutcomeUnknown { path, source: io::Error::other(message) }
            }
            Failure::Database(message) => Error::Database(message),
            Failure::Import { session, seq, problem } => Error::Import { session, seq, problem: problem.into() },
            Failure::Misuse(message) => Error::Misuse(message.into()),
        }
    }
}
