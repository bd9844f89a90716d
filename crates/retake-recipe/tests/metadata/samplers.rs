//! ComfyUI nodes that sample under names of their own: values without names, prompts of their own, and savers that
//! write the prompt of each image.

use retake_recipe::metadata::{Reading, read_bytes};
use serde_json::{Value, json};

use crate::build::{png, text};
use crate::formats::movie;
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

/// Returns the editor's graph of these nodes, without links.
fn unlinked(nodes: Value) -> Reading {
    read_bytes(&png(&[text("workflow", json!({"nodes": nodes, "links": []}).to_string())]))
}

#[test]
fn a_still_image_and_a_video_of_one_graph() {
    let mut graph = simple();
    let nodes = json!({
        "16": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox runs", "clip": ["4", 1]}},
        "13": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 15, "cfg": 8.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0, "model": ["4", 0], "positive": ["16", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
        "18": {"class_type": "VAEDecode", "inputs": {"samples": ["13", 0], "vae": ["4", 2]}},
    });
    let savers = [
        json!({"19": {"class_type": "CreateVideo", "inputs": {"fps": 16, "images": ["18", 0]}}, "20": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "video/ComfyUI", "video": ["19", 0]}}}),
        json!({"2": {"class_type": "VHS_VideoCombine", "inputs": {"filename_prefix": "AnimateDiff", "images": ["18", 0]}}}),
    ];
    graph.as_object_mut().unwrap().extend(nodes.as_object().unwrap().clone());
    for saver in savers {
        let mut graph = graph.clone();
        graph.as_object_mut().unwrap().extend(saver.as_object().unwrap().clone());
        let still = of(&graph);
        assert_eq!((still.recipe.prompt.as_str(), still.recipe.steps), ("a cat", Some(20)), "{graph}");
        let video = read_bytes(&movie(b"isom", &[("prompt", &graph.to_string())], None));
        assert_eq!((video.recipe.prompt.as_str(), video.recipe.steps), ("a fox runs", Some(15)), "{graph}");
    }
}

#[test]
fn an_upscaler_that_samples_did_not_make_the_image() {
    let mut graph = simple();
    graph["10"] = json!({"class_type": "Upscaler Provider", "inputs": {"seed": 7, "steps": 8, "cfg": 2.0, "sampler_name": "lcm", "scheduler": "normal", "denoise": 0.2, "basic_pipe": ["11", 0]}});
    graph["11"] =
        json!({"class_type": "ToBasicPipe", "inputs": {"model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0]}});
    graph["12"] = json!({"class_type": "Iterative Upscale", "inputs": {"upscale_factor": 2.0, "steps": 1, "upscaler": ["10", 0], "samples": ["3", 0]}});
    graph["8"]["inputs"]["samples"] = json!(["12", 0]);
    let reading = of(&graph);
    assert_eq!((reading.recipe.seed.map(|seed| seed.0), reading.recipe.steps), (Some(u64::MAX), Some(20)));
}

#[test]
fn samplers_without_a_prompt_or_a_schedule() {
    // A video from a voice: there is a seed, but nothing that could be a prompt.
    let graph = json!({
        "1": {"class_type": "Talking Head Loader", "inputs": {"unet": "x.pth"}},
        "2": {"class_type": "Text to Speech", "inputs": {"text": "good morning, dear listeners"}},
        "3": {"class_type": "Talking Head", "inputs": {"seed": 7, "inference_steps": 25, "fps": 25.0, "model": ["1", 0], "data": ["2", 0]}},
        "4": {"class_type": "SaveVideo", "inputs": {"filename_prefix": "x", "video": ["3", 0]}},
    });
    assert_eq!(line(&of(&graph)), "ComfyUI | seed=7 | steps=25 | size=16x16");
    // A sampler that finds its own schedule has no steps.
    let mut graph = simple();
    graph["1"] = json!({"class_type": "RandomNoise", "inputs": {"noise_seed": 9}});
    graph["2"] = json!({"class_type": "CFGGuider", "inputs": {"cfg": 4.0, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0]}});
    graph["3"] = json!({"class_type": "Adaptive Pass", "inputs": {"max_steps": 100, "noise": ["1", 0], "guider": ["2", 0], "latent_image": ["5", 0]}});
    let reading = of(&graph);
    assert_eq!(line(&reading), "ComfyUI | prompt=a cat | negative=dog | seed=9 | cfg=4 | size=64x32 | model=cats");
}

#[test]
fn values_without_names_that_differ_from_the_usual_order() {
    // An older editor wrote nothing after a seed.
    let efficient = json!([
        {"id": 1, "type": "Eff. Loader SDXL", "inputs": [], "widgets_values": ["SDXL\\cats.safetensors", -2, "refiner.safetensors", -2, 6, 2, "vae", "a cat", "dog", "none", "comfy", 64, 32, 1]},
        {"id": 2, "type": "KSampler SDXL (Eff.)", "inputs": [{"name": "sdxl_tuple", "type": "SDXL_TUPLE", "link": 1}], "widgets_values": [7, null, 40, 9, "euler", "karras", 0, 32, "auto", "true"]},
    ]);
    let workflow = json!({"nodes": efficient, "links": [[1, 1, 0, 2, 0, "SDXL_TUPLE"]]});
    let reading = read_bytes(&png(&[text("workflow", workflow.to_string())]));
    assert_eq!(
        line(&reading),
        "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=40 | cfg=9 | sampler=euler | scheduler=karras | size=64x32 | model=cats"
    );
    // Sampler and scheduler before the steps, which may be a text.
    let linked = json!([
        {"name": "conditioning", "type": "CONDITIONING", "link": 7},
        {"name": "latent_image", "type": "LATENT", "link": 8},
    ]);
    let reading = edited(linked.clone(), json!([7, "randomize", "euler", "beta", "20", "3.5", "", "", "1.0"]));
    let expected = "ComfyUI | prompt=a cat | seed=7 | steps=20 | cfg=3.5 | sampler=euler | scheduler=beta | size=16x16";
    assert_eq!(line(&reading), expected, "{:?}", reading.notes);
    // Several values to try are not a number of steps.
    let reading = edited(linked, json!([7, "randomize", "euler", "beta", "20, 30", "3.5", "", "", "1.0"]));
    assert!(reading.recipe.steps.is_none() && reading.recipe.guidance_scale.is_none(), "{}", line(&reading));
}

#[test]
fn a_sampler_whose_steps_are_not_known() {
    let inputs = json!([
        {"name": "model", "type": "MODEL", "link": 8},
        {"name": "conditioning", "type": "CONDITIONING", "link": 7},
        {"name": "latent_image", "type": "LATENT", "link": 8},
    ]);
    let reading = edited(inputs, json!([7, "fixed", 8, 20, 3.5, 0, 1]));
    assert_eq!(line(&reading), "ComfyUI | prompt=a cat | seed=7 | size=16x16", "{:?}", reading.notes);
}

#[test]
fn the_text_that_a_wildcard_became() {
    let wildcard = json!({"id": 1, "type": "ImpactWildcardEncode", "inputs": [], "widgets_values": ["a {cat|fox}", "a fox", true, "LoRA", "Wildcard", 0, "fixed"]});
    let sampler = json!({"id": 2, "type": "KSampler", "inputs": [{"name": "positive", "type": "CONDITIONING", "link": 1}], "widgets_values": [7, "fixed", 20, 8, "euler", "normal", 1]});
    let workflow = json!({"nodes": [wildcard, sampler], "links": [[1, 1, 0, 2, 0, "CONDITIONING"]]});
    assert_eq!(read_bytes(&png(&[text("workflow", workflow.to_string())])).recipe.prompt, "a fox");
}

#[test]
fn a_request_whose_values_have_no_names() {
    let outputs = |kind: &str| json!([{"name": "out", "type": kind, "links": []}]);
    let values = json!(["an owl in the snow", "1:1", 1024, 50, 5, false, 298, "randomize"]);
    let request = |kind: &str, values: &Value| {
        unlinked(
            json!([{"id": 1, "type": "Remote Flux", "inputs": [], "outputs": outputs(kind), "widgets_values": values}]),
        )
    };
    let reading = request("IMAGE", &values);
    assert_eq!(
        (reading.recipe.prompt.as_str(), reading.recipe.seed.map(|seed| seed.0)),
        ("an owl in the snow", Some(298))
    );
    // Which of two texts is the prompt is not known, and a node that makes a text was asked something else.
    let two = request("IMAGE", &json!(["an owl in the snow", "a bat at night", 298, "randomize"]));
    assert!(two.recipe.prompt.is_empty() && two.recipe.seed.is_none(), "{}", line(&two));
    let asked = request("STRING", &values);
    assert!(asked.recipe.prompt.is_empty() && asked.recipe.seed.is_none(), "{}", line(&asked));
}
