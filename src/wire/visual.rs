//! The visual differences between two images.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::{Area, ImageComparison};

/// How two images differ visually.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VisualView {
    /// The judgement in one line, composition and colour apart: `Composition: same · Colour: strongly changed · 98.7 % of
    /// the area`.
    pub verdict: String,
    /// In how many of 128 bits their perceptual hashes differ, which ignore colour: 0 to 31 is the same composition,
    /// around 64 another one.
    pub perceptual_distance: u32,
    /// How far their colours are apart on average: 0 is the same, 2 just noticeable, above 15 strongly changed.
    pub colour_difference: f64,
    /// Whether they are nearly the same image: in composition, colour and detail.
    pub nearly_same: bool,
    /// The mean structural similarity: 1 is the same, and different images are below 0.3.
    pub ssim: f64,
    /// The share of the larger image that changed noticeably, from 0 to 1.
    pub changed_area: f64,
    /// The smallest box around what changed; absent if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_box: Option<BoxView>,
    /// The width of the larger image, which the coordinates of the box refer to.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Present and true if the sizes differ and the smaller one was scaled to the larger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scaled: bool,
    /// Present and true if the shapes differ: they were centred on each other, and what only one covers counts as
    /// changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub different_shapes: bool,
}

/// A part of an image, in pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoxView {
    /// From the left.
    pub x: u32,
    /// From the top.
    pub y: u32,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

impl From<ImageComparison> for VisualView {
    fn from(found: ImageComparison) -> VisualView {
        // Further digits would differ between machines.
        let rounded = |number: f64| (number * 10_000.0).round() / 10_000.0;
        VisualView {
            verdict: found.verdict(),
            perceptual_distance: found.distance,
            colour_difference: rounded(found.colour_difference),
            nearly_same: found.is_nearly_same(),
            ssim: rounded(found.similarity),
            changed_area: rounded(found.changed),
            changed_box: found.bounds.map(|Area { x, y, width, height }| BoxView { x, y, width, height }),
            width: found.size.0,
            height: found.size.1,
            scaled: found.scaled,
            different_shapes: !found.same_shape,
        }
    }
}
