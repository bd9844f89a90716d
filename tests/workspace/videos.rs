//! Videos as iterations: recognised by their bytes, stored unchanged, with a poster in place of a thumbnail, and never
//! decoded.

use std::fs;
use std::io::{Read, Seek};
use std::sync::atomic::AtomicBool;

use image::ImageFormat;
use retake::internals::export::ExportRequest;
use retake::internals::images::{Panel, Render, ThumbSide};
use retake::internals::import::FilesRequest;
use retake::internals::model::{Hash, ImageRef};
use retake::internals::wire::{CompareRequest, Error, ErrorKind, RecordRequest};
use retake::internals::workspace::{CallContext, Thumbnails};
use retake_testutils::videos::{MP4, PROMPT, WEBM};

use crate::support::*;

fn recorded(ws: &TestWorkspace, name: &str, bytes: &[u8]) -> (String, ImageRef) {
    let images = vec![path(&ws.file(name, bytes))];
    let reference = ws.record(&RecordRequest { images, ..prompt("a fox") }).reference.to_string();
    let image = ws.state(&reference).iteration.images.remove(0);
    (reference, image)
}

fn thumbnail(ws: &TestWorkspace, hash: Hash) -> image::RgbImage {
    let file = ws.workspace.thumbnail(hash, ThumbSide::Large).unwrap();
    image::load_from_memory_with_format(&file, ImageFormat::Jpeg).unwrap().to_rgb8()
}

#[test]
fn a_video_is_kept_with_its_type_size_and_poster() {
    let ws = TestWorkspace::new();
    let (_, mp4) = recorded(&ws, "fox.mp4", MP4);
    assert_eq!((mp4.mime_type.as_str(), mp4.width, mp4.height), ("video/mp4", Some(64), Some(48)));
    assert_eq!((mp4.pixels, mp4.perceptual_hash), (None, None));
    assert_eq!(ws.workspace.original(mp4.hash).unwrap().data, MP4);
    // The cover is orange, 96 × 64.
    let poster = thumbnail(&ws, mp4.hash);
    assert_eq!(poster.dimensions(), (96, 64));
    let [red, _, blue] = poster.get_pixel(4, 4).0;
    assert!(red > 200 && blue < 60, "{:?}", poster.get_pixel(4, 4));
    // Without a cover, a poster is drawn in its aspect ratio. The file extension is misleading on purpose.
    let (_, webm) = recorded(&ws, "fox.png", WEBM);
    assert_eq!((webm.mime_type.as_str(), webm.width, webm.height), ("video/webm", Some(64), Some(48)));
    assert_eq!(thumbnail(&ws, webm.hash).dimensions(), (512, 384));

    let cached = |hash| ws.workspace.thumbnail(hash, ThumbSide::Large).unwrap();
    let before = [cached(mp4.hash), cached(webm.hash)];
    fs::remove_dir_all(ws.root().join("cache")).unwrap();
    assert_eq!([cached(mp4.hash), cached(webm.hash)], before, "posters come back the same");
    fs::remove_dir_all(ws.root().join("cache")).unwrap();
    let report = ws.workspace.make_thumbnails(Thumbnails::Missing, &CallContext::default()).unwrap();
    assert_eq!((report.made, report.unseen.len()), (2, 0));
}

#[test]
fn the_recipe_in_a_video_is_recorded() {
    let ws = TestWorkspace::new();
    for (name, bytes) in [("fox.mp4", MP4), ("fox.webm", WEBM)] {
        let images = vec![path(&ws.file(name, bytes))];
        let reference = ws.record(&RecordRequest { images, ..RecordRequest::default() }).reference.to_string();
        let recipe = ws.state(&reference).iteration.recipe;
        assert_eq!((recipe.prompt.as_str(), recipe.seed.map(|seed| seed.0)), (PROMPT, Some(41)), "{name}");
        assert_eq!((recipe.steps, recipe.model.as_deref()), (Some(12), Some("wan")), "{name}");
    }
}

#[test]
fn what_only_looks_like_a_video_is_refused_and_a_truncated_one_is_named() {
    let ws = TestWorkspace::new();
    for bytes in [&b"The wide road to API_KEY=sk-secret"[..], b"\0\0\0\x18ftypM4A \0\0\0\0isommp42", b"\x1a\x45\xdf"] {
        let images = vec![path(&ws.file("secret.mp4", bytes))];
        let error = ws.try_record(&RecordRequest { images, ..prompt("a fox") }).unwrap_err();
        assert!(error.message.starts_with("images[0] is not an image or video of a known type: "), "{}", error.message);
        assert!(error.hint.contains("MP4"), "{}", error.hint);
    }
    for (bytes, truncated) in [(MP4, false), (&MP4[..MP4.len() / 2], true), (&WEBM[..WEBM.len() - 20], true)] {
        let images = vec![path(&ws.file("cut.mp4", bytes))];
        let recorded = ws.record(&RecordRequest { images, ..prompt("a fox") });
        let warnings = serde_json::to_string(&recorded.warnings).unwrap();
        assert_eq!(warnings.contains("truncated"), truncated, "{warnings}");
    }
}

#[test]
fn comparing_says_that_frames_are_not_decoded_and_compares_the_rest() {
    let ws = TestWorkspace::new();
    let (video, _) = recorded(&ws, "fox.mp4", MP4);
    let (still, _) = recorded(&ws, "fox.png", &png(64, 48, 90));
    for references in [[&video, &still], [&still, &video]] {
        let request = CompareRequest { references: references.map(Clone::clone).to_vec(), ..CompareRequest::default() };
        let view = ws.api().compare(&request).unwrap();
        let difference = &view.differences[0];
        assert!(difference.visual.is_none());
        let problem = difference.visual_problem.as_deref().unwrap();
        assert!(problem.contains("is a video (video/mp4), and frames of videos are not decoded"), "{problem}");
    }
    let ids = [&video, &still].map(|reference| ws.api().resolve(reference).unwrap());
    let comparison = ws.workspace.compare(&ids).unwrap();
    let panels: Vec<_> = comparison
        .iterations
        .iter()
        .map(|(reference, state)| Panel {
            image: state.iteration.images.first().map(|image| image.hash),
            title: reference.to_string(),
            ..Default::default()
        })
        .collect();
    for how in [Render::SideBySide, Render::Heatmap] {
        assert!(ws.workspace.render(how, &panels, &CallContext::default()).unwrap().is_some());
    }
}

#[test]
fn a_folder_with_videos_is_imported_exported_and_verified() {
    let ws = TestWorkspace::new();
    let folder = ws.dir.path().join("output");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("fox_00001.mp4"), MP4).unwrap();
    fs::write(folder.join("fox_00002.webm"), WEBM).unwrap();
    fs::write(folder.join("plan.tiff"), b"II*\0\x08\0\0\0\0\0\0\0\0\0").unwrap();
    fs::write(folder.join("song.m4v"), b"\0\0\0\x18ftypM4A \0\0\0\0isommp42").unwrap();
    let request = FilesRequest { paths: vec![folder], ..FilesRequest::default() };
    let report = ws.workspace.import_files(&actor(), &request, &AtomicBool::new(false)).unwrap();
    assert_eq!((report.files, report.images), (4, 3));
    let problems: Vec<&str> = report.problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(problems, ["not an image or video of a known type"]);
    let notes = report.notes.join("\n");
    assert!(notes.contains("2 files are videos (1 MP4, 1 WebM)"), "{notes}");
    assert!(notes.contains("1 file (TIFF) is of a type that cannot be decoded"), "{notes}");
    let again = ws.workspace.import_files(&actor(), &request, &AtomicBool::new(false)).unwrap();
    assert_eq!((again.iterations, again.skipped), (0, 3));

    let verified = ws.workspace.verify().unwrap();
    assert!(verified.is_whole() && verified.images == 3, "{verified:?}");
    let sent = ws.dir.path().join("sent");
    let exported = ws.workspace.export_folder(&ExportRequest::default(), &sent).unwrap();
    assert_eq!((exported.images, exported.problems.len()), (3, 0));
    let files = files_below(&sent);
    let with = |ending: &str| files.keys().filter(|path| path.extension().is_some_and(|it| it == ending)).count();
    assert_eq!((with("mp4"), with("webm"), with("tif")), (1, 1, 1));
    assert!(files.keys().any(|path| fs::read(path).unwrap() == MP4), "the bytes of a video are exported as they are");
    let there = TestWorkspace::new();
    let back = FilesRequest { paths: vec![sent], ..FilesRequest::default() };
    let report = there.workspace.import_files(&actor(), &back, &AtomicBool::new(false)).unwrap();
    assert_eq!(report.exported.unwrap().images, 3);
}

#[test]
fn a_video_is_opened_in_parts_only_while_its_bytes_are_its_own() {
    let ws = TestWorkspace::new();
    let (_, video) = recorded(&ws, "fox.mp4", MP4);
    let (_, still) = recorded(&ws, "fox.png", &png(64, 48, 90));
    assert!(ws.workspace.open_video(still.hash).unwrap().is_none());
    for _ in 0..2 {
        let mut opened = ws.workspace.open_video(video.hash).unwrap().unwrap();
        assert_eq!((opened.mime_type, opened.bytes), ("video/mp4", MP4.len() as u64));
        let mut bytes = Vec::new();
        opened.file.rewind().unwrap();
        opened.file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, MP4);
    }
    let file = ws.workspace.original_path(&video);
    let damaged = [MP4, b"\0\0\0\x08free"].concat();
    fs::write(&file, damaged).unwrap();
    let error = Error::from(ws.workspace.open_video(video.hash).unwrap_err());
    assert_eq!(error.kind, ErrorKind::Damaged, "{error:?}");
}
