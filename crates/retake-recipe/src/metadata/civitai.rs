//! Graphs of Civitai's own generator: the queued graph with `extraMetadata`, JSON inside JSON, next to its nodes. If it
//! writes A1111's text instead, that reader recognises it.

use serde_json::Value;

use super::container::Texts;
use super::fields::{self, Fields, at, string};
use super::{Generator, comfyui, json};

const KNOWN: &[&str] = &[
    "prompt",
    "negativePrompt",
    "cfgScale",
    "sampler",
    "scheduler",
    "steps",
    "seed",
    "width",
    "height",
    "denoise",
    "denoisingStrength",
];

/// Reads Civitai's graph.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let (index, extra) = (0..texts.raw.len()).find_map(|index| {
        let extra = match texts.json_with(index, &["extraMetadata"])?.get("extraMetadata")? {
            Value::String(text) => json::parse(text)?,
            extra => extra.clone(),
        };
        Some((index, extra))
    })?;
    let record = extra.as_object()?;
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::Civitai, at(index, "`extraMetadata`"));
    fields.prompt(at(index, "`extraMetadata.prompt`"), &text("prompt"));
    fields.negative(at(index, "`extraMetadata.negativePrompt`"), &text("negativePrompt"));
    if !fields.seed(at(index, "`extraMetadata.seed`"), value("seed")) {
        fields.parameter("seed", value("seed").clone());
    }
    fields.steps(at(index, "`extraMetadata.steps`"), value("steps"));
    fields.guidance(at(index, "`extraMetadata.cfgScale`"), value("cfgScale"));
    fields.sampler(at(index, "`extraMetadata.sampler`"), &text("sampler"));
    fields.scheduler(at(index, "`extraMetadata.scheduler`"), &text("scheduler"));
    fields.size(at(index, "`extraMetadata.width`, `extraMetadata.height`"), value("width"), value("height"));
    for key in ["denoise", "denoisingStrength"] {
        fields.denoise(at(index, format!("`extraMetadata.{key}`")), value(key));
    }
    for resource in value("resources").as_array().into_iter().flatten().filter_map(Value::as_object) {
        let name = string(resource, "modelName").unwrap_or_default();
        match string(resource, "type").unwrap_or_default().to_ascii_lowercase().as_str() {
            "checkpoint" => {
                fields.model(at(index, "`extraMetadata.resources`"), &name, None);
            }
            "lora" | "lycoris" | "dora" | "locon" => {
                let weight = resource.get("weight").or_else(|| resource.get("strength")).and_then(fields::number);
                fields.lora(at(index, "`extraMetadata.resources`"), &name, weight.unwrap_or(1.0));
            }
            _ => {}
        }
    }
    fields.parameters_but(record, KNOWN);
    if let Some(graph) = comfyui::read_graph(texts) {
        fields.fill_from(graph);
    }
    Some(fields)
}
