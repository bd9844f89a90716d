//! Exported folders: images with embedded recipes, a page that tells the story, contact sheets.

use std::fs;
use std::path::PathBuf;

use retake::internals::export::{ExportReport, ExportRequest};
use retake::internals::images::metadata;
use retake::internals::wire::{AnnotateRequest, ErrorKind, RecordRequest};

use crate::support::*;
use retake_testutils::made::png;

/// Records a session with a reroll, a rating and text that looks like markup.
fn session(ws: &TestWorkspace) -> String {
    let picture = |n: u64| vec![path(&ws.file(&format!("{n}.png"), &png(n, &[])))];
    let first = RecordRequest {
        images: picture(1),
        model: Some("sdxl".into()),
        seed: Some(retake::internals::model::Seed(7)),
        steps: Some(20),
        title: Some("Foxes <b>&</b> [snow](http://x)".into()),
        ..prompt("a red fox, snow\n# not a heading <script>alert(1)</script>")
    };
    let id = ws.record(&first).session.id().to_string();
    ws.wait(60_000);
    ws.record(&RecordRequest {
        session_id: Some(id.clone()),
        images: [picture(2), picture(3)].concat(),
        seed: Some(retake::internals::model::Seed(8)),
        title: None,
        ..first
    });
    ws.api()
        .annotate(&AnnotateRequest {
            reference: id.clone(),
            rating: Some(4),
            tags: Some(vec!["hero".into()]),
            note: Some("| tail *too* long".into()),
            ..AnnotateRequest::default()
        })
        .unwrap();
    id
}

fn sent(ws: &TestWorkspace, ids: &[&str]) -> (PathBuf, ExportReport) {
    let dir = ws.dir.path().join("sent");
    let session_ids = ids.iter().map(|id| id.parse().unwrap()).collect();
    let report = ws.workspace.export_folder(&ExportRequest { session_ids, omit_images: false }, &dir).unwrap();
    (dir, report)
}

#[test]
fn an_exported_folder_is_complete() {
    let ws = TestWorkspace::new();
    let id = session(&ws);
    let (dir, report) = sent(&ws, &[&id]);
    assert_eq!((report.sessions, report.images, report.problems.len()), (1, 3, 0));
    let names: Vec<String> =
        files_below(&dir).keys().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["000.png", "001-1.png", "001-2.png", "contact-sheet.png", "session.jsonl", "session.md"]);
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("session_page", fs::read_to_string(dir.join("session.md")).unwrap());
    });
    let sheet = image::open(dir.join("contact-sheet.png")).unwrap();
    assert!(sheet.width() > 100);
}

#[test]
fn an_exported_image_carries_its_recipe_and_its_reference() {
    let ws = TestWorkspace::new();
    let id = session(&ws);
    let (dir, _) = sent(&ws, &[&id]);
    let bytes = fs::read(dir.join("001-2.png")).unwrap();
    let reading = metadata::read(&bytes);
    assert_eq!(reading.recipe.seed, Some(retake::internals::model::Seed(8)));
    assert_eq!(reading.recipe.model.as_deref(), Some("sdxl"));
    assert!(reading.recipe.prompt.starts_with("a red fox, snow"));
    let reference = reading.raw.iter().find(|raw| raw.key == "retake").unwrap();
    assert_eq!(reference.text, format!("{id}#1"));
    let pixels = |bytes: &[u8]| image::load_from_memory(bytes).unwrap().to_rgba8();
    assert_eq!(pixels(&bytes), pixels(&png(3, &[])), "its pixels are untouched");
}

#[test]
fn several_sessions_get_a_folder_each_and_nothing_is_overwritten() {
    let ws = TestWorkspace::new();
    let id = session(&ws);
    let other = ws.session(2);
    let (dir, report) = sent(&ws, &[]);
    assert_eq!(report.sessions, 2);
    assert!(dir.join(&id).join("session.md").is_file() && dir.join(&other).join("session.md").is_file());
    let again = ws.workspace.export_folder(&ExportRequest::default(), &dir);
    fails(again, ErrorKind::Invalid, "this folder already exists");

    fs::remove_dir_all(ws.root().join("images")).unwrap();
    let report = ws.workspace.export_folder(&ExportRequest::default(), &ws.dir.path().join("less")).unwrap();
    assert_eq!((report.sessions, report.images, report.problems.len()), (2, 0, 3), "{:?}", report.problems);
}

#[test]
fn long_recipes_are_exported_in_full_and_many_images_on_several_sheets() {
    let ws = TestWorkspace::new();
    let mut parameters = serde_json::Map::new();
    for number in 0..12 {
        parameters.insert(format!("Note {number}"), "n".repeat(1500).into());
    }
    let images = vec![path(&ws.file("1.png", &png(1, &[])))];
    let first = RecordRequest { images, parameters, seed: Some(retake::internals::model::Seed(7)), ..prompt("a fox") };
    let id = ws.record(&first).session.id().to_string();
    for number in 2..=13 {
        ws.wait(1000);
        let images = vec![path(&ws.file(&format!("{number}.png"), &png(number, &[])))];
        ws.record(&RecordRequest { session_id: Some(id.clone()), images, ..prompt("a fox") });
    }
    let (dir, report) = sent(&ws, &[&id]);
    assert_eq!(report.images, 13);
    assert!(dir.join("contact-sheet.png").is_file() && dir.join("contact-sheet-2.png").is_file());
    assert!(fs::read_to_string(dir.join("session.md")).unwrap().contains("contact-sheet-2.png"));
    let recipe = metadata::read_file(&dir.join("000.png")).unwrap().recipe;
    assert_eq!((recipe.parameters.len(), &recipe.parameters["Note 11"]), (12, &"n".repeat(1500).into()));
}
