//! `retake archive` and `retake restore`.

use clap::Args;

use crate::model::{SessionId, Status};
use crate::wire::{Api, ArchiveRequest, Error, SessionRow};

use super::args::Json;
use super::context::{Context, session_named};
use super::exit::{Exit, Failure};
use super::output::{NAME, Output, paint};
use super::words;

/// What `archive` and `restore` take.
#[derive(Debug, Args)]
pub(super) struct ArchiveArgs {
    /// The sessions' ids, or latest
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// The reason, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ArchiveArgs {
    pub(super) fn archive(self, context: &mut Context) -> Result<Exit, Failure> {
        self.run(context, true)
    }

    pub(super) fn restore(self, context: &mut Context) -> Result<Exit, Failure> {
        self.run(context, false)
    }

    fn run(self, context: &mut Context, archive: bool) -> Result<Exit, Failure> {
        context.change(|api, output| {
            // Look up all sessions before the first change, so that a typo in the last one changes nothing.
            let mut ids: Vec<SessionId> = Vec::new();
            for name in &self.sessions {
                let id = if archive { named(api, name)? } else { named_archived(api, name)? };
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
            let before = ids.iter().map(|id| api.session(&id.to_string()));
            for before in before.collect::<Result<Vec<SessionRow>, Error>>()? {
                let request = ArchiveRequest {
                    session_id: before.id().to_string(),
                    reason: self.reason.clone(),
                    idempotency_key: self.key.clone(),
                };
                let row = if archive { api.archive(&request)? } else { api.restore(&request)? };
                let had_reason = self.reason.is_some();
                output.answer(&row, |output, row| layout(&before, row, archive, had_reason, output));
            }
            Ok(Exit::Done)
        })
    }
}

fn layout(before: &SessionRow, row: &SessionRow, archive: bool, had_reason: bool, output: &mut Output) {
    let id = paint(NAME, row.id());
    if before.archived() == row.archived() {
        let state = if archive { "already archived" } else { "already active" };
        output.line(format_args!("{id} is {state}; nothing was written"));
        if had_reason {
            output.hint(format_args!("`retake audit {}` shows the reason given at the time", row.id()));
        }
        return;
    }
    let done = if archive { "archived" } else { "restored" };
    output.line(format_args!("{done} {id} ({})", words::count(row.iteration_count().into(), "iteration")));
}

fn named(api: &Api<'_>, name: &str) -> Result<SessionId, Error> {
    api.session_id(&session_named(api, name.to_owned())?)
}

/// Returns the session to restore: `latest` is the most recently modified archived one.
fn named_archived(api: &Api<'_>, name: &str) -> Result<SessionId, Error> {
    if name == "latest"
        && let Some(latest) = api.workspace().most_recent(Status::Archived)?
    {
        return Ok(latest.id);
    }
    named(api, name)
}
