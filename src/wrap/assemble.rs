//! Turns exchanges into findings: recognises calls that make images, tracks jobs until they are done, and determines
//! which iteration an input image came from. Reads files that results name, and writes nothing.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::Timestamp;

use super::answer::{ToolAnswer, mentions_image};
use super::arguments::CallArguments;
use super::files::Base;
use super::finding::{Finding, Sources};
use super::lineage::ConnectionLineage;
use super::locate::{FoundImage, Located, locate};
use super::observe::{Connection, Exchange, Moment, ObservedRequest};
use super::outcome::{self, CallOutcome};
use super::profile::{Profiles, ToolKind, ToolProfile};
use super::recognise::{Kind, Recognised, recognise, words};

/// The decision about an exchange.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// An iteration is complete.
    Record(Box<Finding>),
    /// A job was started or continues.
    Wait {
        /// Its id.
        job: String,
        /// The rule that applied.
        why: String,
    },
    /// It is not an iteration.
    Skip(String),
}

/// Turns exchanges into findings.
pub(crate) struct Assembler {
    profiles: Profiles,
    base: Base,
    fallback_name: String,
    jobs: Vec<Job>,
    lineage: ConnectionLineage,
    /// The prefix of the idempotency keys of jobs.
    run: String,
    started: u64,
}

/// A job whose image has not arrived yet.
struct Job {
    finding: Finding,
    asked: CallArguments,
    ids: Vec<String>,
    started: Moment,
    last: Exchange,
    /// Whether the server reported that it is done.
    is_done: bool,
    /// Whether another call is expected to return the image.
    image_follows: bool,
    previews: Vec<FoundImage>,
    /// Whether another process started it, so that its conversation is not one of ours.
    is_adopted: bool,
}

/// A job in the format in which it is stored, so that another process can wait for its image.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StoredJob {
    /// What is known so far.
    pub(crate) finding: Finding,
    /// The arguments of the call.
    pub(crate) asked: CallArguments,
    /// The ids by which later calls refer to it.
    pub(crate) ids: Vec<String>,
    /// When it was requested, in milliseconds since 1970.
    pub(crate) started: i64,
    /// When a message last mentioned it, in milliseconds since 1970.
    pub(crate) last: i64,
    /// Whether the server reported that it is done.
    pub(crate) is_done: bool,
    /// Whether another call is expected to return the image.
    pub(crate) image_follows: bool,
    /// Previews of its image.
    pub(crate) previews: Vec<FoundImage>,
}

/// How long to wait for a job after the last message about it.
pub(crate) const JOB_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The maximum number of jobs that are tracked at once.
const MAX_JOBS: usize = 256;
/// The minimum length of an id that is searched for within an argument.
const MIN_CONTAINED_ID: usize = 6;

impl Assembler {
    /// Creates an assembler. A server that does not introduce itself is called `fallback_name`.
    pub(crate) fn new(profiles: Profiles, base: Base, fallback_name: String) -> Assembler {
        let (run, started) = (String::new(), 0);
        Assembler {
            profiles,
            base,
            fallback_name,
            jobs: Vec::new(),
            lineage: ConnectionLineage::default(),
            run,
            started,
        }
    }

    /// Sets the run name with which the keys of jobs start.
    #[must_use]
    pub(crate) fn with_run(self, run: &str) -> Assembler {
        Assembler { run: run.to_owned(), ..self }
    }

    /// Returns the name of the server.
    pub(crate) fn server_name<'a>(&'a self, connection: &'a Connection) -> &'a str {
        connection.server.as_ref().map_or(self.fallback_name.as_str(), |server| server.name.as_str())
    }

    /// Returns the jobs in the format in which they are stored.
    pub(crate) fn jobs(&self) -> Vec<StoredJob> {
        let stored = |job: &Job| StoredJob {
            finding: job.finding.clone(),
            asked: job.asked.clone(),
            ids: job.ids.clone(),
            started: job.started.wall.millis(),
            last: job.last.ended.wall.millis(),
            is_done: job.is_done,
            image_follows: job.image_follows,
            previews: job.previews.clone(),
        };
        self.jobs.iter().map(stored).collect()
    }

    /// Continues jobs that another process started, converting their times to the clock of this one.
    pub(crate) fn adopt(&mut self, jobs: Vec<StoredJob>, now: Moment) {
        let at = |wall: i64| {
            let before = u64::try_from(now.wall.millis().saturating_sub(wall)).unwrap_or(0);
            let wall = Timestamp::from_millis(wall).unwrap_or(now.wall);
            Moment { millis: now.millis.saturating_sub(before), wall }
        };
        let job = |stored: StoredJob| {
            let StoredJob { finding, asked, ids, started, last, is_done, image_follows, previews } = stored;
            let ask = ObservedRequest::Task(ids.first().cloned().unwrap_or_default());
            let (scope, result, cancelled) = (finding.scope, Ok(Value::Null), false);
            let started = at(started);
            let last = Exchange { scope, ask, result, started, ended: at(last), cancelled };
            Job { finding, asked, ids, started, last, is_done, image_follows, previews, is_adopted: true }
        };
        self.jobs.extend(jobs.into_iter().map(job));
    }

    /// Remembers the reference of a recorded finding, so that later calls can use it as their parent.
    pub(crate) fn recorded(&mut self, finding: &Finding, reference: &str) {
        self.lineage.remember(finding.names.iter().cloned(), reference);
    }

    /// Returns whether any jobs are waiting for their image.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Decides what to do with an exchange. `stderr` is the server's recent error output.
    pub(crate) fn exchange(&mut self, connection: &Connection, exchange: &Exchange, stderr: &str) -> Vec<Decision> {
        match &exchange.ask {
            ObservedRequest::Call { tool, arguments } => self.call(connection, exchange, tool, arguments, stderr),
            ObservedRequest::Read(name) | ObservedRequest::Task(name) => {
                match self.job_named_in(&Value::String(name.clone()), exchange) {
                    Some(place) => vec![self.advance(place, exchange, None, stderr)],
                    None => vec![Decision::Skip("it belongs to no job".to_owned())],
                }
            }
        }
    }

    /// Gives up on jobs and returns what is known about them: all jobs, or those without a message for [`JOB_TIMEOUT`].
    pub(crate) fn give_up(&mut self, now: Option<Moment>) -> Vec<Finding> {
        let timeout = u64::try_from(JOB_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let is_late = |job: &Job| now.is_none_or(|now| now.millis.saturating_sub(job.last.ended.millis) > timeout);
        let (late, waiting) = std::mem::take(&mut self.jobs).into_iter().partition(is_late);
        self.jobs = waiting;
        late.into_iter().map(Job::abandoned).collect()
    }

    fn call(
        &mut self,
        connection: &Connection,
        exchange: &Exchange,
        tool: &str,
        arguments: &Value,
        stderr: &str,
    ) -> Vec<Decision> {
        let profile = self.profiles.choose(connection).cloned();
        let tool_profile = profile.as_ref().and_then(|profile| profile.tool(tool)).cloned();
        let listed = connection.tools.get(tool);
        let asked = CallArguments::read(arguments, listed, tool_profile.as_ref());
        let recognised = decide(tool_profile.as_ref(), || recognise(tool, listed, &asked));
        if recognised.kind == Kind::Ignore {
            return vec![Decision::Skip(recognised.why.to_owned())];
        }
        let is_maker = matches!(recognised.kind, Kind::Generate | Kind::Edit);
        if !is_maker && let Some(place) = self.job_named_in(arguments, exchange) {
            return vec![self.advance(place, exchange, tool_profile.as_ref(), stderr)];
        }
        if recognised.kind == Kind::Poll {
            return vec![Decision::Skip(format!("{}, and it belongs to no job", recognised.why))];
        }
        let answer = ToolAnswer::read(&exchange.result);
        let is_edit = recognised.kind == Kind::Edit;
        let located = self.locate(&answer, &asked, exchange);
        let is_new =
            !located.pre_existing && located.images.iter().any(|image| !self.lineage.knows_bytes(&image.bytes));
        if recognised.kind == Kind::Unsure && !is_new {
            return vec![Decision::Skip(format!("{}, but there is no new image", recognised.why))];
        }
        let mut read = outcome::read(&answer, !located.images.is_empty());
        let has_something = !located.images.is_empty() || outcome::has_address(&answer) || !answer.links.is_empty();
        let is_empty = !has_something && answer.paths.is_empty() && answer.urls.is_empty();
        if recognised.strong && is_empty && read.ending == CallOutcome::Succeeded && !outcome::claims_success(&answer) {
            read = outcome::no_image(&answer);
        }
        let says_something = read.ending != CallOutcome::Succeeded || has_something;
        if !recognised.strong && !says_something {
            return vec![Decision::Skip("the result contains no image, failure or job".to_owned())];
        }
        let sources = Sources {
            connection,
            fallback_name: &self.fallback_name,
            profile: profile.as_ref(),
            tool_profile: tool_profile.as_ref(),
            tool,
            asked: &asked,
        };
        let mut finding = Finding::asked(&sources, exchange);
        finding.note("call", recognised.why.to_owned());
        self.find_parent(&mut finding, arguments, &asked, tool, is_edit);
        finding.answered(&answer, tool_profile.as_ref());
        let follows =
            tool_profile.as_ref().is_some_and(|profile| profile.image_follows) || brings_later(&answer, connection);
        let job = match &read.ending {
            CallOutcome::Pending(job) => Some(job.clone()),
            CallOutcome::Succeeded if located.images.is_empty() && follows => {
                answer.links.first().or(answer.urls.first()).cloned()
            }
            _ => None,
        };
        if let Some(id) = job {
            return vec![self.start(finding, asked, id, &answer, exchange, follows, read.why)];
        }
        if matches!(read.ending, CallOutcome::Succeeded) {
            finding.located(located);
        }
        finding.ended(read.ending, read.why, exchange, stderr);
        split(finding, &asked).into_iter().map(|finding| Decision::Record(Box::new(finding))).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a job, each used once")]
    fn start(
        &mut self,
        mut finding: Finding,
        asked: CallArguments,
        id: String,
        answer: &ToolAnswer,
        exchange: &Exchange,
        image_follows: bool,
        why: &str,
    ) -> Decision {
        finding.origin("job", json!(id));
        self.started += 1;
        finding.key = (!self.run.is_empty()).then(|| format!("wrap-{}-job-{}", self.run, self.started));
        let mut ids = vec![id.clone()];
        ids.extend(answer.links.iter().chain(&answer.urls).cloned());
        ids.extend(outcome::ids(answer));
        ids.extend(answer.task.clone());
        if self.jobs.len() >= MAX_JOBS {
            self.jobs.remove(0);
        }
        self.jobs.push(Job {
            finding,
            asked,
            ids,
            started: exchange.started,
            last: exchange.clone(),
            is_done: false,
            image_follows,
            previews: Vec::new(),
            is_adopted: false,
        });
        Decision::Wait { job: id, why: why.to_owned() }
    }

    /// Updates a job with the result of another call.
    fn advance(
        &mut self,
        place: usize,
        exchange: &Exchange,
        tool_profile: Option<&ToolProfile>,
        stderr: &str,
    ) -> Decision {
        let answer = ToolAnswer::read(&exchange.result);
        let Some(job) = self.jobs.get(place) else { return Decision::Skip("the job is gone".to_owned()) };
        let started = Exchange { started: job.started, ..exchange.clone() };
        let located = self.locate(&answer, &job.asked, &started);
        let is_preview = tool_profile.is_some_and(|profile| profile.preview);
        let read = outcome::read(&answer, !located.images.is_empty());
        let Some(job) = self.jobs.get_mut(place) else { return Decision::Skip("the job is gone".to_owned()) };
        let id = job.ids.first().cloned().unwrap_or_default();
        job.last = started.clone();
        job.finding.answered(&answer, tool_profile);
        let more: Vec<String> = answer.links.iter().chain(&answer.urls).cloned().collect();
        job.ids.extend(more);
        if is_preview && !located.images.is_empty() {
            job.is_done = true;
            job.previews = located.images;
            return Decision::Wait { job: id, why: "the image is a preview of the real one".to_owned() };
        }
        let has_image = !located.images.is_empty();
        let ending = match read.ending {
            CallOutcome::Pending(_) => return Decision::Wait { job: id, why: read.why.to_owned() },
            CallOutcome::Succeeded if !has_image && !outcome::is_done(&answer) => {
                return Decision::Wait { job: id, why: "the status in the result is not final".to_owned() };
            }
            CallOutcome::Succeeded if !has_image && (job.image_follows || answer.urls.is_empty()) => {
                job.is_done = true;
                return Decision::Wait { job: id, why: "it is done, and the image has not passed yet".to_owned() };
            }
            ending => ending,
        };
        let Job { mut finding, .. } = self.jobs.remove(place);
        if matches!(ending, CallOutcome::Succeeded) {
            finding.located(located);
        }
        finding.ended(ending, read.why, &started, stderr);
        Decision::Record(Box::new(finding))
    }

    fn locate(&self, answer: &ToolAnswer, asked: &CallArguments, exchange: &Exchange) -> Located {
        let started = u64::try_from(exchange.started.wall.millis()).unwrap_or(0);
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(started);
        locate(answer, asked, started, &self.base)
    }

    fn find_parent(&self, finding: &mut Finding, arguments: &Value, asked: &CallArguments, tool: &str, is_edit: bool) {
        if let Some((parent, argument)) = self.lineage.parent(arguments, asked, &self.base) {
            finding.note("parent", format!("argument `{argument}` names its image"));
            finding.parent = Some(parent);
            return;
        }
        let goes_on =
            words(tool).iter().any(|word| matches!(word.as_str(), "continue" | "last" | "refine" | "regenerate"));
        if is_edit
            && goes_on
            && asked.inputs.is_empty()
            && let Some(last) = self.lineage.last()
        {
            finding.note("parent", "the tool continues from the last image".to_owned());
            finding.parent = Some(last.to_owned());
            return;
        }
        finding.inputs = ConnectionLineage::inputs(asked, &self.base);
    }

    /// Returns the job whose id occurs anywhere in a value.
    fn job_named_in(&self, value: &Value, exchange: &Exchange) -> Option<usize> {
        let mut found = None;
        each_text(value, &mut |text| {
            let names = |id: &String| id == text || id.len() >= MIN_CONTAINED_ID && text.contains(id.as_str());
            let is_ours = |job: &Job| job.is_adopted || job.last.scope.group == exchange.scope.group;
            let is_meant = |job: &Job| is_ours(job) && job.ids.iter().any(names);
            found = found.or_else(|| self.jobs.iter().position(is_meant));
        });
        found
    }
}

impl Job {
    /// Returns what is known about a job whose image never arrived.
    fn abandoned(self) -> Finding {
        let Job { mut finding, ids, last, is_done, previews, .. } = self;
        let id = ids.first().cloned().unwrap_or_default();
        if !previews.is_empty() {
            finding.origin("preview", json!(true));
            finding.located(Located { images: previews, ..Located::default() });
        }
        let (ending, why) = if is_done {
            (CallOutcome::Succeeded, "the server reported that it is done")
        } else {
            (
                CallOutcome::Failed(format!("no result of job {id} passed before the connection ended")),
                "no result passed",
            )
        };
        finding.ended(ending, why, &last, "");
        finding
    }
}

fn decide(profile: Option<&ToolProfile>, rules: impl FnOnce() -> Recognised) -> Recognised {
    let decided = |kind, strong| Recognised { kind, strong, why: "the profile says so" };
    match profile.and_then(|profile| profile.kind) {
        Some(ToolKind::Generate) => decided(Kind::Generate, true),
        Some(ToolKind::Edit) => decided(Kind::Edit, true),
        Some(ToolKind::Poll) => decided(Kind::Poll, false),
        Some(ToolKind::Ignore) => decided(Kind::Ignore, false),
        None => rules(),
    }
}

/// Returns whether a result without an image refers to one that another call can return.
fn brings_later(answer: &ToolAnswer, connection: &Connection) -> bool {
    let downloads = |name: &String| words(name).iter().any(|word| word == "download");
    !answer.links.is_empty() || !answer.urls.is_empty() && connection.tools.keys().any(downloads)
}

/// Splits a call with several prompts into one finding per prompt, if each has its image.
fn split(finding: Finding, asked: &CallArguments) -> Vec<Finding> {
    let count = asked.prompts.len();
    if count < 2 || finding.images.len() != count {
        return vec![finding];
    }
    let images = finding.images.clone();
    let each = |(prompt, image): (&String, FoundImage)| {
        let names = [image.path.clone().unwrap_or_default(), super::lineage::content_name(&image.bytes)];
        Finding {
            recipe: finding.recipe.with_prompt(super::redact::text(prompt)),
            images: vec![image],
            names: names.into(),
            ..finding.clone()
        }
    };
    asked.prompts.iter().zip(images).map(each).collect()
}

fn each_text(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, found)),
        Value::Object(object) => object.values().for_each(|value| each_text(value, found)),
        _ => (),
    }
}

/// Decides the purpose of a call without reading its result or any file.
pub(crate) fn kind_of(connection: &Connection, profiles: &Profiles, tool: &str, arguments: &Value) -> Kind {
    let profile = profiles.choose(connection).and_then(|profile| profile.tool(tool));
    let listed = connection.tools.get(tool);
    decide(profile, || recognise(tool, listed, &CallArguments::read(arguments, listed, profile))).kind
}

/// Returns whether an exchange needs a closer look, without reading any file. `has_jobs` states whether jobs are
/// pending, which any call may complete.
pub(crate) fn may_matter(connection: &Connection, profiles: &Profiles, exchange: &Exchange, has_jobs: bool) -> bool {
    let ObservedRequest::Call { tool, arguments } = &exchange.ask else { return has_jobs };
    match kind_of(connection, profiles, tool, arguments) {
        Kind::Generate | Kind::Edit => true,
        Kind::Poll => has_jobs,
        Kind::Unsure => has_jobs || mentions_image(&exchange.result),
        Kind::Ignore => false,
    }
}
