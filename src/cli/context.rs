//! What a verb works with: the workspace that is meant, who is asking, and where the answer goes. Opens the workspace, and
//! tells of damage that nobody has read about yet.

use std::env;
use std::path::{Path, PathBuf};

use crate::model::Actor;
use crate::wire::{Api, Error, MAX_REPLY_BYTES, RecoveryNotice};
use crate::workspace::{Lifetime, Options, Workspace};

use super::ending::{Exit, Failure};
use super::output::Output;
use super::words;
use super::workspace::{self, Chosen};

/// The name under which this face is kept in the audit trail.
const CLIENT: &str = concat!("retake-cli ", env!("CARGO_PKG_VERSION"));

/// What a verb works with.
pub(super) struct Context {
    /// Where answers and messages go.
    pub(super) output: Output,
    flag: Option<PathBuf>,
}

impl Context {
    /// A context with what the global flags said.
    pub(super) fn new(output: Output, workspace: Option<PathBuf>) -> Context {
        Context { output, flag: workspace }
    }

    /// Gives the output back, to end with.
    pub(super) fn into_output(self) -> Output {
        self.output
    }

    /// The workspace that was named with `--workspace`, if any was.
    pub(super) fn named_workspace(&self) -> Option<&Path> {
        self.flag.as_deref()
    }

    /// The workspace that is meant.
    pub(super) fn workspace(&self) -> Result<Chosen, Error> {
        workspace::choose(self.flag.clone())
    }

    /// Opens the workspace. Recovering it may take a while, which the bar shows.
    pub(super) fn open(&mut self, lifetime: Lifetime) -> Result<Workspace, Error> {
        let progress = Some(self.output.bar().mover());
        let on_wait = Some(self.output.wait_reporter());
        let options = Options { progress, lifetime, actor: actor(), on_wait, ..Options::default() };
        let chosen = self.workspace()?;
        let opened = match &chosen.team {
            Some(team) => Workspace::open_team(team, options),
            None => Workspace::open_with(chosen.dir, options),
        };
        self.output.bar().clear();
        Ok(opened?)
    }

    /// Runs a job that reads. It ends as damaged if events were lost and the report has not been acknowledged, since the
    /// answer may lack something that its reader takes for never recorded.
    pub(super) fn read(
        &mut self,
        job: impl FnOnce(&Api<'_>, &mut Output) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let (done, notice) = self.with_api(job)?;
        let lossy = notice.is_some_and(|notice| notice.lost_events > 0);
        done.map(|exit| if lossy { exit.max(Exit::Damaged) } else { exit })
    }

    /// Runs a job that writes. Earlier losses do not make what is written now less safe.
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
    ) -> Result<(T, Option<RecoveryNotice>), Error> {
        let workspace = self.open(Lifetime::OneShot)?;
        let api = Api::new(&workspace);
        // Scripts get pages of the largest size; people get everything that the layout shows.
        let api = if self.output.is_json() { api.with_reply_bytes(MAX_REPLY_BYTES) } else { api.unbounded() };
        let done = job(&api, &mut self.output);
        self.output.bar().clear();
        let notice = api.recovery_notice().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see whether there are unread recoveries");
            None
        });
        if let Some(notice) = &notice {
            tell(notice, &mut self.output);
        }
        self.close(workspace);
        Ok((done, notice))
    }

    /// Closes the workspace. What was acknowledged is in the journal, so failing here takes nothing back.
    pub(super) fn close(&mut self, workspace: Workspace) {
        if let Err(error) = workspace.close() {
            self.output.warn(format_args!("the workspace was not closed cleanly: {error}"));
        }
    }
}

/// Who is asking.
pub(super) fn user() -> String {
    let named = ["USER", "USERNAME", "LOGNAME"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|user| !user.is_empty()));
    named.unwrap_or_else(|| "unknown".to_owned())
}

/// Who is asking, and through what.
pub(super) fn actor() -> Actor {
    Actor { client: CLIENT.to_owned(), user: user() }
}

/// Returns the id of the named session: at a shell, `latest` is the one worked on last. Agents pass ids only, since by the
/// time they call the latest session may be another.
pub(super) fn session_named(api: &Api<'_>, name: String) -> Result<String, Error> {
    if name == "latest" { Ok(api.resolve(&name)?.session.to_string()) } else { Ok(name) }
}

fn tell(notice: &RecoveryNotice, output: &mut Output) {
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
