//! The `retake` command.

use std::process::ExitCode;

/// Sled allocates a great deal; the system's allocator costs an append a fifth more processor time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    retake::internals::cli::run()
}
