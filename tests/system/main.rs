//! Real processes under conditions that need a tool of the operating system: PID namespaces, suspended processes,
//! read-only mounts, failing system calls. A test whose tool is missing, or not permitted here, is reported as ignored
//! with the reason in its name.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a test failure")]

mod containers;
mod faults;
mod network;
mod read_only;
mod suspended;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = containers::trials();
    trials.extend(suspended::trials());
    trials.extend(faults::trials());
    trials.extend(network::trials());
    trials.extend(read_only::trials());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Creates a test that runs only if `missing` is `None`, and is otherwise reported as ignored for that reason.
fn trial(name: &str, missing: Option<&str>, test: fn()) -> Trial {
    let run = move || -> Result<(), Failed> {
        test();
        Ok(())
    };
    match missing {
        None => Trial::test(name, run),
        Some(reason) => Trial::test(format!("{name} ({reason})"), run).with_ignored_flag(true),
    }
}

/// Returns whether a command can be started and succeeds.
fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Returns the command of the binary under test for this workspace.
fn retake(workspace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.env_clear().env("USER", "ada").arg("--workspace").arg(workspace);
    command
}
