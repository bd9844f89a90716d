//! The last resort for graphs whose nodes no rule of `trace` recognises: whatever leads to the saved image, its cone, is
//! searched for values that can have only one meaning.
//!
//! A value is taken only if it is the only one of its kind: the only node with a seed and either steps or a prompt, or
//! the only text on the positive side of a sampler. If there are two, or if a text was made when the graph ran, nothing
//! is taken, since a wrong value is worse than none.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;

use super::graph::{Graph, Input, Node};
use super::{provider, rewriting, texts};

/// The maximum number of nodes of a cone.
const MAX_NODES: usize = 500;
/// The maximum number of inputs that are followed to a text; real cones have a few.
const MAX_TEXTS: usize = 64;
/// Parts of the names of inputs that do not lead to the text of a prompt.
const ASIDE: [&str; 22] = [
    "negative",
    "neg_",
    "uncond",
    "model",
    "clip",
    "vae",
    "image",
    "latent",
    "mask",
    "video",
    "audio",
    "seed",
    "noise",
    "sampler",
    "sigmas",
    "steps",
    "cfg",
    "lora",
    "control_net",
    "width",
    "height",
    "face",
];
/// Parts of the names of inputs that hold a text.
const TEXTS: [&str; 5] = ["prompt", "text", "positive", "string", "caption"];
/// Parts of the names of inputs that hold a text other than the prompt.
const OTHERS: [&str; 22] = [
    "negative",
    "neg_",
    "context",
    "encoder",
    "texture",
    "system",
    "instruction",
    "template",
    "separator",
    "delimiter",
    "mode",
    "prefix",
    "suffix",
    "path",
    "file",
    "name",
    "url",
    "weight",
    "speech",
    "script",
    "voice",
    "lyrics",
];

/// Returns whether a node could have made an image although it is neither a sampler nor a request by its inputs: it has
/// a seed, and steps or a prompt.
pub(super) fn could_make(node: &Node) -> bool {
    let prompted = || node.inputs.iter().any(|(name, value)| is_text(name) && (value.is_string() || value.is_array()));
    seed_input(node).is_some()
        && (steps_input(node).is_some() || prompted())
        && !provider::is_other(&node.class)
        && !rewriting::is_generated(node)
}

/// Returns the only input of a node that holds a seed, whatever its prefix: `base_seed`.
pub(super) fn seed_input(node: &Node) -> Option<&str> {
    only_number(node, "seed", &["mode", "control", "behavior", "behaviour", "offset", "variation", "subseed", "resize"])
}

/// Returns the only input of a node that holds the number of steps, whatever its prefix: `total_steps`.
pub(super) fn steps_input(node: &Node) -> Option<&str> {
    only_number(
        node,
        "steps",
        &["start", "end", "warm", "skip", "per_", "_to_", "refine", "last", "first", "hires", "max"],
    )
}

/// Returns the only input with a number whose name contains a part and none of the others.
fn only_number<'a>(node: &'a Node, part: &str, without: &[&str]) -> Option<&'a str> {
    let holds = |value: &Value| value.is_number() || value.is_array();
    let mut found = node.inputs.iter().filter(|(name, value)| {
        let name = name.to_ascii_lowercase();
        name.contains(part) && holds(value) && !without.iter().any(|other| name.contains(other))
    });
    found.next().filter(|_| found.next().is_none()).map(|(name, _)| name.as_str())
}

/// Returns whether an input holds a text that may be a prompt, by its name.
pub(super) fn is_text(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TEXTS.iter().any(|part| name.contains(part)) && !OTHERS.iter().any(|part| name.contains(part))
}

/// Returns the only text that a node could have been prompted with, with the node that contains it.
pub(super) fn prompt<'a>(graph: &'a Graph, maker: &'a Node) -> Option<(&'a Node, &'a str, String)> {
    let mut queue = VecDeque::from([maker]);
    let mut seen = HashSet::from([maker.id.as_str()]);
    let mut found: Option<(&Node, &str, String)> = None;
    let mut asked = 0;
    while let Some(node) = queue.pop_front() {
        if seen.len() > MAX_NODES || (node.id != maker.id && rewriting::is_generated(node)) {
            return None;
        }
        // What is spoken in a video is not its prompt.
        let class = node.class.to_ascii_lowercase();
        if ["speech", "voice", "tts"].iter().any(|part| class.contains(part)) {
            continue;
        }
        for (name, value) in &node.inputs {
            if is_text(name) {
                asked += 1;
                if asked > MAX_TEXTS {
                    return None;
                }
                let linked = matches!(graph.resolve(value), Input::Link { .. });
                match texts::text(graph, node, name) {
                    Some(text) if is_sentence(&text.text) => match &found {
                        Some((_, _, first)) if first.trim() != text.text.trim() => return None,
                        Some(_) => {}
                        None => found = Some((node, name, text.text)),
                    },
                    // Another node made the text when the graph ran.
                    None if linked => return None,
                    _ => {}
                }
            } else if let Input::Link { node: next, .. } = graph.resolve(value) {
                let lower = name.to_ascii_lowercase();
                if !ASIDE.iter().any(|part| lower.contains(part))
                    && let Some(next) = graph.node(next)
                    && seen.insert(&next.id)
                {
                    queue.push_back(next);
                }
            }
        }
    }
    found
}

/// Returns whether a text may be a prompt: several words, rather than a choice, a path, a number or a document.
pub(super) fn is_sentence(text: &str) -> bool {
    let text = text.trim();
    let is_path = |word: &str| word.contains("://") || word.contains(":\\") || word.starts_with('/');
    !is_schedule(text)
        && text.contains(|c: char| c.is_whitespace() || c == ',' || ('\u{3040}'..='\u{9fff}').contains(&c))
        && text.contains(char::is_alphabetic)
        && !text.starts_with(['{', '[', '<'])
        && !text.split_whitespace().next().is_some_and(is_path)
        && !text.contains(".safetensors")
}

/// Returns whether a text is a list of prompts by frame: `"0": "a cat", "12": "a dog"`.
pub(super) fn is_schedule(text: &str) -> bool {
    text.trim().strip_prefix('"').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
