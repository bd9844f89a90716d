//! A graph of nodes and links in the format in which ComfyUI queues it.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::arithmetic::Formula;
use super::patterns::Patterns;
use super::switches::EXTENDED;
use super::{known, switches};

/// The maximum number of nodes; the largest graphs seen have a few hundred.
pub(super) const MAX_NODES: usize = 10_000;

/// The maximum number of consecutive switches that are followed.
const MAX_SWITCHES: usize = 16;
/// The maximum number of contexts that are merged; the node has five inputs.
const MAX_MERGED: usize = 8;
/// The maximum number of nodes visited for the position of a switch.
pub(super) const MAX_VISITS: usize = 64;

/// A queued graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    by_id: HashMap<String, usize>,
    /// The patterns of its nodes.
    pub(super) patterns: Patterns,
}

/// A node: its class and its inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) class: String,
    pub(super) inputs: Map<String, Value>,
    /// The names of its outputs, which only the editor's graph has.
    pub(super) outputs: Vec<String>,
}

/// The value of an input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    /// An output of another node.
    Link {
        /// The index of the node in the graph.
        node: usize,
        /// The number of the output.
        slot: u64,
    },
    /// A literal value.
    Literal(&'a Value),
}

/// Returns whether this is a queued graph: an object most of whose values are nodes.
pub(super) fn is_queued(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        let nodes = object.values().filter(|node| node.get("class_type").is_some_and(Value::is_string)).count();
        nodes > 0 && nodes * 2 >= object.len()
    })
}

/// Returns the class and the inputs of a queued node.
pub(super) fn class_and_inputs(node: &Value) -> Option<(&str, Option<&Map<String, Value>>)> {
    Some((node.get("class_type")?.as_str()?, node.get("inputs").and_then(Value::as_object)))
}

/// Parses a link: `["4", 0]` is the first output of node 4. Only the graph knows whether that node exists.
pub(super) fn link_of(value: &Value) -> Option<(Cow<'_, str>, u64)> {
    let Some([id, slot]) = value.as_array().map(Vec::as_slice) else { return None };
    let id = match id {
        Value::String(id) => Cow::Borrowed(id.as_str()),
        Value::Number(id) => Cow::Owned(id.to_string()),
        _ => return None,
    };
    Some((id, slot.as_u64()?))
}

impl Graph {
    /// Builds a graph from JSON for which [`is_queued`] holds.
    pub(super) fn of_queued(value: &Value) -> Graph {
        let nodes = value.as_object().into_iter().flatten().filter_map(|(id, node)| Node::of_queued(id, node));
        Graph::of(nodes.take(MAX_NODES).collect())
    }

    /// Builds a graph of these nodes.
    pub(super) fn of(nodes: Vec<Node>) -> Graph {
        let by_id = nodes.iter().enumerate().map(|(place, node)| (node.id.clone(), place)).collect();
        Graph { nodes, by_id, patterns: Patterns::default() }
    }

    /// Names the outputs of nodes as another graph with the same nodes does.
    pub(super) fn name_outputs(&mut self, other: &Graph) {
        for node in &mut self.nodes {
            let same = other.by_id.get(&node.id).and_then(|place| other.nodes.get(*place));
            if let Some(same) = same.filter(|same| same.class == node.class) {
                node.outputs.clone_from(&same.outputs);
            }
        }
    }

    /// Returns the node at this index.
    pub(super) fn node(&self, place: usize) -> Option<&Node> {
        self.nodes.get(place)
    }

    /// Returns the value of an input.
    pub(super) fn input<'a>(&'a self, node: &'a Node, name: &str) -> Option<Input<'a>> {
        node.inputs.get(name).map(|value| self.resolve(value))
    }

    /// Returns the node that an input is linked to.
    pub(super) fn linked(&self, node: &Node, name: &str) -> Option<usize> {
        match self.input(node, name)? {
            Input::Link { node, .. } => Some(node),
            Input::Literal(_) => None,
        }
    }

    /// Iterates over the links into a node: the name of the input, and the node and output it comes from.
    pub(super) fn links<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = (&'a str, usize, u64)> {
        node.inputs.iter().filter_map(|(name, value)| match self.resolve(value) {
            Input::Link { node, slot } => Some((name.as_str(), node, slot)),
            Input::Literal(_) => None,
        })
    }

    /// Resolves the value of an input to a link or a literal.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Input<'a> {
        match self.link(value) {
            Some((node, slot)) => self.chosen(node, slot, MAX_SWITCHES),
            None => Input::Literal(value),
        }
    }

    /// Follows a link through reroutes and switches whose position is in the file.
    fn chosen<'a>(&'a self, place: usize, slot: u64, left: usize) -> Input<'a> {
        let here = Input::Link { node: place, slot };
        let (Some(node), Some(left)) = (self.nodes.get(place), left.checked_sub(1)) else { return here };
        let visits = Cell::new(MAX_VISITS);
        let connects = |value: &Value| self.is_connected(value, &visits);
        if node.class.starts_with("Context Merge") {
            return self.merged(node, slot, left).unwrap_or(here);
        }
        let passed_on = || switches::passed_on(node, slot, |value| self.literal(value, &visits), connects);
        let Some(input) = switches::of_bundle(node, slot).or_else(passed_on) else { return here };
        match node.inputs.get(input) {
            Some(value) => match self.link(value) {
                Some((next, _)) if EXTENDED.contains(&input) || node.class.starts_with("Context Switch") => {
                    self.chosen(next, slot, left)
                }
                Some((next, slot)) => self.chosen(next, slot, left),
                None if value.is_array() => here,
                None => Input::Literal(value),
            },
            None => here,
        }
    }

    /// Returns an output of several contexts, the last of which that has it counts.
    fn merged<'a>(&'a self, node: &'a Node, slot: u64, left: usize) -> Option<Input<'a>> {
        let mut contexts: Vec<(&String, &Value)> = node.inputs.iter().collect();
        contexts.sort_by(|(one, _), (other, _)| other.cmp(one));
        let of_context = |(_, value): (&String, &'a Value)| {
            // Merges of merges double with every level.
            let found = self.chosen(self.link(value)?.0, slot, left / 4);
            let is_context = |place: usize| self.nodes.get(place).is_some_and(|node| node.class.starts_with("Context"));
            Some(found).filter(|found| !matches!(found, Input::Link { node, .. } if is_context(*node)))
        };
        contexts.into_iter().take(MAX_MERGED).find_map(of_context)
    }

    /// Returns whether a value is a link to anything but a switch without a connected input. `left` limits the nodes
    /// visited.
    fn is_connected(&self, value: &Value, left: &Cell<usize>) -> bool {
        let Some(rest) = left.get().checked_sub(1) else { return true };
        left.set(rest);
        let linked = self.link(value).and_then(|(place, _)| self.nodes.get(place));
        linked.is_some_and(|node| {
            !switches::needs_input(node) || node.inputs.values().any(|value| self.is_connected(value, left))
        })
    }

    /// Returns a value, or what the linked nodes make of it: the only value that one holds, or a number that it computes.
    /// `left` limits the nodes visited.
    pub(super) fn literal<'a>(&'a self, value: &'a Value, left: &Cell<usize>) -> Option<Cow<'a, Value>> {
        let Some((place, slot)) = self.link(value) else { return Some(Cow::Borrowed(value)) };
        left.set(left.get().checked_sub(1)?);
        let node = self.nodes.get(place)?;
        let mut get = |name: &str| self.literal(node.inputs.get(name)?, left).map(Cow::into_owned);
        if let Some(known) = known::output(&self.patterns, node, slot, &mut get) {
            return known.value().map(Cow::Owned);
        }
        if let Some(formula) = Formula::of(node) {
            let result = formula.compute(&mut |variable| {
                let value = get(variable)?;
                value.as_f64().or_else(|| value.as_bool().map(|on| f64::from(u8::from(on))))
            })?;
            return serde_json::Number::from_f64(result).map(|number| Cow::Owned(Value::Number(number)));
        }
        let only = || node.inputs.values().next().filter(|_| node.inputs.len() == 1);
        let constant = || {
            let names = ["int", "float", "boolean", "bool", "string", "text", "number", "seed"];
            names.iter().find_map(|name| node.inputs.get(*name)).filter(|value| !value.is_array())
        };
        self.literal(node.inputs.get("value").or_else(only).or_else(constant)?, left)
    }

    /// Returns the node and the output of a link; `None` if the value is not a link to a node of this graph.
    fn link(&self, value: &Value) -> Option<(usize, u64)> {
        let (id, slot) = link_of(value)?;
        Some((self.by_id.get(id.as_ref()).copied()?, slot))
    }
}

impl Node {
    fn of_queued(id: &str, value: &Value) -> Option<Node> {
        // Some servers remove the class of a node, but not what it is linked to.
        let (class, inputs) =
            class_and_inputs(value).or_else(|| Some(("", Some(value.get("inputs")?.as_object()?))))?;
        let (id, class) = (id.to_owned(), class.to_owned());
        Some(Node { id, class, inputs: inputs.cloned().unwrap_or_default(), outputs: Vec::new() })
    }

    /// Returns whether it has this input.
    pub(super) fn has(&self, name: &str) -> bool {
        self.inputs.contains_key(name)
    }

    /// Returns the name of an input as this node spells it: `steps` may be `Steps`.
    pub(super) fn spelled(&self, name: &str) -> Option<&str> {
        let (exact, _) = self.inputs.get_key_value(name).unzip();
        exact.or_else(|| self.inputs.keys().find(|key| key.eq_ignore_ascii_case(name))).map(String::as_str)
    }

    /// Returns the input that an output is named after, which it passes on.
    pub(super) fn passed_on(&self, slot: u64) -> Option<&str> {
        self.spelled(self.outputs.get(usize::try_from(slot).ok()?)?)
    }

    /// Returns a description of the node: `3 (KSampler)`.
    pub(super) fn label(&self) -> String {
        format!("{} ({})", self.id, self.class)
    }
}
