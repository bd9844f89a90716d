//! Nodes that pass on one of their inputs: reroutes, and switches whose position is in the file.

use std::borrow::Cow;

use serde_json::Value;

use super::graph::Node;
use super::known;
use crate::metadata::fields;

/// The inputs of the two branches of a switch.
pub(super) const BRANCHES: [(&str, &str); 6] = [
    ("on_true", "on_false"),
    ("tt_value", "ff_value"),
    ("true", "false"),
    ("when_TRUE", "when_FALSE"),
    ("IF_TRUE", "IF_FALSE"),
    ("value_if_true", "value_if_false"),
];
/// The inputs that hold the position of a switch with two branches.
const CONDITIONS: [&str; 9] =
    ["switch", "boolean", "cond", "condition", "boolean_value", "value", "evaluate", "if_condition", "ANY"];

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
    let condition = || set_by(&CONDITIONS).and_then(|on| known::is_true(&on));
    // Computes one of two expressions.
    if node.class == "SimpleMathCondition+" {
        return None;
    }
    if node.class == "LazySwitch1way" || (node.class == "LazySwitch2way" && slot == 0) {
        return named(if condition()? { "ON_TRUE" } else { "ON_FALSE" });
    }
    if node.class == "ImageMuxer" {
        let place = fields::whole(set_by(&["input_selector"])?.as_ref())?;
        return named(&format!("image_{}", place + 1));
    }
    for (on_true, on_false) in BRANCHES.into_iter().filter(|_| node.class != "CR Set Value on String") {
        match (named(on_true), named(on_false)) {
            (None, None) => {}
            (Some(one), Some(other)) => return Some(if condition()? { one } else { other }),
            // The only branch is taken, whatever the condition.
            (one, other) => return one.or(other),
        }
    }
    // Two inputs that are told apart by a letter, or whether a text contains another.
    let letter = |letter: &str| node.inputs.keys().find(|name| name.ends_with(letter)).map(String::as_str);
    if node.class.ends_with(" Input Switch") && node.has("boolean") {
        return letter(if condition()? { "_a" } else { "_b" });
    }
    if node.class.starts_with("LogicGateEither") {
        return named(if condition()? { "input1" } else { "input2" });
    }
    if node.class == "CR Set Value on String" {
        let (text, part) = (set_by(&["text"])?, set_by(&["test_string"])?);
        let contains = text.as_str()?.contains(part.as_str()?);
        return named(if contains { "value_if_true" } else { "value_if_false" });
    }
    if node.class == "LayerUtility: SwitchCase" {
        let case = set_by(&["switch_condition"])?;
        let matching = (1..10).find(|place| set_by(&[&format!("case_{place}")]).as_ref() == Some(&case));
        return matching.and_then(|place| named(&format!("input_{place}"))).or_else(|| named("input_default"));
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
    // The name of the chosen input.
    if let Some(name) = set_by(&["Input"]).as_deref().and_then(Value::as_str).and_then(named) {
        return Some(name);
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
    // `index` counts from 0 if there is an input with this number; two families of numbered inputs are ambiguous.
    let counts_from_0 = || node.has("value1") || node.inputs.keys().any(|name| name.ends_with('0'));
    (chosen.next().is_none() && (!first || counts_from_0())).then_some(only)
}

/// Returns whether a node passes on its first connected input (rgthree).
pub(super) fn takes_first(node: &Node) -> bool {
    ["Any Switch", "Context Switch"].iter().any(|class| node.class.starts_with(class))
}

/// Returns whether a node outputs nothing if nothing is connected to it.
pub(super) fn needs_input(node: &Node) -> bool {
    takes_first(node) || node.class.starts_with("Context")
}

/// The inputs through which a bundle extends another, whose outputs are in the same places.
pub(super) const EXTENDED: [&str; 3] = ["base_ctx", "CPipeAny", "zipped_prompt"];

/// Returns the input that an output of a bundle is: of a context (rgthree), or of values that were put together. What a
/// bundle lacks is in the one that it extends.
pub(super) fn of_bundle(node: &Node, slot: u64) -> Option<&str> {
    const CONTEXT: [&str; 23] = [
        "base_ctx",
        "model",
        "clip",
        "vae",
        "positive",
        "negative",
        "latent",
        "images",
        "seed",
        "steps",
        "step_refiner",
        "cfg",
        "ckpt_name",
        "sampler",
        "scheduler",
        "clip_width",
        "clip_height",
        "text_pos_g",
        "text_pos_l",
        "text_neg_g",
        "text_neg_l",
        "mask",
        "control_net",
    ];
    let place = usize::try_from(slot).ok()?;
    let own = match node.class.as_str() {
        "Context Big (rgthree)" => (*CONTEXT.get(place).filter(|_| place > 0)?).to_owned(),
        // Without settings.
        "Context (rgthree)" => (*CONTEXT.get(place).filter(|_| place > 0 && place < 9)?).to_owned(),
        "Pipe to/edit any [Crystools]" | "Pipe from any [Crystools]" if place > 0 => format!("any_{place}"),
        "ZipPrompt //Inspire" => (*["positive", "negative", "name_opt"].get(place)?).to_owned(),
        "UnzipPrompt //Inspire" => String::new(),
        _ => return None,
    };
    let names = [own.as_str()].into_iter().chain(EXTENDED);
    names.into_iter().find_map(|name| node.inputs.get_key_value(name)).map(|(name, _)| name.as_str())
}
