//! Recipes: everything needed to make an image again, and the limits for new ones.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::fields::{self, FIELDS, Field, FieldValue, Kind};
use crate::for_each_recipe_field;

macro_rules! declare_recipe {
    ({} $($(#[$doc:meta])* $name:ident: $type:ty, $set:ty, $kind:ident $(($($bound:expr),*))?,
        $key:literal, $flag:literal, [$($alias:literal),*], $value:literal, $label:literal, $short:literal;)*) => {
        /// Everything needed to make an iteration again.
        ///
        /// Most fields are declared in [the table of fields](crate::fields).
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        pub struct Recipe {
            /// The prompt exactly as typed.
            pub prompt: String,
            $(
                $(#[$doc])*
                #[serde(rename = $key, skip_serializing_if = "Option::is_none", deserialize_with = "fields::optional")]
                pub $name: Option<$type>,
            )*
            /// The LoRAs with their weights, in the order in which they were applied.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub loras: Vec<Lora>,
            /// Every other parameter, verbatim.
            #[serde(skip_serializing_if = "Map::is_empty")]
            pub parameters: Map<String, Value>,
        }

        impl Recipe {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, value: $set) -> Recipe {
                    self.$name = Some(value.into());
                    self
                }
            )*

            /// Returns the declared fields with their values in this recipe, as JSON.
            pub fn values(&self) -> impl Iterator<Item = (&'static Field, Option<Value>)> {
                let values = [$(self.$name.as_ref().map(FieldValue::to_json)),*];
                FIELDS.iter().zip(values)
            }

            /// Returns the texts among the declared fields, for changing them in place.
            pub fn texts_mut(&mut self) -> Vec<(&'static Field, &mut String)> {
                let texts = [$(self.$name.as_mut().and_then(FieldValue::as_text_mut)),*];
                FIELDS.iter().zip(texts).filter_map(|(field, text)| Some((field, text?))).collect()
            }

            fn check_fields(&self) -> Result<(), Invalid> {
                let mut fields = FIELDS.iter();
                $(
                    if let (Some(field), Some(value)) = (fields.next(), &self.$name) {
                        value.check(field)?;
                    }
                )*
                Ok(())
            }
        }
    };
}

for_each_recipe_field!(declare_recipe {});

/// A LoRA and how strongly it was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Lora {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// Every other key that was recorded with it, such as `clipWeight` or `hash`, verbatim.
    // The schema allows further keys without naming them.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Map<String, Value>,
}

/// A 64-bit seed. Read from a number or a string, always written as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed(pub u64);

/// A value that violates the limits of a new iteration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// The field's name as callers write it.
    pub field: &'static str,
    /// What is wrong with its value.
    pub problem: String,
    /// What to do about it, in the imperative.
    pub hint: String,
}

/// The maximum size of a prompt, as typed, as sent, or negative.
pub const MAX_PROMPT_BYTES: usize = 256 * 1024;
/// The maximum size of `parameters` as JSON; the largest ComfyUI workflows we have seen take 1 MB.
pub const MAX_PARAMETERS_BYTES: usize = 8 * 1024 * 1024;
/// The maximum size of a name, such as a model, sampler, title or tag.
pub const MAX_NAME_BYTES: usize = 512;
/// The maximum size of a message, note or reason.
pub const MAX_NOTE_BYTES: usize = 64 * 1024;
/// The maximum number of LoRAs, tags or images of an iteration.
pub const MAX_LIST: usize = 64;
/// The maximum width or height.
pub const MAX_SIDE: u32 = 1_000_000;

impl Recipe {
    /// Creates a recipe with only this prompt.
    pub fn new(prompt: impl Into<String>) -> Recipe {
        Recipe { prompt: prompt.into(), ..Recipe::default() }
    }

    /// Returns the same recipe with another prompt.
    #[must_use]
    pub fn with_prompt(&self, prompt: impl Into<String>) -> Recipe {
        Recipe { prompt: prompt.into(), ..self.clone() }
    }

    /// Adds a LoRA.
    #[must_use]
    pub fn lora(mut self, name: impl Into<String>, weight: f64) -> Recipe {
        self.loras.push(Lora::new(name, weight));
        self
    }

    /// Sets a parameter without its own field.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<Value>) -> Recipe {
        self.parameters.insert(name.into(), value.into());
        self
    }

    /// Returns everything known besides the prompts, as labels and values for people; width and height are one line.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        for (field, value) in self.values().filter(|(field, _)| field.is_parameter()) {
            match (field.kind, self.width, self.height) {
                (Kind::Side, Some(width), Some(height)) => {
                    if field.key == "width" {
                        facts.push(("Size", format!("{width} × {height}")));
                    }
                }
                _ => facts.extend(value.map(|value| (field.label, plain_text(&value)))),
            }
            if field.key == "denoise" && !self.loras.is_empty() {
                let loras = self.loras.iter().map(Lora::to_string);
                facts.push(("LoRAs", loras.collect::<Vec<_>>().join(", ")));
            }
        }
        facts
    }

    /// Checks the limits for a new recipe.
    pub fn check(&self) -> Result<(), Invalid> {
        check_text("prompt", &self.prompt, MAX_PROMPT_BYTES)?;
        self.check_fields()?;
        check_count("loras", self.loras.len())?;
        for lora in &self.loras {
            check_name("loras.name", &lora.name)?;
            check_number("loras.weight", Some(lora.weight), -1e6, 1e6)?;
        }
        let extra: usize = self.loras.iter().filter(|lora| !lora.extra.is_empty()).map(Lora::extra_bytes).sum();
        if extra > MAX_NOTE_BYTES {
            return Err(too_long("loras", extra, MAX_NOTE_BYTES));
        }
        let bytes = serde_json::to_string(&self.parameters).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_PARAMETERS_BYTES {
            return Err(too_long("parameters", bytes, MAX_PARAMETERS_BYTES));
        }
        Ok(())
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Lora {
    /// Creates a LoRA with this weight.
    pub fn new(name: impl Into<String>, weight: f64) -> Lora {
        Lora { name: name.into(), weight, extra: Map::new() }
    }

    fn extra_bytes(&self) -> usize {
        serde_json::to_string(&self.extra).map_or(usize::MAX, |text| text.len())
    }

    /// Sets a key besides the name and the weight, such as `clipWeight` or `hash`.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Lora {
        self.extra.insert(key.into(), value.into());
        self
    }
}

/// Formats the name and the weight, then the other keys in parentheses.
impl fmt::Display for Lora {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.weight)?;
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(key, value)| format!("{key} {}", plain_text(value)));
            write!(f, " ({})", extra.collect::<Vec<_>>().join(", "))?;
        }
        Ok(())
    }
}

/// Checks a required name, such as a currency, a tag or a title.
pub fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.trim().is_empty() {
        return Err(Invalid {
            field,
            problem: "is empty".to_owned(),
            hint: "leave it out, or pass a value".to_owned(),
        });
    }
    check_text(field, text, MAX_NAME_BYTES)?;
    if text.contains(['\n', '\r']) {
        return Err(Invalid { field, problem: "has a line break".to_owned(), hint: "keep it on one line".to_owned() });
    }
    Ok(())
}

/// Checks an optional name.
pub fn check_optional_name(field: &'static str, text: Option<&str>) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| check_name(field, text))
}

/// Checks the length of a text, and that its only control characters are line breaks and tabs.
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

/// Checks that a list has at most [`MAX_LIST`] entries.
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

/// Checks that an optional number lies within bounds.
pub fn check_number(field: &'static str, number: Option<f64>, least: f64, most: f64) -> Result<(), Invalid> {
    match number {
        Some(number) if !(least..=most).contains(&number) => Err(Invalid {
            field,
            problem: format!("is {number}: expected a number from {least} to {most}"),
            hint: "correct it, or leave it out".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn too_long(field: &'static str, bytes: usize, most: usize) -> Invalid {
    Invalid {
        field,
        problem: format!("is {bytes} bytes long, and at most {most} are allowed"),
        hint: "shorten it, or keep the text itself in a file".to_owned(),
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Seed {
        Seed(seed)
    }
}

impl FromStr for Seed {
    type Err = ParseSeedError;

    fn from_str(text: &str) -> Result<Seed, ParseSeedError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Seed).ok_or(ParseSeedError)
    }
}

/// The error for a text that is not a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number from 0 to 18446744073709551615")]
pub struct ParseSeedError;

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
        struct SeedVisitor;
        impl serde::de::Visitor<'_> for SeedVisitor {
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

            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole and in range"
            )]
            fn visit_f64<E: serde::de::Error>(self, seed: f64) -> Result<Seed, E> {
                // Above 2^53, a float no longer represents a unique seed.
                if seed.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&seed) {
                    return Ok(Seed(seed as u64));
                }
                Err(E::invalid_value(serde::de::Unexpected::Float(seed), &self))
            }

            fn visit_str<E: serde::de::Error>(self, seed: &str) -> Result<Seed, E> {
                seed.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(seed), &self))
            }
        }
        deserializer.deserialize_any(SeedVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loras_keep_the_keys_that_have_no_field() {
        let json = r#"{"prompt":"a","loras":[{"name":"fur","weight":0.8,"clipWeight":0.5,"hash":"1f"},{"name":"b","weight":1.0}]}"#;
        let recipe: Recipe = serde_json::from_str(json).unwrap();
        assert_eq!(
            recipe.loras,
            [Lora::new("fur", 0.8).with("clipWeight", 0.5).with("hash", "1f"), Lora::new("b", 1.0)]
        );
        assert_eq!(serde_json::to_string(&recipe).unwrap(), json);
        assert_eq!(recipe.facts(), [("LoRAs", "fur 0.8 (clipWeight 0.5, hash 1f), b 1".to_owned())]);
        assert_eq!(recipe.check(), Ok(()));
        let long = Recipe { loras: vec![Lora::new("a", 1.0).with("x", "y".repeat(MAX_NOTE_BYTES))], ..recipe };
        assert_eq!(long.check().unwrap_err().field, "loras");
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
}
