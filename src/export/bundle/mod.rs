//! An audit bundle: one file that shows on any machine, without a workspace, what happened to sessions and that nothing
//! was altered since. `docs/format.md` draws it.
//!
//! It is a tar, so that it can be read without Retake:
//! ```text
//! READ-ME.txt                       how to check it, also by hand
//! texts/<hash>.txt                  long texts that events name
//! images/<hash>.png                 the original pictures, bytes untouched
//! sessions/<session>.jsonl          the session's events, one a line, each with its exact record
//! manifest.json                     what must be in it: every chain's length and tip, every text, every image
//! ```
//! Every event's record holds the hash of the one before it, images and texts are named by their hash, and the manifest
//! names the last hash of every chain. So the **seal**, the hash of the manifest, stands for all of it: a seal that is kept
//! apart from the bundle proves later that the bundle is unchanged. Without it a bundle proves that it is whole and
//! consistent, not that it is the only one that was made.

mod check;
mod files;
mod tar;
mod write;

pub use check::{BundleView, verify_bundle};

pub(crate) use files::{BundleFiles, Part};

use serde::{Deserialize, Serialize};

use crate::model::{Hash, IterationId, SessionId, Timestamp};

/// The version of bundles. Raised when an older version of Retake could not check them any more.
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const READ_ME: &str = "READ-ME.txt";

/// What must be in a bundle.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename = "retake-bundle", rename_all = "camelCase")]
struct Manifest {
    version: u32,
    created_at: Timestamp,
    program: String,
    sessions: Vec<Chain>,
    texts: Vec<Hash>,
    images: Vec<Picture>,
    /// What the bundle lacks because the workspace lacked it.
    missing: Vec<Absent>,
}

/// A session's chain.
#[derive(Serialize, Deserialize)]
struct Chain {
    id: SessionId,
    events: u64,
    /// The hash of its last event.
    tip: Hash,
}

/// An image.
#[derive(Serialize, Deserialize)]
struct Picture {
    hash: Hash,
    file: String,
}

/// An image or text that could not be put in.
#[derive(Serialize, Deserialize)]
struct Absent {
    /// The first iteration that names an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<IterationId>,
    hash: Hash,
    what: String,
}

/// The name of a text's file.
fn text_file(hash: Hash) -> String {
    format!("texts/{hash}.txt")
}

/// The name of a session's file.
fn session_file(id: SessionId) -> String {
    format!("sessions/{id}.jsonl")
}

/// Returns the name of an image's file; its extension is for people, and follows from its media type.
fn image_file(hash: Hash, mime_type: &str) -> String {
    format!("images/{hash}.{}", super::ending(mime_type))
}
