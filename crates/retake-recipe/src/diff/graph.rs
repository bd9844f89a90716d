//! Graphs of ComfyUI as they are compared: the one that was run (`prompt`, by node id), or the one that was drawn
//! (`workflow`, with positions and links). What a graph looks like and what its values are called is known to
//! `metadata/comfyui` alone; here every node is kept, whether it runs or not, since a muted node is a difference.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::Recipe;
use crate::metadata::comfyui;

/// A graph, in the order in which it is written.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
}

/// A node.
pub(super) struct Node<'a> {
    pub(super) id: Cow<'a, str>,
    /// What kind of node it is.
    pub(super) class: &'a str,
    /// What people called it.
    pub(super) title: Option<&'a str>,
    /// What goes into it, by name.
    pub(super) inputs: Vec<(Cow<'a, str>, Input<'a>)>,
}

/// What goes into a node.
pub(super) enum Input<'a> {
    /// A value.
    Literal(&'a Value),
    /// What another node gives out.
    Link {
        /// Its id.
        node: Cow<'a, str>,
        /// Which of its outputs.
        output: u64,
    },
}

/// The graph of a recipe as JSON: the one that was run, else the one that was drawn.
pub(super) fn find(recipe: &Recipe) -> Option<Cow<'_, Value>> {
    let graphs: Vec<Cow<'_, Value>> = recipe.parameters.values().filter_map(parsed).collect();
    let run = graphs.iter().position(|graph| run_nodes(graph).is_some());
    graphs.into_iter().nth(run.unwrap_or(0))
}

/// How many nodes a graph has; none when it is no graph.
pub(super) fn count_nodes(value: &Value) -> Option<usize> {
    let graph = parsed(value)?;
    run_nodes(&graph).map(Map::len).or_else(|| drawn_nodes(&graph).map(Vec::len))
}

/// Reads a graph of either kind.
pub(super) fn read(graph: &Value) -> Graph<'_> {
    let mut nodes = Vec::new();
    if let Some(run) = run_nodes(graph) {
        nodes.extend(run.iter().filter_map(|(id, node)| run_node(id, node)));
    } else {
        draw(graph, "", &mut nodes);
        let subgraphs = graph.pointer("/definitions/subgraphs").and_then(Value::as_array);
        for subgraph in subgraphs.into_iter().flatten() {
            let id = subgraph.get("id").and_then(Value::as_str).unwrap_or_default();
            draw(subgraph, id, &mut nodes);
        }
    }
    Graph { nodes }
}

/// The JSON of a graph, which some keep as text.
fn parsed(value: &Value) -> Option<Cow<'_, Value>> {
    let value = match value {
        Value::String(text) if text.trim_start().starts_with('{') => Cow::Owned(serde_json::from_str(text).ok()?),
        Value::Object(_) => Cow::Borrowed(value),
        _ => return None,
    };
    (run_nodes(&value).is_some() || drawn_nodes(&value).is_some()).then_some(value)
}

fn run_nodes(graph: &Value) -> Option<&Map<String, Value>> {
    graph.as_object().filter(|_| comfyui::is_queued(graph))
}

fn drawn_nodes(graph: &Value) -> Option<&Vec<Value>> {
    graph.get("nodes")?.as_array().filter(|_| graph.get("links").is_some() && comfyui::is_workflow(graph))
}

fn run_node<'a>(id: &'a str, node: &'a Value) -> Option<Node<'a>> {
    let inputs = node.get("inputs").and_then(Value::as_object).into_iter().flatten();
    Some(Node {
        id: id.into(),
        class: node.get("class_type")?.as_str()?,
        title: node.pointer("/_meta/title").and_then(Value::as_str),
        inputs: inputs.map(|(name, value)| (name.into(), run_input(value))).collect(),
    })
}

/// A link is a list of a node's id and the number of one of its outputs.
fn run_input(value: &Value) -> Input<'_> {
    let link = value.as_array().filter(|link| link.len() == 2).and_then(|link| {
        let node = match link.first()? {
            Value::String(id) => Cow::Borrowed(id.as_str()),
            Value::Number(id) => Cow::Owned(id.to_string()),
            _ => return None,
        };
        Some(Input::Link { node, output: link.get(1)?.as_u64()? })
    });
    link.unwrap_or(Input::Literal(value))
}

fn draw<'a>(graph: &'a Value, subgraph: &str, nodes: &mut Vec<Node<'a>>) {
    let place = |id: &Value| -> Cow<'a, str> {
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        if subgraph.is_empty() { id.into() } else { format!("{subgraph}:{id}").into() }
    };
    let links: HashMap<u64, (Cow<'a, str>, u64)> = graph
        .get("links")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|link| {
            let (number, from, slot, ..) = comfyui::link_of(link)?;
            Some((number, (place(&Value::String(from)), slot)))
        })
        .collect();
    for node in graph.get("nodes").and_then(Value::as_array).into_iter().flatten() {
        let (Some(id), Some(class)) = (node.get("id"), node.get("type").and_then(Value::as_str)) else { continue };
        let mut inputs: Vec<(Cow<'a, str>, Input<'a>)> = Vec::new();
        let widgets = comfyui::named_widgets(class, node);
        inputs.extend(widgets.into_iter().map(|(name, value)| (name.into(), Input::Literal(value))));
        // Muted and bypassed nodes do nothing.
        if let Some(mode) = node.get("mode").filter(|mode| mode.as_u64() != Some(0)) {
            inputs.push(("mode".into(), Input::Literal(mode)));
        }
        for input in node.get("inputs").and_then(Value::as_array).into_iter().flatten() {
            let name = input.get("name").and_then(Value::as_str);
            let link = input.get("link").and_then(Value::as_u64).and_then(|link| links.get(&link));
            if let (Some(name), Some((node, output))) = (name, link) {
                inputs.push((name.into(), Input::Link { node: node.clone(), output: *output }));
            }
        }
        nodes.push(Node { id: place(id), class, title: node.get("title").and_then(Value::as_str), inputs });
    }
}
