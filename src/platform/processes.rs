//! Other processes: groups, signals, exit codes, program names.

use std::fs::File;
use std::io;
use std::process::{Command, ExitStatus};

/// A signal to a process and its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A request to terminate.
    Terminate,
    /// The terminal was closed.
    Hangup,
    /// Ctrl-\.
    Quit,
    /// User-defined.
    User1,
    /// User-defined.
    User2,
    /// Immediate termination.
    Kill,
}

/// The separator of paths in a variable such as `PATH`.
pub(crate) const PATH_DELIMITER: char = if cfg!(windows) { ';' } else { ':' };
/// The file name of this program.
pub(crate) const PROGRAM_FILE_NAME: &str = if cfg!(windows) { "retake.exe" } else { "retake" };
/// The suffix of scripts such as `npx` on systems that only find them by their full name.
pub(crate) const SCRIPT_SUFFIX: Option<&str> = if cfg!(windows) { Some(".cmd") } else { None };

/// Starts the process in its own group, on systems that have process groups.
#[cfg(unix)]
pub(crate) fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(windows)]
pub(crate) fn own_group(_: &mut Command) {}

/// Sends a signal to the group of the process with this id.
#[cfg(unix)]
pub(crate) fn signal_group(pid: u32, signal: Signal) {
    use rustix::process as unix;
    let signal = match signal {
        Signal::Interrupt => unix::Signal::INT,
        Signal::Terminate => unix::Signal::TERM,
        Signal::Hangup => unix::Signal::HUP,
        Signal::Quit => unix::Signal::QUIT,
        Signal::User1 => unix::Signal::USR1,
        Signal::User2 => unix::Signal::USR2,
        Signal::Kill => unix::Signal::KILL,
    };
    let group = i32::try_from(pid).ok().and_then(unix::Pid::from_raw);
    if let Some(group) = group {
        // The group may be gone already.
        let _ = unix::kill_process_group(group, signal);
    }
}

/// Kills the process tree with this id, since Windows has no signals.
#[cfg(windows)]
pub(crate) fn signal_group(pid: u32, signal: Signal) {
    if matches!(signal, Signal::Terminate | Signal::Kill) {
        let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &pid.to_string()]).output();
    }
}

/// Returns whether any process in the group of this process id is alive.
#[cfg(unix)]
pub(crate) fn is_group_alive(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process_group};
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    group.is_some_and(|group| test_kill_process_group(group).is_ok())
}

#[cfg(windows)]
pub(crate) fn is_group_alive(_: u32) -> bool {
    false
}

/// Returns the exit code for a process: its own, or 128 plus the number of the signal that ended it.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}

/// Opens the stdout of this process without the standard library's line buffering.
#[cfg(unix)]
pub(crate) fn unbuffered_stdout() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
pub(crate) fn unbuffered_stdout() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}
