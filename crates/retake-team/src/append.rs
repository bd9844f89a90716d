//! Appending: batches that wait at the same time are committed together.
//!
//! A commit waits for the disk, and possibly for a standby, whether it carries one batch or thirty. So the batches of a
//! process queue up while others are in flight, and a group of them is one transaction:
//! - **Existing sessions.** At most [`MAX_SESSION_GROUPS`] groups are in flight, so a lone writer does not wait. A
//!   session is in one of them at a time, and several batches for it build on each other.
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
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::NaiveDate;
use retake_log::model::SessionId;
use retake_log::store::carrier::EncodedBatch;
use retake_log::store::{Ack, Batch, Target};
use tokio::time::{sleep, timeout};

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
    waiting: VecDeque<Job>,
    /// The lines that have batches in flight.
    busy: HashSet<Line>,
    /// The number of groups of existing sessions in flight.
    session_groups: usize,
}

impl Queue {
    /// Takes the next group out of the queue; `None` if everything queued must keep waiting.
    fn next_group(&mut self) -> Option<Vec<Job>> {
        let is_full = self.session_groups >= MAX_SESSION_GROUPS;
        let may_go = |busy: &HashSet<Line>, line: Line| match line {
            Line::Day(_) => !busy.contains(&line),
            Line::Session(_) => !is_full && !busy.contains(&line),
        };
        let first = self.waiting.iter().map(Job::line).find(|line| may_go(&self.busy, *line))?;
        let mut group: Vec<Job> = Vec::new();
        let mut rest = VecDeque::with_capacity(self.waiting.len());
        // Two batches with one key would make the whole group fail; the later one finds the key known afterwards.
        let mut keys: HashSet<String> = HashSet::new();
        let mut passed: HashSet<Line> = HashSet::new();
        for job in self.waiting.drain(..) {
            let line = job.line();
            let same_kind = match first {
                Line::Day(_) => line == first,
                Line::Session(_) => matches!(line, Line::Session(_)),
            };
            let fits = group.len() < MAX_GROUP && same_kind && may_go(&self.busy, line) && !passed.contains(&line);
            if fits && keys.insert(job.batch.key.clone()) {
                group.push(job);
            } else {
                // Batches of one line keep their order.
                passed.insert(line);
                rest.push_back(job);
            }
        }
        self.waiting = rest;
        self.busy.extend(group.iter().map(Job::line));
        self.session_groups += usize::from(matches!(first, Line::Session(_)));
        Some(group)
    }
}

impl Appender {
    pub(crate) fn new(server: Arc<Server>) -> Arc<Appender> {
        Arc::new(Appender {
            statements: Statements::new(&server.config.schema),
            known: Known::default(),
            notifier: Notifier::new(&server.config.schema),
            queue: Mutex::default(),
            server,
        })
    }

    fn enqueue(self: &Arc<Self>, job: Job) {
        let first = {
            let mut queue = self.queue();
            queue.waiting.push_back(job);
            queue.next_group()
        };
        if let Some(first) = first {
            // There may be another group for which there is room.
            self.start_groups();
            self.server.run(Arc::clone(self).run_group(first));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_groups(self: &Arc<Self>) {
        loop {
            let Some(group) = self.queue().next_group() else { return };
            self.server.spawn(Arc::clone(self).run_group(group));
        }
    }

    /// Sends a group and responds to its callers.
    async fn run_group(self: Arc<Self>, mut group: Vec<Job>) {
        // Sort by line, which is the order of locking.
        group.sort_by_key(Job::line);
        let mut busy = Busy::new(&self, &group);
        let left = self.send_guessed(group).await;
        let mut by_line: HashMap<Line, Vec<Job>> = HashMap::new();
        left.into_iter().for_each(|job| by_line.entry(job.line()).or_default().push(job));
        for (line, jobs) in by_line {
            self.server.spawn(Arc::clone(&self).run_line(busy.split_off(line), jobs));
        }
        drop(busy);
        self.notifier.notify_later(&self.server);
    }

    /// Sends the batches of one session or day with the lock taken first, and responds to their callers.
    async fn run_line(self: Arc<Self>, busy: Busy, jobs: Vec<Job>) {
        self.send_locked(jobs).await;
        drop(busy);
        self.notifier.notify_later(&self.server);
    }

    /// Sends what can be encoded against remembered heads, once. Returns the batches without a result.
    async fn send_guessed(&self, group: Vec<Job>) -> Vec<Job> {
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
            return left;
        }
        match self.try_guessed(&sent, encoded).await {
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
        left
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

/// The lines of a group in flight. They are released for the next group on drop, including by a panic.
struct Busy {
    appender: Arc<Appender>,
    lines: HashSet<Line>,
    is_session_group: bool,
}

impl Busy {
    fn new(appender: &Arc<Appender>, group: &[Job]) -> Busy {
        let lines: HashSet<Line> = group.iter().map(Job::line).collect();
        let is_session_group = lines.iter().any(|line| matches!(line, Line::Session(_)));
        Busy { appender: Arc::clone(appender), lines, is_session_group }
    }

    /// Splits off a line whose batches continue separately and no longer count as a group.
    fn split_off(&mut self, line: Line) -> Busy {
        self.lines.remove(&line);
        Busy { appender: Arc::clone(&self.appender), lines: HashSet::from([line]), is_session_group: false }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        {
            let mut queue = self.appender.queue();
            self.lines.iter().for_each(|line| {
                queue.busy.remove(line);
            });
            queue.session_groups -= usize::from(self.is_session_group);
        }
        self.appender.start_groups();
    }
}

fn no_answer() -> Failure {
    Failure::Retry("no answer".to_owned())
}
