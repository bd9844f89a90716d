//! TensorArt: `generation_data`, in which the seed may be -1, and the graph, which has the actual one.

use serde_json::Value;

use super::container::Texts;
use super::fields::{self, Fields, at, string};
use super::{Generator, comfyui};

const KNOWN: &[&str] = &[
    "prompt",
    "negativePrompt",
    "width",
    "height",
    "steps",
    "cfgScale",
    "seed",
    "ksamplerName",
    "schedule",
    "denoise",
];

/// Reads TensorArt's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let index = texts.png("generation_data")?;
    let record = texts.json(index)?.as_object()?;
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::TensorArt, at(index, "`generation_data`"));
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negativePrompt`"), &text("negativePrompt"));
    if !fields.seed(at(index, "`seed`"), value("seed")) {
        fields.parameter("seed", value("seed").clone());
    }
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`cfgScale`"), value("cfgScale"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    fields.sampler(at(index, "`ksamplerName`"), &text("ksamplerName"));
    fields.scheduler(at(index, "`schedule`"), &text("schedule"));
    fields.denoise(at(index, "`denoise`"), value("denoise"));
    if let Some(Value::Object(model)) = record.get("baseModel") {
        let name = string(model, "modelFileName").or_else(|| string(model, "label"));
        fields.model(at(index, "`baseModel`"), &name.unwrap_or_default(), None);
        fields.model_hash(at(index, "`baseModel`, its `hash`"), &string(model, "hash").unwrap_or_default());
    }
    for model in value("models").as_array().into_iter().flatten().filter_map(Value::as_object) {
        if string(model, "type").is_some_and(|kind| kind.to_ascii_uppercase().contains("LORA")) {
            let name = string(model, "modelFileName").or_else(|| string(model, "label")).unwrap_or_default();
            let weight = model.get("weight").and_then(fields::number).unwrap_or(1.0);
            fields.lora(at(index, "`models`"), &name, weight);
        }
    }
    fields.parameters_but(record, KNOWN);
    if let Some(graph) = comfyui::read_graph(texts) {
        fields.fill_from(graph);
    }
    Some(fields)
}
