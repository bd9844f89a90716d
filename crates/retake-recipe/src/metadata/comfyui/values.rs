//! Values of inputs that may be links: numbers and texts, followed to where they are written down.

use std::collections::HashSet;

use serde_json::Value;

use super::graph::{Graph, Input, Node};
use crate::recipe::MAX_PROMPT_BYTES;

/// How far a value is followed.
const MAX_DEPTH: usize = 24;
/// How many nodes are asked for one text: joins of joins double with every one.
const MAX_ASKED: usize = 2000;
/// The inputs under which nodes keep a number.
const NUMBERS: [&str; 14] = [
    "seed",
    "noise_seed",
    "value",
    "Value",
    "int",
    "INT",
    "number",
    "Number",
    "float",
    "FLOAT",
    "steps",
    "cfg",
    "a",
    "val",
];
/// The inputs under which nodes keep a text; the populated one is what a wildcard became.
const TEXTS: [&str; 17] = [
    "populated_text",
    "text",
    "Text",
    "string",
    "String",
    "value",
    "prompt",
    "prompt_text",
    "text_positive",
    "positive",
    "wildcard_text",
    "text_g",
    "input",
    "any",
    "source",
    "input_text",
    "multi_line_prompt",
];
/// Classes that give out the text they hold, by a part of their name.
const PLAIN: [&str; 20] = [
    "primitive",
    "string",
    "text",
    "prompt",
    "wildcard",
    "show",
    "preview",
    "note",
    "concat",
    "join",
    "combine",
    "switch",
    "reroute",
    "multiline",
    "input",
    "any",
    "convert",
    "replace",
    "styler",
    "constant",
];
/// Classes whose text comes into being when they run, by a part of their name: it is not in the file.
const RUNTIME: [&str; 20] = [
    "generate",
    "llm",
    "gpt",
    "ollama",
    "gemini",
    "qwen",
    "florence",
    "caption",
    "interrog",
    "tagger",
    "vlm",
    "chat",
    "claude",
    "openai",
    "groq",
    "llama",
    "joycaption",
    "moondream",
    "deepseek",
    "loadtext",
];

/// The number behind an input.
pub(super) fn number<'a>(graph: &'a Graph, node: &'a Node, name: &str) -> Option<&'a Value> {
    let mut input = graph.input(node, name)?;
    for _ in 0..MAX_DEPTH {
        match input {
            Input::Literal(value) => return (value.is_number() || value.is_string()).then_some(value),
            Input::Link { node, .. } => {
                let node = graph.node(node)?;
                let inner = NUMBERS.iter().copied().chain([name]).find(|inner| node.has(inner));
                // A switch or a reroute has one input that could be meant.
                let only = || node.inputs.keys().map(String::as_str).find(|_| node.inputs.len() == 1);
                input = graph.input(node, inner.or_else(only)?)?;
            }
        }
    }
    None
}

/// The name behind an input: of a model, a sampler, a scheduler.
pub(super) fn name(graph: &Graph, node: &Node, input: &str) -> Option<String> {
    match graph.input(node, input)? {
        Input::Literal(Value::String(text)) => Some(text.clone()),
        // Some loaders wrap it: {"content": "x.safetensors", "image": null}.
        Input::Literal(Value::Object(wrapped)) => wrapped.get("content").and_then(Value::as_str).map(str::to_owned),
        Input::Literal(_) => None,
        Input::Link { node, .. } => {
            let node = graph.node(node)?;
            let inner = [
                input,
                "value",
                "string",
                "text",
                "String",
                "ckpt_name",
                "unet_name",
                "model_name",
                "sampler_name",
                "scheduler",
            ];
            inner.iter().find_map(|inner| match graph.input(node, inner)? {
                Input::Literal(Value::String(text)) => Some(text.clone()),
                _ => None,
            })
        }
    }
}

/// The text behind an input; none when it comes into being only when the graph runs.
pub(super) fn text(graph: &Graph, node: &Node, input: &str) -> Option<String> {
    let mut search = Search { graph, under_way: HashSet::new(), asked: 0 };
    search.follow(graph.input(node, input)?)
}

/// The search for one text.
struct Search<'a> {
    graph: &'a Graph,
    /// The nodes that are being asked, so that none is asked by itself.
    under_way: HashSet<usize>,
    asked: usize,
}

impl<'a> Search<'a> {
    fn follow(&mut self, input: Input<'a>) -> Option<String> {
        match input {
            Input::Literal(Value::String(text)) => Some(text.clone()),
            Input::Literal(_) => None,
            Input::Link { node: place, .. } => {
                self.asked += 1;
                if self.asked > MAX_ASKED || self.under_way.len() > MAX_DEPTH || !self.under_way.insert(place) {
                    return None;
                }
                let found = self.graph.node(place).and_then(|node| self.given_out(node));
                // Two inputs may come from one node.
                self.under_way.remove(&place);
                found
            }
        }
    }

    fn input(&mut self, node: &'a Node, name: &str) -> Option<String> {
        self.follow(self.graph.input(node, name)?)
    }

    /// The text that a node gives out.
    fn given_out(&mut self, node: &'a Node) -> Option<String> {
        let class = node.class.to_ascii_lowercase();
        if RUNTIME.iter().any(|part| class.contains(part)) {
            return None;
        }
        if let Some(on) = node.inputs.get("switch").and_then(Value::as_bool) {
            let branch = if on { ["on_true", "true"] } else { ["on_false", "false"] };
            return branch.iter().find_map(|name| self.input(node, name));
        }
        if ["concat", "join", "combine", "merge", "append"].iter().any(|part| class.contains(part)) {
            return self.joined(node);
        }
        if !PLAIN.iter().any(|part| class.contains(part)) {
            return None;
        }
        let written = TEXTS.iter().find_map(|name| self.input(node, name));
        // A node that shows a text keeps what it showed.
        written.or_else(|| node.inputs.get("text_0").or_else(|| node.inputs.get("text2"))?.as_str().map(str::to_owned))
    }

    /// The texts that go into a node that joins them, in the order of its inputs.
    fn joined(&mut self, node: &'a Node) -> Option<String> {
        const DELIMITERS: [&str; 4] = ["delimiter", "separator", "delim", "sep"];
        const SWITCHES: [&str; 2] = ["clean_whitespace", "linebreak_addition"];
        let delimiter = DELIMITERS.iter().find_map(|name| node.inputs.get(*name)?.as_str()).unwrap_or(" ");
        let delimiter = if delimiter == "\\n" { "\n" } else { delimiter };
        let mut parts = Vec::new();
        let mut length = 0;
        for name in
            node.inputs.keys().filter(|name| !DELIMITERS.contains(&name.as_str()) && !SWITCHES.contains(&name.as_str()))
        {
            let Some(input @ (Input::Literal(Value::String(_)) | Input::Link { .. })) = self.graph.input(node, name)
            else {
                continue;
            };
            // One part that is not known makes the whole unknown; so does one that no prompt could hold.
            let part = self.follow(input)?;
            length += part.len();
            if length > MAX_PROMPT_BYTES {
                return None;
            }
            parts.push(part);
        }
        parts.retain(|part| !part.is_empty());
        (!parts.is_empty()).then(|| parts.join(delimiter))
    }
}
