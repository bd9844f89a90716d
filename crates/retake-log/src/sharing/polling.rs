//! Polling a socket for a moment before sleeping on it.
//!
//! A call to another process wakes that process, and its answer wakes the caller. On an idle core, a wake-up takes as
//! long as a write to a fast disk, so a client that appends one iteration after another spends half of its time on
//! wake-ups. A receiver whose last frame arrived quickly therefore looks for the next one for a while before it sleeps.
//!
//! Polling must not take anything from others. An idle connection polls once, for at most [`MAX_WAIT`]; and as soon as
//! another thread uses the core, the receiver sleeps. A connection whose frames are slower, because of the disk or
//! because many processes share the owner, does not poll at all: it waits far longer for them than for the wake-up.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for a frame after which the next one is polled for, and the longest time of polling.
const MAX_WAIT: Duration = Duration::from_millis(1);
/// A look at the socket that takes longer than this was interrupted by another thread.
const MAX_LOOK: Duration = Duration::from_micros(300);

/// Whether there is a core for the sender while the receiver polls.
static HAS_SPARE_CORE: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|cores| cores > NonZero::<usize>::MIN));

/// Whether polling for the next frame of a connection is worthwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polling {
    /// Whether the last frame arrived quickly.
    is_quick: bool,
}

impl Polling {
    /// Looks for the next frame with `look`, which returns `None` if nothing has arrived, for as long as is worthwhile.
    pub(super) fn poll<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if !self.is_quick || !*HAS_SPARE_CORE {
            return None;
        }
        let begun = Instant::now();
        let mut now = begun;
        while now - begun < MAX_WAIT {
            if let Some(found) = look() {
                return Some(found);
            }
            thread::yield_now();
            let next = Instant::now();
            if next - now > MAX_LOOK {
                break;
            }
            now = next;
        }
        None
    }

    /// Takes note of how long a frame took to arrive.
    pub(super) fn arrived_after(&mut self, wait: Duration) {
        self.is_quick = wait <= MAX_WAIT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(wait: Duration) -> Polling {
        let mut polling = Polling::default();
        polling.arrived_after(wait);
        polling
    }

    #[test]
    fn only_quick_connections_are_polled() {
        let found = |polling: Polling| polling.poll(|| Some(())).is_some();
        assert!(!found(Polling::default()), "nothing is known yet");
        assert_eq!(found(after(MAX_WAIT)), *HAS_SPARE_CORE);
        assert!(!found(after(2 * MAX_WAIT)), "a slow disk, or a user who pauses");
    }

    #[test]
    fn polling_ends_by_itself() {
        assert_eq!(after(Duration::ZERO).poll(|| None::<()>), None);
    }

    #[test]
    fn polling_ends_when_another_thread_uses_the_core() {
        let mut looks = 0;
        let found = after(Duration::ZERO).poll(|| {
            looks += 1;
            thread::sleep(MAX_LOOK);
            None::<()>
        });
        assert_eq!((found, looks), (None, u32::from(*HAS_SPARE_CORE)));
    }
}
