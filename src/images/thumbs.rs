//! Thumbnails: JPEG files under `cache/thumbs/` in the workspace, created once and recreated whenever they are missing.
//!
//! Nothing depends on them, so they are neither synced nor written through the observed disk: after a power cut, an
//! incomplete JPEG file is detected and replaced. If the cache cannot be written, they are created each time.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use image::RgbImage;

use super::decode::Picture;
use super::jpeg;
use super::scale::{fit_within, resize, resize_rgb};
use crate::disk::{create_cache_dir, private_file, temp_name};
use crate::model::Hash;

/// The size of a thumbnail. Smaller images keep their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThumbSide {
    /// At most 256 pixels per side, for grids.
    Small,
    /// At most 512 pixels per side, for single images and for agents.
    Large,
}

impl ThumbSide {
    /// Both sizes, the smaller one first.
    pub const ALL: [ThumbSide; 2] = [ThumbSide::Small, ThumbSide::Large];

    /// Returns the longest side in pixels.
    pub fn pixels(self) -> u32 {
        match self {
            ThumbSide::Small => 256,
            ThumbSide::Large => 512,
        }
    }
}

/// The maximum size of a thumbnail, so that it stays below 100 kB as base64.
pub const MAX_THUMB_BYTES: usize = 74_000;

/// The qualities to try until the file is small enough; the first one nearly always is.
const QUALITIES: [u8; 5] = [80, 65, 50, 30, 10];

/// An image in both sizes.
pub(super) struct Reduced {
    pub(super) small: RgbImage,
    large: RgbImage,
}

impl Reduced {
    pub(super) fn of(picture: &Picture) -> Reduced {
        let size = |from: (u32, u32), side: ThumbSide| fit_within(from, (side.pixels(), side.pixels()));
        let whole = (picture.width(), picture.height());
        let large = resize(picture.pixels(), size(whole, ThumbSide::Large));
        // From the large one: applying Lanczos twice looks the same and costs a fraction.
        let small = resize_rgb(&large, size(large.dimensions(), ThumbSide::Small));
        Reduced { small, large }
    }

    fn get(&self, side: ThumbSide) -> &RgbImage {
        match side {
            ThumbSide::Small => &self.small,
            ThumbSide::Large => &self.large,
        }
    }
}

/// Encodes a thumbnail.
fn encoded(pixels: &RgbImage) -> Vec<u8> {
    let mut file = Vec::new();
    for quality in QUALITIES {
        match jpeg::encode(pixels, quality) {
            Ok(encoded) => file = encoded,
            // Only sides of 0 pixels fail, and a decoded image has none.
            Err(error) => tracing::error!(%error, "a thumbnail cannot be encoded"),
        }
        if file.len() <= MAX_THUMB_BYTES {
            break;
        }
    }
    file
}

/// The thumbnails of a workspace.
#[derive(Clone)]
pub(super) struct Thumbs {
    root: PathBuf,
}

impl Thumbs {
    pub(super) fn new(root: PathBuf) -> Thumbs {
        Thumbs { root }
    }

    /// Reads a thumbnail, if it exists and is complete.
    pub(super) fn get(&self, hash: Hash, side: ThumbSide) -> Option<Vec<u8>> {
        // A FIFO of this name would block forever.
        let path = Some(self.path(hash, side)).filter(|path| path.is_file())?;
        fs::read(path).ok().filter(|file| is_complete(file))
    }

    /// Returns whether both exist, without reading them.
    pub(super) fn contains(&self, hash: Hash) -> bool {
        ThumbSide::ALL.iter().all(|side| self.path(hash, *side).is_file())
    }

    /// Encodes both, the smaller one first, and writes them if possible.
    pub(super) fn keep(&self, hash: Hash, reduced: &Reduced) -> [Vec<u8>; 2] {
        ThumbSide::ALL.map(|side| {
            let file = encoded(reduced.get(side));
            self.put(hash, side, &file);
            file
        })
    }

    fn put(&self, hash: Hash, side: ThumbSide, file: &[u8]) {
        if let Err(error) = self.try_put(hash, side, file) {
            tracing::debug!(%error, "a thumbnail cannot be written");
        }
    }

    fn try_put(&self, hash: Hash, side: ThumbSide, file: &[u8]) -> io::Result<()> {
        let path = self.path(hash, side);
        create_cache_dir(path.parent().unwrap_or(&self.root))?;
        // In the root, where the owner of the workspace removes files left by killed processes.
        let temp = self.root.join(temp_name()?);
        let written = private_file().write(true).create_new(true).open(&temp)?.write_all(file);
        written.and_then(|()| fs::rename(&temp, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&temp);
        })
    }

    fn path(&self, hash: Hash, side: ThumbSide) -> PathBuf {
        let hex = hash.to_string();
        let (first, rest) = hex.split_at(2);
        self.root.join(first).join(format!("{rest}.{}.jpg", side.pixels()))
    }
}

/// Returns whether a file starts and ends like a JPEG file.
fn is_complete(file: &[u8]) -> bool {
    file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9")
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn noise_stays_within_the_limit() {
        let mut state = 1_u32;
        let noise = RgbImage::from_fn(1024, 1024, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, red, green, blue] = state.to_le_bytes();
            Rgb([red, green, blue])
        });
        let reduced = Reduced::of(&noise.into());
        for side in ThumbSide::ALL {
            let file = encoded(reduced.get(side));
            assert!(file.len() <= MAX_THUMB_BYTES, "{side:?}: {} bytes", file.len());
            assert!(is_complete(&file));
        }
    }

    #[test]
    fn incomplete_files_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let thumbs = Thumbs::new(dir.path().join("thumbs"));
        let (hash, side) = (Hash::of(b"picture"), ThumbSide::Small);
        let file = encoded(&RgbImage::new(20, 20));
        thumbs.put(hash, side, &file);
        assert_eq!(thumbs.get(hash, side).as_ref(), Some(&file));
        for left in [&file[..file.len() / 2], &[], &vec![0; file.len()]] {
            fs::write(thumbs.path(hash, side), left).unwrap();
            assert_eq!(thumbs.get(hash, side), None);
        }
        fs::remove_dir_all(dir.path().join("thumbs")).unwrap();
        fs::write(dir.path().join("thumbs"), "in the way").unwrap();
        thumbs.put(hash, side, &file);
        assert_eq!(thumbs.get(hash, side), None);
    }
}
