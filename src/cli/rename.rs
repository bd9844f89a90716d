//! `retake rename`.

use clap::Args;

use crate::wire::{SessionRow, UpdateRequest};

use super::args::Json;
use super::context::{Context, session_named};
use super::exit::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, paint};
use super::words;

/// Give a session another title or project
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake rename latest 'Winter campaign'\n  \
    retake rename session-2025-12-11-001 --project cards\n  \
    retake rename latest ''   removes the title")]
pub(super) struct RenameArgs {
    /// The session's id, or latest
    #[arg(value_name = "SESSION")]
    session: String,
    /// The title; an empty one removes it
    #[arg(value_name = "TITLE")]
    title: Option<String>,
    /// The title, as a flag
    #[arg(long = "title", value_name = "TEXT", conflicts_with = "title")]
    title_flag: Option<String>,
    /// The project that the session belongs to; an empty one removes it
    #[arg(long, value_name = "TEXT")]
    project: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl RenameArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let title = self.title.or(self.title_flag);
        if title.is_none() && self.project.is_none() {
            return Err(Failure::flags(
                "nothing to change: neither a title nor a project was given",
                "pass a title in quotes, or --project; an empty text removes it",
            ));
        }
        context.change(|api, output| {
            let session_id = session_named(api, self.session)?;
            let request = UpdateRequest { session_id, title, project: self.project, idempotency_key: self.key };
            let row = api.update_session(&request)?;
            output.answer(&row, |output, row| layout(row, output));
            Ok(Exit::Done)
        })
    }
}

fn layout(row: &SessionRow, output: &mut Output) {
    let name = |name: Option<&str>| name.map_or_else(|| paint(FAINT, "none"), words::one_line);
    output.line(paint(NAME, row.id()));
    output.line(format_args!("{} {}", paint(HEADING, "title"), name(row.title())));
    output.line(format_args!("{} {}", paint(HEADING, "project"), name(row.project())));
}
