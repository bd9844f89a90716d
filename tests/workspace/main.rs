//! The use cases through the library, as a face would call them: everything a user would notice, with a fixed clock.
//! Crashes, all kinds of damage and several processes have their own test binaries.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed assertion is the report of a test")]

mod annotating;
mod auditing;
mod bad_input;
mod bundling;
mod comparing;
mod damage;
mod hostile;
mod import_groups;
mod importing;
mod joining;
mod likeness;
mod listing;
mod lost_originals;
mod moving;
mod pictures;
mod recording;
mod rendering;
mod resuming;
mod returning;
mod searching;
mod sending;
mod showing;
mod support;
mod videos;
mod watching;
