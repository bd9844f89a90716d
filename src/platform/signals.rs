//! Signals to this process. Windows has only Ctrl-C.

use std::io;

#[cfg(feature = "cli")]
use super::Signal;

/// Completes when the process is asked to terminate: by Ctrl-C, `kill` or a service manager. The handlers are installed
/// when this returns. Must be called within a runtime.
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

#[cfg(windows)]
pub(crate) fn termination() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Calls `receive` for every signal that can be forwarded, until it returns `false`. The handlers are installed when
/// this returns.
#[cfg(all(unix, feature = "cli"))]
pub(crate) fn on_signals(mut receive: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut user1 = signal(SignalKind::user_defined1())?;
    let mut user2 = signal(SignalKind::user_defined2())?;
    drop(guard);
    spawn(move || {
        runtime.block_on(async move {
            loop {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::Interrupt,
                    _ = terminate.recv() => Signal::Terminate,
                    _ = hangup.recv() => Signal::Hangup,
                    _ = quit.recv() => Signal::Quit,
                    _ = user1.recv() => Signal::User1,
                    _ = user2.recv() => Signal::User2,
                };
                if !receive(signal) {
                    return;
                }
            }
        });
    })
}

#[cfg(all(windows, feature = "cli"))]
pub(crate) fn on_signals(mut receive: impl FnMut(Signal) -> bool + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    spawn(move || {
        runtime.block_on(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if !receive(Signal::Terminate) {
                    return;
                }
            }
        });
    })
}

#[cfg(feature = "cli")]
fn spawn(job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("retake-signals".to_owned()).spawn(job).map(drop)
}
