//! `retake verify` and `retake repair`.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::export::{BundleView, verify_bundle};
use crate::wire::VerifyView;
use crate::workspace::{CallContext, Lifetime, Recovery, RepairReport, Thumbnails, VerifyReport};

use super::args::Json;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::{BAD, GOOD, HEADING, NAME, Output, paint};
use super::words;

/// Check every byte of the workspace or of an audit bundle
///
/// Changes nothing. Prints one line for each problem, and exits with status 3 if there is one. A bundle is checked without
/// a workspace.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  retake verify\n  retake verify evidence.tar")]
pub(super) struct VerifyArgs {
    /// A bundle written by `retake export --bundle` [default: the workspace]
    bundle: Option<PathBuf>,
    /// The seal that was printed when the bundle was made
    #[arg(long, value_name = "HASH", requires = "bundle", value_parser = seal)]
    seal: Option<String>,
    #[command(flatten)]
    pub(super) json: Json,
}

impl VerifyArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        let Some(bundle) = self.bundle else { return workspace(context) };
        let view = verify_bundle(&bundle, self.seal.as_deref())?;
        context.output.answer(&view, |output, view| bundle_findings(view, output));
        Ok(if view.whole { Exit::Done } else { Exit::Damaged })
    }
}

/// Checks that a seal is a hash before the bundle is read.
fn seal(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(text.to_owned()) } else { Err("expected the 64 hexadecimal digits of a seal".to_owned()) }
}

/// Verifies every byte of the workspace.
fn workspace(context: &mut Context) -> Result<Exit, Failure> {
    context.read(|api, output| {
        let view = VerifyView::from(api.workspace().verify()?);
        output.answer(&view, |output, view| findings(view, output));
        if view.whole {
            return Ok(Exit::Done);
        }
        if let Some(hint) = view.hint.as_ref().filter(|_| !output.is_json()) {
            output.hint(hint);
        }
        Ok(Exit::Damaged)
    })
}

/// Rebuild what is damaged, and acknowledge reports of past recoveries
///
/// Events and long texts are kept twice, and each copy is rebuilt from the other. Images are kept once: `retake verify`
/// names damaged ones, and recording them again or importing an export that holds them restores them. Damaged files are
/// set aside under quarantine/ in the workspace, never deleted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  retake repair\n  retake repair --thumbnails")]
pub(super) struct RepairArgs {
    /// Only recreate all thumbnails from the originals
    #[arg(long)]
    thumbnails: bool,
    #[command(flatten)]
    pub(super) json: Json,
}

impl RepairArgs {
    pub(super) fn run(self, context: &mut Context) -> Result<Exit, Failure> {
        if self.thumbnails { thumbnails(context) } else { repair(context) }
    }
}

/// Recreates all thumbnails.
fn thumbnails(context: &mut Context) -> Result<Exit, Failure> {
    context.read(|api, output| {
        let context = CallContext::default().with_progress(output.bar().mover());
        let view = api.workspace().make_thumbnails(Thumbnails::All, &context)?;
        output.answer(&view, |output, view| {
            output.line(paint(GOOD, format_args!("made the thumbnails of {}", words::count(view.made, "image"))));
            for image in &view.unseen {
                output.warn(format_args!("{}: {}", image.reference, words::one_line(&image.message)));
            }
            if view.more_unseen {
                output.warn("and there are more");
            }
            if !view.unseen.is_empty() {
                output.hint("existing thumbnails are kept; `retake verify` explains how to restore an original");
            }
        });
        Ok(Exit::Done)
    })
}

/// Rebuilds what is damaged, and prints the reports that have not been acknowledged.
fn repair(context: &mut Context) -> Result<Exit, Failure> {
    let is_team = context.workspace()?.team.is_some();
    // Not `read` or `write`, which would warn about the reports that this command prints.
    context.require_workspace()?;
    let workspace = context.open(Lifetime::OneShot)?;
    let output = &mut context.output;
    let repaired = workspace.repair();
    output.bar().clear();
    let repair = repaired?;
    let reports = workspace.status()?.unread_recoveries;
    let answer = Repaired { repair, reports };
    output.answer(&answer, |output, answer| {
        if answer.reports.is_empty() {
            let words = match (answer.repair.repaired, is_team) {
                (true, _) => "repaired",
                (false, false) => "nothing to repair: every event is in both copies",
                (false, true) => "nothing to repair here: what PostgreSQL lost comes back from its backup",
            };
            output.line(paint(GOOD, words));
        }
        for (number, recovery) in answer.reports.iter().enumerate() {
            if number > 0 {
                output.gap();
            }
            report(recovery, output);
        }
    });
    // Mark reports as read only if they could be printed.
    output.flush();
    if !output.is_gone() {
        workspace.mark_recoveries_read()?;
    }
    context.close(workspace);
    Ok(Exit::Done)
}

/// The result of a repair, with every report that it marks as read.
#[derive(Serialize)]
struct Repaired {
    #[serde(flatten)]
    repair: RepairReport,
    reports: Vec<Recovery>,
}

/// Prints the findings and actions of a recovery.
pub(super) fn report(recovery: &Recovery, output: &mut Output) {
    output.line(format_args!("{}  {}", paint(NAME, &recovery.name), words::time(recovery.at)));
    for cause in &recovery.causes {
        output.line(format_args!("  found: {}", words::one_line(cause)));
    }
    if recovery.restored_to_journal > 0 {
        output.line(format_args!("  put back: {}", words::count(recovery.restored_to_journal, "event")));
    }
    match recovery.lost_events {
        0 => output.line(format_args!("  {}", paint(GOOD, "lost: nothing"))),
        lost => output.line(format_args!("  {}", paint(BAD, format_args!("lost: {}", words::count(lost, "event"))))),
    }
    for loss in &recovery.losses {
        let whose = loss.session.map_or_else(|| "an unknown session".to_owned(), |id| id.to_string());
        let mut line = match loss.seqs.as_slice() {
            [seq] => format!("    of {whose}: event {seq}"),
            seqs => format!("    of {whose}: events {}", words::numbers(seqs)),
        };
        line += &match loss.iterations.as_slice() {
            [] => String::new(),
            [index] => format!(", iteration {index}"),
            indexes => format!(", iterations {}", words::numbers(indexes)),
        };
        if let Some(after) = loss.after {
            line += &format!(", after {}", words::time(after));
        }
        if let Some(before) = loss.before {
            line += &format!(", before {}", words::time(before));
        }
        output.line(line);
    }
    for path in &recovery.quarantined {
        output.line(format_args!("  set aside: {}", words::one_line(path)));
    }
}

fn bundle_findings(view: &BundleView, output: &mut Output) {
    let BundleView { sessions, events, images, .. } = view;
    let checked = format!(
        "{}, {}, {}",
        words::count(*sessions, "session"),
        words::count(*events, "event"),
        words::count(*images, "image")
    );
    for problem in view.problems.iter().chain(&view.losses) {
        output.line(words::one_line(problem));
    }
    if view.whole {
        output.line(format_args!("{} {checked}", paint(GOOD, "the bundle checks out:")));
    } else {
        output.gap();
        let found = found(view.problems.len(), view.losses.len());
        output.line(format_args!("{} {checked} checked", paint(BAD, format_args!("{found} found:"))));
    }
    if let Some(at) = view.created_at {
        output.line(format_args!("made {}", words::time(at)));
    }
    if let Some(seal) = view.seal {
        output.line(format_args!("seal {seal}"));
    }
    for absent in &view.left_out {
        output.warn(format_args!("the bundle was made without it: {}", words::one_line(absent)));
    }
}

fn findings(view: &VerifyView, output: &mut Output) {
    let report = &view.report;
    let checked = format!(
        "{}, {}, {}, {} of journal",
        words::count(report.sessions, "session"),
        words::count(report.events, "event"),
        words::count(report.images, "image"),
        words::size(report.journal_bytes)
    );
    if let Some(last) = report.last_read_at {
        output.line(format_args!("everything was last read in the background at {}", words::time(last)));
    }
    if view.whole {
        output.line(format_args!("{} {checked}", paint(GOOD, "everything checks out:")));
        unreferenced(report, output);
        return;
    }
    for problem in report.problems.iter().chain(&report.losses) {
        output.line(words::one_line(problem));
    }
    output.gap();
    let found = found(report.problems.len(), report.losses.len());
    output.line(format_args!("{} {checked} checked", paint(HEADING, format_args!("{found} found:"))));
    unreferenced(report, output);
}

/// The maximum number of unreferenced images listed as text.
const MAX_UNREFERENCED_SHOWN: usize = 5;

/// Lists images that no event refers to.
fn unreferenced(report: &VerifyReport, output: &mut Output) {
    for path in report.unreferenced_images.iter().take(MAX_UNREFERENCED_SHOWN) {
        output.aside(format_args!("note: no event names {}", words::one_line(path)));
    }
    let more = report.unreferenced_images.len().saturating_sub(MAX_UNREFERENCED_SHOWN);
    if more > 0 {
        output.aside(format_args!("note: and {more} more, which --json lists"));
    }
}

/// Summarises the findings.
fn found(problems: usize, losses: usize) -> String {
    let lossy = if losses == 1 { "1 known loss".to_owned() } else { format!("{losses} known losses") };
    match (problems, losses) {
        (_, 0) => words::count(problems as u64, "problem"),
        (0, _) => lossy,
        _ => format!("{} and {lossy}", words::count(problems as u64, "problem")),
    }
}
