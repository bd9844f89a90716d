//! Nodes that pass on one of their inputs: reroutes, and switches whose position is in the file.

use std::borrow::Cow;

use serde_json::Value;

use super::graph::Node;
use crate::metadata::fields;

/// Returns the input that a node passes on, if it is a reroute or a switch whose position is in the file.
///
/// `slot` is the output that is asked for; `literal` resolves the input that sets the position to a value, and
/// `is_connected` returns whether an input leads to anything.
pub(super) fn passed_on<'a>(
    node: &'a Node,
    slot: u64,
    literal: impl Fn(&'a Value) -> Option<Cow<'a, Value>>,
    is_connected: impl Fn(&'a Value) -> bool,
) -> Option<&'a str> {
    let set_by = |names: &[&str]| names.iter().find_map(|name| literal(node.inputs.get(*name)?));
    let named = |name: &str| node.inputs.get_key_value(name).map(|(name, _)| name.as_str());
    // Two branches and a condition.
    for (on_true, on_false) in [("on_true", "on_false"), ("tt_value", "ff_value"), ("true", "false")] {
        if node.has(on_true) || node.has(on_false) {
            let on = set_by(&["switch", "boolean", "cond", "condition", "boolean_value", "value"])
                .and_then(|on| as_bool(&on));
            return named(if on? { on_true } else { on_false });
        }
    }
    // It delays one value until another exists, and passes on both.
    if node.inputs.len() == 2 && node.has("signal") && node.has("value") {
        return named(if slot == 0 { "signal" } else { "value" });
    }
    // An input and another one in its place.
    if node.inputs.len() == 2 && node.has("input") && node.has("fallback") {
        return named(if is_connected(node.inputs.get("input")?) { "input" } else { "fallback" });
    }
    let class = node.class.as_str();
    if class == "Reroute" || class.starts_with("Reroute ") {
        return node.inputs.keys().next().map(String::as_str);
    }
    if takes_first(node) {
        let links = node.inputs.iter().filter(|(_, value)| is_connected(value));
        let mut links: Vec<&str> = links.map(|(name, _)| name.as_str()).collect();
        links.sort_unstable();
        return links.first().copied();
    }
    if !class.to_ascii_lowercase().contains("switch") {
        return None;
    }
    // A number that selects one of several numbered inputs.
    let (number, first) = match set_by(&["select", "selection_in", "Input", "input", "index"])?.as_ref() {
        // What was computed may be written as a float.
        number @ Value::Number(_) => (u64::from(fields::whole(number)?), node.has("index")),
        Value::String(number) => (number.parse().ok()?, false),
        _ => return None,
    };
    let numbered = |name: &&String| {
        let digits = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        name.get(digits..).is_some_and(|end| end.parse() == Ok(number)) && digits > 0
    };
    let mut chosen = node.inputs.keys().filter(numbered);
    let only = chosen.next()?;
    // `index` counts from 0 if there is a `value0`; two families of numbered inputs are ambiguous.
    (chosen.next().is_none() && (!first || node.has("value0") || node.has("value1"))).then_some(only)
}

/// Returns whether a node passes on its first connected input (rgthree).
pub(super) fn takes_first(node: &Node) -> bool {
    ["Any Switch", "Context Switch"].iter().any(|class| node.class.starts_with(class))
}

fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(on) => Some(*on),
        Value::Number(number) => number.as_f64().map(|number| number != 0.0),
        _ => None,
    }
}
