//! Finds the prompt of a sampler: its conditioning is followed to the nodes that encode texts, whatever they are called.

use std::collections::HashSet;

use serde_json::Value;

use super::graph::{Graph, Node};
use super::trace::{ASIDE, MAX_STEPS, PIPES};
use super::{cone, texts};

/// The inputs that hold the prompt of a sampler that encodes it itself.
pub(super) const OWN_TEXTS: [&str; 7] =
    ["positive", "positive_prompt", "prompt", "text", "prompt_text", "text_prompt", "instruction"];
/// The inputs of an encoder that hold its text.
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
    // A detailer may encode a text of its own instead, unless that says that it is added.
    let wildcard = texts::text(graph, sampler, "wildcard").filter(|_| sampler.class.contains("Detailer"));
    let wildcard = wildcard.filter(|text| !text.text.trim().is_empty() && !text.text.contains("[CONCAT]"));
    match wildcard.filter(|_| side == PromptSide::Positive) {
        Some(text) => found.push((sampler, text)),
        None => conditioning(graph, sampler, side, &mut seen, &mut found, true),
    }
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
        // Its own text is added to what it gets.
        let adds_own = node.class == "CLIPTextEncodeAndCombineCached";
        // A node that adds a text for a part of the image (GLIGEN) or for a control net passes on the prompt itself.
        let adds = graph.linked(node, "conditioning_to").is_some() || node.class == "CLIPTextEncodeControlnet";
        let texts = if adds { Vec::new() } else { encoded(graph, node, side, leaf) };
        if adds_own && let Some(next) = graph.linked(node, "conditioning").and_then(|place| graph.node(place)) {
            conditioning(graph, next, side, seen, found, false);
            found.extend(texts.into_iter().map(|text| (node, text)));
            return;
        }
        if !texts.is_empty() {
            found.extend(texts.into_iter().map(|text| (node, text)));
            return;
        }
    }
    if encodes_sides(node) {
        return;
    }
    // It edits what is in its pipe.
    let edits = node.inputs.get("conditioning_mode").and_then(Value::as_str);
    let edited = edits.and_then(|_| texts::text(graph, node, &format!("optional_{}", side.name())));
    let edited = edited.filter(|text| !text.text.trim().is_empty());
    if edits == Some("replace") && edited.is_some() {
        found.extend(edited.map(|text| (node, text)));
        return;
    }
    let sided = node.inputs.keys().any(|name| side_of(name).is_some());
    // A node with a single link, such as a timer, passes on what it gets.
    let is_relay = !sided && !is_start && graph.links(node).count() == 1;
    // What a node has for a side itself replaces what is in its pipe.
    let replaces = graph.links(node).any(|(name, ..)| side_of(name) == Some(side));
    let mut links: Vec<_> = graph.links(node).collect();
    // Only the first of several are used.
    if let Some(count) = node.inputs.get("inputcount").and_then(Value::as_u64) {
        let is_used = |name: &str| name.rsplit('_').next().and_then(|number| number.parse::<u64>().ok());
        links.retain(|(name, ..)| is_used(name).is_none_or(|number| number <= count));
    }
    // One conditioning is added to another.
    links.sort_by_key(|(name, ..)| *name == "conditioning_from");
    for (name, next, _) in links {
        let leads = match name {
            _ if PIPES.contains(&name) => !replaces && !node.has(side.name()),
            // The refiner comes after the base.
            _ if name.strip_prefix("refiner").is_some_and(|rest| node.has(&format!("base{rest}"))) => false,
            _ if side_of(name).is_some() => side_of(name) == Some(side),
            "positive_prompt" | "negative_prompt" if is_start => name.starts_with(side.name()),
            "guider" => true,
            // One encoder for both sides, or only for the positive one.
            "nag_text_embeds" => side == PromptSide::Negative,
            "text_embeds" | "original_text_embeds" | "prompt_embeds" => {
                side == PromptSide::Positive || encodes_negative(graph, next)
            }
            "uncond" => side == PromptSide::Negative,
            "cond" => side == PromptSide::Positive || graph.linked(node, "uncond").is_none(),
            // Two conditions against one negative side: the first is the prompt, the second a weaker one without it.
            "cond1" => side == PromptSide::Positive,
            "cond2" => side == PromptSide::Positive && graph.linked(node, "cond1").is_none(),
            // Guidance without a negative side.
            "conditioning" if is_start || node.class.ends_with("Guider") => side == PromptSide::Positive,
            _ if sided || is_start => false,
            _ => {
                let name = name.to_ascii_lowercase();
                (is_relay && !leads_aside(&name) && !cone::is_text(&name))
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
    found.extend(edited.map(|text| (node, text)));
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

/// Returns whether the sides of a node are texts, although they are called like conditioning: a loader that encodes.
fn encodes_sides(node: &Node) -> bool {
    node.has("ckpt_name") && (node.has("positive") || node.has("negative"))
}

/// Returns the texts that a node encodes for one side.
fn encoded<'a>(graph: &'a Graph, node: &'a Node, side: PromptSide, leaf: bool) -> Vec<texts::Text<'a>> {
    let text = |name: &str| texts::text(graph, node, name);
    // One node with both sides, such as a loader that encodes.
    let both: [&str; 5] = match side {
        PromptSide::Positive => ["positive", "text_positive", "positive_prompt", "prompt_positive", "positive_text"],
        PromptSide::Negative => ["negative", "text_negative", "negative_prompt", "prompt_negative", "negative_text"],
    };
    let is_text = |name: &str| node.inputs.get(name).is_some_and(Value::is_string) || encodes_sides(node);
    let sided = both.iter().filter(|name| !["positive", "negative"].contains(name) || is_text(name));
    let mut found: Vec<texts::Text<'a>> = sided.filter_map(|name| text(name)).collect();
    if let (Some(first), Some(prepended)) = (found.first_mut(), text(&format!("prepend_{}", side.name()))) {
        first.text = format!("{} {}", prepended.text, first.text).trim_start().to_owned();
    }
    if !found.is_empty() || (both.iter().any(|name| node.has(name)) && !node.has("text")) {
        return found;
    }
    // A node at the end of a conditioning chain that contains a text encodes it, whatever its name.
    let class = node.class.to_ascii_lowercase();
    if !(leaf || node.has("clip") || class.contains("encode") || class.contains("prompt")) {
        return Vec::new();
    }
    // It encodes what it also outputs as a text.
    if node.class == "Prompt (LoraManager)" {
        return texts::of_output(graph, node, 1).into_iter().collect();
    }
    // It encodes as another program does, or as SDXL.
    if let Some(as_sdxl) = node.inputs.get("with_SDXL").and_then(Value::as_bool) {
        let names: &[&str] = if as_sdxl { &["text_g", "text_l"] } else { &["text"] };
        return names.iter().filter_map(|name| text(name)).collect();
    }
    if ENCODED.iter().any(|name| node.has(name)) {
        return ENCODED.iter().filter_map(|name| text(name)).collect();
    }
    encoded_under_own_names(graph, node, side)
}

/// Returns the texts of an encoder that has none under a usual name: those that are texts of this side by their names,
/// or else its only sentence.
fn encoded_under_own_names<'a>(graph: &'a Graph, node: &'a Node, side: PromptSide) -> Vec<texts::Text<'a>> {
    let is_negative = |name: &str| name.starts_with("neg") || name.contains("negative");
    // What is encoded already is not a text, and the refiner comes after the base.
    // So does the text that a wildcard became.
    let is_populated = node.inputs.keys().any(|name| name.contains("populated"));
    let is_other = |name: &str| {
        name.contains("embeds") || ["pos_r", "neg_r"].contains(&name) || (is_populated && name.contains("wildcard"))
    };
    let is_text = |name: &str| {
        !is_negative(name) && (cone::is_text(name) || name.starts_with("pos_") || ["bert", "mt5xl"].contains(&name))
    };
    let has_negative = node.inputs.keys().any(|name| is_negative(name));
    let is_of_side = |name: &&String| match side {
        PromptSide::Negative if has_negative => is_negative(name),
        // What is only for the other side.
        PromptSide::Negative => is_text(name) && !name.starts_with("pos"),
        PromptSide::Positive => is_text(name),
    };
    let named: Vec<texts::Text<'a>> = node
        .inputs
        .keys()
        .filter(is_of_side)
        .filter(|name| !is_other(name))
        .filter_map(|name| texts::text(graph, node, name))
        .collect();
    if !named.is_empty() || has_negative {
        return named;
    }
    let mut sentences = node.inputs.iter().filter(|(_, value)| value.as_str().is_some_and(cone::is_sentence));
    let only = sentences.next().filter(|_| sentences.next().is_none() && node.has("clip"));
    only.and_then(|(name, _)| texts::text(graph, node, name)).into_iter().collect()
}
