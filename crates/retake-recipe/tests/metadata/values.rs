//! Values of ComfyUI graphs on their way through other nodes: computed, replaced, rewritten or passed on.

use serde_json::{Value, json};

use crate::graphs::{of, with};

#[test]
fn inputs_that_a_page_fills_in_have_defaults() {
    let mut graph = with(json!({
        "13": {"class_type": "DynamicInput", "inputs": {"param_name": "Steps", "default_value": 12}},
        "14": {"class_type": "DynamicInput", "inputs": {"param_name": "Prompt", "default_value": "a cat in the snow"}},
        "6": {"class_type": "TextEncodeList", "inputs": {"prompts": ["14", 0], "clip": ["4", 1]}}
    }));
    graph["3"]["inputs"]["steps"] = json!(["13", 0]);
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.steps), ("a cat in the snow", Some(12)));
}

#[test]
fn numbers_that_nodes_compute() {
    let steps_of = |node: Value| {
        let mut graph = with(json!({
            "13": node,
            "14": {"class_type": "Float", "inputs": {"value": 0.25}},
            "15": {"class_type": "GetSize", "inputs": {"image": ["11", 0]}},
        }));
        graph["3"]["inputs"]["steps"] = json!(["13", 1]);
        of(&graph).recipe.steps
    };
    let expression = |text: &str| json!({"class_type": "Math", "inputs": {"expression": text, "a": ["14", 0], "b": 8}});
    assert_eq!(steps_of(expression("a*25+(1-a)*b")), Some(12));
    assert_eq!(steps_of(expression("b * 2")), Some(16), "not the 8 that it is computed from");
    assert_eq!(steps_of(expression("a * 50")), Some(12), "half of one is rounded to even, or truncated");
    assert_eq!(steps_of(expression("a * 51")), None, "12.75 may be rounded or truncated");
    assert_eq!(steps_of(expression("b * node.steps")), None);
    let named =
        json!({"class_type": "ComfyMathExpression", "inputs": {"expression": "a + b", "values.a": 8, "values.b": 3}});
    assert_eq!(steps_of(named), Some(11));
    let operation = |name: &str| json!({"class_type": "easy mathInt", "inputs": {"a": 8, "b": 3, "operation": name}});
    assert_eq!((steps_of(operation("add")), steps_of(operation("other"))), (Some(11), None));
    assert_eq!(steps_of(json!({"class_type": "SimpleMath+", "inputs": {"value": "a*2", "a": 8}})), Some(16));
    let unknown = json!({"class_type": "Math", "inputs": {"expression": "a * 2", "a": ["15", 0]}});
    assert_eq!(steps_of(unknown), None, "the size of an image is not in the file");
}

#[test]
fn computations_that_double_with_every_level_end() {
    let mut nodes = json!({});
    for level in 0..200 {
        let from = json!([format!("n{}", level + 1), 0]);
        nodes[format!("n{level}")] =
            json!({"class_type": "Math", "inputs": {"expression": "a + b", "a": from, "b": from}});
    }
    let mut graph = with(nodes);
    graph["3"]["inputs"]["steps"] = json!(["n0", 0]);
    assert_eq!(of(&graph).recipe.steps, None);
}

#[test]
fn texts_replaced_by_a_pattern() {
    let prompt_of = |inputs: Value| {
        let mut graph = with(json!({"13": {"class_type": "Regex_Replace", "inputs": inputs}}));
        graph["6"]["inputs"]["text"] = json!(["13", 0]);
        of(&graph).recipe.prompt
    };
    let replaced = |pattern: &str, replacement: &str| {
        prompt_of(
            json!({"source_string": "subj and a cat", "regex_pattern": pattern, "replacement": replacement, "case_sensitive": false}),
        )
    };
    assert_eq!(replaced("subj", "a dog"), "a dog and a cat");
    assert_eq!(replaced("bird", "a dog"), "subj and a cat");
    // Not evaluated: what comes of them is not known.
    assert_eq!((replaced("s.*j", "a dog"), replaced("Subj", "a dog"), replaced("subj", "\\0")), Default::default());
    assert_eq!(prompt_of(json!({"string": "a cat", "regex_pattern": "cat", "replace": "dog"})), "a dog");
}

#[test]
fn a_model_that_makes_images_from_instructions() {
    let graph = with(json!({
        "8": {"class_type": "InstructImageEdit", "inputs": {"model": ["4", 0], "image": ["11", 0], "instruction": "make it a dog", "seed": 7, "steps": 8, "guidance_scale": 2.5, "max_new_tokens": 2048}},
        "11": {"class_type": "LoadImage", "inputs": {"image": "x.png"}}
    }));
    let recipe = of(&graph).recipe;
    assert_eq!(
        (recipe.prompt.as_str(), recipe.seed.map(|seed| seed.0), recipe.steps),
        ("make it a dog", Some(7), Some(8))
    );
    // A request whose steps have a name of their own.
    let graph = with(json!({
        "8": {"class_type": "TryOn", "inputs": {"pipeline": ["4", 0], "human_image": ["11", 0], "prompt": "a red dress", "denoise_steps": 30, "seed": 7}},
        "11": {"class_type": "LoadImage", "inputs": {"image": "x.png"}}
    }));
    assert_eq!(of(&graph).recipe.steps, Some(30));
}

#[test]
fn numbers_of_sliders() {
    let mut graph = with(json!({
        "13": {"class_type": "mxSlider", "inputs": {"Xi": 30, "Xf": 30.5, "isfloatX": 0}},
        "14": {"class_type": "mxSlider", "inputs": {"Xi": 3, "Xf": 3.5, "isfloatX": 1}},
        "15": {"class_type": "mxSlider2D", "inputs": {"Xi": 640, "Xf": 640, "Yi": 480, "Yf": 480, "isfloatX": 0, "isfloatY": 0}}
    }));
    graph["3"]["inputs"]["steps"] = json!(["13", 0]);
    graph["3"]["inputs"]["cfg"] = json!(["14", 0]);
    graph["5"]["inputs"]["width"] = json!(["15", 0]);
    graph["5"]["inputs"]["height"] = json!(["15", 1]);
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.steps, recipe.guidance_scale), (Some(30), Some(3.5)));
    assert_eq!((recipe.width, recipe.height), (Some(640), Some(480)));
}

#[test]
fn instructions_to_language_models_are_not_prompts() {
    let prompt_of = |nodes: Value| {
        let mut graph = with(nodes);
        graph["6"]["inputs"]["text"] = json!(["13", 0]);
        of(&graph).recipe.prompt
    };
    let instruction = "Forget any previous conversation.\n\nYou are an expert in crafting texts.";
    let join =
        |parts: Value| json!({"class_type": "Text Concatenate", "inputs": {"text_a": instruction, "text_b": parts}});
    let model = json!({"class_type": "OllamaGenerate", "inputs": {"prompt": ["14", 0], "model": "x"}});
    assert_eq!(prompt_of(json!({"13": model, "14": join(json!("a cat"))})), "a cat");
    assert_eq!(
        prompt_of(json!({"13": model, "14": join(json!(["15", 0])), "15": {"class_type": "Tagger", "inputs": {}}})),
        ""
    );
    let conversation =
        json!({"class_type": "ChatLLM", "inputs": {"prompt": "Which of them is shorter?", "messages": ["14", 0]}});
    assert_eq!(
        prompt_of(json!({"13": conversation, "14": {"class_type": "ChatMessages", "inputs": {"text": "a cat"}}})),
        ""
    );
}

#[test]
fn prompts_on_the_way_through_other_nodes() {
    // Both sides in one node, under the name of a library.
    let graph = with(json!({
        "3": {"class_type": "VideoSampler", "inputs": {"seed": 7, "steps": 20, "cfg": 5, "model": ["4", 0], "text_embeds": ["6", 0], "samples": ["5", 0]}},
        "6": {"class_type": "VideoTextEncode", "inputs": {"positive_prompt": "cat", "negative_prompt": "dog", "t5": ["12", 0]}},
    }));
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("cat", Some("dog")));
    // A timer between the guider and the sampler.
    let graph = with(json!({
        "3": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["13", 0], "guider": ["14", 0], "sigmas": ["16", 0], "latent_image": ["5", 0]}},
        "13": {"class_type": "RandomNoise", "inputs": {"noise_seed": 7}},
        "14": {"class_type": "TimerStart", "inputs": {"name": "a timer, started", "passthrough": ["15", 0]}},
        "15": {"class_type": "CFGGuider", "inputs": {"cfg": 1, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0]}},
        "16": {"class_type": "BasicScheduler", "inputs": {"steps": 4, "model": ["4", 0]}}
    }));
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("a cat", Some("dog")));
    // A sampler that names neither seed nor steps.
    let graph = with(
        json!({"3": {"class_type": "VideoSampler", "inputs": {"model": ["4", 0], "positive": ["6", 0], "image": ["11", 0]}}}),
    );
    assert_eq!(of(&graph).recipe.prompt, "a cat");
}

#[test]
fn what_an_image_was_made_from_is_not_the_prompt_of_another() {
    // One encoder for the positive side only: its text is not the negative prompt.
    let graph = with(json!({
        "3": {"class_type": "VideoSampler", "inputs": {"seed": 7, "steps": 20, "cfg": 5, "model": ["4", 0], "text_embeds": ["6", 0], "samples": ["5", 0]}},
        "6": {"class_type": "VideoTextEncode", "inputs": {"prompt": "a cat", "t5": ["12", 0]}},
    }));
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt), ("a cat", None));
    // Conditioning on an image that a provider made from a prompt of its own.
    let graph = with(json!({
        "6": {"class_type": "ImageCondition", "inputs": {"image": ["13", 0]}},
        "13": {"class_type": "PictureApi", "inputs": {"prompt": "a dog in the rain", "seed": 4}}
    }));
    assert_eq!(of(&graph).recipe.prompt, "");
}
