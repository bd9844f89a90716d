//! Ctrl-C during long work: the first one stops it after the current item, with a report of what was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::platform::termination;

/// Sets `stop` on Ctrl-C and SIGTERM. A second signal ends the process.
pub(super) fn stop_on(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    // Without a handler, Ctrl-C ends the process at once, which loses nothing that was recorded.
    let _ = thread::Builder::new().name("retake-signals".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(first) = termination() else { return };
            first.await;
            let second = termination();
            stop.store(true, Ordering::Relaxed);
            if let Ok(second) = second {
                second.await;
                std::process::exit(130);
            }
        });
    });
}

/// Sets `stop` on Ctrl-C and SIGTERM, even if other code handles these signals too.
pub(super) fn set_on(stop: &Arc<AtomicBool>) {
    let stop = Arc::clone(stop);
    // Without a handler, Ctrl-C ends the process as usual.
    let _ = thread::Builder::new().name("retake-signals".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(terminated) = termination() else { return };
            terminated.await;
            stop.store(true, Ordering::Relaxed);
        });
    });
}
