//! The table of recipe fields: the only place where a field is declared.
//!
//! [`for_each_recipe_field!`](crate::for_each_recipe_field) passes the table to another macro, which generates code
//! from it: the struct [`Recipe`](crate::Recipe) with its setters, limits and JSON, the request that records one, and
//! the flags of the command line. Code that only needs to iterate over the fields at run time uses [`FIELDS`] and
//! [`Recipe::values`](crate::Recipe::values): diffs, pages, exports and error messages.
//!
//! `prompt`, `loras` and `parameters` are not in the table, since each has its own structure.

use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::recipe::{Invalid, MAX_PROMPT_BYTES, MAX_SIDE, Seed, check_name, check_number, check_text};

/// Calls the macro `$then` with `{ $with }` and one row for each optional recipe field.
///
/// A row reads: documentation, name and type, the type its setter takes, kind ([`Kind`]), JSON key, flag,
/// further flag, placeholder of the flag's value, label on pages, and name in a one-line diff.
#[macro_export]
macro_rules! for_each_recipe_field {
    ($then:ident { $($with:tt)* }) => {
        $then! {
            { $($with)* }
            /// The prompt as sent, if it was expanded or rewritten on the way.
            prompt_sent: String, impl Into<String>, Prompt,
                "promptSent", "prompt-sent", [], "TEXT", "Prompt as sent", "promptSent";
            /// What the image should not show.
            negative_prompt: String, impl Into<String>, Prompt,
                "negativePrompt", "negative-prompt", [], "TEXT", "Negative prompt", "negativePrompt";
            /// The model's name.
            model: String, impl Into<String>, Name,
                "model", "model", [], "NAME", "Model", "model";
            /// The model file's hash, as the generator writes it.
            model_hash: String, impl Into<String>, Name,
                "modelHash", "model-hash", [], "HASH", "Model hash", "modelHash";
            /// The seed: a whole number from 0 to 18446744073709551615, as a number or (so that no digit is lost) a string.
            seed: $crate::Seed, impl Into<$crate::Seed>, Seed,
                "seed", "seed", [], "N", "Seed", "seed";
            /// The number of sampling steps.
            steps: u32, u32, Count,
                "steps", "steps", [], "N", "Steps", "steps";
            /// The CFG or guidance scale.
            guidance_scale: f64, f64, Number(-1e6, 1e6),
                "guidanceScale", "guidance-scale", ["cfg"], "X", "CFG", "cfg";
            /// The sampler.
            sampler: String, impl Into<String>, Name,
                "sampler", "sampler", [], "NAME", "Sampler", "sampler";
            /// The scheduler.
            scheduler: String, impl Into<String>, Name,
                "scheduler", "scheduler", [], "NAME", "Scheduler", "scheduler";
            /// The requested width in pixels.
            width: u32, u32, Side,
                "width", "width", [], "PIXELS", "Width", "width";
            /// The requested height in pixels.
            height: u32, u32, Side,
                "height", "height", [], "PIXELS", "Height", "height";
            /// The denoising strength, from 0 to 1.
            denoise: f64, f64, Number(0.0, 1.0),
                "denoise", "denoise", [], "X", "Denoise", "denoise";
            /// The provider or tool that made the image.
            provider: String, impl Into<String>, Name,
                "provider", "provider", [], "NAME", "Made with", "provider";
        }
    };
}

/// A declared field of a recipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its key in JSON, which is also its name in messages and diffs.
    pub key: &'static str,
    /// Its flag at the command line, without the dashes.
    pub flag: &'static str,
    /// Its label on pages and in exports.
    pub label: &'static str,
    /// Its name in a one-line diff.
    pub short: &'static str,
    /// The kind of its value.
    pub kind: Kind,
}

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A long text, compared tag by tag or word by word.
    Prompt,
    /// A short text on one line.
    Name,
    /// A seed; if nothing else changes, the step is a reroll.
    Seed,
    /// A whole number.
    Count,
    /// A number of pixels, at least 1.
    Side,
    /// A number between two bounds.
    Number(f64, f64),
}

macro_rules! list_fields {
    ({} $($(#[$doc:meta])* $name:ident: $type:ty, $set:ty, $kind:ident $(($($bound:expr),*))?,
        $key:literal, $flag:literal, [$($alias:literal),*], $value:literal, $label:literal, $short:literal;)*) => {
        /// The declared fields, in the order in which recipes show them.
        pub const FIELDS: &[Field] = &[$(
            Field { key: $key, flag: $flag, label: $label, short: $short, kind: Kind::$kind $(($($bound),*))? },
        )*];
    };
}

for_each_recipe_field!(list_fields {});

impl Field {
    /// Returns the declared field with this JSON key.
    pub fn by_key(key: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.key == key)
    }

    /// Returns whether it is a name or a number, as opposed to a prompt.
    pub fn is_parameter(&self) -> bool {
        self.kind != Kind::Prompt
    }
}

/// A type of field values.
pub trait FieldValue: Sized {
    /// Returns the value as JSON.
    fn to_json(&self) -> Value;

    /// Returns the value as a mutable text, if it is one.
    fn as_text_mut(&mut self) -> Option<&mut String> {
        None
    }

    /// Checks the value against the limits of its field.
    fn check(&self, field: &Field) -> Result<(), Invalid>;

    /// Deserialises the value leniently: `30.0` is a whole number too.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl FieldValue for String {
    fn to_json(&self) -> Value {
        Value::from(self.as_str())
    }

    fn as_text_mut(&mut self) -> Option<&mut String> {
        Some(self)
    }

    fn check(&self, field: &Field) -> Result<(), Invalid> {
        match field.kind {
            Kind::Prompt => check_text(field.key, self, MAX_PROMPT_BYTES),
            _ => check_name(field.key, self),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)
    }
}

impl FieldValue for Seed {
    fn to_json(&self) -> Value {
        Value::from(self.to_string())
    }

    fn check(&self, _: &Field) -> Result<(), Invalid> {
        Ok(())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed::deserialize(deserializer)
    }
}

impl FieldValue for f64 {
    fn to_json(&self) -> Value {
        Number::from_f64(*self).map_or(Value::Null, Value::from)
    }

    fn check(&self, field: &Field) -> Result<(), Invalid> {
        match field.kind {
            Kind::Number(least, most) => check_number(field.key, Some(*self), least, most),
            _ => Ok(()),
        }
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer)
    }
}

impl FieldValue for u32 {
    fn to_json(&self) -> Value {
        Value::from(*self)
    }

    fn check(&self, field: &Field) -> Result<(), Invalid> {
        if field.kind == Kind::Side && !(1..=MAX_SIDE).contains(self) {
            return Err(Invalid {
                field: field.key,
                problem: format!("is {self}: expected a number of pixels from 1 to {MAX_SIDE}"),
                hint: "correct it, or leave it out".to_owned(),
            });
        }
        Ok(())
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole(deserializer)
    }
}

/// Deserialises an optional field; for `#[serde(deserialize_with)]`.
pub fn optional<'de, T: FieldValue, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct OptionalField<T>(T);
    impl<'de, T: FieldValue> Deserialize<'de> for OptionalField<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            T::read(deserializer).map(OptionalField)
        }
    }
    Ok(Option::<OptionalField<T>>::deserialize(deserializer)?.map(|value| value.0))
}

/// Deserialises a whole number, including one written as a float, such as `30.0`; for `#[serde(deserialize_with)]`.
pub fn whole<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: TryFrom<u64>,
    D: Deserializer<'de>,
{
    struct WholeVisitor<T>(std::marker::PhantomData<T>);
    impl<T: TryFrom<u64>> serde::de::Visitor<'_> for WholeVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let bits = 8 * size_of::<T>();
            let most = u64::MAX.checked_shr(64_u32.saturating_sub(u32::try_from(bits).unwrap_or(64))).unwrap_or(0);
            write!(f, "a whole number from 0 to {most}")
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
            T::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
            match u64::try_from(number) {
                Ok(number) => self.visit_u64(number),
                Err(_) => Err(E::invalid_value(serde::de::Unexpected::Signed(number), &self)),
            }
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
        fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
            // Above 2^53, a float no longer represents a unique whole number.
            if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
                return self.visit_u64(number as u64);
            }
            Err(E::invalid_value(serde::de::Unexpected::Float(number), &self))
        }
    }
    deserializer.deserialize_any(WholeVisitor(std::marker::PhantomData))
}

/// Deserialises an optional whole number as [`whole`] does; for `#[serde(deserialize_with)]`.
pub fn optional_whole<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: TryFrom<u64>,
    D: Deserializer<'de>,
{
    struct WholeNumber<T>(T);
    impl<'de, T: TryFrom<u64>> Deserialize<'de> for WholeNumber<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            whole(deserializer).map(WholeNumber)
        }
    }
    Ok(Option::<WholeNumber<T>>::deserialize(deserializer)?.map(|value| value.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recipe;

    #[test]
    fn whole_numbers_may_be_written_as_floats() {
        let read = |json: &str| serde_json::from_str::<Recipe>(json).map(|recipe| recipe.steps);
        assert_eq!(read(r#"{"steps":30.0}"#).unwrap(), Some(30));
        assert_eq!(read(r#"{"steps":30}"#).unwrap(), Some(30));
        assert_eq!(read(r#"{"steps":null}"#).unwrap(), None);
        assert_eq!(read("{}").unwrap(), None);
        for json in [r#"{"steps":30.5}"#, r#"{"steps":-1}"#, r#"{"steps":4294967296}"#, r#"{"steps":"30"}"#] {
            let error = read(json).unwrap_err().to_string();
            assert!(error.contains("a whole number from 0 to 4294967295"), "{error}");
        }
    }

    #[test]
    fn keys_and_flags_are_unique() {
        for names in
            [FIELDS.iter().map(|field| field.key).collect::<Vec<_>>(), FIELDS.iter().map(|field| field.flag).collect()]
        {
            let distinct: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(distinct.len(), names.len());
        }
    }
}
