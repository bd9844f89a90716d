//! What can go wrong in the store.

use std::borrow::Cow;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::model::{Refusal, SessionId};

use super::Remedy;

/// What can go wrong in the store. It is serialised as it is on its way from the owner of a workspace to a client.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// The session does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another process has the workspace open.
    #[error("the workspace is in use by another process: {0}")]
    InUse(#[serde(with = "crate::disk::io_error::path")] PathBuf),
    /// The process that owns the workspace does not answer: it is suspended, or stuck.
    #[error("{} has the workspace open and does not answer", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Unresponsive {
        /// Its process id, where it is known.
        pid: Option<u32>,
    },
    /// The process that owns the workspace cannot be understood.
    #[error("{0}")]
    Incompatible(String),
    /// The workspace was written by a newer version.
    #[error("the workspace has format {found}, and this version reads up to {known}: {path}")]
    NewerFormat {
        /// Its format.
        found: u32,
        /// What we know.
        known: u32,
        /// The file that says so.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {action}: {path}")]
    Io {
        /// What was tried.
        action: Cow<'static, str>,
        /// On what.
        #[serde(with = "crate::disk::io_error::path")]
        path: PathBuf,
        /// What the system answered.
        #[serde(with = "crate::disk::io_error")]
        source: std::io::Error,
    },
    /// A write that failed, and of which nothing could be written to say that it does not count. Another attempt with the
    /// same idempotency key is safe: it finds the write or makes it.
    #[error("the outcome of this write is unknown; it is safe to retry it with the same key: {path}")]
    OutcomeUnknown {
        /// The journal.
        path: PathBuf,
        /// What the system answered.
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
    /// A record that was to be imported does not fit.
    #[error("event {seq} of {} cannot be imported: {problem}", session.map_or("an unknown session".to_owned(), |id| id.to_string()))]
    Import {
        /// The session, where it is known.
        session: Option<SessionId>,
        /// The place in its chain.
        seq: u32,
        /// What is wrong with it.
        problem: Cow<'static, str>,
    },
    /// A batch that no caller may build.
    #[error("{0}")]
    Misuse(Cow<'static, str>),
}
