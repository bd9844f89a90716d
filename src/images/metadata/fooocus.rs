//! Fooocus: `parameters` with `fooocus_scheme`, or UserComment with the scheme in MakerNote. The scheme `a1111` is A1111's
//! text. Files hold it only where the user turned it on.

use serde_json::{Map, Value};

use super::container::Texts;
use super::fields::{self, Fields, at, string};
use super::{Generator, a1111};

const KNOWN: &[&str] = &[
    "prompt",
    "negative_prompt",
    "full_prompt",
    "seed",
    "steps",
    "guidance_scale",
    "sampler",
    "scheduler",
    "base_model",
    "base_model_hash",
    "resolution",
];

/// Reads Fooocus's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let software = |text: &str| text.starts_with("Fooocus");
    let marked =
        texts.png("fooocus_scheme").or_else(|| texts.exif("Software").filter(|tag| software(texts.text(*tag))));
    let index = texts.png("parameters").or_else(|| texts.exif("UserComment"))?;
    let Some(Value::Object(record)) = texts.json(index) else {
        let mut fields = marked.and_then(|_| a1111::read_text(texts, index))?;
        fields.known_as(Generator::Fooocus, at(marked?, "the scheme of its metadata"));
        return Some(fields);
    };
    let scheme = record.get("metadata_scheme").is_some_and(|scheme| scheme == "fooocus");
    let version = string(record, "version").is_some_and(|version| software(&version));
    if !(marked.is_some() || scheme || version) || !record.contains_key("base_model") {
        return None;
    }
    let mut fields = Fields::of(Generator::Fooocus, at(index, "its scheme of JSON"));
    fill(record, index, &mut fields);
    Some(fields)
}

fn fill(record: &Map<String, Value>, index: usize, fields: &mut Fields) {
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negative_prompt`"), &text("negative_prompt"));
    // What styles and expansion made of the prompt, one text for each encoder pass.
    let full: Vec<&str> = value("full_prompt").as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    fields.prompt_sent(at(index, "`full_prompt`"), &full.join("\n"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`guidance_scale`"), value("guidance_scale"));
    fields.sampler(at(index, "`sampler`"), &text("sampler"));
    fields.scheduler(at(index, "`scheduler`"), &text("scheduler"));
    fields.model(at(index, "`base_model`"), &text("base_model"), Some("base_model"));
    fields.model_hash(at(index, "`base_model_hash`"), &text("base_model_hash"));
    if let Some((width, height)) = resolution(&text("resolution")) {
        fields.size(at(index, "`resolution`"), &width.into(), &height.into());
    }
    for lora in value("loras").as_array().into_iter().flatten() {
        // [name, weight, hash]
        if let Some([Value::String(name), weight, ..]) = lora.as_array().map(Vec::as_slice) {
            fields.lora(at(index, "`loras`"), name, fields::number(weight).unwrap_or(1.0));
        }
    }
    fields.parameters_but(record, KNOWN);
}

/// `(768, 1280)`, a text of Python's.
fn resolution(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.trim_matches(['(', ')']).split_once(',')?;
    Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
}
