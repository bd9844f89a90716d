//! Waiting for the owner of the workspace: the timeout, and the notices meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an owner may be silent before its callers are notified.
const NOTICE_AFTER: Duration = Duration::from_secs(2);
/// The interval of these notifications.
const NOTICE_INTERVAL: Duration = Duration::from_secs(1);
/// How long an owner may be silent, or hold the lock without listening, before a call fails; unless the caller sets it.
const OWNER_TIMEOUT: Duration = Duration::from_secs(30);

/// A notice that the owner of the workspace does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNotice {
    /// Its process id, if known.
    pub pid: Option<u32>,
    /// How long it has been silent.
    pub waited: Duration,
}

/// A callback for [`WaitNotice`]s: after two seconds, and every second from then on.
pub type OnWait = Arc<dyn Fn(WaitNotice) + Send + Sync>;

/// The timeout of a caller that waits for a silent owner, and its callback.
#[derive(Clone)]
pub(super) struct OwnerWait {
    on_wait: Option<OnWait>,
    timeout: Duration,
}

impl Default for OwnerWait {
    fn default() -> OwnerWait {
        OwnerWait::new(None, None)
    }
}

impl OwnerWait {
    pub(super) fn new(on_wait: Option<OnWait>, timeout: Option<Duration>) -> OwnerWait {
        OwnerWait { on_wait, timeout: timeout.unwrap_or(OWNER_TIMEOUT) }
    }

    /// Returns whether an owner that has been silent since then is given up.
    pub(super) fn is_over(&self, since: Instant) -> bool {
        since.elapsed() >= self.timeout
    }

    /// Returns how long to wait before the next notice, or before giving up.
    pub(super) fn next(&self, since: Instant) -> Duration {
        let waited = since.elapsed();
        let notice = if waited < NOTICE_AFTER { NOTICE_AFTER - waited } else { NOTICE_INTERVAL };
        notice.min(self.timeout.saturating_sub(waited)).max(Duration::from_millis(1))
    }

    /// Reports that an owner has been silent since this time, if it has been long enough.
    pub(super) fn report(&self, pid: Option<u32>, since: Instant) {
        let waited = since.elapsed();
        if waited >= NOTICE_AFTER {
            match &self.on_wait {
                Some(on_wait) => on_wait(WaitNotice { pid, waited }),
                None => tracing::warn!(pid, ?waited, "waiting for the process that owns the workspace"),
            }
        }
    }
}
