//! `retake record`: one iteration from flags, or any number of them as JSON.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;

use crate::model::Actor;
use crate::tracker::{Error, RecordRequest, Recorded, Tracker};

use super::context::{Context, session_named};
use super::ending::{Exit, Failure, invalid};
use super::import;
use super::output::{NAME, Output, paint};
use super::recipe::RecipeArgs;
use super::requests::Requests;

/// Record an iteration, in a session or as the first of a new one
///
/// Without --session a new session is started. Failures and refusals are worth recording too: see --outcome. When the
/// command ends, the iteration and its images are on the disk.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake record \"a cat\" --model sdxl --seed 42 --cfg 7 --image cat.png\n  \
    retake record \"a cat at night\" --session session-2025-12-11-001\n  \
    retake record \"a cat at dawn\" --session latest\n  \
    retake record \"back to the first\" --session session-2025-12-11-001 --parent 'latest#0'\n  \
    retake record \"a dog\" --outcome refused --message \"no dogs\"\n  \
    retake record --json - < requests.jsonl")]
pub(super) struct RecordArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Answer in JSON; with - or a file, also read the requests from there
    ///
    /// The requests are JSON objects one after the other, such as one a line, with the fields prompt, sessionId, model,
    /// seed, images and so on as in the MCP tool record-iteration. Each is answered in turn, in one line, once it is on
    /// the disk. One that is bad gets its error, the others go on, and the status is 1.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(super) json: Option<Option<PathBuf>>,
}

impl RecordArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if let Some(Some(source)) = self.json {
            if !self.recipe.is_empty() {
                return Err(Failure::flags(
                    format!("requests are read from {}, and the recipe is also given in flags", source.display()),
                    "give one or the other; to only get the answer in JSON, put --json last",
                ));
            }
            if source.as_os_str() == "-" {
                return record_all(io::stdin().lock(), context);
            }
            let file = import::open(&source).map_err(|error| Error {
                hint: "give the path of a file of requests, or - for standard input; to only get the answer in JSON, \
                       put --json last"
                    .to_owned(),
                ..error
            })?;
            return record_all(file, context);
        }
        let mut request = self.recipe.request()?;
        context.write(|tracker, actor, output| {
            request.session_id = request.session_id.map(|session| session_named(tracker, session)).transpose()?;
            let recorded = record(tracker, actor, request)?;
            output.answer(&recorded, layout);
            Ok(Exit::Done)
        })
    }
}

/// Records one request after the other, and answers each before the next is read: whoever pipes them in may wait for it.
fn record_all(source: impl Read, context: &mut Context) -> Result<Exit, Failure> {
    context.output.set_json();
    context.write(|tracker, actor, output| {
        let mut exit = Exit::Done;
        let mut any = false;
        for request in Requests::new(source) {
            any = true;
            // Nobody may be reading any more. What was asked for is recorded all the same.
            match request.and_then(|request| record(tracker, actor, request)) {
                Ok(recorded) => output.json_line(&recorded),
                Err(error) => {
                    output.error(&error);
                    exit = Exit::Failed;
                }
            }
        }
        if !any {
            return Err(invalid(
                "there is nothing to record: the input is empty",
                "give a JSON object, such as {\"prompt\": \"a cat\"}",
            )
            .into());
        }
        Ok(exit)
    })
}

fn record(tracker: &Tracker, actor: &Actor, mut request: RecordRequest) -> Result<Recorded, Error> {
    if let Ok(here) = std::env::current_dir() {
        request.anchor(&here);
    }
    tracker.record(actor, &request)
}

fn layout(output: &mut Output, recorded: &Recorded) {
    let first = if recorded.reference.index == 0 { ", the first of a new session" } else { "" };
    output.line(format_args!("recorded {}{first}", paint(NAME, recorded.reference)));
}
