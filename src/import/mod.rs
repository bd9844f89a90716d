//! `import`: brings in work from elsewhere. There are two kinds: what [`export`](Workspace::export) wrote, which keeps
//! its ids, times and hashes (`lines.rs`), and the output files of other tools, which become sessions.
//!
//! Files pass through these steps, each in its own module:
//! ```text
//! walk ── inspect ── times ── runs ──── intake ─── writer ───────── commit
//! files   hash,      time     runs,     batches    images stored    lineage (parents), iterations recorded
//!         recipe              sessions
//! ```
//! Everything up to `runs` is a plan: nothing has been written, and the same files result in the same plan. `intake`
//! carries it out in chronological order, a few runs at a time. After an interruption, what is recorded is therefore a
//! prefix of the plan, and the next import recognises it by content and continues. An image whose bytes are in the
//! workspace is never recorded again, nor is one with the same pixels and the same recipe. Originals are only ever
//! read.
//!
//! A bad file only affects itself: it is listed in the report, and the rest is imported. Only a workspace that cannot
//! be written to ends the import; the report then states how far it got.
//!
//! This module does not know how progress is shown, or when a folder changes (see `watch`).

mod commit;
mod copies;
mod formats;
mod inspect;
mod intake;
mod likeness;
mod lineage;
mod lines;
mod lock;
mod plan;
mod renumber;
mod runs;
mod sessions;
mod times;
mod walk;
mod watch;
mod writer;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::export::SESSION_LINES;
use crate::model::diff::StepLabel;
use crate::model::iteration::check_optional_name;
use crate::model::{Actor, SessionId, Timestamp};

use std::sync::Arc;

use crate::workspace::{Error, Workspace};

pub use lines::{ImportOptions, ImportProblem, ImportReport, Renumbered};
pub use watch::{WatchEvent, WatchedIteration};

pub(super) use inspect::InspectedImage;
pub(super) use intake::{Intake, NewIteration};
#[cfg(feature = "mcp")]
pub(crate) use renumber::origin;
pub(super) use walk::{Candidate, is_passed_over, may_be_picture, root};

/// Which files to bring in, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesRequest {
    /// Images, and folders of images.
    pub paths: Vec<PathBuf>,
    /// Reports what would be done, and writes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// A pause of more than this many seconds begins another session; by default 45 minutes, and more where images come
    /// slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_seconds: Option<u64>,
    /// Leaves the images where they are, identified by path and hash, instead of copying them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    /// The project that new sessions belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Gives sessions of exported folders new ids where theirs are taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renumber: bool,
}

/// The outcome of an import, or of a dry run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesReport {
    /// Present and true if nothing was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The number of files that were examined.
    pub files: u64,
    /// Iterations that are new here.
    pub iterations: u64,
    /// Images that are new here.
    pub images: u64,
    /// Images that were here already, or were found twice.
    pub skipped: u64,
    /// Originals of recorded images that were missing or damaged, and were restored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u64,
    /// The sessions that got something new, in the order of time.
    pub sessions: Vec<ImportedSession>,
    /// What was imported from folders that Retake exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exported: Option<ImportReport>,
    /// Decisions about files whose own times cannot be right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Files that were imported although something is wrong with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FileProblem>,
    /// Files that could not be imported, at most 1000 of them.
    pub problems: Vec<FileProblem>,
    /// How many more problems there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub problems_omitted: u64,
    /// Present and true if it was stopped. Importing again continues from there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Why it ended early: the workspace could not be written to. Importing again continues from there.
    #[serde(skip)]
    pub stopped: Option<Arc<Error>>,
}

/// A session that got something new, or would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedSession {
    /// Its id; in a dry run only if the session exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// In a dry run, its number among the new sessions, from 1; references call it `new-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_number: Option<u64>,
    /// The title with which it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder its images come from.
    pub folder: String,
    /// Why it is a session of its own.
    pub begins: String,
    /// When its first new iteration was made (UTC).
    pub from: Timestamp,
    /// When its last new iteration was made (UTC).
    pub to: Timestamp,
    /// How many iterations are new in it.
    pub iterations: u64,
    /// How many images they have.
    pub images: u64,
    /// In a dry run, its new iterations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedIteration>,
}

/// An iteration that would be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedIteration {
    /// Its index in the session.
    pub index: u32,
    /// When it was made (UTC).
    pub timestamp: Timestamp,
    /// The prompt, shortened if it is long; empty if the files hold none.
    pub prompt: String,
    /// The tool that made it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The line of work it belongs to in the session, from 0.
    pub line: u64,
    /// What kind of step it is from its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// Its parent: a reference, or `new-2#3` for iteration 3 of the second new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The evidence for the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_reason: Option<String>,
    /// Its likely parent, if the evidence is weak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_parent: Option<String>,
    /// The evidence for the likely parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_reason: Option<String>,
    /// Its files.
    pub files: Vec<String>,
}

/// A file or folder that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    /// Its path.
    pub path: String,
    /// The reason.
    pub reason: String,
}

impl Workspace {
    /// Imports images and folders of images. Importing twice changes nothing. Bad files are reported and skipped. The
    /// import ends early if the workspace cannot be written to or `stop` is set, and reports what was done.
    pub fn import_files(&self, actor: &Actor, request: &FilesRequest, stop: &AtomicBool) -> Result<FilesReport, Error> {
        check_optional_name("project", request.project.as_deref())?;
        request.check_paths()?;
        let mut problems = Problems::default();
        let mut candidates = walk::walk(&request.paths, &mut problems);
        let exported = self.import_exported(request, &mut candidates, &mut problems)?;
        let total = candidates.len() as u64;
        let (mut found, bad) = inspect_all(&candidates, |done| {
            self.report("reading", done, total);
            !stop.load(Ordering::Relaxed)
        });
        let all_read = found.len() + bad.len() == candidates.len();
        bad.into_iter().for_each(|problem| problems.push(problem));
        let mut intake = Intake::new(self, actor, request)?;
        intake.problems = problems;
        intake.bring_in(&mut found, stop, |_| {});
        let mut report = intake.take_report();
        report.notes.extend(formats::notes(&found));
        report.files = total;
        report.exported = exported;
        report.interrupted |= !all_read;
        Ok(report)
    }
}

impl Workspace {
    /// Imports the folders among these files that Retake exported, and removes their files from the candidates.
    fn import_exported(
        &self,
        request: &FilesRequest,
        candidates: &mut Vec<Candidate>,
        problems: &mut Problems,
    ) -> Result<Option<ImportReport>, Error> {
        let folders: BTreeSet<PathBuf> =
            candidates.iter().filter_map(|found| found.path.parent()).map(Path::to_owned).collect();
        let mut all = None;
        for folder in folders {
            let path = folder.join(SESSION_LINES);
            let Ok(file) = File::open(&path) else { continue };
            let options =
                ImportOptions { renumber: request.renumber, dry_run: request.dry_run, folder: Some(folder.clone()) };
            match self.import_lines(&mut BufReader::new(file), &options) {
                Ok(report) => {
                    candidates.retain(|found| found.path.parent() != Some(&folder));
                    let all: &mut ImportReport = all.get_or_insert_default();
                    all.dry_run = report.dry_run;
                    all.sessions += report.sessions;
                    all.events += report.events;
                    all.images += report.images;
                    all.skipped += report.skipped;
                    all.renumbered.extend(report.renumbered);
                    all.problems_omitted += report.problems_omitted;
                    all.ids_taken |= report.ids_taken;
                    for ImportProblem { line, reason } in report.problems {
                        problems.push(FileProblem::new(&path, format!("line {line}: {reason}")));
                    }
                }
                // An unrelated file of that name: the images in the folder are imported like any others.
                Err(Error::InvalidInput { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// Returns the files below these paths that may be images. Unreadable entries are skipped.
pub(super) fn candidates(paths: &[PathBuf]) -> Vec<Candidate> {
    walk::walk(paths, &mut Problems::default())
}

/// Examines files on all cores and reports those that cannot be imported.
pub(super) fn inspect_all(
    candidates: &[Candidate],
    go_on: impl Fn(u64) -> bool + Sync,
) -> (Vec<InspectedImage>, Vec<FileProblem>) {
    let (mut found, mut problems) = (Vec::with_capacity(candidates.len()), Vec::new());
    for (candidate, looked) in candidates.iter().zip(inspect::map_on_all_cores(candidates, inspect::inspect, go_on)) {
        match looked {
            Ok(picture) => found.push(picture),
            Err(reason) => problems.push(FileProblem::new(&candidate.path, reason)),
        }
    }
    (found, problems)
}

impl FilesRequest {
    /// Checks that the paths exist. A missing path is an error, and nothing is imported.
    pub(super) fn check_paths(&self) -> Result<(), Error> {
        if self.paths.is_empty() {
            return Err(Error::InvalidInput {
                problem: "no path was given".to_owned(),
                hint: "name the images or folders to import",
            });
        }
        for path in &self.paths {
            std::fs::metadata(path).map_err(|error| Error::InvalidPath {
                path: path.clone(),
                problem: "cannot read",
                hint: "pass images or folders that exist and that you may read",
                source: Some(error),
            })?;
        }
        Ok(())
    }
}

impl FileProblem {
    pub(super) fn new(path: &Path, reason: impl Into<String>) -> FileProblem {
        FileProblem { path: path.display().to_string(), reason: reason.into() }
    }
}

/// Files that could not be imported.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) named: Vec<FileProblem>,
    pub(super) omitted: u64,
}

/// The maximum number of problems that a report names.
const MAX_PROBLEMS: usize = 1000;

impl Problems {
    pub(super) fn push(&mut self, problem: FileProblem) {
        if self.named.len() < MAX_PROBLEMS {
            self.named.push(problem);
        } else {
            self.omitted += 1;
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
