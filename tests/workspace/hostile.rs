//! Malicious and unusual files: each is recorded with its bytes, and handled within bounded memory.

use std::fs;
use std::io::{Cursor, Write};
use std::process::Command;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use retake::internals::images::ThumbSide;
use retake::internals::model::ImageRef;
use retake::internals::wire::{Error, ErrorKind, RecordRequest};

use crate::support::*;

/// A red square of 16 pixels in CMYK, as written by Adobe's programs.
const CMYK: &str = "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAFAwQEBAMFBAQEBQUFBgcMCAcHBwcPCwsJDBEPEhIRDxERExYcFxMUGhURERghGBodHR8fHxMXIiQiHiQcHh8e/8AAFAgAEAAQBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAA4EQwBNAFkASwAAPwD7Lr4yr4yr7Loooooooooooor/2Q==";

/// The maximum additional memory for one of these files.
const MAX_MEMORY: u64 = 800 * 1024 * 1024;

/// Records a file, and checks that its bytes are kept. Returns why it has no thumbnail; `None` if it has one.
fn recorded(ws: &TestWorkspace, name: &str, bytes: &[u8]) -> (ImageRef, Option<String>) {
    let before = most_memory();
    let images = vec![path(&ws.file(name, bytes))];
    let reference = ws.record(&RecordRequest { images, ..prompt("a trap") }).reference.to_string();
    let image = ws.state(&reference).iteration.images.remove(0);
    assert!(ws.workspace.original(image.hash).unwrap().data == bytes, "{name} was changed");
    let why = ws.workspace.thumbnail(image.hash, ThumbSide::Large).map_err(|error| {
        let error = Error::from(error);
        assert_eq!(error.kind, ErrorKind::Invalid, "{name}: {error:?}");
        error.message
    });
    assert_eq!(image.perceptual_hash.is_none(), why.is_err(), "{name}");
    let taken = most_memory().saturating_sub(before);
    assert!(taken < MAX_MEMORY, "{name} took {taken} bytes of memory");
    (image, why.err())
}

/// Returns the peak memory of this process; if the system does not report it, nothing is checked.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).map_or(0, |kilobytes: u64| kilobytes * 1024)
}

#[test]
fn unusual_images_are_shown() {
    let ws = TestWorkspace::new();
    let picture = RgbImage::from_fn(60, 40, |x, _| if x < 30 { Rgb([250, 20, 20]) } else { Rgb([20, 20, 250]) });
    let seen = DynamicImage::ImageRgb8(picture);
    let encoded = |picture: &DynamicImage, format: ImageFormat| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    };
    let plain = encoded(&seen, ImageFormat::Png);

    let mut gif = Vec::new();
    let mut frames = GifEncoder::new(&mut gif);
    let frame = |grey| Frame::new(RgbaImage::from_pixel(60, 40, Rgba([grey, grey, grey, 255])));
    frames.encode_frames([frame(200), frame(100), frame(0)]).unwrap();
    drop(frames);

    let mut animated = plain.clone();
    // After the header: an animation of two frames, the first of which is the image itself.
    let control = [0_u32, 60, 40, 0, 0].map(u32::to_be_bytes).concat();
    let animation =
        [chunk(b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]), chunk(b"fcTL", &[control, vec![0, 1, 0, 10, 0, 0]].concat())];
    animated.splice(33..33, animation.concat());

    let webp = animated_webp(&[encoded(&seen, ImageFormat::WebP), encoded(&seen.fliph(), ImageFormat::WebP)]);

    let rows = [[0_u8, 0b0000_1111].as_slice(); 8].concat();
    let palette = png_file((8, 8), (1, 3), &[chunk(b"PLTE", &[255, 0, 0, 0, 0, 255])], &deflated(&rows));

    for (name, bytes, first) in [
        ("wrong-extension.png", encoded(&seen, ImageFormat::Jpeg), [250, 20, 20]),
        ("no-extension", plain.clone(), [250, 20, 20]),
        ("animated.gif", gif, [200, 200, 200]),
        ("animated.png", animated, [250, 20, 20]),
        ("animated.webp", webp, [250, 20, 20]),
        ("cmyk.jpg", STANDARD.decode(CMYK).unwrap(), [255, 0, 0]),
        ("sixteen-bit.png", encoded(&DynamicImage::ImageRgb16(seen.to_rgb16()), ImageFormat::Png), [250, 20, 20]),
        ("grey.png", png(60, 40, 77), [77, 77, 77]),
        ("palette.png", palette, [255, 0, 0]),
        ("alpha.png", encoded(&RgbaImage::new(60, 40).into(), ImageFormat::Png), [128, 128, 128]),
        ("trailing-bytes.png", [plain.as_slice(), &[7; 1000]].concat(), [250, 20, 20]),
    ] {
        let (image, why) = recorded(&ws, name, &bytes);
        assert_eq!(why, None, "{name}");
        let thumbnail = ws.workspace.thumbnail(image.hash, ThumbSide::Small).unwrap();
        let thumbnail = image::load_from_memory(&thumbnail).unwrap().to_rgb8();
        let near = thumbnail.get_pixel(1, 1).0.iter().zip(first).all(|(shown, meant)| shown.abs_diff(meant) < 16);
        assert!(near, "{name} shows {:?}", thumbnail.get_pixel(1, 1));
    }
}

#[test]
fn broken_and_hostile_files_are_kept_and_refused() {
    let ws = TestWorkspace::new();
    fails(
        ws.try_record(&RecordRequest { images: vec![path(&ws.file("empty.png", b""))], ..prompt("nothing") }),
        ErrorKind::Invalid,
        "images[0] is empty",
    );
    fails(
        ws.try_record(&RecordRequest { images: vec![path(&ws.file("text.png", b"just text"))], ..prompt("a secret") }),
        ErrorKind::Invalid,
        "images[0] is not an image or video of a known type",
    );
    let whole = png(200, 200, 50);
    let mut lying = whole.clone();
    lying[33..37].copy_from_slice(&0x7fff_fff0_u32.to_be_bytes());
    let one_row = deflated(&[0; 10]);
    let passes = [segment(0xda, b"\x01\x01\0\0\0\0"), vec![0; 8]].concat().repeat(5000);
    let frame = [8, 0x0f, 0xa0, 0x27, 0x10, 1, 1, 0x11, 0];
    let slow = [b"\xff\xd8".to_vec(), segment(0xc2, &frame), passes].concat();
    // The upper part of a truncated JPEG file may be shown, as browsers do.
    for format in [ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif] {
        let mut bytes = Cursor::new(Vec::new());
        let noise =
            RgbImage::from_fn(90, 90, |x, y| Rgb([(x * 97) ^ y, (y * 89) ^ x, x * y].map(|it| it.to_le_bytes()[0])));
        noise.write_to(&mut bytes, format).unwrap();
        let bytes = bytes.into_inner();
        for end in [bytes.len() / 50, bytes.len() / 2] {
            let (_, why) = recorded(&ws, "cut", &bytes[..end]);
            let shown_in_part = format == ImageFormat::Jpeg && end == bytes.len() / 2;
            assert!(why.is_some() || shown_in_part, "{format:?} cut at {end} of {}", bytes.len());
        }
    }
    for (name, bytes, reason) in [
        ("cut.png", whole[..whole.len() / 2].to_vec(), "its file is broken"),
        ("lying.png", lying, "its file is broken"),
        ("header-only.png", whole[..33].to_vec(), "its file is broken"),
        ("wide.png", png_file((30_000, 30_000), (8, 2), &[], &one_row), "it has 30000 x 30000 pixels"),
        ("line.png", png_file((20_000, 10), (8, 2), &[], &one_row), "it has 20000 x 10 pixels"),
        ("deep.png", png_file((9000, 8000), (16, 6), &[], &one_row), "bytes of memory"),
        ("slow.jpg", slow, "5000 passes"),
        ("picture.avif", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1".to_vec(), "image/avif are stored"),
    ] {
        let (_, why) = recorded(&ws, name, &bytes);
        assert!(why.as_ref().is_some_and(|why| why.contains(reason)), "{name}: {why:?}");
    }
}

#[test]
fn decompression_bombs_are_stopped() {
    let ws = TestWorkspace::new();
    let zeros = |megabytes: usize| {
        let mut file = ZlibEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..megabytes {
            file.write_all(&[0; 1 << 20]).unwrap();
        }
        file.finish().unwrap()
    };
    let swelling = zeros(1100);
    let row = deflated(&[[0_u8; 31].as_slice(); 10].concat());
    let text = [b"parameters\0\0".to_vec(), swelling.clone()].concat();
    let profile = [b"profile\0\0".to_vec(), swelling.clone()].concat();
    // Data after the last row, in texts and in colour profiles is not taken for pixels.
    for (name, bytes) in [
        ("rows.png", png_file((10, 10), (8, 2), &[], &swelling)),
        ("text.png", png_file((10, 10), (8, 2), &[chunk(b"zTXt", &text)], &row)),
        ("profile.png", png_file((10, 10), (8, 2), &[chunk(b"iCCP", &profile)], &row)),
    ] {
        recorded(&ws, name, &bytes);
    }
    // The largest image that is decoded: 80 million pixels from a small file.
    let (image, why) = recorded(&ws, "large.png", &png_file((16_000, 5000), (8, 0), &[], &zeros(77)));
    assert_eq!((image.width, why), (Some(16_000), None));
}

/// Set if this test runs itself again, to have a process with its own memory.
const ALONE: &str = "RETAKE_TEST_ALONE";

/// All concurrent work shares the process's memory budget for images.
#[test]
fn many_at_once_share_one_budget() {
    if std::env::var_os(ALONE).is_some() {
        return look_at_many();
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "hostile::many_at_once_share_one_budget", "--nocapture"]).env(ALONE, "1");
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn look_at_many() {
    let ws = TestWorkspace::new();
    let row = deflated(&[0; 10]);
    let claims: Vec<String> = (30_000..30_060)
        .map(|side| ws.file(&format!("{side}.png"), &png_file((side, side), (8, 2), &[], &row)))
        .collect();
    let rows = deflated(&vec![0; 4000 * 18_001]);
    let large = ws.file("large.png", &png_file((6000, 4000), (8, 2), &[], &rows));
    drop(rows);
    let before = most_memory();
    thread::scope(|scope| {
        let (ws, large) = (&ws, &large);
        for claims in claims.chunks(10) {
            scope.spawn(move || {
                for claim in claims {
                    fails(ws.workspace.perceptual_hash_of_file(claim), ErrorKind::Invalid, "pixels: the limits are");
                }
                // Together these have 144 million pixels, which take 430 MB.
                ws.workspace.perceptual_hash_of_file(large).unwrap();
            });
        }
    });
    let taken = most_memory().saturating_sub(before);
    assert!(taken < 300 * 1024 * 1024, "they took {taken} bytes of memory");
}

/// Returns an animation of these stills of 60 × 40 pixels.
fn animated_webp(stills: &[Vec<u8>]) -> Vec<u8> {
    let chunk = |name: &[u8; 4], data: &[u8]| {
        let padding: &[u8] = if data.len() % 2 == 1 { &[0] } else { &[] };
        [name.as_slice(), &u32::try_from(data.len()).unwrap().to_le_bytes(), data, padding].concat()
    };
    let size = [59, 0, 0, 39, 0, 0];
    let mut chunks = chunk(b"VP8X", &[&[2, 0, 0, 0][..], &size].concat());
    chunks.extend(chunk(b"ANIM", &[0; 6]));
    for still in stills {
        // Its own chunk follows the header of the file.
        chunks.extend(chunk(b"ANMF", &[&[0; 6][..], &size, &[100, 0, 0, 0], &still[12..]].concat()));
    }
    chunk(b"RIFF", &[b"WEBP", chunks.as_slice()].concat())
}

/// Returns a PNG file of this size, bit depth and colour type, with these chunks before its compressed rows.
fn png_file(size: (u32, u32), kind: (u8, u8), chunks: &[Vec<u8>], rows: &[u8]) -> Vec<u8> {
    let header = [&size.0.to_be_bytes()[..], &size.1.to_be_bytes(), &[kind.0, kind.1, 0, 0, 0]].concat();
    let start = [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header)].concat();
    [start, chunks.concat(), chunk(b"IDAT", rows), chunk(b"IEND", b"")].concat()
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [name.as_slice(), data].concat();
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length[..], &named, &crc32fast::hash(&named).to_be_bytes()].concat()
}

fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len() + 2).unwrap().to_be_bytes();
    [&[0xff, marker], &length[..], data].concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut file = ZlibEncoder::new(Vec::new(), Compression::fast());
    file.write_all(bytes).unwrap();
    file.finish().unwrap()
}
