//! Images: originals, stored byte for byte under their hash; their headers; and data derived from pixels: thumbnails,
//! perceptual hashes, comparisons and their renderings.
//!
//! Pixels are only decoded in `decode`, which refuses anything that would take too much memory or time. An image that
//! cannot be decoded is stored nevertheless, and so is a video, which is never decoded.
//!
//! This module does not know about sessions, events or the log.

mod blobs;
mod colour;
mod compare;
mod completeness;
mod decode;
mod describe;
mod digest;
mod files;
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

pub use blobs::{ImageStoreError, ImageUnavailable, Images, MAX_IMAGE_BYTES, UnsyncedImage};
pub use compare::{Area, ImageComparison, Incomparable};
pub use completeness::{Completeness, completeness};
pub use decode::{MAX_DECODED_FILE_BYTES, MAX_PIXELS, MAX_SIDE, Picture, Undecodable, decode};
pub use describe::Seen;
pub use digest::file_sha256;
pub use files::{Defect, defect};
pub use header::{Header, UNKNOWN_TYPE, is_decoded};
pub use originals::OriginalStore;
pub use pool::on_all_cores;
pub use render::{Panel, Render, Rendering};
pub use thumbs::{MAX_THUMB_BYTES, ThumbSide};
pub use video::is_video;
