//! A graph of nodes and links, as ComfyUI queues it.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The most nodes that are looked at; the largest graphs seen have a few hundred.
pub(super) const MAX_NODES: usize = 10_000;

/// How many switches behind each other are followed.
const MAX_SWITCHES: usize = 16;

/// A queued graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    by_id: HashMap<String, usize>,
}

/// A node: what it is, and what goes into it.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) class: String,
    pub(super) inputs: Map<String, Value>,
}

/// What an input is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    /// What comes out of another node there.
    Link {
        /// The node, by its place in the graph.
        node: usize,
        /// Which of its outputs.
        slot: u64,
    },
    /// A value.
    Literal(&'a Value),
}

/// Whether this is a queued graph: an object of which most values are nodes.
pub(super) fn is_queued(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        let nodes = object.values().filter(|node| node.get("class_type").is_some_and(Value::is_string)).count();
        nodes > 0 && nodes * 2 >= object.len()
    })
}

impl Graph {
    /// The graph that this JSON is, where [`is_queued`] says so.
    pub(super) fn of_queued(value: &Value) -> Graph {
        let nodes = value.as_object().into_iter().flatten().filter_map(|(id, node)| Node::of_queued(id, node));
        Graph::of(nodes.take(MAX_NODES).collect())
    }

    /// A graph of these nodes.
    pub(super) fn of(nodes: Vec<Node>) -> Graph {
        let by_id = nodes.iter().enumerate().map(|(place, node)| (node.id.clone(), place)).collect();
        Graph { nodes, by_id }
    }

    /// The node at this place.
    pub(super) fn node(&self, place: usize) -> Option<&Node> {
        self.nodes.get(place)
    }

    /// What an input of a node is.
    pub(super) fn input<'a>(&'a self, node: &'a Node, name: &str) -> Option<Input<'a>> {
        node.inputs.get(name).map(|value| self.resolve(value))
    }

    /// The node that an input is linked to.
    pub(super) fn linked(&self, node: &Node, name: &str) -> Option<usize> {
        match self.input(node, name)? {
            Input::Link { node, .. } => Some(node),
            Input::Literal(_) => None,
        }
    }

    /// Every link into a node: the input's name, and the node and output it comes from.
    pub(super) fn links<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = (&'a str, usize, u64)> {
        node.inputs.iter().filter_map(|(name, value)| match self.resolve(value) {
            Input::Link { node, slot } => Some((name.as_str(), node, slot)),
            Input::Literal(_) => None,
        })
    }

    /// `["4", 0]` is a link where there is such a node.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Input<'a> {
        let link = match value.as_array().map(Vec::as_slice) {
            Some([Value::String(id), slot]) => self.by_id.get(id).zip(slot.as_u64()),
            Some([Value::Number(id), slot]) => self.by_id.get(&id.to_string()).zip(slot.as_u64()),
            _ => None,
        };
        link.map_or(Input::Literal(value), |(node, slot)| self.chosen(*node, slot, MAX_SWITCHES))
    }

    /// What a link leads to behind the switches on its way that stand where the file says.
    fn chosen<'a>(&'a self, place: usize, slot: u64, left: usize) -> Input<'a> {
        let here = Input::Link { node: place, slot };
        let (Some(node), Some(left)) = (self.nodes.get(place), left.checked_sub(1)) else { return here };
        let on = node.inputs.get("switch").filter(|_| node.has("on_true") && node.has("on_false"));
        let on = on.and_then(|switch| match switch {
            Value::Bool(on) => Some(*on),
            // A boolean of its own.
            Value::Array(link) => {
                let from = link.first().and_then(Value::as_str).and_then(|id| self.by_id.get(id));
                self.nodes.get(*from?)?.inputs.get("value")?.as_bool()
            }
            _ => None,
        });
        let Some(on) = on else { return here };
        let branch = node.inputs.get(if on { "on_true" } else { "on_false" });
        match branch.and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::String(id), slot]) => match self.by_id.get(id).zip(slot.as_u64()) {
                Some((next, slot)) => self.chosen(*next, slot, left),
                None => here,
            },
            _ => branch.map_or(here, Input::Literal),
        }
    }
}

impl Node {
    fn of_queued(id: &str, value: &Value) -> Option<Node> {
        let class = value.get("class_type")?.as_str()?.to_owned();
        let inputs = value.get("inputs").and_then(Value::as_object).cloned().unwrap_or_default();
        Some(Node { id: id.to_owned(), class, inputs })
    }

    /// Whether it has such an input.
    pub(super) fn has(&self, name: &str) -> bool {
        self.inputs.contains_key(name)
    }

    /// The node in words: `3 (KSampler)`.
    pub(super) fn label(&self) -> String {
        format!("{} ({})", self.id, self.class)
    }
}
