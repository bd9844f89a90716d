//! The recorder: the one file that knows how an iteration gets into the workspace. It runs on a thread of its own; what it
//! cannot record now it tries again with the same key, so that everything is recorded once or, in the end, reported.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::images::{Header, UNKNOWN_TYPE};
use crate::model::iteration::{MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_PARAMETERS_BYTES, MAX_PROMPT_BYTES, MAX_SIDE};
use crate::model::{Actor, Hash, IterationId, Query, Status, Timestamp};
use crate::wire::{Api, Error, ErrorKind, ImageData, ImageInput, RecordRequest};
use crate::workspace::{self, Search, SimilarTo, Workspace};

use super::assemble::StoredJob;
use super::finding::Finding;
use super::locate::FoundImage;
use super::observe::Connection;
use super::outcome::clip;
use super::spool::{Adopted, Spool, Waiting};

/// Which session iterations go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionChoice {
    /// One per connection, and a new one after a break.
    #[default]
    PerConnection,
    /// A new one per connection, without breaks.
    New,
    /// The session that was modified last when the first iteration is recorded.
    Latest,
    /// This session.
    Named(String),
}

/// Opens the workspace.
pub type OpenWorkspace = Arc<dyn Fn() -> Result<Workspace, Error> + Send + Sync>;

/// Where iterations go, and on whose behalf.
#[derive(Clone)]
pub struct Destination {
    /// Opens the workspace, when there is something to record and again after it failed.
    pub open: OpenWorkspace,
    /// The directory of the workspace on this machine, which need not be there yet.
    pub dir: PathBuf,
    /// The session.
    pub session: SessionChoice,
    /// The project of new sessions.
    pub project: Option<String>,
    /// The user.
    pub user: String,
}

/// Reports something that people should know, in one line.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Records findings.
pub(crate) struct Recorder {
    destination: Destination,
    warn: Warn,
    workspace: Option<Workspace>,
    sessions: HashMap<u64, Current>,
    /// Makes keys unique among all runs.
    run: String,
    count: u64,
    backlog: VecDeque<Waiting>,
    backlog_bytes: usize,
    spool: Spool,
    /// How many of the backlog are also in the spool.
    spooled: usize,
    /// When an attempt last failed after a long wait.
    failed_slowly: Option<Instant>,
    has_warned: bool,
    lost: u64,
}

/// The session a conversation records into.
struct Current {
    id: String,
    last: Timestamp,
}

/// How long a conversation may rest before its next iteration starts another session, in milliseconds.
const SESSION_BREAK_MILLIS: i64 = 60 * 60 * 1000;
/// A failed attempt that took this long is one that waited for something; the next waits for its turn.
const SLOW_FAILURE: Duration = Duration::from_secs(1);
/// How long nothing is attempted after a slow failure.
const SLOW_FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// How many iterations that look the same are compared to find the one with the same bytes.
const MAX_TWINS: usize = 32;
/// The most iterations, and bytes of images, that wait to be recorded while the workspace cannot take them.
const MAX_BACKLOG: usize = 256;
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

    /// Returns the name of this run, with which its keys begin.
    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    /// Opens the workspace, so that the first recording does not have to, and returns whether the log answers and the disk
    /// takes what is written.
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

    /// Returns whether other runs left something behind.
    pub(crate) fn has_orphans(&self) -> bool {
        self.spool.has_others()
    }

    /// Takes over what dead runs left: returns jobs of this server, and records what waits.
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

    /// Stores the jobs, so that they outlive this process.
    pub(crate) fn save_jobs(&mut self, server: &str, jobs: Vec<StoredJob>) {
        if let Err(error) = self.spool.save_jobs(server, jobs) {
            // They are still followed; only a kill would lose them.
            tracing::debug!(%error, "cannot spool the jobs");
        }
    }

    /// Finds the iteration of any session that made an input image, if the connection did not make it.
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

    /// Records a finding, and returns its reference. If that is not possible now, it is tried again later.
    pub(crate) fn record(&mut self, connection: &Connection, finding: Finding) -> Option<(Finding, String)> {
        self.retry();
        self.count += 1;
        let key = finding.key.clone().unwrap_or_else(|| format!("wrap-{}-{}", self.run, self.count));
        let actor = self.actor(connection, &finding.provider);
        if self.pauses() {
            self.keep(Waiting { finding, actor, key });
            return None;
        }
        match self.timed_attempt(&actor, &finding, &key) {
            Ok(reference) => Some((finding, reference)),
            Err(error) => {
                self.failed(&error);
                if error.kind != ErrorKind::Invalid {
                    self.keep(Waiting { finding, actor, key });
                } else {
                    self.lost += 1;
                }
                None
            }
        }
    }

    /// Tries again what could not be recorded, in order, up to the first that fails again.
    pub(crate) fn retry(&mut self) {
        while !self.pauses()
            && let Some(waiting) = self.backlog.pop_front()
        {
            if let Err(error) = self.timed_attempt(&waiting.actor, &waiting.finding, &waiting.key) {
                tracing::debug!(%error, "still cannot record");
                if error.kind == ErrorKind::Invalid {
                    // It will not become valid, and must not keep the others waiting.
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

    /// Attempts to record, and takes note if that fails only after a wait: what waits for a server that does not answer
    /// would keep all that follows from being spooled.
    fn timed_attempt(&mut self, actor: &Actor, finding: &Finding, key: &str) -> Result<String, Error> {
        let begun = Instant::now();
        let result = self.attempt(actor, finding, key);
        self.failed_slowly = (result.is_err() && begun.elapsed() >= SLOW_FAILURE).then(Instant::now);
        result
    }

    fn pauses(&self) -> bool {
        self.failed_slowly.is_some_and(|at| at.elapsed() < SLOW_FAILURE_PAUSE)
    }

    /// Returns whether something waits to be recorded.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Ends: tries once more, closes the workspace, and reports what could not be recorded.
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

    /// Records under a key, which makes trying again safe.
    fn attempt(&mut self, actor: &Actor, finding: &Finding, key: &str) -> Result<String, Error> {
        let mut request = request(finding, key);
        request.session_id = self.session_for(finding)?;
        if request.session_id.is_none() {
            request.project.clone_from(&self.destination.project);
        }
        let mut result = Api::new(self.workspace()?).by(actor).record(&request);
        if let Err(error) = &result {
            match error.kind {
                // The session was archived meanwhile, or is gone, or the parent is: the iteration is not lost for that.
                ErrorKind::Archived | ErrorKind::NotFound
                    if request.session_id.is_some() || request.parent.is_some() =>
                {
                    (self.warn)(&format!("{error}: recording into a new session instead"));
                    request.session_id = None;
                    if error.kind == ErrorKind::NotFound {
                        request.parent = None;
                    }
                    request.project.clone_from(&self.destination.project);
                    result = Api::new(self.workspace()?).by(actor).record(&request);
                }
                ErrorKind::Busy | ErrorKind::Internal | ErrorKind::Damaged => {
                    // A workspace whose owner died or that was restored is taken up by opening it anew.
                    self.workspace = None;
                    result = Api::new(self.workspace()?).by(actor).record(&request);
                }
                _ => (),
            }
        }
        let recorded = result?;
        let reference = recorded.reference.to_string();
        let id = recorded.reference.session.to_string();
        let last = finding.created_at.unwrap_or_else(Timestamp::now);
        self.sessions.insert(finding.scope.group, Current { id, last });
        Ok(reference)
    }

    /// Returns the session to record into; `None` for a new one.
    fn session_for(&mut self, finding: &Finding) -> Result<Option<String>, Error> {
        if let Some(Current { id, last }) = self.sessions.get(&finding.scope.group) {
            let now = finding.created_at.unwrap_or(*last);
            let rested = now.millis().saturating_sub(last.millis()) > SESSION_BREAK_MILLIS;
            let goes_on = finding.parent.as_ref().is_some_and(|parent| parent.starts_with(&format!("{id}#")));
            let breaks = self.destination.session == SessionChoice::PerConnection && rested && !goes_on;
            return Ok((!breaks).then(|| id.clone()));
        }
        match self.destination.session.clone() {
            SessionChoice::PerConnection | SessionChoice::New => Ok(None),
            SessionChoice::Named(id) => Ok(Some(id)),
            SessionChoice::Latest => match Api::new(self.workspace()?).resolve("latest") {
                Ok(reference) => Ok(Some(reference.session.to_string())),
                Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns who did it: the client, and through us the server and the tool, so that an audit shows all of them.
    fn actor(&self, connection: &Connection, provider: &str) -> Actor {
        let wrap = concat!("retake-wrap ", env!("CARGO_PKG_VERSION"));
        let client = match &connection.client {
            Some(peer) => format!("{} {} via {wrap}, {provider}", peer.name, peer.version),
            None => format!("{wrap}, {provider}"),
        };
        Actor { client: name(&client).unwrap_or_else(|| wrap.to_owned()), user: self.destination.user.clone() }
    }

    fn keep(&mut self, waiting: Waiting) {
        let bytes = image_bytes(&waiting.finding);
        if self.backlog.len() >= MAX_BACKLOG || self.backlog_bytes.saturating_add(bytes) > MAX_BACKLOG_BYTES {
            self.lost += 1;
            return;
        }
        match self.spool.save_waiting(&waiting) {
            Ok(()) => self.spooled += 1,
            // It is still tried again while this process runs.
            Err(error) => tracing::debug!(%error, "cannot spool a generation"),
        }
        self.backlog_bytes += bytes;
        self.backlog.push_back(waiting);
    }

    /// Reports a failure: the first in full, the others in the log.
    fn failed(&mut self, error: &Error) {
        tracing::warn!(%error, causes = ?error.causes, "cannot record");
        if !std::mem::replace(&mut self.has_warned, true) {
            let cause = error.causes.first().map(|cause| format!(" ({cause})")).unwrap_or_default();
            (self.warn)(&format!("cannot record: {error}{cause}; the traffic is not affected"));
        }
    }
}

/// Returns the iteration that made the image with this hash, the latest if there are several.
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

/// Returns the request for a finding. Every value is made to keep the limits of a recipe: a server may send anything.
fn request(finding: &Finding, key: &str) -> RecordRequest {
    let prompt = text(&finding.prompt, MAX_PROMPT_BYTES);
    RecordRequest {
        prompt: if prompt.trim().is_empty() { finding.tool.clone() } else { prompt },
        parent: finding.parent.clone(),
        prompt_sent: finding.prompt_sent.as_deref().map(|sent| text(sent, MAX_PROMPT_BYTES)),
        negative_prompt: finding.negative_prompt.as_deref().map(|negative| text(negative, MAX_PROMPT_BYTES)),
        model: finding.model.as_deref().and_then(name),
        model_hash: finding.model_hash.as_deref().and_then(name),
        seed: finding.seed,
        steps: finding.steps,
        guidance_scale: finding.guidance_scale.filter(|scale| (-1e6..=1e6).contains(scale)),
        sampler: finding.sampler.as_deref().and_then(name),
        scheduler: finding.scheduler.as_deref().and_then(name),
        width: finding.width.filter(|side| (1..=MAX_SIDE).contains(side)),
        height: finding.height.filter(|side| (1..=MAX_SIDE).contains(side)),
        denoise: finding.denoise.filter(|strength| (0.0..=1.0).contains(strength)),
        loras: finding.loras.clone(),
        provider: name(&finding.provider),
        parameters: parameters(&finding.parameters),
        outcome: Some(finding.outcome),
        message: finding.message.as_deref().map(|message| text(message, MAX_NOTE_BYTES)),
        generation_time_ms: Some(finding.duration_ms),
        cost: finding.cost.clone(),
        created_at: finding.created_at.map(|at| at.to_string()),
        images: finding.images.iter().filter(|found| is_image(&found.bytes)).map(image).collect(),
        idempotency_key: Some(key.to_owned()),
        ..RecordRequest::default()
    }
}

/// Returns whether these bytes can be recorded: a server may call anything an image, and the rest is worth recording.
fn is_image(bytes: &[u8]) -> bool {
    Header::of(bytes.get(..64).unwrap_or(bytes)).mime_type != UNKNOWN_TYPE
}

/// Names the file if it is still the one that was looked at, so that its name is kept, and sends the bytes otherwise.
fn image(found: &FoundImage) -> ImageInput {
    if let Some(path) = &found.path
        && std::fs::read(path).is_ok_and(|bytes| bytes == found.bytes)
    {
        return ImageInput::Path(path.clone());
    }
    ImageInput::Data(ImageData { data: STANDARD.encode(&found.bytes), mime_type: None })
}

fn parameters(parameters: &Map<String, Value>) -> Map<String, Value> {
    let fits =
        |map: &Map<String, Value>| serde_json::to_string(map).is_ok_and(|text| text.len() <= MAX_PARAMETERS_BYTES);
    if fits(parameters) {
        return parameters.clone();
    }
    let mut kept: Map<String, Value> =
        parameters.iter().filter(|(key, _)| *key == "mcp").map(|(key, value)| (key.clone(), value.clone())).collect();
    kept.insert("tooLargeToKeep".to_owned(), json!(parameters.keys().collect::<Vec<_>>()));
    if fits(&kept) { kept } else { Map::new() }
}

/// Returns a text without control characters, cut to so many bytes.
fn text(text: &str, most: usize) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { '\u{fffd}' } else { c }).collect();
    clip(&clean, most).to_owned()
}

/// Returns a name on one line; `None` if nothing is left of it.
fn name(name: &str) -> Option<String> {
    let name = text(&name.replace(['\n', '\r'], " "), MAX_NAME_BYTES);
    (!name.trim().is_empty()).then_some(name)
}

fn image_bytes(finding: &Finding) -> usize {
    finding.images.iter().map(|image| image.bytes.len()).sum()
}
