//! The tap: passes copies of the traffic to the observer without ever blocking the traffic.
//!
//! The queue is bounded by bytes. Messages that do not fit are dropped and counted, since a blocked client is worse
//! than a missing iteration. Only a response that may be marked is waited for, only for a moment, and only if the
//! recorder has proved since the request that it can write. If that moment was not enough, nothing is waited for again
//! until the recorder has caught up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::model::Timestamp;

use super::message::Direction;
use super::observe::{Moment, Scope};

/// The maximum size of a message that is observed; larger ones are only forwarded.
pub(crate) const MAX_OBSERVED_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of bytes waiting to be observed.
const MAX_QUEUED_BYTES: usize = 256 * 1024 * 1024;

/// The initial value of a tap's clock, so that jobs started by another process lie before it.
const EPOCH_MILLIS: u64 = 1 << 40;

/// A message that passed the proxy.
pub(crate) struct Passed {
    /// The conversation.
    pub(crate) scope: Scope,
    /// Its direction.
    pub(crate) direction: Direction,
    /// Its bytes.
    pub(crate) line: Arc<Vec<u8>>,
    /// When it passed.
    pub(crate) at: Moment,
    /// The callback for the recorded reference, if a pump waits for it.
    pub(crate) reply: Option<RecordedReply>,
    /// Whether it was announced with [`Tap::arm`].
    armed: bool,
    /// The part of the queue it occupies.
    pub(crate) permit: QueuePermit,
}

/// Receives the reference of the recorded iteration; dropping it means that nothing was recorded.
pub(crate) type RecordedReply = Box<dyn FnOnce(String) + Send>;

/// A part of the queue, released on drop.
pub(crate) struct QueuePermit {
    counters: Arc<Counters>,
    bytes: usize,
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        self.counters.queued.fetch_sub(self.bytes, SeqCst);
    }
}

/// Counters shared by the pumps and the threads after the tap.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    queued: AtomicUsize,
    /// Requests that passed but were not observed yet.
    armed: AtomicUsize,
    /// Tool calls waiting for their response, according to the observer.
    pub(crate) in_flight: AtomicUsize,
    /// Messages that were dropped.
    pub(crate) dropped: AtomicU64,
    /// Whether the recorder was too slow the last time it was waited for.
    pub(crate) is_slow: AtomicBool,
    /// Whether jobs are waiting for their image.
    pub(crate) has_jobs: AtomicBool,
    /// Whether a probe of the recorder is pending.
    pub(crate) is_probed: AtomicBool,
    /// When the recorder last proved that it can write; zero if never.
    pub(crate) alive_at: AtomicU64,
}

/// The end of the queue used by the pumps.
#[derive(Clone)]
pub(crate) struct Tap {
    queue: Sender<Option<Passed>>,
    counters: Arc<Counters>,
    /// How long to wait for a recording in order to mark the response; zero if responses are not marked.
    announce_timeout: Duration,
    epoch: Instant,
}

impl Tap {
    /// Creates a tap and the other end of its queue, in which `None` marks the end.
    pub(crate) fn new(announce_timeout: Duration) -> (Tap, Receiver<Option<Passed>>) {
        let (queue, passed) = mpsc::channel();
        (Tap { queue, counters: Arc::default(), announce_timeout, epoch: Instant::now() }, passed)
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Moment {
        let elapsed = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let millis = EPOCH_MILLIS.saturating_add(elapsed);
        Moment { millis, wall: Timestamp::now() }
    }

    /// Returns how long to wait for a response to be recorded.
    pub(crate) fn announce_timeout(&self) -> Duration {
        self.announce_timeout
    }

    /// Announces a tool call that is about to be forwarded, so that its response is not missed.
    pub(crate) fn arm(&self) {
        self.counters.armed.fetch_add(1, SeqCst);
    }

    /// Returns whether a response that is about to be forwarded may be marked.
    pub(crate) fn is_armed(&self) -> bool {
        !self.announce_timeout.is_zero()
            && (self.counters.armed.load(SeqCst) > 0 || self.counters.in_flight.load(SeqCst) > 0)
    }

    /// Queues a message for the observer without blocking.
    pub(crate) fn offer(
        &self,
        scope: Scope,
        direction: Direction,
        line: Arc<Vec<u8>>,
        armed: bool,
        reply: Option<RecordedReply>,
    ) {
        let bytes = line.len();
        let queued = self.counters.queued.fetch_add(bytes, SeqCst);
        let permit = QueuePermit { counters: Arc::clone(&self.counters), bytes };
        let passed = Passed { scope, direction, line, at: self.now(), reply, armed, permit };
        if queued.saturating_add(bytes) > MAX_QUEUED_BYTES || self.queue.send(Some(passed)).is_err() {
            self.skip(armed);
        }
    }

    /// Marks the end of the queue, since a pump may still wait for its peer and hold a tap.
    pub(crate) fn end(&self) {
        // If the observer is gone, it needs no end marker.
        let _ = self.queue.send(None);
    }

    /// Counts a message that is not queued.
    pub(crate) fn skip(&self, armed: bool) {
        self.counters.dropped.fetch_add(1, SeqCst);
        if armed {
            self.counters.armed.fetch_sub(1, SeqCst);
        }
    }

    /// Passes on a response, and waits briefly for its recorded reference.
    pub(crate) fn ask(&self, scope: Scope, line: &Arc<Vec<u8>>) -> Option<String> {
        if self.counters.is_slow.load(SeqCst) {
            self.offer(scope, Direction::ToClient, Arc::clone(line), false, None);
            return None;
        }
        let (reply, answer) = mpsc::sync_channel(1);
        let reply: RecordedReply = Box::new(move |reference| drop(reply.try_send(reference)));
        self.offer(scope, Direction::ToClient, Arc::clone(line), false, Some(reply));
        let answer = answer.recv_timeout(self.announce_timeout);
        if answer == Err(mpsc::RecvTimeoutError::Timeout) {
            self.counters.is_slow.store(true, SeqCst);
        }
        answer.ok()
    }
}

impl Tap {
    /// Passes on a response like [`ask`](Tap::ask), without blocking the thread.
    pub(crate) async fn ask_async(&self, scope: Scope, line: &Arc<Vec<u8>>) -> Option<String> {
        if self.counters.is_slow.load(SeqCst) {
            self.offer(scope, Direction::ToClient, Arc::clone(line), false, None);
            return None;
        }
        let (reply, answer) = tokio::sync::oneshot::channel();
        let reply: RecordedReply = Box::new(move |reference| drop(reply.send(reference)));
        self.offer(scope, Direction::ToClient, Arc::clone(line), false, Some(reply));
        match tokio::time::timeout(self.announce_timeout, answer).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                self.counters.is_slow.store(true, SeqCst);
                None
            }
        }
    }
}

impl Passed {
    /// Records that the observer has processed the message, and the number of calls still waiting for a response.
    pub(crate) fn observed(&self, in_flight: usize) {
        self.permit.counters.in_flight.store(in_flight, SeqCst);
        if self.armed {
            self.permit.counters.armed.fetch_sub(1, SeqCst);
        }
    }
}
