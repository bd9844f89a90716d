//! The whole command line, run as a user runs it: what is printed where, and with which exit status. What the verbs mean
//! is tested with the workspace; here is how they are asked and answered.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is wrong by failing")]

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
