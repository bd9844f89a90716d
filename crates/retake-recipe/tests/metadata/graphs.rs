//! ComfyUI graphs that are more than a single sampler.

use retake_recipe::metadata::{Reading, read as read_file, read_bytes as read};
use serde_json::{Value, json};

use crate::build::{Order, chunk, exif, exif_segment, itxt, jpeg, png, png_with, text, webp};
use crate::tools::line;

/// Returns the default graph that everyone starts with. Its seed takes all 64 bits.
pub(crate) fn simple() -> Value {
    json!({
        "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "SDXL\\cats.safetensors"}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 32, "batch_size": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a cat", "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "dog", "clip": ["4", 1]}},
        "3": {"class_type": "KSampler", "inputs": {"seed": u64::MAX, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}}
    })
}

const SIMPLE: &str = "ComfyUI | prompt=a cat | negative=dog | seed=18446744073709551615 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=64x32 | model=cats | denoise=1";

pub(crate) fn of(graph: &Value) -> Reading {
    read(&png(&[text("prompt", graph.to_string())]))
}

fn check(graph: &Value, expected: &str) -> Reading {
    let reading = of(graph);
    assert_eq!(line(&reading), expected, "{:?}", reading.notes);
    reading
}

/// Returns the simple graph with these nodes added or replaced.
pub(crate) fn with(nodes: Value) -> Value {
    let mut graph = simple();
    for (id, node) in nodes.as_object().unwrap() {
        graph[id] = node.clone();
    }
    graph
}

#[test]
fn a_graph_wherever_a_saver_puts_it() {
    let (graph, workflow) = (simple().to_string(), r#"{"nodes": [{"id": 1, "type": "Note"}], "links": []}"#);
    let ascii = |tag, text: String| (tag, 2, [text.as_bytes(), b"\0"].concat());
    for picture in [
        png(&[text("prompt", &graph), text("workflow", workflow)]),
        png_with(&[], &[itxt("workflow", workflow, false), itxt("prompt", &graph, true)]),
        png_with(&[], &[chunk(b"comf", &[b"prompt\0", graph.as_bytes()].concat())]),
        webp(&[(
            b"EXIF",
            exif(
                Order::Big,
                &[ascii(0x010f, format!("workflow:{workflow}")), ascii(0x0110, format!("prompt:{graph}"))],
                &[],
            ),
        )]),
        webp(&[(
            b"EXIF",
            exif(
                Order::Big,
                &[ascii(0x010e, format!("Workflow: {workflow}")), ascii(0x010f, format!("Prompt: {graph}"))],
                &[],
            ),
        )]),
        jpeg(&[exif_segment(&exif(
            Order::Big,
            &[ascii(0x9286, format!(r#"{{"prompt": {graph}, "workflow": {workflow}}}"#))],
            &[],
        ))]),
        jpeg(&[exif_segment(&exif(Order::Big, &[ascii(0x9286, json!({"prompt": graph}).to_string())], &[]))]),
    ] {
        let reading = read(&picture);
        assert_eq!(line(&reading), SIMPLE, "{:?}", reading.raw);
        assert_eq!(reading.recipe.parameters["prompt"]["9"]["class_type"], "SaveImage");
    }
    // NaN is not JSON, but Python writes it.
    let nan = graph.replace("\"batch_size\":1", "\"batch_size\":NaN");
    assert_eq!(line(&read(&png(&[text("prompt", nan)]))), SIMPLE);
}

#[test]
fn runs_and_shapes() {
    let again = of(&simple());
    assert_eq!(of(&simple()).run_key, again.run_key);
    let mut reroll = simple();
    reroll["3"]["inputs"]["seed"] = 1.into();
    assert_ne!(of(&reroll).run_key, again.run_key, "another seed is another queued prompt");
    assert_eq!(of(&reroll).workflow_fingerprint, again.workflow_fingerprint);
    let renamed: Value =
        serde_json::from_str(&simple().to_string().replace("\"5\"", "\"50\"").replace("\"3\"", "\"57:3\"")).unwrap();
    assert_eq!(of(&renamed).workflow_fingerprint, again.workflow_fingerprint, "ids do not matter");
    assert_eq!(line(&of(&renamed)), SIMPLE);
    let other = with(json!({"3": {"class_type": "KSamplerAdvanced", "inputs": simple()["3"]["inputs"]}}));
    assert_ne!(of(&other).workflow_fingerprint, again.workflow_fingerprint);
}

#[test]
fn the_first_of_two_passes_is_the_recipe() {
    let graph = with(json!({
        "10": {"class_type": "LatentUpscale", "inputs": {"samples": ["3", 0], "width": 128, "height": 64, "upscale_method": "nearest"}},
        "11": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 9, "cfg": 4, "sampler_name": "dpm", "scheduler": "karras", "denoise": 0.4, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["10", 0]}},
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["11", 0], "vae": ["4", 2]}}
    }));
    let reading = check(&graph, SIMPLE);
    let passes: Vec<(Option<u64>, Option<u32>, Option<f64>)> =
        reading.passes.iter().map(|pass| (pass.seed, pass.steps, pass.denoise)).collect();
    assert_eq!(passes, [(Some(u64::MAX), Some(20), Some(1.0)), (Some(5), Some(9), Some(0.4))]);
}

#[test]
fn a_sampler_put_together_from_parts() {
    let graph = with(json!({
        "3": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["20", 0], "guider": ["21", 0], "sampler": ["22", 0], "sigmas": ["23", 0], "latent_image": ["5", 0]}},
        "20": {"class_type": "RandomNoise", "inputs": {"noise_seed": 7}},
        "21": {"class_type": "BasicGuider", "inputs": {"model": ["24", 0], "conditioning": ["25", 0]}},
        "22": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "23": {"class_type": "BasicScheduler", "inputs": {"scheduler": "simple", "steps": 28, "denoise": 1.0, "model": ["24", 0]}},
        "24": {"class_type": "LoraLoaderModelOnly", "inputs": {"lora_name": "flux\\fluff.safetensors", "strength_model": 0.7, "model": ["26", 0]}},
        "25": {"class_type": "FluxGuidance", "inputs": {"guidance": 3.5, "conditioning": ["6", 0]}},
        "26": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-dev.safetensors", "weight_dtype": "default"}}
    }));
    check(
        &graph,
        "ComfyUI | prompt=a cat | seed=7 | steps=28 | cfg=3.5 | sampler=euler | scheduler=simple | size=64x32 | model=flux1-dev | denoise=1 | lora=fluff:0.7",
    );
}

#[test]
fn values_that_are_links() {
    let mut graph = with(json!({
        "30": {"class_type": "Seed (rgthree)", "inputs": {"seed": 42}},
        "31": {"class_type": "PrimitiveInt", "inputs": {"value": 128}},
        "32": {"class_type": "PrimitiveStringMultiline", "inputs": {"value": "a linked cat"}},
        "33": {"class_type": "ShowText|pysssss", "inputs": {"text": ["34", 0], "text_0": "shown before"}},
        "34": {"class_type": "StringConcatenate", "inputs": {"string_a": ["32", 0], "string_b": "in snow", "delimiter": ", "}}
    }));
    graph["3"]["inputs"]["seed"] = json!(["30", 0]);
    graph["5"]["inputs"]["width"] = json!(["31", 0]);
    graph["6"]["inputs"]["text"] = json!(["33", 0]);
    check(
        &graph,
        "ComfyUI | prompt=a linked cat, in snow | negative=dog | seed=42 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=128x32 | model=cats | denoise=1",
    );
    // The output of a language model is not in the file; the user's input is.
    graph["32"] = json!({"class_type": "TextGenerate", "inputs": {"prompt": "write about a cat"}});
    let reading = of(&graph);
    assert_eq!(reading.recipe.prompt, "write about a cat, in snow");
    assert!(reading.notes.iter().any(|note| note.contains("(TextGenerate) rewrote the prompt")), "{:?}", reading.notes);
    for (on, words) in [(true, "yes, a cat"), (false, "no cat at all")] {
        graph["6"]["inputs"]["text"] = json!(["40", 0]);
        graph["40"] = json!({"class_type": "ComfySwitchNode", "inputs": {"switch": on, "on_true": "yes, a cat", "on_false": "no cat at all"}});
        assert_eq!(of(&graph).recipe.prompt, words);
    }
}

#[test]
fn conditioning_through_other_nodes() {
    let graph = with(json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0, "model": ["50", 0], "positive": ["52", 0], "negative": ["52", 1], "latent_image": ["5", 0]}},
        "50": {"class_type": "Power Lora Loader (rgthree)", "inputs": {"model": ["51", 0], "lora_1": {"on": true, "lora": "a.safetensors", "strength": 0.5}, "lora_2": {"on": false, "lora": "off.safetensors", "strength": 1}}},
        "51": {"class_type": "LoraLoader", "inputs": {"lora_name": "first.safetensors", "strength_model": 1, "strength_clip": 1, "model": ["4", 0], "clip": ["4", 1]}},
        "52": {"class_type": "ControlNetApplyAdvanced", "inputs": {"positive": ["53", 0], "negative": ["54", 0], "control_net": ["60", 0], "image": ["61", 0], "strength": 1.0}},
        "53": {"class_type": "ConditioningCombine", "inputs": {"conditioning_1": ["6", 0], "conditioning_2": ["55", 0]}},
        "54": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["6", 0]}},
        "55": {"class_type": "CLIPTextEncodeSDXL", "inputs": {"text_g": "at night", "text_l": "at night", "clip": ["4", 1]}},
        "60": {"class_type": "ControlNetLoader", "inputs": {"control_net_name": "depth.pth"}},
        "61": {"class_type": "LoadImage", "inputs": {"image": "poses/dancer.png [input]"}}
    }));
    let reading = check(
        &graph,
        "ComfyUI | prompt=a cat\nat night | seed=7 | steps=20 | cfg=8 | sampler=euler | scheduler=normal | size=64x32 | model=cats | denoise=1 | lora=first:1 | lora=a:0.5",
    );
    assert_eq!(reading.evidence.image_names, ["dancer.png"]);
    assert!(!reading.evidence.from_image, "it guided the picture, and was not its start");
}

#[test]
fn image_to_image_graphs_are_recognised() {
    let graph = with(json!({
        "5": {"class_type": "VAEEncode", "inputs": {"pixels": ["12", 0], "vae": ["4", 2]}},
        "12": {"class_type": "LoadImage", "inputs": {"image": "ComfyUI_00012_.png [output]"}}
    }));
    let reading = check(&graph, &SIMPLE.replace("64x32", "16x16"));
    assert!(reading.evidence.from_image);
    assert_eq!(reading.evidence.image_names, ["ComfyUI_00012_.png"]);
    let own_size: Vec<_> =
        reading.sources.iter().filter(|source| source.raw.is_none()).map(|source| source.field).collect();
    assert_eq!(own_size, ["width", "height"]);
}

#[test]
fn the_name_of_the_file_tells_which_node_saved_it() {
    let graph = with(json!({
        "60": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 5, "cfg": 2, "sampler_name": "lcm", "scheduler": "sgm", "denoise": 1, "model": ["4", 0], "positive": ["7", 0], "negative": ["6", 0], "latent_image": ["5", 0]}},
        "61": {"class_type": "VAEDecode", "inputs": {"samples": ["60", 0], "vae": ["4", 2]}},
        "62": {"class_type": "SaveImage", "inputs": {"filename_prefix": "other/draft", "images": ["61", 0]}}
    }));
    let dir = tempfile::tempdir().unwrap();
    let seed = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, png(&[text("prompt", graph.to_string())])).unwrap();
        read_file(&path).unwrap().recipe.seed.unwrap().0
    };
    assert_eq!(seed("ComfyUI_00001_.png"), u64::MAX);
    assert_eq!(seed("draft_00001_.png"), 1);
}

#[test]
fn a_saver_that_wrote_text_beside_the_graph() {
    let beside = |text_of: &str| read(&png(&[text("prompt", simple().to_string()), text("parameters", text_of)]));
    let agrees = beside(
        "a cat, for sure\nSteps: 20, Sampler: Euler a, CFG scale: 8.0, Seed: 18446744073709551615, Size: 64x32, Model hash: 1f",
    );
    assert_eq!(
        line(&agrees),
        "ComfyUI | prompt=a cat, for sure | negative=dog | seed=18446744073709551615 | steps=20 | cfg=8 | sampler=Euler a | scheduler=normal | size=64x32 | model=cats | hash=1f | denoise=1"
    );
    let defaults = beside("unknown\nSteps: 0, Sampler: , CFG scale: 0.0, Seed: 0, Size: 1x1");
    assert_eq!(line(&defaults), SIMPLE);
    assert!(defaults.notes.iter().any(|note| note.contains("the graph is used")), "{:?}", defaults.notes);
}

#[test]
fn a_node_that_asks_a_provider() {
    let ask = |class: &str, inputs: Value| {
        json!({"1": {"class_type": class, "inputs": inputs}, "2": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["1", 0]}},
            "3": {"class_type": "PrimitiveStringMultiline", "inputs": {"value": "a cat"}}, "4": {"class_type": "LoadImage", "inputs": {"image": "in.png"}}})
    };
    for (class, inputs, expected) in [
        (
            "OpenAIGPTImage1",
            json!({"prompt": "a cat", "seed": 7, "quality": "low"}),
            "ComfyUI | prompt=a cat | seed=7 | size=16x16",
        ),
        ("OpenAIGPTImage1", json!({"prompt": ["3", 0], "seed": 7}), "ComfyUI | prompt=a cat | seed=7 | size=16x16"),
        (
            "Wan2TextToVideoApi",
            json!({"model": "wan", "model.prompt": "a cat", "seed": 7}),
            "ComfyUI | prompt=a cat | seed=7 | size=16x16 | model=wan",
        ),
        (
            "BriaImageEditNode",
            json!({"edit_instruction": "a cat", "seed": 7, "image": ["4", 0]}),
            "ComfyUI | prompt=a cat | seed=7 | size=16x16",
        ),
        (
            "FluxProNode",
            json!({"prompt": "a cat", "width": 64, "height": 32, "seed": 7}),
            "ComfyUI | prompt=a cat | seed=7 | size=64x32",
        ),
        // Takes text, but makes no image from it.
        (
            "GroundingDinoSAMSegment",
            json!({"prompt": "a hat", "threshold": 0.3, "model": "x", "image": ["4", 0]}),
            "ComfyUI",
        ),
    ] {
        check(&ask(class, inputs), expected);
    }
    // Of several provider nodes, the one whose result was saved.
    let mut two = ask("OpenAIGPTImage1", json!({"prompt": "a cat", "seed": 7}));
    two["5"] = json!({"class_type": "OpenAIGPTImage1", "inputs": {"prompt": "a dog", "seed": 8}});
    two["6"] = json!({"class_type": "PreviewImage", "inputs": {"images": ["5", 0]}});
    check(&two, "ComfyUI | prompt=a cat | seed=7 | size=16x16");
}

#[test]
fn stages_patches_and_noise() {
    // Stable Cascade: the first stage is reached through the conditioning of the second.
    let sampler = |seed: u64, model: &str, positive: &str, latent: Value| json!({"class_type": "KSampler", "inputs": {"seed": seed, "steps": 20, "cfg": 4.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0, "model": [model, 0], "positive": [positive, 0], "negative": ["7", 0], "latent_image": latent}});
    let cascade = with(json!({
        "10": {"class_type": "UNETLoader", "inputs": {"unet_name": "stage_c.safetensors"}},
        "11": {"class_type": "UNETLoader", "inputs": {"unet_name": "stage_b.safetensors"}},
        "12": {"class_type": "StableCascade_EmptyLatentImage", "inputs": {"width": 64, "height": 32, "compression": 42, "batch_size": 1}},
        "13": sampler(7, "10", "6", json!(["12", 0])),
        "14": {"class_type": "StableCascade_StageB_Conditioning", "inputs": {"conditioning": ["6", 0], "stage_c": ["13", 0]}},
        "3": sampler(8, "11", "14", json!(["12", 1]))
    }));
    let reading = check(
        &cascade,
        "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=20 | cfg=4 | sampler=euler | scheduler=simple | size=64x32 | model=stage_c | denoise=1",
    );
    assert_eq!(reading.passes.len(), 2);
    // A motion module and an adapter patch the model; the checkpoint is further along.
    let mut patched = with(json!({
        "20": {"class_type": "ADE_AnimateDiffLoaderGen1", "inputs": {"model_name": "mm_v15.ckpt", "model": ["21", 0]}},
        "21": {"class_type": "IPAdapter", "inputs": {"model": ["4", 0], "ipadapter": ["22", 0], "weight": 1}},
        "22": {"class_type": "IPAdapterModelLoader", "inputs": {"ipadapter_file": "ip.bin"}}
    }));
    patched["3"]["inputs"]["model"] = json!(["20", 0]);
    check(&patched, SIMPLE);
    // Noise from another node: the seed of a sampler that adds none is not used.
    let mut noisy = with(
        json!({"30": {"class_type": "BNK_NoisyLatentImage", "inputs": {"noise_seed": 9, "width": 64, "height": 32, "batch_size": 1}}}),
    );
    noisy["3"] = json!({"class_type": "KSamplerAdvanced", "inputs": {"add_noise": "disable", "noise_seed": 1, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "scheduler": "normal", "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["30", 0]}});
    assert_eq!(of(&noisy).recipe.seed.unwrap().0, 9);
    // Two conditionings against one negative: the second is not the prompt.
    let dual = with(json!({
        "3": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["20", 0], "guider": ["21", 0], "sampler": ["22", 0], "sigmas": ["23", 0], "latent_image": ["5", 0]}},
        "20": {"class_type": "RandomNoise", "inputs": {"noise_seed": 7}},
        "21": {"class_type": "DualCFGGuider", "inputs": {"model": ["4", 0], "cond1": ["6", 0], "cond2": ["24", 0], "negative": ["7", 0], "cfg_conds": 5, "cfg_cond2_negative": 2}},
        "22": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "23": {"class_type": "BasicScheduler", "inputs": {"scheduler": "simple", "steps": 20, "denoise": 1.0, "model": ["4", 0]}},
        "24": {"class_type": "CLIPTextEncode", "inputs": {"text": "something else", "clip": ["4", 1]}}
    }));
    assert_eq!(of(&dual).recipe.prompt, "a cat");
}

#[test]
fn contexts_switches_and_options() {
    // A context passes on the values of another one.
    let mut context = with(json!({
        "40": {"class_type": "Seed (rgthree)", "inputs": {"seed": 7}},
        "41": {"class_type": "Context (rgthree)", "inputs": {"model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "seed": ["40", 0], "steps": 12}},
        "42": {"class_type": "Context (rgthree)", "inputs": {"base_ctx": ["41", 0], "clip": ["4", 1]}}
    }));
    for (input, slot) in [("model", 1), ("positive", 4), ("negative", 5), ("seed", 8), ("steps", 9)] {
        context["3"]["inputs"][input] = json!(["42", slot]);
    }
    check(
        &context,
        "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=12 | cfg=8 | sampler=euler | scheduler=normal | size=64x32 | model=cats | denoise=1",
    );
    // Switches whose position is in the file.
    for switch in [
        json!({"class_type": "ComfySwitchNode", "inputs": {"switch": false, "on_true": ["51", 0], "on_false": ["6", 0]}}),
        json!({"class_type": "ImpactConditionalBranch", "inputs": {"cond": ["52", 0], "tt_value": ["6", 0], "ff_value": ["51", 0]}}),
        json!({"class_type": "ImpactSwitch", "inputs": {"select": 2, "input1": ["51", 0], "input2": ["6", 0]}}),
        json!({"class_type": "CR Conditioning Input Switch", "inputs": {"Input": 1, "conditioning1": ["6", 0], "conditioning2": ["51", 0]}}),
        json!({"class_type": "Any Switch (rgthree)", "inputs": {"any_01": ["6", 0], "any_02": ["51", 0]}}),
        json!({"class_type": "Reroute", "inputs": {"": ["6", 0]}}),
        json!({"class_type": "Switch any [Crystools]", "inputs": {"boolean": ["53", 0], "on_true": ["6", 0], "on_false": ["51", 0]}}),
        json!({"class_type": "ImpactExecutionOrderController", "inputs": {"signal": ["6", 0], "value": ["51", 0]}}),
    ] {
        let mut graph = with(json!({
            "50": switch,
            "51": {"class_type": "CLIPTextEncode", "inputs": {"text": "not this", "clip": ["4", 1]}},
            "52": {"class_type": "PrimitiveBoolean", "inputs": {"value": true}},
            "53": {"class_type": "Primitive boolean [Crystools]", "inputs": {"boolean": true}}
        }));
        graph["3"]["inputs"]["positive"] = json!(["50", 0]);
        check(&graph, SIMPLE);
    }
    // Options of a join node are not part of the text.
    let text_of = |node: Value| {
        let mut graph =
            with(json!({"60": node, "61": {"class_type": "PrimitiveString", "inputs": {"value": "a cat"}}}));
        graph["6"]["inputs"]["text"] = json!(["60", 0]);
        of(&graph).recipe.prompt
    };
    let joined = json!({"class_type": "Text Concatenate", "inputs": {"delimiter": ", ", "clean_whitespace": "true", "text_a": ["61", 0], "text_b": "in snow"}});
    assert_eq!(text_of(joined), "a cat, in snow");
    let appended = json!({"class_type": "StringFunction|pysssss", "inputs": {"action": "append", "tidy_tags": "yes", "text_a": "a cat", "text_b": "in snow", "text_c": ""}});
    assert_eq!(text_of(appended), "a cat, in snow");
    let tidied = json!({"class_type": "StringFunction|pysssss", "inputs": {"action": "append", "tidy_tags": "yes", "text_a": "a cat ,", "text_b": "in  snow,", "text_c": "night"}});
    assert_eq!(text_of(tidied), "a cat, in snow, night");
    let undelimited =
        json!({"class_type": "JjkConcat", "inputs": {"delimmitor": "none", "text1": ["61", 0], "text2": "s in snow"}});
    assert_eq!(text_of(undelimited), "a cats in snow");
    // Some joins have a delimiter of their own, and a style may be none.
    let zho = json!({"class_type": "ConcatText_Zho", "inputs": {"text_1": ["61", 0], "text_2": "in snow"}});
    assert_eq!(text_of(zho), "a cat, in snow");
    let mut styled = with(json!({
        "60": {"class_type": "Text Concatenate", "inputs": {"delimiter": ", ", "text_a": "a cat", "text_b": ["64", 0]}},
        "64": {"class_type": "Load Styles CSV", "inputs": {"styles": "No Style"}}
    }));
    styled["6"]["inputs"]["text"] = json!(["60", 0]);
    assert_eq!(of(&styled).recipe.prompt, "a cat");
    // A style whose text is not in the file leaves the prompt unknown.
    styled["64"]["inputs"]["styles"] = json!("Noir");
    assert_eq!(of(&styled).recipe.prompt, "");
    // The input of a language model, in any script, without its instruction.
    let rewritten = json!({"class_type": "TextGenerate", "inputs": {"prompt": ["62", 0], "max_length": 512}});
    let mut graph = with(json!({
        "60": rewritten,
        "62": {"class_type": "StringConcatenate", "inputs": {"string_a": "You are an expert prompt engineer.", "string_b": ["63", 0], "delimiter": ""}},
        "63": {"class_type": "PrimitiveStringMultiline", "inputs": {"value": "雪の中の猫"}}
    }));
    graph["6"]["inputs"]["text"] = json!(["60", 0]);
    let reading = of(&graph);
    assert_eq!(reading.recipe.prompt, "雪の中の猫");
    assert!(reading.notes.iter().any(|note| note.contains("rewrote the prompt")), "{:?}", reading.notes);
    // An instruction may also begin with what is to be done.
    graph["62"]["inputs"]["string_a"] = json!("Transform the following simple image prompt into a description:");
    assert_eq!(of(&graph).recipe.prompt, "雪の中の猫");
    // A model that describes an image was asked a question.
    graph["60"]["inputs"]["image"] = json!(["8", 0]);
    assert_eq!(of(&graph).recipe.prompt, "");
    // One that rewrites prompts to fit an image was not.
    graph["60"] = json!({"class_type": "LTXVGemmaEnhancePrompt", "inputs": {"prompt": ["63", 0], "system_prompt": "You are a creative assistant.", "image": ["8", 0]}});
    assert_eq!(of(&graph).recipe.prompt, "雪の中の猫");
}

#[test]
fn a_choice_lists_its_candidates() {
    let mut graph = with(json!({
        "70": {"class_type": "CLIPTextEncode", "inputs": {"text": "a bird", "clip": ["4", 1]}},
        "72": {"class_type": "VAEDecode", "inputs": {"samples": ["71", 0], "vae": ["4", 2]}},
        "73": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["72", 0]}}
    }));
    let mut other = graph["3"].clone();
    other["inputs"]["seed"] = 5.into();
    other["inputs"]["positive"] = json!(["70", 0]);
    graph["71"] = other;
    let reading = of(&graph);
    assert_eq!(reading.recipe.prompt, "a bird");
    let seen: Vec<_> = reading.candidates.iter().map(|it| (it.field, it.value.as_str(), it.taken, it.reason)).collect();
    assert_eq!(
        seen,
        [
            ("prompt", "a bird", true, "the last node that saves"),
            ("prompt", "a cat", false, "saved by another node"),
            ("seed", "5", true, "the last node that saves"),
            ("seed", "18446744073709551615", false, "saved by another node"),
        ]
    );
    assert!(of(&simple()).candidates.is_empty());
}

#[test]
fn joins_models_and_regions_are_known_by_their_inputs() {
    let prompt = |graph: Value| of(&graph).recipe.prompt;
    // A join by its delimiter, whatever its name; inputs that are not connected are not in the file.
    assert_eq!(
        prompt(with(json!({
            "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["10", 0], "clip": ["4", 1]}},
            "10": {"class_type": "List of strings [Crystools]", "inputs": {"string_1": ["11", 0], "string_4": "a cat", "delimiter": ", "}},
            "11": {"class_type": "Primitive string multiline [Crystools]", "inputs": {"string": "a photo of"}}
        }))),
        "a photo of, a cat"
    );
    // A language model by its settings: what it was asked, with a note.
    let asked = of(&with(json!({
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": ["10", 0], "clip": ["4", 1]}},
        "10": {"class_type": "LF_CharacterImpersonator", "inputs": {"temperature": 0.7, "max_tokens": 500, "prompt": "a cat in Asgard", "seed": 5}}
    })));
    assert_eq!(asked.recipe.prompt, "a cat in Asgard");
    assert!(asked.notes.iter().any(|note| note.contains("rewrote the prompt")), "{:?}", asked.notes);
    // Regions that are cut out of one prompt.
    assert_eq!(
        prompt(with(json!({
            "3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "positive": ["12", 0], "negative": ["7", 0], "latent_image": ["5", 0], "model": ["4", 0]}},
            "10": {"class_type": "BNK_CutoffBasePrompt", "inputs": {"text": "a cat, red shoes", "clip": ["4", 1]}},
            "11": {"class_type": "BNK_CutoffSetRegions", "inputs": {"region_text": "red shoes", "target_text": "red", "clip_regions": ["10", 0]}},
            "12": {"class_type": "BNK_CutoffRegionsToConditioning", "inputs": {"mask_token": "", "clip_regions": ["11", 0]}}
        }))),
        "a cat, red shoes"
    );
}

#[test]
fn a_pass_that_undoes_an_image_is_not_the_recipe() {
    let reading = of(&with(json!({
        "3": {"class_type": "ClownsharKSampler", "inputs": {"noise_seed": 7, "sampler_mode": "resample", "steps": 30, "cfg": 1.0, "sampler_name": "res_2m", "model": ["4", 0], "positive": ["6", 0], "latent_image": ["10", 0]}},
        "10": {"class_type": "ClownsharKSampler", "inputs": {"noise_seed": 1, "sampler_mode": "unsample", "steps": 60, "cfg": 1.0, "sampler_name": "res_2m", "model": ["4", 0], "latent_image": ["5", 0]}}
    })));
    assert_eq!((reading.recipe.steps, reading.passes.len()), (Some(30), 2));
}

#[test]
fn samplers_and_settings_under_other_names() {
    // The positive side is called `conditioning`, and one of two encoders has no text.
    let graph = with(json!({
        "3": {"class_type": "XlabsSampler", "inputs": {"noise_seed": 7, "steps": 25, "true_gs": 3.5, "model": ["4", 0], "conditioning": ["6", 0], "neg_conditioning": ["7", 0], "latent_image": ["5", 0]}},
        "6": {"class_type": "CLIPTextEncodeFlux", "inputs": {"clip_l": "a cat", "t5xxl": "", "guidance": 4.0, "clip": ["4", 1]}},
    }));
    check(&graph, "ComfyUI | prompt=a cat | negative=dog | seed=7 | steps=25 | size=64x32 | model=cats");
    // A node of settings, linked into the sampler.
    let mut graph = with(json!({
        "10": {"class_type": "KSampler Config (rgthree)", "inputs": {"steps_total": 5, "refiner_step": 24, "cfg": 8.0}},
    }));
    graph["3"]["inputs"]["steps"] = json!(["10", 0]);
    check(&graph, &SIMPLE.replace("steps=20", "steps=5"));
    // Two longer names: neither is taken.
    graph["10"]["inputs"]["steps_refined"] = json!(9);
    check(&graph, &SIMPLE.replace(" | steps=20", ""));
}

#[test]
fn the_sound_of_a_video_is_not_its_picture() {
    let graph = with(json!({
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
        "9": {"class_type": "VHS_VideoCombine", "inputs": {"filename_prefix": "x", "images": ["8", 0], "audio": ["10", 0]}},
        "10": {"class_type": "MMAudioSampler", "inputs": {"seed": 1, "steps": 50, "cfg": 4.5, "prompt": "a siren", "negative_prompt": "", "images": ["8", 0]}}
    }));
    let reading = of(&graph);
    assert_eq!((reading.recipe.prompt.as_str(), reading.passes.len()), ("", 1), "{:?}", reading.passes);
}

#[test]
fn the_image_that_a_mesh_was_made_from_was_not_sampled() {
    let graph = with(json!({
        "9": {"class_type": "SaveGLB", "inputs": {"filename_prefix": "x", "mesh": ["10", 0]}},
        "10": {"class_type": "VoxelToMesh", "inputs": {"voxel": ["8", 0]}},
        "11": {"class_type": "LoadImage", "inputs": {"image": "x.png"}},
        "12": {"class_type": "PreviewImage", "inputs": {"images": ["11", 0]}}
    }));
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.seed, recipe.steps), ("", None, None));
}

#[test]
fn a_placeholder_is_not_replaced_by_the_seed_of_another_pass() {
    let mut graph = with(json!({}));
    let mut second = graph["3"].clone();
    second["inputs"]["latent_image"] = json!(["3", 0]);
    second["inputs"]["seed"] = 7.into();
    graph["13"] = second;
    graph["8"]["inputs"]["samples"] = json!(["13", 0]);
    for placeholder in [json!("{{seed}}"), json!(-1)] {
        graph["3"]["inputs"]["seed"] = placeholder.clone();
        let reading = of(&graph);
        assert_eq!((reading.recipe.seed, reading.passes.len()), (None, 2), "{placeholder}: {:?}", reading.passes);
    }
}

#[test]
fn a_saver_with_settings_is_not_a_sampler() {
    let mut graph = with(json!({
        "9": {"class_type": "SDPromptSaver", "inputs": {"images": ["8", 0], "seed": 99, "steps": 5, "cfg": 1.0, "sampler_name": "ddim", "positive": "another cat"}}
    }));
    graph["3"]["inputs"]["seed"] = json!(["10", 0]);
    graph["10"] = json!({"class_type": "Unknown", "inputs": {}});
    let reading = of(&graph);
    assert_eq!((reading.recipe.seed, reading.recipe.steps, reading.passes.len()), (None, Some(20), 1));
}

#[test]
fn sound_is_not_an_image() {
    let mut graph = simple();
    graph["9"] = json!({"class_type": "SaveAudioMP3", "inputs": {"audio": ["8", 0], "filename_prefix": "x"}});
    let recipe = of(&graph).recipe;
    assert_eq!((recipe.prompt.as_str(), recipe.seed, recipe.steps), ("", None, None));
}

/// Servers that convert graphs lose classes and names.
#[test]
fn graphs_that_servers_converted() {
    let mut graph = with(json!({"10": {"inputs": {"positive": ["6", 0], "negative": ["7", 0]}, "_meta": {}}}));
    graph["3"]["inputs"]["positive"] = json!(["10", 0]);
    graph["3"]["inputs"]["negative"] = json!(["10", 1]);
    check(&graph, SIMPLE);
    let graph = with(json!({
        "3": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["10", 0], "guider": ["11", 0], "sigmas": ["12", 0], "latent_image": ["5", 0]}},
        "6": {"class_type": "TextEncodeQwenImageEdit", "inputs": {"filename": "a cat in the snow", "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": ["13", 0], "clip": ["4", 1]}},
        "10": {"class_type": "RandomNoise", "inputs": {"value": 7}},
        "11": {"class_type": "CFGGuider", "inputs": {"value": 3.5, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0]}},
        "12": {"class_type": "BasicScheduler", "inputs": {"text": "simple", "model": ["4", 0]}},
        "13": {"class_type": "PrimitiveString", "inputs": {"filename": "dog"}}
    }));
    check(&graph, "ComfyUI | prompt=a cat in the snow | negative=dog | seed=7 | size=64x32 | model=cats");
}
