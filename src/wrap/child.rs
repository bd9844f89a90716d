//! The wrapped server as a process: its own group, so that nothing it started survives it, and the ladder by which it is
//! asked to end.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A signal to the server and everything it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// A polite request to end.
    Terminate,
    /// The terminal is gone.
    Hangup,
    /// Ctrl-\.
    Quit,
    /// For the program's own use.
    User1,
    /// For the program's own use.
    User2,
    /// The end.
    Kill,
}

/// Starts the server in a process group of its own. With `keep_stderr`, its stderr comes through a pipe.
pub(crate) fn spawn(command: &[OsString], keep_stderr: bool) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command was given"));
    };
    let start = |program: &OsString| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if keep_stderr { Stdio::piped() } else { Stdio::inherit() });
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn()
    };
    match start(program) {
        // `npx` is a script there, and only found under its whole name.
        Err(error) if cfg!(windows) && error.kind() == io::ErrorKind::NotFound => {
            let mut script = program.clone();
            script.push(".cmd");
            start(&script).map_err(|_| error)
        }
        started => started,
    }
}

/// Sends a signal to the group of the process with this id.
#[cfg(unix)]
pub(crate) fn signal(pid: u32, signal: Signal) {
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
        // A group that is gone needs no signal.
        let _ = unix::kill_process_group(group, signal);
    }
}

/// Ends the process tree with this id, where there are no signals.
#[cfg(not(unix))]
pub(crate) fn signal(pid: u32, signal: Signal) {
    if matches!(signal, Signal::Terminate | Signal::Kill) {
        let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &pid.to_string()]).output();
    }
}

/// Returns whether anything of the group of the process with this id is left.
#[cfg(unix)]
pub(crate) fn is_group_alive(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process_group};
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    group.is_some_and(|group| test_kill_process_group(group).is_ok())
}

#[cfg(not(unix))]
pub(crate) fn is_group_alive(_pid: u32) -> bool {
    false
}

/// Returns the exit code that stands for how the server ended: its own, or 128 and the number of the signal.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}
