//! ComfyUI nodes that no rule recognises: values of known classes without names, and values that can have only one
//! meaning.

use retake_recipe::metadata::{Reading, read_bytes};
use serde_json::{Value, json};

use crate::build::{png, text};
use crate::tools::line;

fn queued(graph: Value) -> Reading {
    read_bytes(&png(&[text("prompt", graph.to_string())]))
}

/// Returns the editor's graph of a text, a sampler and a node that saves its images.
fn edited(encoder: &str, texts: Value, input: &str, sampler: &str, values: Value) -> Reading {
    let workflow = json!({
        "nodes": [
            {"id": 1, "type": encoder, "inputs": [], "widgets_values": texts},
            {"id": 2, "type": "Loader", "inputs": [], "widgets_values": []},
            {"id": 3, "type": sampler, "inputs": [{"name": input, "type": "A", "link": 7}, {"name": "model", "type": "MODEL", "link": 9}], "widgets_values": values},
            {"id": 4, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 8}], "widgets_values": ["x"]},
        ],
        "links": [[7, 1, 0, 3, 0, "A"], [8, 3, 0, 4, 0, "IMAGE"], [9, 2, 0, 3, 1, "MODEL"]],
    });
    read_bytes(&png(&[text("workflow", workflow.to_string())]))
}

#[test]
fn values_of_known_classes_without_names() {
    let texts = json!(["a cat in the snow", "bad video", "video"]);
    for values in [
        json!([64, 32, 85, 30, 6, 9, 7, "fixed", true, 1]),
        // An older file has a number for the last option.
        json!([64, 32, 85, 30, 6, 9, 7, "fixed", 1, 1]),
    ] {
        let reading = edited("HyVideoTextEncode", texts.clone(), "hyvid_embeds", "HyVideoSampler", values);
        let expected = "ComfyUI | prompt=a cat in the snow | seed=7 | steps=30 | size=64x32 | denoise=1";
        assert_eq!(line(&reading).replace(" | denoise=1", ""), expected.replace(" | denoise=1", ""));
    }
    // Values that do not fit the declaration are not named after it.
    let other = edited("HyVideoTextEncode", texts, "hyvid_embeds", "HyVideoSampler", json!(["x", 320, true, 30, 6]));
    assert!(other.recipe.seed.is_none() && other.recipe.steps.is_none(), "{}", line(&other));
}

#[test]
fn the_settings_of_an_unknown_sampler_apart_from_its_seed() {
    let values = json!(["None", 1, 1, "off", 24, 2.0, "euler", "normal", 1, "Save", "x", 7, "fixed"]);
    let reading = edited("Encoder", json!(["a cat in the snow", 5]), "positive", "Other Pipe", values);
    assert_eq!(
        line(&reading),
        "ComfyUI | prompt=a cat in the snow | seed=7 | steps=24 | cfg=2 | sampler=euler | scheduler=normal | size=16x16 | denoise=1"
    );
    // Two settings of one shape leave it open which of them made the image.
    let twice = json!([24, 2.0, "euler", "normal", 12, 3.0, "euler", "karras", 7, "fixed"]);
    let reading = edited("Encoder", json!(["a cat in the snow", 5]), "positive", "Other Pipe", twice);
    assert!(reading.recipe.steps.is_none(), "{}", line(&reading));
}

/// Returns a graph whose sampler gets its prompt through an input that no rule knows.
fn embedded(nodes: Value) -> Value {
    let mut graph = json!({
        "1": {"class_type": "Loader", "inputs": {"model_name": "x.safetensors"}},
        "2": {"class_type": "Embed", "inputs": {"prompt": "a cat in the snow", "negative_prompt": "a dog, bad", "template": "a b c"}},
        "3": {"class_type": "Sampler", "inputs": {"model": ["1", 0], "video_embeds": ["9", 0], "embeds": ["2", 0], "seed": 7, "steps": 12}},
        "4": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["3", 0]}},
    });
    for (id, node) in nodes.as_object().unwrap() {
        graph[id] = node.clone();
    }
    graph
}

#[test]
fn the_only_text_that_leads_to_a_sampler() {
    let reading = queued(embedded(json!({})));
    assert_eq!(line(&reading), "ComfyUI | prompt=a cat in the snow | seed=7 | steps=12 | size=16x16 | model=x");
    assert!(reading.sources.iter().any(|source| source.rule.contains("the only text that leads to 3 (Sampler)")));
    // The options of a context are not a text.
    let sampler = json!({"class_type": "Sampler", "inputs": {"model": ["1", 0], "embeds": ["2", 0], "context_options": ["5", 0], "seed": 7, "steps": 12}});
    let options = json!({"class_type": "ContextOptions", "inputs": {"context_frames": 81}});
    assert_eq!(queued(embedded(json!({"3": sampler, "5": options}))).recipe.prompt, "a cat in the snow");
    // Nor is a model that encodes texts.
    let encoder = json!({"class_type": "LoadTextEncoder", "inputs": {"llm_model": "x"}});
    let embed =
        json!({"class_type": "TextEmbed", "inputs": {"text_encoders": ["5", 0], "prompt": "a cat in the snow"}});
    assert_eq!(queued(embedded(json!({"2": embed, "5": encoder}))).recipe.prompt, "a cat in the snow");
    // Two texts, and a text that was made when the graph ran, leave it open.
    let joined = json!({"class_type": "Embed", "inputs": {"prompt": "a cat in the snow", "more": ["5", 0]}});
    let fox = json!({"class_type": "Embed", "inputs": {"text": "a fox at night"}});
    let generated = json!({"class_type": "Embed", "inputs": {"prompt": ["5", 0]}});
    let scene = json!({"class_type": "Random Scene", "inputs": {"style": ["6", 0], "seed": 5}});
    let style = json!({"class_type": "Style", "inputs": {"prompt": "ink, by hand"}});
    for nodes in [json!({"2": joined, "5": fox}), json!({"2": generated, "5": scene, "6": style})] {
        let reading = queued(embedded(nodes));
        assert_eq!(line(&reading), "ComfyUI | seed=7 | steps=12 | size=16x16 | model=x", "{:?}", reading.notes);
    }
}

#[test]
fn the_only_node_that_could_have_made_an_image() {
    let graph = |node: Value, class: &str| {
        json!({
            "1": {"class_type": class, "inputs": node},
            "2": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["1", 0]}},
        })
    };
    let reading = queued(graph(
        json!({"base_seed": 7, "total_steps": 12, "start_step": 2, "text_prompt": "a cat in the snow"}),
        "Own Maker",
    ));
    assert_eq!(
        line(&reading),
        "ComfyUI | prompt=a cat in the snow | seed=7 | steps=12 | size=16x16",
        "{:?}",
        reading.notes
    );
    for (node, class) in [
        // An upscaler may have a seed, too: that does not make it the origin of the image.
        (json!({"seed": 7, "resolution": 1080}), "Upscaler"),
        (json!({"base_seed": 7, "question": "what is this thing?"}), "Caption"),
    ] {
        let reading = queued(graph(node.clone(), class));
        assert!(reading.recipe.seed.is_none() && reading.recipe.prompt.is_empty(), "{node}: {}", line(&reading));
    }
    // A language model by the address that it is reached at.
    let written = json!({
        "1": {"class_type": "DocGenerator", "inputs": {"prompt": "a summary of the code", "seed": 7, "url": "http://localhost:5001/v1/chat/completions"}},
        "2": {"class_type": "SaveMarkdown", "inputs": {"text": ["1", 0]}},
    });
    let reading = queued(written);
    assert!(reading.recipe.seed.is_none() && reading.recipe.prompt.is_empty(), "{}", line(&reading));
    // A text that is only displayed did not make an image.
    let shown = json!({
        "1": {"class_type": "Shuffle", "inputs": {"text": "a cat, a dog, a fox", "seed": 7, "steps": 3}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    });
    let reading = queued(shown);
    assert!(reading.recipe.seed.is_none() && reading.recipe.prompt.is_empty(), "{}", line(&reading));
}

#[test]
fn settings_are_not_a_sampler_and_a_shown_text_is_not_the_prompt() {
    let settings = json!({"seed": 7, "steps": 12, "cfg": 2.0, "sampler": "euler", "scheduler": "normal"});
    let graph = json!({
        "1": {"class_type": "Inputs", "inputs": settings},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat in the snow", "clip": ["1", 1]}},
        "3": {"class_type": "KSampler", "inputs": {"seed": ["1", 2], "steps": ["1", 3], "cfg": 1.0, "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0], "latent_image": ["1", 4]}},
        "4": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["3", 0]}},
    });
    let reading = queued(graph.clone());
    assert_eq!(
        (reading.recipe.prompt.as_str(), reading.passes.len()),
        ("a cat in the snow", 1),
        "{:?}",
        reading.passes
    );
    // What a node displays is from the run before.
    let mut shown = graph;
    shown["2"]["inputs"]["text"] = json!(["5", 0]);
    shown["5"] = json!({"class_type": "ShowText", "inputs": {"text": ["6", 0], "text_0": "a dog in the rain"}});
    shown["6"] = json!({"class_type": "Assembler", "inputs": {"mood": "calm"}});
    assert_eq!(queued(shown).recipe.prompt, "");
}

#[test]
fn texts_chosen_replaced_and_split_by_side() {
    let graph = json!({
        "1": {"class_type": "easy positive", "inputs": {"positive": "a cat, by day"}},
        "2": {"class_type": "easy negative", "inputs": {"negative": "a dog, bad"}},
        "3": {"class_type": "easy textSwitch", "inputs": {"input": 2, "text1": "a bat", "text2": ["1", 0]}},
        "4": {"class_type": "easy promptReplace", "inputs": {"prompt": ["3", 0], "find1": "cat", "replace1": "fox", "find2": "day", "replace2": "night", "find3": "", "replace3": ""}},
        "5": {"class_type": "easy stylesSelector", "inputs": {"positive": ["4", 0], "negative": ["2", 0]}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["5", 0], "clip": ["9", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": ["5", 1], "clip": ["9", 1]}},
        "8": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 12, "cfg": 1.0, "model": ["9", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["9", 2]}},
        "9": {"class_type": "Loader", "inputs": {"ckpt_name": "x"}},
        "10": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["8", 0]}},
    });
    let reading = queued(graph);
    let recipe = &reading.recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("a fox, by night", Some("a dog, bad")));
}

#[test]
fn a_sampler_is_not_taken_for_a_node_that_segments() {
    let reading = queued(json!({
        "1": {"class_type": "Face_Sampler", "inputs": {"positive": "a cat in the snow", "negative": "bad", "steps": 12, "seed": 7, "faces": ["3", 0]}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        "3": {"class_type": "Faces", "inputs": {}},
    }));
    assert_eq!(
        line(&reading),
        "ComfyUI | prompt=a cat in the snow | negative=bad | seed=7 | steps=12 | size=16x16",
        "{:?}",
        reading.notes
    );
}
