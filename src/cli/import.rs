//! `retake import`.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::tracker::{Error, ErrorKind, ImportReport};

use super::args::Json;
use super::context::Context;
use super::ending::{Exit, Failure};
use super::output::Output;
use super::words;

/// Take in what `retake export` wrote: the same ids, times and hashes
///
/// Importing twice changes nothing. What cannot be taken in is named with its line, and the rest goes on; the status is
/// then 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake import backup.jsonl\n  \
    zcat one.jsonl.gz | retake import -")]
pub(super) struct ImportArgs {
    /// The file, or - for standard input
    file: PathBuf,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ImportArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let file = if self.file.as_os_str() == "-" { None } else { Some(open(&self.file)?) };
        context.write(|tracker, _, output| {
            let report = match file {
                Some(file) => tracker.import(&mut BufReader::with_capacity(1 << 20, file)),
                None => tracker.import(&mut io::stdin().lock()),
            }?;
            output.answer(&report, |output, report| layout(report, output));
            Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
        })
    }
}

/// Opens a file to read from.
pub(super) fn open(path: &Path) -> Result<File, Error> {
    let failed = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Invalid,
        };
        let message = format!("cannot read the file: {}", path.display());
        Error::new(kind, message, "give the path of a file you may read, or - for standard input").caused_by(error)
    };
    let file = File::open(path).map_err(failed)?;
    // Some systems open a directory like a file, and only refuse to read it.
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

fn layout(report: &ImportReport, output: &mut Output) {
    let ImportReport { sessions, events, images, skipped, problems, problems_omitted } = report;
    let mut line = format!(
        "imported {} into {}, and {}",
        words::count(*events, "event"),
        words::count(*sessions, "session"),
        words::count(*images, "image")
    );
    if *skipped > 0 {
        line += &format!("; {} here already", were(*skipped));
    }
    output.line(line);
    for problem in problems {
        output.warn(format_args!("line {}: {}", problem.line, words::one_line(&problem.reason)));
    }
    if *problems_omitted > 0 {
        output.warn(format_args!("and {problems_omitted} more"));
    }
    if !problems.is_empty() {
        output.hint("what is named above was not taken in; the rest was, and importing a mended file again adds what is missing");
    }
}

fn were(events: u64) -> String {
    format!("{} {}", words::count(events, "event"), if events == 1 { "was" } else { "were" })
}
