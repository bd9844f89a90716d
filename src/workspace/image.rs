//! Reads images: originals byte for byte, thumbnails and previews.

use std::fs::File;
use std::path::PathBuf;

use image::RgbImage;

use crate::images::{self, Defect, Header, ThumbSide};
use crate::model::{Hash, ImageRef, IterationId, Query};

use super::{Error, Search, SimilarTo, Workspace};

/// An original, found by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// Its media type, detected from its first bytes.
    pub mime_type: &'static str,
    /// Its bytes, exactly as they were recorded.
    pub data: Vec<u8>,
}

/// A video opened for reading, to be played in parts.
#[derive(Debug)]
pub struct OpenVideo {
    /// Its media type, detected from its first bytes.
    pub mime_type: &'static str,
    /// The size of its file.
    pub bytes: u64,
    /// The file.
    pub file: File,
}

/// Something unusual about a recorded image. Nothing can be removed later, so this is reported when it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageWarning {
    /// The file is truncated or corrupt.
    Defect(Defect),
    /// Another iteration has an image with the same bytes.
    SameBytes(IterationId),
}

/// The maximum number of similar iterations that are searched for the same bytes.
const MAX_SIMILAR: usize = 200;

impl Workspace {
    /// Returns anything unusual about the images of an iteration, each with the image's number. Checks that fail are
    /// skipped, since the iteration is already recorded.
    pub fn image_warnings(&self, id: IterationId) -> Vec<(usize, ImageWarning)> {
        let images = self.brief_state(id).map(|state| state.iteration.images).unwrap_or_default();
        let mut warnings = Vec::new();
        for (number, image) in images.iter().enumerate() {
            if image.pixels.is_none() {
                let defect = images::defect(&self.images.path(image.hash));
                warnings.extend(defect.map(|defect| (number, ImageWarning::Defect(defect))));
            } else if let Some(other) = self.other_with(id, number, image) {
                warnings.push((number, ImageWarning::SameBytes(other)));
            }
        }
        warnings
    }

    /// Returns another iteration with an image of the same bytes. The search index provides candidates that look the
    /// same.
    fn other_with(&self, id: IterationId, number: usize, image: &ImageRef) -> Option<IterationId> {
        let similar_to = if number == 0 { SimilarTo::Iteration(id.into()) } else { SimilarTo::Image(image.hash) };
        let search = Search { similar_to: Some(similar_to), ..Search::from(Query::parse("", self.now()).ok()?) };
        let hits = self.find(search).take(MAX_SIMILAR).map_while(Result::ok);
        let mut same = hits.take_while(|hit| hit.distance == Some(0)).filter(|hit| hit.id() != id);
        same.find(|hit| hit.iteration.images.iter().any(|other| other.hash == image.hash)).map(|hit| hit.id())
    }

    /// Returns what is recorded of one image of an iteration, counted from 0, without reading the image.
    pub fn image_ref(&self, id: IterationId, number: u32) -> Result<ImageRef, Error> {
        let images = self.brief_state(id)?.iteration.images;
        let count = images.len();
        let image = usize::try_from(number).ok().and_then(|number| images.into_iter().nth(number));
        image.ok_or(Error::ImageNotFound { iteration: id, number, count })
    }

    /// Returns one image of an iteration, counted from 0, with its bytes exactly as they were recorded.
    pub fn image(&self, id: IterationId, number: u32) -> Result<(ImageRef, Vec<u8>), Error> {
        let image = self.image_ref(id, number)?;
        let data = self.images.get(image.hash).map_err(|error| {
            let name = format_args!("image {} of {id}", image.hash).to_string();
            Error::original(name, true, &self.images.path(image.hash), error)
        })?;
        Ok((image, data))
    }

    /// Returns whether the original of a recorded image exists.
    pub fn has_original(&self, image: &ImageRef) -> bool {
        self.images.remember(image);
        self.images.contains(image.hash)
    }

    /// Returns the path of the original of a recorded image, whether or not it exists.
    pub fn original_path(&self, image: &ImageRef) -> PathBuf {
        self.images.remember(image);
        self.images.path(image.hash)
    }

    /// Returns the path of the original with this hash, if it is a local file.
    pub fn local_original(&self, hash: Hash) -> Option<PathBuf> {
        Some(self.images.path(hash)).filter(|path| path.is_file())
    }

    /// Returns the thumbnail of an image as a JPEG file of at most 74,000 bytes, creating it if necessary. For a video,
    /// this is its poster.
    pub fn thumbnail(&self, hash: Hash, side: ThumbSide) -> Result<Vec<u8>, Error> {
        self.images.thumbnail(hash, side).map_err(|error| Error::unavailable(hash, &self.images.path(hash), error))
    }

    /// Returns an image, or the poster of a video, as a JPEG file of at most `max_bytes`, scaled down as little as
    /// possible.
    pub fn reduced(&self, hash: Hash, max_bytes: usize) -> Result<Vec<u8>, Error> {
        let reduced = self.images.reduced(hash, max_bytes);
        reduced.map_err(|error| Error::unavailable(hash, &self.images.path(hash), error))
    }

    /// Returns the pixels of the large thumbnail, for a face that draws it itself.
    pub fn preview(&self, hash: Hash) -> Result<RgbImage, Error> {
        let file = self.thumbnail(hash, ThumbSide::Large)?;
        let decoded = images::decode(&file).map_err(|reason| Error::Undecodable { image: hash.to_string(), reason })?;
        Ok(decoded.into_rgb())
    }

    /// Opens the original with this hash if it is a video; `None` if it is an image.
    pub fn open_video(&self, hash: Hash) -> Result<Option<OpenVideo>, Error> {
        let opened = self.images.open_video(hash);
        let opened = opened.map_err(|error| Error::unavailable(hash, &self.images.path(hash), error.into()))?;
        Ok(opened.map(|(file, mime_type, bytes)| OpenVideo { mime_type, bytes, file }))
    }

    /// Returns the original with this hash, byte for byte.
    pub fn original(&self, hash: Hash) -> Result<Original, Error> {
        let data = self.images.get(hash);
        let data = data.map_err(|error| Error::unavailable(hash, &self.images.path(hash), error.into()))?;
        Ok(Original { mime_type: Header::of(&data).mime_type, data })
    }
}
