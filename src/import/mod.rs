//! `import`: work from elsewhere. Two kinds: what [`export`](Workspace::export) wrote, with the same ids, times and hashes
//! (`lines.rs`), and the files that other tools leave behind, which become sessions.
//!
//! Files go one way, and each step is a file of its own:
//! ```text
//! walk ── look ── when ── runs ── intake
//! files   hash,   time    runs,   pictures kept, lineage (parents), iterations recorded
//!         recipe          sessions
//! ```
//! Everything up to `runs` is a plan: nothing has been written, and the same files give the same plan. `intake` carries it
//! out in the order of time, a handful of runs at a time, so that what is recorded when it is interrupted is a beginning;
//! the next import finds it by content and goes on. A picture whose bytes are in the workspace is never recorded again,
//! nor is one of the same pixels that says nothing else of itself. Originals are only ever read.
//!
//! What is bad costs only itself: it is named in the report, and the rest goes on. Only a workspace that cannot be
//! written to ends it, and then the report says how far it came.
//!
//! Never known here: how progress is shown, when a folder changes (that is `watch`).

mod copies;
mod intake;
mod lineage;
mod lines;
mod look;
mod plan;
mod renumber;
mod runs;
mod sessions;
mod turns;
mod walk;
mod watch;
mod when;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::export::SESSION_LINES;
use crate::model::diff::StepLabel;
use crate::model::iteration::check_optional_name;
use crate::model::{Actor, SessionId, Timestamp};

use std::sync::Arc;

use crate::workspace::{Error, Workspace};

pub use lines::{ImportOptions, ImportProblem, ImportReport, Renumbered};
pub use watch::{Sighting, WatchedIteration};

pub(super) use intake::{Intake, NewIteration};
pub(super) use look::Found;
#[cfg(feature = "mcp")]
pub(crate) use renumber::origin;
pub(super) use walk::{Candidate, is_passed_over, may_be_picture, root};

/// Which files to bring in, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilesRequest {
    /// Pictures, and folders of them.
    pub paths: Vec<PathBuf>,
    /// Says what would be done, and writes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// A pause of more than this many seconds begins another session; by default 45 minutes, and more where pictures come
    /// slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_seconds: Option<u64>,
    /// Leaves the pictures where they are, known by path and hash, in place of copying them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    /// The project that new sessions belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Gives sessions of exported folders new ids where theirs are taken.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renumber: bool,
}

/// What bringing files in came to, or would come to.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilesReport {
    /// Present and true when nothing was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Files that were looked at.
    pub files: u64,
    /// Iterations that are new here.
    pub iterations: u64,
    /// Images that are new here.
    pub images: u64,
    /// Images that were here already, or were found twice.
    pub skipped: u64,
    /// Originals of recorded images that were missing or damaged, and are back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub restored: u64,
    /// The sessions that got something new, in the order of time.
    pub sessions: Vec<BroughtSession>,
    /// What came back from folders that Retake exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exported: Option<ImportReport>,
    /// What was decided where the files do not say it plainly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Files that were imported although something is wrong with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<FileProblem>,
    /// What could not be brought in, at most 1000 of it.
    pub problems: Vec<FileProblem>,
    /// How many more problems there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub problems_omitted: u64,
    /// Present and true when it was told to stop. Doing it again goes on from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Why it ended early: the workspace could not be written to. Doing it again goes on from here.
    #[serde(skip)]
    pub stopped: Option<Arc<Error>>,
}

/// A session that got something new, or would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BroughtSession {
    /// Its id; in a dry run only where it is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Of a dry run: its number among the new sessions, from 1; references call it `new-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_number: Option<u64>,
    /// The title that it gets when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder its pictures come from.
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
    /// Of a dry run: its new iterations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedIteration>,
}

/// An iteration that would be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedIteration {
    /// Its index in the session.
    pub index: u32,
    /// When it was made (UTC).
    pub timestamp: Timestamp,
    /// The prompt, cut short when it is long; empty when the files say none.
    pub prompt: String,
    /// The tool that made it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The line of work it belongs to in the session, from 0.
    pub line: u64,
    /// What kind of step it is from its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<StepLabel>,
    /// What it came from: a reference, or `new-2#3` for iteration 3 of the second new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_reason: Option<String>,
    /// What it may have come from, where the evidence is weak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_parent: Option<String>,
    /// What speaks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_reason: Option<String>,
    /// Its files.
    pub files: Vec<String>,
}

/// A file or folder that could not be brought in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileProblem {
    /// Which.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl Workspace {
    /// Brings in pictures and folders of them. Doing it twice changes nothing. What is bad is reported and passed over;
    /// a workspace that cannot be written to ends it, and so does `stop` once it is set, with a report of what was done.
    pub fn import_files(&self, actor: &Actor, request: &FilesRequest, stop: &AtomicBool) -> Result<FilesReport, Error> {
        check_optional_name("project", request.project.as_deref())?;
        request.check_paths()?;
        let mut problems = Problems::default();
        let mut candidates = walk::walk(&request.paths, &mut problems);
        let exported = self.import_exported(request, &mut candidates, &mut problems)?;
        let total = candidates.len() as u64;
        let (mut found, bad) = looked(&candidates, |done| {
            self.report("reading", done, total);
            !stop.load(Ordering::Relaxed)
        });
        let all_read = found.len() + bad.len() == candidates.len();
        bad.into_iter().for_each(|problem| problems.push(problem));
        let mut intake = Intake::new(self, actor, request)?;
        intake.problems = problems;
        intake.bring_in(&mut found, stop, |_| {});
        let mut report = intake.take_report();
        report.files = total;
        report.exported = exported;
        report.interrupted |= !all_read;
        Ok(report)
    }
}

impl Workspace {
    /// Takes in the folders among these files that Retake exported, and removes their files from the candidates.
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
                // Another file of that name, beside images that are imported as any others.
                Err(Error::InvalidInput { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

/// The files below these paths that may be pictures; what cannot be read is passed over.
pub(super) fn candidates(paths: &[PathBuf]) -> Vec<Candidate> {
    walk::walk(paths, &mut Problems::default())
}

/// Looks at files, on all cores, and names those that are no pictures.
pub(super) fn looked(candidates: &[Candidate], go_on: impl Fn(u64) -> bool + Sync) -> (Vec<Found>, Vec<FileProblem>) {
    let (mut found, mut problems) = (Vec::with_capacity(candidates.len()), Vec::new());
    for (candidate, looked) in candidates.iter().zip(look::ask_all(candidates, look::look, go_on)) {
        match looked {
            Ok(picture) => found.push(picture),
            Err(reason) => problems.push(FileProblem::new(&candidate.path, reason)),
        }
    }
    (found, problems)
}

impl FilesRequest {
    /// A path that is not there is the caller's mistake, and nothing is done.
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

/// What could not be brought in.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) named: Vec<FileProblem>,
    pub(super) omitted: u64,
}

/// The most problems a report names.
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
