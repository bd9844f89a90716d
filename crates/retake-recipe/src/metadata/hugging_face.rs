//! Hugging Face Spaces that use diffusers: JSON in `parameters` with diffusers' names.

use serde_json::Value;

use super::container::Texts;
use super::fields::{Fields, at, string};
use super::{Generator, a1111};

const KNOWN: &[&str] = &[
    "prompt",
    "negative_prompt",
    "resolution",
    "guidance_scale",
    "num_inference_steps",
    "seed",
    "sampler",
    "Model hash",
    "width",
    "height",
];

/// Reads the record of a Space.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let index = texts.png("parameters").or_else(|| texts.exif("UserComment"))?;
    let record = texts.json(index)?.as_object()?;
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    if !(record.contains_key("num_inference_steps") && record.get("prompt").is_some_and(Value::is_string)) {
        return None;
    }
    let mut fields =
        Fields::of(Generator::HuggingFaceSpace, at(index, "`prompt` and `num_inference_steps` in one JSON"));
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negative_prompt`"), &text("negative_prompt"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`num_inference_steps`"), value("num_inference_steps"));
    fields.guidance(at(index, "`guidance_scale`"), value("guidance_scale"));
    fields.sampler(at(index, "`sampler`"), &text("sampler"));
    if let Some((width, height)) = a1111::size(&text("resolution")) {
        fields.size(at(index, "`resolution`"), &width.into(), &height.into());
    }
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    for key in ["Model", "model"] {
        fields.model(at(index, format!("`{key}`")), &text(key), None);
    }
    fields.model_hash(at(index, "`Model hash`"), &text("Model hash"));
    fields.parameters_but(record, KNOWN);
    Some(fields)
}
