//! Converts graphs saved by ComfyUI's editor to the queued format: links by number become links by node, values by
//! position get names (see `widgets`), muted nodes are left out, bypassed ones are bypassed, and subgraphs and
//! group nodes are expanded.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::graph::{Graph, MAX_NODES, Node};
use super::groups;
use super::promoted::Promoted;
use super::widgets::widgets;

/// The maximum nesting depth of subgraphs, and the maximum number of consecutive links that are followed.
const MAX_DEPTH: usize = 16;
/// The maximum number of subgraphs that are expanded.
const MAX_SCOPES: usize = 500;
/// The modes of a node.
const MUTED: u64 = 2;
const BYPASSED: u64 = 4;
/// The ids that represent the inputs and the outputs of a subgraph inside it.
pub(super) const SUBGRAPH_INPUTS: &str = "-10";
pub(super) const SUBGRAPH_OUTPUTS: &str = "-20";

/// Returns whether this is a graph of the editor: it has nodes, all with a type and an id.
pub(super) fn is_workflow(value: &Value) -> bool {
    let is_node = |node: &Value| node.get("type").is_some_and(Value::is_string) && node.get("id").is_some();
    let nodes = value.get("nodes").and_then(Value::as_array);
    nodes.is_some_and(|nodes| !nodes.is_empty() && nodes.iter().all(is_node))
}

/// Converts a workflow to a graph.
pub(super) fn graph(value: &Value) -> Graph {
    let converted = groups::converted(value);
    let value = converted.as_ref().unwrap_or(value);
    let mut unfolding = Unfolding { definitions: subgraphs(value).collect(), scopes: Vec::new(), nodes: 0 };
    unfolding.unfold(value, String::new(), None, 0);
    Graph::of(unfolding.flat())
}

/// A workflow or an expanded subgraph.
struct Scope<'a> {
    /// The prefix of its node ids.
    prefix: String,
    nodes: HashMap<String, &'a Value>,
    /// In the order of the file.
    order: Vec<String>,
    /// Links by number: their source node and output.
    links: HashMap<u64, (String, u64)>,
    /// The outputs of a subgraph by position: the node and the output inside.
    outputs: HashMap<u64, (String, u64)>,
    /// The enclosing scope, and the node there that represents this one.
    around: Option<(usize, &'a Value)>,
    /// The names of the inputs of a subgraph.
    inputs: Vec<&'a str>,
    /// The values that the node which represents this scope has for it.
    promoted: Promoted,
    /// The scopes of the nodes that represent subgraphs.
    within: HashMap<String, usize>,
    /// The links that the editor found for nodes which supply others everywhere: the source of each input of a node.
    broadcast: HashMap<(String, u64), (String, u64)>,
}

struct Unfolding<'a> {
    definitions: HashMap<&'a str, &'a Value>,
    scopes: Vec<Scope<'a>>,
    nodes: usize,
}

/// The end of a link.
enum End {
    Node(String, u64),
    Literal(Value),
}

impl<'a> Unfolding<'a> {
    fn unfold(
        &mut self,
        graph: &'a Value,
        prefix: String,
        around: Option<(usize, &'a Value)>,
        depth: usize,
    ) -> Option<usize> {
        if depth > MAX_DEPTH || self.scopes.len() >= MAX_SCOPES {
            return None;
        }
        let (mut links, mut outputs) = (HashMap::new(), HashMap::new());
        for Link { number, from, slot, to, to_slot } in self::links(graph) {
            if to == SUBGRAPH_OUTPUTS {
                outputs.insert(to_slot, (from.clone(), slot));
            }
            links.insert(number, (from, slot));
        }
        let room = MAX_NODES.saturating_sub(self.nodes);
        let nodes: Vec<(String, &Value)> = nodes(graph).take(room).collect();
        self.nodes += nodes.len();
        let order: Vec<String> = nodes.iter().map(|(id, _)| id.clone()).collect();
        let here = self.scopes.len();
        self.scopes.push(Scope {
            prefix: prefix.clone(),
            nodes: nodes.iter().cloned().collect(),
            order,
            links,
            outputs,
            around,
            inputs: list(graph, "inputs")
                .map(|input| input.get("name").and_then(Value::as_str).unwrap_or(""))
                .collect(),
            promoted: around.map(|(_, node)| Promoted::of(graph, node)).unwrap_or_default(),
            within: HashMap::new(),
            broadcast: broadcast_links(graph),
        });
        for (id, node) in nodes {
            let runs = !matches!(mode(node), MUTED | BYPASSED);
            let inner = class(node).filter(|_| runs).and_then(|class| self.definitions.get(class).copied());
            if let Some(inner) = inner
                && let Some(scope) = self.unfold(inner, format!("{prefix}{id}:"), Some((here, node)), depth + 1)
                && let Some(here) = self.scopes.get_mut(here)
            {
                here.within.insert(id, scope);
            }
        }
        Some(here)
    }

    /// Returns the nodes that run.
    fn flat(&self) -> Vec<Node> {
        let mut flat = Vec::new();
        let everywhere = Everywhere::of(&self.scopes);
        for (place, scope) in self.scopes.iter().enumerate() {
            for (id, node) in scope.order.iter().filter_map(|id| Some((id, *scope.nodes.get(id)?))) {
                let class = class(node).unwrap_or_default();
                let only_drawn =
                    ["Reroute", "PrimitiveNode", "Note", "MarkdownNote", "GetNode", "SetNode"].contains(&class);
                if only_drawn || matches!(mode(node), MUTED | BYPASSED) || scope.within.contains_key(id) {
                    continue;
                }
                let mut inputs = widgets(class, node);
                for (name, value) in &mut inputs {
                    scope.promoted.replace(id, name, value);
                }
                for (name, broadcast) in everywhere.supplied(place, node) {
                    if let Some(End::Node(from, slot)) = self.by_link(place, broadcast, 0) {
                        inputs.insert(name.to_owned(), json!([from, slot]));
                    }
                }
                for (name, seed) in everywhere.seeds(place, node) {
                    inputs.insert(name.to_owned(), seed.clone());
                }
                for (slot, input) in (0_u64..).zip(list(node, "inputs")) {
                    if let Some((from, output)) = scope.broadcast.get(&(id.clone(), slot))
                        && let Some(name) = input.get("name").and_then(Value::as_str)
                        && let Some(End::Node(from, slot)) = self.follow(place, from, *output, 0)
                    {
                        inputs.insert(name.to_owned(), json!([from, slot]));
                    }
                }
                for (name, link) in linked_inputs(node) {
                    let end = scope.links.get(&link).and_then(|(from, slot)| self.follow(place, from, *slot, 0));
                    match end {
                        Some(End::Node(from, slot)) => inputs.insert(name.to_owned(), json!([from, slot])),
                        Some(End::Literal(value)) => inputs.insert(name.to_owned(), value),
                        // The value it had before it was made an input is still there, and counts.
                        None => None,
                    };
                }
                let outputs = list(node, "outputs").map(|output| output.get("name")?.as_str());
                let outputs = outputs.map(|name| name.unwrap_or_default().to_owned()).collect();
                flat.push(Node { id: format!("{}{id}", scope.prefix), class: class.to_owned(), inputs, outputs });
            }
        }
        flat
    }

    /// Follows an output to its source node.
    fn follow(&self, place: usize, id: &str, slot: u64, depth: usize) -> Option<End> {
        if depth > MAX_DEPTH * 4 {
            return None;
        }
        let scope = self.scopes.get(place)?;
        if id == SUBGRAPH_INPUTS {
            let (outer, node) = scope.around?;
            let slot = usize::try_from(slot).ok()?;
            let of_name = |name: &&str| list(node, "inputs").find(|input| input.get("name") == Some(&(*name).into()));
            // The node does not always list all inputs of the subgraph.
            let name = scope.inputs.get(slot).filter(|name| !name.is_empty());
            let input = name.and_then(of_name).or_else(|| list(node, "inputs").nth(slot).filter(|_| name.is_none()));
            if let Some(link) = input.and_then(|input| input.get("link")?.as_u64()) {
                return self.by_link(outer, link, depth);
            }
            let name = name.copied().or_else(|| input?.get("name")?.as_str())?;
            return scope.promoted.input(name).cloned().map(End::Literal);
        }
        let node = *scope.nodes.get(id)?;
        if let Some(inner) = scope.within.get(id) {
            let (from, slot) = self.scopes.get(*inner)?.outputs.get(&slot)?;
            return self.follow(*inner, from, *slot, depth + 1);
        }
        let first_input = || linked_inputs(node).next().map(|(_, link)| link);
        match (class(node)?, mode(node)) {
            (_, MUTED) => None,
            ("Reroute" | "SetNode", _) => self.by_link(place, first_input()?, depth),
            ("PrimitiveNode", _) => Some(End::Literal(node.pointer("/widgets_values/0")?.clone())),
            ("GetNode", _) => {
                let wanted = node.pointer("/widgets_values/0")?;
                let sets = |node: &&&Value| {
                    class(node) == Some("SetNode") && node.pointer("/widgets_values/0") == Some(wanted)
                };
                let set = scope.nodes.values().find(sets)?;
                self.by_link(place, linked_inputs(set).next()?.1, depth)
            }
            (_, BYPASSED) => {
                // A bypassed node passes on an input of the same type.
                let wanted = node.get("outputs")?.as_array()?.get(usize::try_from(slot).ok()?)?.get("type")?;
                let inputs = node.get("inputs")?.as_array()?;
                let fits =
                    |input: &&Value| input.get("type") == Some(wanted) && input.get("link").is_some_and(Value::is_u64);
                // The one in the same place, if it is of the type.
                let place_of = usize::try_from(slot).ok().and_then(|slot| inputs.get(slot));
                let same = place_of.filter(fits).or_else(|| inputs.iter().find(fits))?;
                self.by_link(place, same.get("link")?.as_u64()?, depth)
            }
            _ => Some(End::Node(format!("{}{id}", scope.prefix), slot)),
        }
    }

    fn by_link(&self, place: usize, link: u64, depth: usize) -> Option<End> {
        let (from, slot) = self.scopes.get(place)?.links.get(&link)?;
        self.follow(place, from, *slot, depth + 1)
    }
}

/// The nodes that supply every unconnected input of a type (`Anything Everywhere`), or the sides of every sampler
/// (`Prompts Everywhere`).
struct Everywhere<'a> {
    /// For each scope: the type supplied, a part of the names of the inputs it is meant for, and the link.
    supplies: Vec<Vec<(&'a str, String, u64)>>,
    /// For each scope: the seed of its `Seed Everywhere`.
    seeds: Vec<Option<&'a Value>>,
}

impl<'a> Everywhere<'a> {
    fn of(scopes: &[Scope<'a>]) -> Everywhere<'a> {
        let of_node = |node: &'a Value| -> Vec<(&'a str, String, u64)> {
            let class = class(node).unwrap_or_default();
            let linked = list(node, "inputs").filter_map(|input| {
                // Their inputs take anything, and are named after what is connected.
                let kind = match input.get("type")?.as_str()? {
                    "*" => input.get("name")?.as_str()?,
                    kind => kind,
                };
                Some((kind, input.get("link")?.as_u64()?))
            });
            match class {
                "Prompts Everywhere" => linked
                    .zip(["positive", "negative"])
                    .map(|((kind, link), side)| (kind, side.to_owned(), link))
                    .collect(),
                "Anything Everywhere" | "Anything Everywhere3" => {
                    linked.map(|(kind, link)| (kind, String::new(), link)).collect()
                }
                // Restricted by patterns for the titles of nodes, the names of inputs and groups. Only a plain name of
                // an input is understood.
                "Anything Everywhere?" => {
                    let pattern = |place: usize| node.get("widgets_values")?.get(place)?.as_str();
                    let plain = |pattern: &str| pattern.chars().all(|it| it.is_alphanumeric() || it == '_');
                    let others_empty = [0, 2].iter().all(|place| matches!(pattern(*place), None | Some("" | ".*")));
                    let name = pattern(1).unwrap_or_default().replace(".*", "");
                    let understood = others_empty && plain(&name);
                    linked.filter(|_| understood).map(|(kind, link)| (kind, name.clone(), link)).collect()
                }
                _ => Vec::new(),
            }
        };
        let of_scope = |scope: &Scope<'a>| {
            let nodes = scope.order.iter().filter_map(|id| scope.nodes.get(id).copied());
            nodes.filter(|node| !matches!(mode(node), MUTED | BYPASSED)).flat_map(of_node).collect()
        };
        let seed_of_scope = |scope: &Scope<'a>| {
            let nodes = scope.order.iter().filter_map(|id| scope.nodes.get(id).copied());
            let mut seeds = nodes
                .filter(|node| class(node) == Some("Seed Everywhere") && !matches!(mode(node), MUTED | BYPASSED))
                .filter_map(|node| node.pointer("/widgets_values/0"));
            seeds.next().filter(|_| seeds.next().is_none())
        };
        Everywhere {
            supplies: scopes.iter().map(of_scope).collect(),
            seeds: scopes.iter().map(seed_of_scope).collect(),
        }
    }

    /// Returns the unconnected inputs of a node for seeds, with the seed that is supplied everywhere.
    fn seeds(&self, scope: usize, node: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let seed = self.seeds.get(scope).copied().flatten();
        let open = list(node, "inputs").filter(|input| input.get("link").is_none_or(Value::is_null));
        // An input with a display name is a value that the editor only lists.
        let converted = open.filter(|input| input.get("widget").is_some() && input.get("localized_name").is_none());
        let named = converted.filter_map(|input| input.get("name")?.as_str()).filter(|name| name.contains("seed"));
        named.filter_map(move |name| Some((name, seed?)))
    }

    /// Returns the unconnected inputs of a node that are supplied, with the link that supplies each.
    fn supplied(&self, scope: usize, node: &'a Value) -> Vec<(&'a str, u64)> {
        let supplies = self.supplies.get(scope).map_or(&[][..], Vec::as_slice);
        if supplies.is_empty() {
            return Vec::new();
        }
        let open = list(node, "inputs").filter(|input| input.get("link").is_none_or(Value::is_null));
        let found = open.filter_map(|input| {
            let (name, kind) = (input.get("name")?.as_str()?, input.get("type")?.as_str()?);
            // A value of its own is only replaced if it is meant.
            let is_value = input.get("widget").is_some();
            let fits = |part: &str| name.contains(part) && !(is_value && part.is_empty());
            let mut fitting = supplies.iter().filter(|(of, part, _)| *of == kind && fits(part));
            // Two that fit leave it open.
            let (_, _, link) = fitting.next().filter(|_| fitting.next().is_none())?;
            Some((name, *link))
        });
        found.collect()
    }
}

/// Returns the links that `Anything Everywhere` found when the graph was saved, by the input that each leads to.
fn broadcast_links(graph: &Value) -> HashMap<(String, u64), (String, u64)> {
    let found = graph.pointer("/extra/ue_links").and_then(Value::as_array).into_iter().flatten();
    let ends = found.filter_map(|link| {
        let number = |name: &str| link.get(name)?.as_u64();
        let to = (id(link.get("downstream")?)?, number("downstream_slot")?);
        Some((to, (id(link.get("upstream")?)?, number("upstream_slot")?)))
    });
    ends.take(MAX_NODES).collect()
}

/// Iterates over a list in an object.
pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Iterates over the nodes of a workflow or subgraph with their ids, in the order of the file.
pub(super) fn nodes(graph: &Value) -> impl Iterator<Item = (String, &Value)> {
    list(graph, "nodes").filter_map(|node| Some((id(node.get("id")?)?, node)))
}

/// Iterates over the links of a workflow or subgraph.
pub(super) fn links(graph: &Value) -> impl Iterator<Item = Link> + '_ {
    list(graph, "links").filter_map(Link::read)
}

/// Iterates over the subgraphs that a workflow defines, with their ids.
pub(super) fn subgraphs(graph: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let definitions = graph.pointer("/definitions/subgraphs").and_then(Value::as_array).into_iter().flatten();
    definitions.filter_map(|subgraph| Some((subgraph.get("id")?.as_str()?, subgraph)))
}

/// Returns the class of a node.
pub(super) fn class(node: &Value) -> Option<&str> {
    node.get("type")?.as_str()
}

fn mode(node: &Value) -> u64 {
    node.get("mode").and_then(Value::as_u64).unwrap_or(0)
}

/// Returns an id, which is a number, or a name in the files of some tools.
pub(super) fn id(value: &Value) -> Option<String> {
    crate::metadata::json::plain(value)
}

/// A link from an output of one node to an input of another.
pub(super) struct Link {
    /// Its number, by which inputs refer to it.
    pub(super) number: u64,
    /// The id of its source node.
    pub(super) from: String,
    /// The number of that node's output.
    pub(super) slot: u64,
    /// The id of its target node.
    pub(super) to: String,
    /// The number of that node's input.
    pub(super) to_slot: u64,
}

impl Link {
    /// Parses `[number, from, slot, to, slot, type]`, or the same as an object.
    fn read(link: &Value) -> Option<Link> {
        let part = |place: usize, name: &str| link.get(place).or_else(|| link.get(name));
        let number = |place: usize, name: &str| part(place, name)?.as_u64();
        Some(Link {
            number: number(0, "id")?,
            from: id(part(1, "origin_id")?)?,
            slot: number(2, "origin_slot")?,
            to: id(part(3, "target_id")?)?,
            to_slot: number(4, "target_slot")?,
        })
    }
}

/// Iterates over the linked inputs of a node, with the numbers of the links.
pub(super) fn linked_inputs(node: &Value) -> impl Iterator<Item = (&str, u64)> {
    list(node, "inputs").filter_map(|input| Some((input.get("name")?.as_str()?, input.get("link")?.as_u64()?)))
}
