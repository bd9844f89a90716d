//! The append-only log of Retake: ids, events and sessions, the store that keeps them in two copies, and the sharing of
//! one workspace between processes.

pub mod disk;
mod log;
pub mod model;
mod platform;
pub mod sharing;
pub mod store;

pub use log::{Follower, Log, OpenLog};
