//! Reading images: originals byte for byte, thumbnails and previews.

use std::path::PathBuf;

use image::RgbImage;

use crate::images::{self, Header, ThumbSide};
use crate::model::{Hash, ImageRef, IterationId};

use super::{Error, Workspace};

/// An original, found by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its media type, as its first bytes tell.
    pub mime_type: &'static str,
    /// Its bytes, exactly as they were recorded.
    pub data: Vec<u8>,
}

impl Workspace {
    /// Returns one image of an iteration, counted from 0, with its bytes exactly as they were recorded.
    pub fn image(&self, id: IterationId, number: u32) -> Result<(ImageRef, Vec<u8>), Error> {
        let images = self.brief_state(id)?.iteration.images;
        let count = images.len();
        let image = usize::try_from(number).ok().and_then(|number| images.into_iter().nth(number));
        let image = image.ok_or(Error::ImageNotFound { iteration: id, number, count })?;
        let data = self.images.get(image.hash).map_err(|error| {
            let name = format_args!("image {} of {id}", image.hash).to_string();
            Error::original(name, true, &self.images.path(image.hash), error)
        })?;
        Ok((image, data))
    }

    /// Returns whether the original of a recorded image is there.
    pub fn has_original(&self, image: &ImageRef) -> bool {
        self.images.remember(image);
        self.images.contains(image.hash)
    }

    /// Returns the path of the original of a recorded image, whether or not it is there.
    pub fn original_path(&self, image: &ImageRef) -> PathBuf {
        self.images.remember(image);
        self.images.path(image.hash)
    }

    /// Returns the thumbnail of an image as a JPEG file of at most 74,000 bytes, made if it does not exist yet.
    pub fn thumbnail(&self, hash: Hash, side: ThumbSide) -> Result<Vec<u8>, Error> {
        self.images.thumbnail(hash, side).map_err(|error| Error::unavailable(hash, &self.images.path(hash), error))
    }

    /// Returns the pixels of the large thumbnail, for a face that draws by itself.
    pub fn preview(&self, hash: Hash) -> Result<RgbImage, Error> {
        let file = self.thumbnail(hash, ThumbSide::Large)?;
        let decoded = images::decode(&file).map_err(|reason| Error::Undecodable { image: hash.to_string(), reason })?;
        Ok(decoded.into_rgb())
    }

    /// Returns the original with that hash, byte for byte.
    pub fn original(&self, hash: Hash) -> Result<Original, Error> {
        let data = self.images.get(hash);
        let data = data.map_err(|error| Error::unavailable(hash, &self.images.path(hash), error.into()))?;
        Ok(Original { mime_type: Header::of(&data).mime_type, data })
    }
}
