//! What people and agents see of errors: a kind, what happened to which thing, and what to do about it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What sort of failure it is.
    pub kind: ErrorKind,
    /// What happened, and to which thing.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// What lies behind it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

/// The sorts of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// There is no such session, iteration or image.
    NotFound,
    /// The request itself is wrong: correct it and ask again.
    Invalid,
    /// Someone else was faster, or an idempotency key was used for something else.
    Conflict,
    /// The session is archived and takes no more iterations.
    Archived,
    /// Another process has the workspace open.
    Busy,
    /// What was asked for was lost to damage.
    Damaged,
    /// The disk or the database failed.
    Internal,
}

/// An error as every face shows it in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorView {
    /// The error.
    pub error: ErrorBody,
}

/// What an [`ErrorView`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The sort of failure.
    pub kind: ErrorKind,
    /// What happened, and to which thing.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl Error {
    /// An error without causes.
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error { kind, message: message.into(), hint: hint.into(), causes: Vec::new() }
    }

    /// The same error, with what lies behind it.
    #[must_use]
    pub fn caused_by(mut self, cause: impl fmt::Display) -> Error {
        self.causes.push(cause.to_string());
        self
    }

    /// The error as JSON shows it.
    pub fn view(&self) -> ErrorView {
        ErrorView { error: ErrorBody { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() } }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<crate::store::Error> for Error {
    fn from(_: crate::store::Error) -> Error {
        todo!()
    }
}
