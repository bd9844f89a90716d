//! NovelAI: PNG keywords with JSON in `Comment`; in WebP the same as one JSON in UserComment, and the same hidden in
//! the pixels. The prompts of single characters are only in `v4_prompt`, which is kept in full.

use serde_json::{Map, Value};

use super::container::Texts;
use super::fields::{Fields, at, string};
use super::{Generator, json};

const KNOWN: &[&str] =
    &["prompt", "uc", "seed", "steps", "scale", "sampler", "noise_schedule", "width", "height", "strength"];

/// Reads NovelAI's metadata.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    keywords(texts).or_else(|| (0..texts.raw.len()).find_map(|index| bundled(texts, index)))
}

fn keywords(texts: &Texts) -> Option<Fields> {
    let comment = texts.png("Comment")?;
    let record = texts.json(comment)?.as_object()?;
    let software = texts.png("Software").filter(|index| texts.text(*index).starts_with("NovelAI"));
    let signed = || (record.contains_key("uc") && record.contains_key("scale")).then_some(comment);
    let mut fields = Fields::of(Generator::NovelAi, at(software.or_else(signed)?, "`Software`, or `uc` and `scale`"));
    fill(record, comment, &mut fields);
    if let Some(index) = texts.png("Description") {
        fields.prompt(at(index, "`Description`"), texts.text(index));
    }
    if let Some(index) = texts.png("Source") {
        source(texts.text(index), index, "`Source`", &mut fields);
    }
    if let Some(index) = texts.png("Generation time") {
        fields.parameter("Generation time", texts.text(index).into());
    }
    Some(fields)
}

/// Reads the keywords from one JSON, with JSON in its `Comment`.
fn bundled(texts: &Texts, index: usize) -> Option<Fields> {
    let record = texts.json_with(index, &["\"Comment\""])?.as_object()?;
    let comment = match record.get("Comment")? {
        Value::String(text) => json::parse(text)?,
        comment => comment.clone(),
    };
    let comment =
        comment.as_object().filter(|comment| comment.contains_key("uc") || comment.contains_key("v4_prompt"))?;
    let mut fields = Fields::of(Generator::NovelAi, at(index, "its keywords in one JSON"));
    fill(comment, index, &mut fields);
    fields.prompt(at(index, "`Description`"), &string(record, "Description").unwrap_or_default());
    source(&string(record, "Source").unwrap_or_default(), index, "`Source`", &mut fields);
    if let Some(tag) = texts.exif("Software") {
        source(texts.text(tag), tag, "`Software`", &mut fields);
    }
    Some(fields)
}

fn fill(record: &Map<String, Value>, index: usize, fields: &mut Fields) {
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let caption = |key: &str| value(key).pointer("/caption/base_caption").and_then(Value::as_str).unwrap_or_default();
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.prompt(at(index, "`v4_prompt`, its base caption"), caption("v4_prompt"));
    fields.negative(at(index, "`uc`"), &text("uc"));
    fields.negative(at(index, "`v4_negative_prompt`, its base caption"), caption("v4_negative_prompt"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`scale`"), value("scale"));
    fields.sampler(at(index, "`sampler`"), &text("sampler"));
    fields.scheduler(at(index, "`noise_schedule`"), &text("noise_schedule"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    let request = text("request_type");
    fields.evidence.from_image =
        ["Img2Img", "Image2Image", "Infill", "Inpaint"].iter().any(|part| request.contains(part))
            || (request.is_empty() && !value("strength").is_null());
    if !fields.denoise(at(index, "`strength`"), value("strength")) {
        fields.parameter("strength", value("strength").clone());
    }
    fields.parameters_but(record, KNOWN);
}

/// Parses `NovelAI Diffusion V4.5 C02D4F98`: a name that ends with a hash.
fn source(text: &str, index: usize, rule: &str, fields: &mut Fields) {
    fields.model(at(index, rule), text, None);
    let hash =
        text.rsplit(' ').next().filter(|hash| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    fields.model_hash(at(index, format!("{rule}, its last word")), hash.unwrap_or_default());
}
