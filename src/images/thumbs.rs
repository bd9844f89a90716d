//! Thumbnails: JPEG files under `cache/thumbs/` in the workspace, created once and recreated whenever they are missing.
//!
//! Nothing depends on them, so they are neither synced nor written through the observed disk, and get their names at
//! once: an incomplete JPEG file, seen while another process writes it or after a power cut, is detected and replaced.
//! Temporary files were slower, since all threads of an import created and renamed them in one directory. If the cache
//! cannot be written, thumbnails are created each time.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use image::RgbImage;

use super::decode::Picture;
use super::jpeg;
use super::scale::{fit_within, resize, resize_rgb};
use crate::disk::{create_cache_dir, private_file};
use crate::model::Hash;

/// The size of a thumbnail. Smaller images keep their size, and one that fits into the smaller size has only one file.
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
        let read = |side: Option<ThumbSide>| {
            // A FIFO of this name would block forever.
            let path = Some(self.path(hash, side)).filter(|path| path.is_file())?;
            fs::read(path).ok().filter(|file| is_complete(file))
        };
        read(Some(side)).or_else(|| read(None))
    }

    /// Returns whether both exist, without reading them.
    pub(super) fn contains(&self, hash: Hash) -> bool {
        let exists = |side| self.path(hash, side).is_file();
        ThumbSide::ALL.iter().all(|side| exists(Some(*side))) || exists(None)
    }

    /// Encodes both, the smaller one first, and writes them if possible.
    pub(super) fn keep(&self, hash: Hash, reduced: &Reduced) -> [Vec<u8>; 2] {
        if reduced.small.dimensions() == reduced.large.dimensions() {
            let file = encoded(&reduced.small);
            self.put(hash, None, &file);
            return [file.clone(), file];
        }
        ThumbSide::ALL.map(|side| {
            let file = encoded(reduced.get(side));
            self.put(hash, Some(side), &file);
            file
        })
    }

    fn put(&self, hash: Hash, side: Option<ThumbSide>, file: &[u8]) {
        if let Err(error) = self.try_put(&self.path(hash, side), file) {
            tracing::debug!(%error, "a thumbnail cannot be written");
        }
    }

    fn try_put(&self, path: &Path, file: &[u8]) -> io::Result<()> {
        // Never follows a link, and never opens what is already there.
        let create = || private_file().write(true).create_new(true).open(path);
        let created = create().or_else(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => create_cache_dir(path.parent().unwrap_or(&self.root))?,
                io::ErrorKind::AlreadyExists => fs::remove_file(path)?,
                _ => return Err(error),
            }
            create()
        });
        created?.write_all(file)
    }

    /// Returns the path of a thumbnail; without a side, that of an image that fits into both.
    fn path(&self, hash: Hash, side: Option<ThumbSide>) -> PathBuf {
        let hex = hash.to_string();
        let (first, rest) = hex.split_at(2);
        let name = side.map_or_else(|| format!("{rest}.jpg"), |side| format!("{rest}.{}.jpg", side.pixels()));
        self.root.join(first).join(name)
    }
}

/// Returns whether a file starts and ends like a JPEG file.
fn is_complete(file: &[u8]) -> bool {
    file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9")
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::super::decode::decode;
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

    #[cfg(unix)]
    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let thumbs = Thumbs::new(dir.path().join("thumbs"));
        let (hash, side) = (Hash::of(b"picture"), ThumbSide::Small);
        let target = dir.path().join("target");
        fs::write(&target, "of somebody else").unwrap();
        fs::create_dir_all(thumbs.path(hash, Some(side)).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&target, thumbs.path(hash, Some(side))).unwrap();
        let file = encoded(&RgbImage::new(20, 20));
        thumbs.put(hash, Some(side), &file);
        assert_eq!(thumbs.get(hash, side).as_ref(), Some(&file));
        assert_eq!(fs::read(&target).unwrap(), b"of somebody else");
    }

    #[test]
    fn an_image_that_fits_into_both_sizes_has_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let thumbs = Thumbs::new(dir.path().to_owned());
        for (side, files) in [(256, 1), (257, 2)] {
            let hash = Hash::of(&[u8::try_from(files).unwrap()]);
            assert!(!thumbs.contains(hash));
            let pixels = RgbImage::new(side, 9);
            let picture = decode(&encoded(&pixels)).unwrap();
            let kept = thumbs.keep(hash, &Reduced::of(&picture));
            assert!(thumbs.contains(hash));
            assert_eq!(ThumbSide::ALL.map(|side| thumbs.get(hash, side).unwrap()), kept);
            let folder = thumbs.path(hash, None).parent().unwrap().to_owned();
            assert_eq!(fs::read_dir(folder).unwrap().count(), files, "{side} pixels");
        }
    }

    #[test]
    fn incomplete_files_are_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let thumbs = Thumbs::new(dir.path().join("thumbs"));
        let (hash, side) = (Hash::of(b"picture"), ThumbSide::Small);
        let file = encoded(&RgbImage::new(20, 20));
        thumbs.put(hash, Some(side), &file);
        assert_eq!(thumbs.get(hash, side).as_ref(), Some(&file));
        for left in [&file[..file.len() / 2], &[], &vec![0; file.len()]] {
            fs::write(thumbs.path(hash, Some(side)), left).unwrap();
            assert_eq!(thumbs.get(hash, side), None);
            thumbs.put(hash, Some(side), &file);
            assert_eq!(thumbs.get(hash, side).as_ref(), Some(&file));
        }
        fs::remove_dir_all(dir.path().join("thumbs")).unwrap();
        fs::write(dir.path().join("thumbs"), "in the way").unwrap();
        thumbs.put(hash, Some(side), &file);
        assert_eq!(thumbs.get(hash, side), None);
    }
}
