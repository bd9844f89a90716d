//! The two threads after the tap: the observer pairs messages and immediately releases those that do not concern
//! images; the recorder reads files and writes to the workspace.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::Timestamp;

use super::assemble::{Assembler, Decision, JOB_TIMEOUT, kind_of, may_matter};
use super::fetch::Fetcher;
use super::files::Base;
use super::finding::Finding;
use super::locate::{FoundImage, Located};
use super::message::{self, RpcMessage};
use super::observe::{Connection, Exchange, Moment, Observer};
use super::profile::Profiles;
use super::recognise::Kind;
use super::record::{Destination, Recorder, Warn};
use super::tap::{Counters, Passed, QueuePermit, RecordedReply, Tap};

/// The configuration of a wrapped connection.
pub(crate) struct Setup {
    /// The destination of iterations.
    pub(crate) destination: Destination,
    /// The profiles.
    pub(crate) profiles: Profiles,
    /// The name of a server that does not introduce itself.
    pub(crate) fallback_name: String,
    /// How long a response may wait to be marked; zero if responses are not marked.
    pub(crate) announce_timeout: Duration,
    /// Fetches images from allowed hosts.
    pub(crate) fetcher: Option<Fetcher>,
    /// A callback for warnings.
    pub(crate) warn: Warn,
}

/// The threads after the tap.
pub(crate) struct Pipeline {
    tap: Tap,
    work: Sender<Work>,
    stderr: Arc<StderrTail>,
    threads: Vec<JoinHandle<()>>,
    warn: Warn,
}

/// A work item for the recorder.
enum Work {
    /// A generation was requested: open the workspace and check that it can be written.
    Probe,
    /// An exchange to examine.
    Exchange {
        connection: Arc<Connection>,
        exchange: Box<Exchange>,
        reply: Option<RecordedReply>,
        permit: Arc<QueuePermit>,
    },
    /// The client is disconnecting: do not wait for jobs any longer.
    GiveUp,
    /// The end of the traffic.
    End,
}

/// How often jobs and unrecorded iterations are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time that the end of the process waits for the recorder.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

impl Pipeline {
    /// Starts the threads. They open nothing until there is something to record.
    pub(crate) fn start(setup: Setup) -> io::Result<Pipeline> {
        let Setup { destination, profiles, fallback_name, announce_timeout, fetcher, warn } = setup;
        let (tap, passed) = Tap::new(announce_timeout);
        let (work, jobs) = mpsc::channel();
        let stderr = Arc::new(StderrTail::default());
        let observer = {
            let (profiles, tap, work) = (profiles.clone(), tap.clone(), work.clone());
            thread::Builder::new()
                .name("retake-observer".to_owned())
                .spawn(move || observe(&passed, &profiles, &tap, &work))?
        };
        let recorder = {
            let (tap, stderr, warn) = (tap.clone(), Arc::clone(&stderr), Arc::clone(&warn));
            thread::Builder::new().name("retake-recorder".to_owned()).spawn(move || {
                let recorder = Recorder::new(destination, warn);
                let assembler = Assembler::new(profiles, Base::of_this_process(), fallback_name);
                let assembler = assembler.with_run(recorder.run());
                let has_orphans = recorder.has_orphans();
                tap.counters().has_jobs.store(has_orphans, SeqCst);
                record(&jobs, assembler, Sink { recorder, fetcher, has_orphans }, &tap, &stderr);
            })?
        };
        Ok(Pipeline { tap, work, stderr, threads: vec![observer, recorder], warn })
    }

    /// Returns the tap.
    pub(crate) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Returns the buffer of the server's recent stderr output.
    pub(crate) fn stderr(&self) -> &Arc<StderrTail> {
        &self.stderr
    }

    /// Records what is known about jobs without an image, because the client is disconnecting.
    pub(crate) fn give_up(&self) {
        // The recorder is only gone if it panicked, which has been reported.
        let _ = self.work.send(Work::GiveUp);
    }

    /// Waits for a bounded time until everything that passed is recorded.
    pub(crate) fn finish(self) {
        let Pipeline { tap, work, threads, warn, .. } = self;
        let dropped = tap.counters().dropped.load(SeqCst);
        if dropped > 0 {
            warn(&format!("{dropped} messages were too large, or arrived too fast, to be examined"));
        }
        tap.end();
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let mut threads = VecDeque::from(threads);
        // The observer ends with the pumps, and must pass on its messages before the recorder ends.
        let in_time = threads.pop_front().is_none_or(|observer| join_until(&observer, deadline));
        let _ = work.send(Work::End);
        let in_time = threads.pop_front().is_none_or(|recorder| join_until(&recorder, deadline)) && in_time;
        if !in_time {
            warn("the last generations could not be recorded in time");
        }
    }
}

fn join_until(thread: &JoinHandle<()>, deadline: Instant) -> bool {
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
    true
}

fn observe(passed: &Receiver<Option<Passed>>, profiles: &Profiles, tap: &Tap, work: &Sender<Work>) {
    let counters = tap.counters();
    let mut observer = Observer::default();
    while let Ok(Some(mut passed)) = passed.recv() {
        let mut messages = message::parse(&passed.line);
        let is_batch = messages.len() > 1;
        let mut reply = passed.reply.take().filter(|_| !is_batch);
        let mut exchanges = Vec::new();
        for message in messages.drain(..) {
            if is_generation(&message, observer.connection(), profiles, counters)
                && !counters.is_probed.swap(true, SeqCst)
                && work.send(Work::Probe).is_err()
            {
                return;
            }
            exchanges.extend(observer.message(passed.scope, passed.direction, message, passed.at));
        }
        passed.observed(observer.calls_in_flight());
        let has_jobs = counters.has_jobs.load(SeqCst);
        let permit = Arc::new(passed.permit);
        for exchange in exchanges {
            let connection = Arc::clone(observer.connection());
            if !may_matter(&connection, profiles, &exchange, has_jobs) {
                continue;
            }
            if !may_wait(&exchange, counters, tap.announce_timeout()) {
                // Dropping the reply lets the response pass at once, unmarked.
                reply = None;
            }
            let (exchange, permit) = (Box::new(exchange), Arc::clone(&permit));
            if work.send(Work::Exchange { connection, exchange, reply: reply.take(), permit }).is_err() {
                return;
            }
        }
    }
}

/// Returns whether a response may be held back until it is recorded: only if the recorder has proved since the request
/// that it can write. Therefore a workspace whose disk is full, read-only or stalled, or whose owner does not respond,
/// delays nothing. A response that arrives before the recorder can be expected to have answered may be held back too.
fn may_wait(exchange: &Exchange, counters: &Counters, announce_timeout: Duration) -> bool {
    let took = exchange.ended.millis.saturating_sub(exchange.started.millis);
    u128::from(took) <= announce_timeout.as_millis() || counters.alive_at.load(SeqCst) >= exchange.started.millis
}

/// Returns whether the response to a message may complete an iteration.
fn is_generation(message: &RpcMessage, connection: &Connection, profiles: &Profiles, counters: &Counters) -> bool {
    let RpcMessage::Request { method, params, .. } = message else { return false };
    if counters.has_jobs.load(SeqCst) && matches!(method.as_str(), "tools/call" | "resources/read" | "tasks/result") {
        return true;
    }
    let Some(tool) = params.get("name").and_then(|name| name.as_str()).filter(|_| method == "tools/call") else {
        return false;
    };
    let arguments = params.get("arguments").cloned().unwrap_or_default();
    matches!(kind_of(connection, profiles, tool, &arguments), Kind::Generate | Kind::Edit)
}

/// The destination of findings.
struct Sink {
    recorder: Recorder,
    fetcher: Option<Fetcher>,
    /// Whether other runs left files that have not been read yet.
    has_orphans: bool,
}

impl Sink {
    /// Records a finding. If it has no images, fetches those at its URLs from allowed hosts.
    fn record(&mut self, connection: &Connection, mut finding: Finding) -> Option<(Finding, String)> {
        if let Some(fetcher) = self.fetcher.as_ref().filter(|_| finding.images.is_empty()) {
            let fetched = finding.urls.iter().filter_map(|url| fetcher.image(url));
            let images: Vec<FoundImage> = fetched.map(|bytes| FoundImage { bytes, path: None }).collect();
            if !images.is_empty() {
                finding.located(Located { images, ..Located::default() });
            }
        }
        self.recorder.find_parent(&mut finding);
        self.recorder.record(connection, finding)
    }

    /// Adopts the files of dead runs, once the server is known.
    fn adopt(&mut self, assembler: &mut Assembler, connection: &Connection, now: Moment) {
        if std::mem::take(&mut self.has_orphans) {
            let oldest = now.wall.millis().saturating_sub(i64::try_from(JOB_TIMEOUT.as_millis()).unwrap_or(i64::MAX));
            let expired = Timestamp::from_millis(oldest).unwrap_or(now.wall);
            let jobs = self.recorder.adopt(assembler.server_name(connection), expired);
            assembler.adopt(jobs, now);
        }
    }
}

fn record(work: &Receiver<Work>, mut assembler: Assembler, mut sink: Sink, tap: &Tap, stderr: &StderrTail) {
    let mut last = Arc::new(Connection::default());
    loop {
        let idle = !assembler.has_jobs() && !sink.recorder.has_backlog();
        let next = if idle {
            work.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            work.recv_timeout(CHECK_INTERVAL)
        };
        match next {
            Ok(Work::Probe) => {
                if sink.recorder.probe() {
                    tap.counters().alive_at.store(tap.now().millis, SeqCst);
                }
                tap.counters().is_probed.store(false, SeqCst);
            }
            Ok(Work::Exchange { connection, exchange, mut reply, permit }) => {
                sink.adopt(&mut assembler, &connection, tap.now());
                let had_jobs = assembler.has_jobs();
                for step in assembler.exchange(&connection, &exchange, &stderr.text()) {
                    let Decision::Record(finding) = step else { continue };
                    let reference = keep(&mut assembler, &mut sink, &connection, *finding);
                    if let (Some(reference), Some(reply)) = (reference, reply.take()) {
                        reply(reference);
                    }
                }
                tap.counters().has_jobs.store(assembler.has_jobs(), SeqCst);
                // Dropping the reply releases a response that is not marked.
                drop((reply, permit));
                if had_jobs || assembler.has_jobs() {
                    sink.recorder.save_jobs(assembler.server_name(&connection), assembler.jobs());
                }
                last = connection;
            }
            Ok(Work::GiveUp) => {
                abandon(&mut assembler, &mut sink, &last, None);
                sink.recorder.save_jobs(assembler.server_name(&last), assembler.jobs());
            }
            Err(RecvTimeoutError::Timeout) => {
                if abandon(&mut assembler, &mut sink, &last, Some(tap.now())) {
                    sink.recorder.save_jobs(assembler.server_name(&last), assembler.jobs());
                }
                sink.recorder.retry();
            }
            Ok(Work::End) | Err(RecvTimeoutError::Disconnected) => {
                abandon(&mut assembler, &mut sink, &last, None);
                sink.recorder.save_jobs(assembler.server_name(&last), assembler.jobs());
                return sink.recorder.finish();
            }
        }
        tap.counters().is_slow.store(false, SeqCst);
    }
}

/// Records what is known about abandoned jobs, and returns whether there were any.
fn abandon(assembler: &mut Assembler, sink: &mut Sink, connection: &Connection, now: Option<Moment>) -> bool {
    let abandoned = assembler.give_up(now);
    let any = !abandoned.is_empty();
    for finding in abandoned {
        keep(assembler, sink, connection, finding);
    }
    any
}

fn keep(assembler: &mut Assembler, sink: &mut Sink, connection: &Connection, finding: Finding) -> Option<String> {
    let (finding, reference) = sink.record(connection, finding)?;
    assembler.recorded(&finding, &reference);
    Some(reference)
}

/// The tail of the server's stderr, which is often the only explanation of a failure.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Mutex<VecDeque<u8>>);

/// The number of bytes of the server's stderr that are kept.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

impl StderrTail {
    /// Appends output and keeps only its tail.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.drain(..excess);
    }

    /// Returns what is kept.
    fn text(&self) -> String {
        let tail: Vec<u8> = self.0.lock().iter().copied().collect();
        String::from_utf8_lossy(&tail).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::message::Direction;
    use super::super::observe::Scope;
    use super::super::record::SessionChoice;
    use super::*;

    /// Returns a recorder whose workspace only opens after something is sent.
    fn stalled(announce_timeout: Duration) -> (Pipeline, Sender<()>) {
        let (release, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let destination = Destination {
            open: Arc::new(move || {
                let _ = gate.lock().recv();
                Err(crate::wire::Error::new(crate::wire::ErrorKind::Busy, "stalled", "wait"))
            }),
            dir: std::env::temp_dir().join("retake-no-such-workspace"),
            session: SessionChoice::New,
            project: None,
            user: String::new(),
        };
        let warn: Warn = Arc::new(|_| ());
        let (profiles, fallback_name) = (Profiles::built_in(), "server".to_owned());
        let setup = Setup { destination, profiles, fallback_name, announce_timeout, fetcher: None, warn };
        (Pipeline::start(setup).unwrap(), release)
    }

    #[test]
    fn a_recorder_that_is_stalled_since_the_request_is_not_waited_for() {
        let announce_timeout = Duration::from_millis(100);
        let (pipeline, release) = stalled(announce_timeout);
        let tap = pipeline.tap().clone();
        for id in 0..3 {
            let call = json!({"id": id, "method": "tools/call", "params": {"name": "generate_image", "arguments": {"prompt": "a"}}});
            tap.arm();
            tap.offer(Scope::default(), Direction::ToServer, Arc::new(call.to_string().into_bytes()), true, None);
            // A generation takes longer than the recorder is waited for.
            let asked = tap.now().millis;
            while tap.now().millis < asked + 150 {
                thread::yield_now();
            }
            let answer = json!({"id": id, "result": {"content": [{"type": "text", "text": "Error: no"}]}});
            assert_eq!(tap.ask(Scope::default(), &Arc::new(answer.to_string().into_bytes())), None);
            // A wait that took too long would have set this.
            assert!(!tap.counters().is_slow.load(SeqCst), "answer {id} was held back");
        }
        drop(release);
        pipeline.finish();
    }

    #[test]
    fn only_a_recorder_that_has_shown_that_it_can_write_is_waited_for() {
        let wall = Timestamp::from_millis(1_765_000_000_000).unwrap();
        let at = |millis| Moment { millis, wall };
        let exchange = |took: u64| Exchange {
            scope: Scope::default(),
            ask: super::super::observe::ObservedRequest::Read(String::new()),
            result: Ok(json!({})),
            started: at(1000),
            ended: at(1000 + took),
            cancelled: false,
        };
        let counters = Counters::default();
        let announce_timeout = Duration::from_millis(250);
        assert!(!may_wait(&exchange(2000), &counters, announce_timeout), "it never wrote");
        counters.alive_at.store(999, SeqCst);
        assert!(!may_wait(&exchange(2000), &counters, announce_timeout), "it wrote before the request");
        counters.alive_at.store(1010, SeqCst);
        assert!(may_wait(&exchange(2000), &counters, announce_timeout));
        assert!(may_wait(&exchange(200), &Counters::default(), announce_timeout), "there was no time to show it");
    }
}
