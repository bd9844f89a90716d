//! An iteration: the recipe, what came of it, its pictures and what it came from; and the limits a new one must keep.

use retake_recipe::{Hash, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::IterationId;
use super::perceptual_hash::PerceptualHash;

pub use retake_recipe::recipe::*;

/// One immutable attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iteration {
    /// When the picture was made, which for work brought in is not when it was recorded.
    pub created_at: Timestamp,
    /// All it takes to make it again.
    pub recipe: Recipe,
    /// What came of it.
    pub outcome: Outcome,
    /// Its pictures, none when the attempt gave none.
    pub images: Vec<ImageRef>,
    /// The iteration it came from, in any session.
    pub parent: Option<IterationId>,
    /// Why that one, when it was found by evidence rather than told: what the evidence is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parent_reason: Option<String>,
    /// The iteration it may have come from, where the evidence is too weak to say so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub likely_parent: Option<LikelyParent>,
}

/// A parent that is likely and not certain, and stays so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LikelyParent {
    /// The iteration.
    pub reference: IterationId,
    /// What speaks for it.
    pub reason: String,
}

/// What came of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether it worked.
    pub status: OutcomeStatus,
    /// What the provider said, mostly when it failed or refused.
    pub message: Option<String>,
    /// How long it took.
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    pub cost: Option<Cost>,
}

/// Whether an attempt worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutcomeStatus {
    /// It gave what was asked for.
    #[default]
    Succeeded,
    /// It broke.
    Failed,
    /// The provider would not do it.
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

/// A picture in the image store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRef {
    /// The hash of its bytes, which is also its name in the store.
    pub hash: Hash,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its media type, told from its first bytes; `application/octet-stream` when it is none we know.
    pub mime_type: String,
    /// Its width, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub width: Option<u32>,
    /// Its height, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub height: Option<u32>,
    /// The file name it came with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The hash of its pixels, where it could be decoded: the same picture saved again has the same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pixels: Option<Hash>,
    /// The perceptual hash, if the image could be decoded.
    #[serde(skip_serializing_if = "Option::is_none", default, alias = "looks")]
    pub perceptual_hash: Option<PerceptualHash>,
    /// The path of the original, when it stayed where it was instead of being copied into the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub linked: Option<String>,
}

impl Iteration {
    /// Checks what a new iteration must keep. What is already on disk is never checked against these limits.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.recipe.prompt.trim().is_empty() {
            return Err(Invalid {
                field: "prompt",
                problem: "is empty".to_owned(),
                hint: "say what was asked for, in the words that were typed".to_owned(),
            });
        }
        self.check_limits()
    }

    /// Checks an iteration that is brought in from files. It must have a picture, and may be without a prompt: where the
    /// file says none, an empty one is the truth, and any other would be made up.
    pub fn check_brought_in(&self) -> Result<(), Invalid> {
        if self.images.is_empty() {
            return Err(Invalid {
                field: "images",
                problem: "is empty".to_owned(),
                hint: "bring in a picture: an iteration without one is recorded".to_owned(),
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
