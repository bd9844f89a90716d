//! What is recorded of an image besides its bytes: type, size, hashes of its pixels. Its thumbnails are created on the way,
//! since the image is decoded only once.

use std::io::{self, Read, Seek};
use std::path::Path;

use super::decode::{MAX_DECODED_FILE_BYTES, Picture, decode};
use super::files::{open_regular, read_whole};
use super::header::{self, Header};
use super::phash;
use super::pool::FILE_MEMORY;
use super::thumbs::{Reduced, Thumbs};
use super::video;
use crate::disk::Stored;
use crate::model::{Hash, ImageRef, PerceptualHash};

/// The properties of an image that follow from its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The width, upright.
    pub width: u32,
    /// The height, upright.
    pub height: u32,
    /// The hash of the pixels.
    pub pixels: Hash,
    /// The perceptual hash.
    pub perceptual_hash: PerceptualHash,
}

/// Describes a file in the store or elsewhere. Its bytes are already stored; if they cannot be read again, that is
/// noticed when the image is shown.
pub(super) fn describe_file(thumbs: &Thumbs, stored: Stored, path: &Path, name: Option<String>) -> ImageRef {
    if let Some(video) = open_regular(path).ok().and_then(|file| describe_video(thumbs, &stored, &file)) {
        return image_ref(stored, video, None, name);
    }
    if stored.bytes > MAX_DECODED_FILE_BYTES {
        let header = open_regular(path).map_or_else(|_| Header::UNKNOWN, header::read);
        return image_ref(stored, header, None, name);
    }
    let _permit = FILE_MEMORY.acquire(stored.bytes);
    describe(thumbs, stored, &read_whole(path).unwrap_or_default(), name, false)
}

/// Describes a video by its metadata and creates its thumbnails; `None` if it is not a video.
fn describe_video(thumbs: &Thumbs, stored: &Stored, mut file: impl Read + Seek) -> Option<Header> {
    let outline = video::outline(&mut file).ok().flatten()?;
    let hash = Hash(stored.hash);
    if !thumbs.contains(hash) {
        thumbs.keep(hash, &Reduced::of(&video::poster(file, &outline).into()));
    }
    let mime_type = outline.format?.mime_type();
    Some(Header { mime_type, width: outline.width, height: outline.height })
}

/// Describes an image and creates its thumbnails, which are not looked for if it is new.
pub(super) fn describe(thumbs: &Thumbs, stored: Stored, bytes: &[u8], name: Option<String>, is_new: bool) -> ImageRef {
    if let Some(video) = describe_video(thumbs, &stored, io::Cursor::new(bytes)) {
        return image_ref(stored, video, None, name);
    }
    let hash = Hash(stored.hash);
    let seen = decode(bytes).map(|picture| {
        let reduced = Reduced::of(&picture);
        let seen = see(&picture, &reduced);
        // The rest only needs the thumbnails.
        drop(picture);
        if is_new || !thumbs.contains(hash) {
            thumbs.keep(hash, &reduced);
        }
        seen
    });
    if let Err(reason) = &seen {
        tracing::debug!(%hash, %reason, "an image is stored without being decoded");
    }
    image_ref(stored, Header::of(bytes), seen.ok(), name)
}

/// Returns the properties of an image's pixels.
pub(super) fn see(picture: &Picture, reduced: &Reduced) -> Seen {
    Seen {
        width: picture.width(),
        height: picture.height(),
        pixels: picture.hash(),
        perceptual_hash: phash::perceptual_hash(&reduced.small),
    }
}

/// Returns the reference to an image, of which some properties may be unknown.
pub(super) fn image_ref(stored: Stored, header: Header, seen: Option<Seen>, name: Option<String>) -> ImageRef {
    ImageRef {
        hash: Hash(stored.hash),
        bytes: stored.bytes,
        mime_type: header.mime_type.to_owned(),
        width: seen.map(|seen| seen.width).or(header.width),
        height: seen.map(|seen| seen.height).or(header.height),
        name,
        pixels: seen.map(|seen| seen.pixels),
        perceptual_hash: seen.map(|seen| seen.perceptual_hash),
        linked: None,
    }
}
