//! Sidecar files: used if the image itself contains nothing, and only if they belong to the right tool.

use std::fs;
use std::path::PathBuf;

use retake_recipe::metadata::{Generator, Reading, Slot, read as read_file};
use serde_json::json;

use crate::build::{png, text};

/// An image with these sidecar files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(picture: &[u8], beside: &[(&str, &str)]) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("2024-05-01_14-05-59_1234.png"), picture).unwrap();
        beside.iter().for_each(|(name, content)| fs::write(dir.path().join(name), content).unwrap());
        Folder(dir)
    }

    fn picture(&self) -> PathBuf {
        self.0.path().join("2024-05-01_14-05-59_1234.png")
    }

    fn read(&self) -> Reading {
        read_file(self.picture()).unwrap()
    }
}

#[test]
fn easy_diffusion_writes_beside_the_image() {
    let labels = "Prompt: a cat\nin oil, Width: none\nNegative Prompt: dog\nSeed: 7\nStable Diffusion model: /home/me/models/sd-v1-4\nSampler: euler\nWidth: 64\nHeight: 32\nSteps: 25\nGuidance Scale: 7.5\nLoRA model: /loras/fluff\nLoRA Strength: 0.5\nUse Upscaling: None\n";
    let reading = Folder::new(&png(&[]), &[("2024-05-01_14-05-59_1234.txt", labels)]).read();
    let recipe = &reading.recipe;
    assert_eq!(reading.generator, Some(Generator::EasyDiffusion));
    assert_eq!(
        (recipe.prompt.as_str(), recipe.negative_prompt.as_deref()),
        ("a cat\nin oil, Width: none", Some("dog"))
    );
    assert_eq!((recipe.seed.unwrap().0, recipe.steps, recipe.guidance_scale), (7, Some(25), Some(7.5)));
    assert_eq!((recipe.width, recipe.height, recipe.model.as_deref()), (Some(64), Some(32), Some("sd-v1-4")));
    assert_eq!((recipe.loras[0].name.as_str(), recipe.loras[0].weight), ("fluff", 0.5));
    assert_eq!(recipe.parameters["use_upscale"], "None");
    assert_eq!((reading.raw[0].slot, reading.raw[0].text.as_str()), (Slot::Beside("txt"), labels));
    assert_eq!(reading.raw[0].place(), "txt beside the image at byte 0");

    let record =
        json!({"prompt": "a cat", "seed": 7, "num_inference_steps": 25, "use_stable_diffusion_model": "sd-v1-4"});
    let reading = Folder::new(&png(&[]), &[("2024-05-01_14-05-59_1234.json", &record.to_string())]).read();
    assert_eq!(reading.generator, Some(Generator::EasyDiffusion));
    assert_eq!((reading.recipe.prompt.as_str(), reading.recipe.steps), ("a cat", Some(25)));
}

/// Returns an item of Fooocus's log: percent-encoded JSON in a button.
fn item(name: &str, record: &serde_json::Value) -> String {
    let quoted: String = record.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!(
        "<div id=\"{}\" class=\"image-container\"><hr><table><tr><td>{name}</td></tr></table></br><button onclick=\"to_clipboard('{quoted}')\">Copy to Clipboard</button></div>\n\n",
        name.replace('.', "_")
    )
}

#[test]
fn fooocus_writes_a_log_beside_its_images() {
    let record = json!({"prompt": "a cat, 猫's", "negative_prompt": "dog", "prompt_expansion": "a cat, deep", "styles": "['Fooocus V2']", "steps": 30, "resolution": "(768, 1280)", "guidance_scale": 4, "base_model": "jugger.safetensors", "sampler": "dpmpp", "scheduler": "karras", "seed": "6952411511246973023", "lora_combined_1": "fluff.safetensors : 0.1", "version": "Fooocus v2.5.5"});
    let other = json!({"prompt": "another", "seed": "1"});
    let log = format!(
        "<html><title>Fooocus Log</title><!--fooocus-log-split-->\n{}{}<!--fooocus-log-split--></html>",
        item("2024-05-01_14-06-30_9999.png", &other),
        item("2024-05-01_14-05-59_1234.png", &record)
    );
    let folder = Folder::new(&png(&[]), &[("log.html", &log)]);
    let reading = folder.read();
    let recipe = &reading.recipe;
    assert_eq!(reading.generator, Some(Generator::Fooocus));
    assert_eq!((recipe.prompt.as_str(), recipe.negative_prompt.as_deref()), ("a cat, 猫's", Some("dog")));
    assert_eq!((recipe.seed.unwrap().0, recipe.steps), (6_952_411_511_246_973_023, Some(30)));
    assert_eq!((recipe.width, recipe.height, recipe.model.as_deref()), (Some(768), Some(1280), Some("jugger")));
    assert_eq!((recipe.loras[0].name.as_str(), recipe.loras[0].weight), ("fluff", 0.1));
    assert_eq!(recipe.parameters["styles"], "['Fooocus V2']");
    // The location is the start of the settings in the log.
    let raw = &reading.raw[0];
    assert_eq!((raw.slot, raw.text.as_str()), (Slot::Beside("log.html"), record.to_string().as_str()));
    assert!(log[usize::try_from(raw.offset).unwrap()..].starts_with("%7B%22"));
    assert_eq!(reading.generator, Some(Generator::Fooocus));

    // Older logs use labels as names.
    let older = json!({"Prompt": "a cat", "Negative Prompt": "dog", "Resolution": "(64, 32)", "Base Model": "jugger.safetensors", "Seed": 7, "Guidance Scale": 4});
    let reading = Folder::new(&png(&[]), &[("log.html", &item("2024-05-01_14-05-59_1234.png", &older))]).read();
    assert_eq!((reading.recipe.prompt.as_str(), reading.recipe.model.as_deref()), ("a cat", Some("jugger")));
    assert_eq!((reading.recipe.seed.unwrap().0, reading.recipe.width), (7, Some(64)));
}

#[test]
fn unrelated_files_beside_the_image_are_ignored() {
    let name = "2024-05-01_14-05-59_1234";
    let (txt, json) = (format!("{name}.txt"), format!("{name}.json"));
    let own = "Prompt: a dog\nSeed: 9\nStable Diffusion model: m\n";
    for (file, content) in [
        (txt.as_str(), "a photo of a cat, Seed: 7"),
        (&txt, "Prompt: a cat\nSeed: 7\n"),
        (&txt, ""),
        (&json, "{\"prompt\": \"a cat\", \"seed\": 7}"),
        (&json, "[[["),
        ("another.txt", own),
        ("log.html", &item("other.png", &json!({"prompt": "a cat", "seed": 7}))),
        (
            "log.html",
            &format!("<div id=\"{name}_png\" class=\"image-container\"></div>{}", item("o.png", &json!({"a": 1}))),
        ),
        ("log.html", &format!("<div id=\"{name}_png\" class=\"image-container\">to_clipboard('%7B%2")),
        ("log.html", &format!("<div id=\"{name}_png\" class=\"image-container\">to_clipboard('%ZZ')")),
    ] {
        let reading = Folder::new(&png(&[]), &[(file, content)]).read();
        assert_eq!((reading.generator, reading.raw.len()), (None, 0), "{file}: {content}");
    }
    // The contents of the image take precedence over sidecar files.
    let a1111 = "a cat\nSteps: 20, Sampler: Euler, Seed: 7, Size: 64x32";
    let reading = Folder::new(&png(&[text("parameters", a1111)]), &[(&txt, own)]).read();
    assert_eq!((reading.recipe.prompt.as_str(), reading.raw.len()), ("a cat", 1));
    // A file that is not an image has no sidecar files.
    assert_eq!(Folder::new(b"no picture", &[(&txt, own)]).read().raw.len(), 0);
}
