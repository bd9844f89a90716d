//! Resolves the texts of inputs through links: joins, replacements and styles, followed to where a person typed them.
//! What is special about language models is in `rewriting`.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;

use regex::NoExpand;
use serde_json::Value;

use super::graph::{Graph, Input, MAX_VISITS, Node};
use super::known;
use super::patterns::{Flags, replaced, replaced_matches};
use super::rewriting::is_generated;
use super::switches::BRANCHES;
use super::values::{self, MAX_ASKED, MAX_DEPTH};
use crate::metadata::json;
use crate::recipe::MAX_PROMPT_BYTES;

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
const JOINS: [(&str, &str); 8] = [
    ("FlexibleStringMergerNode", " AND "),
    ("FusionText", ""),
    ("ConcatText_Zho", ", "),
    ("LayerUtility: TextJoin", ", "),
    ("ComfyUIDeployStringCombine", ", "),
    ("ConcatStringSingle", ""),
    ("JWStringConcat", ""),
    ("MergeString", ""),
];
/// Parts of class names of nodes that output the text they contain.
const PLAIN: [&str; 24] = [
    "translate",
    "dprandom",
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

/// Returns the text that a node outputs.
pub(super) fn of_output<'a>(graph: &'a Graph, node: &'a Node, slot: u64) -> Option<Text<'a>> {
    let mut search = Search { graph, under_way: HashSet::new(), asked: 0, rewritten_by: None };
    let text = search.output_text(node, slot)?;
    Some(Text { text, rewritten_by: search.rewritten_by })
}

/// The search for a text.
pub(super) struct Search<'a> {
    pub(super) graph: &'a Graph,
    /// The nodes being visited, to detect cycles.
    under_way: HashSet<usize>,
    asked: usize,
    pub(super) rewritten_by: Option<&'a Node>,
}

impl<'a> Search<'a> {
    pub(super) fn follow(&mut self, input: Input<'a>) -> Option<String> {
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

    pub(super) fn input(&mut self, node: &'a Node, name: &str) -> Option<String> {
        self.follow(self.graph.input(node, name)?)
    }

    /// Returns the value of an input of any type.
    fn value(&mut self, node: &'a Node, name: &str) -> Option<Value> {
        match self.graph.input(node, name)? {
            Input::Literal(value) => Some(value.clone()),
            link => self
                .follow(link)
                .map(Value::String)
                .or_else(|| self.graph.literal(node.inputs.get(name)?, &Cell::new(MAX_VISITS)).map(Cow::into_owned)),
        }
    }

    /// Returns the text that a node outputs.
    fn output_text(&mut self, node: &'a Node, slot: u64) -> Option<String> {
        let class = node.class.to_ascii_lowercase();
        let is = |parts: &[&str]| parts.iter().any(|part| class.contains(part));
        let has = |names: &[&str]| names.iter().all(|name| node.has(name));
        if is_generated(node) {
            return self.rewritten(node);
        }
        if let Some(known) = known::output(&self.graph.patterns, node, slot, &mut |name| self.value(node, name)) {
            return known.value().as_ref().and_then(json::plain).filter(|text| text.len() <= MAX_PROMPT_BYTES);
        }
        // What a node displays is the text of the run before; what it passes on is linked.
        if self.graph.linked(node, "passthrough").is_some() {
            return self.input(node, "passthrough");
        }
        if is(&["show", "display", "preview"]) && self.graph.links(node).count() == 1 {
            let (name, ..) = self.graph.links(node).next()?;
            return self.input(node, name);
        }
        if let Some(template) = node.inputs.get("text").and_then(Value::as_str).filter(|_| node.has("output_type")) {
            return self.filled(node, template);
        }
        if let Some(expression) = node.inputs.get("python_expression").and_then(Value::as_str) {
            return self.sum(node, expression);
        }
        if class.contains("stringfunction") {
            return self.string_function(node);
        }
        if has(&["find", "replace"]) {
            let text = ["string", "text"].iter().find_map(|name| self.input(node, name))?;
            let find = self.input(node, "find")?;
            // If the replacement is unknown, so is the text.
            if !text.contains(&find) {
                return Some(text);
            }
            return replaced(&text, &find, &self.input(node, "replace")?);
        }
        if node.has("regex_pattern") && ["replace", "replacement"].iter().any(|name| node.has(name)) {
            return self.replaced_by_pattern(node);
        }
        if has(&["find1", "replace1"]) {
            return self.replaced_in_turn(node);
        }
        if has(&["start_index", "max_rows"]) {
            return self.rows(node);
        }
        let delimited = DELIMITERS.iter().any(|name| node.has(name));
        if delimited || is(&["concat", "join", "combine", "merge", "append", "fusiontext"]) {
            return self.joined(node);
        }
        // A switch whose position is not in the file, if it does not matter.
        for (one, other) in BRANCHES {
            if has(&[one, other]) {
                let text = self.input(node, one)?;
                return self.input(node, other).filter(|other| *other == text);
            }
        }
        // Which line of a text it is depends on the run.
        if is(&["random line", "randomline"]) {
            return None;
        }
        if !is(&PLAIN) {
            let is_only = node.inputs.values().filter(|value| value.is_string() || value.is_array()).count() == 1;
            let text = TEXTS.iter().find_map(|name| node.inputs.get(*name)?.as_str());
            return text.filter(|_| is_only).map(str::to_owned);
        }
        // What is added to the text is part of it.
        if ["prefix", "suffix"].iter().any(|name| self.graph.linked(node, name).is_some()) {
            return self.joined(node);
        }
        // A choice of styles, none of which was made.
        let styles = ["styles", "style"].iter().find_map(|name| node.inputs.get(*name)?.as_str());
        let is_unstyled = class.contains("style") && styles.is_some_and(|style| NO_STYLES.contains(&style));
        if is_unstyled && !TEXTS.iter().any(|name| node.has(name)) {
            return Some(String::new());
        }
        // One text for each side, in this order.
        let sides = [("positive", "negative"), ("text_positive", "text_negative")];
        if let Some((positive, negative)) = sides.into_iter().find(|(one, other)| has(&[one, other])) {
            return self.input(node, if slot == 1 { negative } else { positive });
        }
        // One text for each output.
        if has(&["text", "text_b"]) {
            let names = ["text", "text_b", "text_c", "text_d"];
            return self.input(node, names.get(usize::try_from(slot).ok()?)?);
        }
        let is_constant = node.inputs.len() == 1 && is(&["primitive", "constant"]);
        let only = || node.inputs.values().find_map(Value::as_str).filter(|_| is_constant).map(str::to_owned);
        TEXTS.iter().find_map(|name| self.input(node, name)).or_else(only)
    }

    /// Returns the rows of a list of prompts that a node outputs, one for each image.
    fn rows(&mut self, node: &'a Node) -> Option<String> {
        let number = |name: &str| usize::try_from(values::number(self.graph, node, name)?.as_u64()?).ok();
        let (start, most) = (number("start_index")?, number("max_rows")?);
        let list = ["multiline_text", "prompt", "text"].iter().find_map(|name| self.input(node, name))?;
        let mut around = |name: &str| if node.has(name) { self.input(node, name) } else { Some(String::new()) };
        let (before, after) = (around("prepend_text")?, around("append_text")?);
        let drops_empty = node.inputs.get("remove_empty_lines") == Some(&Value::Bool(true));
        let lines = list.lines().map(str::trim).filter(|line| !drops_empty || !line.is_empty());
        let rows: Vec<String> = lines.skip(start).take(most).map(|line| format!("{before}{line}{after}")).collect();
        Some(rows.join("\n")).filter(|text| !text.is_empty() && text.len() <= MAX_PROMPT_BYTES)
    }

    /// Applies the replacement of a regular expression. The result is unknown if the pattern or the replacement has
    /// something that only Python knows.
    fn replaced_by_pattern(&mut self, node: &'a Node) -> Option<String> {
        let text = ["string", "source_string", "text"].iter().find_map(|name| self.input(node, name))?;
        let pattern = self.input(node, "regex_pattern")?;
        let is = |name: &str, on: bool| node.inputs.get(name) == Some(&Value::Bool(on));
        let count = ["count", "max_n_replacements"].iter().find_map(|name| node.inputs.get(*name)?.as_i64());
        let flags = Flags {
            ignores_case: is("case_insensitive", true) || is("case_sensitive", false),
            multiline: is("multiline", true),
            dotall: is("dotall", true),
        };
        let pattern = self.graph.patterns.compile(&pattern, flags)?;
        if pattern.as_str().is_empty() || !pattern.is_match(&text) {
            return Some(text);
        }
        let replacement = ["replace", "replacement"].iter().find_map(|name| self.input(node, name))?;
        let count = usize::try_from(count.unwrap_or(0)).unwrap_or(0);
        replaced_matches(&text, &pattern, NoExpand(&replacement), replacement.len(), count)
            .filter(|_| !replacement.contains('\\'))
    }

    /// Applies the numbered replacements of a node.
    fn replaced_in_turn(&mut self, node: &'a Node) -> Option<String> {
        let mut text = ["prompt", "text", "string"].iter().find_map(|name| self.input(node, name))?;
        for number in 1.. {
            let find = format!("find{number}");
            if !node.has(&find) {
                break;
            }
            let find = self.input(node, &find)?;
            if !find.is_empty() && text.contains(&find) {
                text = replaced(&text, &find, &self.input(node, &format!("replace{number}"))?)?;
            }
            if text.len() > MAX_PROMPT_BYTES {
                return None;
            }
        }
        Some(text)
    }

    /// Fills in a template with the texts of inputs: `a photo of %aux%`.
    fn filled(&mut self, node: &'a Node, template: &str) -> Option<String> {
        let mut filled = String::new();
        for (place, part) in template.split('%').enumerate() {
            match node.inputs.keys().find(|name| place % 2 == 1 && name.eq_ignore_ascii_case(part)) {
                Some(name) => filled.push_str(&self.input(node, name)?),
                None if place % 2 == 1 => return None,
                None => filled.push_str(part),
            }
            if filled.len() > MAX_PROMPT_BYTES {
                return None;
            }
        }
        Some(filled)
    }

    /// Joins texts as an expression in Python does: variables and literals with a plus between them.
    fn sum(&mut self, node: &'a Node, expression: &str) -> Option<String> {
        let mut sum = String::new();
        for term in expression.split('+').map(str::trim) {
            let literal = ['"', '\''].iter().find_map(|quote| term.strip_prefix(*quote)?.strip_suffix(*quote));
            match literal {
                Some(literal) if literal.contains(['"', '\'', '\\']) => return None,
                Some(literal) => sum.push_str(literal),
                None => sum.push_str(&self.input(node, term)?),
            }
        }
        Some(sum).filter(|sum| sum.len() <= MAX_PROMPT_BYTES)
    }

    /// Appends or replaces according to the node's settings.
    fn string_function(&mut self, node: &'a Node) -> Option<String> {
        let parts: Vec<String> = ["text_a", "text_b", "text_c"]
            .iter()
            .map(|name| if node.has(name) { self.input(node, name) } else { Some(String::new()) })
            .map(|part| part.map(|part| if part == "undefined" { String::new() } else { part }))
            .collect::<Option<_>>()?;
        let [a, b, c] = parts.as_slice() else { return None };
        match node.inputs.get("action").and_then(Value::as_str) {
            // A pattern.
            Some("replace") if b.len() > 1 && b.starts_with('/') && b.ends_with('/') => {
                let pattern = self.graph.patterns.compile(b.trim_matches('/'), Flags::default())?;
                replaced_matches(a, &pattern, NoExpand(c), c.len(), 0).filter(|_| !c.contains('\\'))
            }
            Some("replace") if !b.is_empty() => replaced(a, b, c),
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
            "slash" => "/",
            "comma" => ", ",
            delimiter => delimiter,
        };
        let mut parts = Vec::new();
        let mut length = 0;
        let texts = node.inputs.iter().filter(|(_, value)| value.is_string() || value.is_array());
        let names = texts.map(|(name, _)| name);
        let names = ordered(names.filter(|name| !DELIMITERS.contains(&name.as_str()) && is_text_input(name)));
        let count = ["inputcount", "number_of_inputs"].iter().find_map(|name| node.inputs.get(*name));
        let count = count.and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let names = names.into_iter().take(count.unwrap_or(usize::MAX));
        let is_clean = node.inputs.get("clean_whitespace").is_some_and(|on| on == "true" || on == true);
        for name in names {
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
            let is_trimmed = is_clean || node.class == "FlexibleStringMergerNode";
            parts.push(if is_trimmed { part.trim().to_owned() } else { part });
        }
        // One joins empty texts, too.
        if node.class != "CR Combine Prompt" {
            parts.retain(|part| !["", "undefined"].contains(&part.as_str()));
        }
        (!parts.is_empty()).then(|| parts.join(delimiter))
    }
}

/// Returns the inputs of a join in their order: by the numbers or letters at the end of their names if they differ only in
/// them, since a file lists typed texts before linked ones. Otherwise what is put before the others comes first.
fn ordered<'n>(names: impl Iterator<Item = &'n String>) -> Vec<&'n String> {
    let mut names: Vec<&String> = names.collect();
    let split = |name: &'n str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name.get(stem.len()..).and_then(|number| number.parse::<u64>().ok());
        let letter = || name.rsplit_once('_').filter(|(_, end)| end.len() == 1);
        match (number, letter()) {
            (Some(number), _) => (stem.trim_end_matches('_'), number, ""),
            (None, Some((stem, letter))) => (stem, 0, letter),
            (None, None) if name.len() == 1 => ("", 0, name),
            (None, None) => (name, 0, ""),
        }
    };
    let is_series = names.windows(2).all(|pair| matches!(pair, [one, other] if split(one).0 == split(other).0));
    if is_series {
        names.sort_by_key(|name| split(name));
    } else {
        names.sort_by_key(|name| match name.to_ascii_lowercase().as_str() {
            "prepend" | "prefix" | "pre_text" => -1,
            "append" | "suffix" => 1,
            _ => 0,
        });
    }
    names
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
pub(super) fn is_text_input(name: &str) -> bool {
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
        && ([
            "text", "string", "prompt", "input", "str", "value", "any", "tag", "prefix", "suffix", "positive", "part",
            "prepend", "body", "append",
        ]
        .iter()
        .any(|part| lower.starts_with(part) || lower.ends_with(part))
            || lower.len() == 1)
}
