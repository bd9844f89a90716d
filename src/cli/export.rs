//! `retake export`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::export::{ExportReport, ExportRequest};
use crate::model::{SessionId, Status};
use crate::wire::{Api, Error, ErrorKind};
use crate::workspace::{SessionFilter, Workspace};

use super::args::Json;
use super::choice::choice;
use super::context::{Context, session_named};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::words;

/// Export sessions as JSON lines, a folder to send, or an audit bundle
///
/// By default the output is JSON lines, which `retake import` restores exactly.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    retake export --output backup.jsonl\n  \
    retake export session-2025-12-11-001 --no-images | gzip > one.jsonl.gz\n  \
    retake export --project cards --status archived --bundle cards.tar\n  \
    retake export session-2025-12-11-001 --folder for-anna\n  \
    retake export session-2025-12-11-001 --bundle evidence.tar")]
pub(super) struct ExportArgs {
    /// The sessions' ids, or latest [default: all sessions]
    #[arg(value_name = "SESSION", conflicts_with_all = ["status", "project"])]
    sessions: Vec<String>,
    /// Only active or only archived sessions
    #[arg(long, value_parser = choice::<Status>())]
    status: Option<Status>,
    /// Only sessions whose project contains this text, in any case
    #[arg(long)]
    project: Option<String>,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a folder: images with their recipes, session.md, contact sheets
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "bundle"])]
    folder: Option<PathBuf>,
    /// Write a tar that `retake verify` can check; never overwrites a file
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    bundle: Option<PathBuf>,
    /// Leave out the images
    #[arg(long)]
    no_images: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

impl ExportArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let request = |api: &Api<'_>| {
            let session_ids = match (self.status, self.project) {
                (None, None) => {
                    let named = self.sessions.into_iter();
                    named
                        .map(|session| Ok(api.session(&session_named(api, session)?)?.id()))
                        .collect::<Result<_, Error>>()?
                }
                (status, project) => matching(api, status.unwrap_or_default(), project)?,
            };
            Ok::<_, Error>(ExportRequest { session_ids, omit_images: self.no_images })
        };
        if let Some(dir) = self.folder {
            return context.read(|api, output| {
                let request = request(api)?;
                let report = api.workspace().export_folder(&request, &dir)?;
                print_report(&report, Some(&dir), output);
                Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Damaged })
            });
        }
        if let Some(path) = self.bundle.as_deref().filter(|path| path.is_file()) {
            return Err(Failure::flags(
                format!("--bundle {}: the file exists, and evidence is not overwritten", path.display()),
                "name a file that does not exist yet",
            ));
        }
        let to_stdout_or = |path: Option<PathBuf>| path.filter(|path| path.as_os_str() != "-");
        let (form, file) = match self.bundle {
            Some(path) => (Form::Bundle, to_stdout_or(Some(path))),
            None => (Form::Lines, to_stdout_or(self.output)),
        };
        context.read(|api, output| {
            let request = request(api)?;
            let export = |out: &mut dyn Write| form.write(api.workspace(), &request, out);
            let report = match &file {
                Some(path) => to_file(path, form, export)?,
                None => match to_stdout(output, export)? {
                    Some(report) => report,
                    None => return Ok(Exit::Done),
                },
            };
            print_report(&report, file.as_deref(), output);
            // A recorded image that cannot be exported is missing from the disk.
            Ok(if report.problems.is_empty() { Exit::Done } else { Exit::Damaged })
        })
    }
}

/// Returns the matching sessions, of which there must be at least one: an empty list would mean all sessions.
fn matching(api: &Api<'_>, status: Status, project: Option<String>) -> Result<Vec<SessionId>, Error> {
    let filter = SessionFilter { status, project, ..SessionFilter::default() };
    let found = api.workspace().sessions(&filter).map(|summary| Ok(summary?.id)).collect::<Result<Vec<_>, Error>>()?;
    if found.is_empty() {
        let hint = "run `retake list` with the same --status and --project to see which sessions there are";
        return Err(Error::new(ErrorKind::NotFound, "no session matches", hint));
    }
    Ok(found)
}

/// The formats written as a single stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Bundle,
}

impl Form {
    fn write(self, workspace: &Workspace, request: &ExportRequest, out: &mut dyn Write) -> Result<ExportReport, Error> {
        match self {
            Form::Lines => Ok(workspace.export(request, out)?),
            Form::Bundle => Ok(workspace.export_bundle(request, out)?),
        }
    }
}

/// Writes to stdout. Returns `None` if it is a closed pipe or cannot be written, which is reported at the end.
fn to_stdout(
    output: &mut Output,
    export: impl FnOnce(&mut dyn Write) -> Result<ExportReport, Error>,
) -> Result<Option<ExportReport>, Error> {
    if output.is_interactive() {
        output.bar().silence();
    }
    let exported = export(&mut output.raw());
    if output.is_gone() { Ok(None) } else { exported.map(Some) }
}

/// Writes a file under a temporary name and renames it once it is complete.
fn to_file(
    path: &Path,
    form: Form,
    export: impl FnOnce(&mut dyn Write) -> Result<ExportReport, Error>,
) -> Result<ExportReport, Error> {
    let failed = |error: &io::Error| {
        Error::new(
            ErrorKind::Internal,
            format!("cannot write the export: {}", path.display()),
            "choose another file with --output, or make room there and try again",
        )
        .caused_by(error)
    };
    let fill = |file: File| -> Result<ExportReport, Error> {
        let mut writer = BufWriter::with_capacity(1 << 20, file);
        let report = export(&mut writer)?;
        writer.flush().map_err(|error| failed(&error))?;
        // A pipe cannot be synced and does not need it.
        let _ = writer.get_ref().sync_all();
        Ok(report)
    };
    let taken = || {
        Error::new(
            ErrorKind::Invalid,
            format!("--bundle {}: the file exists, and evidence is not overwritten", path.display()),
            "name a file that does not exist yet",
        )
    };
    let keeps = form == Form::Bundle;
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // A pipe or a device is written to directly. The system refuses a directory.
        let file = File::options().write(true).open(path).map_err(|error| failed(&error))?;
        return fill(file);
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let filled = File::create(&part).map_err(|error| failed(&error)).and_then(fill).and_then(|report| {
        // Another process may have created the file meanwhile: a hard link, unlike a rename, does not replace it.
        let linked = if keeps { fs::hard_link(&part, path) } else { Err(io::ErrorKind::Unsupported.into()) };
        let named = match linked {
            Ok(()) => fs::remove_file(&part),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(taken()),
            Err(_) => fs::rename(&part, path),
        };
        named.map(|()| report).map_err(|error| failed(&error))
    });
    if filled.is_err() {
        // The file may not exist.
        let _ = fs::remove_file(&part);
    }
    filled
}

fn print_report(report: &ExportReport, file: Option<&Path>, output: &mut Output) {
    if output.is_json() {
        match file {
            Some(_) => output.json_line(report),
            // Stdout holds the export itself.
            None => output.aside(serde_json::to_string(report).unwrap_or_default()),
        }
        return;
    }
    let what = format!(
        "exported {}: {}, {}",
        words::count(report.sessions, "session"),
        words::count(report.events, "event"),
        words::count(report.images, "image")
    );
    match file {
        Some(path) => output.line(format_args!("{what}, to {}", path.display())),
        None => output.aside(what),
    }
    if let Some(seal) = report.seal {
        output.line(format_args!("seal {seal}"));
        output
            .hint("keep the seal elsewhere: `retake verify FILE --seal SEAL` then proves that this is the same bundle");
    }
    for problem in &report.problems {
        output.warn(words::one_line(problem));
    }
}
