//! Follows the model of a sampler through the nodes that patch it to the one that loads it.

use std::collections::HashSet;

use serde_json::Value;

use super::graph::{Graph, Node};
use super::trace::{ASIDE, MAX_STEPS, PIPES};
use super::values;

/// The model of a sampler: the node that loads it, its name, and the LoRAs in the order of application.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    pub(super) loader: Option<(&'a Node, String)>,
    pub(super) loras: Vec<(&'a Node, String, f64)>,
}

/// Follows a sampler's model to its loader.
pub(super) fn model<'a>(graph: &'a Graph, sampler: &'a Node) -> Model<'a> {
    let mut model = Model::default();
    let mut seen = HashSet::new();
    let mut next = Some(sampler);
    while let Some(node) = next {
        if !seen.insert(&node.id) || seen.len() > MAX_STEPS {
            break;
        }
        // The LoRA nearest to the sampler was applied last.
        let mut here = loras(graph, node);
        here.reverse();
        model.loras.append(&mut here);
        const NAMES: [&str; 8] = [
            "ckpt_name",
            "unet_name",
            "model_name",
            "gguf_name",
            "base_ckpt_name",
            "model_path",
            "diffusion_name",
            "checkpoint",
        ];
        // A node that takes a model patches it: the name in it (a motion module, an adapter) is not the model.
        let patches = ["model", "unet", "MODEL", "model_opt"].iter().any(|name| graph.linked(node, name).is_some());
        let loaded = NAMES.iter().filter(|_| !patches).find_map(|name| values::name(graph, node, name));
        if let Some(name) = loaded.filter(|_| node.id != sampler.id || sampler.has("ckpt_name")) {
            model.loader = Some((node, name));
            break;
        }
        let stack = ["lora_stack", "optional_lora_stack"].iter().find_map(|name| graph.linked(node, name));
        if let Some(stack) = stack.and_then(|stack| graph.node(stack)) {
            let mut stacked = loras(graph, stack);
            stacked.reverse();
            model.loras.append(&mut stacked);
        }
        let by_name = |wanted: &dyn Fn(&str) -> bool| {
            graph.links(node).find(|(name, _, _)| wanted(name)).map(|(_, next, _)| next)
        };
        next = by_name(&|name| name == "model")
            .or_else(|| by_name(&|name| name == "guider"))
            .or_else(|| by_name(&|name| name.contains("model") && !ASIDE.contains(&name)))
            .or_else(|| by_name(&|name| PIPES.contains(&name)))
            .or_else(|| by_name(&|name| ["unet", "UNET", "MODEL", "any", "input", "value", ""].contains(&name)))
            .and_then(|place| graph.node(place));
    }
    model.loras.reverse();
    model
}

/// Returns the LoRAs that a node applies.
fn loras<'a>(graph: &'a Graph, node: &'a Node) -> Vec<(&'a Node, String, f64)> {
    let mut found = Vec::new();
    let number =
        |name: &str| values::number(graph, node, name).and_then(|value| crate::metadata::fields::number(&value));
    let mut add = |name: Option<String>, weight: Option<f64>| {
        if let (Some(name), Some(weight)) = (name.filter(|name| !["None", "none", ""].contains(&name.as_str())), weight)
        {
            found.push((node, name, weight));
        }
    };
    if node.has("lora_name") {
        let weight = ["strength_model", "strength", "lora_model_strength", "weight", "model_strength", "lora_strength"]
            .iter()
            .find_map(|name| number(name));
        add(values::name(graph, node, "lora_name"), weight.or(Some(1.0)));
    }
    let count = number("lora_count").or_else(|| number("num_loras"));
    for (key, value) in &node.inputs {
        if let (true, Some(lora)) = (key.to_ascii_lowercase().starts_with("lora_"), value.as_object()) {
            // rgthree: {"on": true, "lora": "x.safetensors", "strength": 0.8}
            let on = lora.get("on").and_then(Value::as_bool).unwrap_or(true);
            let name = lora.get("lora").and_then(Value::as_str).map(str::to_owned);
            add(name.filter(|_| on), lora.get("strength").and_then(Value::as_f64));
        } else if let Some(number_of) = key.strip_prefix("lora_name_") {
            // A stacker: lora_name_1, model_str_1 or lora_wt_1, and the number of entries in use.
            let counts = count.is_none_or(|count| number_of.parse::<f64>().is_ok_and(|place| place <= count));
            let weight = ["model_str_", "lora_wt_", "model_weight_"]
                .iter()
                .find_map(|prefix| number(&format!("{prefix}{number_of}")));
            add(values::name(graph, node, key).filter(|_| counts), weight);
        } else if let (Some(number_of), Some(name)) = (key.strip_prefix("lora_"), value.as_str()) {
            // lora_01 with strength_01; or lora_1 with a switch_1
            let weight =
                ["strength_", "model_weight_"].iter().find_map(|prefix| number(&format!("{prefix}{number_of}")));
            let on = node.inputs.get(&format!("switch_{number_of}")).and_then(Value::as_str) != Some("Off");
            if weight.is_some() && on {
                add(Some(name.to_owned()), weight);
            }
        }
    }
    found
}
