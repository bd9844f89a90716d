//! The recorder: the only module that writes iterations to the workspace. It runs on its own thread. Failed recordings
//! are retried with the same key, so that everything is recorded exactly once or, in the end, reported.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::images::{Header, UNKNOWN_TYPE};
use crate::model::iteration::MAX_NOTE_BYTES;
use crate::model::{Actor, Hash, IterationId, Outcome, Query, SessionId, Status, Timestamp};
use crate::wire::{Api, Error, ErrorKind};
use crate::workspace::{self, ImageSource, Recording, Search, SimilarTo, Workspace};

use super::assemble::StoredJob;
use super::finding::Finding;
use super::locate::FoundImage;
use super::observe::Connection;
use super::recipe::{clean, one_line, within_limits};
use super::spool::{Adopted, Spool, UnrecordedIteration};

/// The session that iterations go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// One per connection, and a new one after a break.
    #[default]
    PerConnection,
    /// A new one per connection, without breaks.
    New,
    /// The session that is the most recently modified one when the first iteration is recorded.
    Latest,
    /// This session.
    Named(String),
}

/// Opens the workspace.
pub type OpenWorkspace = Arc<dyn Fn() -> Result<Workspace, Error> + Send + Sync>;

/// The destination of iterations, and the user on whose behalf they are recorded.
#[derive(Clone)]
pub struct Destination {
    /// Opens the workspace, when there is something to record and again after a failure.
    pub open: OpenWorkspace,
    /// The local directory of the workspace, which may not exist yet.
    pub dir: PathBuf,
    /// The session.
    pub session: SessionChoice,
    /// The project of new sessions.
    pub project: Option<String>,
    /// The user.
    pub user: String,
}

/// A callback for warnings of one line.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Records findings.
pub(crate) struct Recorder {
    destination: Destination,
    warn: Warn,
    workspace: Option<Workspace>,
    sessions: HashMap<u64, Current>,
    /// A prefix that makes keys unique among all runs.
    run: String,
    count: u64,
    backlog: VecDeque<UnrecordedIteration>,
    backlog_bytes: usize,
    spool: Spool,
    /// The number of backlog entries that are also in the spool.
    spooled: usize,
    /// When an attempt last failed after a long wait.
    failed_slowly: Option<Instant>,
    has_warned: bool,
    lost: u64,
}

/// The current session of a conversation.
struct Current {
    id: SessionId,
    last: Timestamp,
}

/// The pause after which the next iteration of a conversation starts another session, in milliseconds.
const SESSION_BREAK_MILLIS: i64 = 60 * 60 * 1000;
/// The duration above which a failed attempt counts as having waited for something, so that the next one is delayed.
const SLOW_FAILURE: Duration = Duration::from_secs(1);
/// How long to wait after a slow failure before the next attempt.
const SLOW_FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// The maximum number of visually identical iterations that are compared to find the one with the same bytes.
const MAX_TWINS: usize = 32;
/// The maximum number of iterations waiting to be recorded while the workspace is unavailable.
const MAX_BACKLOG: usize = 256;
/// The maximum size of images waiting to be recorded.
const MAX_BACKLOG_BYTES: usize = 256 * 1024 * 1024;

impl Recorder {
    /// Creates a recorder. Nothing is opened or created before the first iteration.
    pub(crate) fn new(destination: Destination, warn: Warn) -> Recorder {
        let seed = format!("{} {}", Timestamp::now(), std::process::id());
        let run: String = blake3::hash(seed.as_bytes()).to_hex().chars().take(24).collect();
        Recorder {
            spool: Spool::new(&destination.dir, &run),
            spooled: 0,
            failed_slowly: None,
            destination,
            warn,
            workspace: None,
            sessions: HashMap::new(),
            run,
            count: 0,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            has_warned: false,
            lost: 0,
        }
    }

    /// Returns the name of this run, which its keys start with.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Opens the workspace in advance of the first recording, and returns whether the log responds and the disk accepts
    /// writes.
    pub(crate) fn probe(&mut self) -> bool {
        let answers = match self.workspace() {
            Ok(workspace) => workspace.count_sessions(Status::Active).map(drop).map_err(Error::from),
            Err(error) => Err(error),
        };
        if let Err(error) = &answers {
            self.failed(error);
        }
        answers.is_ok() && self.backlog.is_empty() && self.spool.probe().is_ok()
    }

    /// Returns whether other runs left files.
    pub(crate) fn has_orphans(&self) -> bool {
        self.spool.has_others()
    }

    /// Adopts the files of dead runs: returns jobs of this server, and records waiting iterations.
    pub(crate) fn adopt(&mut self, server: &str, expired: Timestamp) -> Vec<StoredJob> {
        let Adopted { jobs, waiting } = self.spool.adopt(server, expired);
        for waiting in waiting {
            self.spooled += 1;
            self.count += 1;
            self.backlog_bytes += image_bytes(&waiting.finding);
            self.backlog.push_back(waiting);
        }
        self.retry();
        jobs
    }

    /// Stores the jobs, so that they survive this process.
    pub(crate) fn save_jobs(&mut self, server: &str, jobs: Vec<StoredJob>) {
        if let Err(error) = self.spool.save_jobs(server, jobs) {
            // They are still tracked; they would only be lost if the process were killed.
            tracing::debug!(%error, "cannot spool the jobs");
        }
    }

    /// Finds the iteration, in any session, that made an input image, if it was not made on this connection.
    pub(crate) fn find_parent(&mut self, finding: &mut Finding) {
        if finding.parent.is_some() || finding.inputs.is_empty() || self.pauses() {
            return;
        }
        let inputs = finding.inputs.clone();
        let Ok(workspace) = self.workspace() else { return };
        match inputs.iter().find_map(|input| made(workspace, *input).transpose()) {
            Some(Ok(parent)) => finding.parent = Some(parent.to_string()),
            Some(Err(error)) => tracing::debug!(%error, "cannot look for the parent"),
            None => (),
        }
    }

    /// Records a finding and returns its reference. If that is not possible now, it is retried later.
    pub(crate) fn record(&mut self, connection: &Connection, finding: Finding) -> Option<(Finding, String)> {
        self.retry();
        self.count += 1;
        let key = finding.key.clone().unwrap_or_else(|| format!("wrap-{}-{}", self.run, self.count));
        let actor = self.actor(connection, finding.recipe.provider.as_deref().unwrap_or(&finding.tool));
        if self.pauses() {
            self.keep(UnrecordedIteration { finding, actor, key });
            return None;
        }
        match self.timed_attempt(&actor, &finding, &key) {
            Ok(reference) => Some((finding, reference)),
            Err(error) => {
                self.failed(&error);
                if error.kind != ErrorKind::Invalid {
                    self.keep(UnrecordedIteration { finding, actor, key });
                } else {
                    self.lost += 1;
                }
                None
            }
        }
    }

    /// Retries failed recordings in order, up to the first that fails again.
    pub(crate) fn retry(&mut self) {
        while !self.pauses()
            && let Some(waiting) = self.backlog.pop_front()
        {
            if let Err(error) = self.timed_attempt(&waiting.actor, &waiting.finding, &waiting.key) {
                tracing::debug!(%error, "still cannot record");
                if error.kind == ErrorKind::Invalid {
                    // It will never become valid, and must not block the others.
                    self.lost += 1;
                } else {
                    self.backlog.push_front(waiting);
                    return;
                }
            } else {
                self.backlog_bytes = self.backlog_bytes.saturating_sub(image_bytes(&waiting.finding));
            }
            self.spool.remove_waiting(&waiting.key);
            self.spooled = self.spooled.saturating_sub(1);
        }
    }

    /// Attempts to record, and remembers if that fails only after a long wait: waiting for an unresponsive server would
    /// delay spooling everything after it.
    fn timed_attempt(&mut self, actor: &Actor, finding: &Finding, key: &str) -> Result<String, Error> {
        let begun = Instant::now();
        let result = self.attempt(actor, finding, key);
        self.failed_slowly = (result.is_err() && begun.elapsed() >= SLOW_FAILURE).then(Instant::now);
        result
    }

    fn pauses(&self) -> bool {
        self.failed_slowly.is_some_and(|at| at.elapsed() < SLOW_FAILURE_PAUSE)
    }

    /// Returns whether anything is waiting to be recorded.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Shuts down: retries once more, closes the workspace, and reports what could not be recorded.
    pub(crate) fn finish(mut self) {
        self.failed_slowly = None;
        self.retry();
        let spooled = self.spooled.min(self.backlog.len());
        let lost = self.lost + self.backlog.len().saturating_sub(spooled) as u64;
        if lost > 0 {
            (self.warn)(&format!("{lost} of {} generations could not be recorded", self.count));
        }
        if spooled > 0 {
            (self.warn)(&format!(
                "{spooled} generations wait on this machine and are recorded by the next `retake wrap`"
            ));
        }
        self.spool.end();
        if let Some(workspace) = self.workspace.take()
            && let Err(error) = workspace.close()
        {
            (self.warn)(&format!("the workspace was not closed cleanly: {error}"));
        }
    }

    fn workspace(&mut self) -> Result<&Workspace, Error> {
        if self.workspace.is_none() {
            self.workspace = Some((self.destination.open)()?);
        }
        self.workspace.as_ref().ok_or_else(|| Error::new(ErrorKind::Internal, "the workspace is not open", "try again"))
    }

    /// Records under a key, which makes retries safe.
    fn attempt(&mut self, actor: &Actor, finding: &Finding, key: &str) -> Result<String, Error> {
        let session = self.session_for(finding)?;
        let parent = finding.parent();
        let mut result = self.record_in(session, parent, actor, finding, key);
        if let Err(error) = &result {
            match error.kind {
                // The session was archived or is gone, or the parent is; the iteration must not be lost because of
                // that.
                ErrorKind::Archived | ErrorKind::NotFound if session.is_some() || parent.is_some() => {
                    (self.warn)(&format!("{error}: recording into a new session instead"));
                    let parent = parent.filter(|_| error.kind != ErrorKind::NotFound);
                    result = self.record_in(None, parent, actor, finding, key);
                }
                ErrorKind::Busy | ErrorKind::Internal | ErrorKind::Damaged => {
                    // If the owner died or the workspace was restored, open it again.
                    self.workspace = None;
                    result = self.record_in(session, parent, actor, finding, key);
                }
                _ => (),
            }
        }
        let id = result?;
        let last = finding.created_at.unwrap_or_else(Timestamp::now);
        self.sessions.insert(finding.scope.group, Current { id: id.session, last });
        Ok(id.to_string())
    }

    /// Records into a session or a new one. Enforces the limits of recipes on all values, since a server may send
    /// anything.
    fn record_in(
        &mut self,
        session: Option<SessionId>,
        parent: Option<IterationId>,
        actor: &Actor,
        finding: &Finding,
        key: &str,
    ) -> Result<IterationId, Error> {
        let project = self.destination.project.clone().filter(|_| session.is_none());
        let mut recipe = within_limits(&finding.recipe);
        if recipe.prompt.trim().is_empty() {
            recipe.prompt.clone_from(&finding.tool);
        }
        let outcome = Outcome {
            status: finding.outcome,
            message: finding.message.as_deref().map(|message| clean(message, MAX_NOTE_BYTES)),
            generation_time_ms: Some(finding.duration_ms),
            cost: finding.cost.clone(),
        };
        let images = finding.images.iter().filter(|found| is_image(&found.bytes)).map(image);
        let mut recording =
            Recording::new(self.workspace()?, session, recipe).actor(actor).key(key).outcome(outcome).images(images);
        if let Some(time) = finding.created_at {
            recording = recording.created_at(time);
        }
        if let Some(parent) = parent {
            recording = recording.parent(parent);
        }
        if let Some(project) = project {
            recording = recording.project(project);
        }
        Ok(recording.commit()?.id())
    }

    /// Returns the session to record into; `None` for a new one.
    fn session_for(&mut self, finding: &Finding) -> Result<Option<SessionId>, Error> {
        if let Some(Current { id, last }) = self.sessions.get(&finding.scope.group) {
            let now = finding.created_at.unwrap_or(*last);
            let rested = now.millis().saturating_sub(last.millis()) > SESSION_BREAK_MILLIS;
            let goes_on = finding.parent().is_some_and(|parent| parent.session == *id);
            let breaks = self.destination.session == SessionChoice::PerConnection && rested && !goes_on;
            return Ok((!breaks).then_some(*id));
        }
        match self.destination.session.clone() {
            SessionChoice::PerConnection | SessionChoice::New => Ok(None),
            SessionChoice::Named(id) => Api::new(self.workspace()?).session_id(&id).map(Some),
            SessionChoice::Latest => match Api::new(self.workspace()?).resolve("latest") {
                Ok(reference) => Ok(Some(reference.session)),
                Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns the actor: the client, with the server and the tool it used, so that an audit shows all of them.
    fn actor(&self, connection: &Connection, provider: &str) -> Actor {
        let wrap = concat!("retake-wrap ", env!("CARGO_PKG_VERSION"));
        let client = match &connection.client {
            Some(peer) => format!("{} {} via {wrap}, {provider}", peer.name, peer.version),
            None => format!("{wrap}, {provider}"),
        };
        Actor { client: one_line(&client), user: self.destination.user.clone() }
    }

    fn keep(&mut self, waiting: UnrecordedIteration) {
        let bytes = image_bytes(&waiting.finding);
        if self.backlog.len() >= MAX_BACKLOG || self.backlog_bytes.saturating_add(bytes) > MAX_BACKLOG_BYTES {
            self.lost += 1;
            return;
        }
        match self.spool.save_waiting(&waiting) {
            Ok(()) => self.spooled += 1,
            // It is still retried while this process runs.
            Err(error) => tracing::debug!(%error, "cannot spool a generation"),
        }
        self.backlog_bytes += bytes;
        self.backlog.push_back(waiting);
    }

    /// Reports a failure: the first as a warning, later ones in the log.
    fn failed(&mut self, error: &Error) {
        tracing::warn!(%error, causes = ?error.causes, "cannot record");
        if !std::mem::replace(&mut self.has_warned, true) {
            let cause = error.causes.first().map(|cause| format!(" ({cause})")).unwrap_or_default();
            (self.warn)(&format!("cannot record: {error}{cause}; the traffic is not affected"));
        }
    }
}

/// Returns the iteration that made the image with this hash; the latest if there are several.
fn made(workspace: &Workspace, hash: Hash) -> Result<Option<IterationId>, workspace::Error> {
    // Most inputs were never recorded, and the store knows that without a search.
    if !workspace.images.contains(hash) {
        return Ok(None);
    }
    let mut search = Search::from(Query::everything());
    search.similar_to = Some(SimilarTo::Image(hash));
    for hit in workspace.find(search).take(MAX_TWINS) {
        let hit = hit?;
        if hit.iteration.images.iter().any(|image| image.hash == hash) {
            return Ok(Some(hit.id()));
        }
    }
    Ok(None)
}

/// Returns whether these bytes can be recorded: a server may call anything an image, and the rest is still worth
/// recording.
fn is_image(bytes: &[u8]) -> bool {
    Header::of(bytes.get(..64).unwrap_or(bytes)).mime_type != UNKNOWN_TYPE
}

/// Returns the file if it is unchanged since it was read, so that its name is kept; otherwise the bytes.
fn image(found: &FoundImage) -> ImageSource {
    match &found.path {
        Some(path) if std::fs::read(path).is_ok_and(|bytes| bytes == found.bytes) => ImageSource::File(path.into()),
        _ => ImageSource::Bytes(found.bytes.clone()),
    }
}

fn image_bytes(finding: &Finding) -> usize {
    finding.images.iter().map(|image| image.bytes.len()).sum()
}
