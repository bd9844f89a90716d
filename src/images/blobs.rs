//! The image store: originals under `images/` in the workspace, named by the hash of their bytes, which are never changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::decode::{MAX_DECODED_FILE_BYTES, Picture, Undecodable, decode};
use super::header::{self, Header};
use super::originals::Originals;
use super::phash;
use super::pool::FILES_IN_MEMORY;
use super::thumbs::{Reduced, ThumbSide, Thumbs};
use crate::disk::{ContentDir, Disk, Stored};
use crate::model::{Hash, ImageRef, PerceptualHash};

/// The largest picture that is taken in: well beyond any that is made, and small enough to go through an export's lines.
pub const MAX_IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The image store of a workspace, with the thumbnails.
#[derive(Clone)]
pub struct Images {
    files: ContentDir,
    thumbs: Thumbs,
    /// Where originals are that were not copied: of those that were spoken of since the workspace was opened.
    linked: Arc<Mutex<HashMap<Hash, PathBuf>>>,
    /// Where originals are if not in `files`, which then only holds those on their way there.
    elsewhere: Option<Arc<dyn Originals>>,
}

/// A picture could not be read or kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {path}")]
pub struct Error {
    /// What was tried.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system answered.
    pub source: io::Error,
}

/// A picture cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImageUnavailable {
    /// Its file cannot be read, is not there (not found) or holds something else (invalid data).
    #[error("{}", file_state(.0))]
    Unread(#[from] io::Error),
    /// Its file is whole, and has no pixels for us.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
}

fn file_state(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "its file is missing",
        io::ErrorKind::InvalidData => "its file is damaged",
        _ => "its file cannot be read",
    }
}

/// What the pixels of a picture say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its width, upright.
    pub width: u32,
    /// Its height, upright.
    pub height: u32,
    /// The hash of its pixels.
    pub pixels: Hash,
    /// What it looks like.
    pub perceptual_hash: PerceptualHash,
}

impl Images {
    /// The image store of the workspace in `dir`.
    pub fn new(disk: Disk, dir: &Path) -> Images {
        Images {
            files: ContentDir::new(disk, dir.join("images")),
            thumbs: Thumbs::new(dir.join("cache").join("thumbs")),
            linked: Arc::default(),
            elsewhere: None,
        }
    }

    /// Keeps originals in a place that other machines share.
    pub fn kept_in(self, place: Arc<dyn Originals>) -> Images {
        Images { elsewhere: Some(place), ..self }
    }

    /// Keeps a copy of an image file; when this returns it lasts. A file we do not understand is kept all the same.
    pub fn put_file(&self, path: &Path) -> Result<ImageRef, Error> {
        let mut source = Source { file: File::open(path).map_err(|error| reading(path, error))?, failed: false };
        let stored = self.files.put_reader(&mut source);
        let stored = stored.map_err(|error| if source.failed { reading(path, error) } else { self.keeping(error) })?;
        let kept = self.files.path(stored.hash);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let image = self.described_file(stored, &kept, name);
        self.hand_over(image.hash)?;
        Ok(image)
    }

    /// Keeps these bytes as an image; when this returns they last.
    pub fn put(&self, bytes: &[u8]) -> Result<ImageRef, Error> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        let image = self.described(stored, bytes, None);
        self.hand_over(image.hash)?;
        Ok(image)
    }

    /// Keeps these bytes without looking at what they show, for one who knows already.
    pub fn put_known(&self, bytes: &[u8]) -> Result<(), Error> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        self.hand_over(Hash(stored.hash))
    }

    /// Leaves an image file where it is, and says what it is and where.
    pub fn link_file(&self, path: &Path) -> Result<ImageRef, Error> {
        let path = std::path::absolute(path).map_err(|error| reading(path, error))?;
        let hashed = File::open(&path).and_then(|file| {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(file)?;
            Ok(Stored { hash: *hasher.finalize().as_bytes(), bytes: hasher.count() })
        });
        let stored = hashed.map_err(|error| reading(&path, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let linked = Some(path.to_string_lossy().into_owned());
        let image = ImageRef { linked, ..self.described_file(stored, &path, name) };
        self.remember(&image);
        Ok(image)
    }

    /// From now on an image that was not copied is found by its hash.
    pub fn remember(&self, image: &ImageRef) {
        if let Some(path) = &image.linked {
            self.linked.lock().insert(image.hash, path.into());
        }
    }

    /// Where the image of that hash is, or would be.
    pub fn path(&self, hash: Hash) -> PathBuf {
        self.locate(hash).unwrap_or_else(|_| self.files.path(hash.0))
    }

    /// Returns where the image of that hash is, or would be; fetches it if it is kept elsewhere.
    fn locate(&self, hash: Hash) -> io::Result<PathBuf> {
        let kept = self.files.path(hash.0);
        if kept.is_file() {
            return Ok(kept);
        }
        let linked = self.linked.lock().get(&hash).cloned();
        match (linked, &self.elsewhere) {
            (Some(linked), _) => Ok(linked),
            (None, Some(place)) => place.fetch(hash),
            (None, None) => Ok(kept),
        }
    }

    /// Hands an image that was kept here over to where originals belong.
    fn hand_over(&self, hash: Hash) -> Result<(), Error> {
        let Some(place) = &self.elsewhere else { return Ok(()) };
        let path = self.files.path(hash.0);
        place.keep(hash, &path).map_err(|error| self.keeping(error))
    }

    /// Whether there is a file for that hash. Cheap: what is in it is not looked at.
    pub fn contains(&self, hash: Hash) -> bool {
        let here =
            self.files.path(hash.0).is_file() || self.linked.lock().get(&hash).is_some_and(|path| path.is_file());
        // A place that cannot be asked has not lost anything: reading says what is wrong.
        here || self.elsewhere.as_ref().is_some_and(|place| place.contains(hash).unwrap_or(true))
    }

    /// The bytes of that hash: not found when there is no such file, invalid data when it holds something else.
    pub fn get(&self, hash: Hash) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.locate(hash)?)?;
        if Hash::of(&bytes) == hash { Ok(bytes) } else { Err(other_bytes()) }
    }

    /// Checks the file of that hash without holding it in memory; errors as [`get`](Images::get).
    pub fn check(&self, hash: Hash) -> io::Result<()> {
        if let Some(place) = &self.elsewhere
            && !self.linked.lock().contains_key(&hash)
        {
            return place.check(hash);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(self.locate(hash)?)?)?;
        if *hasher.finalize().as_bytes() == hash.0 { Ok(()) } else { Err(other_bytes()) }
    }

    /// The thumbnail of the image of that hash, as a JPEG file. Made, and kept, when there is none.
    pub fn thumbnail(&self, hash: Hash, side: ThumbSide) -> Result<Vec<u8>, ImageUnavailable> {
        if let Some(file) = self.thumbs.get(hash, side) {
            return Ok(file);
        }
        let reduced = self.with_picture(hash, Reduced::of)?;
        let [small, large] = self.thumbs.keep(hash, &reduced);
        Ok(match side {
            ThumbSide::Small => small,
            ThumbSide::Large => large,
        })
    }

    /// Makes both thumbnails of the image of that hash, whether there are any or not.
    pub fn make_thumbnails(&self, hash: Hash) -> Result<(), ImageUnavailable> {
        let reduced = self.with_picture(hash, Reduced::of)?;
        self.thumbs.keep(hash, &reduced);
        Ok(())
    }

    /// Whether both thumbnails are there. Cheap: what is in them is not looked at.
    pub fn has_thumbnails(&self, hash: Hash) -> bool {
        self.thumbs.contains(hash)
    }

    /// What the pixels of any image file say, in the store or not.
    pub fn see_file(&self, path: &Path) -> Result<Seen, ImageUnavailable> {
        let _room = FILES_IN_MEMORY.take(readable_length(path)?);
        let picture = decode(&fs::read(path)?)?;
        Ok(see(&picture, &Reduced::of(&picture)))
    }

    /// What `use_it` makes of the picture in any file, which is in memory meanwhile.
    pub(super) fn with_file<T>(&self, path: &Path, use_it: impl FnOnce(&Picture) -> T) -> Result<T, ImageUnavailable> {
        let _room = FILES_IN_MEMORY.take(readable_length(path)?);
        Ok(use_it(&decode(&fs::read(path)?)?))
    }

    /// What `use_it` makes of the picture of that hash, which is in memory meanwhile.
    pub(super) fn with_picture<T>(
        &self,
        hash: Hash,
        use_it: impl FnOnce(&Picture) -> T,
    ) -> Result<T, ImageUnavailable> {
        let _room = FILES_IN_MEMORY.take(readable_length(&self.locate(hash)?)?);
        Ok(use_it(&decode(&self.get(hash)?)?))
    }

    /// What a file in the store or elsewhere is. The bytes are kept by now: that they cannot be read is found by whoever
    /// wants to see them.
    fn described_file(&self, stored: Stored, path: &Path, name: Option<String>) -> ImageRef {
        if stored.bytes > MAX_DECODED_FILE_BYTES {
            let header = File::open(path).map_or_else(|_| Header::UNKNOWN, header::read);
            return image_ref(stored, header, None, name);
        }
        let _room = FILES_IN_MEMORY.take(stored.bytes);
        self.described(stored, &fs::read(path).unwrap_or_default(), name)
    }

    fn described(&self, stored: Stored, bytes: &[u8], name: Option<String>) -> ImageRef {
        let hash = Hash(stored.hash);
        let seen = decode(bytes).map(|picture| {
            let reduced = Reduced::of(&picture);
            let seen = see(&picture, &reduced);
            // What is left to do needs no more than the thumbnails themselves.
            drop(picture);
            if !self.thumbs.contains(hash) {
                self.thumbs.keep(hash, &reduced);
            }
            seen
        });
        if let Err(reason) = &seen {
            tracing::debug!(%hash, %reason, "an image is kept without being seen");
        }
        image_ref(stored, Header::of(bytes), seen.ok(), name)
    }

    fn keeping(&self, source: io::Error) -> Error {
        Error { action: "keep the image in", path: self.files.root().to_owned(), source }
    }
}

fn see(picture: &Picture, reduced: &Reduced) -> Seen {
    Seen {
        width: picture.width(),
        height: picture.height(),
        pixels: picture.hash(),
        perceptual_hash: phash::perceptual_hash(&reduced.small),
    }
}

fn image_ref(stored: Stored, header: Header, seen: Option<Seen>, name: Option<String>) -> ImageRef {
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

fn reading(path: &Path, source: io::Error) -> Error {
    Error { action: "read the image", path: path.to_owned(), source }
}

/// The length of a file that may be read whole.
fn readable_length(path: &Path) -> Result<u64, ImageUnavailable> {
    match fs::metadata(path)?.len() {
        length if length > MAX_DECODED_FILE_BYTES => Err(Undecodable::TooManyBytes(length).into()),
        length => Ok(length),
    }
}

fn other_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file does not hold what its name says")
}

/// A file being copied, which remembers whether it was reading or writing that failed.
struct Source {
    file: File,
    failed: bool,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        self.failed = read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_does_not_understand() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        let path = dir.path().join("notes.png");
        fs::write(&path, "no picture at all").unwrap();
        let kept = images.put_file(&path).unwrap();
        assert_eq!(kept.mime_type, "application/octet-stream");
        assert_eq!(kept.name.as_deref(), Some("notes.png"));
        assert_eq!((kept.width, kept.height, kept.bytes), (None, None, 17));
        assert_eq!(images.get(kept.hash).unwrap(), b"no picture at all");
        assert_eq!(images.put(b"no picture at all").unwrap().hash, kept.hash);
    }

    #[test]
    fn says_whether_reading_or_keeping_failed() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        let absent = dir.path().join("absent.png");
        let error = images.put_file(&absent).unwrap_err();
        assert_eq!((error.action, error.path), ("read the image", absent));

        fs::write(dir.path().join("images"), "in the way").unwrap();
        let error = images.put(b"picture").unwrap_err();
        assert_eq!((error.action, error.path), ("keep the image in", dir.path().join("images")));
    }
}
