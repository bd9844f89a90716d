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
    let formula = json!({"class_type": "DataMonitor", "inputs": {"text": "[8, %AUX%][%aux2% > 0]", "output_type": "FORMULA", "aux": 11, "aux2": ["14", 0]}});
    assert_eq!(steps_of(formula), Some(11));
    let left = json!({"class_type": "Strength To Steps", "inputs": {"desired_steps": 4, "strength_percent": 25.5}});
    assert_eq!(steps_of(left), Some(16), "all steps, not those that are left");
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

/// Positions that nodes compute, and switches in front of which nothing is connected.
#[test]
fn positions_of_switches() {
    let prompt_of = |switch: Value| {
        let graph = with(json!({
            "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["13", 0], "clip": ["4", 1]}},
            "13": switch,
            "14": {"class_type": "DataMonitor", "inputs": {"text": "[1,2][%aux%]", "output_type": "FORMULA", "aux": ["15", 0]}},
            "15": {"class_type": "Bool", "inputs": {"value": true}},
            "16": {"class_type": "Text", "inputs": {"text": "a cat"}},
            "17": {"class_type": "Text", "inputs": {"text": "a dog"}},
            "18": {"class_type": "Any Switch (rgthree)", "inputs": {}},
            "19": {"class_type": "Any Switch (rgthree)", "inputs": {"any_01": ["18", 0]}},
            "20": {"class_type": "Or", "inputs": {"a": ["21", 0]}},
            "21": {"class_type": "IsEmpty", "inputs": {}}
        }));
        of(&graph).recipe.prompt
    };
    let numbered = json!({"class_type": "UniversalSwitch", "inputs": {"selection_in": ["14", 0], "input1": ["16", 0], "input2": ["17", 0]}});
    assert_eq!(prompt_of(numbered), "a dog");
    let first = json!({"class_type": "Any Switch (rgthree)", "inputs": {"any_01": ["19", 0], "any_02": ["16", 0], "any_03": ["17", 0]}});
    assert_eq!(prompt_of(first), "a cat");
    let fallback = |inputs: Value| prompt_of(json!({"class_type": "Recourse", "inputs": inputs}));
    assert_eq!(fallback(json!({"input": ["16", 0], "fallback": ["17", 0]})), "a cat");
    assert_eq!(fallback(json!({"input": ["19", 0], "fallback": ["17", 0]})), "a dog");
    // Nothing in the file states the position, which does not matter if both are the same.
    let either = |one: &str, other: &str| json!({"class_type": "ComfySwitchNode", "inputs": {"switch": ["20", 0], "on_true": [one, 0], "on_false": [other, 0]}});
    assert_eq!((prompt_of(either("16", "16")), prompt_of(either("16", "17"))), ("a cat".to_owned(), String::new()));
    // A position that depends on the switch itself.
    let circular = json!({"class_type": "UniversalSwitch", "inputs": {"selection_in": ["13", 0], "input1": ["16", 0], "input2": ["17", 0]}});
    assert_eq!(prompt_of(circular), "");
}

/// Graphs whose switches or contexts lead to each other in many ways.
#[test]
fn switches_that_multiply_with_every_level_end() {
    for class in ["Any Switch (rgthree)", "Context Merge (rgthree)", "Context Switch (rgthree)"] {
        let mut nodes = json!({});
        for level in 0..40 {
            let from = json!([format!("n{}", level + 1), 0]);
            let inputs: Value = (0..10).map(|place| (format!("ctx_{place:02}"), from.clone())).collect();
            nodes[format!("n{level}")] = json!({"class_type": class, "inputs": inputs});
        }
        nodes["n40"] = json!({"class_type": "Context (rgthree)", "inputs": {}});
        let mut graph = with(nodes);
        graph["6"]["inputs"]["text"] = json!(["n0", 0]);
        graph["3"]["inputs"]["seed"] = json!(["n0", 8]);
        assert_eq!((of(&graph).recipe.prompt.as_str(), of(&graph).recipe.seed), ("", None), "{class}");
    }
}
