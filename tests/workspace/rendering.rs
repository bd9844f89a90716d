//! Renderings compared with golden images in `golden/`. If one differs, `target/pictures/` has the actual image, and
//! `NAME.diff.png` shows both and their differences side by side; after reviewing that, `UPDATE_GOLDEN=1` accepts the
//! actual images.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::{ImageFormat, Rgb, RgbImage, imageops};
use retake::internals::disk::Disk;
use retake::internals::images::{Images, Panel, Render};
use retake::internals::model::Hash;

/// The tolerance per channel, since resampling rounds differently on other processors.
const TOLERANCE: u8 = 12;

#[test]
fn renderings_match_the_golden_images() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::new(Disk::default(), dir.path());
    let keep = |picture: RgbImage| {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        images.put(&bytes.into_inner()).unwrap().hash
    };
    let day = keep(landscape(320, 240, Rgb([0x8e, 0xc5, 0xe8]), true));
    let night = keep(landscape(320, 240, Rgb([0x1b, 0x2a, 0x4a]), true));
    let no_sun = keep(landscape(320, 240, Rgb([0x8e, 0xc5, 0xe8]), false));
    let large = keep(landscape(640, 480, Rgb([0x8e, 0xc5, 0xe8]), true));
    let wide = keep(landscape(480, 240, Rgb([0x8e, 0xc5, 0xe8]), true));
    let tall = keep(landscape(160, 320, Rgb([0xe8, 0xb0, 0x8e]), true));

    let pair = [
        panel(Some(day), 3, &["seed 41", "steps 30"]),
        panel(Some(no_sun), 4, &["-sun", "+dark clouds → зима, café", "~red roof 1.2→1.35", "steps 30→40 (+10)"]),
    ];
    check("side-by-side", &images, Render::SideBySide, &pair);
    check("heatmap", &images, Render::Heatmap, &pair);
    check("heatmap-other-shape", &images, Render::Heatmap, &[panel(Some(day), 0, &[]), panel(Some(wide), 1, &[])]);

    // U+10FFFD is in no font on any machine.
    let long = "a very long prompt that goes on and on, with \u{10fffd} in it, over one line and the next, and must be cut \
                somewhere before the edge: masterpiece, best quality, highly detailed, 8k, cinematic light, volumetric fog";
    let everything = [
        panel(Some(day), 0, &[long]),
        panel(
            Some(night),
            1,
            &["+night, a dark blue sky, no stars at all, and a moon that looks like the sun", "seed 41→42"],
        ),
        panel(None, 2, &["refused by the provider"]),
        panel(Some(Hash::of(b"gone")), 3, &[]),
        panel(Some(tall), 4, &["+portrait"]),
        panel(Some(large), 5, &["~size 320x240→640x480"]),
        panel(Some(wide), 12_345, &["1", "2", "3", "4", "5", "6", "7", "8", "9"]),
    ];
    check("sheet", &images, Render::Sheet, &everything);
    assert_eq!(size(&images, Render::Sheet, &pair).0, 2 * 348 + 28, "two fill one row");

    let strip = keep(landscape(1200, 60, Rgb([0x8e, 0xc5, 0xe8]), true));
    let tower = keep(landscape(40, 1200, Rgb([0xe8, 0xb0, 0x8e]), true));
    let speck = keep(landscape(6, 4, Rgb([0x8e, 0xc5, 0xe8]), false));
    let shapes = [day, night, no_sun, large, wide, tall, strip, tower, speck, day, night, no_sun];
    let twelve: Vec<Panel> = (0..).zip(shapes).map(|(index, image)| panel(Some(image), index, &["seed 1→2"])).collect();
    check("sheet-of-twelve", &images, Render::Sheet, &twelve);
}

#[test]
fn a_rendering_is_never_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let images = Images::new(Disk::default(), dir.path());
    let mut state = 1_u32;
    let noise = RgbImage::from_fn(240, 360, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, red, green, blue] = state.to_le_bytes();
        Rgb([red, green, blue])
    });
    let mut bytes = Cursor::new(Vec::new());
    noise.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    let hash = images.put(&bytes.into_inner()).unwrap().hash;
    let panels = vec![panel(Some(hash), 0, &["x"; 40]); 20];
    for (how, count) in [(Render::Heatmap, 2), (Render::Sheet, 20)] {
        let rendering = images.render(how, &panels[..count]);
        let (width, height) = rendering.pixels().dimensions();
        assert!(width <= 2000 && height <= 2600, "{how:?}: {width} x {height}");
        let (file, mime_type) = rendering.within(200_000);
        assert!(file.len() <= 200_000, "{how:?}: {} bytes", file.len());
        assert_eq!(mime_type, "image/jpeg");
    }
    assert_eq!(images.render(Render::Sheet, &[]).within(10_000).1, "image/png");
}

/// Draws a sky, a sun, a hill and a house.
fn landscape(width: u32, height: u32, sky: Rgb<u8>, sun: bool) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let (across, down) = (f64::from(x) / f64::from(width), f64::from(y) / f64::from(height));
        let shape = f64::from(width) / f64::from(height);
        let from_sun = ((across - 0.75) * shape).hypot(down - 0.25);
        let hill = 0.72 - 0.16 * (across * 5.0).sin();
        if (0.2..0.36).contains(&across) && (0.5..0.72).contains(&down) {
            Rgb([0xd9, 0xd2, 0xc0])
        } else if (down - 0.36) > (across - 0.28).abs() && (0.36..0.5).contains(&down) {
            Rgb([0xb2, 0x3a, 0x32])
        } else if down > hill {
            Rgb([0x4f, 0x7d, 0x45])
        } else if sun && from_sun < 0.13 {
            Rgb([0xff, 0xd9, 0x5a])
        } else {
            sky
        }
    })
}

fn panel(image: Option<Hash>, index: u32, lines: &[&str]) -> Panel {
    let lines = lines.iter().map(|line| (*line).to_owned()).collect();
    Panel { image, absent: None, title: format!("session-2025-12-11-001#{index}"), lines }
}

fn size(images: &Images, how: Render, panels: &[Panel]) -> (u32, u32) {
    images.render(how, panels).pixels().dimensions()
}

fn check(name: &str, images: &Images, how: Render, panels: &[Panel]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("tests/workspace/golden").join(format!("{name}.png"));
    let rendering = images.render(how, panels);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, rendering.png()).unwrap();
    }
    let known = image::open(&golden).unwrap().to_rgb8();
    let actual = rendering.pixels();
    let same_size = known.dimensions() == actual.dimensions();
    let differs = |one: &Rgb<u8>, other: &Rgb<u8>| one.0.iter().zip(other.0).any(|(a, b)| a.abs_diff(b) > TOLERANCE);
    let same = same_size && !known.pixels().zip(actual.pixels()).any(|(known, actual)| differs(known, actual));
    if same {
        return;
    }
    let left = left_behind(name);
    fs::write(&left.0, rendering.png()).unwrap();
    let (width, height) = (known.width().max(actual.width()), known.height().max(actual.height()));
    let differences = RgbImage::from_fn(width, height, |x, y| {
        match (known.get_pixel_checked(x, y), actual.get_pixel_checked(x, y)) {
            (Some(known), Some(actual)) if !differs(known, actual) => Rgb(actual.0.map(|channel| channel / 4)),
            (None, None) => Rgb([0; 3]),
            _ => Rgb([255, 0, 90]),
        }
    });
    let mut shown = RgbImage::from_pixel(3 * width + 40, height, Rgb([255; 3]));
    for (number, picture) in (0..).zip([&known, actual, &differences]) {
        imageops::replace(&mut shown, picture, number * (i64::from(width) + 20), 0);
    }
    shown.save(&left.1).unwrap();
    let differing = differences.pixels().filter(|pixel| pixel.0 == [255, 0, 90]).count();
    let [golden, actual, differences] = [&golden, &left.0, &left.1].map(|path| path.display());
    assert!(same, "{name} differs from {golden} in {differing} pixels: see {differences}, and {actual} alone");
}

/// Returns the paths of the actual image and of the differences.
fn left_behind(name: &str) -> (PathBuf, PathBuf) {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("pictures");
    fs::create_dir_all(&target).unwrap();
    (target.join(format!("{name}.actual.png")), target.join(format!("{name}.diff.png")))
}
