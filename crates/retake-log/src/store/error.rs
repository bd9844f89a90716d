//! The errors of the store.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Refusal, SessionId};

use super::Remedy;

/// An error of the store. It is serialised unchanged between the owner of a workspace and its clients.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The session refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another process has the workspace open.
    #[error("the workspace is in use by another process: {0}")]
    InUse(#[serde(with = "crate::disk::io_error::path")] PathBuf),
    /// The process that owns the workspace does not respond: it is suspended or stuck.
    #[error("{} has the workspace open and does not answer", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Unresponsive {
        /// Its process id, if known.
        pid: Option<u32>,
    },
    /// The process that owns the workspace speaks another protocol version.
    #[error("{0}")]
    Incompatible(String),
    /// The workspace was written by a newer version.
    #[error("the workspace has format {found}, and this version reads up to {known}: {path}")]
    NewerFormat {
        /// Its format.
        found: u32,
        /// The newest format we know.
        known: u32,
        /// The file that states it.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
    },
    /// A file system operation failed.
    #[error("cannot {action}: {path}")]
    Io {
        /// The attempted action.
        action: Cow<'static, str>,
        /// The path.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
        /// The system error.
        #[serde(with = "crate::disk::io_error")]
        source: std::io::Error,
    },
    /// A write failed, and it could not be voided either. A retry with the same idempotency key is safe: it finds the
    /// write or repeats it.
    #[error("the outcome of this write is unknown; it is safe to retry it with the same key: {path}")]
    OutcomeUnknown {
        /// The journal.
        path: PathBuf,
        /// The system error.
        #[serde(with = "crate::disk::io_error")]
        source: std::io::Error,
    },
    /// The database fails, and rebuilding it did not help.
    #[error("the database failed: {0}")]
    Database(String),
    /// The server that carries the log cannot be reached, or failed.
    #[error("{problem}")]
    Server {
        /// What happened, and to which server.
        problem: String,
        /// What to do about it.
        remedy: Option<Remedy>,
        /// Whether the same call may succeed later.
        temporary: bool,
    },
    /// A record to be imported does not fit.
    #[error("event {seq} of {} cannot be imported: {problem}", session.map_or("an unknown session".to_owned(), |id| id.to_string()))]
    Import {
        /// The session, if known.
        session: Option<SessionId>,
        /// The sequence number.
        seq: u32,
        /// What is wrong with it.
        problem: Cow<'static, str>,
    },
    /// A batch that is a caller's bug.
    #[error("{0}")]
    Misuse(Cow<'static, str>),
}
