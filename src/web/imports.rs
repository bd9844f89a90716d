//! `POST /import`: files dropped on a page or pasted into it. They are uploaded as bytes, never as a path, written to
//! numbered temporary directories under their own names, and imported from there by the rules of `retake import`.

use std::fs::{self, File};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::exports::TemporaryDir;
use super::guard::{MAX_REQUEST_BYTES, RequestMemory};
use super::reply::{Failed, refused};
use super::state::Gallery;
use crate::import::FilesRequest;
use crate::model::{Actor, SessionId};
use crate::wire::{Error, ErrorKind};
use crate::workspace::Workspace;

/// The maximum number of files in one request.
const MAX_FILES: usize = 64;

/// Uploaded files.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Dropped {
    files: Vec<DroppedFile>,
    #[serde(default)]
    project: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DroppedFile {
    name: String,
    /// The bytes, as base64.
    data: String,
    /// When it was last modified, in milliseconds since 1970.
    #[serde(default)]
    modified: Option<u64>,
}

/// The result of an upload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Brought {
    iterations: u64,
    skipped: u64,
    sessions: Vec<SessionId>,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    file: String,
    reason: String,
}

/// Handles `POST /import`.
pub(super) async fn import(State(gallery): State<Gallery>, request: Request) -> Result<Response, Failed> {
    // Held until the response is ready, so that the memory of all requests together is bounded.
    let _memory = request.extensions().get::<RequestMemory>().cloned();
    let most = usize::try_from(MAX_REQUEST_BYTES).unwrap_or(usize::MAX);
    let Ok(body) = to_bytes(request.into_body(), most).await else {
        return Ok(refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request could not be read",
            "send fewer files at once; larger ones come in with `retake import`",
        ));
    };
    let overview = gallery.overview();
    let brought = gallery.ask(move |workspace, actor| {
        let dropped: Dropped = serde_json::from_slice(&body).map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                format!("the files cannot be read: {error}"),
                "send {\"files\": [{\"name\": …, \"data\": base64}]}",
            )
        })?;
        drop(body);
        let brought = bring(workspace, actor, dropped)?;
        brought.sessions.iter().for_each(|id| overview.note_change(*id));
        Ok(brought)
    });
    Ok(Json(brought.await?).into_response())
}

fn bring(workspace: &Workspace, actor: &Actor, dropped: Dropped) -> Result<Brought, Error> {
    if dropped.files.is_empty() || dropped.files.len() > MAX_FILES {
        let message = format!("{} files cannot be imported at once", dropped.files.len());
        return Err(Error::new(ErrorKind::Invalid, message, format!("send 1 to {MAX_FILES}")));
    }
    let place = TemporaryDir::new(workspace.dir())?;
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Internal, "the files could not be stored", "look at the cause, then try again")
            .caused_by(error)
    };
    let mut problems = Vec::new();
    let mut paths = Vec::new();
    for (number, file) in dropped.files.into_iter().enumerate() {
        let Ok(bytes) = STANDARD.decode(file.data.as_bytes()) else {
            problems.push(Problem { file: file.name, reason: "its bytes are not base64".to_owned() });
            continue;
        };
        // One directory per file, so that files of the same name do not collide.
        let dir = place.0.join(format!("{number:03}"));
        fs::create_dir(&dir).map_err(failed)?;
        let path = dir.join(plain(&file.name));
        fs::write(&path, bytes).map_err(failed)?;
        if let Some(modified) =
            file.modified.and_then(|millis| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis)))
        {
            // If the metadata contains no time, the modification time of the original is used.
            let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(modified));
        }
        paths.push(path);
    }
    let request =
        FilesRequest { paths, project: dropped.project.filter(|it| !it.is_empty()), ..FilesRequest::default() };
    if request.paths.is_empty() {
        return Ok(Brought { iterations: 0, skipped: 0, sessions: Vec::new(), problems });
    }
    let report = workspace.import_files(actor, &request, &AtomicBool::new(false))?;
    problems.extend(report.problems.into_iter().map(|problem| Problem {
        file: problem.path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
        reason: problem.reason,
    }));
    Ok(Brought {
        iterations: report.iterations,
        skipped: report.skipped,
        sessions: report.sessions.iter().filter_map(|session| session.session_id).collect(),
        problems,
    })
}

/// Returns a file name that cannot leave its directory, with the original extension.
fn plain(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last.chars().filter(|c| !c.is_control() && !":*?\"<>|".contains(*c)).take(80).collect();
    let kept = kept.trim_start_matches('.').trim();
    if kept.is_empty() { "image".to_owned() } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_elsewhere() {
        for (name, kept) in [
            ("fox.png", "fox.png"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.png", "a.png"),
            ("..", "image"),
            (".", "image"),
            ("", "image"),
            ("a\u{0}b.png", "ab.png"),
            (".hidden.png", "hidden.png"),
        ] {
            assert_eq!(plain(name), kept, "{name:?}");
        }
    }
}
