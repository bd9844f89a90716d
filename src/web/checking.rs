//! Verifies the whole workspace on request from its page, and marks recovery reports as read.
//!
//! A check of a large workspace takes minutes, so it runs on its own thread, one at a time, and pages poll its
//! progress.

use std::sync::Arc;
use std::thread;

use axum::Json;
use axum::extract::State;
use parking_lot::Mutex;
use serde::Serialize;

use super::reply::Failed;
use super::state::Gallery;
use crate::model::Timestamp;
use crate::wire::{Error, ErrorKind};
use crate::workspace::Progress;

/// The maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 50;

/// The running check, or the last one.
#[derive(Default)]
pub(super) struct Checking(Mutex<CheckState>);

/// The progress or the result of a check.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CheckState {
    running: bool,
    what: String,
    done: u64,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// The result in a sentence; absent before the first check.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<String>,
    problems: Vec<String>,
}

/// Handles `GET /workspace/check`: returns the progress.
pub(super) async fn state(State(gallery): State<Gallery>) -> Json<CheckState> {
    Json(gallery.checking().0.lock().clone())
}

/// Handles `POST /workspace/check`: starts a check, unless one is running.
pub(super) async fn start(State(gallery): State<Gallery>) -> Result<Json<CheckState>, Failed> {
    let checking = gallery.checking();
    {
        let mut state = checking.0.lock();
        if state.running {
            return Ok(Json(state.clone()));
        }
        *state = CheckState { running: true, what: "starting".to_owned(), ..CheckState::default() };
    }
    let (workspace, watched) = (gallery.workspace(), Arc::clone(&checking));
    let progress: Progress = Arc::new(move |what: &str, done, total| {
        let mut state = watched.0.lock();
        (state.done, state.total) = (done, total);
        what.clone_into(&mut state.what);
    });
    let ran = Arc::clone(&checking);
    let spawned = thread::Builder::new().name("retake-check".to_owned()).spawn(move || {
        let found = workspace.verify_with(Some(progress));
        let mut state = CheckState { finished_at: Some(workspace.now()), ..CheckState::default() };
        match found {
            Ok(report) => {
                state.verdict = Some(match report.problems.len() {
                    0 => format!("Everything checks out: {} events and {} images.", report.events, report.images),
                    1 => "1 problem was found.".to_owned(),
                    count => format!("{count} problems were found."),
                });
                // Do not disclose paths of this machine to readers of the page.
                let place = workspace.dir().display().to_string();
                let problems = report.problems.into_iter().take(MAX_PROBLEMS);
                state.problems = problems.map(|problem| problem.replace(&place, "")).collect();
            }
            Err(error) => {
                state.verdict = Some(format!("The check could not be completed: {}.", Error::from(error).message));
            }
        }
        *ran.0.lock() = state;
    });
    if let Err(error) = spawned {
        checking.0.lock().running = false;
        return Err(Error::new(ErrorKind::Internal, "cannot start the check", "try again").caused_by(error).into());
    }
    Ok(Json(checking.0.lock().clone()))
}

/// Handles `POST /workspace/read`: marks all reports as read.
pub(super) async fn mark_read(State(gallery): State<Gallery>) -> Result<Json<serde_json::Value>, Failed> {
    gallery.ask(|workspace, _| Ok(workspace.mark_recoveries_read()?)).await?;
    Ok(Json(serde_json::json!({})))
}
