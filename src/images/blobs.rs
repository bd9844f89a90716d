//! The image store: originals under `images/` in the workspace, named by the hash of their bytes and never changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::decode::{MAX_DECODED_FILE_BYTES, Picture, Undecodable, decode};
use super::header::{self, Header};
use super::originals::Originals;
use super::phash;
use super::pool::FILE_MEMORY;
use super::thumbs::{Reduced, ThumbSide, Thumbs};
use super::whole::{Written, written};
use crate::disk::{ContentDir, Disk, Stored};
use crate::model::{Hash, ImageRef, PerceptualHash};

/// The largest image that is stored: well above any that generators make, and small enough for a line of an export.
pub const MAX_IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The image store of a workspace, with the thumbnails.
#[derive(Clone)]
pub struct Images {
    files: ContentDir,
    thumbs: Thumbs,
    /// The paths of linked originals that were mentioned since the workspace was opened.
    linked: Arc<Mutex<HashMap<Hash, PathBuf>>>,
    /// Where originals are if not in `files`, which then only holds those on their way there.
    elsewhere: Option<Arc<dyn Originals>>,
}

/// The error for an image that cannot be read or stored.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {path}")]
pub struct ImageStoreError {
    /// The attempted action.
    pub action: &'static str,
    /// The path it was attempted on.
    pub path: PathBuf,
    /// The error of the system.
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

impl Images {
    /// Returns the image store of the workspace in `dir`.
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

    /// Stores a copy of an image file durably. A file of an unknown type is stored all the same.
    pub fn put_file(&self, path: &Path) -> Result<ImageRef, ImageStoreError> {
        self.put_open(&open_regular(path).map_err(|error| reading(path, error))?, path)
    }

    /// Keeps a copy of an open image file, which is called `path`. Whatever happens to that name meanwhile, it is the open
    /// file that is read.
    pub fn put_open(&self, file: &File, path: &Path) -> Result<ImageRef, ImageStoreError> {
        let mut source = CopiedFile { file, failed: false };
        source.file.rewind().map_err(|error| reading(path, error))?;
        let stored = self.files.put_reader(&mut source);
        let stored = stored.map_err(|error| if source.failed { reading(path, error) } else { self.keeping(error) })?;
        let kept = self.files.path(stored.hash);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let image = self.described_file(stored, &kept, name);
        self.hand_over(image.hash)?;
        Ok(image)
    }

    /// Stores these bytes durably as an image.
    pub fn put(&self, bytes: &[u8]) -> Result<ImageRef, ImageStoreError> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        let image = self.described(stored, bytes, None);
        self.hand_over(image.hash)?;
        Ok(image)
    }

    /// Stores these bytes durably without decoding them, for callers that know what they are.
    pub fn put_known(&self, bytes: &[u8]) -> Result<(), ImageStoreError> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        self.hand_over(Hash(stored.hash))
    }

    /// Links an image file: it stays where it is, and the reference has its path.
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
        let image = ImageRef { linked, ..self.described_file(stored, &path, name) };
        self.remember(&image);
        Ok(image)
    }

    /// Returns the hashes of all files in the store, in no order; none if originals are kept elsewhere.
    pub fn stored(&self) -> impl Iterator<Item = Hash> + use<> {
        let root = Some(self.files.root().to_owned()).filter(|_| self.elsewhere.is_none());
        let below = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = root.into_iter().flat_map(below).map(|dir| (dir.file_name(), dir.path()));
        let files = dirs.flat_map(move |(first, dir)| below(dir).map(move |file| (first.clone(), file.file_name())));
        files.filter_map(|(first, rest)| format!("{}{}", first.to_str()?, rest.to_str()?).parse().ok())
    }

    /// Remembers the path of a linked image, so that it is found by its hash.
    pub fn remember(&self, image: &ImageRef) {
        if let Some(path) = &image.linked {
            self.linked.lock().insert(image.hash, path.into());
        }
    }

    /// Returns the path of an image, whether it exists or not.
    pub fn path(&self, hash: Hash) -> PathBuf {
        self.locate(hash).unwrap_or_else(|_| self.files.path(hash.0))
    }

    /// Returns where the image of that hash is, or would be; fetches it if it is kept elsewhere.
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

    /// Hands an image that was kept here over to where originals belong.
    fn hand_over(&self, hash: Hash) -> Result<(), ImageStoreError> {
        let Some(place) = &self.elsewhere else { return Ok(()) };
        let path = self.files.path(hash.0);
        place.keep(hash, &path).map_err(|error| self.keeping(error))
    }

    /// Returns whether there is a file for this hash, without reading it.
    pub fn contains(&self, hash: Hash) -> bool {
        let here =
            self.files.path(hash.0).is_file() || self.linked.lock().get(&hash).is_some_and(|path| path.is_file());
        // A place that cannot be asked has not lost anything: reading says what is wrong.
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

    /// Verifies an image as [`check`](Images::check) does, unless it is linked at `path`, where the caller has just read it.
    /// Of images that are kept elsewhere, only their presence is checked.
    pub fn check_unless_at(&self, hash: Hash, path: &Path) -> io::Result<()> {
        if self.elsewhere.is_some() {
            return if self.contains(hash) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) };
        }
        let is_here = self.linked.lock().get(&hash).is_some_and(|linked| is_same_path(linked, path));
        if is_here && !self.files.path(hash.0).is_file() { Ok(()) } else { self.check(hash) }
    }

    /// Links the original of a recorded image anew, which is at `path` now: the store gets a symbolic link under its name.
    /// Where there are none, and where other machines share the originals, it gets a copy. Returns whether the file is that
    /// image.
    pub fn relink(&self, hash: Hash, path: &Path) -> Result<bool, ImageStoreError> {
        if self.elsewhere.is_some() || !cfg!(unix) {
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

    /// Opens the image of that hash. A workspace may come from elsewhere, so that anything can have the file's name.
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
        let reduced = self.with_picture(hash, Reduced::of)?;
        let [small, large] = self.thumbs.keep(hash, &reduced);
        Ok(match side {
            ThumbSide::Small => small,
            ThumbSide::Large => large,
        })
    }

    /// Creates both thumbnails of an image, replacing existing ones.
    pub fn make_thumbnails(&self, hash: Hash) -> Result<(), ImageUnavailable> {
        let reduced = self.with_picture(hash, Reduced::of)?;
        self.thumbs.keep(hash, &reduced);
        Ok(())
    }

    /// Returns whether both thumbnails exist, without reading them.
    pub fn has_thumbnails(&self, hash: Hash) -> bool {
        self.thumbs.contains(hash)
    }

    /// Decodes an open image file, and returns what its pixels say.
    pub fn see_open(&self, mut file: &File) -> Result<Seen, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(decodable(file.metadata()?.len())?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
        let picture = decode(&bytes)?;
        Ok(see(&picture, &Reduced::of(&picture)))
    }

    /// Decodes any image file, in the store or not, and returns what its pixels say.
    pub fn see_file(&self, path: &Path) -> Result<Seen, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(path)?);
        let picture = decode(&read_whole(path)?)?;
        Ok(see(&picture, &Reduced::of(&picture)))
    }

    /// Calls `use_it` with the decoded image of any file, which is in memory meanwhile.
    pub(super) fn with_file<T>(&self, path: &Path, use_it: impl FnOnce(&Picture) -> T) -> Result<T, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(path)?);
        Ok(use_it(&decode(&read_whole(path)?)?))
    }

    /// Calls `use_it` with a decoded image of the store, which is in memory meanwhile.
    pub(super) fn with_picture<T>(
        &self,
        hash: Hash,
        use_it: impl FnOnce(&Picture) -> T,
    ) -> Result<T, ImageUnavailable> {
        let _permit = FILE_MEMORY.acquire(readable_length(&self.locate(hash)?)?);
        Ok(use_it(&decode(&self.get(hash)?)?))
    }

    /// Describes a file in the store or elsewhere. Its bytes are stored by now; an error in reading them again is found when
    /// the image is shown.
    fn described_file(&self, stored: Stored, path: &Path, name: Option<String>) -> ImageRef {
        if stored.bytes > MAX_DECODED_FILE_BYTES {
            let header = open_regular(path).map_or_else(|_| Header::UNKNOWN, header::read);
            return image_ref(stored, header, None, name);
        }
        let _permit = FILE_MEMORY.acquire(stored.bytes);
        self.described(stored, &read_whole(path).unwrap_or_default(), name)
    }

    fn described(&self, stored: Stored, bytes: &[u8], name: Option<String>) -> ImageRef {
        let hash = Hash(stored.hash);
        let seen = decode(bytes).map(|picture| {
            let reduced = Reduced::of(&picture);
            let seen = see(&picture, &reduced);
            // The rest only needs the reduced images.
            drop(picture);
            if !self.thumbs.contains(hash) {
                self.thumbs.keep(hash, &reduced);
            }
            seen
        });
        if let Err(reason) = &seen {
            tracing::debug!(%hash, %reason, "an image is stored without being decoded");
        }
        image_ref(stored, Header::of(bytes), seen.ok(), name)
    }

    fn keeping(&self, source: io::Error) -> ImageStoreError {
        ImageStoreError { action: "store the image in", path: self.files.root().to_owned(), source }
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

fn reading(path: &Path, source: io::Error) -> ImageStoreError {
    ImageStoreError { action: "read the image", path: path.to_owned(), source }
}

/// Returns what is wrong with an image file of a type that can be decoded; `None` if it is fine, too large to tell, or of
/// another type.
pub fn defect(path: &Path) -> Option<Defect> {
    let _permit = FILE_MEMORY.acquire(readable_length(path).ok()?);
    match decode(&read_whole(path).ok()?) {
        Err(Undecodable::Broken(_)) if matches!(written(path), Ok(Written::Partly)) => Some(Defect::Truncated),
        Err(Undecodable::Broken(reason)) => Some(Defect::Broken(reason)),
        _ => None,
    }
}

/// What is wrong with an image file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// It ends before its format does.
    #[error("the file is truncated")]
    Truncated,
    /// It cannot be decoded.
    #[error("the file cannot be decoded: {0}")]
    Broken(String),
}

/// Returns the length of a file, if it is small enough to be decoded.
fn readable_length(path: &Path) -> Result<u64, ImageUnavailable> {
    decodable(fs::metadata(path)?.len())
}

fn decodable(length: u64) -> Result<u64, ImageUnavailable> {
    if length > MAX_DECODED_FILE_BYTES { Err(Undecodable::TooManyBytes(length).into()) } else { Ok(length) }
}

fn other_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the contents of the file do not match its hash")
}

/// Opens a regular file of at most [`MAX_IMAGE_BYTES`]. The original of a linked image is wherever an imported record says,
/// which may be a device without end or a pipe that never opens.
fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if found.len() > MAX_IMAGE_BYTES {
        let problem = format!("the file has {} bytes, and at most {MAX_IMAGE_BYTES} are read", found.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(file)
}

/// Reads a regular file of bounded size, also if it grows meanwhile.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a symbolic link to `path` in the place of whatever is at `kept`.
#[cfg(unix)]
fn link_at(kept: &Path, path: &Path) -> io::Result<()> {
    let dir = kept.parent().unwrap_or(kept);
    fs::create_dir_all(dir)?;
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    let new = dir.join(format!(".{name}.{}.link", std::process::id()));
    std::os::unix::fs::symlink(path, &new)?;
    fs::rename(&new, kept).inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(not(unix))]
fn link_at(_kept: &Path, _path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn is_same_path(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    canonical(one).is_some_and(|one| canonical(other) == Some(one))
}

/// Returns whether a linked original may be opened. One that is gone may: that it is missing there is what users must hear.
fn may_be_opened(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file() && found.len() <= MAX_IMAGE_BYTES)
}

/// A file being copied, which remembers whether reading failed.
struct CopiedFile<'a> {
    file: &'a File,
    failed: bool,
}

impl Read for CopiedFile<'_> {
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
    fn errors_tell_reading_from_storing() {
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
