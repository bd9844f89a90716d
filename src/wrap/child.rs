//! The wrapped server as a child process, in its own process group, so that none of its descendants outlive it.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, Stdio};

use crate::platform;

/// Starts the server in its own process group. With `keep_stderr`, its stderr is piped.
pub(crate) fn spawn(command: &[OsString], keep_stderr: bool) -> io::Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command was given"));
    };
    let start = |program: &OsString| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if keep_stderr { Stdio::piped() } else { Stdio::inherit() });
        platform::own_group(&mut command);
        command.spawn()
    };
    match (start(program), platform::SCRIPT_SUFFIX) {
        (Err(error), Some(suffix)) if error.kind() == io::ErrorKind::NotFound => {
            let mut script = program.clone();
            script.push(suffix);
            start(&script).map_err(|_| error)
        }
        (started, _) => started,
    }
}
