//! Export and import: the same sessions, ids, times and hashes in another workspace, skipping bad parts of the file.

use retake::internals::export::ExportRequest;
use retake::internals::import::ImportReport;
use retake::internals::wire::{
    AnnotateRequest, ArchiveRequest, AuditRequest, ErrorKind, GetRequest, ImageRequest, ListRequest, RecordRequest,
};

use crate::support::*;

/// Creates three sessions with everything that can happen to one.
fn full() -> TestWorkspace {
    let ws = TestWorkspace::new();
    let picture = path(&ws.file("cat.png", &png(40, 30, 7)));
    let mut parameters = serde_json::Map::new();
    parameters.insert("workflow".into(), "w".repeat(100_000).into());
    let request = RecordRequest {
        images: vec![picture.clone()],
        parameters,
        title: Some("Cats".into()),
        idempotency_key: Some("first".into()),
        created_at: Some("2024-02-29T10:00:00Z".into()),
        ..prompt(&"long ".repeat(10_000))
    };
    let id = ws.record(&request).session.id().to_string();
    ws.wait(1000);
    ws.record(&RecordRequest { session_id: Some(id.clone()), images: vec![picture], ..prompt("more") });
    let annotate = AnnotateRequest { reference: id.clone(), rating: Some(5), ..AnnotateRequest::default() };
    ws.api().annotate(&annotate).unwrap();
    let away = ArchiveRequest { session_id: id.clone(), reason: Some("done".into()), ..ArchiveRequest::default() };
    ws.api().archive(&away).unwrap();
    ws.record(&RecordRequest { parent: Some(format!("{id}#0")), ..prompt("elsewhere") });
    ws.session(3);
    ws
}

fn export(ws: &TestWorkspace, request: &ExportRequest) -> String {
    let mut out = Vec::new();
    let report = ws.workspace.export(request, &mut out).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    String::from_utf8(out).unwrap()
}

fn import(ws: &TestWorkspace, text: &str) -> ImportReport {
    ws.workspace.import(&mut text.as_bytes()).unwrap()
}

/// Returns everything that a reader can see of a workspace.
fn seen(ws: &TestWorkspace) -> String {
    let list = ws.list(&ListRequest::default());
    let audits = list.sessions.iter().map(|row| {
        let request = AuditRequest { session_id: row.id().to_string(), ..AuditRequest::default() };
        json(&ws.api().audit(&request).unwrap())
    });
    let iterations = list.sessions.iter().flat_map(|row| (0..row.iteration_count()).map(|n| row.id().iteration(n)));
    let shown = iterations.map(|id| {
        let request = GetRequest { reference: id.to_string(), ..GetRequest::default() };
        json(&ws.api().get(&request).unwrap())
    });
    let all: Vec<String> = audits.chain(shown).collect();
    format!("{}\n{}", json(&list.sessions), all.join("\n"))
}

#[test]
fn an_import_restores_the_same_sessions() {
    let ws = full();
    let text = export(&ws, &ExportRequest::default());
    assert!(text.starts_with(
        r#"{"type":"retake-export","version":1,"createdAt":"2025-12-11T10:15:33.123Z","program":"retake "#
    ));
    let other = TestWorkspace::new();
    let report = import(&other, &text);
    assert_eq!(
        (report.sessions, report.events, report.images, report.skipped, report.problems.len()),
        (3, 5 + 2 + 4, 1, 0, 0)
    );
    assert_eq!(seen(&other), seen(&ws));
    let picture = ImageRequest { reference: "session-2024-02-29-001#0".into(), image: None };
    assert_eq!(other.api().image(&picture).unwrap().data, png(40, 30, 7));
    assert!(other.workspace.verify().unwrap().is_whole());

    let again = import(&other, &text);
    assert_eq!((again.sessions, again.events, again.images, again.skipped), (0, 0, 0, 11));
    assert_eq!(seen(&other), seen(&ws));
    let retry = RecordRequest { idempotency_key: Some("first".into()), ..prompt("something else") };
    fails(other.try_record(&retry), ErrorKind::Conflict, "was already used");
    assert_eq!(other.session(1), "session-2025-12-11-003", "ids continue after the imported ones");
}

#[test]
fn people_can_read_the_lines() {
    let ws = full();
    let text = export(&ws, &ExportRequest::default());
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "image").count(), 1, "a shared picture is written once");
    assert!(kinds.iter().filter(|kind| **kind == "text").count() >= 2, "long texts have their own lines");
    let annotated = lines.iter().find(|line| line["kind"] == "annotated").unwrap();
    assert_eq!(annotated["session"], "session-2024-02-29-001");
    assert_eq!(annotated["actor"], serde_json::json!({"client": "test 1.0", "user": "ada"}));
    assert_eq!(annotated["data"], serde_json::json!({"index": 1, "rating": 5}));
    let recorded = lines.iter().find(|line| line["data"]["recipe"]["prompt"] == "more").unwrap();
    assert_eq!(recorded["data"]["parent"], "session-2024-02-29-001#0");
    assert_eq!(recorded["data"]["images"][0]["mimeType"], "image/png");
    let keys: Vec<&String> = recorded.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["type", "session", "seq", "kind", "at", "actor", "key", "data", "prev", "hash", "record"]);
}

#[test]
fn an_export_can_be_limited_to_sessions_or_leave_images_out() {
    let ws = full();
    let some = ExportRequest { session_ids: vec!["session-2025-12-11-002".parse().unwrap()], omit_images: true };
    assert!(!export(&ws, &some).contains("session-2024"));
    let bare = export(&ws, &ExportRequest { omit_images: true, ..ExportRequest::default() });
    assert!(!bare.contains(r#""type":"image""#));
    let other = TestWorkspace::new();
    import(&other, &bare);
    let picture = GetRequest { reference: "session-2024-02-29-001#0".into(), ..GetRequest::default() };
    assert!(other.api().get(&picture).unwrap().images[0].missing);
    import(&other, &export(&ws, &ExportRequest::default()));
    assert!(!other.api().get(&picture).unwrap().images[0].missing, "a later import brings the pictures");

    let unknown =
        ExportRequest { session_ids: vec!["session-2020-01-01-001".parse().unwrap()], ..ExportRequest::default() };
    let mut out = Vec::new();
    fails(ws.workspace.export(&unknown, &mut out), ErrorKind::NotFound, "there is no session session-2020-01-01-001");
    assert!(out.is_empty());
}

#[test]
fn a_missing_image_is_reported_and_the_rest_exported() {
    let ws = full();
    std::fs::remove_dir_all(ws.root().join("images")).unwrap();
    let mut out = Vec::new();
    let report = ws.workspace.export(&ExportRequest::default(), &mut out).unwrap();
    assert_eq!((report.sessions, report.events, report.images), (3, 11, 0));
    assert!(report.problems[0].starts_with("session-2024-02-29-001#0: image "), "{:?}", report.problems);
}

#[test]
fn a_bad_line_affects_only_what_follows_it_in_its_session() {
    let ws = full();
    let text = export(&ws, &ExportRequest::default());
    let lines: Vec<&str> = text.lines().collect();
    for number in 0..lines.len() {
        let altered = lines[number].replace(r#""record":""#, r#""record":"AAAA"#);
        let bad = ["", "{", "not json", r#"{"type":"poem"}"#, &altered][number % 5];
        let mut damaged = lines.clone();
        damaged[number] = bad;
        let other = TestWorkspace::new();
        let report = import(&other, &damaged.join("\n"));
        assert!(report.sessions >= 2, "line {number} as {bad:?}: {report:?}");
        assert!(other.list(&ListRequest::default()).sessions.iter().all(|row| row.iteration_count() > 0));
        let rest = import(&other, &text);
        assert_eq!(rest.problems, [], "line {number} as {bad:?}");
        assert_eq!(seen(&other), seen(&ws), "line {number} as {bad:?}");
    }
}

#[test]
fn a_bad_line_is_reported() {
    let ws = full();
    let text = export(&ws, &ExportRequest::default());
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let image = lines.iter().position(|line| line.contains(r#""type":"image""#)).unwrap();
    lines[image] = lines[image].replace(r#""data":"iVBO"#, r#""data":"iVBP"#);
    let event = lines.iter().position(|line| line.contains(r#""kind":"annotated""#)).unwrap();
    lines[event] = lines[event].replace(r#""record":""#, r#""record":"%%"#);
    let report = import(&TestWorkspace::new(), &lines.join("\n"));
    let problems: Vec<_> = report.problems.iter().map(|problem| (problem.line, problem.reason.as_str())).collect();
    assert_eq!(problems[0].0, image as u64 + 1);
    assert!(problems[0].1.starts_with("the image does not match the hash "), "{problems:?}");
    assert_eq!(problems[1].0, event as u64 + 1);
    assert!(problems[1].1.starts_with("the record of session-2024-02-29-001 is not base64"), "{problems:?}");
    assert_eq!(problems[2].0, event as u64 + 2, "what follows cannot be taken in either");
    assert!(problems[2].1.contains("session-2024-02-29-001: "), "{problems:?}");
    assert!(problems[2].1.ends_with("1 event was not imported"), "{problems:?}");
}

#[test]
fn a_session_that_differs_is_reported_and_left_unchanged() {
    let (ws, other) = (full(), TestWorkspace::new());
    other.session(2);
    let before = other.api().audit(&AuditRequest { session_id: "session-2025-12-11-001".into(), ..Default::default() });
    let report = import(&other, &export(&ws, &ExportRequest::default()));
    assert_eq!(report.sessions, 2);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert!(report.problems[0].reason.starts_with("session-2025-12-11-001: "), "{:?}", report.problems);
    let after = other.api().audit(&AuditRequest { session_id: "session-2025-12-11-001".into(), ..Default::default() });
    assert_eq!(after.unwrap(), before.unwrap());
}

#[test]
fn other_files_are_refused_as_exports() {
    let ws = TestWorkspace::new();
    for bytes in [&b""[..], b"\n\n", b"hello\nworld", &png(64, 64, 3), &[b'x'; 100_000], b"[1,2]\n{}"] {
        fails(ws.workspace.import(&mut &*bytes), ErrorKind::Invalid, "nor a Retake export");
    }
    let newer = br#"{"type":"retake-export","version":2}"#;
    fails(ws.workspace.import(&mut &newer[..]), ErrorKind::Invalid, "the export has version 2");
}
