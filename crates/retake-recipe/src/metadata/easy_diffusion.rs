//! Easy Diffusion. By default it writes a sidecar file, a `.txt` with labelled settings or a `.json`; if the user chose
//! to embed them, every setting has its own keyword, or all are JSON in UserComment. Its `prompt` is plain text, which
//! ComfyUI's never is.

use serde_json::{Map, Value};

use super::container::{Slot, Texts};
use super::fields::{self, Fields, at, string};
use super::{Generator, json};

/// The extensions of its sidecar files.
pub(super) const JSON: &str = "json";
pub(super) const TEXT: &str = "txt";

/// The name of the model setting, which only Easy Diffusion uses.
const MODEL: &str = "use_stable_diffusion_model";

/// The label of the model setting.
const MODEL_LABEL: &str = "Stable Diffusion model";

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

/// The labels of the text, and their settings.
const LABELS: &[(&str, &str)] = &[
    ("Prompt", "prompt"),
    ("Negative Prompt", "negative_prompt"),
    ("Seed", "seed"),
    (MODEL_LABEL, MODEL),
    ("Clip Skip", "clip_skip"),
    ("ControlNet model", "use_controlnet_model"),
    ("ControlNet Filter", "control_filter_to_apply"),
    ("VAE model", "use_vae_model"),
    ("Sampler", "sampler_name"),
    ("Width", "width"),
    ("Height", "height"),
    ("Steps", "num_inference_steps"),
    ("Guidance Scale", "guidance_scale"),
    ("Prompt Strength", "prompt_strength"),
    ("LoRA model", "use_lora_model"),
    ("LoRA Strength", "lora_alpha"),
    ("Hypernetwork model", "use_hypernetwork_model"),
    ("Hypernetwork Strength", "hypernetwork_strength"),
    ("Embedding models", "use_embedding_models"),
    ("Seamless Tiling", "tiling"),
    ("Use Face Correction", "use_face_correction"),
    ("Use Upscaling", "use_upscale"),
    ("Upscale By", "upscale_amount"),
    ("Latent Upscaler Steps", "latent_upscaler_steps"),
];

/// Returns whether a sidecar file with this extension was written by Easy Diffusion.
pub(super) fn is_own(content: &str, ending: &str) -> bool {
    match ending {
        JSON => json::parse(content).is_some_and(|record| record.get(MODEL).is_some()),
        _ => labelled(content).is_some(),
    }
}

/// Reads Easy Diffusion's metadata.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let own = |index: usize| {
        Some((index, texts.json_with(index, &[MODEL])?.as_object().filter(|it| it.contains_key(MODEL))?.clone()))
    };
    let embedded = || {
        // Under the names of the settings, or under their labels.
        let index = texts.png(MODEL).or_else(|| texts.png(MODEL_LABEL).filter(|_| texts.png("Seed").is_some()))?;
        let keywords = texts.raw.iter().filter(|raw| matches!(raw.slot, Slot::PngChunk(_)));
        let name = |key: &str| LABELS.iter().find(|(label, _)| *label == key).map_or(key, |(_, name)| name).to_owned();
        Some((index, keywords.map(|raw| (name(&raw.key), fields::verbatim(&raw.text))).collect()))
    };
    let as_text = || texts.beside(TEXT).and_then(|index| Some((index, labelled(texts.text(index))?)));
    let as_json = texts.exif("UserComment").and_then(own).or_else(|| texts.beside(JSON).and_then(own));
    let (index, record): (usize, Map<String, Value>) = as_json.or_else(embedded).or_else(as_text)?;
    let text = |key: &str| string(&record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    let mut fields = Fields::of(Generator::EasyDiffusion, at(index, format!("`{MODEL}`")));
    // As typed, before styles and modifiers were added.
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
    // A path on the machine it ran on.
    let path = text(MODEL);
    let name = path.rsplit(['/', '\\']).next().unwrap_or(&path);
    fields.model(at(index, format!("`{MODEL}`")), name, None);
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

/// Parses labelled settings; a line without a label continues the previous value. `None` for another tool's text.
fn labelled(content: &str) -> Option<Map<String, Value>> {
    let mut settings: Vec<(&str, String)> = Vec::new();
    for line in content.lines() {
        let labelled =
            LABELS.iter().find_map(|(label, key)| Some((*key, line.strip_prefix(label)?.strip_prefix(':')?)));
        match (labelled, settings.last_mut()) {
            (Some((key, value)), _) => settings.push((key, value.trim().to_owned())),
            (None, Some((_, value))) => {
                value.push('\n');
                value.push_str(line);
            }
            (None, None) => return None,
        }
    }
    let has = |wanted: &str| settings.iter().any(|(key, _)| *key == wanted);
    let known = has(MODEL) && has("seed");
    let verbatim = |(key, value): (&str, String)| (key.to_owned(), fields::verbatim(value.trim_end()));
    known.then(|| settings.into_iter().map(verbatim).collect())
}
