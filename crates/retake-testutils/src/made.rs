//! A realistic folder of images: tiny files in the layouts of three tools, in sessions of known structure, with
//! matching times. The benchmarks create a larger one.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use crate::images::{patterned as png, patterned_at as sized_png};
use crate::random::Random;

/// A session that the folder contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The output directory of its tool, below the folder.
    pub root: &'static str,
    /// Its start, in seconds since 1970.
    pub from: u64,
    /// The number of runs.
    pub runs: u64,
    /// The number of images of all runs.
    pub images: u64,
}

/// 2024-05-01T00:00:00Z.
const FIRST_DAY: u64 = 1_714_521_600;
const TOOLS: [&str; 3] = ["a1111/outputs", "comfy/output", "invoke/outputs"];
const SCENES: [&str; 6] = [
    "a red fox in deep snow, golden hour, 85mm, bokeh",
    "an old sailor at the pier, oil painting, heavy strokes",
    "isometric tea house, cutaway, pastel, tiny people",
    "portrait of a violinist on stage, rim light, film grain",
    "a glass bridge over a canyon, fog, morning, wide shot",
    "cyberpunk market at night, rain, neon signs, crowd",
];

/// Creates at least this many images below `dir`, and returns the sessions they belong to.
pub fn folder(dir: &Path, images: u64) -> Vec<Drawn> {
    let mut random = Random::new(7);
    let mut maker = Maker { dir, made: 0, comfy: 0 };
    let mut drawn = Vec::new();
    for day in 0.. {
        for (tool, root) in (0..).zip(TOOLS) {
            // Mornings and afternoons of some days.
            for (part, hour) in [(0, 9), (1, 14)] {
                if (day + tool + part) % 3 == 2 {
                    continue;
                }
                let from = FIRST_DAY + day * 86_400 + hour * 3600 + random.below(1800);
                drawn.push(maker.session(&mut random, (tool, root), day, from));
                if maker.made >= images {
                    drawn.sort_by_key(|session| session.from);
                    return drawn;
                }
            }
        }
    }
    drawn
}

struct Maker<'a> {
    dir: &'a Path,
    made: u64,
    comfy: u64,
}

impl Maker<'_> {
    fn session(&mut self, random: &mut Random, (tool, root): (u64, &'static str), day: u64, from: u64) -> Drawn {
        let mut drawn = Drawn { root, from, runs: 0, images: 0 };
        let mut now = from;
        let counter = self.made;
        for run in 0..8 + random.below(12) {
            let scene = usize::try_from((day + run / 5) % 6).unwrap();
            let (seed, count) = (random.next_u64() >> 20, 1 + random.below(4));
            let steps = 20 + run % 3 * 5;
            for number in 0..count {
                let picture = Picture { scene: SCENES[scene], seed: seed + number, steps, count };
                let pattern = seed + number;
                match tool {
                    0 => self.a1111(&picture, counter + drawn.images, pattern, now),
                    1 => self.comfy(&Picture { seed, ..picture }, pattern, now),
                    _ => self.invoke(&picture, pattern, now),
                }
                drawn.images += 1;
                now += 1;
            }
            // InvokeAI has no batches: its images are one run only because their seeds are consecutive.
            drawn.runs += 1;
            now += 20 + random.below(400);
        }
        self.made += drawn.images;
        drawn
    }

    fn a1111(&self, picture: &Picture<'_>, counter: u64, pattern: u64, at: u64) {
        let Picture { scene, seed, steps, .. } = picture;
        let text = format!(
            "{scene}\nNegative prompt: blurry, text\nSteps: {steps}, Sampler: Euler a, CFG scale: 7, Seed: {seed}, \
             Size: 16x16, Model hash: 31e35c80fc, Model: sdxl_base, Version: v1.10.1"
        );
        let name = format!("a1111/outputs/txt2img-images/{}/{:05}-{seed}.png", day_of(at), counter % 100_000);
        write(&self.dir.join(name), &png(pattern, &[("parameters", &text)]), at);
    }

    fn comfy(&mut self, picture: &Picture<'_>, pattern: u64, at: u64) {
        self.comfy += 1;
        let Picture { scene, seed, steps, count } = picture;
        let prompt = format!(
            r#"{{"3":{{"class_type":"KSampler","inputs":{{"seed":{seed},"steps":{steps},"cfg":7.0,"sampler_name":"euler","scheduler":"normal","denoise":1.0,"model":["4",0],"positive":["6",0],"negative":["7",0],"latent_image":["5",0]}}}},"4":{{"class_type":"CheckpointLoaderSimple","inputs":{{"ckpt_name":"sdxl_base.safetensors"}}}},"5":{{"class_type":"EmptyLatentImage","inputs":{{"width":16,"height":16,"batch_size":{count}}}}},"6":{{"class_type":"CLIPTextEncode","inputs":{{"text":"{scene}","clip":["4",1]}}}},"7":{{"class_type":"CLIPTextEncode","inputs":{{"text":"blurry","clip":["4",1]}}}},"8":{{"class_type":"VAEDecode","inputs":{{"samples":["3",0],"vae":["4",2]}}}},"9":{{"class_type":"SaveImage","inputs":{{"filename_prefix":"ComfyUI","images":["8",0]}}}}}}"#
        );
        let name = format!("comfy/output/ComfyUI_{:05}_.png", self.comfy);
        write(&self.dir.join(name), &png(pattern, &[("prompt", &prompt)]), at);
    }

    fn invoke(&self, picture: &Picture<'_>, pattern: u64, at: u64) {
        let Picture { scene, seed, steps, .. } = picture;
        let text = format!(
            r#"{{"app_version":"4.2.0","generation_mode":"sdxl_txt2img","positive_prompt":"{scene}","negative_prompt":"blurry","width":16,"height":16,"seed":{seed},"cfg_scale":7.0,"steps":{steps},"scheduler":"euler","model":{{"name":"sdxl_base","hash":"blake3:00","key":"k"}}}}"#
        );
        let mut id = Random::new(pattern.wrapping_mul(at));
        let name = format!(
            "invoke/outputs/images/{:08x}-{:04x}-4000-8000-{:012x}.png",
            id.next_u64() as u32,
            id.next_u64() as u16,
            id.next_u64() >> 16
        );
        write(&self.dir.join(name), &png(pattern, &[("invokeai_metadata", &text)]), at);
    }
}

struct Picture<'a> {
    scene: &'a str,
    seed: u64,
    steps: u64,
    count: u64,
}

/// Writes a file with this modification time, creating its parent directories.
pub fn write(path: &Path, bytes: &[u8], seconds: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    touch(path, seconds);
}

/// Sets the modification time of a file.
pub fn touch(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

/// Returns a day as `2024-05-01`; only months after [`FIRST_DAY`] are supported.
fn day_of(seconds: u64) -> String {
    let (mut day, mut month, mut year) = ((seconds - FIRST_DAY) / 86_400, 5, 2024);
    loop {
        let length = match month {
            4 | 6 | 9 | 11 => 30,
            2 => 28,
            _ => 31,
        };
        if day < length {
            return format!("{year}-{month:02}-{:02}", day + 1);
        }
        day -= length;
        month += 1;
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
}
