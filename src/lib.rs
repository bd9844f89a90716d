//! Retake remembers image-generation work: every iteration (recipe, picture, cost, what it came from) in append-only
//! sessions, so that a workflow can be resumed, iterations compared, and archived sessions audited.
//!
//! ```text
//!  cli   mcp   web      the faces: thin; they differ in words only
//!    └─┬──┴─────┘
//!   tracker             the use cases, one verb a file; what people see of errors
//!    ┌─┴──────┐
//! sharing   images      sharing: one workspace, many processes     images: original pictures
//!    │        │
//!  search     │         the index: made from the log, thrown away at will
//!    │        │
//!  store      │         the append-only log, in two copies: a journal and sled
//!    └──┬─────┘
//!  model   disk         pure values and rules              what we ask of the file system
//! ```
//! A layer names only those below it; a test sees to that. `docs/architecture.md` says more.
//!
//! The words, the same everywhere: a **workspace** is a directory with one log and one image store. A **session** is one
//! workflow, an **iteration** one immutable attempt in it, with its **recipe** (all it takes to make it again) and its
//! **outcome**. Its **parent** is the iteration it came from, in any session. An **annotation** is a rating, tags or a
//! note. Everything is an **event**, the only thing ever written. A **reference** such as `session-2025-12-11-001#3`
//! means an iteration.
//!
//! ```
//! use retake::model::Actor;
//! use retake::tracker::{ListRequest, Options, RecordRequest, Tracker};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! let tracker = Tracker::open(dir, Options::default())?;
//! let me = Actor { client: "example".into(), user: "ada".into() };
//! let first = RecordRequest { prompt: "a glass bridge".into(), steps: Some(30), ..Default::default() };
//! let first = tracker.record(&me, &first)?;
//! let session_id = Some(first.session.id().to_string());
//! let again = RecordRequest { prompt: "a glass bridge at night".into(), session_id, ..Default::default() };
//! tracker.record(&me, &again)?; // on the disk, in two copies soon, when this returns
//! assert_eq!(tracker.list(&ListRequest::default())?.sessions[0].iteration_count(), 2);
//! tracker.close()?;
//! # Ok(())
//! # }
//! ```

pub mod cli;
pub mod images;
pub mod mcp;
pub mod scrub;
pub mod team;
pub mod tracker;
pub mod web;

pub use retake_log::{disk, model, sharing, store};
pub use retake_search as search;
