//! The append-only log of Retake: ids, events and sessions, the store that keeps them in two copies, and the sharing of
//! a workspace between processes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use retake_log::model::{Actor, Draft, Iteration, Outcome, Recipe, Timestamp};
//! use retake_log::store::{Batch, Detail, Options, Store, Target};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let store = Store::open(dir, Options::new(Arc::new(Timestamp::now)))?;
//! let at = Timestamp::now();
//! let iteration = Iteration {
//!     created_at: at,
//!     recipe: Recipe::new("a glass bridge"),
//!     outcome: Outcome::default(),
//!     images: Vec::new(),
//!     parent: None,
//!     parent_reason: None,
//!     likely_parent: None,
//! };
//! let ack = store.append(Batch {
//!     target: Target::New(at.day()),
//!     expected_iterations: None,
//!     at,
//!     actor: Actor { client: "example".to_owned(), user: "ada".to_owned() },
//!     key: "a key that a retry repeats".to_owned(),
//!     drafts: vec![Draft::Start { title: None, project: None }, Draft::Record(Box::new(iteration))],
//! })?; // durable when this returns
//! assert_eq!(store.events(ack.head.id, Detail::Full)?.len(), 2);
//! # store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`model`] has the values and the rules: which event may follow which, and the resulting state of a session. It has
//!   no clock, no files and no threads.
//! - [`store`] appends events durably to a journal, applies them to sled, which serves all reads, and rebuilds either
//!   copy from the other.
//! - [`sharing`] lets any number of processes use one workspace: one of them owns the store, the others are its clients.
//! - [`disk`] abstracts the file system, so that tests can make any operation fail.
//! - [`Log`] is the interface to a log, whatever its storage backend.
//!
//! Programs that use a workspace depend on the `retake` crate, which has the use cases. This crate is for other storage
//! backends, and its interface follows their needs.

pub mod disk;
mod log;
pub mod model;
mod platform;
pub mod sharing;
pub mod store;

pub use log::{Follower, HeadSource, Log, OpenLog, lost_event};
