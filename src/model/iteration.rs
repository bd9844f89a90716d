//! An iteration: the recipe, what came of it, its pictures and what it came from; and the limits a new one must keep.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::hash::Hash;
use super::id::IterationId;
use super::looks::Looks;
use super::time::Timestamp;

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

/// All it takes to make an iteration again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Recipe {
    /// The prompt as typed.
    pub prompt: String,
    /// The prompt as sent, when it was expanded or rewritten on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<String>,
    /// What the picture should not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// The model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model file's hash, as the generator writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_hash: Option<String>,
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The number of sampling steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// CFG or guidance scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// The sampler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,
    /// The scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The width asked for, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height asked for, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Denoising strength.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denoise: Option<f64>,
    /// LoRAs with their weights, in the order they were applied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
    /// The provider or tool that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Every other parameter, as it came.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

/// A LoRA and how strongly it was applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lora {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
}

/// A seed: all 64 bits count. Read from a number or a string, always written as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(pub u64);

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
    /// What it looks like, where it could be decoded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub looks: Option<Looks>,
    /// The path of the original, when it stayed where it was instead of being copied into the store.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub linked: Option<String>,
}

/// A value that a new iteration may not have: which field, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// The field's name as callers write it.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
    /// What to do instead.
    pub hint: String,
}

/// The longest prompt, as typed, as sent, or negative.
pub const MAX_PROMPT_BYTES: usize = 256 * 1024;
/// The most that `parameters` may take as JSON; the largest ComfyUI workflows seen are 1 MB.
pub const MAX_PARAMETERS_BYTES: usize = 8 * 1024 * 1024;
/// The longest name: a model, sampler, title, tag and the like.
pub const MAX_NAME_BYTES: usize = 512;
/// The longest message, note or reason.
pub const MAX_NOTE_BYTES: usize = 64 * 1024;
/// The most LoRAs, tags or images of one iteration.
pub const MAX_LIST: usize = 64;
/// The largest width or height asked for.
pub const MAX_SIDE: u32 = 1_000_000;

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

impl Recipe {
    fn check(&self) -> Result<(), Invalid> {
        check_text("prompt", &self.prompt, MAX_PROMPT_BYTES)?;
        check_optional("promptSent", self.prompt_sent.as_deref(), MAX_PROMPT_BYTES)?;
        check_optional("negativePrompt", self.negative_prompt.as_deref(), MAX_PROMPT_BYTES)?;
        check_optional_name("model", self.model.as_deref())?;
        check_optional_name("modelHash", self.model_hash.as_deref())?;
        check_optional_name("sampler", self.sampler.as_deref())?;
        check_optional_name("scheduler", self.scheduler.as_deref())?;
        check_optional_name("provider", self.provider.as_deref())?;
        check_side("width", self.width)?;
        check_side("height", self.height)?;
        check_number("guidanceScale", self.guidance_scale, -1e6, 1e6)?;
        check_number("denoise", self.denoise, 0.0, 1.0)?;
        check_count("loras", self.loras.len())?;
        for lora in &self.loras {
            check_name("loras.name", &lora.name)?;
            check_number("loras.weight", Some(lora.weight), -1e6, 1e6)?;
        }
        let bytes = serde_json::to_string(&self.parameters).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(too_long("parameters", bytes, MAX_PARAMETERS_BYTES));
        }
        Ok(())
    }
}

/// Checks a name that must be there: a currency, a tag, a title.
pub fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.trim().is_empty() {
        return Err(Invalid {
            field,
            problem: "is empty".to_owned(),
            hint: "leave it out, or give it a value".to_owned(),
        });
    }
    check_text(field, text, MAX_NAME_BYTES)?;
    if text.contains(['\n', '\r']) {
        return Err(Invalid { field, problem: "has a line break".to_owned(), hint: "keep it on one line".to_owned() });
    }
    Ok(())
}

/// Checks a name that may be absent.
pub fn check_optional_name(field: &'static str, text: Option<&str>) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| check_name(field, text))
}

/// Checks a longer text: its length, and that it holds no control characters but line breaks and tabs.
pub fn check_text(field: &'static str, text: &str, most: usize) -> Result<(), Invalid> {
    if text.len() > most {
        return Err(too_long(field, text.len(), most));
    }
    match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        Some(found) => Err(Invalid {
            field,
            problem: format!("has the control character U+{:04X}", u32::from(found)),
            hint: "remove it: only line breaks and tabs are allowed".to_owned(),
        }),
        None => Ok(()),
    }
}

/// Checks that a list is not absurdly long.
pub fn check_count(field: &'static str, count: usize) -> Result<(), Invalid> {
    if count > MAX_LIST {
        return Err(Invalid {
            field,
            problem: format!("has {count} entries, and at most {MAX_LIST} are allowed"),
            hint: "put the rest into `parameters`, or into another iteration".to_owned(),
        });
    }
    Ok(())
}

fn check_optional(field: &'static str, text: Option<&str>, most: usize) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| check_text(field, text, most))
}

fn check_side(field: &'static str, side: Option<u32>) -> Result<(), Invalid> {
    match side {
        Some(side) if side == 0 || side > MAX_SIDE => {
            Err(Invalid { field, problem: format!("is {side}"), hint: format!("give pixels, from 1 to {MAX_SIDE}") })
        }
        _ => Ok(()),
    }
}

fn check_number(field: &'static str, number: Option<f64>, least: f64, most: f64) -> Result<(), Invalid> {
    match number {
        Some(number) if !(least..=most).contains(&number) => Err(Invalid {
            field,
            problem: format!("is {number}"),
            hint: format!("give a number from {least} to {most}"),
        }),
        _ => Ok(()),
    }
}

fn too_long(field: &'static str, bytes: usize, most: usize) -> Invalid {
    Invalid {
        field,
        problem: format!("is {bytes} bytes long, and at most {most} are allowed"),
        hint: "keep the text itself in a file, and its path or hash in `parameters`".to_owned(),
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seed, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Seed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a seed: a whole number from 0 to 18446744073709551615, as a number or a string")
            }

            fn visit_u64<E>(self, seed: u64) -> Result<Seed, E> {
                Ok(Seed(seed))
            }

            fn visit_i64<E: serde::de::Error>(self, seed: i64) -> Result<Seed, E> {
                u64::try_from(seed).map(Seed).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(seed), &self))
            }

            fn visit_str<E: serde::de::Error>(self, seed: &str) -> Result<Seed, E> {
                let digits = seed.bytes().all(|byte| byte.is_ascii_digit());
                match seed.parse() {
                    Ok(number) if digits => Ok(Seed(number)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(seed), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
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
    fn seeds_keep_all_64_bits() {
        for json in ["18446744073709551615", "\"18446744073709551615\""] {
            let seed: Seed = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&seed).unwrap(), "\"18446744073709551615\"");
        }
        for json in [
            "-1",
            "1.5",
            "\"\"",
            "\"-1\"",
            "\"+1\"",
            "\"1e3\"",
            "18446744073709551616",
            "\"18446744073709551616\"",
            "null",
        ] {
            assert!(serde_json::from_str::<Seed>(json).is_err(), "{json}");
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
