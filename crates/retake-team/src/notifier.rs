//! Wakes followers after commits, at a limited rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connect::{Lease, Server};

/// The minimum interval between notifications of one process. Followers catch up by number, so one is enough for many
/// appends.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(25);

/// Commits without waiting for the disk or a standby, since a notification does not have to survive.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')";

/// Decides when followers are notified.
pub(crate) struct Notifier {
    /// The channel that followers listen on.
    pub(crate) channel: String,
    last: Mutex<Option<Instant>>,
    due: AtomicBool,
    scheduled: AtomicBool,
}

impl Notifier {
    pub(crate) fn new(schema: &str) -> Arc<Notifier> {
        Arc::new(Notifier {
            channel: format!("retake_{schema}"),
            last: Mutex::default(),
            due: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
        })
    }

    /// Returns whether the calling append should notify by itself; otherwise a notification is due later.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= NOTIFY_INTERVAL);
        if due {
            *last = Some(now);
        } else {
            self.due.store(true, Ordering::Release);
        }
        due
    }

    /// Notifies followers on the caller's connection. This only wakes them: they also poll, so a failure is not an
    /// error.
    pub(crate) async fn notify(&self, client: &Lease) {
        if let Ok(statement) = client.prepare_cached(NOTIFY).await {
            let _ = client.execute(&statement, &[&self.channel]).await;
        }
    }

    /// Notifies followers soon.
    pub(crate) fn notify_soon(self: &Arc<Self>, server: &Arc<Server>) {
        self.due.store(true, Ordering::Release);
        self.notify_later(server);
    }

    /// Notifies followers soon if something was appended since the last notification.
    pub(crate) fn notify_later(self: &Arc<Self>, server: &Arc<Server>) {
        if !self.due.load(Ordering::Acquire) || self.scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let (notifier, weak) = (Arc::clone(self), Arc::downgrade(server));
        server.spawn(async move {
            tokio::time::sleep(NOTIFY_INTERVAL).await;
            notifier.begin();
            let Some(server) = weak.upgrade() else { return };
            if let Ok(lease) = server.lease().await {
                notifier.notify(&lease).await;
                lease.done();
            }
        });
    }

    fn begin(&self) {
        self.scheduled.store(false, Ordering::Release);
        self.due.store(false, Ordering::Release);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
