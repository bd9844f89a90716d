//! Importing Retake's own exports: folders with their references, bundles as events, and two machines merged into one
//! workspace.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use retake::internals::export::ExportRequest;
use retake::internals::import::{FilesReport, FilesRequest, ImportOptions, ImportReport};
use retake::internals::wire::{
    AnnotateRequest, ArchiveRequest, AuditRequest, GetRequest, IterationView, ListRequest, RecordRequest,
};
use retake_testutils::made::png;

use crate::support::*;

/// Creates two sessions, the second derived from the first, with ratings, titles, projects, batches and an archived
/// one.
fn studio(subject: &str) -> TestWorkspace {
    let ws = TestWorkspace::new();
    let picture = |n: u64, texts: &[(&str, &str)]| {
        vec![path(&ws.file(&format!("{subject}{n}.png"), &png(n + subject.len() as u64 * 100, texts)))]
    };
    let first = RecordRequest {
        images: picture(1, &[("parameters", "old text\nSteps: 9, Seed: 1, Version: v1")]),
        seed: Some(7.into()),
        title: Some(format!("{subject} <b>")),
        project: Some("zoo".into()),
        ..prompt(subject)
    };
    let id = ws.record(&first).session.id().to_string();
    ws.wait(60_000);
    ws.record(&RecordRequest {
        session_id: Some(id.clone()),
        images: [picture(2, &[("workflow", "{}")]), picture(3, &[])].concat(),
        title: None,
        project: None,
        ..first
    });
    ws.wait(60_000);
    let rate = AnnotateRequest { reference: format!("{id}#1"), rating: Some(4), ..AnnotateRequest::default() };
    ws.api().annotate(&rate).unwrap();
    ws.wait(60_000);
    let derived = RecordRequest {
        parent: Some(format!("{id}#1")),
        images: picture(4, &[]),
        ..prompt(&format!("{subject}, derived"))
    };
    let derived = ws.record(&derived).session.id().to_string();
    ws.wait(60_000);
    let away = ArchiveRequest { session_id: derived, reason: Some("sent".into()), ..ArchiveRequest::default() };
    ws.api().archive(&away).unwrap();
    ws
}

fn get(ws: &TestWorkspace, reference: &str) -> IterationView {
    ws.api().get(&GetRequest { reference: reference.to_owned(), ..GetRequest::default() }).unwrap()
}

/// Returns rows, iterations and audits of everything.
fn seen(ws: &TestWorkspace) -> Vec<String> {
    let rows = ws.list(&ListRequest::default()).sessions;
    let ids = rows.iter().flat_map(|row| (0..row.iteration_count()).map(|index| row.id().iteration(index)));
    let audits = rows.iter().map(|row| {
        let request = AuditRequest { session_id: row.id().to_string(), ..AuditRequest::default() };
        json(&ws.api().audit(&request).unwrap())
    });
    rows.iter().map(json).chain(ids.map(|id| json(&get(ws, &id.to_string())))).chain(audits).collect()
}

fn import_folder(ws: &TestWorkspace, dir: &std::path::Path, dry_run: bool) -> FilesReport {
    let request = FilesRequest { paths: vec![dir.to_owned()], dry_run, ..FilesRequest::default() };
    ws.workspace.import_files(&actor(), &request, &AtomicBool::new(false)).unwrap()
}

fn exported_folder(ws: &TestWorkspace) -> PathBuf {
    let dir = ws.dir.path().join("sent");
    let report = ws.workspace.export_folder(&ExportRequest::default(), &dir).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    dir
}

fn lines(ws: &TestWorkspace) -> Vec<u8> {
    let mut out = Vec::new();
    ws.workspace.export(&ExportRequest::default(), &mut out).unwrap();
    out
}

fn renumbering(ws: &TestWorkspace, lines: &[u8]) -> ImportReport {
    let options = ImportOptions { renumber: true, ..ImportOptions::default() };
    ws.workspace.import_lines(&mut &*lines, &options).unwrap()
}

#[test]
fn a_folder_comes_back_with_its_references_and_originals() {
    let from = studio("fox");
    let dir = exported_folder(&from);
    let to = TestWorkspace::new();
    let plan = import_folder(&to, &dir, true);
    assert_eq!(to.workspace.status().unwrap().events, 0);
    let report = import_folder(&to, &dir, false);
    assert_eq!((report.iterations, &report.problems), (0, &vec![]), "nothing is imported as a mere image");
    let (planned, exported) = (plan.exported.unwrap(), report.exported.unwrap());
    assert_eq!((exported.sessions, exported.events, exported.images), (2, 7, 4));
    assert_eq!((planned.sessions, planned.events, planned.images), (2, 7, 4));
    assert_eq!(seen(&to), seen(&from));
    assert_eq!(
        files_below(&to.root().join("images")).into_values().sum::<u64>(),
        files_below(&from.root().join("images")).into_values().sum::<u64>()
    );
    assert!(to.workspace.verify().unwrap().is_whole(), "the originals are byte for byte what they were");

    // In the original workspace, and again in the other one, there is nothing new.
    for ws in [&from, &to] {
        let before = ws.written();
        let again = import_folder(ws, &dir, false);
        let exported = again.exported.unwrap();
        assert_eq!((again.iterations, exported.events, exported.images, exported.skipped), (0, 0, 0, 7));
        assert_eq!(ws.written(), before);
    }
}

#[test]
fn a_file_of_a_folder_that_was_changed_is_named() {
    let from = studio("fox");
    let dir = exported_folder(&from);
    let picture = files_below(&dir).into_keys().find(|file| file.ends_with("000.png")).unwrap();
    fs::write(&picture, b"edited").unwrap();
    let to = TestWorkspace::new();
    let report = import_folder(&to, &dir, false);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].reason.contains("000.png is missing or changed"), "{:?}", report.problems);
    assert_eq!(report.exported.unwrap().events, 7);
}

#[test]
fn a_bundle_comes_back_as_events() {
    let from = studio("fox");
    let mut bundle = Vec::new();
    from.workspace.export_bundle(&ExportRequest::default(), &mut bundle).unwrap();
    let file = PathBuf::from(from.file("evidence.tar", &bundle));
    let to = TestWorkspace::new();
    let report = to.workspace.import_bundle(&file, &ImportOptions::default()).unwrap().unwrap();
    assert_eq!((report.sessions, report.events, report.images, report.problems.len()), (2, 7, 4, 0));
    assert_eq!(seen(&to), seen(&from));
    let again = to.workspace.import_bundle(&file, &ImportOptions::default()).unwrap().unwrap();
    assert_eq!((again.events, again.images, again.skipped), (0, 0, 7));
    let other = PathBuf::from(from.file("other.tar", b"no bundle"));
    assert_eq!(to.workspace.import_bundle(&other, &ImportOptions::default()).unwrap(), None);
}

#[test]
fn two_machines_are_merged_under_new_ids() {
    let (laptop, desktop) = (studio("fox"), studio("sailor"));
    let desktop_before = seen(&desktop);
    let from_laptop = lines(&laptop);
    let plain = desktop.workspace.import(&mut &*from_laptop).unwrap();
    assert_eq!(plain.problems.len(), 2);
    assert!(plain.ids_taken, "{:?}", plain.problems);

    let planned = |from: &[u8]| {
        let options = ImportOptions { renumber: true, dry_run: true, ..ImportOptions::default() };
        let report = desktop.workspace.import_lines(&mut &*from, &options).unwrap();
        ImportReport { dry_run: false, ..report }
    };
    let (plan, report) = (planned(&from_laptop), renumbering(&desktop, &from_laptop));
    assert_eq!((report.sessions, report.events, report.problems.len()), (2, 7, 0), "{report:?}");
    assert_eq!(plan, report, "the dry run predicts what happens");
    let new: Vec<String> = report.renumbered.iter().map(|it| format!("{} {}", it.from, it.to)).collect();
    assert_eq!(new, ["session-2025-12-11-001 session-2025-12-11-003", "session-2025-12-11-002 session-2025-12-11-004"]);
    let now = seen(&desktop);
    assert!(desktop_before.iter().all(|line| now.contains(line)), "what was here is as it was");
    let (there, here) = (get(&laptop, "session-2025-12-11-001#1"), get(&desktop, "session-2025-12-11-003#1"));
    assert_eq!((there.timestamp, &there.recipe), (here.timestamp, &here.recipe));
    assert_eq!(json(&there.annotations), json(&here.annotations));
    let derived = get(&desktop, "session-2025-12-11-004#0");
    assert_eq!(derived.parent.unwrap().to_string(), "session-2025-12-11-003#1", "lineage follows");
    let row = desktop.api().session("session-2025-12-11-004").unwrap();
    assert!(row.archived());
    let request = AuditRequest { session_id: "session-2025-12-11-003".into(), ..AuditRequest::default() };
    let audit = json(&desktop.api().audit(&request).unwrap());
    assert!(audit.contains("from session-2025-12-11-001 of another workspace"), "{audit}");
    assert!(desktop.workspace.verify().unwrap().is_whole());

    // Importing again adds nothing; after more work there, it adds only that.
    let before = desktop.written();
    let (plan, again) = (planned(&from_laptop), renumbering(&desktop, &from_laptop));
    assert_eq!(plan, again);
    assert_eq!((again.events, again.skipped, again.renumbered.len()), (0, 7, 0));
    assert_eq!(desktop.written(), before);
    let more = RecordRequest { session_id: Some("session-2025-12-11-001".into()), ..prompt("more of the fox") };
    laptop.wait(60_000);
    laptop.record(&more);
    let from_laptop = lines(&laptop);
    let (plan, later) = (planned(&from_laptop), renumbering(&desktop, &from_laptop));
    assert_eq!(plan, later);
    assert_eq!((later.sessions, later.events, later.skipped), (1, 1, 7));
    assert_eq!(get(&desktop, "session-2025-12-11-003#2").recipe.recipe.prompt, "more of the fox");
}

#[test]
fn a_line_that_was_edited_is_reported() {
    let from = studio("glass");
    let text = String::from_utf8(lines(&from)).unwrap();
    let edited: Vec<String> =
        text.lines()
            .map(|line| {
                if line.contains(r#""kind":"recorded""#) { line.replacen("glass", "GLASS", 1) } else { line.to_owned() }
            })
            .collect();
    let to = TestWorkspace::new();
    let report = to.workspace.import(&mut edited.join("\n").as_bytes()).unwrap();
    assert_eq!((report.events, report.problems.len()), (7, 3), "{:?}", report.problems);
    assert!(report.problems[0].reason.contains("differs from the record"), "{:?}", report.problems);
    assert_eq!(seen(&to), seen(&from), "the record counts");
    let whole = TestWorkspace::new().workspace.import(&mut text.as_bytes()).unwrap();
    assert_eq!(whole.problems, []);
}
