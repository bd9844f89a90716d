//! Missing or altered originals, stored and linked: verify reports them with their iterations and how to restore them,
//! and no command hides an iteration because of its image.

use std::fs;
use std::sync::atomic::AtomicBool;

use retake::internals::export::ExportRequest;
use retake::internals::images::ThumbSide;
use retake::internals::import::FilesRequest;
use retake::internals::model::SessionId;
use retake::internals::wire::{
    AuditRequest, CompareRequest, ErrorKind, GetRequest, ImageRequest, IterationsRequest, ListRequest, RecordRequest,
    ResumeRequest, SearchRequest, VerifyView,
};

use crate::support::*;
use retake_testutils::made::{png, write};

const KEPT: &str = "session-2025-12-11-001#0";
const MOVED: &str = "session-2024-05-01-001#0";
const CHANGED: &str = "session-2024-05-01-001#1";

/// Creates a workspace in which one stored original is missing, one linked original was moved away, and another
/// altered. Their thumbnails are missing too.
fn workspace() -> TestWorkspace {
    let ws = TestWorkspace::new();
    ws.record(&RecordRequest { images: vec![path(&ws.file("kept.png", &png(1, &[])))], ..prompt("a kept fox") });
    let dir = ws.dir.path().join("pictures");
    for (name, number, at) in [("moved.png", 2, 0), ("changed.png", 3, 60)] {
        let text = format!("a linked fox {number}\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: {number}");
        write(&dir.join(name), &png(number, &[("parameters", &text)]), 1_714_564_800 + at);
    }
    let request = FilesRequest { paths: vec![dir.clone()], link: true, ..FilesRequest::default() };
    assert_eq!(ws.workspace.import_files(&actor(), &request, &AtomicBool::new(false)).unwrap().images, 2);
    assert!(ws.workspace.verify().unwrap().is_whole());
    fs::remove_dir_all(ws.root().join("images")).unwrap();
    fs::rename(dir.join("moved.png"), dir.join("elsewhere.png")).unwrap();
    fs::write(dir.join("changed.png"), png(4, &[])).unwrap();
    ws.reopen_after(|root| fs::remove_dir_all(root.join("cache")).unwrap())
}

#[test]
fn verify_lists_each_and_how_to_restore_it() {
    let ws = workspace();
    let view = VerifyView::from(ws.workspace.verify().unwrap());
    let found = &view.report;
    assert_eq!((view.whole, found.images), (false, 3));
    let of = |reference: &str| {
        let mut problems = found.problems.iter().filter(|problem| problem.starts_with(&format!("{reference}: image ")));
        problems.next().unwrap().as_str()
    };
    let (kept, moved, changed) = (of(KEPT), of(MOVED), of(CHANGED));
    assert_eq!(found.problems.len(), 3, "{:#?}", found.problems);
    assert!(kept.contains(" is missing: "), "{kept}");
    assert!(moved.contains(" is no longer where it was linked: ") && moved.ends_with("moved.png"), "{moved}");
    assert!(changed.contains(" was changed where it is linked: ") && changed.ends_with("changed.png"), "{changed}");
    let hint = view.hint.as_ref().unwrap();
    assert!(!hint.contains("retake repair"), "no event is wrong: {hint}");
    assert!(
        hint.contains("import or record the image files again") && hint.contains("linked originals are in now"),
        "{hint}"
    );

    // As the hint says: moved back, or recorded again.
    let dir = ws.dir.path().join("pictures");
    fs::rename(dir.join("elsewhere.png"), dir.join("moved.png")).unwrap();
    ws.record(&RecordRequest { images: vec![path(&ws.file("again.png", &png(1, &[])))], ..prompt("the fox again") });
    let left = ws.workspace.verify().unwrap().problems;
    assert!(left.len() == 1 && left[0].starts_with(CHANGED), "{left:?}");
}

#[test]
fn every_verb_still_shows_the_iteration() {
    let ws = workspace();
    let references = [KEPT, MOVED, CHANGED].map(str::to_owned);
    for (reference, gone) in references.iter().zip([true, true, false]) {
        let get = GetRequest { reference: reference.clone(), ..GetRequest::default() };
        let view = checked(ws.api().get(&get)).unwrap();
        assert!(view.recipe.recipe.prompt.contains("fox"));
        assert_eq!((view.images.len(), view.images[0].missing), (1, gone), "{reference}");
        let image = ImageRequest { reference: reference.clone(), image: None };
        let what = if gone { "is missing" } else { "is damaged" };
        fails(ws.api().image(&image), ErrorKind::Damaged, what);
        let kind = if gone { ErrorKind::NotFound } else { ErrorKind::Damaged };
        fails(ws.workspace.thumbnail(view.images[0].hash, ThumbSide::Small), kind, what);
        let resume = ResumeRequest { reference: Some(reference.clone()) };
        assert!(checked(ws.api().resume(&resume)).unwrap().recipe.recipe.prompt.contains("fox"));
    }
    assert_eq!(ws.list(&ListRequest::default()).total_sessions, 2);
    for session_id in ["session-2025-12-11-001", "session-2024-05-01-001"].map(str::to_owned) {
        let many = if session_id.contains("2024") { 2 } else { 1 };
        let request = IterationsRequest { session_id: session_id.clone(), ..IterationsRequest::default() };
        assert_eq!(checked(ws.api().iterations(&request)).unwrap().iterations.len(), many);
        let id: SessionId = session_id.parse().unwrap();
        assert_eq!(ws.workspace.steps((0..2).map(|index| id.iteration(index))).unwrap().len(), many);
        assert_eq!(ws.workspace.strip(id, 0, 10).unwrap().steps.len(), many);
        let audit = AuditRequest { session_id, ..AuditRequest::default() };
        let check = checked(ws.api().audit(&audit)).unwrap().images.unwrap();
        assert_eq!(check.missing.len() + check.damaged.len(), many);
    }

    let search = |request: SearchRequest| checked(ws.api().search(&request)).unwrap().iterations.len();
    assert_eq!(search(SearchRequest { query: Some("fox".into()), ..SearchRequest::default() }), 3);
    let like = SearchRequest { similar_to: Some(MOVED.into()), ..SearchRequest::default() };
    assert!(ws.api().search(&like).is_ok(), "what it looked like is remembered");

    let request = CompareRequest { references: references.to_vec(), render: None };
    let view = checked(ws.api().compare(&request)).unwrap();
    assert_eq!(view.iterations.len(), 3);
    assert!(view.differences.iter().all(|it| it.visual.is_none() && it.visual_problem.is_some()), "{view:?}");
    let drawn = ws.api().render(&view, None).unwrap().unwrap();
    assert!(drawn.pixels().width() > 300, "with an empty place for each");

    let mut out = Vec::new();
    let report = ws.workspace.export(&ExportRequest::default(), &mut out).unwrap();
    assert_eq!((report.sessions, report.images, report.problems.len()), (2, 0, 3), "{report:?}");
    let folder = ws.dir.path().join("exported");
    let report = ws.workspace.export_folder(&ExportRequest::default(), &folder).unwrap();
    assert_eq!((report.sessions, report.images), (2, 0), "{report:?}");
    assert!(!report.problems.is_empty());
    let report = ws.workspace.export_bundle(&ExportRequest::default(), &mut Vec::new()).unwrap();
    assert_eq!((report.sessions, report.images), (2, 0), "{report:?}");
}
