//! The `retake` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    retake::internals::cli::run()
}
