//! Images: the originals, stored byte for byte under their hash; what the first bytes of a file say; and what is derived
//! from pixels: thumbnails, perceptual hashes, comparisons and their renderings.
//!
//! Pixels come from one place, `decode`, which refuses what would take too much memory or time. Nothing else decodes
//! untrusted bytes. An image that cannot be decoded is stored all the same, and so is a video, which is never decoded.
//!
//! This module knows no sessions, no events and no store.

mod blobs;
mod colour;
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
mod profile;
mod render;
mod scale;
mod text;
mod thumbs;
mod video;
mod whole;

pub use blobs::{Defect, ImageStoreError, ImageUnavailable, Images, MAX_IMAGE_BYTES, Seen, UnsyncedImage, defect};
pub use compare::{Area, ImageComparison, Incomparable};
pub use decode::{MAX_DECODED_FILE_BYTES, MAX_PIXELS, MAX_SIDE, Picture, Undecodable, decode};
pub use digest::file_sha256;
pub use header::{Header, UNKNOWN_TYPE, is_decoded};
pub use originals::Originals;
pub use pool::on_all_cores;
pub use render::{Panel, Render, Rendering};
pub use thumbs::{MAX_THUMB_BYTES, ThumbSide};
pub use video::is_video;
pub use whole::{Written, written};
