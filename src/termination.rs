//! The signals that ask a process to end: Ctrl-C, and what `kill` and service managers send.

use std::io;

/// Starts to listen, and returns a future that completes when the process is asked to end. Needs a Tokio runtime.
#[cfg(unix)]
pub(crate) fn termination() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
        }
    })
}

/// Starts to listen, and returns a future that completes on Ctrl-C. Needs a Tokio runtime.
#[cfg(not(unix))]
pub(crate) fn termination() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
