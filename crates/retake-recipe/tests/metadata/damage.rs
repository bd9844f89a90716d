//! Damaged and malicious images: whatever the bytes are, a small reading is returned quickly, and its contents can be
//! recorded.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake_recipe::metadata::{Generator, Reading, embed, read_bytes as read};
use serde_json::json;

use crate::build::{
    Order, chunk, comment, exif, exif_segment, gzip, itxt, jpeg, manifest, png, png_with, stealth, text, unicode, webp,
    ztxt,
};

/// The number of damaged copies of each image.
const COPIES: usize = 150;

/// Returns an image of every kind that a reader knows.
fn pictures() -> Vec<Vec<u8>> {
    let a1111 = "a cat\nNegative prompt: dog\nSteps: 20, Sampler: Euler, Seed: 7, Size: 64x32, Hashes: {\"a\": 1}, Note: \"x, y\"\nTemplate: z";
    let graph = crate::graphs::simple().to_string();
    let workflow = json!({"nodes": [{"id": 3, "type": "KSampler", "mode": 0, "inputs": [{"name": "model", "link": 1}], "widgets_values": [7, "fixed", 20, 8, "euler", "normal", 1]}, {"id": 1, "type": "s", "inputs": [], "outputs": []}], "links": [[1, 1, 0, 3, 0, "MODEL"]], "definitions": {"subgraphs": [{"id": "s", "nodes": [{"id": 2, "type": "s", "inputs": []}], "links": []}]}}).to_string();
    let novelai = json!({"prompt": "a", "uc": "b", "steps": 2, "seed": 7, "scale": 5, "v4_prompt": {"caption": {"base_caption": "c"}}});
    let mut civitai = crate::graphs::simple();
    civitai["extraMetadata"] =
        json!({"prompt": "a", "seed": 7, "resources": [{"type": "lora", "modelName": "x"}]}).to_string().into();
    let claim = crate::build::cbor(
        &json!({"claim_generator_info": {"name": "OpenAI"}, "actions": [{"softwareAgent": "x", "digitalSourceType": "/trainedAlgorithmicMedia"}]}),
    );
    let xmp = "<x xmp:CreatorTool=\"Draw Things\"><exif:UserComment><rdf:li>{\"c\": \"a &amp; b\", \"seed\": 7}</rdf:li></exif:UserComment></x>";
    vec![
        png(&[text("parameters", a1111)]),
        png_with(&[itxt("parameters", a1111, true)], &[ztxt("extras", "x")]),
        png(&[text("prompt", &graph), text("workflow", &workflow)]),
        png(&[text("workflow", &workflow)]),
        png(&[text("invokeai_metadata", "{\"positive_prompt\": \"a\", \"seed\": 7, \"model\": {\"name\": \"m\"}}")]),
        png(&[
            text("sd-metadata", "{\"image\": {\"prompt\": [{\"prompt\": \"a [b]\"}], \"seed\": 7}}"),
            text("Dream", "\"a [b]\" -s20 -S 7 -W64 -H32 -I x.png"),
        ]),
        png(&[text("Software", "NovelAI"), text("Comment", novelai.to_string())]),
        png(&[text(
            "parameters",
            "{\"base_model\": \"m\", \"version\": \"Fooocus\", \"resolution\": \"(1, 2)\", \"loras\": [[\"a\", 1]]}",
        )]),
        png(&[text(
            "parameters",
            "{\"sui_image_params\": {\"prompt\": \"a\", \"loras\": \"x,y\", \"loraweights\": [1]}}",
        )]),
        png(&[text(
            "parameters",
            "{\"software\": \"RuinedFooocus\", \"Prompt\": \"a\", \"loras\": [[1, \"0.5 - x\"]]}",
        )]),
        png(&[text("parameters-json", "{\"PositivePrompt\": \"a\", \"Seed\": 7}"), text("prompt", &graph)]),
        png(&[
            text(
                "generation_data",
                "{\"prompt\": \"a\", \"seed\": \"-1\", \"models\": [{\"type\": \"LORA\", \"label\": \"x\"}]}\0",
            ),
            text("prompt", &graph),
        ]),
        jpeg(&[exif_segment(&comment(&civitai.to_string()))]),
        png(&[text(
            "parameters",
            "{\"prompt\": \"a\", \"num_inference_steps\": 24, \"resolution\": \"64 x 32\", \"seed\": 7}",
        )]),
        jpeg(&[exif_segment(&exif(
            Order::Big,
            &[(0x010e, 2, b"a\nSteps: 20, Sampler: x, Seed: 7".to_vec()), (0x0131, 2, b"Draw Things\0".to_vec())],
            &[(0x9286, 7, b"ASCII\0\0\0{\"c\": \"a?\", \"seed\": 7, \"lora\": [{\"model\": \"x\"}]}".to_vec())],
        ))]),
        png(&[itxt("XML:com.adobe.xmp", xmp, false)]),
        png(&[text("use_stable_diffusion_model", "m"), text("prompt", "a"), text("seed", "7")]),
        png(&[text("Description", "a --v 4 Job ID: 01234567-89ab-cdef-0123-456789abcdef")]),
        png(&[chunk(b"caBX", &manifest(&[("c2pa.claim", claim.clone()), ("c2pa.actions", claim)]))]),
        jpeg(&[
            exif_segment(&comment(a1111)),
            (0xed, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x08\x1c\x02\x78\0\x03abc".to_vec()),
            (0xfe, b"invokeai_graph: {\"nodes\": {}}".to_vec()),
        ]),
        webp(&[(
            b"EXIF",
            exif(
                Order::Little,
                &[(0x010f, 2, format!("prompt:{graph}").into_bytes())],
                &[(0x9286, 7, unicode("猫", Order::Big))],
            ),
        )]),
        stealth("stealth_pngcomp", &gzip(a1111.as_bytes()), false),
        crate::formats::still(b"avif", &comment(a1111), xmp),
        crate::formats::still(b"heic", &comment(a1111), xmp),
        crate::formats::jpeg_xl(&crate::build::boxed(b"Exif", &[&[0; 4], comment(a1111).as_slice()].concat())),
        crate::formats::movie(b"isom", &[("prompt", &graph), ("comment", a1111)], Some(b"\x89PNG")),
        crate::formats::movie(b"qt  ", &[("parameters", a1111)], None),
        crate::formats::matroska("webm", &[("PROMPT", &graph)], Some(b"\x89PNG"), false),
        crate::formats::matroska("matroska", &[("PARAMETERS", a1111)], None, true),
        exif(
            Order::Little,
            &[(0x010e, 2, a1111.as_bytes().to_vec()), (700, 1, xmp.as_bytes().to_vec())],
            &[(0x9286, 7, unicode("猫", Order::Big))],
        ),
        [b"BM".as_slice(), &[0; 12], &40u32.to_le_bytes(), &[0; 40]].concat(),
        b"GIF89a\x10\0\x10\0\x80\0\0\0\0\0\xff\xff\xff!\xfe\x05hello\0,\0\0\0\0\x10\0\x10\0\0\x02\x02\x44\x01\0;"
            .to_vec(),
    ]
}

/// Checks that a reading could be recorded.
fn recordable(reading: &Reading) {
    reading.recipe.check().unwrap();
}

#[test]
fn every_reader_takes_part() {
    let known: BTreeSet<_> =
        pictures().iter().filter_map(|picture| read(picture).generator).map(Generator::name).collect();
    let readers = [
        "A1111",
        "Civitai",
        "ComfyUI",
        "Draw Things",
        "Easy Diffusion",
        "Fooocus",
        "Hugging Face Space",
        "InvokeAI",
        "Midjourney",
        "NovelAI",
        "OpenAI",
        "RuinedFooocus",
        "StabilityMatrix",
        "SwarmUI",
        "TensorArt",
    ];
    assert_eq!(known, readers.into());
}

/// Returns the total memory this process has allocated so far, in bytes.
#[cfg(target_os = "linux")]
fn asked_for() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")?.trim().strip_suffix(" kB")).unwrap();
    peak.trim().parse::<u64>().unwrap() * 1024
}

/// Not available on other systems; the same code runs there.
#[cfg(not(target_os = "linux"))]
fn asked_for() -> u64 {
    0
}

/// Runs something that must not allocate much memory, as it would if it trusted a claimed length.
fn in_little_memory(work: impl FnOnce()) {
    const TOO_MUCH: u64 = 1 << 30;
    let before = asked_for();
    work();
    let asked = asked_for() - before;
    assert!(asked < TOO_MUCH, "{asked} bytes were asked for");
}

#[test]
fn false_lengths_are_rejected() {
    in_little_memory(|| {
        for whole in pictures() {
            // Every position where a length could be, with the maximum value, in either byte order.
            for at in 0..whole.len().min(600) {
                for claim in [0x7fff_ffff_u32.to_be_bytes(), 0x7fff_ffff_u32.to_le_bytes()] {
                    let mut lying = whole.clone();
                    lying.iter_mut().skip(at).zip(claim).for_each(|(byte, claimed)| *byte = claimed);
                    recordable(&read(&lying));
                }
            }
        }
    });
}

#[test]
fn a_damaged_file_affects_only_itself() {
    let mut random = StdRng::seed_from_u64(0x7e7a_4e01);
    for (number, whole) in pictures().iter().enumerate() {
        recordable(&read(whole));
        for copy in 0..COPIES {
            let mut damaged = whole.clone();
            for _ in 0..random.random_range(1..=4) {
                let at = random.random_range(0..damaged.len());
                match random.random_range(0..6) {
                    0 => damaged[at] ^= 1 << random.random_range(0..8),
                    1 => damaged[at] = random.random(),
                    2 => damaged.truncate(at.max(1)),
                    3 => drop(damaged.drain(at..(at + random.random_range(1..20)).min(damaged.len()))),
                    4 => damaged.extend_from_within(at..),
                    // Lengths and offsets with the maximum value.
                    _ => damaged.iter_mut().skip(at).take(4).for_each(|byte| *byte = 0xff),
                }
                if damaged.is_empty() {
                    damaged.push(0);
                }
            }
            let started = Instant::now();
            recordable(&read(&damaged));
            let _ = embed(&damaged, &[("parameters", "x"), ("id", "y")]);
            // Not a measurement: a hang lasts longer than any slow machine takes.
            assert!(started.elapsed() < Duration::from_secs(20), "picture {number}, copy {copy} took too long");
        }
    }
}

/// Damage inside of the texts: the container stays intact, so that the readers see it.
#[test]
fn damaged_texts_cost_only_themselves() {
    let mut random = StdRng::seed_from_u64(0x7e7a_4e02);
    for whole in pictures() {
        let raw = read(&whole).raw;
        for _ in 0..COPIES {
            let chunks: Vec<Vec<u8>> = raw
                .iter()
                .map(|raw| {
                    let mut bytes = raw.text.clone().into_bytes();
                    for _ in 0..random.random_range(0..=3) {
                        if bytes.is_empty() {
                            break;
                        }
                        let at = random.random_range(0..bytes.len());
                        match random.random_range(0..4) {
                            0 => bytes[at] = *b"\"{}[]:,\\0-"[random.random_range(0..10)..].first().unwrap(),
                            1 => drop(bytes.drain(at..(at + random.random_range(1..9)).min(bytes.len()))),
                            2 => bytes.truncate(at),
                            _ => bytes.extend_from_within(at..(at + 30).min(raw.text.len()).max(at).min(bytes.len())),
                        }
                    }
                    text(&raw.key.replace("UserComment", "parameters"), bytes)
                })
                .collect();
            recordable(&read(&png(&chunks)));
        }
    }
}

#[test]
fn decompression_bombs_are_skipped() {
    // 100 MB of zeros in 100 kB, compressed twice.
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for _ in 0..100 {
        packed.write_all(&[b'a'; 1_000_000]).unwrap();
    }
    let packed = packed.finish().unwrap();
    let ztxt = chunk(b"zTXt", &[b"parameters\0\0", packed.as_slice()].concat());
    let itxt = chunk(b"iTXt", &[b"parameters\0\x01\0\0\0", packed.as_slice()].concat());
    for bomb in [ztxt, itxt] {
        let reading = read(&png(&[bomb, text("kept", "here")]));
        assert_eq!(reading.raw.iter().map(|raw| raw.text.as_str()).collect::<Vec<_>>(), ["here"]);
        assert!(reading.notes.iter().any(|note| note.contains("cannot be inflated")), "{:?}", reading.notes);
    }
    let hidden = read(&stealth("stealth_pngcomp", &gzip(&vec![b'a'; 100_000]), false));
    assert_eq!(hidden.raw.len(), 1);
    // The chunk claims two gigabytes.
    let lying = png(&[[&0x7fff_ffffu32.to_be_bytes(), b"tEXt".as_slice(), b"parameters\0a cat"].concat()]);
    in_little_memory(|| {
        let reading = read(&lying);
        assert_eq!(reading.raw.len(), 0);
        assert!(!reading.notes.is_empty());
    });
    // Many small ones.
    let many = read(&png(&vec![text("k", "v"); 5000]));
    assert_eq!(many.raw.len(), 1000);
    assert!(many.notes.len() <= 20);
    // Text that is deeply nested, long and malformed.
    for crooked in [
        "[".repeat(100_000),
        "{\"a\":".repeat(100_000),
        "a: b, ".repeat(100_000),
        "<lora:".repeat(50_000),
        "[".repeat(50_000) + &"]".repeat(50_000),
        "&".repeat(100_000),
        "\n".repeat(200_000),
    ] {
        for key in
            ["parameters", "prompt", "workflow", "Comment", "Dream", "Description", "sd-metadata", "XML:com.adobe.xmp"]
        {
            recordable(&read(&png(&[text(key, &crooked)])));
        }
    }
}

#[test]
fn cyclic_graphs_end() {
    let mut graph = crate::graphs::simple();
    graph["4"]["inputs"]["model"] = json!(["3", 0]);
    graph["4"]["inputs"]["ckpt_name"] = json!(["4", 0]);
    graph["5"]["inputs"] = json!({"samples": ["3", 0], "width": ["5", 0], "height": ["5", 0]});
    graph["6"]["inputs"]["text"] = json!(["70", 0]);
    graph["70"] = json!({"class_type": "StringConcatenate", "inputs": {"string_a": ["71", 0], "string_b": ["71", 0]}});
    graph["71"] = json!({"class_type": "StringConcatenate", "inputs": {"string_a": ["70", 0], "string_b": ["70", 0]}});
    recordable(&read(&png(&[text("prompt", graph.to_string())])));
    // Repeated doubling: 40 nodes that would produce a text of 2^40 words.
    let mut doubling = crate::graphs::simple();
    doubling["6"]["inputs"]["text"] = json!(["139", 0]);
    for node in 100..140 {
        let from = if node == 100 { json!("word") } else { json!([(node - 1).to_string(), 0]) };
        doubling[node.to_string()] =
            json!({"class_type": "StringConcatenate", "inputs": {"string_a": from, "string_b": from}});
    }
    let started = Instant::now();
    recordable(&read(&png(&[text("prompt", doubling.to_string())])));
    assert!(started.elapsed() < Duration::from_secs(20));
    // A chain of samplers of the maximum length.
    let mut chain = crate::graphs::simple();
    for node in 1000..3000 {
        let mut sampler = chain["3"].clone();
        sampler["inputs"]["latent_image"] =
            json!([if node == 1000 { "3".to_owned() } else { (node - 1).to_string() }, 0]);
        chain[node.to_string()] = sampler;
    }
    chain["8"]["inputs"]["samples"] = json!(["2999", 0]);
    recordable(&read(&png(&[text("prompt", chain.to_string())])));
}
