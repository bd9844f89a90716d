//! Images in replies: their descriptions and their bytes.

use base64::Engine;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::images::{is_decoded, is_video};
use crate::model::iteration::MAX_LIST;
use crate::model::{ExactReference, Hash, ImageRef, IterationId};

use super::tools::MAX_RESOURCE_BYTES;
use super::{Api, Error, limits};

/// An image of an iteration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageView {
    /// The BLAKE3 hash of its bytes, which is also its name in the image store.
    pub hash: Hash,
    /// Its media type, detected from its first bytes; `application/octet-stream` if it is unknown.
    pub mime_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its width in pixels, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Its height in pixels, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// The file name it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The resource to read it from: `retake://iterations/{id}/{index}/image`, followed by `/1`, `/2`… for the second
    /// image and those after it. Above 520,000 bytes it is sent reduced, as JPEG; of a video then only the poster. Absent
    /// if it cannot be read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// The file of the original on this machine, to be read and not changed. Only over stdio and at the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Present and true if its file is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// The image to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRequest {
    /// The iteration, such as `session-2025-12-11-001#3` or `latest`, or one image of it, such as
    /// `session-2025-12-11-001#3/1`.
    pub reference: String,
    /// Which of its images, from 0; by default the one that `reference` names, or the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<u32>,
}

/// An image with its bytes, which are base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageBytes {
    /// The iteration it belongs to.
    pub reference: IterationId,
    /// Its description.
    pub image: ImageView,
    /// Its bytes, exactly as they were recorded.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    #[schemars(with = "String")]
    pub data: Vec<u8>,
}

impl Api<'_> {
    /// Returns one image of an iteration, byte for byte.
    pub fn image(&self, request: &ImageRequest) -> Result<ImageBytes, Error> {
        let reference = self.resolve_exactly(&request.reference)?;
        let (id, number) = (reference.iteration, request.image.unwrap_or(reference.image_number()));
        let (image, data) = self.workspace.image(id, number)?;
        Ok(ImageBytes { reference: id, image: self.image_view(id, number, &image), data })
    }

    /// Returns the views of an iteration's images.
    pub(super) fn image_views(&self, id: IterationId, images: &[ImageRef]) -> Vec<ImageView> {
        (0..).zip(images.iter().take(MAX_LIST)).map(|(number, image)| self.image_view(id, number, image)).collect()
    }

    /// Returns the view of the image that a reference names, or of the first one.
    pub(super) fn image_of(&self, reference: ExactReference, images: &[ImageRef]) -> Option<ImageView> {
        let number = reference.image_number();
        let image = images.get(usize::try_from(number).unwrap_or(usize::MAX))?;
        Some(self.image_view(reference.iteration, number, image))
    }

    fn image_view(&self, id: IterationId, number: u32, image: &ImageRef) -> ImageView {
        let short = |text: &str| limits::clipped(text, SHOWN_NAME_BYTES).unwrap_or_else(|| text.to_owned());
        let mut uri = format!("retake://iterations/{}/{}/image", id.session, id.index);
        if number > 0 {
            uri.push_str(&format!("/{number}"));
        }
        let missing = !self.workspace.has_original(image);
        // An image that cannot be decoded cannot be reduced either; for a video, the poster is sent.
        let reducible = is_video(&image.mime_type) || (is_decoded(&image.mime_type) && image.width.is_some());
        if missing || (image.bytes > MAX_RESOURCE_BYTES && !reducible) {
            uri.clear();
        }
        let path = (self.shows_paths && !missing).then(|| self.workspace.original_path(image));
        ImageView {
            hash: image.hash,
            mime_type: short(&image.mime_type),
            bytes: image.bytes,
            width: image.width,
            height: image.height,
            name: image.name.as_deref().map(short),
            uri,
            path: path.map(|path| path.to_string_lossy().into_owned()),
            missing,
        }
    }
}

/// The maximum size of a file name, so that the images of one iteration fit a reply.
const SHOWN_NAME_BYTES: usize = 300;

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
