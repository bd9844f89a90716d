//! The values of the nodes in graphs of ComfyUI's editor, which saves them by position: names come from a table of known
//! classes, from what newer editors write about them, or from an order that leaves no doubt.

use serde_json::{Map, Value};

use super::workflow::linked_inputs;

/// The values of core classes in the order in which the editor saves them. The value that the editor adds after a seed
/// (`control_after_generate`) is left out here and skipped when values are named.
const WIDGETS: &[(&str, &[&str])] = &[
    ("KSampler", &["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"]),
    ("KSampler (Efficient)", &["seed", "steps", "cfg", "sampler_name", "scheduler", "denoise"]),
    (
        "KSamplerAdvanced",
        &[
            "add_noise",
            "noise_seed",
            "steps",
            "cfg",
            "sampler_name",
            "scheduler",
            "start_at_step",
            "end_at_step",
            "return_with_leftover_noise",
        ],
    ),
    ("SamplerCustom", &["add_noise", "noise_seed", "cfg"]),
    ("CogVideoSampler", &["height", "width", "num_frames", "steps", "cfg", "seed", "scheduler"]),
    (
        "ttN pipeLoader_v2",
        &[
            "ckpt_name",
            "config_name",
            "vae_name",
            "clip_skip",
            "loras",
            "positive",
            "positive_token_normalization",
            "positive_weight_interpretation",
            "negative",
            "negative_token_normalization",
            "negative_weight_interpretation",
            "empty_latent_aspect",
            "empty_latent_width",
            "empty_latent_height",
            "batch_size",
            "seed",
        ],
    ),
    (
        "ttN pipeKSampler_v2",
        &[
            "lora_name",
            "lora_strength",
            "upscale_method",
            "upscale_model_name",
            "factor",
            "rescale",
            "percent",
            "width",
            "height",
            "longer_side",
            "crop",
            "steps",
            "cfg",
            "sampler_name",
            "scheduler",
            "denoise",
            "image_output",
            "save_prefix",
            "file_type",
            "embed_workflow",
            "seed",
        ],
    ),
    ("RandomNoise", &["noise_seed"]),
    ("KSamplerSelect", &["sampler_name"]),
    ("BasicScheduler", &["scheduler", "steps", "denoise"]),
    ("CFGGuider", &["cfg"]),
    ("FluxGuidance", &["guidance"]),
    ("CLIPTextEncode", &["text"]),
    (
        "CLIPTextEncodeSDXL",
        &["width", "height", "crop_w", "crop_h", "target_width", "target_height", "text_g", "text_l"],
    ),
    ("CLIPTextEncodeSDXLRefiner", &["ascore", "width", "height", "text"]),
    ("CLIPTextEncodeFlux", &["clip_l", "t5xxl", "guidance"]),
    ("CLIPTextEncodeSD3", &["clip_l", "clip_g", "t5xxl", "empty_padding"]),
    ("TextEncodeQwenImageEdit", &["prompt"]),
    ("TextEncodeQwenImageEditPlus", &["prompt"]),
    ("CLIPTextEncodeHiDream", &["clip_l", "clip_g", "t5xxl", "llama"]),
    ("CLIPTextEncodeHunyuanDiT", &["bert", "mt5xl"]),
    ("CLIPTextEncodeLumina2", &["system_prompt", "user_prompt"]),
    ("CheckpointLoaderSimple", &["ckpt_name"]),
    ("CheckpointLoader", &["config_name", "ckpt_name"]),
    ("ImageOnlyCheckpointLoader", &["ckpt_name"]),
    ("unCLIPCheckpointLoader", &["ckpt_name"]),
    ("UNETLoader", &["unet_name", "weight_dtype"]),
    ("UnetLoaderGGUF", &["unet_name"]),
    ("LoraLoader", &["lora_name", "strength_model", "strength_clip"]),
    ("LoraLoaderModelOnly", &["lora_name", "strength_model"]),
    ("EmptyLatentImage", &["width", "height", "batch_size"]),
    ("EmptySD3LatentImage", &["width", "height", "batch_size"]),
    ("EmptyHunyuanLatentVideo", &["width", "height", "length", "batch_size"]),
    ("EmptyMochiLatentVideo", &["width", "height", "length", "batch_size"]),
    ("EmptyLTXVLatentVideo", &["width", "height", "length", "batch_size"]),
    ("LatentUpscale", &["upscale_method", "width", "height", "crop"]),
    ("ImageScale", &["upscale_method", "width", "height", "crop"]),
    ("LoadImage", &["image"]),
    ("LoadImageMask", &["image", "channel"]),
    ("SaveImage", &["filename_prefix"]),
    ("SaveAnimatedWEBP", &["filename_prefix"]),
    ("PrimitiveString", &["value"]),
    ("PrimitiveStringMultiline", &["value"]),
    ("PrimitiveInt", &["value"]),
    ("PrimitiveBoolean", &["value"]),
    ("MoonvalleyTxt2VideoNode", &["prompt", "negative_prompt", "resolution", "prompt_adherence", "seed", "steps"]),
    ("MoonvalleyImg2VideoNode", &["prompt", "negative_prompt", "resolution", "prompt_adherence", "seed", "steps"]),
    ("StableCascade_EmptyLatentImage", &["width", "height", "compression", "batch_size"]),
    ("ADE_AnimateDiffLoaderWithContext", &["model_name", "beta_schedule"]),
    ("SamplerCustomAdvanced", &[]),
    ("DualCFGGuider", &["cfg_conds", "cfg_cond2_negative"]),
    ("CLIPVisionLoader", &["clip_name"]),
    ("VAELoader", &["vae_name"]),
    ("CLIPLoader", &["clip_name", "type"]),
    ("UpscaleModelLoader", &["model_name"]),
    ("ControlNetLoader", &["control_net_name"]),
    ("StyleModelLoader", &["style_model_name"]),
    ("PrimitiveFloat", &["value"]),
    ("StringConcatenate", &["string_a", "string_b", "delimiter"]),
    ("Seed (rgthree)", &["seed"]),
    (
        "Efficient Loader",
        &[
            "ckpt_name",
            "vae_name",
            "clip_skip",
            "lora_name",
            "lora_model_strength",
            "lora_clip_strength",
            "positive",
            "negative",
            "token_normalization",
            "weight_interpretation",
            "empty_latent_width",
            "empty_latent_height",
        ],
    ),
    (
        "Eff. Loader SDXL",
        &[
            "base_ckpt_name",
            "base_clip_skip",
            "refiner_ckpt_name",
            "refiner_clip_skip",
            "positive_ascore",
            "negative_ascore",
            "vae_name",
            "positive",
            "negative",
            "token_normalization",
            "weight_interpretation",
            "empty_latent_width",
            "empty_latent_height",
        ],
    ),
    ("KSampler SDXL (Eff.)", &["noise_seed", "steps", "cfg", "sampler_name", "scheduler", "start_at_step"]),
    ("XlabsSampler", &["noise_seed", "steps", "timestep_to_start_cfg", "true_gs"]),
    ("ImpactWildcardEncode", &["wildcard_text", "populated_text"]),
    ("ImpactWildcardProcessor", &["wildcard_text", "populated_text"]),
];

/// Returns the values of a node with their names; a value with an unknown name is named by its position.
pub(super) fn named_widgets<'a>(class: &str, node: &'a Value) -> Vec<(String, &'a Value)> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Some(Value::Array(values)) => values,
        _ => return Vec::new(),
    };
    let mut names = WIDGETS.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, names)| names).iter();
    let mut after_seed = false;
    let mut found = Vec::new();
    for (place, value) in values.iter().enumerate() {
        if std::mem::take(&mut after_seed) && is_control(value) {
            found.push(("control_after_generate".to_owned(), value));
            continue;
        }
        let name = names.next();
        after_seed = name.is_some_and(|name| ["seed", "noise_seed"].contains(name));
        found.push((name.map_or_else(|| format!("value {place}"), |name| (*name).to_owned()), value));
    }
    found
}

/// Returns whether a value is the one that the editor adds after a seed. Some nodes remove it and leave a `null`.
fn is_control(value: &Value) -> bool {
    value.is_null() || value.is_boolean() || is_named_control(value)
}

/// Returns whether a value states what happens to a seed after a run. Nothing but a seed is followed by one.
fn is_named_control(value: &Value) -> bool {
    value.as_str().is_some_and(|it| ["fixed", "increment", "decrement", "randomize"].contains(&it))
}

/// Returns the values of a node by name: from the table, or from what newer editors write about them.
pub(super) fn widgets(class: &str, node: &Value) -> Map<String, Value> {
    let values = match node.get("widgets_values") {
        Some(Value::Object(named)) => return named.clone(),
        Some(Value::Array(values)) => values,
        _ => return Map::new(),
    };
    if let Some((_, names)) = WIDGETS.iter().find(|(name, _)| *name == class) {
        return named(names, values).0;
    }
    let inputs = node.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&str> = inputs.filter_map(|input| input.pointer("/widget/name")?.as_str()).collect();
    let lists_all = node.pointer("/inputs/0/localized_name").is_some();
    match named(&names, values) {
        // Older editors only list values that were made inputs; newer ones, which also state the display name of each,
        // list all of them.
        (named, whole) if !names.is_empty() && (whole || lists_all) => named,
        _ => match values.as_slice() {
            [value @ Value::String(_)] => Map::from_iter([("text".to_owned(), value.clone())]),
            [value @ Value::String(_), ..] if class.to_ascii_lowercase().contains("textencode") => {
                Map::from_iter([("text".to_owned(), value.clone())])
            }
            // The only value of a node that makes a schedule is its length.
            [value @ Value::Number(_)] if node.pointer("/outputs/0/type") == Some(&"SIGMAS".into()) => {
                Map::from_iter([("steps".to_owned(), value.clone())])
            }
            [value @ Value::Number(_)] => Map::from_iter([("value".to_owned(), value.clone())]),
            values if sampling(values).is_some() => sampling(values).unwrap_or_default(),
            values if request(node, values).is_some() => request(node, values).unwrap_or_default(),
            // The editor adds a control only after a seed.
            [seed @ Value::Number(_), control, ..] if is_named_control(control) => {
                Map::from_iter([("seed".to_owned(), seed.clone())])
            }
            _ => values
                .iter()
                .enumerate()
                .filter(|(_, value)| value.is_object())
                // rgthree stores each LoRA as an object.
                .map(|(place, value)| (format!("lora_{place}"), value.clone()))
                .collect(),
        },
    }
}

/// Names the values of a sampler of an unknown class, which nearly all copy from ComfyUI's own: a seed and its control,
/// steps, guidance, sampler, scheduler, and how much is changed; or sampler and scheduler before steps and guidance,
/// which are texts in some nodes. A known scheduler in its place is required.
fn sampling(values: &[Value]) -> Option<Map<String, Value>> {
    const SCHEDULERS: [&str; 10] = [
        "normal",
        "karras",
        "exponential",
        "sgm_uniform",
        "simple",
        "ddim_uniform",
        "beta",
        "linear_quadratic",
        "kl_optimal",
        "bong_tangent",
    ];
    let scheduled = |value: &Value| value.as_str().is_some_and(|name| SCHEDULERS.contains(&name));
    let whole = |value: &Value| value.is_u64() || value.as_str().is_some_and(|text| text.parse::<u32>().is_ok());
    let number = |value: &Value| value.is_number() || value.as_str().is_some_and(|text| text.parse::<f64>().is_ok());
    values.windows(6).enumerate().find_map(|(place, window)| {
        let [seed, control, rest @ ..] = window else { return None };
        let [first, second, third, fourth] = rest else { return None };
        if !seed.is_u64() || !is_named_control(control) {
            return None;
        }
        let usual = first.is_u64() && second.is_number() && third.is_string() && scheduled(fourth);
        let swapped = first.is_string() && scheduled(second) && whole(third) && number(fourth);
        let [steps, cfg, sampler, scheduler] = match (usual, swapped) {
            (true, _) => [first, second, third, fourth],
            (_, true) => [third, fourth, first, second],
            _ => return None,
        };
        let denoise = values.get(place + 6).filter(|value| usual && value.as_f64().is_some_and(|share| share <= 1.0));
        let named =
            [("seed", seed), ("steps", steps), ("cfg", cfg), ("sampler_name", sampler), ("scheduler", scheduler)];
        let named = named.into_iter().chain(denoise.map(|denoise| ("denoise", denoise)));
        Some(named.map(|(name, value)| (name.to_owned(), value.clone())).collect())
    })
}

/// Names the values of a node of an unknown class that asks a provider for an image: the only sentence among them is
/// the prompt, and the number with a control the seed. With two sentences, either could be it.
fn request(node: &Value, values: &[Value]) -> Option<Map<String, Value>> {
    let kind = node.pointer("/outputs/0/type")?.as_str()?;
    let takes_any = linked_inputs(node).next().is_some();
    if !["IMAGE", "VIDEO"].contains(&kind) || takes_any {
        return None;
    }
    let seed = values.windows(2).find_map(|pair| match pair {
        [seed, control] if seed.is_u64() && is_named_control(control) => Some(seed),
        _ => None,
    })?;
    let is_sentence = |value: &&Value| value.as_str().is_some_and(|text| text.trim().contains(' '));
    let mut sentences = values.iter().filter(is_sentence);
    let prompt = sentences.next().filter(|_| sentences.next().is_none())?;
    Some(Map::from_iter([("prompt".to_owned(), prompt.clone()), ("seed".to_owned(), seed.clone())]))
}

/// Names each value, and returns whether names and values match one to one.
fn named(names: &[&str], values: &[Value]) -> (Map<String, Value>, bool) {
    let mut values = values.iter().peekable();
    let mut found = Map::new();
    for name in names {
        let Some(value) = values.next() else { return (found, false) };
        found.insert((*name).to_owned(), value.clone());
        if ["seed", "noise_seed"].contains(name) {
            values.next_if(|value| is_control(value));
        }
    }
    (found, values.next().is_none())
}
