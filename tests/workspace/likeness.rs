//! Similarity of images: after saving as a low-quality JPEG, scaling, brightening, cropping, slight rotation and
//! overpainting; with generated images, and with real ones if available.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{ImageFormat, Rgb, RgbImage};
use retake::internals::model::PerceptualHash;

use crate::support::*;

fn perceptual_hash(ws: &TestWorkspace, bytes: &[u8]) -> PerceptualHash {
    ws.workspace.perceptual_hash_of_file(ws.file("looked-at", bytes)).unwrap()
}

/// Returns an image saved in ways that must not matter.
fn changes(picture: &RgbImage) -> Vec<(&'static str, Vec<u8>)> {
    let (width, height) = picture.dimensions();
    let png = |picture: &RgbImage| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    };
    let mut poor = Vec::new();
    JpegEncoder::new_with_quality(&mut poor, 60).encode_image(picture).unwrap();
    let scaled = |width, height| png(&imageops::resize(picture, width, height, FilterType::Triangle));
    let mut light = picture.clone();
    light.pixels_mut().for_each(|pixel| pixel.0 = pixel.0.map(|channel| channel.saturating_add(channel / 5)));
    let (x, y) = (width / 50, height / 50);
    let cropped = imageops::crop_imm(picture, x, y, width - 2 * x, height - 2 * y).to_image();
    let mut painted = picture.clone();
    for (x, y) in (width / 8..width / 4).flat_map(|x| (height / 8..height / 4).map(move |y| (x, y))) {
        painted.put_pixel(x, y, Rgb([250, 250, 20]));
    }
    vec![
        ("JPEG 60", poor),
        ("half size", scaled(width / 2, height / 2)),
        ("1.5 times the size", scaled(width * 3 / 2, height * 3 / 2)),
        ("+20 % light", png(&light)),
        ("4 % crop", png(&cropped)),
        ("turned by 2°", png(&turned(picture))),
        ("painted in", png(&painted)),
    ]
}

/// Rotates an image by two degrees around its centre, mostly without the uncovered corners.
fn turned(picture: &RgbImage) -> RgbImage {
    let (width, height) = picture.dimensions();
    let (sine, cosine) = 2_f64.to_radians().sin_cos();
    let (left, top) = (width / 50, height / 50);
    RgbImage::from_fn(width - 2 * left, height - 2 * top, |x, y| {
        let (x, y) = (f64::from(x + left) - f64::from(width) / 2.0, f64::from(y + top) - f64::from(height) / 2.0);
        let at = |place: f64, side: u32| {
            let place = (place + f64::from(side) / 2.0).clamp(0.0, f64::from(side - 1));
            format!("{place:.0}").parse::<u32>().unwrap()
        };
        *picture.get_pixel(at(x * cosine - y * sine, width), at(x * sine + y * cosine, height))
    })
}

/// Draws blobs of colour on a gradient, both different for each number.
fn made(number: u32) -> RgbImage {
    let mut state = number.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = |most: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        i64::from((state >> 8) % most)
    };
    let slope = [next(9) - 4, next(9) - 4];
    let blobs: Vec<[i64; 4]> = (0..14).map(|_| [next(256), next(256), 20 + next(60), next(200)]).collect();
    RgbImage::from_fn(256, 256, |x, y| {
        let (x, y) = (i64::from(x), i64::from(y));
        let mut light = 100 + (x * slope[0] + y * slope[1]) / 16;
        for [at_x, at_y, radius, brightness] in &blobs {
            if (x - at_x).pow(2) + (y - at_y).pow(2) < radius.pow(2) {
                light = (light + 3 * brightness) / 4;
            }
        }
        Rgb([light, (light * 3 + x) / 4, (light + y / 2) / 2]
            .map(|channel| u8::try_from(channel.clamp(0, 210)).unwrap()))
    })
}

#[test]
fn irrelevant_changes_do_not_affect_similarity() {
    let ws = TestWorkspace::new();
    let mut all = Vec::new();
    for number in 0..8 {
        let picture = made(number);
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let known = perceptual_hash(&ws, &bytes.into_inner());
        for (change, bytes) in changes(&picture) {
            let distance = perceptual_hash(&ws, &bytes).distance(known);
            assert!(distance <= PerceptualHash::NEAR, "{change} of picture {number} is {distance} away");
        }
        all.push(known);
    }
    for (number, one) in all.iter().enumerate() {
        for other in &all[number + 1..] {
            let distance = one.distance(*other);
            assert!(distance > PerceptualHash::NEAR, "two different pictures are only {distance} apart");
        }
    }
}

/// Returns the folder of real images, which are not part of the project: `RETAKE_SAMPLES`, or `../shared/samples`.
fn samples() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/samples");
    std::env::var_os("RETAKE_SAMPLES").map_or(beside, PathBuf::from)
}

#[test]
#[ignore = "needs a folder of real images in RETAKE_SAMPLES"]
fn real_images_are_recognised() {
    let dir = samples();
    let ws = TestWorkspace::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut known = Vec::new();
    // Every sixth is enough, and keeps this short.
    for path in paths.iter().step_by(6) {
        let bytes = fs::read(path).unwrap();
        let Ok(picture) = image::load_from_memory(&bytes) else { continue };
        if picture.width() < 256 || picture.height() < 256 || picture.color().has_alpha() {
            continue;
        }
        let looks_like = perceptual_hash(&ws, &bytes);
        known.push(looks_like);
        let picture = picture.thumbnail(512, 512).to_rgb8();
        for (change, bytes) in changes(&picture) {
            found.entry(change).or_default().push(perceptual_hash(&ws, &bytes).distance(looks_like));
        }
    }
    assert!(known.len() >= 4, "only {} pictures", known.len());
    for (change, mut distances) in found {
        distances.sort_unstable();
        let recognised = distances.iter().filter(|distance| **distance <= PerceptualHash::NEAR).count();
        let (middle, most) = (distances[distances.len() / 2], distances.last().unwrap());
        let table = format!("{change}: {recognised} of {}, median {middle}, most {most}", distances.len());
        assert!(recognised + 1 >= distances.len(), "{table}");
    }
    let pairs = (0..known.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let alike = pairs.filter(|(one, other)| known[*one].distance(known[*other]) <= PerceptualHash::NEAR).count();
    let all = known.len() * (known.len() - 1) / 2;
    assert!(alike * 100 <= all, "{alike} of {all} pairs of different pictures are taken for alike");
}
