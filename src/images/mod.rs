//! Pictures: the originals, kept byte for byte and named by hash, and what can be told of a file from its first bytes.
//!
//! Never known here: sessions, events, the store, people's words for errors.

mod blobs;
mod header;
pub mod metadata;

pub use blobs::{Error, Images, MAX_IMAGE_BYTES};
pub use header::{Header, UNKNOWN_TYPE};
