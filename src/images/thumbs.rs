//! Thumbnails: made once, kept as JPEG files under `cache/thumbs/` in the workspace, and made again whenever they are gone.
//!
//! Nothing rests on them, so they are neither synced nor written through the watched disk: what a power cut leaves of one
//! is seen not to be a whole JPEG file. Where the cache cannot be written they are made each time.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use image::RgbImage;

use super::decode::Picture;
use super::jpeg;
use super::scale::{fitting, scaled, scaled_rgb};
use crate::disk::{create_cache_dir, private_file, temp_name};
use crate::model::Hash;

/// How large a thumbnail is. Smaller pictures keep their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThumbSide {
    /// At most 256 pixels wide and high: for grids.
    Small,
    /// At most 512 pixels wide and high: to look at one, and for agents.
    Large,
}

impl ThumbSide {
    /// Both, the smaller one first.
    pub const ALL: [ThumbSide; 2] = [ThumbSide::Small, ThumbSide::Large];

    /// The longest its sides may be.
    pub fn pixels(self) -> u32 {
        match self {
            ThumbSide::Small => 256,
            ThumbSide::Large => 512,
        }
    }
}

/// The most bytes a thumbnail has, so that as base64 it stays below 100 kB.
pub const MAX_THUMB_BYTES: usize = 74_000;

/// The qualities tried, until one is small enough; for nearly every picture it is the first.
const QUALITIES: [u8; 5] = [80, 65, 50, 30, 10];

/// A picture in both sizes.
pub(super) struct Reduced {
    pub(super) small: RgbImage,
    large: RgbImage,
}

impl Reduced {
    pub(super) fn of(picture: &Picture) -> Reduced {
        let size = |from: (u32, u32), side: ThumbSide| fitting(from, (side.pixels(), side.pixels()));
        let whole = (picture.width(), picture.height());
        let large = scaled(picture.pixels(), size(whole, ThumbSide::Large));
        // From the large one: Lanczos twice looks like Lanczos once, and costs a fraction.
        let small = scaled_rgb(&large, size(large.dimensions(), ThumbSide::Small));
        Reduced { small, large }
    }

    fn get(&self, side: ThumbSide) -> &RgbImage {
        match side {
            ThumbSide::Small => &self.small,
            ThumbSide::Large => &self.large,
        }
    }
}

/// The thumbnail as a JPEG file.
fn encoded(pixels: &RgbImage) -> Vec<u8> {
    let mut file = Vec::new();
    for quality in QUALITIES {
        file = jpeg::encoded(pixels, quality);
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

    /// The thumbnail, if it is there and whole.
    pub(super) fn get(&self, hash: Hash, side: ThumbSide) -> Option<Vec<u8>> {
        fs::read(self.path(hash, side)).ok().filter(|file| is_whole(file))
    }

    /// Whether both are there. Cheap: what is in them is not looked at.
    pub(super) fn contains(&self, hash: Hash) -> bool {
        ThumbSide::ALL.iter().all(|side| self.path(hash, *side).is_file())
    }

    /// Makes both, smaller first, and keeps them, if that can be done.
    pub(super) fn keep(&self, hash: Hash, reduced: &Reduced) -> [Vec<u8>; 2] {
        ThumbSide::ALL.map(|side| {
            let file = encoded(reduced.get(side));
            self.put(hash, side, &file);
            file
        })
    }

    fn put(&self, hash: Hash, side: ThumbSide, file: &[u8]) {
        if let Err(error) = self.try_put(hash, side, file) {
            tracing::debug!(%error, "a thumbnail is not kept");
        }
    }

    fn try_put(&self, hash: Hash, side: ThumbSide, file: &[u8]) -> io::Result<()> {
        let path = self.path(hash, side);
        create_cache_dir(path.parent().unwrap_or(&self.root))?;
        // In the root, where the owner of the workspace removes what killed processes left.
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

/// Whether it begins and ends as a JPEG file does.
fn is_whole(file: &[u8]) -> bool {
    file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9")
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn the_noisiest_picture_stays_small() {
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
            assert!(is_whole(&file));
        }
    }

    #[test]
    fn what_a_power_cut_left_is_not_shown() {
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
