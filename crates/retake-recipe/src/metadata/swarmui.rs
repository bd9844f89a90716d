//! SwarmUI, formerly StableSwarmUI: JSON with `sui_image_params`, or in its first versions the bare parameters with
//! `swarm_version`. A PNG contains ComfyUI's graph as well, so this reader is tried first.

use serde_json::{Map, Value};

use super::container::Texts;
use super::fields::{self, Fields, at, string};
use super::{Generator, Hires};

const KNOWN: &[&str] = &[
    "prompt",
    "negativeprompt",
    "seed",
    "steps",
    "cfgscale",
    "width",
    "height",
    "sampler",
    "scheduler",
    "swarm_version",
];

/// Reads SwarmUI's record.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    (0..texts.raw.len()).find_map(|index| {
        let record = texts.json_with(index, &["sui_image_params", "swarm_version"])?.as_object()?;
        let bare = || record.contains_key("swarm_version").then_some(record);
        let params = record.get("sui_image_params").and_then(Value::as_object).or_else(bare)?;
        Some(fill(record, params, index))
    })
}

fn fill(record: &Map<String, Value>, params: &Map<String, Value>, index: usize) -> Fields {
    let text = |key: &str| string(params, key).unwrap_or_default();
    let value = |key: &str| params.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::SwarmUi, at(index, "`sui_image_params` or `swarm_version`"));
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negativeprompt`"), &text("negativeprompt"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`cfgscale`"), value("cfgscale"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    fields.sampler(at(index, "`sampler`"), &text("sampler"));
    fields.scheduler(at(index, "`scheduler`"), &text("scheduler"));
    fields.model(at(index, "`model`"), &text("model"), None);
    let list = |key: &str| match value(key) {
        Value::Array(items) => items.clone(),
        Value::String(items) => items.split(',').map(|item| Value::from(item.trim())).collect(),
        _ => Vec::new(),
    };
    let weights = list("loraweights");
    for (place, name) in list("loras").iter().enumerate() {
        let weight = weights.get(place).and_then(fields::number).unwrap_or(1.0);
        fields.lora(at(index, "`loras`, `loraweights`"), name.as_str().unwrap_or_default(), weight);
    }
    for model in record.get("sui_models").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
        if model.get("param").is_some_and(|param| param == "model") {
            fields.model_hash(at(index, "`sui_models`"), &string(model, "hash").unwrap_or_default());
        }
    }
    fields.evidence.hires = value("refinerupscale")
        .as_f64()
        .filter(|scale| *scale > 1.0)
        .map(|scale| Hires { scale: Some(scale), upscaler: string(params, "refinerupscalemethod") });
    fields.evidence.from_image = params.contains_key("initimagecreativity");
    fields.parameters_but(params, KNOWN);
    if let Some(Value::Object(extra)) = record.get("sui_extra_data") {
        fields.created(&string(extra, "date").unwrap_or_default());
        fields.parameter("sui_extra_data", Value::Object(extra.clone()));
    }
    fields.parameter("sui_models", record.get("sui_models").cloned().unwrap_or_default());
    fields
}
