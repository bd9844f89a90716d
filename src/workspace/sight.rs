//! What pictures show: thumbnails by hash, originals by hash, and the looks of any image file.

use std::io;
use std::path::{Path, PathBuf};

use image::RgbImage;

use crate::images::{self, Header, ImageUnavailable, ThumbSide, Undecodable};
use crate::model::{Hash, PerceptualHash};

use super::error::disk_error;
use super::{Error, ErrorKind, Workspace, incoming};

/// An original by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its media type, told from its first bytes.
    pub mime_type: &'static str,
    /// Its bytes, exactly as they were recorded.
    pub data: Vec<u8>,
}

impl Workspace {
    /// The thumbnail of an image, as a JPEG file of at most 74,000 bytes. Made when there is none yet.
    pub fn thumbnail(&self, hash: Hash, side: ThumbSide) -> Result<Vec<u8>, Error> {
        self.images.thumbnail(hash, side).map_err(|error| self.unseen(hash, error))
    }

    /// The pixels of the large thumbnail, for a face that draws by itself.
    pub fn preview(&self, hash: Hash) -> Result<RgbImage, Error> {
        let file = self.thumbnail(hash, ThumbSide::Large)?;
        let picture = images::decode(&file).map_err(|reason| undecodable(&hash.to_string(), &reason))?;
        Ok(picture.into_rgb())
    }

    /// The original of that hash, byte for byte.
    pub fn original(&self, hash: Hash) -> Result<Original, Error> {
        let data = self.images.get(hash).map_err(|error| self.unseen(hash, error.into()))?;
        Ok(Original { mime_type: Header::of(&data).mime_type, data })
    }

    /// What the picture in any file looks like. The path is taken as a recording takes it.
    pub fn perceptual_hash_of_file(&self, path: &str) -> Result<PerceptualHash, Error> {
        let path = PathBuf::from(path);
        incoming::check_file("the picture", &path)?;
        match self.images.see_file(&path) {
            Ok(seen) => Ok(seen.perceptual_hash),
            Err(ImageUnavailable::Unread(error)) => Err(disk_error("read the image", &path, &error)),
            Err(ImageUnavailable::Undecodable(reason)) => Err(undecodable(&path.display().to_string(), &reason)),
        }
    }

    /// Why an image of the store cannot be shown.
    pub(super) fn unseen(&self, hash: Hash, error: ImageUnavailable) -> Error {
        let path = self.images.path(hash);
        match error {
            ImageUnavailable::Unread(error) => unread(&format!("image {hash}"), ErrorKind::NotFound, &path, &error),
            ImageUnavailable::Undecodable(reason) => undecodable(&hash.to_string(), &reason),
        }
    }
}

/// Why the original of `image` cannot be read; `gone` is what it is that there is no file.
pub(super) fn unread(image: &str, gone: ErrorKind, path: &Path, error: &io::Error) -> Error {
    let (kind, what) = match error.kind() {
        io::ErrorKind::NotFound => (gone, "is missing"),
        io::ErrorKind::InvalidData => (ErrorKind::Damaged, "is damaged"),
        _ => return disk_error("read the image", path, error),
    };
    Error::new(
        kind,
        format!("{image} {what}: {}", path.display()),
        "put the original back by recording it again: it gets the same place",
    )
}

fn undecodable(image: &str, reason: &Undecodable) -> Error {
    Error::invalid(
        format!("image {image} cannot be shown: {reason}"),
        "its bytes are kept as they are: read the image itself, and open it with a program for its type",
    )
}
