//! Recipes as text, and texts embedded into images: what is written can be read again, and the pixels are unchanged.

use std::io::Cursor;

use proptest::prelude::*;
use retake_recipe::metadata::{a1111_text, embed, read_bytes as read};
use retake_recipe::{Lora, Recipe, Seed};
use serde_json::{Value, json};

use crate::build::{Order, exif, exif_segment, jpeg, png, stealth, text, unicode, webp};

fn back(recipe: &Recipe) -> Recipe {
    read(&png(&[crate::build::itxt("parameters", &a1111_text(recipe), false)])).recipe
}

#[test]
fn reads_like_a1111s_own() {
    let recipe = Recipe {
        prompt: "a cat".to_owned(),
        negative_prompt: Some("dog".to_owned()),
        model: Some("cats_v2".to_owned()),
        seed: Some(Seed(u64::MAX)),
        steps: Some(20),
        guidance_scale: Some(7.0),
        sampler: Some("Euler a".to_owned()),
        width: Some(64),
        height: Some(32),
        loras: vec![Lora::new("fluff", 0.8)],
        provider: Some("ComfyUI".to_owned()),
        parameters: serde_json::from_value(json!({"Clip skip": 2, "note": "a, b", "prompt": {"3": "x".repeat(3000)}}))
            .unwrap(),
        ..Recipe::default()
    };
    let expected = "a cat\n<lora:fluff:0.8>\nNegative prompt: dog\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 18446744073709551615, Size: 64x32, Model: cats_v2, Clip skip: 2, note: \"a, b\", Provider: ComfyUI, App: Retake";
    assert_eq!(a1111_text(&recipe), expected);
    let only_a_prompt = Recipe { prompt: "a cat, at night".to_owned(), ..Recipe::default() };
    let read_back = back(&only_a_prompt);
    assert_eq!((read_back.prompt.as_str(), read_back.provider), ("a cat, at night", None));
}

/// Generates words as in prompts and names, including everything that could be taken for syntax.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-zA-Z0-9猫é]{1,8}",
        Just("\"".to_owned()),
        Just("a:b".to_owned()),
        Just("(x:1.2)".to_owned()),
        Just(",".to_owned()),
        Just("Steps: 3".to_owned()),
        Just("\\".to_owned()),
        Just("{y}".to_owned()),
        Just("[z]".to_owned()),
        Just("<l>".to_owned()),
    ];
    prop::collection::vec(word, 1..6).prop_map(|words| words.join(" "))
}

fn parameters() -> impl Strategy<Value = Value> {
    prop_oneof![
        words().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        words().prop_map(|text| json!({"a": [1, text]}))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_recipe_survives_the_text(
        prompt in prop::collection::vec("[a-zA-Z0-9猫é(),:.{}\"-]{1,12}( [a-z]{1,6}){0,4}", 1..4),
        negative in prop::option::of("[a-z猫,:()]{1,20}"),
        names in prop::collection::vec(prop::option::of(words()), 4),
        seed in prop::option::of(any::<u64>()),
        steps in prop::option::of(any::<u32>()),
        scale in prop::option::of(-100.0..100.0f64),
        denoise in prop::option::of(0.0..1.0f64),
        size in prop::option::of((1..9000u32, 1..9000u32)),
        extra in prop::collection::btree_map("[A-Z][a-z]{2,8} [a-z0-9]{1,5}", parameters(), 0..4),
        provider in prop::option::of("[A-Z][a-zA-Z. ]{1,8}[a-z]"),
    ) {
        let [model, hash, sampler, scheduler] = <[Option<String>; 4]>::try_from(names).unwrap();
        let recipe = Recipe {
            prompt: prompt.join("\n"), negative_prompt: negative, seed: seed.map(Seed), steps, guidance_scale: scale, denoise,
            model: model.map(|model| model.trim().to_owned()), model_hash: hash, sampler, scheduler,
            width: size.map(|size| size.0), height: size.map(|size| size.1),
            parameters: extra.into_iter().collect(), provider, ..Recipe::default()
        };
        let mut read_back = back(&recipe);
        // A size is always known: the image's own if none was requested.
        if size.is_none() {
            (read_back.width, read_back.height) = (None, None);
        }
        prop_assert_eq!(read_back, recipe);
    }
}

fn pixels(picture: &[u8]) -> Vec<u8> {
    image::ImageReader::new(Cursor::new(picture)).with_guessed_format().unwrap().decode().unwrap().into_bytes()
}

#[test]
fn embedding_texts_keeps_the_pixels() {
    let words = "a cat, 猫\nSteps: 20, Seed: 7, Size: 64x32, App: Retake";
    let texts = [("parameters", words), ("retake", "session-2025-12-11-001#3")];
    let upright = (0x0112, 3, vec![0, 6]);
    let camera = exif(
        Order::Little,
        &[(0x010f, 2, b"Camera\0".to_vec())],
        &[(0x9286, 7, unicode("old words", Order::Little)), (0x9003, 2, b"2026:01:01 00:00:00\0".to_vec())],
    );
    for picture in [
        png(&[]),
        png(&[text("parameters", "old words"), text("Software", "x")]),
        stealth("stealth_none___", b"", false),
        jpeg(&[]),
        jpeg(&[exif_segment(&camera)]),
        jpeg(&[exif_segment(&exif(Order::Big, &[upright], &[]))]),
        webp(&[]),
        webp(&[(b"EXIF", camera.clone())]),
    ] {
        let embedded = embed(&picture, &texts).unwrap();
        assert_eq!(pixels(&embedded), pixels(&picture));
        let (reading, before) = (read(&embedded), read(&picture));
        assert_eq!(
            (reading.recipe.prompt.as_str(), reading.recipe.seed),
            ("a cat, 猫", Some(Seed(7))),
            "{:?}",
            reading.raw
        );
        assert_eq!(reading.notes, Vec::<String>::new());
        assert!(reading.raw.iter().any(|raw| raw.text == texts[1].1), "{:?}", reading.raw);
        assert!(!reading.raw.iter().any(|raw| raw.text == "old words"), "{:?}", reading.raw);
        for raw in before.raw.iter().filter(|raw| raw.text != "old words") {
            assert!(reading.raw.iter().any(|kept| (&kept.key, &kept.text) == (&raw.key, &raw.text)), "{raw:?} is gone");
        }
        // Embedding again replaces the text instead of adding another.
        let twice = embed(&embedded, &texts).unwrap();
        assert_eq!(read(&twice).raw.len(), reading.raw.len());
    }
}

#[test]
fn failures_to_embed_are_explained() {
    let problem = |picture: &[u8], text: &str| embed(picture, &[("parameters", text)]).unwrap_err().to_string();
    assert_eq!(problem(b"GIF89a", "x"), "this file format takes no text");
    assert_eq!(problem(b"words", "x"), "this file format takes no text");
    assert_eq!(problem(&jpeg(&[]), &"x".repeat(40_000)), "the text is too long for this file format");
    assert_eq!(problem(&png(&[])[..20], "x"), "the file is damaged");
}
