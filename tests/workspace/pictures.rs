//! Images as users see them: thumbnails, recognition of copies, linked originals, and files that are not images.

use std::fs;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use retake::internals::images::{MAX_THUMB_BYTES, Render, ThumbSide};
use retake::internals::model::{Hash, ImageRef, PerceptualHash};
use retake::internals::wire::{BoxView, CompareRequest, ErrorKind, RecordRequest};
use retake::internals::workspace::{CallContext, Thumbnails, ThumbnailsReport};

use crate::support::*;

/// Draws an image with large and small shapes.
fn scene(width: u32, height: u32) -> RgbImage {
    let wave = |at: u32, of: u32, times: f64| (f64::from(at) / f64::from(of) * times).sin() * 0.5 + 0.5;
    RgbImage::from_fn(width, height, |x, y| {
        let (across, down) = (wave(x, width, 9.0), wave(y, height, 7.0));
        let both = wave(x * height + y * width, width * height, 5.0);
        Rgb([across * both, down, (across + down) / 2.0].map(|light| format!("{:.0}", light * 250.0).parse().unwrap()))
    })
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn recorded(ws: &TestWorkspace, name: &str, bytes: &[u8]) -> ImageRef {
    let images = vec![path(&ws.file(name, bytes))];
    let reference = ws.record(&RecordRequest { images, ..prompt("a cat") }).reference.to_string();
    ws.state(&reference).iteration.images.remove(0)
}

#[test]
fn a_thumbnail_is_small_and_made_once() {
    let ws = TestWorkspace::new();
    let image = recorded(&ws, "cat.png", &encoded(scene(832, 1216), ImageFormat::Png));
    let cache = ws.root().join("cache");
    assert_eq!(files_below(&cache).len(), 2, "made while recording");
    for (side, size) in [(ThumbSide::Small, (175, 256)), (ThumbSide::Large, (350, 512))] {
        let file = ws.workspace.thumbnail(image.hash, side).unwrap();
        assert!(file.len() <= MAX_THUMB_BYTES);
        let shown = image::load_from_memory_with_format(&file, ImageFormat::Jpeg).unwrap();
        assert_eq!((shown.width(), shown.height()), size);
        fs::remove_dir_all(&cache).unwrap();
        assert_eq!(ws.workspace.thumbnail(image.hash, side).unwrap(), file, "comes back the same");
    }
    // A cache that cannot be written costs time, but no images.
    fs::remove_dir_all(&cache).unwrap();
    fs::write(&cache, "in the way").unwrap();
    assert!(ws.workspace.thumbnail(image.hash, ThumbSide::Small).is_ok());
    recorded(&ws, "other.png", &encoded(scene(300, 200), ImageFormat::Png));
}

#[test]
fn a_copy_is_recognised() {
    let ws = TestWorkspace::new();
    let picture = scene(320, 240);
    let original = recorded(&ws, "cat.png", &encoded(picture.clone(), ImageFormat::Png));
    let copy = recorded(&ws, "cat.webp", &encoded(picture.clone(), ImageFormat::WebP));
    let small = image::imageops::thumbnail(&picture, 160, 120);
    let small = recorded(&ws, "small.jpg", &encoded(small, ImageFormat::Jpeg));
    assert_ne!(copy.hash, original.hash);
    assert_eq!((copy.pixels, copy.perceptual_hash), (original.pixels, original.perceptual_hash));
    assert_ne!(small.pixels, original.pixels);
    assert!(small.perceptual_hash.unwrap().distance(original.perceptual_hash.unwrap()) <= PerceptualHash::NEAR);
    assert_eq!((original.width, original.height), (Some(320), Some(240)));

    let elsewhere = ws.file("elsewhere.png", &encoded(picture, ImageFormat::Png));
    assert_eq!(ws.workspace.perceptual_hash_of_file(&elsewhere).unwrap(), original.perceptual_hash.unwrap());
    fails(ws.workspace.perceptual_hash_of_file("/no/such.png"), ErrorKind::Invalid, "does not exist");
    fails(
        ws.workspace.perceptual_hash_of_file(ws.file("a.txt", b"text")),
        ErrorKind::Invalid,
        "not an image or video of a known type",
    );
}

#[test]
fn a_thumbnail_that_cannot_be_made_is_explained() {
    let ws = TestWorkspace::new();
    let text = recorded(&ws, "notes.tif", b"II*\0no pixels");
    assert_eq!((text.pixels, text.perceptual_hash), (None, None));
    fails(ws.workspace.thumbnail(text.hash, ThumbSide::Small), ErrorKind::Invalid, "image/tiff are stored");
    fails(ws.workspace.thumbnail(Hash::of(b"never"), ThumbSide::Small), ErrorKind::NotFound, "is missing");
    assert_eq!(ws.workspace.original(text.hash).unwrap().data, b"II*\0no pixels");

    let image = recorded(&ws, "cat.png", &png(40, 40, 9));
    fs::remove_dir_all(ws.root().join("cache")).unwrap();
    let hex = image.hash.to_string();
    fs::write(ws.root().join("images").join(&hex[..2]).join(&hex[2..]), png(40, 40, 10)).unwrap();
    fails(ws.workspace.thumbnail(image.hash, ThumbSide::Small), ErrorKind::Damaged, "is damaged");
}

#[test]
fn a_comparison_matches_what_people_see() {
    let ws = TestWorkspace::new();
    let before = scene(320, 240);
    let mut after = before.clone();
    for (x, y) in (40..80).flat_map(|x| (30..60).map(move |y| (x, y))) {
        let pixel = after.get_pixel_mut(x, y);
        pixel.0 = pixel.0.map(|channel| if channel > 127 { 0 } else { 255 });
    }
    let recorded = |picture: Option<RgbImage>| {
        let images = picture.map(|picture| path(&ws.file("picture.png", &encoded(picture, ImageFormat::Png))));
        let request = RecordRequest { images: images.into_iter().collect(), ..prompt("a cat") };
        ws.record(&request).reference.to_string()
    };
    let references = vec![recorded(Some(before)), recorded(Some(after)), recorded(None)];
    let view = checked(ws.api().compare(&CompareRequest { references, render: None })).unwrap();
    let visual = view.differences[0].visual.as_ref().unwrap();
    assert_eq!(visual.changed_box, Some(BoxView { x: 40, y: 30, width: 40, height: 30 }));
    assert_eq!(visual.changed_area, 0.0156);
    assert!(visual.nearly_same && visual.ssim > 0.9 && visual.ssim < 1.0, "{visual:?}");
    assert_eq!((&view.differences[1].visual, &view.differences[1].visual_problem), (&None, &None));
    assert!(ws.api().render(&view, None).unwrap().is_some());
    assert!(ws.api().render(&view, Some(Render::None)).unwrap().is_none());

    fs::remove_dir_all(ws.root().join("images")).unwrap();
    let references = view.iterations.iter().map(|iteration| iteration.reference.to_string()).collect();
    let view = checked(ws.api().compare(&CompareRequest { references, render: None })).unwrap();
    let problem = view.differences[0].visual_problem.as_ref().unwrap();
    assert!(problem.contains("is missing"), "{problem}");
}

#[test]
fn thumbnails_are_remade_on_request() {
    let ws = TestWorkspace::new();
    let mut images: Vec<ImageRef> = (0..5).map(|number| recorded(&ws, "cat.png", &png(300, 300, number))).collect();
    recorded(&ws, "notes.tif", b"II*\0no pixels");
    let cache = ws.root().join("cache");
    let files = files_below(&cache);
    let made = |which| ws.workspace.make_thumbnails(which, &CallContext::default()).unwrap();
    assert_eq!(made(Thumbnails::Missing), ThumbnailsReport::default());
    fs::remove_dir_all(&cache).unwrap();
    let impatient = CallContext::default().cancel_when(|| true);
    assert!(ws.workspace.make_thumbnails(Thumbnails::Missing, &impatient).is_err());
    assert_eq!(made(Thumbnails::Missing).made, 5);
    assert_eq!(files_below(&cache), files);

    // All: including existing ones, whatever happened to them.
    let steps = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&steps);
    let reported =
        CallContext::default().with_progress(Arc::new(move |_: &str, done, of| heard.lock().unwrap().push((done, of))));
    for path in files.keys() {
        fs::write(path, b"\xff\xd8\xff something else \xff\xd9").unwrap();
    }
    assert_eq!(made(Thumbnails::Missing).made, 0, "they are there");
    assert_eq!(
        ws.workspace.make_thumbnails(Thumbnails::All, &reported).unwrap(),
        ThumbnailsReport { made: 5, ..ThumbnailsReport::default() }
    );
    assert_eq!(files_below(&cache), files);
    assert!(steps.lock().unwrap().contains(&(6, 6)), "{steps:?}");

    let gone = images.pop().unwrap().hash;
    let hex = gone.to_string();
    fs::remove_file(ws.root().join("images").join(&hex[..2]).join(&hex[2..])).unwrap();
    let view = ws.workspace.make_thumbnails(Thumbnails::All, &CallContext::default()).unwrap();
    assert_eq!((view.made, view.unseen.len()), (4, 1));
    assert_eq!(
        (view.unseen[0].reference.to_string(), view.unseen[0].hash),
        ("session-2025-12-11-005#0".to_owned(), gone)
    );
    assert!(view.unseen[0].message.contains("is missing"), "{view:?}");
    assert_eq!(files_below(&cache), files, "its thumbnails are all that is left of it");
}
