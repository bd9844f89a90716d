//! `image`: an iteration's picture, byte for byte, and how answers name pictures.

use base64::Engine;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::iteration::MAX_LIST;
use crate::model::{Hash, ImageRef, IterationId};

use super::{Error, ErrorKind, Tracker, fit, lookup, sight};

/// A picture of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    /// The BLAKE3 hash of its bytes, which is also its name in the image store.
    pub hash: Hash,
    /// Its media type, told from its first bytes; `application/octet-stream` when it is none that is known.
    pub mime_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its width in pixels, where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Its height in pixels, where it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// The file name it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The resource to read it from: `retake://iterations/{id}/{index}/image`, with `/1`, `/2`… behind it for the
    /// second image of an iteration and those after it.
    pub uri: String,
    /// Present and true when its file is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// Which picture to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRequest {
    /// The iteration, such as `session-2025-12-11-001#3` or `latest`.
    pub reference: String,
    /// Which of its images, from 0 (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<u32>,
}

/// A picture with its bytes, which in JSON are base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageBytes {
    /// The iteration it belongs to.
    pub reference: IterationId,
    /// What it is.
    pub image: ImageView,
    /// Its bytes, exactly as they were recorded.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    #[schemars(with = "String")]
    pub data: Vec<u8>,
}

impl Tracker {
    /// One picture of an iteration, byte for byte.
    pub fn image(&self, request: &ImageRequest) -> Result<ImageBytes, Error> {
        let id = self.resolve(&request.reference)?;
        let state = lookup::iteration_of(Some(self.folded(id.session)?), id)?;
        let images = &state.iteration.images;
        let number = request.image.unwrap_or(0);
        let found = usize::try_from(number).ok().and_then(|number| images.get(number)).ok_or_else(|| {
            let (message, hint) = match images.len() {
                0 => (format!("{id} has no image"), "its outcome says why".to_owned()),
                count => (format!("{id} has no image {number}"), format!("give a number from 0 to {}", count - 1)),
            };
            Error::new(ErrorKind::NotFound, message, hint)
        })?;
        self.images.remember(found);
        let data = self.images.get(found.hash).map_err(|error| {
            let image = format!("image {} of {id}", found.hash);
            sight::unread(&image, ErrorKind::Damaged, &self.images.path(found.hash), &error)
        })?;
        Ok(ImageBytes { reference: id, image: self.image_view(id, number, found), data })
    }

    /// How an answer names an iteration's pictures.
    pub(super) fn image_views(&self, id: IterationId, images: &[ImageRef]) -> Vec<ImageView> {
        (0..).zip(images.iter().take(MAX_LIST)).map(|(number, image)| self.image_view(id, number, image)).collect()
    }

    fn image_view(&self, id: IterationId, number: u32, image: &ImageRef) -> ImageView {
        self.images.remember(image);
        let short = |text: &str| fit::clipped(text, SHOWN_NAME_BYTES).unwrap_or_else(|| text.to_owned());
        let mut uri = format!("retake://iterations/{}/{}/image", id.session, id.index);
        if number > 0 {
            uri.push_str(&format!("/{number}"));
        }
        ImageView {
            hash: image.hash,
            mime_type: short(&image.mime_type),
            bytes: image.bytes,
            width: image.width,
            height: image.height,
            name: image.name.as_deref().map(short),
            uri,
            missing: !self.images.contains(image.hash),
        }
    }
}

/// What a file name may take, so that the most images an iteration may have fit one answer.
const SHOWN_NAME_BYTES: usize = 300;

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
