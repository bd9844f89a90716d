//! Pictures: the originals, kept byte for byte and named by hash; what can be told of a file from its first bytes; and what
//! is made of its pixels: thumbnails, what it looks like, comparisons.
//!
//! Pixels come from one place, [`decode`], which refuses what would take too much memory or time. Nobody else is trusted
//! with bytes from outside, and a picture that cannot be decoded is still kept.
//!
//! Never known here: sessions, events, the store, people's words for errors.

mod blobs;
mod compare;
mod decode;
mod digest;
mod fonts;
mod header;
mod jpeg;
pub mod metadata;
mod originals;
mod phash;
mod pool;
mod render;
mod scale;
mod text;
mod thumbs;
mod whole;

pub use blobs::{Error, ImageUnavailable, Images, MAX_IMAGE_BYTES, Seen};
pub use compare::{Area, Comparison, Incomparable};
pub use decode::{MAX_DECODED_FILE_BYTES, MAX_PIXELS, MAX_SIDE, Picture, Undecodable, decode};
pub use digest::file_sha256;
pub use header::{Header, UNKNOWN_TYPE};
pub use originals::Originals;
pub use pool::on_all_cores;
pub use render::{Panel, Render, Rendering};
pub use thumbs::{MAX_THUMB_BYTES, ThumbSide};
pub use whole::{Written, written};
