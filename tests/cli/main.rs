//! The whole command line, run as a user runs it: what is printed where, and with which exit status. The use cases
//! themselves are tested in `tests/workspace`.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assertion is the report of a test")]

mod bad_input;
mod changes;
mod daily;
mod damage;
mod help;
mod importing;
mod installing;
mod naming;
mod piping;
mod places;
mod raw;
mod readers;
#[cfg(unix)]
mod readme;
mod searching;
mod story;
mod streaming;
mod support;
#[cfg(target_os = "linux")]
mod terminals;
mod watching;
