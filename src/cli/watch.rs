//! `retake watch`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use crate::import::{FilesReport, WatchEvent, WatchedIteration};
use crate::wire::Error;
use crate::workspace::Lifetime;

use super::args::Json;
use super::context::{Context, actor};
use super::exit::{Exit, Failure};
use super::import::ImageImportArgs;
use super::output::{FAINT, NAME, Output, paint};
use super::{signals, words};

/// Import new images in folders as they appear, until Ctrl-C
///
/// Images that are already there are imported first, as by `retake import`, so that nothing is missed between two watches.
/// With --json, prints one line for each new iteration.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  retake watch ~/ComfyUI/output --link")]
pub(super) struct WatchArgs {
    /// The folders
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[command(flatten)]
    how: ImageImportArgs,
    #[command(flatten)]
    pub(super) json: Json,
}

impl WatchArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        signals::stop_on(&stop);
        let files = self.folders.iter().filter(|path| path.is_file()).count();
        let counts = [(self.folders.len() - files, "folder"), (files, "file")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let watched = counts.map(|(count, name)| words::count(count as u64, name)).collect::<Vec<_>>().join(" and ");
        let request = self.how.request(self.folders, false);
        let workspace = context.open(Lifetime::LongRunning)?;
        let output = &mut context.output;
        let mut exit = Exit::Done;
        let ended = workspace.watch(&actor(), &request, &stop, |event| {
            exit = exit.max(print_event(event, &watched, output));
            if output.is_gone() {
                stop.store(true, Ordering::Relaxed);
            }
        });
        context.close(workspace);
        ended?;
        Ok(exit)
    }
}

fn print_event(event: WatchEvent, watched: &str, output: &mut Output) -> Exit {
    match event {
        WatchEvent::Ready(report) => {
            // From now on, the bar would flicker with every image.
            output.bar().silence();
            let FilesReport { problems, problems_omitted, .. } = &*report;
            output.aside(paint(FAINT, format_args!("watching {watched}; press Ctrl-C to stop")));
            if *problems_omitted > 0 {
                output.warn(format_args!("{} more could not be brought in", *problems_omitted + problems.len() as u64));
            }
        }
        WatchEvent::Recorded(iteration) => {
            output.answer(&iteration, |output, iteration| line(iteration, output));
            output.flush();
        }
        WatchEvent::Problem(problem) => {
            output.warn(format_args!("{}: {}", words::one_line(&problem.path), words::one_line(&problem.reason)));
        }
        WatchEvent::Refused(error) => {
            output.warn(format_args!("{}; trying again", words::one_line(&Error::from(error).message)));
            return Exit::Failed;
        }
    }
    Exit::Done
}

fn line(iteration: &WatchedIteration, output: &mut Output) {
    let reference = iteration.reference.to_string();
    let several = match iteration.images.len() {
        0 | 1 => String::new(),
        count => format!(" ×{count}"),
    };
    let used = reference.chars().count() + several.chars().count() + 2;
    let prompt = output.fit(&words::prompt(&iteration.prompt), used);
    output.line(format_args!("{}{several}  {prompt}", paint(NAME, reference)));
}
