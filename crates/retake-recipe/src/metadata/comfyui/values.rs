//! Resolves input values through links: numbers, names and texts, followed to where they are defined.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::arithmetic::Formula;
use super::graph::{Graph, Input, Node};
use crate::metadata::fields;
use crate::recipe::MAX_PROMPT_BYTES;

/// The maximum number of consecutive links that are followed.
const MAX_DEPTH: usize = 24;
/// The maximum number of nodes visited for one text, since nested joins double with every level.
const MAX_ASKED: usize = 2000;
/// The inputs that hold the number of steps; nodes that wrap a library use its names.
pub(super) const STEPS: [&str; 6] =
    ["steps", "num_inference_steps", "num_steps", "inference_steps", "sampling_steps", "sample_steps"];
/// The inputs that hold a seed.
const SEEDS: [&str; 3] = ["seed", "noise_seed", "seed_num"];
/// Parts of the names of settings that are whole numbers.
const WHOLE: [&str; 4] = ["seed", "steps", "width", "height"];
/// Inputs that bundle many values and are extended by a node.
const BUNDLES: [&str; 7] = ["base_ctx", "context", "ctx", "pipe", "basic_pipe", "bus", "data"];
/// The inputs that hold a number of any kind.
const NUMBERS: [&str; 12] =
    ["value", "Value", "int", "INT", "number", "Number", "float", "FLOAT", "a", "val", "int_value", "default_value"];
/// The inputs that hold a text; `populated_text` is the result of a wildcard.
const TEXTS: [&str; 24] = [
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
    "text_value",
    "string_value",
    "Prompt",
    "positive_prompt",
    "text_1",
    "default_value",
    "negative",
];
/// The inputs of a joining node that hold what is put between its texts.
const DELIMITERS: [&str; 5] = ["delimiter", "separator", "delim", "sep", "delimmitor"];
/// What some joining nodes put between their texts, which is not in the file.
const JOINS: [(&str, &str); 3] = [("ConcatText_Zho", ", "), ("ConcatStringSingle", ""), ("JWStringConcat", "")];
/// Parts of class names of nodes that output the text they contain.
const PLAIN: [&str; 22] = [
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
    "style",
    "constant",
    "positive",
    "negative",
];
/// The names of the style that adds nothing.
const NO_STYLES: [&str; 3] = ["No Style", "None", "none"];
/// Parts of class names of nodes whose text is generated when they run, so that it is not in the file.
const RUNTIME: [&str; 22] = [
    "generate",
    "llm",
    "gpt",
    "ollama",
    "gemini",
    "gemma",
    "enhanceprompt",
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

/// Returns the number of an input, following links and computing what nodes compute.
pub(super) fn number<'a>(graph: &'a Graph, node: &'a Node, name: &str) -> Option<Cow<'a, Value>> {
    follow_number(graph, node, name, &mut 0)
}

/// Returns the number of an input. `asked` counts the nodes visited, since nested expressions double with every level.
fn follow_number<'a>(graph: &'a Graph, node: &'a Node, name: &str, asked: &mut usize) -> Option<Cow<'a, Value>> {
    let mut input = graph.input(node, name)?;
    for _ in 0..MAX_DEPTH {
        match input {
            Input::Literal(value) => return (value.is_number() || value.is_string()).then_some(Cow::Borrowed(value)),
            Input::Link { node, slot } => {
                *asked += 1;
                if *asked > MAX_ASKED {
                    return None;
                }
                let node = graph.node(node)?;
                if let Some(formula) = Formula::of(node) {
                    return computed(graph, node, formula, name, asked).map(Cow::Owned);
                }
                // The same setting under its own name, then in the bundle that the node extends, then any number: a
                // node with a seed is not another setting.
                let is_seed = name.contains("seed");
                let own = [name]
                    .into_iter()
                    .chain(SEEDS.into_iter().filter(|_| is_seed))
                    .find_map(|inner| node.spelled(inner));
                // A longer name of it, if only one input has one: `steps_total`.
                let longer = || {
                    let mut names = node.inputs.iter().filter(|(key, value)| key.contains(name) && value.is_number());
                    names.next().filter(|_| names.next().is_none()).map(|(key, _)| key.as_str())
                };
                let bundle = || BUNDLES.iter().copied().find(|inner| graph.linked(node, inner).is_some());
                let any = || NUMBERS.iter().copied().find(|inner| node.has(inner));
                // A switch or a reroute has only one possible input.
                let only = || node.inputs.keys().map(String::as_str).find(|_| node.inputs.len() == 1);
                let inner =
                    own.or_else(bundle).or_else(longer).or_else(any).or_else(|| slider(node, slot)).or_else(only)?;
                input = graph.input(node, inner)?;
            }
        }
    }
    None
}

/// Returns the input that holds the number of a slider: of one axis or of two, each as a whole number or as a fraction.
fn slider(node: &Node, slot: u64) -> Option<&'static str> {
    let [whole, fraction, kind] = if slot == 0 { ["Xi", "Xf", "isfloatX"] } else { ["Yi", "Yf", "isfloatY"] };
    let is_fraction = node.inputs.get(kind)?.as_u64()? != 0;
    Some(if is_fraction { fraction } else { whole })
}

/// Returns what a node computes for a setting.
fn computed(graph: &Graph, node: &Node, formula: Formula<'_>, name: &str, asked: &mut usize) -> Option<Value> {
    let result = formula.compute(&mut |variable| {
        let inputs = [variable.to_owned(), format!("values.{variable}"), format!("variables.{variable}")];
        let input = inputs.iter().find(|input| node.has(input))?;
        fields::number(&*follow_number(graph, node, input, asked)?)
    })?;
    if !WHOLE.iter().any(|whole| name.contains(whole)) {
        return Some(result.into());
    }
    // Some nodes round and others truncate.
    let whole = Some(result.trunc()).filter(|whole| *whole == result.round_ties_even());
    whole.map(Value::from)
}

/// Returns the name in an input: of a model, a sampler or a scheduler.
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

/// A text with its origin.
#[derive(Debug, Default)]
pub(super) struct Text<'a> {
    pub(super) text: String,
    /// The language model that rewrote the text when the graph ran; its output is not in the file.
    pub(super) rewritten_by: Option<&'a Node>,
}

/// Returns the text of an input, following links; `None` if it was only generated when the graph ran.
pub(super) fn text<'a>(graph: &'a Graph, node: &'a Node, input: &str) -> Option<Text<'a>> {
    let mut search = Search { graph, under_way: HashSet::new(), asked: 0, rewritten_by: None };
    let text = search.follow(graph.input(node, input)?)?;
    Some(Text { text, rewritten_by: search.rewritten_by })
}

/// Returns whether a node generates its text when it runs, so that it is not in the file.
pub(super) fn is_generated(node: &Node) -> bool {
    let class = node.class.to_ascii_lowercase();
    let is = |parts: &[&str]| parts.iter().any(|part| class.contains(part));
    is_language_model(node) || is(&RUNTIME) && !is(&["template", "builder", "encode"])
}

/// Returns whether a node has the settings of a language model, or calls one, whatever its name. A model that makes images
/// may have them, too, but then it has steps.
pub(super) fn is_language_model(node: &Node) -> bool {
    if STEPS.iter().any(|name| node.has(name)) {
        return false;
    }
    let calls = |value: &Value| value.as_str().is_some_and(|text| text.ends_with("/chat/completions"));
    node.inputs.values().any(calls)
        || ["max_tokens", "max_new_tokens"].iter().any(|name| node.has(name))
        || (node.has("temperature") && (node.has("top_p") || node.has("top_k")))
}

/// The search for a text.
struct Search<'a> {
    graph: &'a Graph,
    /// The nodes being visited, to detect cycles.
    under_way: HashSet<usize>,
    asked: usize,
    rewritten_by: Option<&'a Node>,
}

impl<'a> Search<'a> {
    fn follow(&mut self, input: Input<'a>) -> Option<String> {
        match input {
            Input::Literal(Value::String(text)) => Some(text.clone()),
            Input::Literal(_) => None,
            Input::Link { node: place, slot } => {
                self.asked += 1;
                if self.asked > MAX_ASKED || self.under_way.len() > MAX_DEPTH || !self.under_way.insert(place) {
                    return None;
                }
                let found = self.graph.node(place).and_then(|node| self.output_text(node, slot));
                // Two inputs may come from one node.
                self.under_way.remove(&place);
                found
            }
        }
    }

    fn input(&mut self, node: &'a Node, name: &str) -> Option<String> {
        self.follow(self.graph.input(node, name)?)
    }

    /// Returns the text that a node outputs.
    fn output_text(&mut self, node: &'a Node, slot: u64) -> Option<String> {
        let class = node.class.to_ascii_lowercase();
        let is = |parts: &[&str]| parts.iter().any(|part| class.contains(part));
        if is_generated(node) {
            return self.rewritten(node);
        }
        if class.contains("stringfunction") {
            return self.string_function(node);
        }
        if node.has("find") && node.has("replace") {
            let (text, find) = (self.input(node, "string")?, self.input(node, "find")?);
            // If the replacement is unknown, so is the text.
            let replaced = if text.contains(&find) { text.replace(&find, &self.input(node, "replace")?) } else { text };
            return Some(replaced).filter(|text| text.len() <= MAX_PROMPT_BYTES);
        }
        if node.has("regex_pattern") {
            return self.replaced_by_pattern(node);
        }
        if node.has("find1") && node.has("replace1") {
            return self.replaced(node);
        }
        let delimited = DELIMITERS.iter().any(|name| node.has(name));
        if delimited || is(&["concat", "join", "combine", "merge", "append"]) {
            return self.joined(node);
        }
        if !is(&PLAIN) {
            return None;
        }
        // A choice of styles, none of which was made.
        let styles = ["styles", "style"].iter().find_map(|name| node.inputs.get(*name)?.as_str());
        if class.contains("style") && node.inputs.len() == 1 && styles.is_some_and(|style| NO_STYLES.contains(&style)) {
            return Some(String::new());
        }
        // One text for each side, in this order.
        let sides = [("positive", "negative"), ("text_positive", "text_negative")];
        if let Some((positive, negative)) = sides.into_iter().find(|(one, other)| node.has(one) && node.has(other)) {
            return self.input(node, if slot == 1 { negative } else { positive });
        }
        // A node that displays a text also stores one, but that of the run before.
        TEXTS.iter().find_map(|name| self.input(node, name))
    }

    /// Returns the text given to a language model. If it looks at an image, this was a question about it, unless the
    /// model rewrites prompts for that image.
    fn rewritten(&mut self, node: &'a Node) -> Option<String> {
        const GIVEN: [&str; 9] =
            ["prompt", "user_prompt", "text", "user_input", "input_text", "string", "input", "query", "description"];
        let class = node.class.to_ascii_lowercase();
        let enhances = class.contains("enhance") || class.contains("ltx");
        // It goes on with a conversation, of which its text is only the last question.
        if self.graph.linked(node, "messages").is_some() {
            return None;
        }
        let sees = self.graph.links(node).any(|(name, ..)| name.contains("image") || name.contains("video"));
        if sees && !enhances {
            return None;
        }
        let text = GIVEN.iter().find_map(|name| self.request(node, name)).filter(|text| !text.trim().is_empty())?;
        self.rewritten_by = self.rewritten_by.or(Some(node));
        Some(text)
    }

    /// Returns the text in an input of a language model, without the instruction that it may be joined with.
    fn request(&mut self, node: &'a Node, name: &str) -> Option<String> {
        const INSTRUCTS: [&str; 5] =
            ["prompt engineer", "text-to-image", "image-generation prompt", "image generation prompt", "user's prompt"];
        const ASKS: [&str; 7] = ["transform ", "rewrite ", "expand ", "enhance ", "improve ", "convert ", "refine "];
        let input = self.graph.input(node, name)?;
        let whole = self.follow(input)?;
        let is_instruction = |text: &str| {
            let text = text.trim_start().to_lowercase();
            let asks = ASKS.iter().any(|verb| text.starts_with(verb));
            let addresses =
                ["you are an expert", "you are an ai ", "you are a prompt", "your task is", "i want you to"];
            text.starts_with("you are ")
                || addresses.iter().any(|part| text.contains(part))
                || INSTRUCTS.iter().any(|part| text.contains(part))
                || asks && ["prompt", "following"].iter().any(|part| text.contains(part))
        };
        let Input::Link { node: from, .. } = input else { return Some(whole) };
        let parts: Vec<String> = match self.graph.node(from) {
            Some(join) if is_instruction(&whole) => {
                let names: Vec<&str> =
                    join.inputs.keys().map(String::as_str).filter(|name| is_text_input(name)).collect();
                names.into_iter().filter_map(|name| self.input(join, name)).collect()
            }
            _ => return Some(whole),
        };
        let mut asked = parts.into_iter().filter(|part| !part.trim().is_empty() && !is_instruction(part));
        // An instruction alone is not a prompt.
        asked.next().filter(|_| asked.next().is_none())
    }

    /// Applies the replacement of a regular expression that is plain text; the result of others is unknown.
    fn replaced_by_pattern(&mut self, node: &'a Node) -> Option<String> {
        let text = ["string", "source_string", "text"].iter().find_map(|name| self.input(node, name))?;
        let pattern = self.input(node, "regex_pattern")?;
        if pattern.is_empty() {
            return Some(text);
        }
        let is_plain =
            |text: &str| !text.contains(['\\', '.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$']);
        let ignores_case = node.inputs.get("case_insensitive") == Some(&Value::Bool(true))
            || node.inputs.get("case_sensitive") == Some(&Value::Bool(false));
        let has_other_case =
            ignores_case && text.to_lowercase().contains(&pattern.to_lowercase()) && !text.contains(&pattern);
        if !is_plain(&pattern) || has_other_case {
            return None;
        }
        if !text.contains(&pattern) {
            return Some(text);
        }
        let replacement = ["replace", "replacement"].iter().find_map(|name| self.input(node, name))?;
        Some(text.replace(&pattern, &replacement))
            .filter(|text| is_plain(&replacement) && text.len() <= MAX_PROMPT_BYTES)
    }

    /// Applies the numbered replacements of a node.
    fn replaced(&mut self, node: &'a Node) -> Option<String> {
        let mut text = ["prompt", "text", "string"].iter().find_map(|name| self.input(node, name))?;
        for number in 1.. {
            let find = format!("find{number}");
            if !node.has(&find) {
                break;
            }
            let find = self.input(node, &find)?;
            if !find.is_empty() && text.contains(&find) {
                text = text.replace(&find, &self.input(node, &format!("replace{number}"))?);
            }
            if text.len() > MAX_PROMPT_BYTES {
                return None;
            }
        }
        Some(text)
    }

    /// Appends or replaces according to the node's settings.
    fn string_function(&mut self, node: &'a Node) -> Option<String> {
        let parts: Vec<String> = ["text_a", "text_b", "text_c"]
            .iter()
            .map(|name| if node.has(name) { self.input(node, name) } else { Some(String::new()) })
            .collect::<Option<_>>()?;
        let [a, b, c] = parts.as_slice() else { return None };
        match node.inputs.get("action").and_then(Value::as_str) {
            Some("replace") if !b.is_empty() => Some(a.replace(b, c)).filter(|text| text.len() <= MAX_PROMPT_BYTES),
            Some("append") => {
                let tidy = node.inputs.get("tidy_tags").and_then(Value::as_str) == Some("yes");
                let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
                let joined = if tidy { tidied(&parts.join(", ")) } else { parts.concat() };
                Some(joined).filter(|text| text.len() <= MAX_PROMPT_BYTES)
            }
            _ => None,
        }
    }

    /// Joins the input texts of a node, in the order of its inputs.
    fn joined(&mut self, node: &'a Node) -> Option<String> {
        let own = || JOINS.iter().find(|(class, _)| *class == node.class).map(|(_, delimiter)| *delimiter);
        let given = DELIMITERS.iter().find_map(|name| node.inputs.get(*name)?.as_str());
        let delimiter = given.or_else(own).unwrap_or(" ");
        let delimiter = match delimiter {
            "\\n" | "newline" => "\n",
            "none" => "",
            "space" => " ",
            "comma" => ",",
            delimiter => delimiter,
        };
        let mut parts = Vec::new();
        let mut length = 0;
        for name in node.inputs.keys().filter(|name| !DELIMITERS.contains(&name.as_str()) && is_text_input(name)) {
            let Some(input @ (Input::Literal(Value::String(_)) | Input::Link { .. })) = self.graph.input(node, name)
            else {
                continue;
            };
            // One unknown part makes the whole unknown; so does one that is too long for a prompt.
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

/// Removes empty tags and superfluous white space from a list of tags.
fn tidied(tags: &str) -> String {
    let mut tidy = String::with_capacity(tags.len());
    for part in tags.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ",").chars() {
        if part != ',' || !tidy.ends_with(',') {
            tidy.push(part);
        }
    }
    tidy
}

/// Returns whether an input of a joining node is one of its texts rather than one of its options.
fn is_text_input(name: &str) -> bool {
    const OPTIONS: [&str; 10] = [
        "clean_whitespace",
        "linebreak_addition",
        "mode",
        "action",
        "tidy_tags",
        "strip",
        "newline",
        "add_comma",
        "seed",
        "trim",
    ];
    let lower = name.to_ascii_lowercase();
    !OPTIONS.contains(&lower.as_str())
        && (["text", "string", "prompt", "input", "str", "value", "any", "tag", "prefix", "suffix", "positive", "part"]
            .iter()
            .any(|part| lower.starts_with(part) || lower.ends_with(part))
            || lower.len() == 1)
}
