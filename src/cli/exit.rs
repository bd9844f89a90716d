//! How a command ends: exit codes and error reports.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind as Usage;

use crate::wire::{Error, ErrorKind};
use crate::workspace;

use super::output::Output;
use super::vocabulary::CommandLine;

/// The exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exit {
    /// Success.
    Done = 0,
    /// The request failed.
    Failed = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The workspace is damaged.
    Damaged = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The request failed.
    Request(Error),
    /// The flags cannot be combined.
    Flags(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Request(error)
    }
}

impl From<workspace::Error> for Failure {
    fn from(error: workspace::Error) -> Failure {
        Failure::Request(error.into())
    }
}

impl Failure {
    /// Creates a failure for flags that cannot be combined.
    pub(super) fn flags(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::Flags(invalid(message, hint))
    }

    /// Creates a failure for the value of a flag. The message names the flag, unless the workspace is to blame.
    pub(super) fn of_flag(flag: &str, error: Error) -> Failure {
        if !error.is_about_the_request() {
            return error.into();
        }
        let Error { message, hint, .. } = error.reworded(&CommandLine);
        Failure::flags(format!("{flag} {message}"), hint)
    }

    /// Reports the failure, and returns the exit code.
    pub(super) fn report(&self, output: &mut Output) -> Exit {
        match self {
            Failure::Request(error) => {
                output.error(error);
                match error.kind {
                    ErrorKind::Damaged => Exit::Damaged,
                    // A value that the command line could have rejected.
                    ErrorKind::Invalid if error.is_about_the_request() => Exit::Usage,
                    _ => Exit::Failed,
                }
            }
            Failure::Flags(error) => {
                output.error(error);
                Exit::Usage
            }
        }
    }
}

/// Creates an error for an invalid request.
pub(super) fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message, hint)
}

/// Reports invalid arguments, or prints the help or version they ask for.
pub(super) fn usage(error: &clap::Error, args: &[OsString]) -> Exit {
    let asked_for = matches!(error.kind(), Usage::DisplayHelp | Usage::DisplayVersion);
    if !asked_for && args.iter().any(|arg| arg == "--json") {
        let text = error.to_string();
        let (message, hint) = message_and_hint(&text);
        let mut output = Output::new(true, anstream::ColorChoice::Never);
        output.error(&invalid(message, hint));
        // If the output cannot be written, the exit code still tells.
        let _ = output.finish();
        return Exit::Usage;
    }
    // A closed pipe is not an error for the help.
    let _ = error.print();
    if asked_for { Exit::Done } else { Exit::Usage }
}

/// Reports that the output could not be written, for example to a full disk.
pub(super) fn unwritten(error: &io::Error, output: &mut Output) -> Exit {
    output.aside(format_args!("error: the answer could not be written to standard output\ncaused by: {error}"));
    output.hint("what was recorded is kept; look at where the output goes, then ask again");
    Exit::Failed
}

/// Returns clap's message without its layout: the first line, and the rest joined to one line.
fn message_and_hint(text: &str) -> (String, String) {
    let mut parts = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = parts.next().unwrap_or_default();
    let hint = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    (message.strip_prefix("error: ").unwrap_or(&message).to_owned(), hint)
}
