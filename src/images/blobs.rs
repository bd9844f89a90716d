//! The image store: originals under `images/` in the workspace, named by the hash of their bytes and never changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::decode::{Picture, Undecodable, decode};
use super::describe::{Seen, describe, describe_file, see};
use super::files::{
    CopiedFile, decodable, is_same_path, link_at, may_be_opened, open_regular, other_bytes, read_whole, readable_length,
};
use super::header::Header;
use super::originals::OriginalStore;
use super::pool::{FILE_MEMORY, on_all_cores};
use super::thumbs::{Reduced, ThumbSide, Thumbs};
use super::video;
use crate::disk::{ContentDir, Disk, Stored, UnsyncedFile, read_at};
use crate::model::{Hash, ImageRef};
use crate::platform;

/// The maximum size of an image: well above what generators produce, and small enough for a line of an export.
pub const MAX_IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The maximum size of a file that is read into memory to be stored; larger ones, mostly videos, are copied in parts.
const MAX_WHOLE_BYTES: u64 = 16 * 1024 * 1024;

/// The maximum number of files remembered as verified.
const MAX_VERIFIED: usize = 1000;

/// The length of a file, and its modification time if known.
type FileState = (u64, Option<SystemTime>);

/// The image store of a workspace, with the thumbnails.
#[derive(Clone)]
pub struct Images {
    files: ContentDir,
    thumbs: Thumbs,
    /// The paths of linked originals seen since the workspace was opened.
    linked: Arc<Mutex<HashMap<Hash, PathBuf>>>,
    /// The lengths and modification times of verified files, so that playing a video does not read all of it for each
    /// part.
    verified: Arc<Mutex<HashMap<Hash, FileState>>>,
    /// The place of originals that are not kept in `files`, which then only holds those waiting to be transferred.
    elsewhere: Option<Arc<dyn OriginalStore>>,
}

/// An image that is described but not durable yet.
pub struct UnsyncedImage {
    image: ImageRef,
    /// `None` for a linked image, which is not stored.
    file: Option<UnsyncedFile>,
}

impl UnsyncedImage {
    /// Returns the hash of its bytes.
    pub fn hash(&self) -> Hash {
        self.image.hash
    }
}

impl From<ImageRef> for UnsyncedImage {
    /// Wraps an image that does not need to be stored.
    fn from(image: ImageRef) -> UnsyncedImage {
        UnsyncedImage { image, file: None }
    }
}

/// The error for an image that cannot be read or stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {path}")]
pub struct ImageStoreError {
    /// The attempted action.
    pub action: &'static str,
    /// The path it was attempted on.
    pub path: PathBuf,
    /// The system error.
    pub source: io::Error,
}

/// The reason why an image cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImageUnavailable {
    /// Its file cannot be read, is missing (`NotFound`) or has other contents (`InvalidData`).
    #[error("{}", file_state(.0))]
    Unread(#[from] io::Error),
    /// Its file is intact but cannot be decoded.
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

impl Images {
    /// Returns the image store of the workspace in `dir`.
    pub fn new(disk: Disk, dir: &Path) -> Images {
        Images {
            files: ContentDir::new(disk, dir.join("images")),
            thumbs: Thumbs::new(dir.join("cache").join("thumbs")),
            linked: Arc::default(),
            verified: Arc::default(),
            elsewhere: None,
        }
    }

    /// Stores originals in a place shared by several machines.
    pub fn kept_in(self, place: Arc<dyn OriginalStore>) -> Images {
        Images { elsewhere: Some(place), ..self }
    }

    /// Stores a copy of an image file durably, even if its type is unknown.
    pub fn put_file(&self, path: &Path) -> Result<ImageRef, ImageStoreError> {
        self.put_open(&open_regular(path).map_err(|error| reading(path, error))?, path)
    }

    /// Stores a copy of an open image file durably. `path` is only its name: the open file is read, whatever happens to
    /// that path meanwhile.
    pub fn put_open(&self, file: &File, path: &Path) -> Result<ImageRef, ImageStoreError> {
        self.persist(self.write_open(file, path, |_| ())?)
    }

    /// Stores these bytes durably as an image.
    pub fn put(&self, bytes: &[u8]) -> Result<ImageRef, ImageStoreError> {
        self.persist(self.write_bytes(bytes, None)?)
    }

    /// Writes a copy of an image file and describes it. It is durable after [`persist_all`](Images::persist_all).
    /// Passes the bytes to `examine` if the file is small enough to be read as a whole.
    pub fn write_file(&self, path: &Path, examine: impl FnOnce(&[u8])) -> Result<UnsyncedImage, ImageStoreError> {
        self.write_open(&open_regular(path).map_err(|error| reading(path, error))?, path, examine)
    }

    /// Makes images durable together, and returns the result for each, in the same order. A failure does not affect the
    /// others.
    pub fn persist_all(&self, images: Vec<UnsyncedImage>) -> Vec<Result<ImageRef, ImageStoreError>> {
        let (mut described, mut files, mut written) = (Vec::with_capacity(images.len()), Vec::new(), Vec::new());
        for (number, UnsyncedImage { image, file }) in images.into_iter().enumerate() {
            described.push(Ok(image));
            if let Some(file) = file {
                files.push(Ok(file));
                written.push(number);
            }
        }
        for (number, stored) in written.iter().zip(self.files.persist_all(files)) {
            if let (Some(image), Err(error)) = (described.get_mut(*number), stored) {
                *image = Err(self.keeping(error));
            }
        }
        if self.elsewhere.is_none() {
            return described;
        }
        let handed_over = on_all_cores(
            &written,
            |number| match described.get(*number) {
                Some(Ok(image)) => self.hand_over(image.hash),
                Some(Err(_)) | None => Ok(()),
            },
            |_| true,
        );
        for (number, handed_over) in written.iter().zip(handed_over) {
            if let (Some(image), Err(error)) = (described.get_mut(*number), handed_over) {
                *image = Err(error);
            }
        }
        described
    }

    fn persist(&self, image: UnsyncedImage) -> Result<ImageRef, ImageStoreError> {
        let mut images = self.persist_all(vec![image]);
        images.pop().unwrap_or_else(|| Err(self.keeping(io::Error::other("an image that was written has no result"))))
    }

    fn write_open(
        &self,
        mut file: &File,
        path: &Path,
        examine: impl FnOnce(&[u8]),
    ) -> Result<UnsyncedImage, ImageStoreError> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let length = file.rewind().and_then(|()| Ok(file.metadata()?.len())).map_err(|error| reading(path, error))?;
        if length <= MAX_WHOLE_BYTES {
            let _permit = FILE_MEMORY.acquire(length);
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
            file.take(MAX_WHOLE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| reading(path, error))?;
            if bytes.len() as u64 <= MAX_WHOLE_BYTES {
                examine(&bytes);
                return self.write_bytes(&bytes, name);
            }
            // It is being written to.
            file.rewind().map_err(|error| reading(path, error))?;
        }
        let mut source = CopiedFile { file, failed: false };
        let written = self.files.write(&mut source);
        let written =
            written.map_err(|error| if source.failed { reading(path, error) } else { self.keeping(error) })?;
        let image = describe_file(&self.thumbs, written.stored(), &self.files.path_of(&written), name);
        Ok(UnsyncedImage { image, file: Some(written) })
    }

    fn write_bytes(&self, bytes: &[u8], name: Option<String>) -> Result<UnsyncedImage, ImageStoreError> {
        let file = self.files.write_bytes(bytes).map_err(|error| self.keeping(error))?;
        let image = describe(&self.thumbs, file.stored(), bytes, name, file.is_new());
        Ok(UnsyncedImage { image, file: Some(file) })
    }

    /// Stores these bytes durably without decoding them, for callers that know what they contain.
    pub fn put_known(&self, bytes: &[u8]) -> Result<(), ImageStoreError> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        self.hand_over(Hash(stored.hash))
    }

    /// Links an image file: it is not copied, and the reference contains its path.
    pub fn link_file(&self, path: &Path) -> Result<ImageRef, ImageStoreError> {
        let path = std::path::absolute(path).map_err(|error| reading(path, error))?;
        let hashed = open_regular(&path).and_then(|file| {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(file)?;
            Ok(Stored { hash: *hasher.finalize().as_bytes(), bytes: hasher.count() })
        });
        let stored = hashed.map_err(|error| reading(&path, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let linked = Some(path.to_string_lossy().into_owned());
        let image = ImageRef { linked, ..describe_file(&self.thumbs, stored, &path, name) };
        self.remember(&image);
        Ok(image)
    }

    /// Returns the hashes of all files in the store, in arbitrary order; none if originals are kept elsewhere.
    pub fn stored(&self) -> impl Iterator<Item = Hash> + use<> {
        let root = Some(self.files.root().to_owned()).filter(|_| self.elsewhere.is_none());
        let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = root.into_iter().flat_map(below).map(|dir| (dir.file_name(), dir.path()));
        let files = dirs.flat_map(move |(first, dir)| below(dir).map(move |file| (first.clone(), file.file_name())));
        files.filter_map(|(first, rest)| format!("{}{}", first.to_str()?, rest.to_str()?).parse().ok())
    }

    /// Remembers the path of a linked image, so that it can be found by its hash.
    pub fn remember(&self, image: &ImageRef) {
        if let Some(path) = &image.linked {
            self.linked.lock().insert(image.hash, path.into());
        }
    }

    /// Returns the path of an image, whether or not it exists.
    pub fn path(&self, hash: Hash) -> PathBuf {
        self.locate(hash).unwrap_or_else(|_| self.files.path(hash.0))
    }

    /// Returns the actual or expected path of the image with this hash; fetches it if it is kept elsewhere.
    fn locate(&self, hash: Hash) -> io::Result<PathBuf> {
        let kept = self.files.path(hash.0);
        if kept.is_file() {
            return Ok(kept);
        }
        let linked = self.linked.lock().get(&hash).filter(|path| may_be_opened(path)).cloned();
        match (linked, &self.elsewhere) {
            (Some(linked), _) => Ok(linked),
            (None, Some(place)) => place.fetch(hash),
            (None, None) => Ok(kept),
        }
    }

    /// Transfers an image that was stored here to the place of the originals.
    fn hand_over(&self, hash: Hash) -> Result<(), ImageStoreError> {
        let Some(place) = &self.elsewhere else { return Ok(()) };
        let path = self.files.path(hash.0);
        place.keep(hash, &path).map_err(|error| self.keeping(error))
    }

    /// Returns whether there is a file for this hash, without reading it.
    pub fn contains(&self, hash: Hash) -> bool {
        let here =
            self.files.path(hash.0).is_file() || self.linked.lock().get(&hash).is_some_and(|path| path.is_file());
        // If the place cannot be reached, the image is not lost; reading it will report the error.
        here || self.elsewhere.as_ref().is_some_and(|place| place.contains(hash).unwrap_or(true))
    }

    /// Reads an image. The error is `NotFound` if there is no such file, and `InvalidData` if it has other contents.
    pub fn get(&self, hash: Hash) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(hash)?.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
        if Hash::of(&bytes) == hash { Ok(bytes) } else { Err(other_bytes()) }
    }

    /// Verifies the file of an image without holding it in memory; errors are those of [`get`](Images::get).
    pub fn check(&self, hash: Hash) -> io::Result<()> {
        if let Some(place) = &self.elsewhere
            && !self.linked.lock().contains_key(&hash)
        {
            return place.check(hash);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(self.open(hash)?)?;
        if *hasher.finalize().as_bytes() == hash.0 { Ok(()) } else { Err(other_bytes()) }
    }

    /// Verifies an image as [`check`](Images::check) does, unless it is linked at `path`, which the caller has just
    /// read. For images kept elsewhere, only their presence is checked.
    pub fn check_unless_at(&self, hash: Hash, path: &Path) -> io::Result<()> {
        if self.elsewhere.is_some() {
            return if self.contains(hash) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) };
        }
        let is_here = self.linked.lock().get(&hash).is_some_and(|linked| is_same_path(linked, path));
        if is_here && !self.files.path(hash.0).is_file() { Ok(()) } else { self.check(hash) }
    }

    /// Links the original of a recorded image to its new location `path`: the store gets a symbolic link under the
    /// image's name, or a copy if links are not supported or other machines share the originals. Returns whether the
    /// file is that image.
    pub fn relink(&self, hash: Hash, path: &Path) -> Result<bool, ImageStoreError> {
        if self.elsewhere.is_some() || !platform::HAS_SYMLINKS {
            return Ok(self.put_file(path)?.hash == hash);
        }
        let path = std::path::absolute(path).map_err(|error| reading(path, error))?;
        let hashed = open_regular(&path).and_then(|file| {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(file)?;
            Ok(Hash(*hasher.finalize().as_bytes()))
        });
        if hashed.map_err(|error| reading(&path, error))? != hash {
            return Ok(false);
        }
        let kept = self.files.path(hash.0);
        link_at(&kept, &path).map_err(|error| self.keeping(error))?;
        Ok(true)
    }

    /// Opens a video for reading in parts, and returns its media type and length; `None` if the file is an image. Its
    /// bytes are verified on the first open, and again after the file has changed; errors are those of
    /// [`get`](Images::get).
    pub fn open_video(&self, hash: Hash) -> io::Result<Option<(File, &'static str, u64)>> {
        let file = self.open(hash)?;
        let mime_type = Header::of(&read_at(&file, 0, 64)?).mime_type;
        if !video::is_video(mime_type) {
            return Ok(None);
        }
        let found = file.metadata()?;
        let state = (found.len(), found.modified().ok());
        if self.verified.lock().get(&hash) != Some(&state) {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(&file)?;
            if *hasher.finalize().as_bytes() != hash.0 {
                return Err(other_bytes());
            }
            let mut verified = self.verified.lock();
            if verified.len() >= MAX_VERIFIED {
                verified.clear();
            }
            verified.insert(hash, state);
        }
        Ok(Some((file, mime_type, found.len())))
    }

    /// Opens the image with this hash. A workspace may come from elsewhere, so its path can be any kind of file.
    fn open(&self, hash: Hash) -> io::Result<File> {
        let path = self.locate(hash)?;
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file")),
            _ => open_regular(&path),
        }
    }

    /// Returns the thumbnail of an image as a JPEG file, creating it if necessary.
    pub fn thumbnail(&self, hash: Hash, side: ThumbSide) -> Result<Vec<u8>, ImageUnavailable> {
        if let Some(file) = self.thumbs.get(hash, side) {
            return Ok(file);
        }
        let reduced = self.with_still(hash, Reduced::of)?;
        let [small, large] = self.thumbs.keep(hash, &reduced);
        Ok(match side {
            ThumbSide::Small => small,
            ThumbSide::Large => large,
        })
    }

    /// Creates both thumbnails of an image, replacing existing ones.
    pub fn make_thumbnails(&self, hash: Hash) -> Result<(), ImageUnavailable> {
        let reduced = self.with_still(hash, Reduced::of)?;
        self.thumbs.keep(hash, &reduced);
        Ok(())
    }

    /// Returns whether both thumbnails exist, without reading them.
    pub fn has_thumbnails(&self, hash: Hash) -> bool {
        self.thumbs.contains(hash)
    }

    /// Decodes an open image file and returns the properties of its pixels.
    pub fn see_open(&self, mut file: &File) -> Result<Seen, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(decodable(file)?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
        let picture = decode(&bytes)?;
        Ok(see(&picture, &Reduced::of(&picture)))
    }

    /// Decodes any image file, in the store or not, and returns the properties of its pixels.
    pub fn see_file(&self, path: &Path) -> Result<Seen, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(path)?);
        let picture = decode(&read_whole(path)?)?;
        Ok(see(&picture, &Reduced::of(&picture)))
    }

    /// Calls `use_it` with the decoded image of any file, which stays in memory meanwhile.
    pub(super) fn with_file<T>(&self, path: &Path, use_it: impl FnOnce(&Picture) -> T) -> Result<T, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(path)?);
        Ok(use_it(&decode(&read_whole(path)?)?))
    }

    /// Calls `use_it` with a decoded image of the store, which stays in memory meanwhile.
    pub(super) fn with_picture<T>(
        &self,
        hash: Hash,
        use_it: impl FnOnce(&Picture) -> T,
    ) -> Result<T, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(&self.locate(hash)?)?);
        Ok(use_it(&decode(&self.get(hash)?)?))
    }

    /// Calls `use_it` with the still of a stored file: the image itself, or the poster of a video.
    pub(super) fn with_still<T>(&self, hash: Hash, use_it: impl FnOnce(&Picture) -> T) -> Result<T, ImageUnavailable> {
        match video::outline(self.open(hash)?)? {
            Some(outline) => {
                self.check(hash)?;
                Ok(use_it(&video::poster(self.open(hash)?, &outline).into()))
            }
            None => self.with_picture(hash, use_it),
        }
    }

    fn keeping(&self, source: io::Error) -> ImageStoreError {
        ImageStoreError { action: "store the image in", path: self.files.root().to_owned(), source }
    }
}

fn reading(path: &Path, source: io::Error) -> ImageStoreError {
    ImageStoreError { action: "read the image", path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::super::describe::image_ref;
    use super::*;

    #[test]
    fn files_of_unknown_types_are_stored() {
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

    #[cfg(unix)]
    #[test]
    fn a_linked_original_that_is_a_device_or_a_pipe_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        let link = dir.path().join("link.png");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for linked in ["/dev/zero", "/dev", link.to_str().unwrap()] {
            let hash = Hash::of(linked.as_bytes());
            let stored = Stored { hash: hash.0, bytes: 9 };
            images.remember(&ImageRef {
                linked: Some(linked.to_owned()),
                ..image_ref(stored, Header::UNKNOWN, None, None)
            });
            assert!(!images.contains(hash), "{linked}");
            assert_eq!(images.get(hash).unwrap_err().kind(), io::ErrorKind::NotFound, "{linked}");
            assert_eq!(images.check(hash).unwrap_err().kind(), io::ErrorKind::NotFound, "{linked}");
            assert!(images.thumbnail(hash, ThumbSide::Small).is_err(), "{linked}");
            assert!(images.link_file(Path::new(linked)).is_err(), "{linked}");
            assert!(images.put_file(Path::new(linked)).is_err(), "{linked}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_a_file_under_the_name_of_an_image_is_damage_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        let hash = images.put(b"picture").unwrap().hash;
        let path = images.path(hash);
        let make_fifo = |path: &Path| {
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        let make_device = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        for make in [&make_fifo as &dyn Fn(&Path), &make_device] {
            fs::remove_file(&path).unwrap();
            make(&path);
            assert!(!images.contains(hash));
            assert_eq!(images.get(hash).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(images.check(hash).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert!(images.thumbnail(hash, ThumbSide::Small).is_err());
            images.put(b"picture").unwrap();
            assert_eq!(images.get(hash).unwrap(), b"picture");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(dir.path().join("nowhere"), &path).unwrap();
        assert_eq!(images.get(hash).unwrap_err().kind(), io::ErrorKind::NotFound);
        images.put(b"picture").unwrap();
        assert_eq!(images.get(hash).unwrap(), b"picture");
    }

    #[test]
    fn errors_distinguish_reading_from_storing() {
        let dir = tempfile::tempdir().unwrap();
        let images = Images::new(Disk::default(), dir.path());
        let absent = dir.path().join("absent.png");
        let error = images.put_file(&absent).unwrap_err();
        assert_eq!((error.action, error.path), ("read the image", absent));

        fs::write(dir.path().join("images"), "in the way").unwrap();
        let error = images.put(b"picture").unwrap_err();
        assert_eq!((error.action, error.path), ("store the image in", dir.path().join("images")));
    }
}
