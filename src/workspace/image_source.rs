//! Images to be recorded, from a file or from bytes, checked before anything is written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::read_at;
use crate::images::{Header, Images, MAX_IMAGE_BYTES, UNKNOWN_TYPE, metadata};
use crate::model::iteration::{MAX_NAME_BYTES, check_count};
use crate::model::{ImageRef, Recipe};

use super::error::ImageProblem;
use super::writing::truncate;
use super::{Error, Workspace};

/// An image to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A file, whose bytes are copied.
    File(PathBuf),
    /// The bytes of an image file.
    Bytes(Vec<u8>),
    /// An open file, so that its path cannot be redirected any more.
    Opened(OpenedImage),
}

/// An open image file.
#[derive(Clone, Debug)]
pub struct OpenedImage {
    file: Arc<File>,
    path: PathBuf,
}

impl OpenedImage {
    /// Creates an image from an open file with this path.
    pub fn new(file: File, path: PathBuf) -> OpenedImage {
        OpenedImage { file: Arc::new(file), path }
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path under which it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks its size.
    pub(super) fn check(&self) -> Result<(), ImageProblem> {
        check_size(self.file.metadata().map_or(0, |found| found.len()), Some(&self.path))
    }
}

impl PartialEq for OpenedImage {
    fn eq(&self, other: &OpenedImage) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

impl Eq for OpenedImage {}

/// Checks every image of a recording, so that a bad one is found before others are stored.
pub(crate) fn check_all(images: &[ImageSource]) -> Result<(), Error> {
    check_count("images", images.len())?;
    for (number, image) in images.iter().enumerate() {
        let checked = match image {
            ImageSource::File(path) => check_file(path).and_then(|file| check_type(&file, path)),
            ImageSource::Bytes(bytes) => check_size(bytes.len() as u64, None).and_then(|()| known_type(bytes, None)),
            ImageSource::Opened(opened) => {
                let length = opened.file.metadata().map_or(0, |found| found.len());
                check_size(length, Some(&opened.path)).and_then(|()| check_type(&opened.file, &opened.path))
            }
        };
        checked.map_err(|problem| Error::InvalidImage { number, problem })?;
    }
    Ok(())
}

/// Checks that a file can be read and is neither empty nor too large, and opens it.
pub(crate) fn check_file(path: &Path) -> Result<File, ImageProblem> {
    let unreadable = |source| ImageProblem::Unreadable { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(ImageProblem::NotAFile { path: path.to_owned(), directory: found.is_dir() });
    }
    check_size(found.len(), Some(path))?;
    File::open(path).map_err(unreadable)
}

/// The number of bytes needed to detect the type of a file.
const FIRST_BYTES: usize = 64;

/// Checks that a file starts like an image. Other files are refused: recorded files can be read back, also by other
/// users of the workspace, so recording must not be a way to read arbitrary files.
fn check_type(file: &File, path: &Path) -> Result<(), ImageProblem> {
    let first =
        read_at(file, 0, FIRST_BYTES).map_err(|source| ImageProblem::Unreadable { path: path.to_owned(), source })?;
    known_type(&first, Some(path))
}

fn known_type(bytes: &[u8], path: Option<&Path>) -> Result<(), ImageProblem> {
    let first = bytes.get(..FIRST_BYTES).unwrap_or(bytes);
    if Header::of(first).mime_type == UNKNOWN_TYPE {
        return Err(ImageProblem::NotAnImage { path: path.map(Path::to_owned) });
    }
    Ok(())
}

fn check_size(bytes: u64, path: Option<&Path>) -> Result<(), ImageProblem> {
    let path = path.map(Path::to_owned);
    match bytes {
        0 => Err(ImageProblem::Empty { path }),
        1..=MAX_IMAGE_BYTES => Ok(()),
        _ => Err(ImageProblem::TooLarge { bytes, path }),
    }
}

impl ImageSource {
    /// Returns the recipe in the file's metadata; `None` if it contains no prompt or cannot be read.
    pub fn recipe(&self) -> Option<Recipe> {
        let reading = match self {
            ImageSource::File(path) => metadata::read_file(path).ok()?,
            ImageSource::Bytes(bytes) => metadata::read(bytes),
            ImageSource::Opened(opened) => metadata::read_from(&*opened.file).ok()?,
        };
        Some(reading.recipe).filter(|recipe| !recipe.prompt.trim().is_empty())
    }

    /// Stores the image durably.
    fn store(&self, images: &Images) -> Result<ImageRef, Error> {
        let mut stored = match self {
            ImageSource::File(path) => images.put_file(path)?,
            ImageSource::Bytes(bytes) => images.put(bytes)?,
            ImageSource::Opened(opened) => images.put_open(&opened.file, &opened.path)?,
        };
        if let Some(name) = &mut stored.name {
            name.retain(|c| !c.is_control());
            truncate(name, MAX_NAME_BYTES);
        }
        Ok(stored)
    }
}

impl Workspace {
    /// Stores images durably, in order.
    pub(crate) fn store_images(&self, images: &[ImageSource]) -> Result<Vec<ImageRef>, Error> {
        let stored = images.iter().enumerate().map(|(number, image)| {
            let stored = image.store(&self.images)?;
            // The file may have been replaced since it was checked.
            if stored.mime_type == UNKNOWN_TYPE {
                return Err(Error::InvalidImage { number, problem: ImageProblem::NotAnImage { path: None } });
            }
            Ok(stored)
        });
        stored.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_image_is_named_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.png");
        fs::write(&empty, "").unwrap();
        let message = |path: &Path| {
            let images = [ImageSource::Bytes(b"GIF89a".to_vec()), ImageSource::File(path.to_owned())];
            check_all(&images).unwrap_err().to_string()
        };
        let absent = dir.path().join("absent.png");
        assert_eq!(message(&absent), format!("image 1 does not exist: {}", absent.display()));
        assert_eq!(message(dir.path()), format!("image 1 is a directory: {}", dir.path().display()));
        assert_eq!(message(&empty), format!("image 1 is empty: {}", empty.display()));
        assert!(message(&empty.join("below")).contains("does not exist"));
        assert!(message(Path::new("")).contains("does not exist"));
        let secret = dir.path().join("secret.png");
        fs::write(&secret, "API_KEY=sk-secret").unwrap();
        assert_eq!(message(&secret), format!("image 1 is not an image or video of a known type: {}", secret.display()));
        let bytes = check_all(&[ImageSource::Bytes(b"API_KEY".to_vec())]).unwrap_err().to_string();
        assert_eq!(bytes, "image 0 is not an image or video of a known type");
    }
}
