//! Graphs of ComfyUI's editor without the queued one: links by number, values by position, and nodes that supply others.

use retake_recipe::metadata::read_bytes as read;
use serde_json::{Value, json};

use crate::build::{png, text};
use crate::tools::line;

#[test]
fn only_the_editors_graph() {
    let node = |id: u32, kind: &str, inputs: Value, widgets: Value| json!({"id": id, "type": kind, "mode": 0, "inputs": inputs, "outputs": [{"name": "O", "type": "X"}], "widgets_values": widgets});
    let input = |name: &str, link: u32| json!({"name": name, "type": "X", "link": link});
    let mut workflow = json!({
        "nodes": [
            node(4, "CheckpointLoaderSimple", json!([]), json!(["cats.safetensors"])),
            node(10, "LoraLoaderModelOnly", json!([input("model", 1)]), json!(["fluff.safetensors", 0.5])),
            node(5, "EmptyLatentImage", json!([]), json!([64, 32, 1])),
            node(11, "Reroute", json!([input("", 2)]), json!(null)),
            node(6, "CLIPTextEncode", json!([input("clip", 2)]), json!(["a cat"])),
            node(7, "CLIPTextEncode", json!([input("clip", 11)]), json!(["dog"])),
            node(12, "PrimitiveNode", json!([]), json!([7, "randomize"])),
            node(3, "KSampler", json!([input("model", 3), input("positive", 4), input("negative", 5), input("latent_image", 6), input("seed", 9)]), json!([99, "randomize", 20, 8, "euler", "normal", 1])),
            node(8, "VAEDecode", json!([input("samples", 7)]), json!([])),
            node(9, "SaveImage", json!([input("images", 8)]), json!(["ComfyUI"])),
        ],
        "links": [[1, 4, 0, 10, 0, "MODEL"], [2, 4, 1, 6, 0, "CLIP"], [3, 10, 0, 3, 0, "MODEL"], [4, 6, 0, 3, 1, "C"], [5, 7, 0, 3, 2, "C"], [6, 5, 0, 3, 3, "L"], [7, 3, 0, 8, 0, "L"], [8, 8, 0, 9, 0, "I"], [9, 12, 0, 3, 4, "INT"], [11, 11, 0, 7, 0, "CLIP"]]
    });
    let only = |workflow: &Value| line(&read(&png(&[text("workflow", workflow.to_string())])));
    let expected = "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=64x32 | model=cats | denoise=1 | lora=fluff:0.5";
    assert_eq!(only(&workflow), expected);
    // Bypassed: the model goes around it.
    workflow["nodes"][1]["mode"] = 4.into();
    assert_eq!(only(&workflow), expected.replace(" | lora=fluff:0.5", ""));
    // In a subgraph: the sampler and its inputs, expanded.
    let nodes = workflow["nodes"].as_array().unwrap().clone();
    let by_id = |id: u64| nodes.iter().find(|node| node["id"] == id).unwrap().clone();
    let link = |id: u32, from: Value, slot: u32, to: Value, to_slot: u32| json!({"id": id, "origin_id": from, "origin_slot": slot, "target_id": to, "target_slot": to_slot, "type": "X"});
    let folded = json!({
        "nodes": [by_id(4), by_id(5), {"id": 20, "type": "a-b-c", "mode": 0, "inputs": [{"name": "model", "link": 1}, {"name": "latent", "link": 2}], "outputs": [{"name": "LATENT", "links": [7]}], "widgets_values": []}, by_id(8), by_id(9)],
        "links": [[1, 4, 0, 20, 0, "MODEL"], [2, 5, 0, 20, 1, "LATENT"], [7, 20, 0, 8, 0, "L"], [8, 8, 0, 9, 0, "I"]],
        "definitions": {"subgraphs": [{"id": "a-b-c", "nodes": [
            {"id": 6, "type": "CLIPTextEncode", "mode": 0, "inputs": [], "widgets_values": ["a cat"]},
            {"id": 7, "type": "CLIPTextEncode", "mode": 0, "inputs": [], "widgets_values": ["dog"]},
            {"id": 3, "type": "KSampler", "mode": 0, "inputs": [{"name": "model", "link": 1}, {"name": "positive", "link": 2}, {"name": "negative", "link": 3}, {"name": "latent_image", "link": 4}], "widgets_values": [7, "fixed", 20, 8, "euler", "normal", 1]}
        ], "links": [link(1, json!(-10), 0, json!(3), 0), link(2, json!(6), 0, json!(3), 1), link(3, json!(7), 0, json!(3), 2), link(4, json!(-10), 1, json!(3), 3), link(5, json!(3), 0, json!(-20), 0)]}]}
    });
    assert_eq!(only(&folded), expected.replace(" | lora=fluff:0.5", ""));
    // Without a sampler: recognised as ComfyUI's, and nothing made up.
    assert_eq!(only(&json!({"nodes": [node(1, "SaveImage", json!([]), json!(["x"]))], "links": []})), "ComfyUI");
}

/// What is only in the editor's graph: values without names, and inputs that another node supplies everywhere.
#[test]
fn supplied_everywhere() {
    let workflow = json!({
        "nodes": [
            {"id": 1, "type": "CheckpointLoaderSimple", "widgets_values": ["cats.safetensors"]},
            {"id": 2, "type": "CLIPTextEncode", "inputs": [{"name": "clip", "type": "CLIP", "link": null}], "widgets_values": ["a cat"]},
            {"id": 3, "type": "CogVideoTextEncode", "inputs": [{"name": "clip", "type": "CLIP", "link": null}], "widgets_values": ["dog", 1, true]},
            {"id": 4, "type": "Prompts Everywhere", "inputs": [{"name": "CONDITIONING", "type": "*", "link": 1}, {"name": "CONDITIONING", "type": "*", "link": 2}], "widgets_values": []},
            {"id": 5, "type": "Anything Everywhere", "inputs": [{"name": "MODEL", "type": "*", "link": 3}], "widgets_values": []},
            {"id": 6, "type": "Seed Generator (Image Saver)", "widgets_values": [4711, "randomize"]},
            {"id": 7, "type": "easy int", "widgets_values": [25]},
            {"id": 8, "type": "Anything Everywhere?", "inputs": [{"name": "INT", "type": "*", "link": 5}], "widgets_values": ["", "steps", ""]},
            {"id": 9, "type": "KSampler", "inputs": [
                {"name": "model", "type": "MODEL", "link": null}, {"name": "positive", "type": "CONDITIONING", "link": null},
                {"name": "negative", "type": "CONDITIONING", "link": null}, {"name": "latent_image", "type": "LATENT", "link": null},
                {"name": "seed", "type": "INT", "link": 4, "widget": {"name": "seed"}},
                {"name": "steps", "type": "INT", "link": null, "widget": {"name": "steps"}}
            ], "widgets_values": [1, "fixed", 20, 8.0, "euler", "normal", 1.0]},
            {"id": 10, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 6}], "widgets_values": ["ComfyUI"]}
        ],
        "links": [[1, 2, 0, 4, 0, "CONDITIONING"], [2, 3, 0, 4, 1, "CONDITIONING"], [3, 1, 0, 5, 0, "MODEL"], [4, 6, 0, 9, 4, "INT"], [5, 7, 0, 8, 0, "INT"], [6, 9, 0, 10, 0, "IMAGE"]]
    });
    let reading = read(&png(&[text("workflow", workflow.to_string())]));
    let recipe = &reading.recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("a cat", Some("dog")));
    assert_eq!(
        (recipe.seed.map(|seed| seed.0), recipe.steps, recipe.model.as_deref()),
        (Some(4711), Some(25), Some("cats"))
    );
}

#[test]
fn the_length_of_a_schedule_in_the_editors_graph() {
    let node = |id: u32, kind: &str, output: &str, inputs: Value, widgets: Value| json!({"id": id, "type": kind, "mode": 0, "inputs": inputs, "outputs": [{"name": "O", "type": output}], "widgets_values": widgets});
    let input = |name: &str, link: u32| json!({"name": name, "type": "X", "link": link});
    let workflow = json!({
        "nodes": [
            node(6, "CLIPTextEncode", "CONDITIONING", json!([]), json!(["a cat"])),
            node(5, "EmptyLatentImage", "LATENT", json!([]), json!([64, 32, 1])),
            node(2, "LCMScheduler", "SIGMAS", json!([]), json!([16])),
            node(3, "SamplerCustom", "LATENT", json!([input("positive", 1), input("sigmas", 2), input("latent_image", 3)]), json!([true, 7, "randomize", 1.5])),
            node(8, "VAEDecode", "IMAGE", json!([input("samples", 4)]), json!([])),
            node(9, "SaveImage", "", json!([input("images", 5)]), json!(["ComfyUI"])),
        ],
        "links": [[1, 6, 0, 3, 0, "C"], [2, 2, 0, 3, 1, "S"], [3, 5, 0, 3, 2, "L"], [4, 3, 0, 8, 0, "L"], [5, 8, 0, 9, 0, "I"]]
    });
    let read = line(&read(&png(&[text("workflow", workflow.to_string())])));
    assert_eq!(read, "ComfyUI | prompt=a cat | seed=7 | steps=16 | cfg=1.5 | size=64x32");
}

/// The editor lists the links that it found for nodes which supply others, whatever their types.
#[test]
fn links_that_the_editor_found() {
    let input = |name: &str, kind: &str, link: Value| json!({"name": name, "type": kind, "link": link});
    let found = |to: u32, slot: u32, from: Value| json!({"downstream": to, "downstream_slot": slot, "upstream": from, "upstream_slot": 0, "controller": 4, "type": "X"});
    let mut workflow = json!({
        "nodes": [
            {"id": 1, "type": "CLIPTextEncode", "inputs": [], "widgets_values": ["a cat"]},
            {"id": 2, "type": "CLIPTextEncode", "inputs": [], "widgets_values": ["dog"]},
            {"id": 3, "type": "KSampler", "inputs": [input("positive", "CONDITIONING", Value::Null), input("negative", "CONDITIONING", Value::Null)], "widgets_values": [7, "fixed", 20, 8.0, "euler", "normal", 1.0]},
            {"id": 4, "type": "Anything Everywhere", "inputs": [input("anything", "CONDITIONING", json!(1)), input("anything2", "CONDITIONING", json!(2))], "widgets_values": []},
            {"id": 5, "type": "SaveImage", "inputs": [input("images", "IMAGE", json!(3))], "widgets_values": ["x"]}
        ],
        "links": [[1, 1, 0, 4, 0, "CONDITIONING"], [2, 2, 0, 4, 1, "CONDITIONING"], [3, 3, 0, 5, 0, "IMAGE"]],
        "extra": {"ue_links": [found(3, 0, json!("1")), found(3, 1, json!(2)), found(3, 9, json!(2)), {"downstream": 3}]}
    });
    let prompts = |workflow: &Value| {
        let recipe = read(&png(&[text("workflow", workflow.to_string())])).recipe;
        (recipe.prompt, recipe.negative_prompt.unwrap_or_default())
    };
    assert_eq!(prompts(&workflow), ("a cat".to_owned(), "dog".to_owned()));
    // Without the list, two nodes of the same type leave it open.
    workflow["extra"] = json!({});
    assert_eq!(prompts(&workflow), Default::default());
}

/// Returns what is read from a graph with a sampler inside a group node, its conditioning outside and settings in another.
fn grouped(values: Value) -> String {
    let input = |name: &str, link: Value| json!({"name": name, "type": "X", "link": link});
    let value = |name: &str| json!({"name": name, "type": "X", "link": null, "widget": {"name": name}});
    let output = |name: &str| json!({"name": name, "type": "X", "links": []});
    let workflow = json!({
        "nodes": [
            {"id": 1, "type": "CLIPTextEncode", "inputs": [], "widgets_values": ["a cat"]},
            {"id": 2, "type": "CLIPTextEncode", "inputs": [], "widgets_values": ["dog"]},
            {"id": 3, "type": "workflow/Settings", "inputs": [], "outputs": [output("STEPS"), output("LATENT")], "widgets_values": [9, 5, 3.5, "ddim", "simple", 64, 32, 1]},
            {"id": 4, "type": "workflow>Sampling", "inputs": [input("KSampler positive", json!(1)), input("negative", json!(2)), input("latent", json!(3)), input("steps", json!(4))], "outputs": [output("IMAGE")], "widgets_values": values},
            {"id": 5, "type": "SaveImage", "inputs": [input("images", json!(5))], "widgets_values": ["x"]}
        ],
        "links": [[1, 1, 0, 4, 0, "X"], [2, 2, 0, 4, 1, "X"], [3, 3, 1, 4, 2, "X"], [4, 3, 0, 4, 3, "X"], [5, 4, 0, 5, 0, "X"]],
        "extra": {"groupNodes": {
            "Settings": {
                "nodes": [
                    {"index": 0, "type": "KSampler Config (rgthree)", "inputs": [], "outputs": [output("STEPS"), output("REFINER_STEP")], "widgets_values": [35, 10, 5.0, "euler", "normal"]},
                    {"index": 1, "type": "EmptyLatentImage", "inputs": [], "outputs": [output("LATENT")], "widgets_values": [512, 512, 1]}
                ],
                "links": [], "external": [[0, 0, "INT"], [1, 0, "LATENT"]], "config": {"0": {"output": {"1": {"visible": false}}}}
            },
            "Sampling": {
                "nodes": [
                    {"index": 0, "type": "KSampler", "inputs": [input("positive", Value::Null), input("negative", Value::Null), input("latent_image", Value::Null), value("steps"), value("cfg")], "outputs": [output("LATENT")], "widgets_values": [1, "fixed", 20, 8, "euler", "normal", 1]},
                    {"index": 1, "type": "VAEDecode", "inputs": [input("samples", Value::Null)], "outputs": [output("IMAGE")]}
                ],
                "links": [[null, 0, 0, 0, 1, "X"], [null, 0, 0, 1, 2, "X"], [null, 1, 0, 2, 3, "X"], [null, 0, 0, 3, 3, "X"], [0, 0, 1, 0, 9, "X"]], "external": [[1, 0, "IMAGE"]]
            }
        }}
    });
    line(&read(&png(&[text("workflow", workflow.to_string())])))
}

#[test]
fn group_nodes() {
    let expected = "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=9 | cfg=6 | sampler=euler | scheduler=normal | size=64x32 | denoise=1";
    assert_eq!(grouped(json!([7, "fixed", 20, 6, "euler", "normal", 1])), expected);
    // With another number of values, those of the definition count.
    let defined = expected.replace("seed=7", "seed=1").replace("cfg=6", "cfg=8");
    assert_eq!(grouped(json!([7, "fixed"])), defined);
}

/// An output that is named after a setting passes it on; a queued graph gets the names from the editor's next to it.
#[test]
fn outputs_that_are_named_after_settings() {
    let output = |name: &str, kind: &str| json!({"name": name, "type": kind, "links": []});
    let outputs =
        json!([output("WIDTH", "INT"), output("STEPS", "INT"), output("REFINER_STEPS", "INT"), output("SEED", "INT")]);
    let steps = |slot: u32| {
        let workflow = json!({
            "nodes": [
                {"id": 1, "type": "Selector", "inputs": [], "outputs": outputs, "widgets_values": ["1:1", 20, 6, 7]},
                {"id": 3, "type": "KSampler", "inputs": [{"name": "steps", "type": "INT", "link": 1, "widget": {"name": "steps"}}, {"name": "seed", "type": "INT", "link": 2, "widget": {"name": "seed"}}], "widgets_values": [1, "fixed", 99, 8, "euler", "normal", 1]},
                {"id": 5, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 3}], "widgets_values": ["x"]}
            ],
            "links": [[1, 1, slot, 3, 0, "INT"], [2, 1, 3, 3, 1, "INT"], [3, 3, 0, 5, 0, "IMAGE"]]
        });
        let queued = json!({
            "1": {"class_type": "Selector", "inputs": {"width": "1:1", "Steps": 20, "refiner_steps": 6, "noise": 5, "seed": 7}},
            "3": {"class_type": "KSampler", "inputs": {"seed": ["1", 3], "steps": ["1", slot], "cfg": 8, "sampler_name": "euler", "scheduler": "normal", "model": ["9", 0], "positive": ["9", 0]}},
            "5": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}}
        });
        let of = |texts: &[Vec<u8>]| {
            let recipe = read(&png(texts)).recipe;
            (recipe.steps, recipe.seed.map(|seed| seed.0))
        };
        let editor = text("workflow", workflow.to_string());
        (of(std::slice::from_ref(&editor)), of(&[text("prompt", queued.to_string()), editor]))
    };
    assert_eq!(steps(1), ((Some(20), Some(7)), (Some(20), Some(7))));
    assert_eq!(steps(2), ((Some(6), Some(7)), (Some(6), Some(7))));
}

/// `Seed Everywhere` replaces the seeds that were made inputs and have no link; those that the editor only lists keep
/// their value.
#[test]
fn a_seed_that_is_supplied_everywhere() {
    let seed_of = |input: Value, nodes: Vec<Value>| {
        let mut all = vec![
            json!({"id": 3, "type": "KSampler", "inputs": [input], "widgets_values": [1, "randomize", 20, 8, "euler", "normal", 1]}),
            json!({"id": 5, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 1}], "widgets_values": ["x"]}),
        ];
        all.extend(nodes);
        let workflow = json!({"nodes": all, "links": [[1, 3, 0, 5, 0, "IMAGE"]]});
        read(&png(&[text("workflow", workflow.to_string())])).recipe.seed.map(|seed| seed.0)
    };
    let everywhere = |id: u32, mode: u32| json!({"id": id, "type": "Seed Everywhere", "mode": mode, "widgets_values": [7, "randomize"]});
    let converted = json!({"name": "seed", "type": "INT", "link": null, "widget": {"name": "seed"}});
    let listed =
        json!({"name": "seed", "type": "INT", "link": null, "widget": {"name": "seed"}, "localized_name": "seed"});
    assert_eq!(seed_of(converted.clone(), vec![everywhere(1, 0)]), Some(7));
    assert_eq!(seed_of(listed, vec![everywhere(1, 0)]), Some(1));
    assert_eq!(seed_of(converted.clone(), vec![everywhere(1, 2)]), Some(1), "a muted one supplies nothing");
    assert_eq!(seed_of(converted, vec![everywhere(1, 0), everywhere(2, 0)]), Some(1), "two leave it open");
}

#[test]
fn prompts_by_frame_without_names() {
    let schedule = "\"0\": \"a cat\",\n\"12\": \"a dog\"";
    let workflow = json!({
        "nodes": [
            {"id": 1, "type": "SomePromptSchedule", "inputs": [], "widgets_values": [schedule, 24, true, "a photo of, ", ", best quality, sharp"]},
            {"id": 3, "type": "KSampler", "inputs": [{"name": "positive", "type": "CONDITIONING", "link": 1}], "widgets_values": [1, "fixed", 20, 8, "euler", "normal", 1]},
            {"id": 5, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 2}], "widgets_values": ["x"]}
        ],
        "links": [[1, 1, 0, 3, 0, "CONDITIONING"], [2, 3, 0, 5, 0, "IMAGE"]]
    });
    assert_eq!(read(&png(&[text("workflow", workflow.to_string())])).recipe.prompt, schedule);
}
