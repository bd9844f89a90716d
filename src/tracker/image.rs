//! `image`: an iteration's picture, byte for byte, and how answers name pictures.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{Hash, IterationId};

use super::{Error, Tracker};

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
        let _ = request;
        todo!()
    }
}

fn to_base64<S: Serializer>(_bytes: &[u8], _serializer: S) -> Result<S::Ok, S::Error> {
    todo!()
}

fn from_base64<'de, D: Deserializer<'de>>(_deserializer: D) -> Result<Vec<u8>, D::Error> {
    todo!()
}
