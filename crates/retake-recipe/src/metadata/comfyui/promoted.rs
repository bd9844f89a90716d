//! The values of the nodes inside a subgraph that its own node shows and stores.
//!
//! Editors store them in three ways: by the list `proxyWidgets` of the node, in which `-1` stands for an input of the
//! subgraph; by those inputs of the subgraph that set a value inside; or by the inputs of the node. A value of the node
//! takes precedence over the one inside, which is that of the definition.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::widgets::widgets;
use super::workflow::{SUBGRAPH_INPUTS, id, links, nodes};
use crate::metadata::json;

/// The values that the node of a subgraph has for what is inside.
#[derive(Debug, Default)]
pub(super) struct Promoted {
    /// By the name of the input of the subgraph.
    inputs: HashMap<String, Value>,
    /// By the id of the node inside and the name of its value.
    inside: HashMap<(String, String), Value>,
}

impl Promoted {
    /// Returns the values that this node has for the subgraph with this definition.
    pub(super) fn of(definition: &Value, node: &Value) -> Promoted {
        let by_name = || Promoted { inputs: widgets("", node).into_iter().collect(), ..Promoted::default() };
        let Some(values) = node.get("widgets_values").and_then(Value::as_array) else { return by_name() };
        let proxies = proxies(node);
        let of_subgraph: Vec<_> = proxies.iter().filter(|(of, _)| of == "-1").cloned().collect();
        let set_inside =
            || -> Vec<_> { inputs_with_values(definition).into_iter().map(|name| ("-1".to_owned(), name)).collect() };
        let listed = [proxies, of_subgraph, set_inside()].into_iter().find(|listed| listed.len() == values.len());
        let Some(listed) = listed else { return by_name() };
        let mut promoted = Promoted::default();
        for ((of, name), value) in listed.into_iter().zip(values).filter(|(_, value)| !value.is_null()) {
            if of == "-1" {
                promoted.inputs.insert(name, value.clone());
            } else {
                promoted.inside.insert((of, name), value.clone());
            }
        }
        promoted
    }

    /// Returns the value of an input of the subgraph.
    pub(super) fn input(&self, name: &str) -> Option<&Value> {
        self.inputs.get(name)
    }

    /// Replaces a value of a node inside, if both are of the same type.
    pub(super) fn replace(&self, node: &str, name: &str, value: &mut Value) {
        let of_type = |one: &Value, other: &Value| {
            one.is_string() && other.is_string()
                || one.is_number() && other.is_number()
                || one.is_boolean() && other.is_boolean()
        };
        let own = self.inside.get(&(node.to_owned(), name.to_owned()));
        if let Some(own) = own.filter(|own| of_type(own, value)) {
            *value = own.clone();
        }
    }
}

/// Returns what the node of a subgraph shows of the values inside: the id of the node and the name of the value.
fn proxies(node: &Value) -> Vec<(String, String)> {
    let listed = match node.pointer("/properties/proxyWidgets") {
        Some(Value::String(text)) => json::parse(text),
        listed => listed.cloned(),
    };
    let pair = |pair: &Value| Some((id(pair.get(0)?)?, pair.get(1)?.as_str()?.to_owned()));
    let pairs = listed.as_ref().and_then(Value::as_array).into_iter().flatten().map(pair);
    pairs.collect::<Option<_>>().unwrap_or_default()
}

/// Returns the names of the inputs of a subgraph that set a value of a node inside, rather than link to one.
fn inputs_with_values(definition: &Value) -> Vec<String> {
    let inside: HashMap<String, &Value> = nodes(definition).collect();
    let sets_value = |node: &str, slot: u64| {
        let inputs = inside.get(node)?.get("inputs")?.as_array()?;
        inputs.get(usize::try_from(slot).ok()?)?.get("widget")
    };
    let slots: HashSet<u64> = links(definition)
        .filter(|link| link.from == SUBGRAPH_INPUTS && sets_value(&link.to, link.to_slot).is_some())
        .map(|link| link.slot)
        .collect();
    let inputs = definition.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let named = (0_u64..).zip(inputs).filter(|(slot, _)| slots.contains(slot));
    named.filter_map(|(_, input)| Some(input.get("name")?.as_str()?.to_owned())).collect()
}
