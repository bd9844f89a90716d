//! `retake archive` and `retake restore`.

use clap::Args;

use crate::wire::{Api, ArchiveRequest, Error, SessionRow};

use super::args::Json;
use super::context::{Context, session_named};
use super::ending::{Exit, Failure};
use super::output::{NAME, paint};
use super::words;

/// What `archive` and `restore` take.
#[derive(Debug, Args)]
pub(super) struct ArchiveArgs {
    /// The session's id, or latest
    #[arg(value_name = "SESSION")]
    session: String,
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
        self.run(context, "archived", |api, request| api.archive(request))
    }

    pub(super) fn restore(self, context: &mut Context) -> Result<Exit, Failure> {
        self.run(context, "restored", |api, request| api.restore(request))
    }

    fn run(
        self,
        context: &mut Context,
        done: &str,
        verb: impl FnOnce(&Api<'_>, &ArchiveRequest) -> Result<SessionRow, Error>,
    ) -> Result<Exit, Failure> {
        context.write(|api, output| {
            let session_id = session_named(api, self.session)?;
            let request = ArchiveRequest { session_id, reason: self.reason, idempotency_key: self.key };
            let row = verb(api, &request)?;
            output.answer(&row, |output, row| {
                let iterations = words::count(row.iteration_count().into(), "iteration");
                output.line(format_args!("{done} {} ({iterations})", paint(NAME, row.id())));
            });
            Ok(Exit::Done)
        })
    }
}
