//! Resolves input values through links: numbers and names, followed to where they are defined. `texts` does the same for
//! texts.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::Value;

use super::arithmetic::Formula;
use super::graph::{Graph, Input, MAX_VISITS, Node};
use super::known;
use crate::metadata::fields;

/// The maximum number of consecutive links that are followed.
pub(super) const MAX_DEPTH: usize = 24;
/// The maximum number of nodes visited for one value, since nested joins double with every level.
pub(super) const MAX_ASKED: usize = 2000;
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
                if is_random(node) {
                    return None;
                }
                let mut get = |name: &str| known_value(graph, node, name, asked);
                if let Some(known) = known::output(&graph.patterns, node, slot, &mut get) {
                    return known.value().map(Cow::Owned);
                }
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
                // An output of another name is another setting, or what the node makes with them.
                let named = node.passed_on(slot).filter(|input| own.is_none() || input.contains(name));
                let inner = named
                    .or(own)
                    .or_else(bundle)
                    .or_else(longer)
                    .or_else(any)
                    .or_else(|| slider(node, slot))
                    .or_else(only)?;
                input = graph.input(node, inner)?;
            }
        }
    }
    None
}

/// Returns the value of an input of a known node: a number that is followed like any other, or else a constant.
fn known_value(graph: &Graph, node: &Node, name: &str, asked: &mut usize) -> Option<Value> {
    let literal = || graph.literal(node.inputs.get(name)?, &Cell::new(MAX_VISITS)).map(Cow::into_owned);
    literal().or_else(|| follow_number(graph, node, name, asked).map(Cow::into_owned))
}

/// Returns whether a node draws a number between two others, for which it has a seed of its own.
fn is_random(node: &Node) -> bool {
    let has = |names: [&str; 3]| names.iter().any(|name| node.has(name));
    node.has("seed") && has(["min", "minimum", "min_value"]) && has(["max", "maximum", "max_value"])
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
