//! Parses argument values as clients and servers write them: numbers as text, sizes in four notations, lists of
//! prompts.

use serde_json::{Number, Value};

use crate::model::{Lora, Seed};

use super::keys::is_prompt_key;

/// Returns the texts in a value: itself, those of a list, or that of an object that represents an image.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(object) => {
            let keys = ["path", "url", "uri", "data", "base64", "image", "image_url", "b64_json"];
            keys.iter().find_map(|key| object.get(*key)).map(texts).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Returns the text if it is not blank.
pub(super) fn filled(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// Returns the prompts in a list of texts or objects.
pub(super) fn prompt_list(value: &Value) -> Option<Vec<String>> {
    let one = |item: &Value| match item {
        Value::Object(object) => object
            .iter()
            .find(|(name, value)| is_prompt_key(name) && value.is_string())
            .and_then(|(_, value)| filled(value)),
        other => filled(other),
    };
    let list: Option<Vec<String>> = value.as_array()?.iter().map(one).collect();
    list.filter(|list| !list.is_empty())
}

/// Parses a seed from a number or a text; -1 and similar values are not seeds.
pub(crate) fn seed(value: &Value) -> Option<Seed> {
    match value {
        Value::Number(number) => whole_number(number).map(Seed),
        Value::String(text) => text.trim().parse().ok().map(Seed),
        _ => None,
    }
}

/// Parses a whole number from a number or a text.
pub(super) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => whole_number(number),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn whole_number(number: &Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..9e15).contains(float))?;
        // Formatting is exact for whole numbers of this size, and a cast would need a lint exception.
        format!("{float:.0}").parse().ok()
    })
}

/// Parses a finite number from a number or a text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

/// Parses a size in pixels; an aspect ratio is not a size.
pub(super) fn size(value: &Value) -> Option<(u32, u32)> {
    let side = |value: &Value| whole(value).and_then(|side| u32::try_from(side).ok());
    let (width, height) = match value {
        Value::String(text) => {
            let (width, height) = text.trim().split_once(['x', 'X', '*', '×'])?;
            (width.trim().parse().ok()?, height.trim().parse().ok()?)
        }
        Value::Object(size) => (side(size.get("width")?)?, side(size.get("height")?)?),
        Value::Array(size) => match size.as_slice() {
            [width, height] => (side(width)?, side(height)?),
            _ => return None,
        },
        _ => return None,
    };
    // Smaller numbers are aspect ratios.
    (width >= 64 && height >= 64).then_some((width, height))
}

/// Parses a LoRA and its weight.
pub(super) fn lora(value: &Value) -> Option<Lora> {
    let object = value.as_object()?;
    let name =
        ["name", "path", "lora", "model", "id", "url"].iter().find_map(|key| object.get(*key).and_then(filled))?;
    let weight =
        ["weight", "scale", "strength", "strength_model"].iter().find_map(|key| object.get(*key).and_then(number));
    // Through JSON, so that new fields of LoRAs need no change here.
    serde_json::from_value(serde_json::json!({ "name": name, "weight": weight.unwrap_or(1.0) })).ok()
}
