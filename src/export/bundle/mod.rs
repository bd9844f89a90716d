//! Audit bundles. A bundle is a single file that shows, on any machine and without a workspace, what happened in some
//! sessions and that nothing was altered since. The layout is specified in `docs/format.md`.
//!
//! It is a tar file, so it can be read without Retake:
//! ```text
//! READ-ME.txt                       how to check it, also by hand
//! texts/<hash>.txt                  long texts that events name
//! images/<hash>.png                 the original pictures, bytes untouched
//! sessions/<session>.jsonl          the session's events, one a line, each with its exact record
//! manifest.json                     what must be in it: every chain's length and tip, every text, every image
//! ```
//! Every event's record contains the hash of its predecessor, images and texts are named by their hash, and the
//! manifest lists the last hash of every chain. The **seal**, which is the hash of the manifest, therefore covers the
//! whole bundle: a seal stored separately proves later that the bundle is unchanged. Without a seal, a bundle only
//! proves that it is complete and consistent, not that no other version of it exists.

mod check;
mod files;
mod tar;
mod write;

pub use check::{BundleView, verify_bundle};

pub(crate) use files::{BundleFiles, BundlePart};

use serde::{Deserialize, Serialize};

use crate::model::{Hash, IterationId, SessionId, Timestamp};

/// The bundle format version. Incremented when older versions of Retake can no longer verify new bundles.
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";
const READ_ME: &str = "READ-ME.txt";

/// The list of everything a bundle must contain.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename = "retake-bundle", rename_all = "camelCase")]
struct Manifest {
    version: u32,
    created_at: Timestamp,
    program: String,
    sessions: Vec<Chain>,
    texts: Vec<Hash>,
    images: Vec<BundledImage>,
    /// Images and texts missing from the bundle because they were missing from the workspace.
    missing: Vec<MissingFile>,
}

/// The chain of a session.
#[derive(Serialize, Deserialize)]
struct Chain {
    id: SessionId,
    events: u64,
    /// The hash of its last event.
    tip: Hash,
}

/// An image.
#[derive(Serialize, Deserialize)]
struct BundledImage {
    hash: Hash,
    file: String,
}

/// An image or text that could not be included.
#[derive(Serialize, Deserialize)]
struct MissingFile {
    /// The first iteration that refers to the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<IterationId>,
    hash: Hash,
    what: String,
}

/// Returns the file name of a text.
fn text_file(hash: Hash) -> String {
    format!("texts/{hash}.txt")
}

/// Returns the file name of a session.
fn session_file(id: SessionId) -> String {
    format!("sessions/{id}.jsonl")
}

/// Returns the file name of an image. The extension follows from the media type and is only for people.
fn image_file(hash: Hash, mime_type: &str) -> String {
    format!("images/{hash}.{}", super::ending(mime_type))
}
