//! Appending: batches that wait at the same time are committed together.
//!
//! A commit waits for the disk, and possibly for a standby, whether it carries one batch or thirty. So the batches of a
//! process queue up while others are in flight, and a group of them is one transaction:
//! - **Existing sessions.** At most [`MAX_SESSION_GROUPS`] groups are in flight, so that one executes while the other is
//!   written to disk. A lone writer leads its own group and does not wait for others. Writers that were acknowledged
//!   together return together, so before the next group its leader waits for them for a fraction of the time that a
//!   commit takes; otherwise the first one to return would make the others wait for a commit of its own. Several batches
//!   for one session build on each other.
//! - **New sessions.** The server lets one transaction at a time take numbers of a day, so those of one day are one
//!   group.
//!
//! The two kinds are never mixed: a group either locks one day or locks sessions in the order of their ids, so that
//! groups of different machines cannot deadlock.
//!
//! A group is first sent as encoded against the heads that this process remembers, in one round trip. Batches for which
//! that fails, for whatever reason, are sent again session by session with the lock taken first, and retried until they
//! succeed, fail permanently, or time out; their idempotency keys make that safe. A batch is acknowledged only after
//! the commit that contains it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::NaiveDate;
use retake_log::model::SessionId;
use retake_log::store::carrier::EncodedBatch;
use retake_log::store::{Ack, Batch, Target};
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::{sleep, timeout, timeout_at};

use super::Error;
use super::connect::{BACKOFF, Failure, Server};
use super::known::Known;
use super::log::PgLog;
use super::notifier::Notifier;
use super::rows::day_number;
use super::statements::{NextPlace, Outcome, Statements};

/// The maximum number of groups of existing sessions in flight.
const MAX_SESSION_GROUPS: usize = 2;
/// The maximum number of batches in a group.
const MAX_GROUP: usize = 64;
/// The part of a commit's duration that the next group waits for writers to return.
const GATHERING_PART: u32 = 4;
/// The longest wait for writers to return.
const MAX_GATHERING: Duration = Duration::from_millis(2);
/// The number of groups that do not wait for writers after a wait in vain.
const IMPATIENT_GROUPS: u32 = 8;

impl PgLog {
    /// Appends a batch. When this returns, PostgreSQL has committed it as durably as it is configured to.
    pub fn append(&self, batch: Batch) -> Result<Ack, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        Appender::enqueue(&self.appender, Job { batch, since: Instant::now(), reply });
        answer.recv().unwrap_or_else(|_| Err(Error::Misuse("the workspace was closed".to_owned())))
    }
}

/// The queue of appends and the state its groups need.
pub(crate) struct Appender {
    server: Arc<Server>,
    statements: Statements,
    pub(crate) known: Known,
    pub(crate) notifier: Arc<Notifier>,
    queue: Mutex<Queue>,
    /// Held by the leader that waits for writers and takes the next group.
    turn: AsyncMutex<()>,
    /// Wakes that leader once enough writers have returned.
    gathered: Notify,
}

/// A batch whose caller is waiting.
struct Job {
    batch: Batch,
    since: Instant,
    reply: SyncSender<Result<Ack, Error>>,
}

impl Job {
    fn line(&self) -> Line {
        match self.batch.target {
            Target::New(day) => Line::Day(day),
            Target::Existing(id) => Line::Session(id),
        }
    }

    fn answer(self, answer: Result<Ack, Error>) {
        // The caller may be gone.
        let _ = self.reply.send(answer);
    }
}

/// The lock that batches wait for: the numbers of a day, or a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Line {
    Day(NaiveDate),
    Session(SessionId),
}

#[derive(Default)]
struct Queue {
    /// The batches that start sessions.
    days: VecDeque<Job>,
    /// The batches for existing sessions.
    sessions: VecDeque<Job>,
    /// The lines that have batches in flight.
    busy: HashSet<Line>,
    /// The number of leaders, each of which sends one group of existing sessions after another.
    leaders: usize,
    /// The number of batches in their groups.
    in_flight: usize,
    /// The number of batches for existing sessions that a leader waits for.
    gathering: Option<usize>,
    /// The number of groups left that do not wait for writers to return.
    impatient: u32,
}

impl Queue {
    /// Takes the next group that starts sessions; `None` if everything queued must keep waiting.
    fn next_day_group(&mut self) -> Option<Vec<Job>> {
        let first = self.days.iter().map(Job::line).find(|line| !self.busy.contains(line))?;
        let (group, rest) = take_group(mem::take(&mut self.days), MAX_GROUP, |line| line == first);
        self.days = rest;
        self.busy.insert(first);
        Some(group)
    }

    /// Takes the next group of at most `limit` batches for existing sessions; `None` if everything queued must keep
    /// waiting.
    fn next_session_group(&mut self, limit: usize) -> Option<Vec<Job>> {
        let (group, rest) = take_group(mem::take(&mut self.sessions), limit, |line| !self.busy.contains(&line));
        self.sessions = rest;
        self.busy.extend(group.iter().map(Job::line));
        self.in_flight += group.len();
        (!group.is_empty()).then_some(group)
    }

    /// Takes the first group of a new leader; `None` if there are enough, or everything must keep waiting.
    fn first_session_group(&mut self) -> Option<Vec<Job>> {
        let may_lead = self.leaders < MAX_SESSION_GROUPS && self.gathering.is_none();
        let group = if may_lead { self.next_session_group(MAX_GROUP) } else { None };
        self.leaders += usize::from(group.is_some());
        group
    }
}

/// Splits a queue into the next group of at most `limit` batches, whose lines pass the filter, and the rest, both in
/// order.
fn take_group(queue: VecDeque<Job>, limit: usize, may_go: impl Fn(Line) -> bool) -> (Vec<Job>, VecDeque<Job>) {
    let (mut group, mut rest) = (Vec::new(), VecDeque::new());
    // Two batches with one key would make the whole group fail; the later one finds the key known afterwards.
    let mut keys: HashSet<String> = HashSet::new();
    let mut passed: HashSet<Line> = HashSet::new();
    for job in queue {
        let line = job.line();
        let fits = group.len() < limit && may_go(line) && !passed.contains(&line);
        if fits && keys.insert(job.batch.key.clone()) {
            group.push(job);
        } else {
            // Batches of one line keep their order.
            passed.insert(line);
            rest.push_back(job);
        }
    }
    (group, rest)
}

/// What the next group for existing sessions waits for.
#[derive(Clone, Copy, Default)]
struct Gathering {
    /// The number of batches.
    count: usize,
    /// The longest wait.
    wait: Duration,
}

impl Appender {
    pub(crate) fn new(server: Arc<Server>) -> Arc<Appender> {
        Arc::new(Appender {
            statements: Statements::new(&server.config),
            known: Known::default(),
            notifier: Notifier::new(&server.config.schema),
            queue: Mutex::default(),
            turn: AsyncMutex::default(),
            gathered: Notify::new(),
            server,
        })
    }

    fn enqueue(self: &Arc<Self>, job: Job) {
        if matches!(job.line(), Line::Day(_)) {
            let group = {
                let mut queue = self.queue();
                queue.days.push_back(job);
                queue.next_day_group()
            };
            if let Some(group) = group {
                self.server.run(Arc::clone(self).run_day_group(group));
            }
            return;
        }
        let group = {
            let mut queue = self.queue();
            queue.sessions.push_back(job);
            if queue.gathering.is_some_and(|count| queue.sessions.len() >= count) {
                queue.gathering = None;
                self.gathered.notify_one();
            }
            queue.first_session_group()
        };
        if let Some(group) = group {
            self.server.run(Leader(Arc::clone(self)).lead_once(group));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the groups that are possible now.
    fn start_groups(self: &Arc<Self>) {
        loop {
            let Some(group) = self.queue().next_day_group() else { break };
            self.server.spawn(Arc::clone(self).run_day_group(group));
        }
        let group = self.queue().first_session_group();
        if let Some(group) = group {
            self.server.spawn(Leader(Arc::clone(self)).lead(group));
        }
    }

    async fn run_day_group(self: Arc<Self>, group: Vec<Job>) {
        self.run_group(group).await;
    }

    /// Waits until enough batches for existing sessions are queued, and takes them. `None` if none came.
    async fn gather(&self, next: Gathering) -> Option<Vec<Job>> {
        let _turn = self.turn.lock().await;
        {
            let mut queue = self.queue();
            // Nothing to wait for: a lone writer leads its next group itself.
            if next.count <= 1 || queue.impatient > 0 {
                queue.impatient = queue.impatient.saturating_sub(1);
                return queue.next_session_group(MAX_GROUP);
            }
            if queue.sessions.len() < next.count {
                queue.gathering = Some(next.count);
            }
        }
        let deadline = tokio::time::Instant::now() + next.wait;
        while self.queue().gathering.is_some() {
            if timeout_at(deadline, self.gathered.notified()).await.is_err() {
                let mut queue = self.queue();
                if queue.gathering.take().is_some() {
                    queue.impatient = IMPATIENT_GROUPS;
                }
            }
        }
        self.queue().next_session_group(next.count)
    }

    /// Sends a group and responds to its callers. Returns what the next group waits for.
    async fn run_group(self: &Arc<Self>, mut group: Vec<Job>) -> Gathering {
        // Sort by line, which is the order of locking.
        group.sort_by_key(Job::line);
        let mut busy = Busy::new(self, &group);
        let started = Instant::now();
        let (left, writers) = self.send_guessed(group).await;
        let wait = (started.elapsed() / GATHERING_PART).min(MAX_GATHERING);
        let mut by_line: HashMap<Line, Vec<Job>> = HashMap::new();
        left.into_iter().for_each(|job| by_line.entry(job.line()).or_default().push(job));
        for (line, jobs) in by_line {
            self.server.spawn(Arc::clone(self).run_line(busy.split_off(line), jobs));
        }
        drop(busy);
        self.notifier.notify_later(&self.server);
        Gathering { count: writers.div_ceil(MAX_SESSION_GROUPS).min(MAX_GROUP), wait }
    }

    /// Sends the batches of one session or day with the lock taken first, and responds to their callers.
    async fn run_line(self: Arc<Self>, busy: Busy, jobs: Vec<Job>) {
        self.send_locked(jobs).await;
        drop(busy);
        self.notifier.notify_later(&self.server);
    }

    /// Sends what can be encoded against remembered heads, once. Returns the batches without a result, and the number
    /// of writers to existing sessions, in flight and queued.
    async fn send_guessed(&self, group: Vec<Job>) -> (Vec<Job>, usize) {
        let mut places: HashMap<Line, Option<NextPlace>> = HashMap::new();
        let (mut sent, mut encoded, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for job in group {
            let place = places.entry(job.line()).or_insert_with(|| self.remembered_place(job.line()));
            // A refusal by a remembered head proves nothing, so the locked path asks the server. Later batches of the
            // line must not overtake this one either.
            match place.as_mut().and_then(|place| place.take(&job.batch).ok()) {
                Some(batch) => {
                    sent.push(job);
                    encoded.push(batch);
                }
                None => {
                    *place = None;
                    left.push(job);
                }
            }
        }
        if sent.is_empty() {
            return (left, 0);
        }
        let outcomes = self.try_guessed(&sent, encoded).await;
        // Counted before any of them is acknowledged and returns.
        let writers = {
            let queue = self.queue();
            queue.in_flight + queue.sessions.len()
        };
        match outcomes {
            Ok(outcomes) => {
                for (job, outcome) in sent.into_iter().zip(outcomes) {
                    match outcome {
                        Ok(Outcome::Done(ack)) => self.acknowledge(job, ack),
                        Ok(Outcome::Stale) => {
                            if matches!(job.batch.target, Target::New(_)) {
                                self.known.guess_failed();
                            }
                            left.push(job);
                        }
                        Err(error) => job.answer(Err(error)),
                    }
                }
            }
            Err(Failure::Final(error)) if sent.len() == 1 => {
                if let Some(job) = sent.pop() {
                    job.answer(Err(self.server.named(error)));
                }
            }
            // The error concerns one of them at most, or the connection: try each by itself.
            Err(problem) => {
                tracing::debug!(?problem, "a group of appends is taken apart");
                left.extend(sent);
            }
        }
        (left, writers)
    }

    fn remembered_place(&self, line: Line) -> Option<NextPlace> {
        match line {
            Line::Day(day) => self.known.guess_last_number(day).map(|last| NextPlace::Day(day_number(day), last)),
            Line::Session(id) => self.known.head(id).map(NextPlace::Session),
        }
    }

    async fn try_guessed(
        &self,
        jobs: &[Job],
        encoded: Vec<EncodedBatch>,
    ) -> Result<Vec<Result<Outcome, Error>>, Failure> {
        let group: Vec<(&Batch, EncodedBatch)> = jobs.iter().map(|job| &job.batch).zip(encoded).collect();
        let attempt = async {
            let client = self.server.lease().await?;
            let outcomes = self.statements.append_guessed(&client, &group, &self.notifier).await?;
            client.done();
            Ok::<_, Failure>(outcomes)
        };
        timeout(self.attempt_timeout(), attempt).await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Sends batches of one session or day with the lock taken first, until each succeeds, fails permanently, or times
    /// out.
    async fn send_locked(&self, jobs: Vec<Job>) {
        let mut groups = VecDeque::from([jobs]);
        while let Some(jobs) = groups.pop_front() {
            let apart = self.send_locked_group(jobs).await;
            groups.extend(apart.into_iter().map(|job| vec![job]));
        }
    }

    /// Sends a group with the lock taken first. Returns the batches that must be sent one by one, because the server
    /// rejected one of them.
    async fn send_locked_group(&self, mut jobs: Vec<Job>) -> Vec<Job> {
        let mut pause = BACKOFF.0;
        while !jobs.is_empty() {
            match self.try_locked(&jobs).await {
                Ok(answers) => {
                    for (job, answer) in jobs.drain(..).zip(answers) {
                        match answer {
                            Ok(ack) => self.acknowledge(job, ack),
                            Err(error) => job.answer(Err(error)),
                        }
                    }
                    return Vec::new();
                }
                Err(Failure::Final(error)) if jobs.len() == 1 => {
                    if let Some(job) = jobs.pop() {
                        job.answer(Err(self.server.named(error)));
                    }
                    return Vec::new();
                }
                Err(Failure::Final(_)) => return jobs,
                Err(Failure::Retry(problem)) => {
                    tracing::debug!(server = self.server.config.server(), problem, "an append is tried again");
                    jobs = self.expire(jobs, pause, &problem);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
        Vec::new()
    }

    /// Fails the batches that would time out before the next attempt, and returns the others.
    fn expire(&self, jobs: Vec<Job>, pause: Duration, problem: &str) -> Vec<Job> {
        let is_over = |job: &Job| job.since.elapsed() + pause >= self.server.config.call_timeout;
        let (over, rest): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_over);
        for job in over {
            let (server, waited) = (self.server.config.server(), job.since.elapsed());
            job.answer(Err(Error::Unreachable { server, waited, problem: problem.to_owned() }));
        }
        rest
    }

    async fn try_locked(&self, jobs: &[Job]) -> Result<Vec<Result<Ack, Error>>, Failure> {
        let batches: Vec<&Batch> = jobs.iter().map(|job| &job.batch).collect();
        let attempt = async {
            let client = self.server.lease().await?;
            let answers = self.statements.append_locked(&client, &batches, &self.notifier).await?;
            client.done();
            Ok::<_, Failure>(answers)
        };
        timeout(self.attempt_timeout(), attempt).await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Returns the timeout of an attempt: a little longer than the server's own limit, whose message is more specific.
    fn attempt_timeout(&self) -> Duration {
        self.server.config.attempt_timeout + Duration::from_secs(1)
    }

    fn acknowledge(&self, job: Job, ack: Ack) {
        self.known.remember(&ack.head);
        job.answer(Ok(ack));
    }
}

/// A leader of groups for existing sessions. Another one takes over on drop, including by a panic.
struct Leader(Arc<Appender>);

impl Leader {
    /// Sends a group and those that follow it, until no more is expected.
    async fn lead(self, group: Vec<Job>) {
        let next = self.0.run_group(group).await;
        self.lead_after(next).await;
    }

    /// Sends a group on the thread of its first caller, and leaves those that follow it to a task of their own.
    async fn lead_once(self, group: Vec<Job>) {
        let next = self.0.run_group(group).await;
        if next.count > 1 {
            let server = Arc::clone(&self.0.server);
            server.spawn(self.lead_after(next));
        }
    }

    async fn lead_after(self, mut next: Gathering) {
        loop {
            let Some(group) = self.0.gather(next).await else { return };
            // What it left may need another leader.
            self.0.start_groups();
            next = self.0.run_group(group).await;
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        {
            let mut queue = self.0.queue();
            queue.leaders -= 1;
            if queue.leaders == 0 {
                queue.gathering = None;
            }
        }
        self.0.start_groups();
    }
}

/// The lines of a group in flight. They are released for the next group on drop, including by a panic.
struct Busy {
    appender: Arc<Appender>,
    lines: HashSet<Line>,
    /// The number of batches of the group that count as in flight.
    in_flight: usize,
}

impl Busy {
    fn new(appender: &Arc<Appender>, group: &[Job]) -> Busy {
        let in_flight = group.iter().filter(|job| matches!(job.line(), Line::Session(_))).count();
        Busy { appender: Arc::clone(appender), lines: group.iter().map(Job::line).collect(), in_flight }
    }

    /// Splits off a line whose batches continue separately.
    fn split_off(&mut self, line: Line) -> Busy {
        self.lines.remove(&line);
        Busy { appender: Arc::clone(&self.appender), lines: HashSet::from([line]), in_flight: 0 }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        {
            let mut queue = self.appender.queue();
            self.lines.iter().for_each(|line| {
                queue.busy.remove(line);
            });
            queue.in_flight -= self.in_flight;
        }
        self.appender.start_groups();
    }
}

fn no_answer() -> Failure {
    Failure::Retry("no answer".to_owned())
}
