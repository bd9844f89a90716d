//! The image store: originals under `images/` in the workspace, named by the hash of their bytes, which are never changed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::header::{self, Header};
use crate::disk::{ContentDir, Disk, Stored};
use crate::model::{Hash, ImageRef};

/// The largest picture that is taken in: well beyond any that is made, and small enough to go through an export's lines.
pub const MAX_IMAGE_BYTES: u64 = 256 * 1024 * 1024;

/// The image store of a workspace.
#[derive(Clone)]
pub struct Images {
    files: ContentDir,
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

impl Images {
    /// The image store of the workspace in `dir`.
    pub fn new(disk: Disk, dir: &Path) -> Images {
        Images { files: ContentDir::new(disk, dir.join("images")) }
    }

    /// Keeps a copy of an image file; when this returns it lasts. A file we do not understand is kept all the same.
    pub fn put_file(&self, path: &Path) -> Result<ImageRef, Error> {
        let reading = |source| Error { action: "read the image", path: path.to_owned(), source };
        let mut source = Source { file: File::open(path).map_err(reading)?, failed: false };
        let stored = self.files.put_reader(&mut source);
        let stored = stored.map_err(|error| if source.failed { reading(error) } else { self.keeping(error) })?;
        Ok(self.described(stored, path.file_name().map(|name| name.to_string_lossy().into_owned())))
    }

    /// Keeps these bytes as an image; when this returns they last.
    pub fn put(&self, bytes: &[u8]) -> Result<ImageRef, Error> {
        let stored = self.files.put(bytes).map_err(|error| self.keeping(error))?;
        Ok(self.described(stored, None))
    }

    /// Where the image of that hash is, or would be.
    pub fn path(&self, hash: Hash) -> PathBuf {
        self.files.path(hash.0)
    }

    /// Whether there is a file for that hash. Cheap: what is in it is not looked at.
    pub fn contains(&self, hash: Hash) -> bool {
        self.path(hash).is_file()
    }

    /// The bytes of that hash: not found when there is no such file, invalid data when it holds something else.
    pub fn get(&self, hash: Hash) -> io::Result<Vec<u8>> {
        self.files.get(hash.0)
    }

    /// Checks the file of that hash without holding it in memory; errors as [`get`](Images::get).
    pub fn check(&self, hash: Hash) -> io::Result<()> {
        self.files.check(hash.0)
    }

    fn described(&self, stored: Stored, name: Option<String>) -> ImageRef {
        let hash = Hash(stored.hash);
        // The bytes are kept by now: that they cannot be read back is found by whoever wants to see them.
        let header = File::open(self.path(hash)).map_or_else(|_| Header::UNKNOWN, header::read);
        ImageRef {
            hash,
            bytes: stored.bytes,
            mime_type: header.mime_type.to_owned(),
            width: header.width,
            height: header.height,
            name,
            pixels: None,
            looks: None,
            linked: None,
        }
    }

    fn keeping(&self, source: io::Error) -> Error {
        Error { action: "keep the image in", path: self.files.root().to_owned(), source }
    }
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
        std::fs::write(&path, "no picture at all").unwrap();
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

        std::fs::write(dir.path().join("images"), "in the way").unwrap();
        let error = images.put(b"picture").unwrap_err();
        assert_eq!((error.action, error.path), ("keep the image in", dir.path().join("images")));
    }
}
