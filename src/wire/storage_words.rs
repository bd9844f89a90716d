//! Words errors of the log, the file system and images.

use std::{fmt, io};

use super::error::{ErrorKind, Words};
use super::vocabulary::Vocabulary;
use crate::store;
use crate::workspace::ImageProblem;

/// Words an error of the log.
pub(super) fn log_words(error: &store::Error, vocabulary: &dyn Vocabulary) -> Words {
    use ErrorKind::{Busy, Conflict, Internal};
    let message = error.to_string();
    match error {
        store::Error::InUse(path) => Words::new(
            Busy,
            format!("another process has the workspace open: {}", path.display()),
            "wait until it ends or stop it, then try again",
        ),
        store::Error::Incompatible(_) => Words::new(
            Busy,
            message,
            "stop that process, or use the same version of Retake in both: nothing was changed",
        ),
        store::Error::Unresponsive { pid } => Words::new(
            Busy,
            message,
            match pid {
                Some(pid) => format!(
                    "resume or end process {pid}, then try again; retrying a write with the same idempotency key is safe"
                ),
                None => "resume or end that process, then try again".to_owned(),
            },
        ),
        store::Error::Server { problem, remedy, temporary } => {
            Words::new(if *temporary { Busy } else { Internal }, problem.clone(), server_hint(*remedy))
        }
        store::Error::OutcomeUnknown { .. } => Words::new(
            Internal,
            message,
            "retry with the same idempotency key: it is recorded once, whether or not this write was",
        ),
        store::Error::NewerFormat { .. } => Words::new(
            Internal,
            message,
            "update Retake: the workspace was written by a newer version and is left as it is",
        ),
        store::Error::Database(_) => Words::new(
            Internal,
            "the database keeps failing after a rebuild",
            format!(
                "{}: everything acknowledged is in the journal, from which `retake repair` rebuilds the database",
                vocabulary.command("verify")
            ),
        ),
        store::Error::Import { .. } => Words::new(
            Conflict,
            message,
            "nothing was changed here: import into another workspace, or compare the two sessions",
        ),
        store::Error::Misuse(_) => Words::new(
            Internal,
            "internal error: the store was called with an impossible request",
            "nothing was written; report this with the request that led to it",
        ),
        _ => Words::new(Internal, message, "look at the cause, then try again"),
    }
}

/// Returns a hint for an error of a team's server. It names commands of the command line in every vocabulary, since
/// only the command line administers servers.
fn server_hint(remedy: Option<store::Remedy>) -> &'static str {
    use store::Remedy;
    match remedy {
        Some(Remedy::CheckServer) => {
            "check the network and the server, then try again: a repeated write with the same key is stored once"
        }
        Some(Remedy::CheckCredentials) => "check the role, and its password in PGPASSFILE or PGPASSWORD",
        Some(Remedy::CreateWorkspace) => "create it with `retake team init URL --images LOCATION`",
        Some(Remedy::UpgradeSchema) => "run `retake team upgrade URL` once",
        Some(Remedy::UpgradeRestoredSchema) => "run `retake team upgrade URL` once as the owner of the schema",
        Some(Remedy::UpdateRetake) => "install the newer version of Retake that the team uses",
        Some(Remedy::AvoidTransactionPooler) => "connect to the server directly, or set the pooler to session pooling",
        Some(Remedy::RestoreRecord) => "run `retake verify`, and restore the records from a backup of the database",
        Some(Remedy::Retry) => "run the command again",
        None => "ask the administrator of the server",
    }
}

/// Words the problem of an image that cannot be recorded.
pub(super) fn image_words(number: usize, problem: &ImageProblem, vocabulary: &dyn Vocabulary) -> Words {
    let hint = match problem {
        ImageProblem::NotAnImage { .. } => {
            "pass a PNG, JPEG, WebP, GIF, AVIF, HEIC, JPEG XL, TIFF, BMP or EXR image, or an MP4, QuickTime, WebM or \
             Matroska video; other files are not stored"
                .to_owned()
        }
        ImageProblem::Empty { .. } | ImageProblem::TooLarge { .. } => format!(
            "pass a whole image file, or record without it and describe the result in {}",
            vocabulary.field("message")
        ),
        _ => "pass the path of an image file, absolute or relative to Retake's working directory".to_owned(),
    };
    Words::new(ErrorKind::Invalid, format!("{} {problem}", vocabulary.entry("images", number)), hint)
}

/// Words a file system error. Distinguishes a full disk and missing permissions, which users can fix.
pub(super) fn io_words(action: &str, path: &dyn fmt::Display, source: &io::Error) -> Words {
    use io::ErrorKind as Io;
    let (message, hint) = match source.kind() {
        _ if is_full(source) => (
            format!("the disk is full: cannot {action}: {path}"),
            "free some space or raise the quota, then try again: nothing acknowledged is affected",
        ),
        Io::PermissionDenied | Io::ReadOnlyFilesystem => (
            format!("not allowed to {action}: {path}"),
            "grant yourself the right to read and write there, or choose another workspace",
        ),
        _ => (format!("cannot {action}: {path}"), "look at the cause and at the disk, then try again"),
    };
    Words::new(ErrorKind::Internal, message, hint)
}

/// Returns whether the disk or the quota is full.
pub(super) fn is_full(source: &io::Error) -> bool {
    use io::ErrorKind as Io;
    matches!(source.kind(), Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge)
}
