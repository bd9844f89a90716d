//! Compares two ComfyUI graphs, node by node and input by input.
//!
//! Node ids do not identify nodes: a graph that is loaded again, or that gets another node, is renumbered. A node is
//! therefore matched by class and title, with the id only deciding between several candidates, and a link is unchanged
//! if it comes from the matching node, whatever its id.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parameters::{delta, is_file_name, is_seed, same};
use crate::Recipe;
use crate::metadata::comfyui::listing::{self, ListedInput as Input, ListedNode as Node};

/// A node, or an input of a node, that differs between two graphs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeChange {
    /// What happened: a node was `added` or `removed`, or one of its inputs `changed`.
    pub kind: NodeChangeKind,
    /// The kind of node: its `class_type`.
    pub class_type: String,
    /// Its title, where that says more than its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The input, when one changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What it was: a value, or `from KSampler 0` for the first output of that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// By how much a number changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    /// Whether it repeats what the recipe says, or follows from another change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

/// What can happen to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NodeChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// One of its inputs changed.
    Changed,
}

/// Returns the changes between the graphs of two recipes; none unless both have a graph.
pub fn changes(old: &Recipe, new: &Recipe) -> Vec<NodeChange> {
    let (Some(old), Some(new)) = (listing::find(old), listing::find(new)) else { return Vec::new() };
    if old == new {
        return Vec::new();
    }
    let (old, new) = (listing::nodes(&old), listing::nodes(&new));
    let pairs = Pairs::of(&old, &new);
    let mut found = Vec::new();
    for (at, node) in old.iter().enumerate() {
        match pairs.new_of.get(&at).and_then(|at| new.get(*at)) {
            Some(now) => pairs.inputs(node, now, &mut found),
            None => found.push(change_of(NodeChangeKind::Removed, node)),
        }
    }
    let there: HashSet<usize> = pairs.new_of.values().copied().collect();
    let added = new.iter().enumerate().filter(|(at, _)| !there.contains(at));
    found.extend(added.map(|(_, node)| change_of(NodeChangeKind::Added, node)));
    found
}

impl NodeChange {
    /// Returns whether the change only concerns a seed or the name of the output.
    pub(super) fn is_chance(&self) -> bool {
        let input = self.input.as_deref().unwrap_or_default();
        self.kind == NodeChangeKind::Changed && (is_seed(input) || is_file_name(input))
    }
}

/// The nodes of an old and a new graph, matched.
struct Pairs<'a> {
    old: &'a [Node<'a>],
    new: &'a [Node<'a>],
    old_places: HashMap<&'a str, usize>,
    new_places: HashMap<&'a str, usize>,
    new_of: HashMap<usize, usize>,
}

impl<'a> Pairs<'a> {
    fn of(old: &'a [Node<'a>], new: &'a [Node<'a>]) -> Pairs<'a> {
        let places = |graph: &'a [Node<'a>]| -> HashMap<&'a str, usize> {
            graph.iter().enumerate().map(|(at, node)| (node.id.as_ref(), at)).collect()
        };
        let mut pairs = Pairs { old, new, old_places: places(old), new_places: places(new), new_of: HashMap::new() };
        // From the strongest evidence to the weakest.
        pairs.pair(|node| format!("{}\0{}\0{}", node.class, node.title.unwrap_or_default(), node.id));
        pairs.pair(|node| format!("{}\0{}\0{}", node.class, node.title.unwrap_or_default(), literals(node)));
        pairs.pair(|node| format!("{}\0{}", node.class, node.title.unwrap_or_default()));
        pairs.pair(|node| format!("{}\0{}", node.class, node.id));
        pairs
    }

    /// Pairs unmatched nodes with the same key, in the order of the file.
    fn pair(&mut self, key: impl Fn(&Node<'_>) -> String) {
        let taken: HashSet<usize> = self.new_of.values().copied().collect();
        let mut free: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, node) in self.new.iter().enumerate().rev().filter(|(at, _)| !taken.contains(at)) {
            free.entry(key(node)).or_default().push(at);
        }
        for (at, node) in self.old.iter().enumerate() {
            if self.new_of.contains_key(&at) {
                continue;
            }
            if let Some(partner) = free.get_mut(&key(node)).and_then(Vec::pop) {
                self.new_of.insert(at, partner);
            }
        }
    }

    /// Adds a change for each input of a node that differs.
    fn inputs(&self, old: &Node<'_>, new: &Node<'_>, found: &mut Vec<NodeChange>) {
        let mut push = |name: &str, before: Option<Value>, now: Option<Value>| {
            let delta = match (&before, &now) {
                (Some(before), Some(now)) if !is_seed(name) => delta(before, now),
                _ => None,
            };
            let (before, now) = (exact(name, before), exact(name, now));
            let change = change_of(NodeChangeKind::Changed, new);
            found.push(NodeChange { input: Some(name.to_owned()), old: before, new: now, delta, ..change });
        };
        if old.title != new.title {
            push("title", old.title.map(Value::from), new.title.map(Value::from));
        }
        let mut now: HashMap<&str, &Input<'_>> = new.inputs.iter().map(|(name, it)| (name.as_ref(), it)).collect();
        for (name, before) in &old.inputs {
            let now = now.remove(name.as_ref());
            if !now.is_some_and(|now| self.is_same(before, now)) {
                push(
                    name,
                    Some(shown(before, self.old, &self.old_places)),
                    now.map(|now| shown(now, self.new, &self.new_places)),
                );
            }
        }
        for (name, input) in new.inputs.iter().filter(|(name, _)| now.contains_key(name.as_ref())) {
            push(name, None, Some(shown(input, self.new, &self.new_places)));
        }
    }

    fn is_same(&self, old: &Input<'_>, new: &Input<'_>) -> bool {
        match (old, new) {
            (Input::Literal(old), Input::Literal(new)) => same(Some(*old), Some(*new)),
            (Input::Link { node: old, output: before }, Input::Link { node: new, output: now }) => {
                let partner = self.old_places.get(old.as_ref()).and_then(|at| self.new_of.get(at));
                before == now && partner == self.new_places.get(new.as_ref())
            }
            _ => false,
        }
    }
}

/// Creates a change of this node.
fn change_of(kind: NodeChangeKind, node: &Node<'_>) -> NodeChange {
    NodeChange {
        kind,
        class_type: node.class.to_owned(),
        title: node.title.filter(|title| *title != node.class).map(str::to_owned),
        input: None,
        old: None,
        new: None,
        delta: None,
        repeats: false,
    }
}

/// Returns all literal values of a node as one text.
fn literals(node: &Node<'_>) -> String {
    let texts = node.inputs.iter().filter_map(|(name, input)| match input {
        Input::Literal(value) => Some(format!("{name}={value}")),
        Input::Link { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\0")
}

/// Returns an input in readable form.
fn shown(input: &Input<'_>, graph: &[Node<'_>], places: &HashMap<&str, usize>) -> Value {
    match input {
        Input::Literal(value) => (*value).clone(),
        Input::Link { node, output } => {
            let source = places.get(node.as_ref()).and_then(|at| graph.get(*at));
            let name = source.map_or(node.as_ref(), |node| node.title.unwrap_or(node.class));
            format!("from {name} {output}").into()
        }
    }
}

/// Returns a seed as a string, since many JSON readers round large numbers, and any other value unchanged.
fn exact(name: &str, value: Option<Value>) -> Option<Value> {
    match value {
        Some(Value::Number(number)) if is_seed(name) => Some(number.to_string().into()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recipe(graph: Value) -> Recipe {
        serde_json::from_value(json!({ "parameters": { "prompt": graph } })).unwrap()
    }

    fn lines(old: Value, new: Value) -> Vec<String> {
        let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
        let line = |change: &NodeChange| {
            let title = change.title.as_ref().map(|title| format!(" {title:?}")).unwrap_or_default();
            let node = format!("{:?} {}{title}", change.kind, change.class_type);
            match &change.input {
                Some(input) => format!("{node}.{input} {} {}", text(&change.old), text(&change.new)),
                None => node,
            }
        };
        changes(&recipe(old), &recipe(new)).iter().map(line).collect()
    }

    fn graph() -> Value {
        json!({
            "3": { "class_type": "KSampler", "inputs": { "seed": 18446744073709551615_u64, "steps": 20, "cfg": 7.0, "positive": ["6", 0], "negative": ["7", 0] } },
            "6": { "class_type": "CLIPTextEncode", "inputs": { "text": "a cat" }, "_meta": { "title": "Positive" } },
            "7": { "class_type": "CLIPTextEncode", "inputs": { "text": "blurry" }, "_meta": { "title": "Negative" } },
        })
    }

    #[test]
    fn inputs_are_compared_by_class_and_title() {
        let mut new = graph();
        new["3"]["inputs"]["seed"] = json!(1);
        new["3"]["inputs"]["steps"] = json!(30);
        new["3"]["inputs"]["cfg"] = json!(7);
        new["6"]["inputs"]["text"] = json!("a dog");
        assert_eq!(
            lines(graph(), new),
            [
                r#"Changed KSampler.seed "18446744073709551615" "1""#,
                "Changed KSampler.steps 20 30",
                r#"Changed CLIPTextEncode "Positive".text "a cat" "a dog""#,
            ]
        );
        assert_eq!(lines(graph(), graph()), Vec::<String>::new());
    }

    #[test]
    fn renumbered_nodes_are_matched() {
        let renumbered = json!({
            "12": { "class_type": "CLIPTextEncode", "inputs": { "text": "blurry" }, "_meta": { "title": "Negative" } },
            "11": { "class_type": "CLIPTextEncode", "inputs": { "text": "a cat" }, "_meta": { "title": "Positive" } },
            "10": { "class_type": "KSampler", "inputs": { "seed": 18446744073709551615_u64, "steps": 20, "cfg": 7, "positive": ["11", 0], "negative": ["12", 0] } },
        });
        assert_eq!(lines(graph(), renumbered.clone()), Vec::<String>::new());
        let mut swapped = renumbered;
        swapped["10"]["inputs"]["positive"] = json!(["12", 0]);
        assert_eq!(lines(graph(), swapped), [r#"Changed KSampler.positive "from Positive 0" "from Negative 0""#]);
    }

    #[test]
    fn nodes_are_added_and_removed() {
        let mut new = graph();
        new["3"]["inputs"]["positive"] = json!(["9", 0]);
        new["9"] = json!({ "class_type": "LoraLoader", "inputs": { "lora_name": "x" } });
        new.as_object_mut().unwrap().remove("7");
        new["3"]["inputs"].as_object_mut().unwrap().remove("negative");
        assert_eq!(
            lines(graph(), new),
            [
                r#"Changed KSampler.positive "from Positive 0" "from LoraLoader 0""#,
                r#"Changed KSampler.negative "from Negative 0" -"#,
                r#"Removed CLIPTextEncode "Negative""#,
                "Added LoraLoader",
            ]
        );
    }

    #[test]
    fn a_drawn_graph_is_compared_if_none_was_queued() {
        let drawn = |seed: u64, text: &str, x: u32| {
            json!({
                "nodes": [
                    { "id": 1, "type": "KSampler", "pos": [x, 2], "mode": 0, "widgets_values": [seed, "randomize", 20],
                      "inputs": [{ "name": "positive", "link": 5 }] },
                    { "id": 2, "type": "CLIPTextEncode", "pos": [x, 9], "mode": 0, "widgets_values": [text] },
                ],
                "links": [[5, 2, 0, 1, 0, "CONDITIONING"]],
            })
        };
        assert_eq!(
            lines(drawn(1, "a cat", 0), drawn(2, "a dog", 7)),
            [r#"Changed KSampler.seed "1" "2""#, r#"Changed CLIPTextEncode.text "a cat" "a dog""#]
        );
        let text = drawn(1, "a cat", 0).to_string();
        assert_eq!(lines(text.into(), drawn(1, "a cat", 3)), Vec::<String>::new(), "moved about, kept as text");
    }

    #[test]
    fn other_values_are_not_taken_for_graphs() {
        for value in [json!("a cat"), json!({}), json!({ "nodes": [] }), json!("{"), json!({ "a": { "b": 1 } })] {
            assert_eq!(listing::count_nodes(&value), None, "{value}");
        }
        assert_eq!(listing::count_nodes(&graph()), Some(3));
    }
}
