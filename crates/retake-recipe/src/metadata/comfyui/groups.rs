//! Group nodes, which ComfyUI's editor had before subgraphs: a node stands for several, whose definition is in the file.
//! They are converted to subgraphs, one for each group node, since each has values of its own.
//!
//! The node lists the inputs and outputs of the nodes inside in their order, as far as no link inside connects them, and
//! has all their values, one after another.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::workflow::{SUBGRAPH_INPUTS, SUBGRAPH_OUTPUTS, class, id, list};

/// Converts the group nodes of a workflow; `None` if it has none.
pub(super) fn converted(workflow: &Value) -> Option<Value> {
    let definitions =
        workflow.pointer("/extra/groupNodes")?.as_object().filter(|definitions| !definitions.is_empty())?;
    let mut converted = workflow.clone();
    let mut subgraphs = Vec::new();
    for node in converted.get_mut("nodes")?.as_array_mut()? {
        let Some(definition) = name(node).and_then(|name| definitions.get(name)) else { continue };
        let Some(key) = node.get("id").and_then(id).map(|id| format!("group {id}")) else { continue };
        subgraphs.push(subgraph(&key, definition, node));
        if let Some(node) = node.as_object_mut() {
            node.insert("type".to_owned(), key.into());
            // They are inside now.
            node.remove("widgets_values");
        }
    }
    let defined = converted.pointer_mut("/definitions/subgraphs").and_then(Value::as_array_mut);
    match defined {
        Some(defined) => defined.append(&mut subgraphs),
        None => drop(converted.as_object_mut()?.insert("definitions".to_owned(), json!({"subgraphs": subgraphs}))),
    }
    Some(converted)
}

/// Returns the name of the definition of a group node.
fn name(node: &Value) -> Option<&str> {
    ["workflow/", "workflow>"].iter().find_map(|prefix| class(node)?.strip_prefix(prefix))
}

/// A link inside a group: the node and the output or the input, by their places.
type End = (usize, u64);

/// Returns a subgraph with the nodes of a definition and the values of a group node.
fn subgraph(key: &str, definition: &Value, group: &Value) -> Value {
    let mut nodes: Vec<Value> = list(definition, "nodes").cloned().collect();
    set_values(&mut nodes, group);
    let end = |place: &Value, slot: &Value| Some((usize::try_from(place.as_u64()?).ok()?, slot.as_u64()?));
    let inside: HashMap<End, End> = list(definition, "links")
        .filter_map(|link| Some((end(link.get(2)?, link.get(3)?)?, end(link.get(0)?, link.get(1)?)?)))
        .collect();
    let external: HashSet<End> =
        list(definition, "external").filter_map(|output| end(output.get(0)?, output.get(1)?)).collect();
    let connected: HashSet<End> =
        list(definition, "links").filter_map(|link| end(link.get(2)?, link.get(3)?)).collect();
    let linked_inside: HashSet<End> = inside.values().copied().collect();
    let mut links: Vec<Value> = Vec::new();
    let (mut inputs, mut outputs) = (0_u64, 0_u64);
    for (place, node) in nodes.iter_mut().enumerate() {
        let hidden = |kind: &str, slot: &str| {
            definition.pointer(&format!("/config/{place}/{kind}/{slot}/visible")).and_then(Value::as_bool)
                == Some(false)
        };
        let shown = |kind: &str, slot: &str| {
            definition.pointer(&format!("/config/{place}/{kind}/{slot}/visible")).and_then(Value::as_bool) == Some(true)
        };
        for (slot, _) in (0_u64..).zip(list(node, "outputs")) {
            let is_used = linked_inside.contains(&(place, slot)) && !external.contains(&(place, slot));
            let name = slot.to_string();
            if !hidden("output", &name) && (!is_used || shown("output", &name)) {
                links.push(json!([links.len(), place, slot, SUBGRAPH_OUTPUTS, outputs]));
                outputs += 1;
            }
        }
        for (slot, input) in (0_u64..).zip(node.get_mut("inputs").and_then(Value::as_array_mut).into_iter().flatten()) {
            let from = match inside.get(&(place, slot)) {
                Some((from, output)) => json!([links.len(), from, output, place, slot]),
                // A value becomes an input of the group if something was, or is, connected to it.
                None if input.get("widget").is_none()
                    || connected.contains(&(place, slot))
                    || is_shown(input, group) =>
                {
                    inputs += 1;
                    json!([links.len(), SUBGRAPH_INPUTS, inputs - 1, place, slot])
                }
                None => continue,
            };
            if let Some(input) = input.as_object_mut() {
                input.insert("link".to_owned(), links.len().into());
            }
            links.push(from);
        }
        if let Some(node) = node.as_object_mut() {
            node.insert("id".to_owned(), place.into());
        }
    }
    let names: Vec<Value> = (0..inputs).map(|_| Value::Object(Map::new())).collect();
    json!({"id": key, "inputs": names, "nodes": nodes, "links": links})
}

/// Returns whether a group node lists this value of a node inside among its inputs.
fn is_shown(input: &Value, group: &Value) -> bool {
    let name = |input: &Value| input.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let inner = name(input);
    list(group, "inputs").any(|outer| outer.get("widget").is_some() && name(outer).ends_with(&inner))
}

/// Gives the nodes inside the values of the group node, if it has as many as all of them.
fn set_values(nodes: &mut [Value], group: &Value) {
    let values: Vec<&Value> = list(group, "widgets_values").collect();
    let own = |node: &Value| list(node, "widgets_values").count();
    if nodes.iter().map(own).sum::<usize>() != values.len() {
        return;
    }
    let mut values = values.into_iter();
    for node in nodes {
        let of_node: Vec<Value> = values.by_ref().take(own(node)).cloned().collect();
        if let Some(node) = node.as_object_mut().filter(|_| !of_node.is_empty()) {
            node.insert("widgets_values".to_owned(), of_node.into());
        }
    }
}
