//! The nodes of a graph as its file lists them: the queued graph (`prompt`, by node id), or the editor's graph
//! (`workflow`, with positions and links). Diffs compare these.
//!
//! [`Graph`](super::graph::Graph) contains only what runs, with switches and subgraphs resolved. Here every node is
//! kept as written, since a muted node is a difference too.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::graph::{self, is_queued};
use super::widgets;
use super::workflow::{self, is_workflow};
use crate::Recipe;

/// A node.
pub(crate) struct ListedNode<'a> {
    /// Its id; inside a subgraph, prefixed by the subgraph's id.
    pub(crate) id: Cow<'a, str>,
    /// Its class.
    pub(crate) class: &'a str,
    /// Its custom title.
    pub(crate) title: Option<&'a str>,
    /// Its inputs by name, in the order of the file.
    pub(crate) inputs: Vec<(Cow<'a, str>, ListedInput<'a>)>,
}

/// The value of an input.
pub(crate) enum ListedInput<'a> {
    /// A literal value.
    Literal(&'a Value),
    /// An output of another node.
    Link {
        /// The id of the node.
        node: Cow<'a, str>,
        /// The number of the output.
        output: u64,
    },
}

/// Returns the graph of a recipe as JSON: the queued one, or else the editor's.
pub(crate) fn find(recipe: &Recipe) -> Option<Cow<'_, Value>> {
    let graphs: Vec<Cow<'_, Value>> = recipe.parameters.values().filter_map(parsed).collect();
    let queued = graphs.iter().position(|graph| is_queued(graph));
    graphs.into_iter().nth(queued.unwrap_or(0))
}

/// Returns the number of nodes of a graph; `None` if the value is not a graph.
pub(crate) fn count_nodes(value: &Value) -> Option<usize> {
    let graph = parsed(value)?;
    queued_nodes(&graph).map(Map::len).or_else(|| drawn_nodes(&graph).map(Vec::len))
}

/// Lists the nodes of a graph of either kind.
pub(crate) fn nodes(graph: &Value) -> Vec<ListedNode<'_>> {
    if let Some(queued) = queued_nodes(graph) {
        return queued.iter().filter_map(|(id, node)| queued_node(id, node)).collect();
    }
    let mut nodes = Vec::new();
    list_drawn(graph, "", &mut nodes);
    for (id, subgraph) in workflow::subgraphs(graph) {
        list_drawn(subgraph, id, &mut nodes);
    }
    nodes
}

/// Returns the JSON of a graph, which some tools store as text.
fn parsed(value: &Value) -> Option<Cow<'_, Value>> {
    let value = match value {
        Value::String(text) if text.trim_start().starts_with('{') => Cow::Owned(serde_json::from_str(text).ok()?),
        Value::Object(_) => Cow::Borrowed(value),
        _ => return None,
    };
    (is_queued(&value) || drawn_nodes(&value).is_some()).then_some(value)
}

fn queued_nodes(graph: &Value) -> Option<&Map<String, Value>> {
    graph.as_object().filter(|_| is_queued(graph))
}

fn drawn_nodes(graph: &Value) -> Option<&Vec<Value>> {
    graph.get("nodes")?.as_array().filter(|_| graph.get("links").is_some() && is_workflow(graph))
}

fn queued_node<'a>(id: &'a str, node: &'a Value) -> Option<ListedNode<'a>> {
    let (class, inputs) = graph::class_and_inputs(node)?;
    let input = |value: &'a Value| match graph::link_of(value) {
        Some((node, output)) => ListedInput::Link { node, output },
        None => ListedInput::Literal(value),
    };
    Some(ListedNode {
        id: id.into(),
        class,
        title: node.pointer("/_meta/title").and_then(Value::as_str),
        inputs: inputs.into_iter().flatten().map(|(name, value)| (name.into(), input(value))).collect(),
    })
}

fn list_drawn<'a>(graph: &'a Value, subgraph: &str, nodes: &mut Vec<ListedNode<'a>>) {
    let place = |id: String| if subgraph.is_empty() { id } else { format!("{subgraph}:{id}") };
    let links: HashMap<u64, (String, u64)> =
        workflow::links(graph).map(|link| (link.number, (place(link.from), link.slot))).collect();
    for (id, node) in workflow::nodes(graph) {
        let Some(class) = workflow::class(node) else { continue };
        let widgets = widgets::named_widgets(class, node).into_iter();
        let mut inputs: Vec<(Cow<'a, str>, ListedInput<'a>)> =
            widgets.map(|(name, value)| (name.into(), ListedInput::Literal(value))).collect();
        // Muted and bypassed nodes do not run.
        if let Some(mode) = node.get("mode").filter(|mode| mode.as_u64() != Some(0)) {
            inputs.push(("mode".into(), ListedInput::Literal(mode)));
        }
        for (name, link) in workflow::linked_inputs(node) {
            if let Some((node, output)) = links.get(&link) {
                inputs.push((name.into(), ListedInput::Link { node: node.clone().into(), output: *output }));
            }
        }
        let title = node.get("title").and_then(Value::as_str);
        nodes.push(ListedNode { id: place(id).into(), class, title, inputs });
    }
}
