//! The values and rules of Retake: ids, references, iterations, events, and the fold from events to a session.
//!
//! Everything here is a pure function of its arguments, so every rule can be tested without a disk or a clock. This
//! module has no files, no database, no async code and no encoding of records.

pub mod amounts;
pub mod event;
pub mod id;
pub mod iteration;
pub mod listing;
pub mod perceptual_hash;
pub mod query;
pub mod reference;
mod schema;
pub mod session;
pub mod tokenizer;

pub use event::{Actor, AnnotationChange, Draft, Event, EventBody, EventKind, Loss};
pub use id::{IterationId, SessionId};
pub use iteration::{Cost, ImageRef, Invalid, Iteration, LikelyParent, Lora, Outcome, OutcomeStatus, Recipe, Seed};
pub use listing::{Order, Status};
pub use perceptual_hash::PerceptualHash;
pub use query::{ParseQueryError, Query};
pub use reference::{ExactReference, Position, Reference, SessionChoice};
pub use retake_recipe::{FIELDS, Field, Hash, RecipeDiff, StepLabel, Timestamp, diff, hash, time};
pub use session::{Annotation, Head, IterationState, Refusal, Session, Summary};
