//! Retake records image-generation work: every iteration (recipe, images, cost, lineage) in append-only sessions, so
//! that a workflow can be resumed, iterations compared, and archived sessions audited.
//!
//! ```
//! use retake::{Recipe, Workspace};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("a.png");
//! # image::GrayImage::from_pixel(8, 8, image::Luma([90])).save(&path)?;
//! # let png = std::fs::read(&path)?;
//! # let dir = dir.path().join("workspace");
//! let ws = Workspace::open(dir)?;
//! let session = ws.start_session().title("Glass bridge").project("cards");
//! let first = session.record(Recipe::new("a glass bridge").model("sdxl").seed(42)).image(path).commit()?;
//! let night = ws
//!     .session(first.session())?
//!     .record(first.recipe().with_prompt("a glass bridge at night"))
//!     .image_bytes(&png)
//!     .commit()?; // durable when this returns
//! night.annotate().rating(4).tag("hero").commit()?;
//!
//! for hit in ws.search("bridge rating:>=4")? {
//!     println!("{}", hit?.recipe().prompt);
//! }
//! println!("{}", ws.compare(&[first.id(), night.id()])?);
//! # assert_eq!(ws.search("bridge rating:>=4")?.count(), 1);
//! # assert!(ws.compare(&[first.id(), night.id()])?.to_string().contains("+at night"));
//! # let wrong = "session-1999-01-01-001".parse()?;
//! match ws.session(wrong) {
//!     Err(retake::Error::SessionNotFound(id)) => println!("there is no {id}"),
//!     other => drop(other?),
//! }
//! # ws.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//! A **workspace** is one log and one image store: a directory, or with the feature `team` a PostgreSQL database. A
//! **session** is one workflow, and an **iteration** one immutable attempt in it, with its **recipe** (everything
//! needed to make it again) and its **outcome**. Its **parent** is the iteration it was derived from, in any session.
//! An **annotation** is a rating, tags or a note. Everything is stored as an **event**; nothing else is ever written. A
//! **reference** such as `session-2025-12-11-001#3` identifies an iteration.
//!
//! # Where to start
//! - Write: [`Workspace::start_session`], [`SessionHandle::record`], [`Workspace::annotate`], [`Workspace::archive`].
//! - Read: [`Workspace::sessions`], [`Workspace::search`], [`Workspace::resume`], [`Workspace::compare`],
//!   [`Workspace::audit`]. Long results are iterators.
//! - Move: [`Workspace::import_files`], [`Workspace::export`], [`verify_bundle`].
//! - Image files without a workspace: [`metadata::read`] and [`RecipeDiff::between`].
//!
//! Several processes may open one workspace at once. All failures are one [`Error`] enum to match on, with the cause in
//! `source()`. Nothing here is async, and everything is `Send + Sync`.
//!
//! # Features
//! `cli`, `mcp` and `web` are the three faces of the `retake` binary, and `team` adds workspaces in PostgreSQL. All are
//! enabled by default. A library that only needs workspaces on disk can disable them with `default-features = false`.

// Public within a private module; only `internals` below exposes them.
#[path = "."]
mod layers {
    #[cfg(feature = "cli")]
    pub mod cli;
    #[cfg(feature = "web")]
    pub(crate) mod demo;
    pub mod export;
    pub mod images;
    pub mod import;
    #[cfg(feature = "mcp")]
    pub mod mcp;
    pub(crate) mod platform;
    pub mod scrub;
    #[cfg(feature = "team")]
    pub mod team;
    #[cfg(feature = "web")]
    pub mod web;
    #[cfg(feature = "mcp")]
    pub mod wire;
    pub mod workspace;
    #[cfg(feature = "cli")]
    pub mod wrap;
}

#[cfg(feature = "web")]
use layers::demo;
#[cfg(feature = "team")]
use layers::team;
#[cfg(feature = "web")]
use layers::web;
#[cfg(feature = "cli")]
use layers::wrap;
use layers::{export, images, import, platform, scrub, workspace};
#[cfg(feature = "mcp")]
use layers::{mcp, wire};
use retake_log::{disk, model, sharing, store};
use retake_search as search;

pub use export::{BundleView as BundleReport, ExportReport, ExportRequest, verify_bundle};
pub use images::{Area, ImageComparison, Panel, Render, Rendering, ThumbSide, Undecodable};
pub use import::{
    FileProblem, FilesReport, FilesRequest, ImportOptions, ImportProblem, ImportReport, ImportedSession,
    PlannedIteration, Renumbered, WatchEvent, WatchedIteration,
};
pub use model::diff::{self, RecipeDiff, StepLabel};
pub use model::{
    Actor, Annotation, Cost, Event, ExactReference, FIELDS, Field, Hash, Head, ImageRef, IterationId, IterationState,
    Lora, Order, Outcome, OutcomeStatus, PerceptualHash, Query, Recipe, Reference, Seed, SessionId, Status, Summary,
    Timestamp,
};
pub use retake_recipe::metadata;
pub use search::Sort;
pub use workspace::{
    Annotating, Branch, CallContext, Change, Clock, Comparison, Difference, Earlier, Error, EventSummary, ImageCheck,
    ImageProblem, ImageSource, ImageWarning, IterationHandle, Lifetime, Liked, Naming, NewSession, OpenedImage,
    Options, Original, Progress, Project, Recording, Recovery, RepairReport, Resumption, Search, SearchHit,
    SearchResults, SessionFilter, SessionHandle, SessionTrail, Sessions, SimilarTo, Sizes, Step, Thumbnails,
    ThumbnailsReport, UnavailableImage, VerifyReport, Workspace, WorkspaceStatus,
};

/// Internals used by the tests and benchmarks of this repository. Not part of the public API and without stability
/// guarantees.
#[doc(hidden)]
pub mod internals {
    pub use crate::layers::{export, images, import, scrub, workspace};
    pub use retake_log::{disk, model, sharing, store};
    pub use retake_search as search;

    #[cfg(feature = "cli")]
    pub use crate::layers::platform::bound_heap;
    #[cfg(feature = "team")]
    pub use crate::layers::team;
    #[cfg(feature = "web")]
    pub use crate::layers::web;
    #[cfg(feature = "cli")]
    pub use crate::layers::{cli, wrap};
    #[cfg(feature = "mcp")]
    pub use crate::layers::{mcp, wire};
}
