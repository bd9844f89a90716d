//! Labels the step from one recipe to the next.

use std::collections::HashSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecipeDiff;
use super::parameters::{is_file_name, is_seed};
use super::words::words;
use crate::Recipe;
use crate::metadata::comfyui::listing;

/// The kind of step from one recipe to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepLabel {
    /// A reroll: only the seed differs, or nothing does.
    Reroll,
    /// Other parameters or LoRAs, the same prompt and model.
    Tweak,
    /// Another prompt.
    Reprompt,
    /// Another model or provider.
    Remodel,
    /// Derived from the image itself: image to image, inpainting, upscaling.
    Refine,
    /// A prompt that has next to nothing in common with the one before.
    NewIdea,
}

impl fmt::Display for StepLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StepLabel::Reroll => "reroll",
            StepLabel::Tweak => "tweak",
            StepLabel::Reprompt => "reprompt",
            StepLabel::Remodel => "remodel",
            StepLabel::Refine => "refine",
            StepLabel::NewIdea => "new idea",
        })
    }
}

impl StepLabel {
    /// Returns the label of the step with this difference. The most significant difference decides.
    pub(super) fn of(old: &Recipe, new: &Recipe, diff: &RecipeDiff) -> StepLabel {
        let reprompted = [&diff.prompt, &diff.negative_prompt].into_iter().flatten().any(|it| !it.changes.is_empty());
        let named = |name: &str| diff.parameters.iter().any(|change| change.name == name);
        if diff.prompt.is_some() && !is_related(&old.prompt, &new.prompt) {
            StepLabel::NewIdea
        } else if (starts_from_a_picture(new) && !starts_from_a_picture(old)) || is_enlarged(old, new) {
            StepLabel::Refine
        } else if named("model") || named("provider") || (named("modelHash") && old.model_hash.is_some()) {
            StepLabel::Remodel
        } else if reprompted {
            StepLabel::Reprompt
        } else if is_chance(diff) {
            StepLabel::Reroll
        } else {
            StepLabel::Tweak
        }
    }
}

/// Returns whether only the seed or the name of the output differs. A missing seed counts as a random one.
pub(super) fn is_chance(diff: &RecipeDiff) -> bool {
    diff.loras.is_empty()
        && diff.parameters.iter().all(|change| is_seed(&change.name) || is_file_name(&change.name))
        && diff.nodes.iter().all(super::NodeChange::is_chance)
        && [&diff.prompt, &diff.prompt_sent, &diff.negative_prompt]
            .into_iter()
            .flatten()
            .all(|it| it.changes.is_empty())
}

/// Returns whether two prompts share a fifth of all words, or half of those of the shorter one.
fn is_related(old: &str, new: &str) -> bool {
    let (old, new) = (subjects(old), subjects(new));
    let both = old.intersection(&new).count();
    let all = old.union(&new).count();
    all == 0 || both * 5 >= all || both * 2 >= old.len().min(new.len()).max(1)
}

/// Returns the words that describe the subject of a prompt.
fn subjects(prompt: &str) -> HashSet<String> {
    const SLIGHT: [&str; 22] = [
        "a", "an", "the", "of", "in", "on", "at", "and", "or", "with", "by", "for", "to", "is", "from", "as", "it",
        "its", "this", "that", "lora", "BREAK",
    ];
    let telling = |word: &&&str| word.chars().any(char::is_alphabetic) && !SLIGHT.contains(*word);
    words(prompt).iter().filter(telling).map(|word| word.to_lowercase()).collect()
}

/// Returns whether the recipe starts from an image.
fn starts_from_a_picture(recipe: &Recipe) -> bool {
    const NAMES: [&str; 12] = [
        "initimage",
        "initimagehash",
        "initimages",
        "inputimage",
        "inputimages",
        "sourceimage",
        "referenceimage",
        "mask",
        "maskimage",
        "maskblur",
        "image",
        "basephoto",
    ];
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    let given = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && value != "";
    // Upscaling within the same run has a denoising strength too.
    let enlarges = recipe.parameters.keys().any(|name| letters(name).starts_with("hires"));
    (recipe.denoise.is_some_and(|denoise| denoise < 1.0) && !enlarges)
        || recipe.parameters.iter().any(|(name, value)| given(value) && NAMES.contains(&letters(name).as_str()))
        || listing::find(recipe)
            .is_some_and(|graph| listing::nodes(&graph).iter().any(|node| node.class.starts_with("LoadImage")))
}

/// Returns whether both sides grew by the same factor while the prompt stayed the same.
fn is_enlarged(old: &Recipe, new: &Recipe) -> bool {
    let (Some(w0), Some(h0), Some(w1), Some(h1)) = (old.width, old.height, new.width, new.height) else {
        return false;
    };
    w1 > w0
        && u64::from(w1) * u64::from(h0) == u64::from(h1) * u64::from(w0)
        && old.prompt == new.prompt
        && old.seed == new.seed
}
