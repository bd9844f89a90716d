//! ComfyUI nodes that sample under names of their own: values without names, prompts of their own, and savers that
//! write the prompt of each image.

use retake_recipe::metadata::{Reading, read_bytes};
use serde_json::{Value, json};

use crate::build::{png, text};
use crate::graphs::simple;
use crate::tools::line;

fn of(graph: &Value) -> Reading {
    read_bytes(&png(&[text("prompt", graph.to_string())]))
}

/// Returns the editor's graph of one node of an unknown class, whose image is saved.
fn edited(inputs: Value, values: Value) -> Reading {
    let workflow = json!({
        "nodes": [
            {"id": 1, "type": "CLIPTextEncode", "inputs": [], "widgets_values": ["a cat"]},
            {"id": 2, "type": "String", "inputs": [], "widgets_values": ["a fox"]},
            {"id": 3, "type": "Other Pass", "inputs": inputs, "widgets_values": values},
            {"id": 4, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 9}], "widgets_values": ["x"]},
        ],
        "links": [[7, 1, 0, 3, 0, "CONDITIONING"], [8, 2, 0, 3, 0, "STRING"], [9, 3, 0, 4, 0, "IMAGE"]],
    });
    read_bytes(&png(&[text("workflow", workflow.to_string())]))
}

#[test]
fn the_values_of_an_unknown_sampler_are_known_by_their_order() {
    let positive = json!([{"name": "positive", "type": "CONDITIONING", "link": 7}]);
    for values in [
        json!([7, "randomize", 20, 8, "euler", "normal", 0.5]),
        json!([384, true, 1024, 7, "randomize", 20, 8, "euler", "normal", 0.5, 5, true, ""]),
        json!(["enable", 7, "fixed", 20, 8, "euler", "normal", 0.5]),
    ] {
        let reading = edited(positive.clone(), values);
        let expected = "ComfyUI | prompt=a cat | seed=7 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=16x16 | denoise=0.5";
        assert_eq!(line(&reading), expected, "{:?}", reading.notes);
    }
    // A step is not an amount of change, and without a known scheduler nothing is certain but the seed.
    let advanced = edited(positive.clone(), json!(["enable", 7, "fixed", 20, 8, "euler", "karras", 3, 10_000]));
    assert_eq!(
        line(&advanced),
        "ComfyUI | prompt=a cat | seed=7 | steps=20 | cfg=8 | sampler=euler | scheduler=karras | size=16x16"
    );
    let other = edited(positive, json!([7, "fixed", 20, 8, "nearest", "crop", 1]));
    assert!(other.recipe.steps.is_none() && other.recipe.guidance_scale.is_none(), "{}", line(&other));
}

#[test]
fn a_sampler_that_encodes_its_own_prompt() {
    let linked = json!([{"name": "positive", "type": "STRING", "link": 8, "widget": {"name": "positive"}}]);
    let reading = edited(linked, json!([7, "fixed", 20, 8, "euler", "normal", 1, "auto", "", ""]));
    assert_eq!(reading.recipe.prompt, "a fox", "{:?}", reading.notes);
    for (inputs, negative) in [
        (json!({"positive": "an owl", "negative": "a bat"}), Some("a bat")),
        (json!({"positive_prompt": "an owl", "negative_prompt": "a bat"}), Some("a bat")),
        (json!({"prompt": "an owl"}), None),
    ] {
        let mut node = json!({"seed": 7, "cfg": 3.0, "num_inference_steps": 12, "sampler_name": "euler"});
        node.as_object_mut().unwrap().extend(inputs.as_object().unwrap().clone());
        let graph = json!({
            "1": {"class_type": "Own Sampler", "inputs": node},
            "2": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["1", 0]}},
        });
        let reading = of(&graph);
        let recipe = &reading.recipe;
        assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("an owl", negative), "{graph}");
        assert_eq!((recipe.seed.map(|seed| seed.0), recipe.steps), (Some(7), Some(12)), "{graph}");
    }
}

#[test]
fn a_request_with_steps() {
    let graph = json!({
        "1": {"class_type": "RemoteFluxNode", "inputs": {"prompt": "an owl", "seed": 7, "num_inference_steps": 28, "guidance_scale": 3.5}},
        "2": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["1", 0]}},
    });
    let reading = of(&graph);
    assert_eq!((reading.recipe.prompt.as_str(), reading.recipe.steps), ("an owl", Some(28)));
}

#[test]
fn the_prompt_that_a_saver_wrote_for_this_image() {
    let mut graph = simple();
    graph["6"] = json!({"class_type": "Batch of Conditionings", "inputs": {"lines": "a cat\na fox"}});
    let saved = |prompt: &str, graph: &Value| {
        read_bytes(&png(&[
            text("prompt", prompt),
            text("negative_prompt", ""),
            text("batch_index", "2"),
            text("workflow", graph.to_string()),
        ]))
    };
    let reading = saved("a fox", &graph);
    assert_eq!((reading.recipe.prompt.as_str(), reading.recipe.steps), ("a fox", Some(20)), "{:?}", reading.notes);
    assert!(reading.sources.iter().any(|source| source.field == "prompt" && source.raw == Some(0)));
    // A list that the graph itself has is narrowed to the one that was used.
    graph["6"] = json!({"class_type": "CLIPTextEncode", "inputs": {"text": "a cat\na fox", "clip": ["4", 1]}});
    assert_eq!(saved("a fox", &graph).recipe.prompt, "a fox");
    // Something else under this name is not the prompt of the graph.
    assert_eq!(saved("notes of the author", &simple()).recipe.prompt, "a cat");
}
