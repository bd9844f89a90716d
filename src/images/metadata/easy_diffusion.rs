//! Easy Diffusion, where the user had it embed: every setting as a keyword of its own, or all as JSON in UserComment. Its
//! `prompt` is plain text, which ComfyUI's never is.

use serde_json::{Map, Value};

use super::Generator;
use super::container::{Slot, Texts};
use super::fields::{self, Fields, at, string};

const KNOWN: &[&str] = &[
    "prompt",
    "original_prompt",
    "negative_prompt",
    "seed",
    "num_inference_steps",
    "guidance_scale",
    "width",
    "height",
    "sampler_name",
    "prompt_strength",
    "scheduler_name",
];

/// Reads what Easy Diffusion wrote.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let json = texts.exif("UserComment").and_then(|index| Some((index, texts.json(index)?.as_object()?.clone())));
    let own = |record: &Map<String, Value>| record.contains_key("use_stable_diffusion_model");
    let (index, record) = match json {
        Some((index, record)) if own(&record) => (index, record),
        _ => {
            let index = texts.png("use_stable_diffusion_model")?;
            let keywords = texts.raw.iter().filter(|raw| matches!(raw.slot, Slot::PngChunk(_)));
            let record = keywords.map(|raw| (raw.key.clone(), fields::verbatim(&raw.text))).collect();
            (index, record)
        }
    };
    let text = |key: &str| string(&record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::EasyDiffusion, at(index, "`use_stable_diffusion_model`"));
    // As typed, where styles and modifiers were added to it.
    fields.prompt(at(index, "`original_prompt`"), &text("original_prompt"));
    if !fields.recipe.prompt.is_empty() {
        fields.prompt_sent(at(index, "`prompt`"), &text("prompt"));
    }
    fields.prompt(at(index, "`prompt`"), &text("prompt"));
    fields.negative(at(index, "`negative_prompt`"), &text("negative_prompt"));
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`num_inference_steps`"), value("num_inference_steps"));
    fields.guidance(at(index, "`guidance_scale`"), value("guidance_scale"));
    fields.size(at(index, "`width`, `height`"), value("width"), value("height"));
    fields.sampler(at(index, "`sampler_name`"), &text("sampler_name"));
    fields.scheduler(at(index, "`scheduler_name`"), &text("scheduler_name"));
    fields.denoise(at(index, "`prompt_strength`"), value("prompt_strength"));
    // A path of the machine it ran on.
    let path = text("use_stable_diffusion_model");
    let name = path.rsplit(['/', '\\']).next().unwrap_or(&path);
    fields.model(at(index, "`use_stable_diffusion_model`"), name, None);
    let list = |key: &str| match value(key) {
        Value::Array(items) => items.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let weights = list("lora_alpha");
    for (place, path) in list("use_lora_model").iter().enumerate() {
        let name = path.as_str().unwrap_or_default().rsplit(['/', '\\']).next().unwrap_or_default();
        fields.lora(at(index, "`use_lora_model`"), name, weights.get(place).and_then(fields::number).unwrap_or(1.0));
    }
    fields.parameters_but(&record, KNOWN);
    Some(fields)
}
