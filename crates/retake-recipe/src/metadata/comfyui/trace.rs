//! Traces a graph from the node that saved the image back to its origin: the sampling passes, their prompts, the model.
//!
//! Nodes are recognised by their inputs rather than their names, since there are thousands of them: a node with a seed,
//! steps and a positive side is a sampler.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::graph::{Graph, Node};
use super::{provider, texts, values};

/// The maximum number of consecutive nodes that are followed.
const MAX_STEPS: usize = 400;
/// The maximum number of nodes considered as the one that saved the image.
const MAX_OUTPUTS: usize = 100;
/// The maximum number of passes.
const MAX_PASSES: usize = 32;
/// Inputs that do not lead to the image or latent that a node processes.
const ASIDE: [&str; 34] = [
    "model",
    "clip",
    "vae",
    "positive",
    "negative",
    "conditioning",
    "control_net",
    "upscale_model",
    "clip_vision",
    "clip_vision_output",
    "style_model",
    "mask",
    "guider",
    "sigmas",
    "sampler",
    "noise",
    "optional_vae",
    "base_model",
    "refiner_model",
    "bbox_detector",
    "sam_model_opt",
    "segm_detector_opt",
    "seed",
    "steps",
    "cfg",
    "text",
    "prompt",
    "denoise",
    "width",
    "height",
    "filename_prefix",
    "lora_stack",
    // The sound of a video.
    "audio",
    // Samples when it is applied to the latents that its node takes.
    "upscaler",
];
/// Inputs that bundle a model with its prompts.
const PIPES: [&str; 11] = [
    "pipe",
    "pipe_in",
    "basic_pipe",
    "context",
    "base_ctx",
    "ctx",
    "sdxl_tuple",
    "sdxl_pipe",
    "detailer_pipe",
    "optional_pipe",
    "bus",
];

/// The inputs that hold the prompt of a sampler that encodes it itself.
const OWN_TEXTS: [&str; 7] =
    ["positive", "positive_prompt", "prompt", "text", "prompt_text", "text_prompt", "instruction"];
/// The inputs that hold the guidance scale.
pub(super) const CFG: [&str; 3] = ["cfg", "guidance_scale", "cfg_scale"];

/// The side of a sampler whose prompt is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptSide {
    Positive,
    Negative,
}

impl PromptSide {
    fn name(self) -> &'static str {
        match self {
            PromptSide::Positive => "positive",
            PromptSide::Negative => "negative",
        }
    }
}

/// Returns the samplers that the image went through on its way to `output`, last first; without an output, those of the
/// last sampler of the graph, unless another image was saved or shown.
pub(super) fn passes(graph: &Graph, output: Option<usize>) -> Vec<usize> {
    let mut passes = Vec::new();
    let mut from = output.or_else(|| last_sampler(graph).filter(|_| !shows_image(graph)));
    if let Some(first) = from.filter(|first| graph.node(*first).is_some_and(is_sampler)) {
        passes.push(first);
    }
    while let Some(next) = from.and_then(|from| earlier(graph, from)) {
        if passes.contains(&next) || passes.len() >= MAX_PASSES {
            break;
        }
        passes.push(next);
        from = Some(next);
    }
    passes
}

/// Returns the sampler before a node: along images and latents, or the stage that its conditioning came from.
fn earlier(graph: &Graph, from: usize) -> Option<usize> {
    nearest(graph, from, is_sampler).or_else(|| {
        let mut node = graph.node(from).filter(|node| is_sampler(node))?;
        for _ in 0..MAX_STEPS {
            if let Some(stage) = graph.linked(node, "stage_c") {
                let samples = graph.node(stage).is_some_and(is_sampler);
                return if samples { Some(stage) } else { nearest(graph, stage, is_sampler) };
            }
            let next = ["positive", "conditioning"].iter().find_map(|name| graph.linked(node, name))?;
            node = graph.node(next)?;
        }
        None
    })
}

/// Returns the node that made the initial noise of a sampler, if the sampler adds none itself.
pub(super) fn noise_maker<'a>(graph: &'a Graph, sampler: &'a Node) -> Option<&'a Node> {
    let off = |value: &Value| value == "disable" || value == &Value::Bool(false);
    if !sampler.inputs.get("add_noise").is_some_and(off) {
        return None;
    }
    let place = graph.linked(sampler, "latent_image").or_else(|| graph.linked(sampler, "latent"))?;
    let makes = |node: &Node| {
        let class = node.class.to_ascii_lowercase();
        (class.contains("noise") || class.contains("noisy")) && (node.has("seed") || node.has("noise_seed"))
    };
    let first = graph.node(place).filter(|node| makes(node));
    first.or_else(|| nearest(graph, place, makes).and_then(|place| graph.node(place)))
}

/// Returns whether a node samples, by its inputs.
pub(super) fn is_sampler(node: &Node) -> bool {
    let has = |name: &str| node.has(name);
    let seeded = has("seed") || has("noise_seed");
    let stepped = values::STEPS.iter().any(|name| has(name));
    let sided = has("positive") || has("negative") || has("cfg") || PIPES.iter().any(|pipe| has(pipe));
    let latent = ["latent_image", "latent", "samples"].iter().any(|name| has(name));
    let modelled = node.inputs.get("model").is_some_and(Value::is_array);
    // A node that only collects settings passes them on to a sampler.
    let is_source = !node.inputs.values().any(Value::is_array);
    if is_source && !OWN_TEXTS.iter().any(|name| has(name)) {
        return false;
    }
    // Some find their own schedule.
    (has("guider") && (has("sigmas") || has("noise")))
        // Some are guided by something else than a text.
        || (seeded && stepped && modelled)
        // The editor's graph may not tell which of its values are the steps.
        || (seeded && modelled && latent && (has("conditioning") || has("positive")))
        // Some name neither seed nor steps.
        || (modelled && node.class.to_ascii_lowercase().contains("sampler") && node.inputs.get("positive").is_some_and(Value::is_array))
        // Guided without a negative side, or with one under another name.
        || (seeded && stepped && has("conditioning") && latent)
        || (seeded && sided && (stepped || has("sigmas")) && (has("sampler_name") || has("sampler") || has("cfg")))
}

/// The nodes that could have saved the image.
pub(super) struct Outputs {
    /// All of them that lead to a node that makes an image, in the order of the graph.
    pub(super) all: Vec<usize>,
    /// The chosen one.
    pub(super) taken: Option<usize>,
    /// The reason for the choice.
    pub(super) reason: &'static str,
}

/// Finds the node that saved the file: the one whose prefix matches its name, or else the last one. A node that saves
/// videos did not save a still image, and the other way round.
pub(super) fn outputs(graph: &Graph, saved_as: Option<&str>, is_video: bool, makes: impl Fn(&Node) -> bool) -> Outputs {
    let leads = |place: &usize| nearest(graph, *place, &makes).is_some();
    let class = |node: &Node, part: &str| node.class.to_ascii_lowercase().contains(part);
    let of = |part: &str| -> Vec<usize> {
        let nodes = graph.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| takes_image(graph, node) && class(node, part))
            .map(|(place, _)| place)
            .take(MAX_OUTPUTS)
            .filter(leads)
            .collect()
    };
    let saves_video = |place: &usize| {
        graph
            .node(*place)
            .is_some_and(|node| graph.linked(node, "video").is_some() || class(node, "video") || class(node, "webm"))
    };
    let saves = if is_video {
        let videos: Vec<usize> = of("save").into_iter().chain(of("combine")).filter(saves_video).collect();
        if videos.is_empty() { of("save") } else { videos }
    } else {
        let (videos, stills): (Vec<usize>, Vec<usize>) = of("save").into_iter().partition(saves_video);
        if stills.is_empty() { videos } else { stills }
    };
    let fits = |place: &usize| {
        let prefix = graph.node(*place).and_then(|node| node.inputs.get("filename_prefix")?.as_str());
        prefix.zip(saved_as).and_then(|(prefix, name)| prefix_fit(prefix, name))
    };
    let best = saves.iter().filter_map(fits).max();
    if let Some(best) = best {
        let named: Vec<usize> = saves.into_iter().filter(|place| fits(place) == Some(best)).collect();
        let taken = named.last().copied();
        let reason = if named.len() == 1 {
            "its prefix is in the name of the file"
        } else {
            "the last of several nodes with this prefix"
        };
        return Outputs { all: named, taken, reason };
    }
    for (found, reason) in [
        (saves, "the last node that saves"),
        (of("combine"), "the last node that combines frames"),
        (of("preview"), "the last node that previews"),
    ] {
        if let Some(last) = found.last().copied() {
            let reason = if found.len() == 1 { "the only node that saves or shows an image" } else { reason };
            return Outputs { all: found, taken: Some(last), reason };
        }
    }
    let used: HashSet<usize> = graph.nodes.iter().flat_map(|node| graph.links(node).map(|(_, from, _)| from)).collect();
    // A node that saves, but no image, saves something else: a mesh, or sound.
    let saves_other = |place: &usize| graph.node(*place).is_some_and(|node| class(node, "save"));
    let unused = (0..graph.nodes.len()).rev().filter(|place| !used.contains(place) && !saves_other(place));
    let last = unused.take(MAX_OUTPUTS).find(leads);
    Outputs { all: last.into_iter().collect(), taken: last, reason: "the last node whose output is not used" }
}

/// Returns whether a node saves or shows an image.
fn shows_image(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let class = node.class.to_ascii_lowercase();
        takes_image(graph, node) && ["save", "combine", "preview"].iter().any(|part| class.contains(part))
    })
}

/// Returns whether images lead to a node.
pub(super) fn takes_image(graph: &Graph, node: &Node) -> bool {
    ["images", "image", "frames", "video"].iter().any(|name| graph.linked(node, name).is_some())
}

/// Returns how much of a file name a prefix covers. Prefixes may contain folders, and variables such as `%date:yyyy%`,
/// which match any text.
fn prefix_fit(prefix: &str, name: &str) -> Option<usize> {
    let prefix = prefix.rsplit(['/', '\\']).next().filter(|prefix| !prefix.is_empty())?;
    let mut rest = name;
    let mut covered = 0;
    for (place, part) in prefix.split('%').enumerate() {
        if place % 2 == 1 || part.is_empty() {
            continue;
        }
        let at = rest.find(part).filter(|at| place > 0 || *at == 0)?;
        rest = rest.get(at + part.len()..)?;
        covered += part.len();
    }
    (covered > 0).then_some(covered)
}

/// Returns whether a node makes an image: by sampling, or by calling a provider.
pub(super) fn makes(node: &Node) -> bool {
    is_sampler(node) || provider::asks(node)
}

fn last_sampler(graph: &Graph) -> Option<usize> {
    (0..graph.nodes.len()).rev().find(|place| graph.node(*place).is_some_and(is_sampler))
}

/// Returns the nearest node before this one, along images and latents, that matches.
pub(super) fn nearest(graph: &Graph, from: usize, mut wanted: impl FnMut(&Node) -> bool) -> Option<usize> {
    let mut queue = VecDeque::from([from]);
    let mut seen = HashSet::from([from]);
    while let Some(place) = queue.pop_front() {
        let node = graph.node(place)?;
        if place != from && wanted(node) {
            return Some(place);
        }
        for (name, next, _) in graph.links(node) {
            if !ASIDE.contains(&name) && seen.insert(next) {
                queue.push_back(next);
            }
        }
    }
    None
}

/// Returns all nodes before an output, along images and latents.
pub(super) fn all_before(graph: &Graph, output: Option<usize>) -> Vec<&Node> {
    let mut found = HashSet::new();
    if let Some(output) = output {
        nearest(graph, output, |node| {
            found.insert(node.id.clone());
            false
        });
    }
    graph.nodes.iter().filter(|node| found.contains(&node.id)).collect()
}

/// Returns a setting of a sampler: its own, or that of its component nodes.
pub(super) fn setting<'a>(
    graph: &'a Graph,
    sampler: &'a Node,
    names: &[&str],
    through: &[&str],
) -> Option<(&'a Node, Cow<'a, Value>)> {
    let own =
        |node: &'a Node| names.iter().find_map(|name| values::number(graph, node, name)).map(|value| (node, value));
    own(sampler).or_else(|| {
        through.iter().find_map(|part| {
            let mut place = graph.linked(sampler, part)?;
            for _ in 0..MAX_STEPS {
                let node = graph.node(place)?;
                if let Some(found) = own(node) {
                    return Some(found);
                }
                place = graph.linked(node, part)?;
            }
            None
        })
    })
}

/// A prompt with its location.
pub(super) struct Prompt<'a> {
    pub(super) text: String,
    /// The nodes that contain it.
    pub(super) nodes: Vec<&'a Node>,
    /// The language model that rewrote it when the graph ran.
    pub(super) rewritten_by: Option<&'a Node>,
}

/// Returns the prompt of a sampler on one side.
pub(super) fn prompt<'a>(graph: &'a Graph, sampler: &'a Node, side: PromptSide) -> Option<Prompt<'a>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    conditioning(graph, sampler, side, &mut seen, &mut found, true);
    if found.is_empty() {
        found.extend(own_text(graph, sampler, side).map(|text| (sampler, text)));
    }
    let mut texts: Vec<&str> = Vec::new();
    for (_, texts::Text { text, .. }) in &found {
        // Several encoders often get the same text.
        if !text.trim().is_empty() && !texts.contains(&text.as_str()) {
            texts.push(text);
        }
    }
    let text = texts.join("\n");
    let rewritten_by = found.iter().find_map(|(_, text)| text.rewritten_by);
    (!found.is_empty()).then(|| Prompt { text, nodes: found.iter().map(|(node, _)| *node).collect(), rewritten_by })
}

/// Returns the prompt of a sampler that encodes it itself.
fn own_text<'a>(graph: &'a Graph, sampler: &'a Node, side: PromptSide) -> Option<texts::Text<'a>> {
    let names: &[&str] = match side {
        PromptSide::Positive => &OWN_TEXTS,
        PromptSide::Negative => &["negative", "negative_prompt", "neg_prompt"],
    };
    names.iter().find_map(|name| texts::text(graph, sampler, name))
}

/// Collects the texts that a node's conditioning is made from.
fn conditioning<'a>(
    graph: &'a Graph,
    node: &'a Node,
    side: PromptSide,
    seen: &mut HashSet<&'a str>,
    found: &mut Vec<(&'a Node, texts::Text<'a>)>,
    is_start: bool,
) {
    if seen.len() > MAX_STEPS || !seen.insert(&node.id) || node.class == "ConditioningZeroOut" {
        return;
    }
    if !is_start {
        let leaf = !graph.links(node).any(|(name, ..)| {
            let name = name.to_ascii_lowercase();
            name.contains("cond")
                || name == "clip_regions"
                || side_of(&name).is_some()
                || PIPES.contains(&name.as_str())
        });
        // A node that adds a text for a part of the image (GLIGEN) passes on the prompt itself.
        let adds = graph.linked(node, "conditioning_to").is_some();
        let texts = if adds { Vec::new() } else { encoded(graph, node, side, leaf) };
        if !texts.is_empty() {
            found.extend(texts.into_iter().map(|text| (node, text)));
            return;
        }
    }
    let sided = node.inputs.keys().any(|name| side_of(name).is_some());
    // A node with a single link, such as a timer, passes on what it gets.
    let is_relay = !sided && !is_start && graph.links(node).count() == 1;
    for (name, next, _) in graph.links(node) {
        let leads = match name {
            _ if PIPES.contains(&name) => !node.has(side.name()),
            _ if side_of(name).is_some() => side_of(name) == Some(side),
            "positive_prompt" | "negative_prompt" if is_start => name.starts_with(side.name()),
            "guider" => true,
            // One encoder for both sides, or only for the positive one.
            "text_embeds" | "prompt_embeds" => side == PromptSide::Positive || encodes_negative(graph, next),
            // Two conditions against one negative side: the first is the prompt, the second a weaker one without it.
            "cond1" => side == PromptSide::Positive,
            "cond2" => side == PromptSide::Positive && graph.linked(node, "cond1").is_none(),
            // Guidance without a negative side.
            "conditioning" if is_start || node.class.ends_with("Guider") => side == PromptSide::Positive,
            _ if sided || is_start => false,
            _ => {
                let name = name.to_ascii_lowercase();
                (is_relay && !leads_aside(&name))
                    || name.contains("cond")
                    || name == "clip_regions"
                    || name == "any"
                    || name.is_empty()
                    || name.starts_with("input")
                    || name == "value"
            }
        };
        if let (true, Some(next)) = (leads, graph.node(next)) {
            conditioning(graph, next, side, seen, found, false);
        }
    }
}

/// Returns the side that an input with conditioning belongs to: `positive`, `neg`, `base_positive`.
fn side_of(name: &str) -> Option<PromptSide> {
    let holds_text = ["prompt", "text"].iter().any(|part| name.contains(part));
    match name {
        "positive" | "pos" => Some(PromptSide::Positive),
        "negative" | "neg" | "neg_conditioning" => Some(PromptSide::Negative),
        _ if holds_text || leads_aside(name) => None,
        _ if name.contains("positive") => Some(PromptSide::Positive),
        _ if name.contains("negative") => Some(PromptSide::Negative),
        _ => None,
    }
}

/// Returns whether an input leads to something else than conditioning. An image may have been made from another prompt.
fn leads_aside(name: &str) -> bool {
    ASIDE.contains(&name) || ["image", "pixels", "samples", "latent", "video"].iter().any(|part| name.contains(part))
}

/// Returns whether the node at this index has a text for the negative side.
fn encodes_negative(graph: &Graph, place: usize) -> bool {
    graph.node(place).is_some_and(|node| node.inputs.keys().any(|name| name.contains("negative")))
}

/// Returns the texts that a node encodes for one side.
fn encoded<'a>(graph: &'a Graph, node: &'a Node, side: PromptSide, leaf: bool) -> Vec<texts::Text<'a>> {
    // One node with both sides, such as a loader that encodes.
    let both: [&str; 5] = match side {
        PromptSide::Positive => ["positive", "text_positive", "positive_prompt", "prompt_positive", "positive_text"],
        PromptSide::Negative => ["negative", "text_negative", "negative_prompt", "prompt_negative", "negative_text"],
    };
    let is_loader =
        |name: &str| node.inputs.get(name).is_some_and(Value::is_string) || (node.has("ckpt_name") && node.has(name));
    let own: Vec<texts::Text<'a>> = both
        .iter()
        .filter(|name| !["positive", "negative"].contains(name) || is_loader(name))
        .filter_map(|name| texts::text(graph, node, name))
        .collect();
    if !own.is_empty() {
        return own;
    }
    if both.iter().any(|name| node.has(name)) && !node.has("text") {
        return Vec::new();
    }
    const ENCODED: [&str; 17] = [
        "text",
        "text_g",
        "text_l",
        "clip_g",
        "clip_l",
        "t5xxl",
        "llama",
        "prompt",
        "Text",
        "prompt_text",
        "prompts",
        "string",
        "populated_text",
        "user_prompt",
        "global_prompt",
        "local_prompts",
        "tags",
    ];
    // A node at the end of a conditioning chain that contains a text encodes it, whatever its name.
    let encodes = leaf
        || node.has("clip")
        || node.class.to_ascii_lowercase().contains("encode")
        || node.class.to_ascii_lowercase().contains("prompt");
    if !encodes {
        return Vec::new();
    }
    ENCODED.iter().filter_map(|name| texts::text(graph, node, name)).collect()
}

/// The model of a sampler: the node that loads it, its name, and the LoRAs in the order of application.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    pub(super) loader: Option<(&'a Node, String)>,
    pub(super) loras: Vec<(&'a Node, String, f64)>,
}

/// Follows a sampler's model to its loader.
pub(super) fn model<'a>(graph: &'a Graph, sampler: &'a Node) -> Model<'a> {
    let mut model = Model::default();
    let mut seen = HashSet::new();
    let mut next = Some(sampler);
    while let Some(node) = next {
        if !seen.insert(&node.id) || seen.len() > MAX_STEPS {
            break;
        }
        // The LoRA nearest to the sampler was applied last.
        let mut here = loras(graph, node);
        here.reverse();
        model.loras.append(&mut here);
        const NAMES: [&str; 8] = [
            "ckpt_name",
            "unet_name",
            "model_name",
            "gguf_name",
            "base_ckpt_name",
            "model_path",
            "diffusion_name",
            "checkpoint",
        ];
        // A node that takes a model patches it: the name in it (a motion module, an adapter) is not the model.
        let patches = ["model", "unet", "MODEL", "model_opt"].iter().any(|name| graph.linked(node, name).is_some());
        let loaded = NAMES.iter().filter(|_| !patches).find_map(|name| values::name(graph, node, name));
        if let Some(name) = loaded.filter(|_| node.id != sampler.id || sampler.has("ckpt_name")) {
            model.loader = Some((node, name));
            break;
        }
        let stack = ["lora_stack", "optional_lora_stack"].iter().find_map(|name| graph.linked(node, name));
        if let Some(stack) = stack.and_then(|stack| graph.node(stack)) {
            let mut stacked = loras(graph, stack);
            stacked.reverse();
            model.loras.append(&mut stacked);
        }
        let by_name = |wanted: &dyn Fn(&str) -> bool| {
            graph.links(node).find(|(name, _, _)| wanted(name)).map(|(_, next, _)| next)
        };
        next = by_name(&|name| name == "model")
            .or_else(|| by_name(&|name| name == "guider"))
            .or_else(|| by_name(&|name| name.contains("model") && !ASIDE.contains(&name)))
            .or_else(|| by_name(&|name| PIPES.contains(&name)))
            .or_else(|| by_name(&|name| ["unet", "UNET", "MODEL", "any", "input", "value", ""].contains(&name)))
            .and_then(|place| graph.node(place));
    }
    model.loras.reverse();
    model
}

/// Returns the LoRAs that a node applies.
fn loras<'a>(graph: &'a Graph, node: &'a Node) -> Vec<(&'a Node, String, f64)> {
    let mut found = Vec::new();
    let number =
        |name: &str| values::number(graph, node, name).and_then(|value| crate::metadata::fields::number(&value));
    let mut add = |name: Option<String>, weight: Option<f64>| {
        if let (Some(name), Some(weight)) = (name.filter(|name| !["None", "none", ""].contains(&name.as_str())), weight)
        {
            found.push((node, name, weight));
        }
    };
    if node.has("lora_name") {
        let weight = ["strength_model", "strength", "lora_model_strength", "weight", "model_strength", "lora_strength"]
            .iter()
            .find_map(|name| number(name));
        add(values::name(graph, node, "lora_name"), weight.or(Some(1.0)));
    }
    let count = number("lora_count").or_else(|| number("num_loras"));
    for (key, value) in &node.inputs {
        if let (true, Some(lora)) = (key.to_ascii_lowercase().starts_with("lora_"), value.as_object()) {
            // rgthree: {"on": true, "lora": "x.safetensors", "strength": 0.8}
            let on = lora.get("on").and_then(Value::as_bool).unwrap_or(true);
            let name = lora.get("lora").and_then(Value::as_str).map(str::to_owned);
            add(name.filter(|_| on), lora.get("strength").and_then(Value::as_f64));
        } else if let Some(number_of) = key.strip_prefix("lora_name_") {
            // A stacker: lora_name_1, model_str_1 or lora_wt_1, and the number of entries in use.
            let counts = count.is_none_or(|count| number_of.parse::<f64>().is_ok_and(|place| place <= count));
            let weight = ["model_str_", "lora_wt_", "model_weight_"]
                .iter()
                .find_map(|prefix| number(&format!("{prefix}{number_of}")));
            add(values::name(graph, node, key).filter(|_| counts), weight);
        } else if let (Some(number_of), Some(name)) = (key.strip_prefix("lora_"), value.as_str()) {
            // lora_01 with strength_01; or lora_1 with a switch_1
            let weight =
                ["strength_", "model_weight_"].iter().find_map(|prefix| number(&format!("{prefix}{number_of}")));
            let on = node.inputs.get(&format!("switch_{number_of}")).and_then(Value::as_str) != Some("Off");
            if weight.is_some() && on {
                add(Some(name.to_owned()), weight);
            }
        }
    }
    found
}
