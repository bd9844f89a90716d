//! How pictures differ to the eye: numbers for an answer, and a drawing to look at.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::{self, Area, Comparison, Incomparable, Panel, Rendering};
use crate::model::Hash;

use super::{CompareView, Error, Render, Tracker};

/// How two pictures differ to the eye.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VisualView {
    /// In how many of 128 bits their perceptual hashes differ: 0 to 31 is nearly the same picture, around 64 another one.
    pub perceptual_distance: u32,
    /// Whether they are nearly the same picture.
    pub nearly_same: bool,
    /// Mean structural similarity: 1 is the same, and different pictures are below 0.3.
    pub ssim: f64,
    /// The share of the larger picture that changed noticeably, from 0 to 1.
    pub changed_area: f64,
    /// The smallest box around what changed; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_box: Option<BoxView>,
    /// The width of the larger picture, in whose pixels the box is.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Present and true when the sizes differ, and the smaller one was scaled to the larger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scaled: bool,
    /// Present and true when the shapes differ: they were centred on each other, and what only one covers counts as
    /// changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub different_shapes: bool,
}

/// A part of a picture, in pixels from its upper left corner.
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

impl Tracker {
    /// How the pictures of these hashes differ.
    pub fn compare_pictures(&self, one: Hash, other: Hash) -> Result<VisualView, Error> {
        match self.images.compare(one, other) {
            Ok(found) => Ok(found.into()),
            Err(Incomparable { hash, source }) => Err(self.unseen(hash, source)),
        }
    }

    /// Where the second picture differs from the first, to be laid over either.
    pub fn heat_map(&self, one: Hash, other: Hash) -> Result<Rendering, Error> {
        let drawn = self.images.heat_map(one, other, MAP_SIDE);
        drawn.map_err(|Incomparable { hash, source }| self.unseen(hash, source))
    }

    /// Draws what was compared: every first picture over its reference and what differs. Nothing when that was not asked
    /// for, or when none of them has a picture.
    pub fn render(&self, view: &CompareView, how: Option<Render>) -> Option<Rendering> {
        let how = match how {
            Some(Render::None) => return None,
            Some(Render::SideBySide) => images::Render::SideBySide,
            Some(Render::Heatmap) => images::Render::Heatmap,
            Some(Render::Sheet) => images::Render::Sheet,
            None if view.iterations.len() == 2 => images::Render::SideBySide,
            None => images::Render::Sheet,
        };
        view.iterations.iter().find_map(|iteration| iteration.image.as_ref())?;
        let panels: Vec<Panel> = view
            .iterations
            .iter()
            .map(|iteration| {
                let difference = view.differences.iter().find(|other| other.reference == iteration.reference);
                let lines = match difference {
                    // The summary's parts stand apart by two spaces.
                    Some(difference) => difference.summary.split("  ").map(|part| part.trim().to_owned()).collect(),
                    None => vec![iteration.prompt.chars().take(MAX_LABEL_CHARS).collect()],
                };
                let image = iteration.image.as_ref().map(|image| image.hash);
                Panel { image, title: iteration.reference.to_string(), lines }
            })
            .collect();
        Some(self.images.render(how, &panels))
    }
}

/// The longest side of a heat map by itself: as large as windows are.
const MAP_SIDE: u32 = 1600;
/// More of a prompt than fits under any picture.
const MAX_LABEL_CHARS: usize = 300;

impl From<Comparison> for VisualView {
    fn from(found: Comparison) -> VisualView {
        // More digits than anyone reads would only differ between machines.
        let rounded = |number: f64| (number * 10_000.0).round() / 10_000.0;
        VisualView {
            perceptual_distance: found.distance,
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
