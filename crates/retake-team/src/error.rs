//! The errors of a team workspace. No message ever contains a password.

use std::time::Duration;

use retake_log::model::Refusal;
use retake_log::store::{self, Remedy};

/// An error of a team workspace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The session does not accept the batch.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The URL, or one of the files and variables that complete it, is invalid.
    #[error("invalid workspace URL: {0}")]
    Config(String),
    /// The server could not be reached, or did not respond, within the timeout of a call.
    #[error("PostgreSQL at {server} is unreachable after {} s: {problem}", .waited.as_secs())]
    Unreachable {
        /// Host and port, without credentials.
        server: String,
        /// The time spent trying.
        waited: Duration,
        /// The last problem.
        problem: String,
    },
    /// The server rejects the role or its password.
    #[error("PostgreSQL at {server} refused the connection: {problem}")]
    Denied {
        /// Host and port, without credentials.
        server: String,
        /// The server's message.
        problem: String,
    },
    /// The database contains no workspace.
    #[error("schema \"{schema}\" in {server} is not a Retake workspace")]
    NoWorkspace {
        /// The expected schema.
        schema: String,
        /// Host, port and database.
        server: String,
    },
    /// The schema has another version.
    #[error("the workspace has schema version {found}, this program needs {needed}")]
    SchemaVersion {
        /// The version in the database.
        found: i32,
        /// The version of this program.
        needed: i32,
    },
    /// The workspace was restored into a cluster whose transaction ids are lower than those in the records.
    #[error("the workspace was restored from a dump and is not ready for new records")]
    Restored,
    /// A workspace already exists.
    #[error("schema \"{0}\" already holds a Retake workspace")]
    Exists(String),
    /// A record to be imported does not fit.
    #[error("{}", import_message(*.session, *.seq, .problem))]
    Import {
        /// The session, if known.
        session: Option<retake_log::model::SessionId>,
        /// The sequence number.
        seq: u32,
        /// The problem.
        problem: &'static str,
    },
    /// A stored record does not match its hash.
    #[error("record {seq} of {session} is damaged in the database")]
    Damaged {
        /// The session.
        session: retake_log::model::SessionId,
        /// The sequence number.
        seq: u32,
    },
    /// A pooler mapped one of our connections to different server sessions.
    #[error("the connection goes through a transaction pooler, which loses prepared statements")]
    Pooler,
    /// The server reported an error that a retry does not fix.
    #[error("PostgreSQL reported an error: {0}")]
    Server(String),
    /// A batch that is a caller's bug.
    #[error("{0}")]
    Misuse(String),
    /// The runtime could not be started.
    #[error("cannot start the database client: {0}")]
    Runtime(#[source] std::io::Error),
}

impl Error {
    /// Returns what the user can do about it, if anything.
    pub fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Error::Unreachable { .. } => Remedy::CheckServer,
            Error::Denied { .. } => Remedy::CheckCredentials,
            Error::NoWorkspace { .. } => Remedy::CreateWorkspace,
            Error::SchemaVersion { found, needed } if found < needed => Remedy::UpgradeSchema,
            Error::SchemaVersion { .. } => Remedy::UpdateRetake,
            Error::Pooler => Remedy::AvoidTransactionPooler,
            Error::Restored => Remedy::UpgradeRestoredSchema,
            _ => return None,
        })
    }
}

fn import_message(session: Option<retake_log::model::SessionId>, seq: u32, problem: &str) -> String {
    let session = session.map_or("an unknown session".to_owned(), |id| id.to_string());
    format!("event {seq} of {session} cannot be imported: {problem}")
}

impl From<Error> for store::Error {
    fn from(error: Error) -> store::Error {
        match error {
            Error::Refused(refusal) => store::Error::Refused(refusal),
            Error::Import { session, seq, problem } => store::Error::Import { session, seq, problem: problem.into() },
            Error::Misuse(problem) => store::Error::Misuse(problem.into()),
            other => store::Error::Server {
                problem: other.to_string(),
                remedy: other.remedy(),
                temporary: matches!(other, Error::Unreachable { .. }),
            },
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        match error {
            store::Error::Refused(refusal) => Error::Refused(refusal),
            other => Error::Misuse(other.to_string()),
        }
    }
}
