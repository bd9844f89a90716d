//! How alike the files and recipes of two images are, as evidence that one was made from the other.

use std::collections::HashSet;

use crate::model::Recipe;
use crate::model::diff::tag;

/// The factor above which a larger image is an upscale rather than a crop.
const LARGER: f64 = 1.2;

/// Returns whether a file name is one that tools and browsers give to any image, so that it proves little by itself.
pub(super) fn is_generic(name: &str) -> bool {
    const NAMES: [&str; 16] = [
        "",
        "comfyui",
        "comfyuitemp",
        "image",
        "images",
        "img",
        "input",
        "output",
        "result",
        "download",
        "untitled",
        "generated",
        "pasted",
        "clipboard",
        "screenshot",
        "grid",
    ];
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let letters: String = stem.chars().filter(|c| c.is_alphabetic()).collect::<String>().to_lowercase();
    NAMES.contains(&letters.as_str())
}

/// Returns the factor by which the second size is larger, if it is larger and has the same aspect ratio.
pub(super) fn multiple(small: Option<(u32, u32)>, large: Option<(u32, u32)>) -> Option<f64> {
    let ((width, height), (wider, higher)) = (small?, large?);
    // Sizes are multiples of eight, so the same aspect ratio may be off by a few pixels.
    let scale = f64::from(wider) / f64::from(width.max(1));
    let expected = f64::from(height) * scale;
    (scale >= LARGER && (expected - f64::from(higher)).abs() <= 8.0).then_some(scale)
}

/// Returns the similarity of two recipes: the share of tags they have in common. It is 0 if either has no prompt; with
/// different models only nearly identical prompts count.
pub(super) fn likeness(one: &Recipe, other: &Recipe) -> f64 {
    if one.prompt.trim().is_empty() || other.prompt.trim().is_empty() {
        return 0.0;
    }
    if one.prompt == other.prompt {
        return 1.0;
    }
    let other_model = matches!((&one.model, &other.model), (Some(one), Some(other)) if one != other);
    let (one, other) = (parts(&one.prompt), parts(&other.prompt));
    let common = one.intersection(&other).count();
    let all = one.union(&other).count().max(1);
    let share =
        f64::from(u32::try_from(common).unwrap_or(u32::MAX)) / f64::from(u32::try_from(all).unwrap_or(u32::MAX));
    if other_model && share < 0.9 { 0.0 } else { share }
}

/// Returns the tags of a prompt, or the words if it is prose.
fn parts(prompt: &str) -> HashSet<String> {
    let tags = tag::tags(prompt);
    let words = || prompt.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    if words().count() > tags.len() * 6 {
        return words().collect();
    }
    tags.into_iter().map(|tag| tag.text.to_lowercase()).collect()
}
