//! The output formats of every tool, in texts written for these tests. Each row is one format or one edge case.

use retake_recipe::metadata::{Generator, InitHash, Precision, Reading, read_bytes as read};
use serde_json::json;

use crate::build::{
    Order, cbor, comment, exif, exif_segment, gif, gzip, itxt, jpeg, manifest, png, png_with, stealth, text, unicode,
    webp, ztxt,
};

/// Summarises the reading of an image on one line; what was not found is left out.
pub(crate) fn line(reading: &Reading) -> String {
    let recipe = &reading.recipe;
    let mut parts = vec![reading.generator.map_or("none", Generator::name).to_owned()];
    let mut add = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name}={value}")));
    add("prompt", Some(recipe.prompt.clone()).filter(|prompt| !prompt.is_empty()));
    add("negative", recipe.negative_prompt.clone());
    add("seed", recipe.seed.map(|seed| seed.to_string()));
    add("steps", recipe.steps.map(|steps| steps.to_string()));
    add("cfg", recipe.guidance_scale.map(|scale| scale.to_string()));
    add("sampler", recipe.sampler.clone());
    add("scheduler", recipe.scheduler.clone());
    add("size", recipe.width.zip(recipe.height).map(|(width, height)| format!("{width}x{height}")));
    add("model", recipe.model.clone());
    add("hash", recipe.model_hash.clone());
    add("denoise", recipe.denoise.map(|denoise| denoise.to_string()));
    for lora in &recipe.loras {
        add("lora", Some(format!("{}:{}", lora.name, lora.weight)));
    }
    parts.join(" | ")
}

fn check(picture: &[u8], expected: &str) -> Reading {
    let reading = read(picture);
    assert_eq!(line(&reading), expected, "{:?} {:?}", reading.raw, reading.notes);
    for source in &reading.sources {
        assert!(!source.rule.is_empty() && source.raw.is_none_or(|raw| raw < reading.raw.len()), "{source:?}");
    }
    reading
}

const A1111: &str = "a cat, <lora:fluff:0.8>\nin snow\nNegative prompt: dog,\nblurry\nSteps: 20, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 6.5, Seed: 7, Size: 512x768, Model hash: abc123, Model: cats_v2, Lora hashes: \"fluff: 1f, b: 2e\", Version: v1.10.1";
const A1111_READ: &str = "A1111 | prompt=a cat, <lora:fluff:0.8>\nin snow | negative=dog,\nblurry | seed=7 | steps=20 | cfg=6.5 | sampler=DPM++ 2M | scheduler=Karras | size=512x768 | model=cats_v2 | hash=abc123 | lora=fluff:0.8";

#[test]
fn a1111_text_in_every_container() {
    for picture in [
        png(&[text("parameters", A1111)]),
        png(&[itxt("parameters", A1111, false)]),
        png(&[itxt("parameters", A1111, true)]),
        png_with(&[], &[ztxt("parameters", A1111)]),
        jpeg(&[exif_segment(&comment(A1111))]),
        jpeg(&[(0xfe, A1111.as_bytes().to_vec())]),
        jpeg(&[(0xfe, format!("parameters: {A1111}").into_bytes())]),
        webp(&[(b"EXIF", comment(A1111))]),
        webp(&[(b"EXIF", [b"Exif\0\0", comment(A1111).as_slice()].concat())]),
        stealth("stealth_pnginfo", A1111.as_bytes(), false),
        stealth("stealth_pngcomp", &gzip(A1111.as_bytes()), false),
        stealth("stealth_rgbinfo", A1111.as_bytes(), true),
        stealth("stealth_rgbcomp", &gzip(A1111.as_bytes()), true),
        gif(A1111),
    ] {
        let reading = check(&picture, A1111_READ);
        assert_eq!(reading.recipe.parameters["Lora hashes"], "fluff: 1f, b: 2e");
        assert_eq!(reading.recipe.provider.as_deref(), Some("A1111"));
    }
}

#[test]
fn dialects_of_a1111() {
    let of = |lines: &str| png(&[text("parameters", lines)]);
    let row = |lines: &str, expected: &str| check(&of(lines), expected);
    row(
        "a cat\n\nNegative prompt: dog\n\nSteps: 20, Size: 64x64, Seed: 7, CFG scale: 6, App: SD.Next, Version: f324b7c, Pipeline: X",
        "SD.Next | prompt=a cat | negative=dog | seed=7 | steps=20 | cfg=6 | size=64x64",
    );
    row(
        "a cat\nSteps: 20, Sampler: Euler, Seed: 7, Version: f2.0.1v1.10.1-previous-1-gabc",
        "Forge | prompt=a cat | seed=7 | steps=20 | sampler=Euler | size=16x16",
    );
    row(
        "a cat\nSteps: 20, Sampler: Euler, Seed: 7, Version: f1.0.0v2-v1.10.1RC-latest-1-gabc",
        "reForge | prompt=a cat | seed=7 | steps=20 | sampler=Euler | size=16x16",
    );
    row(
        "a cat\nSteps: 20, Sampler: Euler, Seed: 7, ADetailer Version: v1.0, Version: neo-2.28",
        "Forge Neo | prompt=a cat | seed=7 | steps=20 | sampler=Euler | size=16x16",
    );
    row(
        "a cat\nSteps: 20, Sampler: Euler, Seed: 7, Version: classic",
        "Forge Classic | prompt=a cat | seed=7 | steps=20 | sampler=Euler | size=16x16",
    );
    row("Steps: 20, Sampler: Euler, Seed: 7, Size: 8x8", "A1111 | seed=7 | steps=20 | sampler=Euler | size=8x8");
    row(
        "a cat Negative prompt: dog Steps: 20, Sampler: Euler, Seed: 7, Size: 8x8",
        "A1111 | prompt=a cat | negative=dog | seed=7 | steps=20 | sampler=Euler | size=8x8",
    );
    row(
        "{{masterpiece}}, cat\nSteps: 20, Sampler: Euler, Seed: 7, Size: 8x8",
        "A1111 | prompt={{masterpiece}}, cat | seed=7 | steps=20 | sampler=Euler | size=8x8",
    );
    // A prompt with colons is not a line of parameters.
    row(
        "style: oil, light: low, mood: calm\nSteps: 20, Sampler: Euler, Seed: 7, Size: 8x8",
        "A1111 | prompt=style: oil, light: low, mood: calm | seed=7 | steps=20 | sampler=Euler | size=8x8",
    );
    let civitai = row(
        "a cat\nSteps: 30, Sampler: Undefined, CFG scale: 3.5, Seed: -1, Size: 64x64, Created Date: 2026-07-01T19:12:31.6490025Z, Civitai resources: [{\"type\":\"checkpoint\",\"modelName\":\"FLUX\",\"x\":\"a, b]\"},{\"type\":\"lora\",\"weight\":0.5,\"modelName\":\"fluff\"}], Civitai metadata: {\"a\":{\"b\":1}}",
        "Civitai | prompt=a cat | steps=30 | cfg=3.5 | sampler=Undefined | size=64x64 | model=FLUX | lora=fluff:0.5",
    );
    assert_eq!(civitai.recipe.parameters["Seed"], -1, "a placeholder is not a seed");
    assert_eq!(civitai.recipe.parameters["Civitai metadata"], json!({"a": {"b": 1}}));
    assert_eq!(civitai.created_at.unwrap().at.to_string(), "2026-07-01T19:12:31.649Z");
    let behind = row(
        "a cat\nSteps: 20, Sampler: Euler, Seed: 7, Size: 8x8\nTemplate: a {cat|dog}\nand more\nNegative Template: x",
        "A1111 | prompt=a cat | seed=7 | steps=20 | sampler=Euler | size=8x8",
    );
    assert_eq!(behind.recipe.parameters["Template"], "a {cat|dog}\nand more");
    assert_eq!(behind.recipe.parameters["Negative Template"], "x");
}

#[test]
fn a1111_init_image_hashes_are_evidence() {
    let of =
        |line: &str| read(&png(&[text("parameters", format!("a cat\nSteps: 20, Sampler: Euler, Seed: 7, {line}"))]));
    let from_picture = of("Denoising strength: 0.5, Init image hash: 0123456789ABCDEF0123456789abcdef");
    assert_eq!(from_picture.evidence.init_hashes, [InitHash::PixelsMd5("0123456789abcdef0123456789abcdef".to_owned())]);
    assert!(from_picture.evidence.from_image && from_picture.evidence.hires.is_none());
    let upscaled =
        of("Denoising strength: 0.5, Hires upscale: 1.5, Hires steps: 9, Hires upscaler: Latent (nearest-exact)");
    let hires = upscaled.evidence.hires.as_ref().unwrap();
    assert_eq!((hires.scale, hires.upscaler.as_deref()), (Some(1.5), Some("Latent (nearest-exact)")));
    assert!(!upscaled.evidence.from_image);
    assert_eq!(
        upscaled.passes.iter().map(|pass| (pass.steps, pass.denoise)).collect::<Vec<_>>(),
        [(Some(20), None), (Some(9), Some(0.5))]
    );
    // Grouping: another seed alone is the same run, another parameter is not.
    let run = |line: &str| {
        read(&png(&[text("parameters", format!("a cat\nSteps: 20, Sampler: Euler, {line}"))])).run_key.unwrap()
    };
    assert_eq!(run("Seed: 7"), run("Seed: 8"));
    assert_eq!(run("Seed: 7, Batch size: 2, Batch pos: 0"), run("Seed: 8, Batch size: 2, Batch pos: 1"));
    assert_ne!(run("Seed: 7"), run("Seed: 7, Clip skip: 2"));
}

#[test]
fn exif_comments_in_every_encoding() {
    let all = [
        exif(Order::Little, &[], &[(0x9286, 7, unicode(A1111, Order::Big))]),
        exif(Order::Big, &[], &[(0x9286, 7, unicode(A1111, Order::Little))]),
        exif(Order::Little, &[], &[(0x9286, 7, unicode(A1111, Order::Little))]),
        exif(Order::Big, &[], &[(0x9286, 7, [b"UNICODE\0", A1111.as_bytes()].concat())]),
        exif(Order::Big, &[], &[(0x9286, 7, [b"ASCII\0\0\0", A1111.as_bytes()].concat())]),
        exif(Order::Big, &[(0x9286, 2, A1111.as_bytes().to_vec())], &[]),
        exif(Order::Little, &[(0x010e, 2, A1111.as_bytes().to_vec())], &[]),
    ];
    for exif in all {
        check(&jpeg(&[exif_segment(&exif)]), A1111_READ);
        check(&webp(&[(b"EXIF", exif)]), A1111_READ);
    }
}

#[test]
fn invokeai_in_its_three_eras() {
    let record = json!({"generation_mode": "img2img", "positive_prompt": "a cat", "negative_prompt": "dog", "width": 64, "height": 32, "seed": 7, "cfg_scale": 7.5, "steps": 20, "scheduler": "euler", "strength": 0.6, "init_image": "x.png",
        "model": {"name": "cats", "hash": "blake3:1", "key": "k"}, "loras": [{"model": {"name": "fluff"}, "weight": 0.5}]});
    let expected = "InvokeAI | prompt=a cat | negative=dog | seed=7 | steps=20 | cfg=7.5 | sampler=euler | size=64x32 | model=cats | hash=blake3:1 | denoise=0.6 | lora=fluff:0.5";
    let reading = check(&png(&[text("invokeai_metadata", record.to_string())]), expected);
    assert_eq!(reading.evidence.image_names, ["x.png"]);
    assert_eq!(reading.recipe.parameters["model"]["key"], "k");
    check(&jpeg(&[(0xfe, format!("invokeai_metadata: {record}").into_bytes())]), expected);
    let three = json!({"positive_prompt": "a cat", "seed": 7, "steps": 20, "model": {"model_name": "cats"}, "loras": [{"lora": {"model_name": "fluff"}, "weight": 0.5}]});
    check(
        &png(&[itxt("invokeai_metadata", &three.to_string(), false)]),
        "InvokeAI | prompt=a cat | seed=7 | steps=20 | size=16x16 | model=cats | lora=fluff:0.5",
    );

    let before = json!({"model": "stable diffusion", "model_weights": "sd-1.5", "model_hash": "cc6c", "app_id": "invoke-ai/InvokeAI", "image": {"prompt": [{"prompt": "a cat [dog, mouse]", "weight": 1}], "steps": 20, "cfg_scale": 7.5, "height": 32, "width": 64, "seed": 7, "type": "img2img", "sampler": "k_lms", "orig_hash": "AB".repeat(32)}});
    let expected = "InvokeAI | prompt=a cat | negative=dog, mouse | seed=7 | steps=20 | cfg=7.5 | sampler=k_lms | size=64x32 | model=sd-1.5 | hash=cc6c";
    let reading = check(&png_with(&[], &[ztxt("sd-metadata", &before.to_string())]), expected);
    assert_eq!(reading.evidence.init_hashes, [InitHash::FileSha256("ab".repeat(32))]);

    let dream = |line: &str| png(&[text("Dream", line)]);
    let expected = "InvokeAI | prompt=a \"red\" cat - sitting | negative=dog | seed=7 | steps=20 | cfg=7.5 | sampler=k_lms | size=64x32";
    check(&dream("\"a \"red\" cat - sitting [dog]\" -s20 -S7 -W64 -H32 -C7.5 -Ak_lms"), expected);
    let spaced = check(
        &dream("\"a \"red\" cat - sitting [dog]\" -s 20 -S 7 -W 64 -H 32 -C 7.5 -A k_lms -U 4 0.95 --hires"),
        expected,
    );
    assert_eq!(
        (&spaced.recipe.parameters["-U"], &spaced.recipe.parameters["--hires"]),
        (&json!("4 0.95"), &json!(true))
    );
    check(&dream("!mask curly.png -tm hair 0.5"), "InvokeAI");
}

#[test]
fn novelai_in_png_webp_and_pixels() {
    let record = json!({"prompt": "1girl, {cat}, -0.8::feet::", "steps": 23, "height": 32, "width": 64, "scale": 5.0, "seed": 7, "noise_schedule": "karras", "sampler": "k_euler", "uc": "blurry", "v4_prompt": {"caption": {"base_caption": "x", "char_captions": [{"char_caption": "a boy"}]}}});
    let expected = "NovelAI | prompt=1girl, {cat}, -0.8::feet:: | negative=blurry | seed=7 | steps=23 | cfg=5 | sampler=k_euler | scheduler=karras | size=64x32 | model=NovelAI Diffusion V4.5 C02D4F98 | hash=C02D4F98";
    let picture = png(&[
        text("Description", "1girl"),
        text("Software", "NovelAI"),
        text("Source", "NovelAI Diffusion V4.5 C02D4F98"),
        text("Generation time", "3.5"),
        text("Comment", record.to_string()),
    ]);
    let reading = check(&picture, expected);
    assert_eq!(reading.recipe.parameters["v4_prompt"]["caption"]["char_captions"][0]["char_caption"], "a boy");
    assert_eq!(reading.created_at, None, "a duration is not a time");
    let bundled = json!({"Comment": record.to_string(), "Description": "1girl", "Software": "NovelAI", "Source": "NovelAI Diffusion V4.5 C02D4F98"});
    let ascii = [b"ASCII\0\0\0", bundled.to_string().as_bytes()].concat();
    check(&webp(&[(b"EXIF", exif(Order::Big, &[], &[(0x9286, 7, ascii)]))]), expected);
    check(&stealth("stealth_pngcomp", &gzip(bundled.to_string().as_bytes()), false), expected);
    let old = png(&[
        text("Description", "a cat"),
        text("Software", "NovelAI"),
        text("Comment", r#"{"steps": 28, "seed": 7, "scale": 11.0, "uc": "bad"}"#),
    ]);
    check(&old, "NovelAI | prompt=a cat | negative=bad | seed=7 | steps=28 | cfg=11 | size=16x16");
}

#[test]
fn fooocus_ruined_and_its_a1111_scheme() {
    let record = json!({"base_model": "jugger", "base_model_hash": "aeb7", "prompt": "a cat", "negative_prompt": "", "full_prompt": ["still a cat", "a cat, deep"], "seed": "6952411511246973023", "steps": 30, "guidance_scale": 4, "sampler": "dpmpp", "scheduler": "karras", "resolution": "(768, 1280)", "loras": [["fluff", 0.1, "1f"]], "version": "Fooocus v2.4.3"});
    let expected = "Fooocus | prompt=a cat | seed=6952411511246973023 | steps=30 | cfg=4 | sampler=dpmpp | scheduler=karras | size=768x1280 | model=jugger | hash=aeb7 | lora=fluff:0.1";
    let reading = check(&png(&[text("parameters", record.to_string()), text("fooocus_scheme", "fooocus")]), expected);
    assert_eq!(reading.recipe.prompt_sent.as_deref(), Some("still a cat\na cat, deep"));
    let in_exif = exif(
        Order::Big,
        &[(0x0131, 2, b"Fooocus v2.4.3\0".to_vec())],
        &[(0x9286, 7, unicode(&record.to_string(), Order::Big)), (0x927c, 7, b"fooocus".to_vec())],
    );
    check(&jpeg(&[exif_segment(&in_exif)]), expected);
    let a1111 = "a cat\nNegative prompt: dog\nSteps: 30, Sampler: X, Seed: 7, Size: 8x8, Version: Fooocus v2.4.3";
    check(
        &png(&[text("parameters", a1111), text("fooocus_scheme", "a1111")]),
        "Fooocus | prompt=a cat | negative=dog | seed=7 | steps=30 | sampler=X | size=8x8",
    );
    let ruined = json!({"Prompt": "a cat", "Negative": "dog", "steps": 30, "cfg": 8, "width": 64, "height": 32, "seed": 7, "sampler_name": "dpmpp", "scheduler": "karras", "base_model_name": "sub/wai.safetensors", "base_model_hash": "BEFC", "loras": [["1f", "0.5 - fluff.safetensors"]], "denoise": null, "software": "RuinedFooocus"});
    check(
        &png(&[text("parameters", ruined.to_string())]),
        "RuinedFooocus | prompt=a cat | negative=dog | seed=7 | steps=30 | cfg=8 | sampler=dpmpp | scheduler=karras | size=64x32 | model=wai | hash=BEFC | lora=fluff:0.5",
    );
}

#[test]
fn swarmui_beside_its_graph_and_in_its_first_version() {
    let record = json!({"sui_image_params": {"prompt": "a cat", "negativeprompt": "dog", "model": "SDXL/cats.safetensors", "seed": 7, "steps": 20, "cfgscale": 7.0, "width": 64, "height": 32, "sampler": "euler", "scheduler": "karras", "loras": ["fluff"], "loraweights": ["0.5"], "refinerupscale": 1.5, "swarm_version": "0.9"},
        "sui_extra_data": {"date": "2026-01-03"}, "sui_models": [{"name": "cats.safetensors", "param": "model", "hash": "0x22"}]});
    let graph = crate::graphs::simple().to_string();
    let expected = "SwarmUI | prompt=a cat | negative=dog | seed=7 | steps=20 | cfg=7 | sampler=euler | scheduler=karras | size=64x32 | model=cats | hash=0x22 | lora=fluff:0.5";
    let reading = check(&png(&[text("prompt", graph), text("parameters", record.to_string())]), expected);
    let created = reading.created_at.unwrap();
    assert_eq!((created.at.to_string().as_str(), created.precision), ("2026-01-03T00:00:00.000Z", Precision::Day));
    assert_eq!(reading.evidence.hires.unwrap().scale, Some(1.5));
    let little = exif(Order::Little, &[], &[(0x9286, 7, unicode(&record.to_string(), Order::Little))]);
    check(&jpeg(&[exif_segment(&little)]), expected);
    check(
        &png(&[text("parameters", r#"{"prompt": "a cat", "seed": 7, "steps": 20, "swarm_version": "0.6"}"#)]),
        "SwarmUI | prompt=a cat | seed=7 | steps=20 | size=16x16",
    );
}

#[test]
fn draw_things_in_xmp_and_in_exif_that_lost_letters() {
    let record = json!({"c": "a cat, 猫", "uc": "dog é", "model": "sd_v1.5_f16.ckpt", "sampler": "DPM++ 2M Karras", "scale": 7.5, "seed": 7, "seed_mode": "Scale Alike", "size": "64x32", "steps": 20, "strength": 1.0, "lora": [{"model": "fluff_f16.ckpt", "weight": 0.5}]});
    let description = "a cat, 猫\n-dog é\nSteps: 20, Sampler: DPM++ 2M Karras, Guidance Scale: 7.5, Seed: 7, Size: 64x32, Model: sd_v1.5_f16.ckpt";
    let escape = |text: &str| text.replace('&', "&amp;").replace('"', "&quot;").replace('\n', "&#xA;");
    let xmp = format!(
        "<x:xmpmeta><rdf:RDF><rdf:Description xmp:CreatorTool=\"Draw Things\"><dc:description><rdf:Alt><rdf:li xml:lang=\"x-default\">{}</rdf:li></rdf:Alt></dc:description><exif:UserComment><rdf:Alt><rdf:li xml:lang=\"x-default\">{}</rdf:li></rdf:Alt></exif:UserComment></rdf:Description></rdf:RDF></x:xmpmeta>",
        escape(description),
        escape(&record.to_string())
    );
    let expected = "Draw Things | prompt=a cat, 猫 | negative=dog é | seed=7 | steps=20 | cfg=7.5 | sampler=DPM++ 2M Karras | size=64x32 | model=sd_v1.5_f16 | denoise=1 | lora=fluff_f16:0.5";
    check(&png(&[itxt("XML:com.adobe.xmp", &xmp, false)]), expected);
    let lost: String = record.to_string().chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    let in_exif = exif(
        Order::Big,
        &[(0x010e, 2, description.as_bytes().to_vec()), (0x0131, 2, b"Draw Things\0".to_vec())],
        &[(0x9286, 7, [b"ASCII\0\0\0", lost.as_bytes()].concat())],
    );
    check(&jpeg(&[exif_segment(&in_exif)]), expected);
    // Only the caption is left.
    let caption =
        [&[0x1c, 2, 120], u16::try_from(description.len()).unwrap().to_be_bytes().as_slice(), description.as_bytes()]
            .concat();
    let resource = [
        b"Photoshop 3.0\x008BIM\x04\x04\0\0",
        u32::try_from(caption.len()).unwrap().to_be_bytes().as_slice(),
        &caption,
    ]
    .concat();
    let software = exif(Order::Big, &[(0x0131, 2, b"Draw Things\0".to_vec())], &[]);
    check(
        &jpeg(&[exif_segment(&software), (0xed, resource)]),
        "Draw Things | prompt=a cat, 猫 | negative=dog é | seed=7 | steps=20 | cfg=7.5 | sampler=DPM++ 2M Karras | size=64x32 | model=sd_v1.5_f16",
    );
}

#[test]
fn tools_built_on_comfyui() {
    let graph = crate::graphs::simple().to_string();
    let matrix = json!({"PositivePrompt": "a cat, テスト", "NegativePrompt": "dog", "Steps": 20, "Sampler": "Euler", "CfgScale": 5, "Seed": 9, "Height": 32, "Width": 64, "ModelHash": "A5", "ModelName": "cats.safetensors"});
    // UTF-8 in tEXt, which should be Latin-1.
    let reading = check(
        &png(&[text("prompt", &graph), text("parameters-json", matrix.to_string()), text("smproj", "{}")]),
        "StabilityMatrix | prompt=a cat, テスト | negative=dog | seed=9 | steps=20 | cfg=5 | sampler=Euler | scheduler=normal | size=64x32 | model=cats | hash=A5 | denoise=1",
    );
    assert!(reading.workflow_fingerprint.is_some());
    let tensor = json!({"prompt": "a cat", "negativePrompt": "dog", "width": 64, "height": 32, "steps": 25, "cfgScale": 7, "seed": "-1", "ksamplerName": "euler", "schedule": "karras", "baseModel": {"modelFileName": "WAI", "hash": "A5"}, "models": [{"type": "LORA", "modelFileName": "fluff", "weight": 0.5}]});
    check(
        &png(&[text("generation_data", format!("{tensor}\0")), text("prompt", &graph)]),
        "TensorArt | prompt=a cat | negative=dog | seed=18446744073709551615 | steps=25 | cfg=7 | sampler=euler | scheduler=karras | size=64x32 | model=WAI | hash=A5 | denoise=1 | lora=fluff:0.5",
    );
    let mut civitai = crate::graphs::simple();
    civitai["extraMetadata"] = json!({"prompt": "a cat", "negativePrompt": "dog", "cfgScale": 3.5, "sampler": "Euler", "steps": 25, "seed": 7, "width": 64, "height": 32}).to_string().into();
    civitai["extra"] = json!({});
    check(
        &jpeg(&[exif_segment(&comment(&civitai.to_string()))]),
        "Civitai | prompt=a cat | negative=dog | seed=7 | steps=25 | cfg=3.5 | sampler=Euler | scheduler=normal | size=64x32 | model=cats | denoise=1",
    );
}

#[test]
fn easy_diffusion_midjourney_and_hugging_face() {
    let keys = [
        ("prompt", "a cat, oil"),
        ("original_prompt", "a cat"),
        ("negative_prompt", "dog"),
        ("seed", "7"),
        ("num_inference_steps", "25"),
        ("guidance_scale", "7.5"),
        ("width", "64"),
        ("height", "32"),
        ("sampler_name", "euler"),
        ("use_stable_diffusion_model", "/home/me/models/sd-v1-4"),
    ];
    let expected = "Easy Diffusion | prompt=a cat | negative=dog | seed=7 | steps=25 | cfg=7.5 | sampler=euler | size=64x32 | model=sd-v1-4";
    let reading = check(&png(&keys.map(|(key, value)| text(key, value))), expected);
    assert_eq!(reading.recipe.prompt_sent.as_deref(), Some("a cat, oil"));
    let record: serde_json::Map<String, serde_json::Value> =
        keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    check(&jpeg(&[exif_segment(&comment(&json!(record).to_string()))]), expected);
    let journey = png(&[
        text(
            "Description",
            "a cat in snow --v 4 --ar 3:2 --seed 7 --no dog Job ID: 01234567-89ab-cdef-0123-456789abcdef",
        ),
        text("Author", "ada"),
        text("Creation Time", "Tue, 06 Jun 2023 12:34:56 GMT"),
    ]);
    let reading = check(
        &journey,
        "Midjourney | prompt=a cat in snow --v 4 --ar 3:2 --seed 7 --no dog | negative=dog | seed=7 | size=16x16",
    );
    assert_eq!(reading.recipe.parameters["--ar"], "3:2");
    // In a JPEG, the description is IPTC's caption.
    let caption = "a cat --seed 7 Job ID: 01234567-89ab-cdef-0123-456789abcdef";
    let record =
        [&[0x1c, 2, 120], u16::try_from(caption.len()).unwrap().to_be_bytes().as_slice(), caption.as_bytes()].concat();
    let resource =
        [b"Photoshop 3.0\x008BIM\x04\x04\0\0".as_slice(), &u32::try_from(record.len()).unwrap().to_be_bytes(), &record]
            .concat();
    check(&jpeg(&[(0xed, resource)]), "Midjourney | prompt=a cat --seed 7 | seed=7 | size=16x16");
    // Another description before it is not Midjourney's.
    let described = exif(Order::Big, &[(0x010e, 2, b"a photo\0".to_vec())], &[]);
    let record = [&[0x1c, 2, 120, 0, 9], b"a caption".as_slice()].concat();
    let resource = [b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0e".as_slice(), &record].concat();
    assert_eq!(read(&jpeg(&[exif_segment(&described), (0xed, resource)])).generator, None);
    assert_eq!(reading.created_at.unwrap().at.to_string(), "2023-06-06T12:34:56.000Z");
    let space = json!({"prompt": "a cat", "negative_prompt": "dog", "resolution": "64 x 32", "guidance_scale": 5.5, "num_inference_steps": 24, "seed": 7, "sampler": "DPM++", "Model": "WAI", "Model hash": "BD"});
    check(
        &png(&[text("parameters", space.to_string())]),
        "Hugging Face Space | prompt=a cat | negative=dog | seed=7 | steps=24 | cfg=5.5 | sampler=DPM++ | size=64x32 | model=WAI | hash=BD",
    );
}

#[test]
fn content_credentials_name_the_maker_and_never_a_prompt() {
    let made = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";
    let store = |name: &str, action: serde_json::Value| {
        manifest(&[
            ("c2pa.actions.v2", cbor(&json!({"actions": [action]}))),
            ("c2pa.claim.v2", cbor(&json!({"claim_generator_info": {"name": name}}))),
            ("c2pa.signature", vec![0xf6]),
        ])
    };
    let openai = store(
        "OpenAI Media Service API",
        json!({"action": "c2pa.created", "when": "2026-07-11T00:00:00Z", "softwareAgent": {"name": "gpt-image", "version": "2.0"}, "digitalSourceType": made}),
    );
    let reading = check(&png(&[crate::build::chunk(b"caBX", &openai)]), "OpenAI | model=gpt-image 2.0");
    assert_eq!(reading.created_at.unwrap().precision, Precision::Day);
    assert!(reading.notes.iter().any(|note| note.contains("not verified")), "{:?}", reading.notes);
    check(&webp(&[(b"C2PA", openai)]), "OpenAI | model=gpt-image 2.0");
    let google = store(
        "Google C2PA Core Generator Library",
        json!({"action": "c2pa.created", "description": "Created by Google Generative AI.", "digitalSourceType": made}),
    );
    // Spread over two segments, each with the box header again.
    let (first, second) = google.split_at(60);
    let part = |number: u8, bytes: &[u8]| (0xeb, [b"JP\0\x01\0\0\0", [number].as_slice(), bytes].concat());
    check(&jpeg(&[part(1, first), part(2, &[&google[..8], second].concat())]), "Google");
    // Edited with a model, not made by one.
    let edited = store(
        "Adobe Photoshop",
        json!({"action": "c2pa.edited", "softwareAgent": "Adobe Firefly", "digitalSourceType": "http://cv.iptc.org/newscodes/digitalsourcetype/compositeWithTrainedAlgorithmicMedia"}),
    );
    check(&png(&[crate::build::chunk(b"caBX", &edited)]), "none");
}

#[test]
fn prompts_that_are_json_and_related_formats() {
    let row = |lines: &str, expected: &str| check(&png(&[text("parameters", lines)]), expected);
    row(
        "{\n \"scene\": \"a cat\"\n}\nNegative prompt: \nTemplate: {\n \"scene\": \"a cat\"\n}\nSteps: 48, Size: 64x32, Seed: 7, App: SD.Next, Model: Ideogram-4",
        "SD.Next | prompt={\n \"scene\": \"a cat\"\n} | seed=7 | steps=48 | size=64x32 | model=Ideogram-4",
    );
    row(
        "a cat\nSteps: 20, CFG scale: 6.000000, Seed: 42, Size: 64x32, Model: , Sampler: euler discrete, Unet: anima-preview.safetensors, Version: stable-diffusion.cpp, SDCPP: {\"a\": 1}",
        "stable-diffusion.cpp | prompt=a cat | seed=42 | steps=20 | cfg=6 | sampler=euler discrete | size=64x32 | model=anima-preview",
    );
    let plus = json!({"Prompt": "a cat", "Negative Prompt": "dog", "Full Prompt": ["a cat, oil"], "Steps": 30, "Seed": "7", "Base Model": "jugger", "Base Model Hash": "ab", "Guidance Scale": 4.5, "Resolution": "(64, 32)", "Sampler": "euler", "LoRA 1": "fluff : 0.5", "Metadata Scheme": "Fooocus"});
    check(
        &png(&[text("Comment", plus.to_string())]),
        "FooocusPlus | prompt=a cat | negative=dog | seed=7 | steps=30 | cfg=4.5 | sampler=euler | size=64x32 | model=jugger | hash=ab | lora=fluff:0.5",
    );
}

#[test]
fn unknown_texts_stay_raw() {
    let camera = exif(
        Order::Big,
        &[(0x010f, 2, b"Cam\0".to_vec()), (0x010e, 2, b"Holiday: beach, sun: yes\0".to_vec())],
        &[(0x9286, 7, b"ASCII\0\0\0hello".to_vec())],
    );
    let reading = check(&jpeg(&[exif_segment(&camera)]), "none");
    assert_eq!(
        reading.raw.iter().map(|raw| (raw.key.as_str(), raw.text.as_str())).collect::<Vec<_>>(),
        [("Make", "Cam"), ("ImageDescription", "Holiday: beach, sun: yes"), ("UserComment", "hello")]
    );
    assert!(reading.raw[0].place().starts_with("EXIF IFD0 at byte "), "{}", reading.raw[0].place());
    for parameters in ["{\"some\": \"tool\"}", "just words", "{\"a\": {\"prompt\": \"x\"}}", "[1, 2]", ""] {
        check(&png(&[text("parameters", parameters)]), "none");
    }
    check(b"no picture", "none");
    check(b"", "none");
}

#[test]
fn a_placeholder_seed_is_noted_and_not_taken() {
    let a1111 = "a cat\nSteps: 20, Sampler: Euler, Seed: -1, Size: 64x32";
    let space = json!({"prompt": "a cat", "num_inference_steps": 20, "seed": -1});
    for (record, key, kept) in [(a1111.to_owned(), "Seed", json!(-1)), (space.to_string(), "seed", json!("-1"))] {
        let reading = read(&png(&[text("parameters", record)]));
        assert_eq!((reading.recipe.seed, &reading.recipe.parameters[key]), (None, &kept));
        let source = reading.sources.iter().find(|source| source.field == "seed").unwrap();
        assert!(source.rule.ends_with("it stands for any seed"), "{source:?}");
    }
}

#[test]
fn uno() {
    let of = |make: &str, description: &str| {
        let ascii = |tag, text: &str| (tag, 2, [text.as_bytes(), b"\0"].concat());
        let tags = [ascii(0x010e, description), ascii(0x010f, make), ascii(0x0110, "flux-dev")];
        jpeg(&[exif_segment(&exif(Order::Big, &tags, &[]))])
    };
    check(
        &of("UNO", "prompt='a cat, seed=8, in snow', seed=7, width=64, height=32, guidance=4, num_steps=25"),
        "UNO | prompt=a cat, seed=8, in snow | seed=7 | steps=25 | cfg=4 | size=64x32 | model=flux-dev",
    );
    let quoted = read(&of("UNO", r#"prompt="it's a \"cat\"", seed=7, num_steps=25"#));
    assert_eq!(quoted.recipe.prompt, "it's a \"cat\"");
    for (make, description) in
        [("UNO", "a photograph"), ("UNO", "prompt='never ends, seed=7"), ("Camera", "prompt='a', seed=7")]
    {
        assert_eq!(line(&read(&of(make, description))), "none", "{description}");
    }
}
