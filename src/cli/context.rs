//! The context of a command: the workspace, the actor and the output. Opens the workspace and reports damage that has
//! not been acknowledged yet.
//!
//! Only commands that record create a workspace. Commands that read or change one fail if it does not exist, so that a
//! mistyped path or an unmounted volume is not taken for an empty workspace; listings are empty in that case.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::model::{Actor, ExactReference};
use crate::wire::{Api, Error, ErrorKind, MAX_REPLY_BYTES, RecoveryNotice};
use crate::workspace::{Lifetime, Options, Workspace, user};

use super::exit::{Exit, Failure};
use super::output::Output;
use super::references;
use super::words;
use super::workspace::{self, ChosenWorkspace};

/// The client name in the audit trail.
const CLIENT: &str = concat!("retake-cli ", env!("CARGO_PKG_VERSION"));

/// The context of a command.
pub(super) struct Context {
    /// The output for results and messages.
    pub(super) output: Output,
    flag: Option<PathBuf>,
    /// How long a silent owner of the workspace is waited for, if not as long as usual.
    pub(super) owner_timeout: Option<Duration>,
}

impl Context {
    /// Creates a context from the global flags.
    pub(super) fn new(output: Output, workspace: Option<PathBuf>) -> Context {
        Context { output, flag: workspace, owner_timeout: None }
    }

    /// Returns the output, to be finished at the end of the program.
    pub(super) fn into_output(self) -> Output {
        self.output
    }

    /// Returns the workspace given with `--workspace`.
    pub(super) fn named_workspace(&self) -> Option<&Path> {
        self.flag.as_deref()
    }

    /// Returns the workspace to use.
    pub(super) fn workspace(&self) -> Result<ChosenWorkspace, Failure> {
        let chosen = self.workspace_unchecked()?;
        if chosen.dir.is_file() {
            let what = format!("the workspace is a file and not a directory: {}", chosen.dir.display());
            let hint = "pass the directory of a workspace with --workspace";
            return Err(Error::new(ErrorKind::Invalid, what, hint).into());
        }
        Ok(chosen)
    }

    /// Returns the workspace to use, even if nothing can be recorded there: `wrap` forwards traffic in any case.
    pub(super) fn workspace_unchecked(&self) -> Result<ChosenWorkspace, Failure> {
        workspace::choose(self.flag.clone())
    }

    /// Opens the workspace. The progress bar covers a recovery, which may take a while.
    pub(super) fn open(&mut self, lifetime: Lifetime) -> Result<Workspace, Failure> {
        let progress = Some(self.output.bar().mover());
        let on_wait = Some(self.output.wait_reporter());
        let owner_timeout = self.owner_timeout;
        let options = Options { progress, lifetime, actor: actor(), on_wait, owner_timeout, ..Options::default() };
        let chosen = self.workspace()?;
        let opened = match &chosen.team {
            Some(team) => Workspace::open_team(team, options),
            None => Workspace::open_with(chosen.dir, options),
        };
        self.output.bar().clear();
        Ok(opened?)
    }

    /// Returns an error if the workspace does not exist.
    pub(super) fn require_workspace(&self) -> Result<(), Failure> {
        let chosen = self.workspace()?;
        if chosen.exists() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no workspace in {}", chosen.shown()),
            "check --workspace, and that the disk is mounted; `retake record` and `retake import` create a workspace",
        )
        .into())
    }

    /// Runs a read-only job; if there is no workspace, in an empty temporary one.
    pub(super) fn read_or_empty(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        if self.workspace()?.exists() {
            return self.read(job);
        }
        let scratch = EmptyWorkspace::create()?;
        let chosen = self.flag.replace(scratch.0.clone());
        let done = self.read(job);
        self.flag = chosen;
        done
    }

    /// Runs a job that changes existing sessions and records nothing.
    pub(super) fn change(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.require_workspace()?;
        self.write(job)
    }

    /// Runs a read-only job. Exits as damaged if events were lost and the report has not been acknowledged, since the
    /// result may lack something that the reader would take for never recorded.
    pub(super) fn read(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.require_workspace()?;
        let (done, notice) = self.with_api(job)?;
        let lossy = notice.is_some_and(|notice| notice.lost_events > 0);
        done.map(|exit| if lossy { exit.max(Exit::Damaged) } else { exit })
    }

    /// Runs a job that records, creating the workspace if necessary. Earlier losses do not make new writes less safe.
    pub(super) fn write(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let (done, _) = self.with_api(job)?;
        done
    }

    fn with_api<T>(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> T,
    ) -> Result<(T, Option<RecoveryNotice>), Failure> {
        let workspace = self.open(Lifetime::OneShot)?;
        let api = Api::new(&workspace);
        // Scripts get pages of the maximum size; people get everything that the layout shows.
        let api = if self.output.is_json() { api.with_reply_bytes(MAX_REPLY_BYTES) } else { api.unbounded() };
        let done = job(&api, &mut self.output);
        self.output.bar().clear();
        let notice = api.recovery_notice().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see whether there are unread recoveries");
            None
        });
        if let Some(notice) = &notice {
            warn_of_recovery(notice, &mut self.output);
        }
        self.close(workspace);
        Ok((done, notice))
    }

    /// Closes the workspace. Whatever was acknowledged is in the journal, so a failure here loses nothing.
    pub(super) fn close(&mut self, workspace: Workspace) {
        if let Err(error) = workspace.close() {
            self.output.warn(format_args!("the workspace was not closed cleanly: {error}"));
        }
    }
}

/// The directory of an empty workspace, removed on drop.
struct EmptyWorkspace(PathBuf);

impl EmptyWorkspace {
    fn create() -> Result<EmptyWorkspace, Error> {
        let dir = env::temp_dir().join(format!("retake-empty-{}", std::process::id()));
        let failed = |error: std::io::Error| {
            let what = format!("cannot create a temporary directory: {}", dir.display());
            Error::new(ErrorKind::Internal, what, "make room there, or set TMPDIR").caused_by(error)
        };
        std::fs::create_dir_all(dir.join("images")).map_err(failed)?;
        Ok(EmptyWorkspace(dir))
    }
}

impl Drop for EmptyWorkspace {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, dir = %self.0.display(), "a temporary directory was not removed");
        }
    }
}

/// Returns the name of the user.
pub(super) fn user() -> String {
    Some(user::current()).filter(|user| !user.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Returns the user and this program, as recorded in the audit trail.
pub(super) fn actor() -> Actor {
    Actor { client: CLIENT.to_owned(), user: user() }
}

/// Returns the id of the named session, which may be abbreviated; see [`references`].
pub(super) fn session_named(api: &Api<'_>, name: String) -> Result<String, Error> {
    Ok(api.session_id(&references::expand(api, &name)?)?.to_string())
}

/// Resolves a reference, which may be abbreviated (see [`references`]), to an iteration and possibly one of its images.
pub(super) fn resolve_exactly(api: &Api<'_>, reference: &str) -> Result<ExactReference, Error> {
    api.resolve_exactly(&references::expand(api, reference)?)
}

fn warn_of_recovery(notice: &RecoveryNotice, output: &mut Output) {
    if notice.log_is_gone {
        output.warn(words::one_line(&notice.message));
        output.hint("restore journal/ or db/ of this workspace from a backup, or import an export of it");
        return;
    }
    let lost = match notice.lost_events {
        0 => "nothing was lost".to_owned(),
        lost => format!("{} could not be saved", words::count(lost, "event")),
    };
    output.warn(format_args!("the workspace was damaged and has been recovered; {lost}"));
    output.aside(format_args!("  {}", words::one_line(&notice.message)));
    for path in &notice.quarantined {
        output.aside(format_args!("  set aside: {}", words::one_line(path)));
    }
    output.hint("`retake repair` shows the reports and marks them as read, which ends this warning");
}
