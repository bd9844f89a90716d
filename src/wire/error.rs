//! Errors as text: a kind, a message that names the thing and states the problem, and a hint in the imperative.
//!
//! The core reports errors as values; a [`Vocabulary`] provides the names of fields and commands for each face. In JSON
//! these are `sessionId` and `list-sessions`, on the command line `--session` and `retake list`.

use std::sync::Arc;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::storage_words::{image_words, io_words, is_full, log_words};
use super::vocabulary::{JsonVocabulary, Vocabulary};
use crate::model::SessionId;
use crate::store;
use crate::workspace::{self, ImageProblem};

/// An error as text.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What happened, and to which thing.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The underlying causes, outermost first.
    pub causes: Vec<String>,
    /// The value that the text was generated from, if any.
    value: Option<Arc<Value>>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// There is no such session, iteration or image.
    NotFound,
    /// The request itself is wrong: correct it and try again.
    Invalid,
    /// Another writer was faster, or an idempotency key was used for another request.
    Conflict,
    /// The session is archived and accepts no more iterations.
    Archived,
    /// Another process has the workspace open.
    Busy,
    /// What was asked for was lost to damage.
    Damaged,
    /// The disk or the database failed.
    Internal,
}

/// An error as JSON shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorView {
    /// The error.
    pub error: ErrorBody,
}

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What happened, and to which thing.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The value that an error was generated from.
#[derive(Debug)]
enum Value {
    /// A call of the core failed.
    Workspace(Arc<workspace::Error>),
    /// A request is invalid.
    Request(RequestError),
}

/// A problem with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The text is not a cursor.
    InvalidCursor,
    /// The cursor belongs to another listing.
    ForeignCursor,
    /// The limit is zero.
    ZeroLimit {
        /// The largest limit.
        most: u32,
    },
    /// The value of a field is invalid.
    Field {
        /// The field's name in JSON.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// An image is not base64.
    NotBase64 {
        /// The number of the image, from 0.
        number: usize,
    },
}

impl Error {
    /// Creates an error without causes.
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Error {
        Error { kind, message: message.into(), hint: hint.into(), causes: Vec::new(), value: None }
    }

    /// Adds an underlying cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl fmt::Display) -> Error {
        self.causes.push(cause.to_string());
        self
    }

    /// Returns the same error with another hint, which is independent of the vocabulary.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Error {
        Error { hint: hint.into(), value: None, ..self }
    }

    /// Returns the error as it appears in JSON.
    pub fn view(&self) -> ErrorView {
        ErrorView { error: ErrorBody { kind: self.kind, message: self.message.clone(), hint: self.hint.clone() } }
    }

    /// Returns the same error in another vocabulary. An error without a value is unchanged.
    #[must_use]
    pub fn reworded(&self, vocabulary: &dyn Vocabulary) -> Error {
        let Some(value) = &self.value else { return self.clone() };
        let Words { kind, message, hint } = value.words(vocabulary);
        Error { kind, message, hint, causes: self.causes.clone(), value: Some(Arc::clone(value)) }
    }

    /// Returns the core error that this one was generated from.
    pub fn as_workspace_error(&self) -> Option<&workspace::Error> {
        match self.value.as_deref() {
            Some(Value::Workspace(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the request could have been rejected without reading the workspace.
    pub fn is_about_the_request(&self) -> bool {
        use workspace::Error as Core;
        match self.value.as_deref() {
            Some(Value::Request(_)) => true,
            Some(Value::Workspace(error)) => matches!(
                **error,
                Core::InvalidId(_)
                    | Core::InvalidReference(_)
                    | Core::InvalidField { .. }
                    | Core::InvalidQuery(_)
                    | Core::NothingToAnnotate
                    | Core::NothingToName
                    | Core::CompareCount(_)
                    | Core::CountOfNewSession
                    | Core::InvalidImage {
                        problem: ImageProblem::NotAnImage { .. }
                            | ImageProblem::Empty { .. }
                            | ImageProblem::TooLarge { .. },
                        ..
                    }
            ),
            None => false,
        }
    }

    fn from_value(value: Value, causes: Vec<String>) -> Error {
        let Words { kind, message, hint } = value.words(&JsonVocabulary);
        Error { kind, message, hint, causes, value: Some(Arc::new(value)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.as_workspace_error().map(|error| error as _)
    }
}

impl From<workspace::Error> for Error {
    fn from(error: workspace::Error) -> Error {
        Arc::new(error).into()
    }
}

impl From<Arc<workspace::Error>> for Error {
    fn from(error: Arc<workspace::Error>) -> Error {
        let mut causes = Vec::new();
        let mut source = match &*error {
            workspace::Error::InvalidImage { problem: ImageProblem::Unreadable { source, .. }, .. } => {
                Some(source as &dyn std::error::Error)
            }
            workspace::Error::Log(store::Error::Database(cause)) => {
                causes.push(cause.clone());
                None
            }
            workspace::Error::Log(store::Error::Misuse(cause)) => {
                causes.push(cause.to_string());
                None
            }
            error => std::error::Error::source(error),
        };
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        Error::from_value(Value::Workspace(error), causes)
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        Error::from_value(Value::Request(error), Vec::new())
    }
}

/// The text of an error.
pub(super) struct Words {
    kind: ErrorKind,
    message: String,
    hint: String,
}

impl Words {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Words {
        Words { kind, message: message.into(), hint: hint.into() }
    }
}

impl Value {
    fn words(&self, vocabulary: &dyn Vocabulary) -> Words {
        match self {
            Value::Workspace(error) => workspace_words(error, vocabulary),
            Value::Request(error) => request_words(error, vocabulary),
        }
    }
}

fn request_words(error: &RequestError, vocabulary: &dyn Vocabulary) -> Words {
    use ErrorKind::Invalid;
    match error {
        RequestError::InvalidCursor => Words::new(
            Invalid,
            format!("invalid {}", vocabulary.field("cursor")),
            format!(
                "pass {} from the previous page unchanged, or leave the cursor out to start over",
                vocabulary.field("nextCursor")
            ),
        ),
        RequestError::ForeignCursor => Words::new(
            Invalid,
            "the cursor belongs to another listing",
            format!(
                "keep everything but {} as it was on the previous page, or leave the cursor out to start over",
                vocabulary.field("limit")
            ),
        ),
        RequestError::ZeroLimit { most } => Words::new(
            Invalid,
            format!("{} is 0: expected a number from 1 to {most}", vocabulary.field("limit")),
            "correct it, or leave it out",
        ),
        RequestError::Field { field, problem, hint } => {
            Words::new(Invalid, format!("{} {problem}", vocabulary.field(field)), hint.clone())
        }
        RequestError::NotBase64 { number } => Words::new(
            Invalid,
            format!("{}.data is not base64", vocabulary.entry("images", *number)),
            "pass the bytes of the image file as base64, or the path of the file",
        ),
    }
}

/// Returns the kind of error for a path that cannot be used.
fn path_kind(source: Option<&io::Error>) -> ErrorKind {
    match source.map(io::Error::kind) {
        Some(io::ErrorKind::NotFound) => ErrorKind::NotFound,
        _ => ErrorKind::Invalid,
    }
}

fn workspace_words(error: &workspace::Error, vocabulary: &dyn Vocabulary) -> Words {
    use ErrorKind::{Archived, Conflict, Damaged, Internal, Invalid, NotFound};
    use workspace::Error;
    let message = error.to_string();
    let command = |verb: &str| vocabulary.command(verb);
    let field = |name: &str| vocabulary.field(name);
    match error {
        Error::SessionNotFound(_) => {
            Words::new(NotFound, message, format!("{} to see the sessions there are", command("list")))
        }
        Error::NoSessions => Words::new(
            NotFound,
            message,
            format!("record an iteration without {}, which starts a session", field("sessionId")),
        ),
        Error::AllArchived => {
            Words::new(NotFound, message, "pass a session or an iteration, or restore one of the archived sessions")
        }
        Error::IterationNotFound { session, last, .. } => Words::new(
            NotFound,
            message,
            format!("pass an index from 0 to {last}, or {session} for its last iteration"),
        ),
        Error::ImageNotFound { iteration, count: 0, .. } => Words::new(
            NotFound,
            message,
            format!("{} to see its outcome", vocabulary.command_for("show", &iteration.to_string())),
        ),
        Error::ImageNotFound { count, .. } => {
            Words::new(NotFound, message, format!("pass a number from 0 to {}", count.saturating_sub(1)))
        }
        Error::NothingToSee { recorded: false, .. } => {
            Words::new(NotFound, message, "choose an iteration that has an image")
        }
        Error::NothingToSee { .. } => Words::new(NotFound, message, "pass the path of an image file instead"),
        Error::Archived(id) => Words::new(
            Archived,
            message,
            format!(
                "{} first, or record without {} and with {} {id}, which starts a new session from it",
                vocabulary.command_for("restore", &id.to_string()),
                field("sessionId"),
                field("parent"),
            ),
        ),
        Error::CountMismatch { .. } => Words::new(
            Conflict,
            message,
            "another writer has added to it: look at what is new, then record again with the current count",
        ),
        Error::CountOfNewSession => Words::new(
            Invalid,
            format!("{} is given without {}", field("expectedIterationCount"), field("sessionId")),
            "name the session whose iterations you counted, or leave the count out to start a new session",
        ),
        Error::SessionFull(_) => {
            Words::new(Invalid, message, "start a new session, with the last iteration as its parent")
        }
        Error::SessionLost(id) => Words::new(
            Damaged,
            message,
            format!(
                "{} to see what is known of {id}, and look into quarantine/ in the workspace for what was set aside",
                command("audit")
            ),
        ),
        Error::IterationLost { iteration, nearest } => {
            let near = nearest.map(|id| format!("the nearest that is left is {id}; ")).unwrap_or_default();
            let session = iteration.session;
            Words::new(Damaged, message, format!("{near}{} to see what is known of {session}", command("audit")))
        }
        Error::KeyReused { .. } => Words::new(
            Conflict,
            message,
            "nothing was written: use a new key for every request, and the same key only to retry the same request",
        ),
        Error::InvalidId(_) => Words::new(Invalid, message.clone(), id_hint(&message, vocabulary)),
        Error::InvalidReference(_) => Words::new(Invalid, message.clone(), reference_hint(&message)),
        Error::InvalidField { field: name, problem, hint } => {
            let hint = hint.replace("`parameters`", &format!("`{}`", field("parameters")));
            Words::new(Invalid, format!("{} {problem}", field(name)), hint)
        }
        Error::InvalidQuery(error) => Words::new(Invalid, message, error.hint.clone()),
        Error::NothingToAnnotate => Words::new(Invalid, message, "pass a rating, tags or a note"),
        Error::NothingToName => Words::new(
            Invalid,
            message,
            format!("pass {} or {}; an empty text removes it", field("title"), field("project")),
        ),
        Error::CompareCount(_) => Words::new(
            Invalid,
            message,
            "name the iterations, such as session-2025-12-11-001#3; the others are compared with the first",
        ),
        Error::InvalidImage { number, problem } => image_words(*number, problem, vocabulary),
        Error::OriginalUnavailable { damaged, recorded, .. } => Words::new(
            if *damaged || *recorded { Damaged } else { NotFound },
            message,
            "record the original again to restore it: it takes its old place",
        ),
        Error::Undecodable { .. } => Words::new(
            Invalid,
            message,
            "its bytes are kept: read the original, and open it with a program for its type",
        ),
        Error::Video { .. } => Words::new(Invalid, message, "compare the recipes, or record a frame of it as an image"),
        Error::InvalidPath { hint, source, .. } => Words::new(path_kind(source.as_ref()), message, *hint),
        Error::InvalidBundle { source, .. } => {
            let write = command("export --bundle FILE");
            Words::new(path_kind(source.as_ref()), message, format!("pass an audit bundle; to write one, {write}"))
        }
        Error::InvalidInput { hint, .. } => Words::new(Invalid, message, *hint),
        Error::Export(source) => Words::new(
            Internal,
            message,
            match is_full(source) {
                true => "free some space or export to another disk, then try again",
                false => "look at the cause, then export again: the workspace is not affected",
            },
        ),
        Error::NoRandomness(_) => Words::new(Internal, message, format!("pass {} yourself", field("idempotencyKey"))),
        Error::Cancelled => Words::new(Internal, message, "try again: nothing was changed"),
        Error::Io { action, path, source } => io_words(action, &path.display(), source),
        Error::Log(error) => log_words(error, vocabulary),
    }
}

/// Returns the hint for a text that is not a session id; a reference to an iteration is the most likely mistake.
fn id_hint(message: &str, vocabulary: &dyn Vocabulary) -> String {
    let quoted = message.split('"').nth(1).unwrap_or_default();
    match quoted.split_once('#') {
        Some((id, _)) if id.parse::<SessionId>().is_ok() => format!("leave the iteration out: {id}"),
        None if is_misspelt_latest(quoted) => "did you mean latest?".to_owned(),
        _ => format!("pass an id as it was returned, or {} to see the sessions there are", vocabulary.command("list")),
    }
}

/// Returns the hint for a text that is not a reference.
fn reference_hint(message: &str) -> String {
    let quoted = message.split('"').nth(1).unwrap_or_default();
    let (session, rest) = quoted.find('#').map_or((quoted, ""), |at| quoted.split_at(at));
    if is_misspelt_latest(session) {
        return format!("did you mean latest{rest}?");
    }
    "write session-YYYY-MM-DD-NNN#INDEX, a session id for its last iteration, or latest".to_owned()
}

/// Returns whether a text is most likely a mistyped `latest`: a part of it, or one letter off.
fn is_misspelt_latest(text: &str) -> bool {
    const LATEST: &str = "latest";
    let text = text.to_ascii_lowercase();
    let same = |(one, other): &(char, char)| one == other;
    let start = LATEST.chars().zip(text.chars()).take_while(same).count();
    let end = LATEST.chars().rev().zip(text.chars().rev()).take_while(same).count();
    text.len() >= 3 && text.len() <= LATEST.len() + 1 && (start == text.len() || start + end + 1 >= LATEST.len())
        || matches!(text.as_str(), "last" | "lastest" | "newest" | "recent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Refusal;

    #[test]
    fn latest_may_be_mistyped() {
        for text in ["lates", "lastest", "latst", "last", "ltest", "late", "Latest"] {
            assert!(is_misspelt_latest(text), "{text}");
        }
        for text in ["first", "cat.png", "session-2025", "", "la"] {
            assert!(!is_misspelt_latest(text), "{text}");
        }
        let error = Error::from(workspace::Error::from("lates#2".parse::<crate::model::Reference>().unwrap_err()));
        assert_eq!(error.hint, "did you mean latest#2?");
    }

    fn io(kind: io::ErrorKind) -> Error {
        let path = "ws/journal/00000001.log".into();
        let error = store::Error::Io { action: "append to the journal".into(), path, source: kind.into() };
        workspace::Error::from(error).into()
    }

    #[test]
    fn a_full_and_a_read_only_disk_are_named() {
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
    fn every_refusal_names_its_session_and_has_a_hint() {
        let id = "session-2025-12-11-001".parse().unwrap();
        for (refusal, kind) in [
            (Refusal::NoSession(id), ErrorKind::NotFound),
            (Refusal::NoIteration { id, index: 9, last: 3 }, ErrorKind::NotFound),
            (Refusal::Archived(id), ErrorKind::Archived),
            (Refusal::Count { id, expected: 3, actual: 4 }, ErrorKind::Conflict),
            (Refusal::Gone(id), ErrorKind::Damaged),
            (Refusal::Full(id), ErrorKind::Invalid),
        ] {
            let error = Error::from(workspace::Error::from(store::Error::Refused(refusal)));
            assert_eq!(error.kind, kind);
            assert!(error.message.contains("session-2025-12-11-001"), "{error}");
            assert!(!error.hint.is_empty());
        }
    }

    #[test]
    fn callers_can_match_on_the_value() {
        let id = "session-2025-12-11-001".parse().unwrap();
        let error = Error::from(workspace::Error::Archived(id));
        assert!(matches!(error.as_workspace_error(), Some(workspace::Error::Archived(found)) if *found == id));
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn a_vocabulary_names_fields_and_leaves_what_is_quoted_alone() {
        struct Flags;
        impl Vocabulary for Flags {
            fn field(&self, name: &str) -> String {
                format!("--{name}")
            }
            fn command(&self, verb: &str) -> String {
                format!("run `retake {verb}`")
            }
        }
        let error = Error::from(workspace::Error::KeyReused { key: "sessionId".to_owned(), used: "x".to_owned() });
        assert_eq!(error.reworded(&Flags).message, error.message);
        let error = Error::from(workspace::Error::CountOfNewSession).reworded(&Flags);
        assert_eq!(error.message, "--expectedIterationCount is given without --sessionId");
    }

    #[test]
    fn an_id_with_an_index_is_recognised() {
        let parse = |text: &str| crate::wire::parse_session_id(text).unwrap_err();
        assert_eq!(parse("session-2025-12-11-001#3").hint, "leave the iteration out: session-2025-12-11-001");
        for text in ["", "latest", "session-2025-12-11-1", "../etc", "session-2025-02-30-001#x"] {
            let error = parse(text);
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.message.contains("is not a session id"), "{error}");
        }
    }

    #[test]
    fn the_json_is_the_contracts() {
        let error = Error::from(workspace::Error::from(store::Error::InUse("ws".into())));
        assert_eq!(
            serde_json::to_string(&error.view()).unwrap(),
            r#"{"error":{"kind":"busy","message":"another process has the workspace open: ws","hint":"wait until it ends or stop it, then try again"}}"#
        );
        let kinds = [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Internal, ErrorKind::Damaged];
        assert_eq!(serde_json::to_string(&kinds).unwrap(), r#"["notFound","invalid","internal","damaged"]"#);
    }
}
