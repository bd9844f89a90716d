//! Everything in this crate that depends on the operating system. No other module checks the target; `retake-log` and
//! `retake-team` have a module of the same name.
//!
//! Each function has a Unix and a Windows version, side by side. `docs/platforms.md` lists the differences and what has
//! never been tested.

mod files;
#[cfg(feature = "cli")]
mod heap;
#[cfg(feature = "cli")]
mod processes;
#[cfg(feature = "mcp")]
mod signals;
#[cfg(feature = "cli")]
mod terminal;
mod users;

#[cfg(feature = "team")]
pub(crate) use files::restrict_dir;
pub(crate) use files::{HAS_SYMLINKS, max_open_files, open_without_blocking};
#[cfg(feature = "mcp")]
pub(crate) use files::{open_beneath, open_dir};
#[cfg(feature = "cli")]
pub use heap::bound_heap;
#[cfg(feature = "cli")]
pub(crate) use processes::{
    PATH_DELIMITER, PROGRAM_FILE_NAME, SCRIPT_SUFFIX, Signal, exit_code, is_group_alive, own_group, signal_group,
    unbuffered_stdout,
};
#[cfg(feature = "cli")]
pub(crate) use signals::on_signals;
#[cfg(feature = "mcp")]
pub(crate) use signals::termination;
#[cfg(feature = "cli")]
pub(crate) use terminal::RawTerminal;
pub(crate) use users::user_name;
