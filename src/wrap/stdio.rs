//! `retake wrap -- COMMAND`: runs a stdio server as a child process, with the client on our own stdin and stdout.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::platform::{self, Signal, exit_code, is_group_alive, signal_group};

use super::child;
use super::mark::Announce;
use super::pipeline::{Pipeline, Setup};
use super::pump;

/// An event for the main thread.
enum Event {
    /// The client closed our stdin.
    ClientGone,
    /// A signal arrived.
    Signal(Signal),
    /// The server ended.
    Exited(io::Result<ExitStatus>),
    /// The server's stdout has been forwarded to its end.
    Drained,
}

/// How long a server may take to exit after its stdin was closed. A client that is still there sends its own signals
/// sooner.
const EOF_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server may take to exit after it was asked to, before it is killed: less than the two seconds that
/// clients allow us before they kill this process.
const TERM_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long to wait for calls in flight after the client is gone.
const CALLS_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long processes that outlive the server may hold its stdout open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the calls are polled while waiting for them.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the server until it exits, and returns its exit code.
pub(crate) fn run(command: &[OsString], setup: Setup, announce: Announce) -> io::Result<i32> {
    let (events, incoming) = mpsc::channel();
    let signals = events.clone();
    platform::on_signals(move |signal| signals.send(Event::Signal(signal)).is_ok())?;
    // On a terminal, the server keeps its colours; otherwise a copy of its stderr explains failures.
    let keep_stderr = !io::stderr().is_terminal();
    let mut server = child::spawn(command, keep_stderr)?;
    let pid = server.id();
    let pipeline = Pipeline::start(setup)?;

    if let Some(stdin) = server.stdin.take() {
        let (tap, events) = (pipeline.tap().clone(), events.clone());
        spawn("retake-to-server", move || {
            if let Err(error) = pump::to_server(io::stdin().lock(), stdin, &tap) {
                tracing::debug!(%error, "the connection to the server ended");
            }
            drop(events.send(Event::ClientGone));
        })?;
    }
    if let Some(stdout) = server.stdout.take() {
        let (tap, events) = (pipeline.tap().clone(), events.clone());
        let client = platform::unbuffered_stdout()?;
        spawn("retake-to-client", move || {
            if let Err(error) = pump::to_client(stdout, client, &tap, announce) {
                tracing::debug!(%error, "the connection to the client ended");
            }
            drop(tap);
            drop(events.send(Event::Drained));
        })?;
    }
    if let Some(stderr) = server.stderr.take() {
        let tail = Arc::clone(pipeline.stderr());
        spawn("retake-stderr", move || drop(pump::stderr(stderr, io::stderr(), |bytes| tail.push(bytes))))?;
    }
    spawn("retake-wait", move || drop(events.send(Event::Exited(server.wait()))))?;

    let status = supervise(&incoming, pid, &pipeline);
    clean_up(&incoming, pid);
    pipeline.finish();
    status.map(exit_code)
}

/// Forwards signals, and asks the server to exit when the client is gone, until it has exited.
fn supervise(incoming: &Receiver<Event>, pid: u32, pipeline: &Pipeline) -> io::Result<ExitStatus> {
    let mut deadline: Option<(Instant, Signal)> = None;
    let mut gone_since: Option<Instant> = None;
    loop {
        match incoming.recv_timeout(POLL_INTERVAL) {
            Ok(Event::Exited(status)) => return status,
            Ok(Event::Signal(signal)) => {
                signal_group(pid, signal);
                pipeline.give_up();
                if signal == Signal::Terminate {
                    deadline = Some((Instant::now() + TERM_TIMEOUT, Signal::Kill));
                }
            }
            Ok(Event::ClientGone) => {
                gone_since = Some(Instant::now());
                pipeline.give_up();
            }
            Ok(Event::Drained) | Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that waits for the server is gone"));
            }
        }
        let now = Instant::now();
        if let (Some(gone), None) = (gone_since, deadline) {
            let in_flight = pipeline.tap().counters().in_flight.load(SeqCst) > 0;
            if !in_flight || now.duration_since(gone) > CALLS_TIMEOUT {
                deadline = Some((now + EOF_TIMEOUT, Signal::Terminate));
            }
        }
        if let Some((at, signal)) = deadline
            && now >= at
        {
            signal_group(pid, signal);
            deadline = Some((now + TERM_TIMEOUT, Signal::Kill));
        }
    }
}

/// Waits for the last output of a server that has exited, and kills processes it left running.
fn clean_up(incoming: &Receiver<Event>, pid: u32) {
    let is_drained = |timeout: Duration| {
        let deadline = Instant::now() + timeout;
        loop {
            match incoming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Drained) => return true,
                Ok(_) => (),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    };
    let drained = is_drained(DRAIN_TIMEOUT);
    if !is_group_alive(pid) {
        return;
    }
    signal_group(pid, Signal::Terminate);
    let deadline = Instant::now() + TERM_TIMEOUT;
    while is_group_alive(pid) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
    signal_group(pid, Signal::Kill);
    if !drained {
        is_drained(DRAIN_TIMEOUT);
    }
}

fn spawn(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(job).map(drop)
}
