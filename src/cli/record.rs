//! `retake record`: one iteration from flags, or any number of them as JSON.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;

use crate::wire::{Api, Error, RecordRequest, Recorded};

use super::context::{Context, resolve_exactly, session_named};
use super::ending::{Exit, Failure, invalid};
use super::import;
use super::output::{FAINT, NAME, Output, paint};
use super::recipe::RecipeArgs;
use super::requests::Requests;
use super::words;

/// Record an iteration, in a session or as the first of a new one
///
/// Without --session this starts a new session. Record failures and refusals too: see --outcome. When the command ends,
/// the iteration and its images are durable.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake record \"a cat\" --model sdxl --seed 42 --cfg 7 --image cat.png\n  \
    retake record --image out.png --session latest\n  \
    retake record \"a cat at night\" --like latest --session latest\n  \
    retake record \"back to the first\" --session latest --parent 'latest#0'\n  \
    retake record \"a dog\" --outcome refused --message \"no dogs\"\n  \
    retake record --json - < requests.jsonl\n\n\
    Recipe fields that you leave out are read from the metadata of the\n\
    image, provided that its prompt agrees with yours; then --like fills in\n\
    the rest.")]
pub(super) struct RecordArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Print JSON; with - or a file, also read requests from there
    ///
    /// Requests are JSON objects, such as one per line, with the fields of the MCP tool record-iteration: prompt, sessionId,
    /// model, seed, images and so on. Each is answered in one line once it is durable. A bad request is reported and
    /// skipped; the exit status is then 1.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(super) json: Option<Option<PathBuf>>,
}

impl RecordArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if let Some(Some(source)) = self.json {
            if !self.recipe.is_empty() {
                return Err(Failure::flags(
                    format!("requests are read from {}, and the recipe is also given in flags", source.display()),
                    "use one or the other; to only get the reply in JSON, put --json last",
                ));
            }
            if source.as_os_str() == "-" {
                return record_all(io::stdin().lock(), context);
            }
            let file = import::open(&source).map_err(|error| {
                error.with_hint(
                    "pass the path of a file of requests, or - for standard input; to only get the reply in JSON, put \
                     --json last",
                )
            })?;
            return record_all(file, context);
        }
        let mut request = self.recipe.request()?;
        context.write(|api, output| {
            if let Some(session) = request.session_id.take() {
                let id = session_named(api, session).map_err(|error| Failure::of_flag("--session", error))?;
                request.session_id = Some(id);
            }
            for (flag, reference) in [("--parent", &mut request.parent), ("--like", &mut request.like)] {
                if let Some(reference) = reference {
                    let named = resolve_exactly(api, reference).map_err(|error| Failure::of_flag(flag, error))?;
                    *reference = named.iteration.to_string();
                }
            }
            let recorded = record(api, request)?;
            output.answer(&recorded, layout);
            Ok(Exit::Done)
        })
    }
}

/// Records the requests in sequence. Responds to each before reading the next, since the sender may wait for the
/// response.
fn record_all(source: impl Read, context: &mut Context) -> Result<Exit, Failure> {
    context.output.set_json();
    context.write(|api, output| {
        let mut exit = Exit::Done;
        let mut any = false;
        for request in Requests::new(source) {
            any = true;
            // Record every request even if the reader is gone.
            match request.and_then(|request| record(api, request)) {
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
                "pass a JSON object, such as {\"prompt\": \"a cat\"}",
            )
            .into());
        }
        Ok(exit)
    })
}

fn record(api: &Api<'_>, mut request: RecordRequest) -> Result<Recorded, Error> {
    if let Ok(here) = std::env::current_dir() {
        request.anchor(&here);
    }
    api.record(&request)
}

fn layout(output: &mut Output, recorded: &Recorded) {
    let first = if recorded.reference.index == 0 { ", the first of a new session" } else { "" };
    output.line(format_args!("recorded {}{first}", paint(NAME, recorded.reference)));
    if !recorded.read_from_image.is_empty() {
        let fields = recorded.read_from_image.iter().map(|name| words::field(name)).collect::<Vec<_>>().join(", ");
        output.line(paint(FAINT, format_args!("read from the image: {fields}")));
    }
    for warning in &recorded.warnings {
        output.warn(words::one_line(warning));
    }
}
