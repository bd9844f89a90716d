//! RuinedFooocus: JSON in `parameters` that names its software.

use serde_json::Value;

use super::Generator;
use super::container::Texts;
use super::fields::{self, Fields, at, string};

const KNOWN: &[&str] = &[
    "Prompt",
    "Negative",
    "steps",
    "cfg",
    "width",
    "height",
    "seed",
    "sampler_name",
    "scheduler",
    "base_model_hash",
    "denoise",
];

/// Reads RuinedFooocus's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let index = texts.png("parameters").or_else(|| texts.exif("UserComment"))?;
    let record = texts.json(index)?.as_object()?;
    if record.get("software")? != "RuinedFooocus" {
        return None;
    }
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::RuinedFooocus, at(index, "`software`"));
    fields.prompt(at(index, "`Prompt`"), &text("Prompt"));
    fields.negative(at(index, "`Negative`"), &text("Negative"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`cfg`"), value("cfg"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    fields.sampler(at(index, "`sampler_name`"), &text("sampler_name"));
    fields.scheduler(at(index, "`scheduler`"), &text("scheduler"));
    fields.denoise(at(index, "`denoise`"), value("denoise"));
    let name = text("base_model_name");
    if !name.is_empty() {
        fields.model(at(index, "`base_model_name`"), &name, None);
    }
    fields.model_hash(at(index, "`base_model_hash`"), &text("base_model_hash"));
    for lora in value("loras").as_array().into_iter().flatten() {
        // [hash, "weight - name"] or {name, weight}
        let (name, weight) = match lora {
            Value::Object(lora) => (string(lora, "name"), lora.get("weight").and_then(fields::number)),
            Value::Array(pair) => match pair.get(1).and_then(Value::as_str).and_then(|text| text.split_once(" - ")) {
                Some((weight, name)) => (Some(name.to_owned()), weight.trim().parse().ok()),
                None => (None, None),
            },
            _ => (None, None),
        };
        if let (Some(name), Some(weight)) = (name, weight) {
            fields.lora(at(index, "`loras`"), &name, weight);
        }
    }
    fields.parameters_but(record, KNOWN);
    Some(fields)
}
