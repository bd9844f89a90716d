//! `retake import`.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::import::{
    FilesReport, FilesRequest, ImportOptions, ImportReport, ImportedSession, PlannedIteration, Renumbered,
};
use crate::wire::{Api, Error, ErrorKind, ImportView};

use super::args::Json;
use super::context::{Context, actor};
use super::exit::{Exit, Failure};
use super::output::{FAINT, HEADING, NAME, Output, paint};
use super::{signals, words};

/// Import the images of other tools as sessions, or a Retake export
///
/// Images become iterations with the recipe in their metadata: one queued prompt is one iteration with all its images, and
/// a long pause starts another session. Parents are inferred where there is evidence. Originals are only read. Importing
/// twice changes nothing, and an interrupted import continues. It adds only to sessions that an import or watch of the same
/// folder started. Originals that are missing or damaged in the workspace are restored from the files. What cannot be
/// imported is reported and skipped; the exit status is then 1.
///
/// Everything that `retake export` writes comes back: JSON lines, bundles, and folders, with the same references.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake import ~/ComfyUI/output --dry-run\n  \
    retake import ~/ComfyUI/output --link --project fox\n  \
    retake import backup.jsonl\n  \
    retake import from-laptop.jsonl --renumber\n  \
    zcat one.jsonl.gz | retake import -")]
pub(super) struct ImportArgs {
    /// Images, folders, exports or bundles; - for an export on stdin
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show what would be imported, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Give sessions of an export new ids where theirs are taken
    ///
    /// Ids count from 001 each day on each machine. A session that gets a new id keeps its times, actors, annotations and
    /// lineage, and its audit trail names its origin. Importing again adds only what is new.
    #[arg(long)]
    renumber: bool,
    #[command(flatten)]
    how: ImageImportArgs,
    #[command(flatten)]
    pub(super) json: Json,
}

/// How images are imported.
#[derive(Clone, Debug, Args)]
pub(super) struct ImageImportArgs {
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

impl ImageImportArgs {
    /// Returns the request for these paths.
    pub(super) fn request(self, paths: Vec<PathBuf>, dry_run: bool) -> FilesRequest {
        FilesRequest { paths, dry_run, gap_seconds: self.gap, link: self.link, project: self.project, renumber: false }
    }
}

impl ImportArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        match self.paths.as_slice() {
            [path] if is_export(path)? => {
                let ImageImportArgs { gap, link, project } = &self.how;
                if gap.is_some() || *link || project.is_some() {
                    return Err(Failure::flags(
                        "--gap, --link and --project apply to images, and this is an export",
                        "leave them out: an export comes in with its own sessions",
                    ));
                }
                let options = ImportOptions { renumber: self.renumber, dry_run: self.dry_run, folder: None };
                export(path, &options, context)
            }
            _ => {
                let mut request = self.how.request(self.paths, self.dry_run);
                request.renumber = self.renumber;
                let stop = Arc::new(AtomicBool::new(false));
                signals::stop_on(&stop);
                let import = |api: &Api<'_>, output: &mut Output| {
                    let report = api.workspace().import_files(&actor(), &request, &stop)?;
                    output.bar().clear();
                    let stopped = report.stopped.as_ref().map(|error| Error::from(Arc::clone(error)));
                    let view = ImportView::new(&report, stopped.as_ref());
                    output.answer(&view, |output, view| files_layout(view.report, stopped.as_ref(), output));
                    let good = report.problems.is_empty() && report.stopped.is_none() && !report.interrupted;
                    Ok(if good { Exit::Done } else { Exit::Failed })
                };
                // A dry run must not create anything.
                if request.dry_run { context.read_or_empty(import) } else { context.write(import) }
            }
        }
    }
}

/// Imports an export: JSON lines or a bundle.
fn export(path: &Path, options: &ImportOptions, context: &mut Context) -> Result<Exit, Failure> {
    let file = if path.as_os_str() == "-" { None } else { Some(open(path)?) };
    let import = |api: &Api<'_>, output: &mut Output| {
        let workspace = api.workspace();
        let report = match file {
            Some(file) => match workspace.import_bundle(path, options)? {
                Some(report) => Ok(report),
                None => workspace.import_lines(&mut BufReader::with_capacity(1 << 20, file), options),
            },
            None => workspace.import_lines(&mut io::stdin().lock(), options),
        }?;
        output.answer(&report, |output, report| layout(report, output));
        Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Failed })
    };
    if options.dry_run { context.read_or_empty(import) } else { context.write(import) }
}

/// Returns whether this is an export rather than an image: a file that starts like text or a bundle.
fn is_export(path: &Path) -> Result<bool, Error> {
    if path.as_os_str() == "-" {
        return Ok(true);
    }
    if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
        return Ok(false);
    }
    let mut first = [0; 512];
    let read = open(path)?.read(&mut first).unwrap_or_default();
    if first.get(257..262).filter(|_| read == first.len()) == Some(b"ustar") {
        return Ok(true);
    }
    let first = first.get(..read.min(16)).unwrap_or_default();
    Ok(first.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) && !first.starts_with(b"RIFF"))
}

/// Opens a file for reading.
pub(super) fn open(path: &Path) -> Result<File, Error> {
    let failed = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Invalid,
        };
        let message = format!("cannot read the file: {}", path.display());
        Error::new(kind, message, "check the path, or pass - for standard input").caused_by(error)
    };
    let file = File::open(path).map_err(failed)?;
    // Some systems open a directory like a file and only fail when reading it.
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(file)
}

/// Parses `90s`, `45m`, `2h` or `1d` as seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400)];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*seconds)
    });
    parsed.filter(|seconds| *seconds > 0).ok_or_else(|| "write a time such as 90s, 45m, 2h or 1d".to_owned())
}

fn files_layout(report: &FilesReport, stopped: Option<&Error>, output: &mut Output) {
    for session in &report.sessions {
        session_layout(session, output);
    }
    if !report.sessions.is_empty() {
        output.gap();
    }
    if let Some(exported) = &report.exported {
        exported_layout(exported, output);
    }
    if report.files == 0 {
        if report.exported.is_none() {
            output.line("no images found");
        }
    } else {
        output.line(summary(report));
    }
    for note in &report.notes {
        output.aside(format_args!("note: {}", words::one_line(note)));
    }
    for problem in report.warnings.iter().chain(&report.problems) {
        output.warn(format_args!("{}: {}", words::one_line(&problem.path), words::one_line(&problem.reason)));
    }
    if report.problems_omitted > 0 {
        output.warn(format_args!("and {} more", report.problems_omitted));
    }
    if let Some(exported) = &report.exported {
        renumber_hint(exported, output);
    }
    if report.interrupted {
        output.hint("the import was interrupted; import again to continue");
    }
    if let Some(error) = stopped {
        output.error(error);
        output.hint("what is counted above is in the workspace; import again to continue");
    }
}

/// Summarises an import on one line.
fn summary(report: &FilesReport) -> String {
    let mut parts = Vec::new();
    if report.iterations > 0 {
        parts.push(format!(
            "{} {} with {} into {}",
            if report.dry_run { "would import" } else { "imported" },
            words::count(report.iterations, "iteration"),
            words::count(report.images, "image"),
            words::count(report.sessions.len() as u64, "session")
        ));
    }
    if report.restored > 0 {
        let verb = if report.dry_run { "would restore" } else { "restored" };
        parts.push(format!("{verb} {}", words::count(report.restored, "original")));
    }
    if parts.is_empty() {
        let good = report.problems.is_empty() && report.stopped.is_none() && !report.interrupted;
        parts.push(if good { "nothing new" } else { "nothing imported" }.to_owned());
    }
    if report.skipped > 0 {
        let were = if report.skipped == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} already here", words::count(report.skipped, "image")));
    }
    parts.join("; ")
}

fn session_layout(session: &ImportedSession, output: &mut Output) {
    let ImportedSession { session_id, new_number, title, folder, begins, from, to, iterations, images, plan } = session;
    let new = || format!("new-{}", new_number.unwrap_or_default());
    let name = session_id.map_or_else(new, |id| id.to_string());
    let counts = format!("{}, {}", words::count(*iterations, "iteration"), words::count(*images, "image"));
    let times = format!("{} – {}", words::minute(*from), words::minute(*to).get(11..).unwrap_or_default());
    output.line(format_args!("{}  {times}  {counts}", paint(NAME, name)));
    if plan.is_empty() {
        return;
    }
    if let Some(title) = title {
        output.line(format_args!("  {}", output.fit(&words::one_line(title), 2)));
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
    // The file comes first: it identifies an iteration without a prompt, and people look for it in any case.
    let file = iteration.files.first().and_then(|file| Path::new(file).file_name());
    let file = file.map(|file| words::one_line(&file.to_string_lossy())).unwrap_or_default();
    let what = format!("{file}{several}  {}", words::prompt(&iteration.prompt));
    let head = format!("  #{:<4}{} {label:<9} ", iteration.index, words::minute(iteration.timestamp));
    output.line(format_args!("{}{}", paint(HEADING, &head), output.fit(&what, head.chars().count())));
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
    exported_layout(report, output);
    for problem in &report.problems {
        output.warn(format_args!("line {}: {}", problem.line, words::one_line(&problem.reason)));
    }
    if report.problems_omitted > 0 {
        output.warn(format_args!("and {} more", report.problems_omitted));
    }
    renumber_hint(report, output);
}

/// Prints a hint at the flag that imports sessions whose ids are taken.
fn renumber_hint(report: &ImportReport, output: &mut Output) {
    if report.ids_taken {
        output.hint("import with --renumber to give sessions whose ids are taken new ids");
    }
}

/// Prints what was imported from an export.
fn exported_layout(report: &ImportReport, output: &mut Output) {
    let ImportReport { dry_run, sessions, events, images, skipped, renumbered, .. } = report;
    let mut parts = Vec::new();
    if *events > 0 || *images > 0 {
        parts.push(format!(
            "{} {} into {}, and {}",
            if *dry_run { "would import" } else { "imported" },
            words::count(*events, "event"),
            words::count(*sessions, "session"),
            words::count(*images, "image")
        ));
    } else {
        parts.push("nothing new".to_owned());
    }
    if *skipped > 0 {
        let were = if *skipped == 1 { "was" } else { "were" };
        parts.push(format!("{} {were} already here", words::count(*skipped, "event")));
    }
    output.line(parts.join("; "));
    for Renumbered { from, to } in renumbered {
        let is = if *dry_run { "would be" } else { "is" };
        output.line(format_args!("{from} {is} {} here", paint(NAME, to)));
    }
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
