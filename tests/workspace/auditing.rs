//! Auditing and verifying: every event is listed, and every missing or damaged image is reported.

use std::fs;

use retake::internals::wire::{AnnotateRequest, ArchiveRequest, AuditRequest, RecordRequest};

use crate::support::*;

fn audit(ws: &TestWorkspace, id: &str) -> retake::internals::wire::AuditView {
    checked(ws.api().audit(&AuditRequest { session_id: id.into(), ..AuditRequest::default() })).unwrap()
}

#[test]
fn everything_that_happened_with_who_and_why() {
    let ws = TestWorkspace::new();
    let id = ws.record(&RecordRequest { title: Some("Cats".into()), ..prompt("a cat") }).session.id().to_string();
    let annotate = AnnotateRequest { reference: id.clone(), rating: Some(5), ..AnnotateRequest::default() };
    ws.api().annotate(&annotate).unwrap();
    let away = ArchiveRequest { session_id: id.clone(), reason: Some("shipped".into()), ..ArchiveRequest::default() };
    ws.api().archive(&away).unwrap();

    let view = audit(&ws, &id);
    let reported: Vec<_> =
        view.events.iter().map(|event| (event.seq, event.kind.as_str(), event.summary.as_str())).collect();
    assert_eq!(
        reported,
        [
            (0, "started", r#"session started: title "Cats""#),
            (1, "recorded", "a cat"),
            (2, "annotated", "rating 5"),
            (3, "archived", "archived"),
        ]
    );
    assert_eq!(view.events[3].reason.as_deref(), Some("shipped"));
    assert_eq!(view.events[1].index, Some(0));
    assert!(view.events.iter().all(|event| event.actor == actor()));
    assert!(view.events.windows(2).all(|pair| pair[1].prev == pair[0].hash));
    assert!(json(&view).contains(
        r#""totalEvents":4,"chain":{"holds":true,"faults":[]},"images":{"checked":0,"missing":[],"damaged":[]}}"#
    ));
}

#[test]
fn a_long_trail_comes_in_pages() {
    let ws = TestWorkspace::new();
    let id = ws.session(300);
    let mut request = AuditRequest { session_id: id, limit: Some(1000), cursor: None };
    let mut seqs = Vec::new();
    loop {
        let page = checked(ws.api().audit(&request)).unwrap();
        assert_eq!(page.total_events, 301);
        assert!(page.chain.holds);
        assert_eq!(page.images.is_some(), request.cursor.is_none(), "images are checked once");
        seqs.extend(page.events.iter().map(|event| event.seq));
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seqs, (0..=300).collect::<Vec<_>>());
}

#[test]
fn missing_and_damaged_images_are_named_with_their_iterations() {
    let ws = TestWorkspace::new();
    let (first, second) = (path(&ws.file("1.png", &png(2, 2, 1))), path(&ws.file("2.png", &png(2, 2, 2))));
    let request = RecordRequest { images: vec![first.clone(), second], ..prompt("a cat") };
    let id = ws.record(&request).session.id().to_string();
    ws.record(&RecordRequest { session_id: Some(id.clone()), images: vec![first], ..prompt("again") });
    let whole = ws.workspace.verify().unwrap();
    assert!(whole.is_whole(), "{whole:?}");
    assert_eq!((whole.sessions, whole.events, whole.images), (1, 3, 2));

    let get = retake::internals::wire::GetRequest { reference: format!("{id}#0"), ..Default::default() };
    let images = ws.api().get(&get).unwrap().images;
    let file = |n: usize| {
        let hash = images[n].hash.to_string();
        ws.root().join("images").join(&hash[..2]).join(&hash[2..])
    };
    fs::remove_file(file(0)).unwrap();
    fs::write(file(1), "something else").unwrap();

    let found = audit(&ws, &id).images.unwrap();
    assert_eq!(found.checked, 2);
    let missing: Vec<String> = found.missing.iter().map(|fault| fault.reference.to_string()).collect();
    assert_eq!(missing, [format!("{id}#0"), format!("{id}#1")]);
    assert_eq!(found.damaged[0].hash, images[1].hash);

    let broken = ws.workspace.verify().unwrap();
    assert!(!broken.is_whole());
    assert_eq!(broken.problems.len(), 3, "{:?}", broken.problems);
    assert!(broken.problems[0].starts_with(&format!("{id}#0: image {} is missing: ", images[0].hash)));
    assert!(broken.problems[1].starts_with(&format!("{id}#0: image {} is damaged: ", images[1].hash)));
    assert!(broken.problems[2].starts_with(&format!("{id}#1: image {} is missing: ", images[0].hash)));
}

#[test]
fn a_healthy_workspace_verifies() {
    let ws = TestWorkspace::new();
    let picture = path(&ws.file("1.png", &png(2, 2, 1)));
    ws.record(&RecordRequest { images: vec![picture], ..prompt("a cat") });
    assert!(!ws.workspace.repair().unwrap().repaired);
    let status = ws.workspace.status().unwrap();
    assert_eq!(status.format_version, Some(1));
    assert_eq!((status.sessions, status.archived, status.events), (1, 0, 2));
    assert_eq!((status.recoveries, status.unread_recoveries.len()), (0, 0));
    assert!(status.sizes.journal > 0 && status.sizes.images > 0, "{:?}", status.sizes);
    assert_eq!(status.sizes.quarantine, 0);
}
