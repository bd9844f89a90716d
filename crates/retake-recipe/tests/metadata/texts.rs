//! Texts of ComfyUI graphs on their way through other nodes: joined, replaced, rewritten or passed on.

use serde_json::{Value, json};

use crate::graphs::{of, with};

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
    assert_eq!(
        (replaced("s.*j", "a dog"), replaced("Subj", "a dog")),
        ("a dog and a cat".to_owned(), "a dog and a cat".to_owned())
    );
    assert_eq!(replaced("subj", "$0"), "$0 and a cat");
    // Only Python knows what comes of these.
    assert_eq!(
        (replaced("subj", "\\0"), replaced("(?<=subj) and", "a dog"), replaced("(", "a dog")),
        Default::default()
    );
    let trimmed =
        json!({"string": ",a cat, a dog,", "regex_pattern": "^,|,$", "replace": "", "multiline": false, "count": 0});
    assert_eq!(prompt_of(trimmed), "a cat, a dog");
    let once = json!({"string": "a cat, a cat", "regex_pattern": "cat", "replace": "dog", "count": 1});
    assert_eq!(prompt_of(once), "a dog, a cat");
    assert_eq!(prompt_of(json!({"string": "a cat", "regex_pattern": "cat", "replace": "dog"})), "a dog");
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

/// Returns the prompt of a graph whose encoder gets its text from node 13.
fn prompt_through(nodes: Value) -> String {
    let mut graph = with(nodes);
    graph["6"]["inputs"]["text"] = json!(["13", 0]);
    of(&graph).recipe.prompt
}

#[test]
fn texts_put_together() {
    let style = |style: &str| {
        prompt_through(json!({
            "13": {"class_type": "Text Concatenate", "inputs": {"delimiter": ", ", "text_a": ["14", 0], "text_b": ["15", 0]}},
            "14": {"class_type": "Text", "inputs": {"text": "a cat"}},
            "15": {"class_type": "Load Styles CSV", "inputs": {"styles": style, "csv_file_path": "styles.csv"}}
        }))
    };
    assert_eq!((style("No Style"), style("Photograph")), ("a cat".to_owned(), String::new()), "its text is in a CSV");
    let node = |class: &str, inputs: Value| {
        prompt_through(json!({
            "13": {"class_type": class, "inputs": inputs},
            "14": {"class_type": "Text", "inputs": {"text": "a cat"}},
            "15": {"class_type": "WD14Tagger", "inputs": {"image": ["5", 0]}}
        }))
    };
    let around = json!({"append": ", snow", "body": ["14", 0], "prepend": "photo of ", "delimiter": ""});
    assert_eq!(node("TextPlusPlus", around), "photo of a cat, snow");
    assert_eq!(node("LayerUtility: TextJoin", json!({"text_1": ["14", 0], "text_2": "snow"})), "a cat, snow");
    let sum = |expression: &str| json!({"python_expression": expression, "a": ["14", 0], "b": "snow", "c": ""});
    assert_eq!(node("Evaluate Strings", sum("a + ' in ' + b + c")), "a cat in snow");
    assert_eq!(node("Evaluate Strings", sum("a.upper() + b")), "");
    let template = |text: &str| json!({"text": text, "output_type": "STRING", "aux": ["14", 0], "aux2": "snow"});
    assert_eq!(node("DataMonitor", template("photo of %aux% in %AUX2%, 50%")), "", "a percent sign without a name");
    assert_eq!(node("DataMonitor", template("photo of %aux% in %AUX2%")), "photo of a cat in snow");
    let added = |suffix: &str| json!({"text": "a dog", "suffix": [suffix, 0]});
    assert_eq!(node("TextInput", added("14")), "a dog a cat");
    assert_eq!(node("TextInput", added("15")), "", "tags of an image");
    // The text of a display is that of the run before, unless nothing is connected.
    assert_eq!(node("Textbox", json!({"text": "a dog", "passthrough": ["14", 0]})), "a cat");
    assert_eq!(node("Textbox", json!({"text": "a dog", "passthrough": ["15", 0]})), "");
    assert_eq!(node("Whatever", json!({"text": "a dog"})), "a dog");
}

#[test]
fn encoders_with_texts_of_their_own_names() {
    let prompts = |inputs: Value| {
        let node = json!({"class_type": "SomeEncode", "inputs": inputs});
        let mut graph = with(json!({"6": node}));
        graph["3"]["inputs"]["negative"] = json!(["6", 1]);
        let recipe = of(&graph).recipe;
        (recipe.prompt, recipe.negative_prompt.unwrap_or_default())
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(prompts(json!({"clip": ["4", 1], "bert": "a cat", "mt5xl": "a cat"})).0, "a cat");
    assert_eq!(prompts(json!({"clip": ["4", 1], "prompt_l": "a cat", "prompt_g": "in snow"})).0, "a cat\nin snow");
    let both =
        json!({"clip": ["4", 1], "pos_g": "a cat", "pos_l": "a cat", "neg_g": "dog", "neg_l": "fog", "mode": "a b"});
    assert_eq!(prompts(both), pair("a cat", "dog\nfog"));
    let parts = json!({"clip": ["4", 1], "global_prompt": "a cat", "local_prompts": "it walks"});
    assert_eq!(prompts(parts).0, "a cat\nit walks");
}

/// A loader that encodes takes texts where others take conditioning; what is not known of them is not searched further.
#[test]
fn a_loader_whose_text_is_not_known() {
    let prompts = |positive: &str| {
        let mut graph = with(json!({
            "10": {"class_type": "ControlNetAdvanced", "inputs": {"base_positive": ["11", 1], "base_negative": ["11", 2], "control_net": ["16", 0]}},
            "11": {"class_type": "easy controlnetLoader", "inputs": {"pipe": ["12", 0], "image": ["5", 0]}},
            "12": {"class_type": "easy a1111Loader", "inputs": {"ckpt_name": "cats.safetensors", "positive": [positive, 0], "negative": "dog"}},
            "13": {"class_type": "Text", "inputs": {"text": "a cat"}},
            "14": {"class_type": "CR Text Concatenate", "inputs": {"text1": ["13", 0], "text2": ["15", 0], "separator": ", "}},
            "15": {"class_type": "WD14Tagger", "inputs": {"image": ["5", 0]}}
        }));
        graph["3"]["inputs"]["positive"] = json!(["10", 0]);
        graph["3"]["inputs"]["negative"] = json!(["10", 1]);
        let recipe = of(&graph).recipe;
        (recipe.prompt, recipe.negative_prompt.unwrap_or_default())
    };
    assert_eq!(prompts("13"), ("a cat".to_owned(), "dog".to_owned()));
    assert_eq!(prompts("14"), (String::new(), "dog".to_owned()));
}

#[test]
fn conditioning_through_a_pipe_with_short_names() {
    let mut graph = with(json!({
        "10": {"class_type": "easy pipeIn", "inputs": {"pos": ["6", 0], "neg": ["7", 0], "model": ["4", 0]}},
        "11": {"class_type": "easy pipeOut", "inputs": {"pipe": ["10", 0]}}
    }));
    graph["3"]["inputs"]["positive"] = json!(["11", 2]);
    graph["3"]["inputs"]["negative"] = json!(["11", 3]);
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("a cat", Some("dog")));
}

#[test]
fn texts_that_nodes_change_or_choose() {
    let node = |class: &str, inputs: Value| prompt_through(json!({"13": {"class_type": class, "inputs": inputs}}));
    assert_eq!(node("Text Find and Replace", json!({"text": "a dog", "find": "dog", "replace": "cat"})), "a cat");
    assert_eq!(node("CaseConverter", json!({"string": "A Cat", "mode": "lowercase"})), "a cat");
    assert_eq!(node("CaseConverter", json!({"string": "A Cat", "mode": "Title Case"})), "", "Python's own rules");
    let rows = |start: u32, most: u32| json!({"multiline_text": "a cat\n\na dog\na bird", "remove_empty_lines": true, "start_index": start, "max_rows": most, "prepend_text": "photo of ", "append_text": ""});
    assert_eq!(node("CR Prompt List", rows(1, 1)), "photo of a dog");
    assert_eq!(node("CR Prompt List", rows(1, 9)), "photo of a dog\nphoto of a bird", "one for each image");
    assert_eq!(node("CR Prompt List", rows(5, 1)), "");
    // What is chosen at random is not in the file.
    assert_eq!(node("Text Random Line", json!({"text": "a cat\na dog", "seed": 7})), "");
    assert_eq!(node("RegexExtract", json!({"string": "a cat", "regex_pattern": "dog", "mode": "First Match"})), "");
    let cut = |start: i32, end: i32| node("StringSubstring", json!({"string": "a cat", "start": start, "end": end}));
    assert_eq!([cut(2, 5), cut(-3, 99), cut(4, 2)], ["cat", "cat", ""]);
    let outputs = |slot: u32| {
        let mut graph =
            with(json!({"13": {"class_type": "Text String", "inputs": {"text": "a cat", "text_b": "a dog"}}}));
        graph["6"]["inputs"]["text"] = json!(["13", slot]);
        of(&graph).recipe.prompt
    };
    assert_eq!((outputs(0), outputs(1)), ("a cat".to_owned(), "a dog".to_owned()));
    let shown = json!({"text": "of the run before", "anything": ["5", 0]});
    assert_eq!(node("easy showAnything", shown), "");
}

#[test]
fn a_number_drawn_at_random_is_not_the_seed_it_was_drawn_with() {
    let mut graph = with(json!({
        "13": {"class_type": "Random Number", "inputs": {"minimum": 0, "maximum": 1000, "seed": 7}}
    }));
    graph["3"]["inputs"]["seed"] = json!(["13", 0]);
    assert_eq!(of(&graph).recipe.seed, None);
}

/// Graphs that try to make a small file into a large text, or to compile patterns for hours.
#[test]
fn replacements_that_grow_end() {
    let long = "a".repeat(100_000);
    let node = |class: &str, inputs: Value| prompt_through(json!({"13": {"class_type": class, "inputs": inputs}}));
    let replaced = |find: &str| json!({"text": long, "find": find, "replace": long});
    assert_eq!(node("Text Find and Replace", replaced("")), "");
    assert_eq!(node("Text Find and Replace", replaced("a")), "");
    assert_eq!(node("StringReplace", json!({"string": long, "find": "a", "replace": long})), "");
    assert_eq!(node("RegexReplace", json!({"string": long, "regex_pattern": "", "replace": long})), long);
    let mut template = json!({"template": "{n0}"});
    for level in 0..64 {
        template[format!("n{level}")] = json!(format!("{{n{0}}}{{n{0}}}", level + 1));
    }
    assert_eq!(node("Apply Text Template (mtb)", template), "");
    let mut nodes = json!({});
    for level in 0..500 {
        let from = if level == 499 { json!("a cat") } else { json!([format!("{}", level + 14), 0]) };
        nodes[format!("{}", level + 13)] = json!({"class_type": "RegexReplace", "inputs": {"string": from, "regex_pattern": "\\w{30}", "replace": ""}});
    }
    assert_eq!(prompt_through(nodes), "");
}
