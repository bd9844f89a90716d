//! The files of images: which may be opened, read and decoded, and what is wrong with them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::blobs::{ImageUnavailable, MAX_IMAGE_BYTES};
use super::completeness::{Completeness, completeness};
use super::decode::{MAX_DECODED_FILE_BYTES, Undecodable, decode};
use super::header::Header;
use super::pool::FILE_MEMORY;
use super::video;
use crate::disk::{self, read_at};
use crate::platform;

/// Returns the defect of a video, or of an image file that can be decoded; `None` if it is fine, too large to check, or
/// of another type.
pub fn defect(path: &Path) -> Option<Defect> {
    let length = match readable_length(path) {
        Err(ImageUnavailable::Undecodable(Undecodable::Video(_))) => {
            return matches!(completeness(path), Ok(Completeness::Partial)).then_some(Defect::Truncated);
        }
        length => length.ok()?,
    };
    let _permit = FILE_MEMORY.acquire(length);
    match decode(&read_whole(path).ok()?) {
        Err(Undecodable::Broken(_)) if matches!(completeness(path), Ok(Completeness::Partial)) => {
            Some(Defect::Truncated)
        }
        Err(Undecodable::Broken(reason)) => Some(Defect::Broken(reason)),
        _ => None,
    }
}

/// A defect of an image file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// It is truncated.
    #[error("the file is truncated")]
    Truncated,
    /// It cannot be decoded.
    #[error("the file cannot be decoded: {0}")]
    Broken(String),
}

/// Returns the length of a file, if it may be decoded.
pub(super) fn readable_length(path: &Path) -> Result<u64, ImageUnavailable> {
    let found = fs::metadata(path)?;
    // Anything else is refused when it is opened for reading.
    if found.is_file() { decodable(&open_regular(path)?) } else { Ok(found.len()) }
}

/// Returns the length of an open file, if it is not a video and small enough to be decoded.
pub(super) fn decodable(file: &File) -> Result<u64, ImageUnavailable> {
    let mime_type = Header::of(&read_at(file, 0, 64)?).mime_type;
    if video::is_video(mime_type) {
        return Err(Undecodable::Video(mime_type).into());
    }
    match file.metadata()?.len() {
        length if length > MAX_DECODED_FILE_BYTES => Err(Undecodable::TooManyBytes(length).into()),
        length => Ok(length),
    }
}

pub(super) fn other_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the contents of the file do not match its hash")
}

/// Opens a regular file of at most [`MAX_IMAGE_BYTES`]. The path of a linked image comes from an imported record, and
/// may be an endless device or a pipe that never opens.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    platform::open_without_blocking(&mut options);
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

/// Reads a regular file of bounded size, even if it grows meanwhile.
pub(super) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces whatever is at `kept` by a symbolic link to `path`.
pub(super) fn link_at(kept: &Path, path: &Path) -> io::Result<()> {
    let dir = kept.parent().unwrap_or(kept);
    fs::create_dir_all(dir)?;
    let name = kept.file_name().unwrap_or_default().to_string_lossy();
    // Random, since processes of other containers may have the same id.
    let new = dir.join(format!(".{name}.{:016x}.link", getrandom::u64()?));
    disk::symlink(path, &new)?;
    fs::rename(&new, kept).inspect_err(|_| drop(fs::remove_file(&new)))
}

pub(super) fn is_same_path(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    canonical(one).is_some_and(|one| canonical(other) == Some(one))
}

/// Returns whether a linked original may be opened. A missing one may, so that users get the error that it is missing.
pub(super) fn may_be_opened(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file() && found.len() <= MAX_IMAGE_BYTES)
}

/// A reader that remembers whether reading failed.
pub(super) struct CopiedFile<'a> {
    pub(super) file: &'a File,
    pub(super) failed: bool,
}

impl Read for CopiedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer);
        self.failed = read.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        read
    }
}
