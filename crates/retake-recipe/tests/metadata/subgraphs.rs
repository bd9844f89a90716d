//! Subgraphs in graphs of ComfyUI's editor, and the values that their nodes show.

use retake_recipe::metadata::read_bytes as read;
use serde_json::{Value, json};

use crate::build::{png, text};
use crate::tools::line;

const INSIDE: &str = "ComfyUI | prompt=a dog | negative=fog | seed=7 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=64x32 | denoise=1";

fn link(id: u32, from: i32, slot: u32, to: i32, to_slot: u32) -> Value {
    json!({"id": id, "origin_id": from, "origin_slot": slot, "target_id": to, "target_slot": to_slot, "type": "X"})
}

/// Returns a graph whose only node besides loading and saving is a subgraph with the inputs `latent`, `text` and `length`, the
/// latter two of which set values inside. The node lists `inputs`, has these values, and shows these of them.
fn shown(inputs: Value, values: Value, proxies: Value) -> Value {
    let value = |name: &str, link: Value| json!({"name": name, "type": "X", "widget": {"name": name}, "link": link});
    json!({
        "nodes": [
            {"id": 5, "type": "EmptyLatentImage", "mode": 0, "inputs": [], "widgets_values": [64, 32, 1]},
            {"id": 20, "type": "a-b-c", "mode": 0, "inputs": inputs, "outputs": [{"name": "IMAGE", "type": "IMAGE", "links": [2]}], "properties": {"proxyWidgets": proxies}, "widgets_values": values},
            {"id": 9, "type": "SaveImage", "mode": 0, "inputs": [{"name": "images", "type": "IMAGE", "link": 2}], "widgets_values": ["x"]}
        ],
        "links": [[1, 5, 0, 20, 0, "LATENT"], [2, 20, 0, 9, 0, "IMAGE"]],
        "definitions": {"subgraphs": [{
            "id": "a-b-c",
            "inputs": [{"name": "latent"}, {"name": "text"}, {"name": "length"}],
            "nodes": [
                {"id": 6, "type": "CLIPTextEncode", "mode": 0, "inputs": [value("text", json!(4))], "widgets_values": ["a dog"]},
                {"id": 7, "type": "CLIPTextEncode", "mode": 0, "inputs": [], "widgets_values": ["fog"]},
                {"id": 3, "type": "KSampler", "mode": 0, "inputs": [{"name": "positive", "link": 1}, {"name": "negative", "link": 2}, {"name": "latent_image", "link": 3}, value("steps", json!(5))], "widgets_values": [7, "fixed", 20, 8, "euler", "normal", 1]},
                {"id": 8, "type": "VAEDecode", "mode": 0, "inputs": [{"name": "samples", "link": 6}], "widgets_values": []}
            ],
            "links": [link(1, 6, 0, 3, 0), link(2, 7, 0, 3, 1), link(3, -10, 0, 3, 2), link(4, -10, 1, 6, 0), link(5, -10, 2, 3, 3), link(6, 3, 0, 8, 0), link(7, 8, 0, -20, 0)]
        }]}
    })
}

fn of(workflow: &Value) -> String {
    line(&read(&png(&[text("workflow", workflow.to_string())])))
}

fn only_latent() -> Value {
    json!([{"name": "latent", "type": "LATENT", "link": 1}])
}

#[test]
fn values_that_the_node_of_a_subgraph_shows_take_precedence() {
    let other = INSIDE.replace("a dog", "a cat").replace("steps=20", "steps=9");
    // The list names inputs of the subgraph.
    let by_list = json!([["-1", "text"], ["-1", "length"]]);
    assert_eq!(of(&shown(only_latent(), json!(["a cat", 9]), by_list)), other);
    // It also names values of the nodes inside, of which the node has values, too; older editors write the list as a text.
    let with_seed = json!([["3", "seed"], ["-1", "text"], ["-1", "length"]]);
    let seeded = other.replace("seed=7", "seed=11");
    assert_eq!(of(&shown(only_latent(), json!([11, "a cat", 9]), with_seed.clone())), seeded);
    assert_eq!(of(&shown(only_latent(), json!([11, "a cat", 9]), json!(with_seed.to_string()))), seeded);
    // Or the values are only those of the inputs.
    assert_eq!(of(&shown(only_latent(), json!(["a cat", 9]), with_seed)), other);
    // No list: one value for each input that sets one inside.
    assert_eq!(of(&shown(only_latent(), json!(["a cat", 9]), Value::Null)), other);
}

#[test]
fn values_that_the_node_of_a_subgraph_does_not_have_are_those_inside() {
    let listed = json!([["-1", "text"], ["-1", "length"]]);
    assert_eq!(of(&shown(only_latent(), json!([]), listed.clone())), INSIDE);
    assert_eq!(of(&shown(only_latent(), json!([null, null]), listed.clone())), INSIDE);
    // Another number of values than anything has: nothing says which is which.
    assert_eq!(of(&shown(only_latent(), json!(["a", "b", "c", "d"]), listed)), INSIDE);
    // A value of another type was not made for this one.
    assert_eq!(of(&shown(only_latent(), json!(["eleven"]), json!([["3", "seed"]]))), INSIDE);
}

#[test]
fn inputs_of_a_subgraph_are_found_by_name() {
    // The node lists them in another order than the definition.
    let inputs = json!([{"name": "text", "type": "STRING", "link": null, "widget": {"name": "text"}}, {"name": "latent", "type": "LATENT", "link": 1}]);
    assert_eq!(of(&shown(inputs, json!([]), Value::Null)), INSIDE);
}

#[test]
fn a_subgraph_that_is_switched_off_makes_nothing() {
    for mode in [2, 4] {
        let mut graph = shown(only_latent(), json!([]), Value::Null);
        graph["nodes"][1]["mode"] = mode.into();
        assert_eq!(of(&graph), "ComfyUI", "{mode}");
    }
}
