//! Writes a recipe as A1111's text, which every tool can read: for the copy button and for exported images.
//!
//! Parameters whose names or sizes do not fit the format are left out. LoRAs that are not in the prompt are appended to
//! it as `<lora:…>`, since that is where A1111 looks for them.

use std::fmt::Write;

use serde_json::Value;

use super::a1111::{self, APP, PROVIDER};
use crate::Recipe;

/// The maximum length of a parameter; whole graphs are left out.
const LONGEST: usize = 2000;

/// Returns the recipe as A1111 would write it.
pub fn a1111_text(recipe: &Recipe) -> String {
    let mut text = recipe.prompt.trim().to_owned();
    let named = a1111::loras(&recipe.prompt);
    for lora in recipe.loras.iter().filter(|lora| !named.contains(&(lora.name.as_str(), lora.weight))) {
        let _ = write!(text, "\n<lora:{}:{}>", lora.name, lora.weight);
    }
    if let Some(negative) = &recipe.negative_prompt {
        let _ = write!(text, "\nNegative prompt: {}", negative.trim());
    }
    let size = recipe.width.zip(recipe.height).map(|(width, height)| format!("{width}x{height}"));
    let number = |number: Option<f64>| number.map(|number| number.to_string());
    let name = |name: &Option<String>| name.as_deref().map(quoted);
    let fields = [
        ("Steps", recipe.steps.map(|steps| steps.to_string())),
        ("Sampler", name(&recipe.sampler)),
        ("Schedule type", name(&recipe.scheduler)),
        ("CFG scale", number(recipe.guidance_scale)),
        ("Seed", recipe.seed.map(|seed| seed.to_string())),
        ("Size", size),
        ("Model hash", name(&recipe.model_hash)),
        ("Model", name(&recipe.model)),
        ("Denoising strength", number(recipe.denoise)),
    ];
    let known = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let taken = |key: &str| a1111::FIELDS.contains(&key) || [APP, PROVIDER].contains(&key);
    let others = recipe.parameters.iter().filter(|(key, _)| !taken(key)).filter_map(|(key, value)| {
        let value = written(value).filter(|value| value.len() <= LONGEST)?;
        a1111::is_key(key).then_some((key.as_str(), value))
    });
    let by = name(&recipe.provider).map(|provider| (PROVIDER, provider));
    let pairs = known.chain(others).chain(by).chain([(APP, "Retake".to_owned())]);
    let line: Vec<String> = pairs.map(|(key, value)| format!("{key}: {value}")).collect();
    text.push('\n');
    text.push_str(&line.join(", "));
    text
}

fn written(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(quoted(text)),
        value => Some(value.to_string()),
    }
}

/// Quotes a value that would otherwise be cut short or misread.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text.trim() == text
        && !text.contains([',', ':', '\n', '\r', '"'])
        && !text.starts_with(['{', '['])
        && super::fields::verbatim(text).is_string();
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}
