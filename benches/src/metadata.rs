//! How fast is the generation metadata of a folder of images read, compared with exiftool, which only extracts the raw
//! texts, and sd-parsers, which understands some of them? All on one thread, with warm caches; exiftool and Python
//! start once for the whole folder, which favours them.

use std::fs;
use std::hint::black_box;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use image::{ImageFormat, RgbImage};
use retake::internals::images::metadata::{embed, read_file};
use serde_json::{Value, json};

use crate::Settings;
use crate::report::{Report, Table, median, ratio, times};

/// The side of the images: their noise results in files of 200 kB, so that skipping pixels matters.
const SIDE: u32 = 256;

const SD_PARSERS: &str = "
import sys, pathlib
from sd_parsers import ParserManager
manager = ParserManager()
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        manager.parse(path)
    except Exception:
        pass
";

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let count = if settings.full { 5_000 } else { 1_000 };
    let folder = pictures(settings, count);
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let peers: [(&str, Option<Command>); 2] = [
        ("exiftool", installed("exiftool", &["-ver"]).then(|| exiftool(&folder))),
        ("sd-parsers", installed("python3", &["-c", "import sd_parsers"]).then(|| sd_parsers(&folder))),
    ];
    let mut ours = Vec::new();
    let mut theirs: [Vec<f64>; 2] = Default::default();
    let mut peers = peers;
    for round in 0..=settings.rounds.min(5) {
        let started = Instant::now();
        for file in &files {
            let reading = black_box(read_file(file).unwrap());
            assert!(reading.recipe.seed.is_some(), "{} was not read", file.display());
        }
        let mine = started.elapsed();
        // The first round warms the caches.
        if round > 0 {
            ours.push(mine.as_secs_f64());
        }
        for ((_, command), turns) in peers.iter_mut().zip(&mut theirs) {
            if let Some(command) = command {
                let taken = timed(command);
                if round > 0 {
                    turns.push(taken.as_secs_f64());
                }
            }
        }
    }
    let title =
        format!("Metadata of {count} pictures of 200 kB (A1111, ComfyUI, InvokeAI; PNG, JPEG, WebP), one thread, warm");
    let mut table = Table::new(title, &["reader", "files/s", "retake is x faster"]);
    let rate = |seconds: &[f64]| format!("{:.0}", files.len() as f64 / median(seconds));
    table.row(vec!["retake".to_owned(), rate(&ours), times(1.0)]);
    for ((name, command), turns) in peers.iter().zip(&theirs) {
        match command {
            Some(_) => table.row(vec![(*name).to_owned(), rate(turns), times(ratio(turns, &ours))]),
            None => report.say(&format!("{name} is not installed: skipped")),
        }
    }
    report.show("metadata", &table);
}

/// Returns the folder with the metadata of three tools in three formats, creating it the first time.
fn pictures(settings: &Settings, count: usize) -> PathBuf {
    let folder = settings.data.join(format!("pictures-{count}"));
    let done = settings.data.join(format!("pictures-{count}.done"));
    if done.exists() {
        return folder;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut pixels = vec![0; (SIDE * SIDE * 3) as usize];
    noise.fill(&mut pixels);
    let picture = RgbImage::from_raw(SIDE, SIDE, pixels).unwrap();
    let encoded = |format| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    };
    let formats =
        [(encoded(ImageFormat::Png), "png"), (encoded(ImageFormat::Jpeg), "jpg"), (encoded(ImageFormat::WebP), "webp")];
    for number in 0..count {
        let text = a1111(number);
        let (bytes, extension) = match number % 4 {
            0 => (
                embed(
                    &formats[0].0,
                    &[("prompt", &graph(number).to_string()), ("workflow", &workflow(number).to_string())],
                ),
                "png",
            ),
            1 => (embed(&formats[0].0, &[("invokeai_metadata", &invokeai(number).to_string())]), "png"),
            _ => {
                let (bytes, extension) = &formats[number % 3];
                (embed(bytes, &[("parameters", &text)]), *extension)
            }
        };
        fs::write(folder.join(format!("{number:05}.{extension}")), bytes.unwrap()).unwrap();
    }
    fs::write(done, "").unwrap();
    folder
}

fn prompt(number: usize) -> String {
    format!(
        "masterpiece, best quality, (a glass bridge over a river:1.2), number {number}, autumn forest, mist, golden hour, 35mm photo"
    )
}

fn a1111(number: usize) -> String {
    format!(
        "{}\nNegative prompt: blurry, lowres, watermark\nSteps: 30, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: {number}, Size: 1024x1024, Model hash: 45a21ea00a, Model: bridges_v3, Version: v1.10.1",
        prompt(number)
    )
}

fn graph(number: usize) -> Value {
    json!({
        "3": {"class_type": "KSampler", "inputs": {"seed": number, "steps": 30, "cfg": 7.0, "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0, "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
        "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "bridges_v3.safetensors"}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 1024, "height": 1024, "batch_size": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": prompt(number), "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry, lowres, watermark", "clip": ["4", 1]}},
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}}
    })
}

/// Returns a graph as large as those of the editor: several times the queued one.
fn workflow(number: usize) -> Value {
    let node = |id: usize| json!({"id": id, "type": "CLIPTextEncode", "pos": [413.5, 389.25], "size": {"0": 425.27, "1": 180.6}, "flags": {}, "order": id, "mode": 0, "inputs": [], "outputs": [{"name": "CONDITIONING", "type": "CONDITIONING", "links": [id], "slot_index": 0}], "properties": {"Node name for S&R": "CLIPTextEncode"}, "widgets_values": [prompt(number)]});
    json!({"last_node_id": 30, "nodes": (0..30).map(node).collect::<Vec<_>>(), "links": [], "groups": [], "version": 0.4})
}

fn invokeai(number: usize) -> Value {
    json!({"generation_mode": "txt2img", "positive_prompt": prompt(number), "negative_prompt": "blurry", "width": 1024, "height": 1024, "seed": number, "cfg_scale": 7.5, "steps": 30, "scheduler": "euler", "model": {"name": "bridges_v3", "hash": "blake3:1f", "key": "k"}, "loras": []})
}

fn installed(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn exiftool(folder: &Path) -> Command {
    let mut command = Command::new("exiftool");
    command.args(["-q", "-q", "-json"]).arg(folder);
    command
}

fn sd_parsers(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", SD_PARSERS]).arg(folder);
    command
}

fn timed(command: &mut Command) -> Duration {
    let started = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?} failed");
    started.elapsed()
}
