//! An iteration: its recipe, outcome, images and parent, and the limits for new ones.

use retake_recipe::{Hash, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::IterationId;
use super::perceptual_hash::PerceptualHash;

pub use retake_recipe::recipe::*;

/// One attempt; immutable once recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// The time at which it was made. For imported work this is earlier than the time of recording.
    pub created_at: Timestamp,
    /// Everything needed to make it again.
    pub recipe: Recipe,
    /// The outcome.
    pub outcome: Outcome,
    /// The images; empty if the attempt produced none.
    pub images: Vec<ImageRef>,
    /// The iteration it was derived from, in any session.
    pub parent: Option<IterationId>,
    /// The evidence for the parent, if it was inferred rather than given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_reason: Option<String>,
    /// The iteration it was probably derived from, if the evidence is too weak for a parent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub likely_parent: Option<LikelyParent>,
}

/// Returns the recipe of one image from the recipe of its iteration.
pub fn image_recipe(mut recipe: Recipe, image: u32) -> Recipe {
    if let Some(seeds) = recipe.parameters.shift_remove(SEEDS) {
        recipe.seed = seed_of(&seeds, image).or(recipe.seed);
    }
    recipe
}

/// Returns the seed of an image in the list of a batch.
fn seed_of(seeds: &serde_json::Value, image: u32) -> Option<Seed> {
    seeds.get(usize::try_from(image).ok()?)?.as_str()?.parse().ok().map(Seed)
}

/// A parent that is likely and not certain, and stays so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikelyParent {
    /// The iteration.
    pub reference: IterationId,
    /// The evidence.
    pub reason: String,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it succeeded.
    pub status: OutcomeStatus,
    /// The message of the provider, mostly after a failure or refusal.
    pub message: Option<String>,
    /// The duration in milliseconds.
    pub generation_time_ms: Option<u64>,
    /// The cost.
    pub cost: Option<Cost>,
}

/// Whether an attempt worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeStatus {
    /// It produced the requested result.
    #[default]
    Succeeded,
    /// It failed.
    Failed,
    /// The provider refused it.
    Refused,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// How much.
    pub amount: f64,
    /// Of what: an ISO 4217 code such as USD, or the provider's word for its credits.
    pub currency: String,
}

/// An image in the image store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRef {
    /// The hash of its bytes, which is also its name in the store.
    pub hash: Hash,
    /// Its size in bytes.
    pub bytes: u64,
    /// The media type according to its first bytes; `application/octet-stream` if they match no known type.
    pub mime_type: String,
    /// The width, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub width: Option<u32>,
    /// The height, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub height: Option<u32>,
    /// The original file name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The hash of its pixels, if it could be decoded; the same for lossless copies.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pixels: Option<Hash>,
    /// The perceptual hash, if the image could be decoded.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "looks")]
    pub perceptual_hash: Option<PerceptualHash>,
    /// The path of the original, if it was linked rather than copied into the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub linked: Option<String>,
}

/// The parameter of a recipe that keeps the seed of every image of a batch.
pub const SEEDS: &str = "seeds";

impl Iteration {
    /// Returns the recipe of one image: an image of a batch may have a seed of its own.
    pub fn recipe_of(&self, image: u32) -> Recipe {
        image_recipe(self.recipe.clone(), image)
    }

    /// Returns the seeds of the images of a batch that are not the recipe's.
    pub fn other_seeds(&self) -> Vec<Seed> {
        let seeds = self.recipe.parameters.get(SEEDS);
        let mut others: Vec<Seed> = (0..)
            .zip(&self.images)
            .filter_map(|(image, _)| seed_of(seeds?, image).filter(|seed| Some(*seed) != self.recipe.seed))
            .collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Checks the limits for a new iteration. Recorded iterations are never checked against them.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.recipe.prompt.trim().is_empty() {
            return Err(Invalid {
                field: "prompt",
                problem: "is empty".to_owned(),
                hint: "pass the prompt as it was typed".to_owned(),
            });
        }
        self.check_limits()
    }

    /// Checks the limits for an imported iteration. It must have an image but may lack a prompt: many files contain
    /// none, and inventing one would be wrong.
    pub fn check_brought_in(&self) -> Result<(), Invalid> {
        if self.images.is_empty() {
            return Err(Invalid {
                field: "images",
                problem: "is empty".to_owned(),
                hint: "import at least one image, or record the iteration instead".to_owned(),
            });
        }
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), Invalid> {
        self.recipe.check()?;
        let outcome = &self.outcome;
        check_optional("message", outcome.message.as_deref(), MAX_NOTE_BYTES)?;
        if let Some(cost) = &outcome.cost {
            check_number("cost.amount", Some(cost.amount), 0.0, 1e12)?;
            check_name("cost.currency", &cost.currency)?;
        }
        check_optional_name("parentReason", self.parent_reason.as_deref())?;
        check_optional_name("likelyParent.reason", self.likely_parent.as_ref().map(|likely| likely.reason.as_str()))?;
        check_count("images", self.images.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iteration(recipe: Recipe) -> Iteration {
        Iteration {
            created_at: Timestamp::from_millis(0).unwrap(),
            recipe,
            outcome: Outcome::default(),
            images: Vec::new(),
            parent: None,
            parent_reason: None,
            likely_parent: None,
        }
    }

    #[test]
    fn limits_name_the_field() {
        let check = |recipe: Recipe, field: &str| {
            let invalid = iteration(recipe).check().unwrap_err();
            assert_eq!(invalid.field, field, "{invalid}");
            assert!(!invalid.hint.is_empty());
        };
        let with_prompt = |prompt: &str| Recipe { prompt: prompt.to_owned(), ..Recipe::default() };
        check(with_prompt(""), "prompt");
        check(with_prompt(" \n\t"), "prompt");
        check(with_prompt("a\u{0}b"), "prompt");
        check(with_prompt("a\u{1b}[31mred"), "prompt");
        check(with_prompt(&"x".repeat(MAX_PROMPT_BYTES + 1)), "prompt");
        check(Recipe { width: Some(0), ..with_prompt("a") }, "width");
        check(Recipe { denoise: Some(f64::NAN), ..with_prompt("a") }, "denoise");
        check(Recipe { model: Some(String::new()), ..with_prompt("a") }, "model");
        assert!(iteration(with_prompt("línea uno\n\tзима, 猫")).check().is_ok());
    }
}
