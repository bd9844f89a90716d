//! Nodes that request an image or a video from a provider instead of sampling it locally; they contain the prompt
//! themselves.

use std::borrow::Cow;

use serde_json::Value;

use super::graph::{Graph, Node};
use super::{cone, texts, values};

/// Inputs that hold the prompt, in order of preference. Newer nodes nest the settings of a model under it.
const PROMPTS: [&str; 8] = [
    "prompt",
    "model.prompt",
    "edit_instruction",
    "prompt_text",
    "positive_prompt",
    "text_prompt",
    "instruction",
    "script",
];
const NEGATIVES: [&str; 5] =
    ["negative_prompt", "model.negative_prompt", "multi_shot.negative_prompt", "negative", "negative_text_prompt"];
const SEEDS: [&str; 2] = ["seed", "model.seed"];
const MODELS: [&str; 4] = ["model", "model_name", "model_version", "model_id"];
/// Settings of a request besides its prompt; a node with none of them is not a request.
const SETTINGS: [&str; 20] = [
    "seed",
    "model",
    "model_name",
    "aspect_ratio",
    "size",
    "resolution",
    "quality",
    "duration",
    "duration_seconds",
    "length",
    "n",
    "num_images",
    "style",
    "rendering_speed",
    "ratio",
    "edit_instruction",
    "model.prompt",
    "control_after_generate",
    "cfg_scale",
    "output_format",
];
/// Parts of class names that take text but do not make images from it.
const OTHERS: [&str; 24] = [
    // They make a mesh, or enlarge what another node made.
    "tomodel",
    "upscal",
    "refiner",
    "supir",
    "segment",
    "sam",
    "dino",
    "florence",
    "detect",
    "mask",
    "caption",
    "clipseg",
    "tagger",
    "encode",
    "condition",
    "chat",
    "llm",
    "showtext",
    "describe",
    "translate",
    "embedding",
    "savetext",
    "primitive",
    "enhance",
];

/// Returns whether a node requests an image from a provider.
pub(super) fn asks(node: &Node) -> bool {
    let class = node.class.to_ascii_lowercase();
    // Nodes of some packs call it a text, and have the key for the provider.
    let is_keyed = ["apikey", "api_key"].iter().any(|name| node.has(name));
    let holds = PROMPTS.iter().any(|name| node.has(name)) || (is_keyed && node.has("text"));
    // A local sampler has a model, loaded by another node.
    let local = ["clip", "model", "conditioning", "positive", "pipe"]
        .iter()
        .any(|name| node.inputs.get(*name).is_some_and(Value::is_array));
    // ComfyUI's own provider nodes are named like this.
    let named = node.class.ends_with("Node") || class.contains("api");
    let set = named
        || SETTINGS.iter().any(|name| node.has(name))
        || node.inputs.keys().any(|name| name.starts_with("model."));
    holds && !local && set && !is_other(&node.class)
}

/// Returns whether nodes of this class take a text but do not make images from it.
pub(super) fn is_other(class: &str) -> bool {
    // A sampler does not segment.
    let class = class.to_ascii_lowercase().replace("sampl", "");
    OTHERS.iter().any(|part| class.contains(part))
}

/// A request to a provider: every value with its node and input.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) prompt: Option<(&'static str, texts::Text<'a>)>,
    pub(super) negative: Option<(&'static str, texts::Text<'a>)>,
    pub(super) seed: Option<(&'static str, Cow<'a, Value>)>,
    pub(super) steps: Option<(&'a str, Cow<'a, Value>)>,
    pub(super) model: Option<(&'static str, String)>,
    pub(super) size: Option<(Cow<'a, Value>, Cow<'a, Value>)>,
}

/// Reads the request of a node.
pub(super) fn request<'a>(graph: &'a Graph, node: &'a Node) -> Request<'a> {
    let text = |names: &[&'static str]| {
        names
            .iter()
            .find_map(|name| Some((*name, texts::text(graph, node, name)?)))
            .filter(|(_, text)| !text.text.trim().is_empty())
    };
    let number = |name: &str| values::number(graph, node, name);
    Request {
        prompt: shots(graph, node).or_else(|| text(&PROMPTS)).or_else(|| text(&["text"])),
        negative: text(&NEGATIVES),
        seed: SEEDS.iter().find_map(|name| Some((*name, number(name)?))),
        steps: values::STEPS.into_iter().chain(cone::steps_input(node)).find_map(|name| Some((name, number(name)?))),
        model: MODELS.iter().find_map(|name| Some((*name, values::name(graph, node, name)?))),
        size: number("width").zip(number("height")),
    }
}

/// Returns the prompts of the shots of a video, which replace the one for all of it.
fn shots<'a>(graph: &'a Graph, node: &'a Node) -> Option<(&'static str, texts::Text<'a>)> {
    let is_shot = |name: &&String| name.starts_with("storyboards.") && name.ends_with("_prompt");
    let names = node.inputs.keys().filter(is_shot);
    let texts: Vec<String> = names
        .filter_map(|name| texts::text(graph, node, name))
        .map(|text| text.text)
        .filter(|text| !text.is_empty())
        .collect();
    (!texts.is_empty()).then(|| ("storyboards", texts::Text { text: texts.join("\n"), rewritten_by: None }))
}
