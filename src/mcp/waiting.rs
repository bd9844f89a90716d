//! Long calls, run on separate threads, since the workspace blocks. Clients can request progress and can cancel.
//!
//! A cancelled call gets no response. Its thread ends at the next check for cancellation. A recording that has started
//! is completed, so an agent that cancels one and is unsure records again with the same idempotency key.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::workspace::CallContext;

/// The result of a call.
pub(super) enum Ended<T> {
    /// It completed.
    Done(T),
    /// The client cancelled it.
    Cancelled,
    /// It panicked.
    Broken(JoinError),
}

/// Runs `work` on behalf of the request with this context.
pub(super) async fn carry_out<T: Send + 'static>(
    context: &RequestContext<RoleServer>,
    work: impl FnOnce(&CallContext) -> T + Send + 'static,
) -> Ended<T> {
    let cancelled = context.ct.clone();
    let mut call = CallContext::default().cancel_when(move || cancelled.is_cancelled());
    let mut news = None;
    if let Some(token) = context.meta.get_progress_token() {
        let (sender, steps) = watch::channel(CallProgress::default());
        call = call.with_progress(std::sync::Arc::new(move |what: &str, done, total| {
            sender.send_replace(CallProgress { what: what.to_owned(), done, total });
        }));
        news = Some(ProgressFeed { steps, token, peer: context.peer.clone(), last: None, next: Instant::now() });
    }
    let mut working = tokio::task::spawn_blocking(move || work(&call));
    let ended = tokio::select! {
        ended = follow(&mut working, news.as_mut()) => ended,
        () = context.ct.cancelled() => return Ended::Cancelled,
    };
    ended.map_or_else(Ended::Broken, Ended::Done)
}

/// Returns the error of a cancelled request. It is never sent.
pub(super) fn cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

/// The progress of a call.
#[derive(Clone, Default)]
struct CallProgress {
    what: String,
    done: u64,
    total: u64,
}

/// The channel for progress to the client.
struct ProgressFeed {
    steps: watch::Receiver<CallProgress>,
    token: ProgressToken,
    peer: Peer<RoleServer>,
    last: Option<u64>,
    next: Instant,
}

/// The minimum interval between reports: clients draw a bar, and more reports would only cost time.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

async fn follow<T>(working: &mut JoinHandle<T>, news: Option<&mut ProgressFeed>) -> Result<T, JoinError> {
    let Some(news) = news else { return working.await };
    loop {
        tokio::select! {
            ended = &mut *working => {
                // A client that requested progress receives at least one report, however short the call was.
                if news.last.is_none() && news.steps.has_changed().unwrap_or(true) {
                    news.send().await;
                }
                return ended;
            }
            () = news.due() => news.send().await,
        }
    }
}

impl ProgressFeed {
    /// Waits until there is something new to report and the interval has passed.
    async fn due(&mut self) {
        tokio::time::sleep_until(self.next).await;
        if self.steps.changed().await.is_err() {
            // The work has ended, which the other branch handles.
            std::future::pending::<()>().await;
        }
    }

    async fn send(&mut self) {
        let CallProgress { what, done, total } = self.steps.borrow_and_update().clone();
        // The protocol requires increasing numbers. Work that restarts its count is silent until it has caught up.
        if what.is_empty() || self.last.is_some_and(|last| done <= last) {
            return;
        }
        self.last = Some(done);
        self.next = Instant::now() + PROGRESS_INTERVAL;
        #[expect(clippy::cast_precision_loss, reason = "the protocol counts in floating point")]
        let (done, total) = (done as f64, (total > 0).then_some(total as f64));
        let mut progress = ProgressNotificationParam::new(self.token.clone(), done).with_message(what);
        progress.total = total;
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "cannot report progress to the client");
        }
    }
}
