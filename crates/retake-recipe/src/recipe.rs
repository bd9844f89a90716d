//! Recipes: everything needed to make an image again, and the limits a new one must keep.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

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

impl Recipe {
    /// Checks the limits that a new recipe must keep.
    pub fn check(&self) -> Result<(), Invalid> {
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

/// Checks the length and characters of an optional text.
pub fn check_optional(field: &'static str, text: Option<&str>, most: usize) -> Result<(), Invalid> {
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

/// Checks that an optional number lies within bounds.
pub fn check_number(field: &'static str, number: Option<f64>, least: f64, most: f64) -> Result<(), Invalid> {
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
}
