//! What people and agents see of errors: a kind, what happened to which thing, and what to do about it.

use std::path::Path;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images;
use crate::model::{Invalid, Refusal};
use crate::store;

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

/// What went wrong, and what to do about it.
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

    /// The request itself is wrong.
    pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message, hint)
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

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        match error {
            store::Error::Refused(refusal) => refusal.into(),
            store::Error::InUse(path) => Error::new(
                ErrorKind::Busy,
                format!("another process has the workspace open: {}", path.display()),
                "wait for it to end or stop it, then try again",
            ),
            store::Error::Unresponsive { pid } => Error::new(
                ErrorKind::Busy,
                error.to_string(),
                match pid {
                    Some(pid) => format!(
                        "resume or end process {pid}, then try again; a retry of a write with the same idempotency key is safe"
                    ),
                    None => "resume or end that process, then try again".to_owned(),
                },
            ),
            store::Error::Incompatible(owner) => Error::new(
                ErrorKind::Busy,
                owner,
                "stop that process, or use the same version of Retake in both: nothing was changed",
            ),
            store::Error::NewerFormat { found, known, path } => Error::new(
                ErrorKind::Internal,
                format!(
                    "the workspace has format {found}, and this version reads up to {known}: {}",
                    path.display()
                ),
                "update Retake: the workspace was written by a newer version, and is left as it is",
            ),
            store::Error::Io { action, path, source } => disk_error(&action, &path, &source),
            store::Error::OutcomeUnknown { ref source, .. } => {
                let hint = "retry it with the same idempotency key: it is there once, whether or not this write was";
                Error::new(ErrorKind::Internal, error.to_string(), hint).caused_by(source.to_string())
            }
            store::Error::Database(cause) => Error::new(
                ErrorKind::Internal,
                "the database failed, and rebuilding it did not help",
                "run `retake verify`: everything acknowledged is in the journal, from which `retake repair` rebuilds it",
            )
            .caused_by(cause),
            store::Error::Server { problem, hint, temporary } => {
                let kind = if temporary { ErrorKind::Busy } else { ErrorKind::Internal };
                Error::new(kind, problem, hint.unwrap_or_else(|| "ask whoever runs the server".to_owned()))
            }
            store::Error::Import { .. } => Error::new(
                ErrorKind::Conflict,
                error.to_string(),
                "what is here is left as it is: import into another workspace, or compare the two sessions",
            ),
            store::Error::Misuse(cause) => Error::new(
                ErrorKind::Internal,
                "Retake asked its own store for something impossible",
                "nothing was written; please report this with the request that led to it",
            )
            .caused_by(cause),
        }
    }
}

impl From<images::Error> for Error {
    fn from(error: images::Error) -> Error {
        disk_error(error.action, &error.path, &error.source)
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        Error::new(ErrorKind::Invalid, invalid.to_string(), invalid.hint)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let message = refusal.to_string();
        let (kind, hint) = match refusal {
            Refusal::NoSession(_) => (ErrorKind::NotFound, "list the sessions to see which there are".to_owned()),
            Refusal::NoIteration { id, last, .. } => {
                (ErrorKind::NotFound, format!("give an index from 0 to {last}, or {id} for its last iteration"))
            }
            Refusal::Archived(id) => {
                let hint = format!(
                    "restore {id} first, or record without sessionId and with parent {id}: a new session that goes on from it"
                );
                return Error::new(ErrorKind::Archived, format!("{message} and takes no more iterations"), hint);
            }
            Refusal::Count { .. } => (
                ErrorKind::Conflict,
                "someone else has added to it: look at what is new, then record again with the count there is now"
                    .to_owned(),
            ),
            Refusal::Gone(id) => (
                ErrorKind::Damaged,
                format!(
                    "audit {id} to see what is known of it, and look into quarantine/ in the workspace for what was set aside"
                ),
            ),
            Refusal::Full(_) => {
                (ErrorKind::Invalid, "start a new session, with the last iteration as parent".to_owned())
            }
        };
        Error::new(kind, message, hint)
    }
}

/// What the disk said, in words for the two things that people can do something about.
pub(super) fn disk_error(action: &str, path: &Path, source: &io::Error) -> Error {
    use io::ErrorKind as Io;
    let path = path.display();
    let (message, hint) = match source.kind() {
        Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => (
            format!("the disk is full: cannot {action}: {path}"),
            "free some space (or raise the quota), then try again: nothing that was acknowledged is affected",
        ),
        Io::PermissionDenied | Io::ReadOnlyFilesystem => (
            format!("not allowed to {action}: {path}"),
            "give yourself the right to read and write there, or choose another workspace",
        ),
        _ => (format!("cannot {action}: {path}"), "look at the cause and at the disk, then try again"),
    };
    Error::new(ErrorKind::Internal, message, hint).caused_by(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: io::ErrorKind) -> Error {
        let path = "ws/journal/00000001.log".into();
        store::Error::Io { action: "append to the journal".into(), path, source: kind.into() }.into()
    }

    #[test]
    fn a_full_and_a_read_only_disk_say_so() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
            let error = io(kind);
            assert_eq!(error.message, "the disk is full: cannot append to the journal: ws/journal/00000001.log");
            assert!(error.hint.starts_with("free some space"), "{}", error.hint);
            assert_eq!(error.causes.len(), 1);
        }
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            let error = io(kind);
            assert_eq!(error.message, "not allowed to append to the journal: ws/journal/00000001.log");
            assert!(error.hint.contains("read and write"), "{}", error.hint);
        }
    }

    #[test]
    fn every_refusal_names_its_session_and_a_way_on() {
        let id = "session-2025-12-11-001".parse().unwrap();
        for (refusal, kind) in [
            (Refusal::NoSession(id), ErrorKind::NotFound),
            (Refusal::NoIteration { id, index: 9, last: 3 }, ErrorKind::NotFound),
            (Refusal::Archived(id), ErrorKind::Archived),
            (Refusal::Count { id, expected: 3, actual: 4 }, ErrorKind::Conflict),
            (Refusal::Gone(id), ErrorKind::Damaged),
            (Refusal::Full(id), ErrorKind::Invalid),
        ] {
            let error = Error::from(store::Error::Refused(refusal));
            assert_eq!(error.kind, kind);
            assert!(error.message.contains("session-2025-12-11-001"), "{error}");
            assert!(!error.hint.is_empty());
        }
    }

    #[test]
    fn the_json_is_the_contracts() {
        let error = Error::from(store::Error::InUse("ws".into()));
        assert_eq!(
            serde_json::to_string(&error.view()).unwrap(),
            r#"{"error":{"kind":"busy","message":"another process has the workspace open: ws","hint":"wait for it to end or stop it, then try again"}}"#
        );
        let kinds = [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Internal, ErrorKind::Damaged];
        assert_eq!(serde_json::to_string(&kinds).unwrap(), r#"["notFound","invalid","internal","damaged"]"#);
    }
}
