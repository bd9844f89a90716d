//! Fooocus and FooocusPlus: `parameters` with `fooocus_scheme`, or UserComment with the scheme in MakerNote. The scheme
//! `a1111` is A1111's text. Files only contain metadata if the user enabled it; otherwise it is in the `log.html` of
//! the folder, in the button that copies the settings of an image.

use serde_json::{Map, Value};

use super::container::Texts;
use super::fields::{self, Fields, at, string};
use super::{Generator, a1111, json};

/// The sidecar file that Fooocus writes for the images of a folder.
pub(super) const LOG: &str = "log.html";

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

/// Returns the settings in a log for the image of this name, and their offset.
pub(super) fn logged(log: &str, name: &str) -> Option<(u64, String)> {
    const BUTTON: &str = "to_clipboard('";
    let item = format!("<div id=\"{}\" class=\"image-container\">", name.replace('.', "_"));
    let from = log.find(&item)?;
    let inside = log.get(from + item.len()..)?;
    // The rest belongs to the next image.
    let inside = inside.get(..inside.find("<div id=\"").unwrap_or(inside.len()))?;
    let button = inside.find(BUTTON)? + BUTTON.len();
    let text = unquoted(inside.get(button..)?.split('\'').next()?)?;
    let offset = u64::try_from(from + item.len() + button).ok()?;
    json::parse(&text).is_some_and(|record| record.is_object()).then_some((offset, text))
}

/// Reads Fooocus's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    if let Some(index) = texts.beside(LOG) {
        let mut fields = Fields::of(Generator::Fooocus, at(index, "its log beside the image"));
        // Older logs use labels as names.
        fill(&by_name(texts.json(index)?.as_object()?), index, &mut fields);
        return Some(fields);
    }
    let software = |text: &str| text.starts_with("Fooocus");
    if let Some(fields) = simple(texts) {
        return Some(fields);
    }
    let marked =
        texts.png("fooocus_scheme").or_else(|| texts.exif("Software").filter(|tag| software(texts.text(*tag))));
    let index = texts.png("parameters").or_else(|| texts.exif("UserComment"))?;
    let Some(Value::Object(record)) = texts.json(index) else {
        let mut fields = marked.and_then(|_| a1111::read_text(texts, index))?;
        typed(texts.text(index), index, &mut fields);
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

/// Replaces the prompts of A1111's text, which have the styles in them, by those that were typed.
fn typed(text: &str, index: usize, fields: &mut Fields) {
    let Some(parsed) = a1111::parse(text) else { return };
    let pair = |key: &str| parsed.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str());
    let (Some(prompt), negative) = (pair("Raw prompt"), pair("Raw negative prompt")) else { return };
    if prompt.trim().is_empty() {
        return;
    }
    let sent = std::mem::take(&mut fields.recipe.prompt);
    fields.recipe.negative_prompt = None;
    fields.sources.retain(|source| !["prompt", "negativePrompt"].contains(&source.field));
    fields.prompt(at(index, "`Raw prompt`"), prompt);
    fields.prompt_sent(at(index, "the first lines"), &sent);
    fields.negative(at(index, "`Raw negative prompt`"), negative.unwrap_or_default());
}

/// Reads FooocusPlus's own scheme: display labels as names, in a PNG under `Comment`.
fn simple(texts: &Texts) -> Option<Fields> {
    let index = texts.png("Comment").or_else(|| texts.exif("UserComment"))?;
    let record = texts.json(index)?.as_object()?;
    if !(record.contains_key("Base Model") && record.contains_key("Metadata Scheme")) {
        return None;
    }
    let mut fields = Fields::of(Generator::FooocusPlus, at(index, "`Metadata Scheme` and `Base Model`"));
    fill(&by_name(record), index, &mut fields);
    Some(fields)
}

/// Returns a record with names instead of labels: `base_model` for `Base Model`.
fn by_name(record: &Map<String, Value>) -> Map<String, Value> {
    record.iter().map(|(key, value)| (key.to_lowercase().replace(' ', "_"), value.clone())).collect()
}

fn fill(record: &Map<String, Value>, index: usize, fields: &mut Fields) {
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negative_prompt`"), &text("negative_prompt"));
    // The prompt after styles and expansion, one text for each encoder pass.
    let full: Vec<&str> = match value("full_prompt") {
        Value::String(full) => vec![full],
        full => full.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
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
    // `name.safetensors : 0.5`
    for combined in record.iter().filter(|(key, _)| key.starts_with("lora_")).filter_map(|(_, it)| it.as_str()) {
        if let Some((name, weight)) = combined.rsplit_once(" : ") {
            fields.lora(at(index, "`lora_combined`"), name, weight.trim().parse().unwrap_or(1.0));
        }
    }
    fields.parameters_but(record, KNOWN);
}

/// Decodes percent-encoding.
fn unquoted(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(high)? << 4 | digit(low)?);
                rest = tail;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Parses `(768, 1280)`, as Python prints a pair; newer versions write `768×1280`.
fn resolution(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.trim_matches(['(', ')']).split_once([',', '×', 'x'])?;
    Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
}
