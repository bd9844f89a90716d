//! StabilityMatrix: its own `parameters-json`, A1111's text, its project, and the graph that it queued in ComfyUI.

use serde_json::Value;

use super::container::Texts;
use super::fields::{Fields, at, string};
use super::{Generator, comfyui};

const KNOWN: &[&str] = &[
    "PositivePrompt",
    "NegativePrompt",
    "Steps",
    "Sampler",
    "CfgScale",
    "Seed",
    "Height",
    "Width",
    "ModelHash",
    "ModelName",
];

/// Reads StabilityMatrix's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let index = texts.png("parameters-json")?;
    let record = texts.json(index)?.as_object().filter(|record| record.contains_key("PositivePrompt"))?;
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::StabilityMatrix, at(index, "`parameters-json`"));
    fields.prompt(at(index, "`PositivePrompt`"), &text("PositivePrompt"));
    fields.negative(at(index, "`NegativePrompt`"), &text("NegativePrompt"));
    fields.seed(at(index, "`Seed`"), value("Seed"));
    fields.steps(at(index, "`Steps`"), value("Steps"));
    fields.guidance(at(index, "`CfgScale`"), value("CfgScale"));
    fields.sampler(at(index, "`Sampler`"), &text("Sampler"));
    fields.size(at(index, "`Width`, `Height`"), value("Width"), value("Height"));
    fields.model(at(index, "`ModelName`"), &text("ModelName"), Some("ModelName"));
    fields.model_hash(at(index, "`ModelHash`"), &text("ModelHash"));
    fields.parameters_but(record, KNOWN);
    if let Some(graph) = comfyui::read_graph(texts) {
        fields.fill_from(graph);
    }
    Some(fields)
}
