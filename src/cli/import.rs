//! `retake import`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::import::{BroughtSession, FilesReport, FilesRequest, ImportReport, PlannedIteration};
use crate::wire::{Error, ErrorKind, ImportView};

use super::args::Json;
use super::context::{Context, actor};
use super::ending::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, paint};
use super::{signals, words};

/// Import the images of other tools as sessions, or a Retake export
///
/// Images become iterations with the recipe in their metadata: one queued prompt is one iteration with all its images, and
/// a long pause starts another session. Parents are inferred where there is evidence. Originals are only read. Importing
/// twice changes nothing, and an interrupted import continues. What cannot be imported is reported and skipped; the exit
/// status is then 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake import ~/ComfyUI/output --dry-run\n  \
    retake import ~/ComfyUI/output --link --project fox\n  \
    retake import backup.jsonl\n  \
    zcat one.jsonl.gz | retake import -")]
pub(super) struct ImportArgs {
    /// Images, folders, or an export; - for an export on standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    pub(super) json: Json,
}

/// How pictures are brought in.
#[derive(Clone, Debug, Args)]
pub(super) struct HowArgs {
    /// The pause that starts another session: 90s, 45m, 2h, 1d [default: 45m]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(super) gap: Option<u64>,
    /// Leave the images where they are instead of copying them
    #[arg(long)]
    pub(super) link: bool,
    /// The project that new sessions belong to
    #[arg(long)]
    pub(super) project: Option<String>,
}

impl HowArgs {
    /// The request for these paths.
    pub(super) fn request(self, paths: Vec<PathBuf>, dry_run: bool) -> FilesRequest {
        FilesRequest { paths, dry_run, gap_seconds: self.gap, link: self.link, project: self.project }
    }
}

impl ImportArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        match self.paths.as_slice() {
            [path] if is_export(path)? => {
                let HowArgs { gap, link, project } = &self.how;
                if self.dry_run || gap.is_some() || *link || project.is_some() {
                    return Err(Failure::flags(
                        "--dry-run, --gap, --link and --project apply to images, and this is an export",
                        "leave them out: an export comes in with its own sessions",
                    ));
                }
                lines(path, context)
            }
            _ => {
                let request = self.how.request(self.paths, self.dry_run);
                let stop = Arc::new(AtomicBool::new(false));
                signals::stop_on(&stop);
                context.write(|api, output| {
                    let report = api.workspace().import_files(&actor(), &request, &stop)?;
                    output.bar().clear();
                    let stopped = report.stopped.as_ref().map(|error| Error::from(Arc::clone(error)));
                    let view = ImportView::new(&report, stopped.as_ref());
                    output.answer(&view, |output, view| files_layout(view.report, stopped.as_ref(), output));
                    let good = report.problems.is_empty() && report.stopped.is_none() && !report.interrupted;
                    Ok(if good { Exit::Done } else { Exit::Failed })
                })
            }
        }
    }
}

/// Takes in an export.
fn lines(path: &Path, context: &mut Context) -> Result<Exit, Failure> {
    let file = if path.as_os_str() == "-" { None } else { Some(open(path)?) };
    context.write(|api, output| {
        let report = match file {
            Some(file) => api.workspace().import(&mut BufReader::with_capacity(1 << 20, file)),
            None => api.workspace().import(&mut io::stdin().lock()),
        }?;
        output.answer(&report, |output, report| layout(report, output));
        Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
    })
}

/// Whether this is an export rather than pictures: no folder, and it begins like a text.
fn is_export(path: &Path) -> Result<bool, Error> {
    if path.as_os_str() == "-" {
        return Ok(true);
    }
    if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(false);
    }
    let mut first = [0; 16];
    let read = open(path)?.read(&mut first).unwrap_or_default();
    let first = first.get(..read).unwrap_or_default();
    Ok(first.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) && !first.starts_with(b"RIFF"))
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

/// `90s`, `45m`, `2h`, `1d`, as seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400)];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*seconds)
    });
    parsed.filter(|seconds| *seconds > 0).ok_or_else(|| "write a time such as 90s, 45m, 2h or 1d".to_owned())
}

fn files_layout(report: &FilesReport, stopped: Option<&Error>, output: &mut Output) {
    for (number, session) in (1..).zip(&report.sessions) {
        session_layout(number, session, output);
    }
    if !report.sessions.is_empty() {
        output.gap();
    }
    if report.files == 0 {
        output.line("no images found");
    }
    let verb = if report.dry_run { "would import" } else { "imported" };
    let mut line = format!(
        "{verb} {} with {} into {}",
        words::count(report.iterations, "iteration"),
        words::count(report.images, "image"),
        words::count(report.sessions.len() as u64, "session")
    );
    if report.skipped > 0 {
        let were = if report.skipped == 1 { "was" } else { "were" };
        line += &format!("; {} {were} here already", words::count(report.skipped, "image"));
    }
    output.line(line);
    for note in &report.notes {
        output.aside(format_args!("note: {}", words::one_line(note)));
    }
    for problem in &report.problems {
        output.warn(format_args!("{}: {}", words::one_line(&problem.path), words::one_line(&problem.reason)));
    }
    if report.problems_omitted > 0 {
        output.warn(format_args!("and {} more", report.problems_omitted));
    }
    if report.interrupted {
        output.hint("the import was interrupted; import again to continue");
    }
    if let Some(error) = stopped {
        output.error(error);
        output.hint("what is counted above is in the workspace; import again to continue");
    }
}

fn session_layout(number: u64, session: &BroughtSession, output: &mut Output) {
    let BroughtSession { session_id, folder, begins, from, to, iterations, images, plan } = session;
    let name = session_id.map_or_else(|| format!("new-{number}"), |id| id.to_string());
    let counts = format!("{}, {}", words::count(*iterations, "iteration"), words::count(*images, "image"));
    let times = format!("{} – {}", words::minute(*from), words::minute(*to).get(11..).unwrap_or_default());
    output.line(format_args!("{}  {times}  {counts}", paint(NAME, name)));
    if plan.is_empty() {
        return;
    }
    output.line(paint(FAINT, format_args!("  {}, {}", words::one_line(folder), words::one_line(begins))));
    for iteration in plan {
        planned(iteration, output);
    }
}

fn planned(iteration: &PlannedIteration, output: &mut Output) {
    let label = iteration.label.map(|label| label.to_string()).unwrap_or_default();
    let several = match iteration.files.len() {
        0 | 1 => String::new(),
        count => format!(" ×{count}"),
    };
    let prompt = words::prompt(&iteration.prompt);
    let head = format!("  #{:<4}{} {label:<9}{several} ", iteration.index, words::minute(iteration.timestamp));
    output.line(format_args!("{}{}", paint(HEADING, &head), output.fit(&prompt, head.chars().count())));
    let from = |what: &str, place: &Option<String>, reason: &Option<String>| {
        let (place, reason) = (place.as_ref()?, reason.as_deref().unwrap_or_default());
        Some(format!("        {what} {}: {}", words::one_line(place), words::one_line(reason)))
    };
    let parent = from("from", &iteration.parent, &iteration.parent_reason);
    let likely = from("likely from", &iteration.likely_parent, &iteration.likely_reason);
    for line in parent.into_iter().chain(likely) {
        output.line(paint(FAINT, line));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (text, expected) in [("90s", 90), ("45m", 2700), ("45 min", 2700), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "45", "m", "-1m", "0s", "1w", "99999999999999999999d"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
