//! The errors of a workspace, as values that callers can match on. `wire/error.rs` words them for people and agents.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::images;
use crate::model::id::ParseIdError;
use crate::model::reference::ParseReferenceError;
use crate::model::{Hash, Invalid, IterationId, ParseQueryError, Refusal, SessionId};
use crate::store;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no session with this id.
    #[error("there is no session {0}")]
    SessionNotFound(SessionId),
    /// The workspace is empty.
    #[error("the workspace has no sessions yet")]
    NoSessions,
    /// Every session is archived, so there is none to resume by default.
    #[error("all sessions of the workspace are archived")]
    AllArchived,
    /// The session has no iteration with this index.
    #[error("{session} has no iteration {index}: its last is {last}")]
    IterationNotFound {
        /// The session.
        session: SessionId,
        /// The requested index.
        index: u32,
        /// The session's last index.
        last: u32,
    },
    /// The iteration has no image with this number.
    #[error("{}", no_image(*iteration, *number, *count))]
    ImageNotFound {
        /// The iteration.
        iteration: IterationId,
        /// The requested number, from 0.
        number: u32,
        /// How many images the iteration has.
        count: usize,
    },
    /// The iteration has no image that can be decoded, so nothing can be compared with it.
    #[error("{iteration} has no image{}", if *recorded { " that could be read" } else { "" })]
    NothingToSee {
        /// The iteration.
        iteration: IterationId,
        /// Whether it has images that could not be decoded.
        recorded: bool,
    },
    /// The session is archived.
    #[error("{0} is archived and accepts no more iterations")]
    Archived(SessionId),
    /// The session does not have the number of iterations that the caller expected.
    #[error("{session} has {actual} {}, not {expected}", if *actual == 1 { "iteration" } else { "iterations" })]
    CountMismatch {
        /// The session.
        session: SessionId,
        /// The number that the caller expected.
        expected: u32,
        /// The actual number.
        actual: u32,
    },
    /// An expected count was given for a session that does not exist yet.
    #[error("an iteration count is expected of a new session")]
    CountOfNewSession,
    /// The session cannot hold any more events.
    #[error("{0} is full")]
    SessionFull(SessionId),
    /// All iterations of the session were lost to damage.
    #[error("all iterations of {0} were lost to damage")]
    SessionLost(SessionId),
    /// The iteration was lost to damage.
    #[error("{iteration} was lost to damage")]
    IterationLost {
        /// The iteration.
        iteration: IterationId,
        /// The nearest surviving iteration of the session.
        nearest: Option<IterationId>,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key {key:?} was already used for {used}")]
    KeyReused {
        /// The key.
        key: String,
        /// What it was used for.
        used: String,
    },
    /// A text is not a session id.
    #[error(transparent)]
    InvalidId(#[from] ParseIdError),
    /// A text is not a reference.
    #[error(transparent)]
    InvalidReference(#[from] ParseReferenceError),
    /// A value violates the limits of its field.
    #[error("{field} {problem}")]
    InvalidField {
        /// The field's name, as in JSON.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// A query cannot be parsed.
    #[error("{0}")]
    InvalidQuery(ParseQueryError),
    /// Nothing was given to annotate.
    #[error("nothing to annotate: no rating, tag or note was given")]
    NothingToAnnotate,
    /// Neither a title nor a project was given.
    #[error("nothing to change: neither a title nor a project was given")]
    NothingToName,
    /// Too few or too many iterations were given to compare.
    #[error("expected 2 to 12 iterations to compare, not {0}")]
    CompareCount(usize),
    /// An image cannot be recorded.
    #[error("image {number} {problem}")]
    InvalidImage {
        /// The number of the image, from 0.
        number: usize,
        /// What is wrong with it.
        problem: ImageProblem,
    },
    /// The original of an image is missing or damaged.
    #[error("{image} is {}: {}", if *damaged { "damaged" } else { "missing" }, path.display())]
    OriginalUnavailable {
        /// The image, as shown to people.
        image: String,
        /// Whether its file has other contents, as opposed to being missing.
        damaged: bool,
        /// Whether an iteration refers to it, so that its absence is a loss.
        recorded: bool,
        /// The expected path.
        path: PathBuf,
    },
    /// An image cannot be decoded.
    #[error("image {image} cannot be shown: {reason}")]
    Undecodable {
        /// The image's hash or path.
        image: String,
        /// Why it cannot be decoded.
        reason: images::Undecodable,
    },
    /// An image that must be decoded is a video.
    #[error("image {image} is a video ({mime_type}), and frames of videos are not decoded")]
    Video {
        /// The hash or path of the video.
        image: String,
        /// Its media type.
        mime_type: &'static str,
    },
    /// A file or directory given by the caller cannot be used.
    #[error("{problem}: {}", path.display())]
    InvalidPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do about it.
        hint: &'static str,
        /// The system error.
        source: Option<io::Error>,
    },
    /// A file given as an audit bundle is not one, or cannot be read.
    #[error("{problem}: {}", path.display())]
    InvalidBundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// The system error.
        source: Option<io::Error>,
    },
    /// The input given by the caller cannot be understood.
    #[error("{problem}")]
    InvalidInput {
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// An export could not be written.
    #[error("cannot write the export")]
    Export(#[source] io::Error),
    /// The system's random number generator failed.
    #[error("the system's random number generator failed, which is needed for an idempotency key")]
    NoRandomness(#[source] io::Error),
    /// The call was cancelled.
    #[error("cancelled: the client disconnected")]
    Cancelled,
    /// The file system failed.
    #[error("cannot {action}: {}", path.display())]
    Io {
        /// The action that failed.
        action: String,
        /// The file concerned.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// Another failure of the log.
    #[error(transparent)]
    Log(store::Error),
}

/// A problem with an image to be recorded.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImageProblem {
    /// Its file cannot be opened.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// Its path is not a regular file.
    NotAFile {
        /// The path.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
    },
    /// Its contents are not an image.
    NotAnImage {
        /// Its file, if it has one.
        path: Option<PathBuf>,
    },
    /// It is empty.
    Empty {
        /// Its file, if it has one.
        path: Option<PathBuf>,
    },
    /// It is larger than [`images::MAX_IMAGE_BYTES`].
    TooLarge {
        /// Its size.
        bytes: u64,
        /// Its file, if it has one.
        path: Option<PathBuf>,
    },
}

impl fmt::Display for ImageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place =
            |path: &Option<PathBuf>| path.as_ref().map(|path| format!(": {}", path.display())).unwrap_or_default();
        match self {
            ImageProblem::Unreadable { path, source } => {
                let what = match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "does not exist",
                    io::ErrorKind::PermissionDenied => "may not be read",
                    _ => "cannot be read",
                };
                write!(f, "{what}: {}", path.display())
            }
            ImageProblem::NotAFile { path, directory } => {
                let what = if *directory { "is a directory" } else { "is not a regular file" };
                write!(f, "{what}: {}", path.display())
            }
            ImageProblem::NotAnImage { path } => write!(f, "is not an image or video of a known type{}", place(path)),
            ImageProblem::Empty { path } => write!(f, "is empty{}", place(path)),
            ImageProblem::TooLarge { bytes, path } => {
                write!(f, "has {bytes} bytes, and at most {} are allowed{}", images::MAX_IMAGE_BYTES, place(path))
            }
        }
    }
}

impl Error {
    /// Creates an error for a failed file system operation.
    pub(crate) fn io(action: impl Into<String>, path: &Path, source: io::Error) -> Error {
        Error::Io { action: action.into(), path: path.to_owned(), source }
    }

    /// Creates an error for the original of `image`, which could not be read from `path`.
    pub(crate) fn original(image: impl fmt::Display, recorded: bool, path: &Path, source: io::Error) -> Error {
        let damaged = match source.kind() {
            io::ErrorKind::NotFound => false,
            io::ErrorKind::InvalidData => true,
            _ => return Error::io("read the image", path, source),
        };
        Error::OriginalUnavailable { image: image.to_string(), damaged, recorded, path: path.to_owned() }
    }

    /// Creates an error for a stored image that cannot be shown.
    pub(crate) fn unavailable(hash: Hash, path: &Path, error: images::ImageUnavailable) -> Error {
        match error {
            images::ImageUnavailable::Unread(source) => {
                Error::original(format_args!("image {hash}"), false, path, source)
            }
            images::ImageUnavailable::Undecodable(reason) => Error::undecodable(hash.to_string(), reason),
        }
    }

    /// Creates an error for an image that cannot be decoded, named by its hash or path.
    pub(crate) fn undecodable(image: String, reason: images::Undecodable) -> Error {
        match reason {
            images::Undecodable::Video(mime_type) => Error::Video { image, mime_type },
            reason => Error::Undecodable { image, reason },
        }
    }
}

fn no_image(iteration: IterationId, number: u32, count: usize) -> String {
    match count {
        0 => format!("{iteration} has no image"),
        _ => format!("{iteration} has no image {number}"),
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Error {
        match error {
            store::Error::Refused(refusal) => refusal.into(),
            store::Error::Io { action, path, source } => Error::Io { action: action.into_owned(), path, source },
            other => Error::Log(other),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::NoSession(id) => Error::SessionNotFound(id),
            Refusal::NoIteration { id, index, last } => Error::IterationNotFound { session: id, index, last },
            Refusal::Archived(id) => Error::Archived(id),
            Refusal::Count { id, expected, actual } => Error::CountMismatch { session: id, expected, actual },
            Refusal::Gone(id) => Error::SessionLost(id),
            Refusal::Full(id) => Error::SessionFull(id),
        }
    }
}

impl From<images::ImageStoreError> for Error {
    fn from(error: images::ImageStoreError) -> Error {
        Error::Io { action: error.action.to_owned(), path: error.path, source: error.source }
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        let Invalid { field, problem, hint } = invalid;
        Error::InvalidField { field, problem, hint }
    }
}

impl From<ParseQueryError> for Error {
    fn from(error: ParseQueryError) -> Error {
        Error::InvalidQuery(error)
    }
}
