//! A folder as people have one: tiny pictures in the layouts of three tools, made in sessions of a known shape, with times
//! to match. Stands alone, since the benchmarks make a larger one of it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "not everyone who makes one uses all of it"
)]

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A session as a person would draw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The folder that its tool writes to, below the one that was made.
    pub root: &'static str,
    /// When it begins, in seconds since 1970.
    pub from: u64,
    /// How many times the button was pressed.
    pub runs: u64,
    /// How many pictures that gave.
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

/// Makes at least so many pictures under `dir`, and says which sessions they are.
pub fn folder(dir: &Path, images: u64) -> Vec<Drawn> {
    let mut random = Random(7);
    let mut maker = Maker { dir, made: 0, comfy: 0 };
    let mut drawn = Vec::new();
    for day in 0.. {
        for (tool, root) in (0..).zip(TOOLS) {
            // In the morning and in the afternoon, of some days.
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
            let (seed, count) = (random.next() >> 20, 1 + random.below(4));
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
            // InvokeAI has no batches: each press gives as many runs as pictures, unless seeds count up, which they do.
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
        let mut id = Random(pattern.wrapping_mul(at));
        let name = format!(
            "invoke/outputs/images/{:08x}-{:04x}-4000-8000-{:012x}.png",
            id.next() as u32,
            id.next() as u16,
            id.next() >> 16
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

/// Writes a file with that time, and the folders above it.
pub fn write(path: &Path, bytes: &[u8], seconds: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    touch(path, seconds);
}

/// Gives a file that time.
pub fn touch(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

/// A picture of 16 × 16 pixels whose pattern is its own, with these texts.
pub fn png(pattern: u64, texts: &[(&str, &str)]) -> Vec<u8> {
    sized_png(pattern, 16, texts)
}

/// The same picture at another size, a multiple of 8.
pub fn sized_png(pattern: u64, side: u32, texts: &[(&str, &str)]) -> Vec<u8> {
    let mut random = Random(pattern);
    let cells: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
    let mut rows = Vec::new();
    for y in 0..side {
        rows.push(0);
        rows.extend((0..side).map(|x| cells[(y * 8 / side * 8 + x * 8 / side) as usize]));
    }
    // One byte of the pattern more than the looks can tell, so that no two have the same bytes.
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let size = side.to_be_bytes();
    chunk(&mut bytes, b"IHDR", &[&size[..], &size[..], &[8, 0, 0, 0, 0]].concat());
    for (key, text) in texts {
        chunk(&mut bytes, b"tEXt", &[key.as_bytes(), b"\0", text.as_bytes()].concat());
    }
    chunk(&mut bytes, b"IDAT", &stored(&rows));
    chunk(&mut bytes, b"IEND", b"");
    bytes
}

fn chunk(bytes: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    bytes.extend_from_slice(&u32::try_from(content.len()).unwrap().to_be_bytes());
    let body = [&kind[..], content].concat();
    bytes.extend_from_slice(&body);
    bytes.extend_from_slice(&crc(&body).to_be_bytes());
}

/// A zlib stream that compresses nothing.
fn stored(content: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks: Vec<&[u8]> = content.chunks(65_535).collect();
    for (number, block) in blocks.iter().enumerate() {
        let length = u16::try_from(block.len()).unwrap();
        stream.push(u8::from(number + 1 == blocks.len()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in content {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    stream.extend_from_slice(&(b << 16 | a).to_be_bytes());
    stream
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// `2024-05-01`, within the months that the folder covers.
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

/// Numbers that are the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}
