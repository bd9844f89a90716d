//! Annotating, archiving and restoring.

use retake::internals::wire::{AnnotateRequest, ArchiveRequest, ErrorKind, ListRequest};

use crate::support::*;

#[test]
fn the_newest_word_counts() {
    let ws = TestWorkspace::new();
    let id = ws.session(2);
    let annotate = |request: AnnotateRequest| json(&checked(ws.api().annotate(&request)).unwrap());
    let base = || AnnotateRequest { reference: format!("{id}#0"), ..AnnotateRequest::default() };
    ws.wait(60_000);
    assert_eq!(
        annotate(AnnotateRequest { rating: Some(4), tags: Some(vec!["keeper".into()]), ..base() }),
        r#"{"reference":"session-2025-12-11-001#0","annotations":{"rating":4,"tags":["keeper"]}}"#
    );
    assert_eq!(
        annotate(AnnotateRequest { rating: Some(2), note: Some("too dark".into()), ..base() }),
        r#"{"reference":"session-2025-12-11-001#0","annotations":{"rating":2,"tags":["keeper"],"note":"too dark"}}"#
    );
    assert_eq!(
        annotate(AnnotateRequest { tags: Some(Vec::new()), note: Some(String::new()), ..base() }),
        r#"{"reference":"session-2025-12-11-001#0","annotations":{"rating":2}}"#
    );
    let row = ws.api().session(&id).unwrap();
    assert_eq!(row.last_modified_at(), time("2025-12-11T10:16:31.123Z"), "annotations count as work");
    assert_eq!(row.iteration_count(), 2);
}

#[test]
fn an_annotation_that_is_retried_is_one() {
    let ws = TestWorkspace::new();
    let id = ws.session(2);
    let request = AnnotateRequest {
        reference: format!("{id}#0"),
        rating: Some(4),
        idempotency_key: Some("k".into()),
        ..AnnotateRequest::default()
    };
    ws.api().annotate(&request).unwrap();
    let before = ws.written();
    ws.api().annotate(&request).unwrap();
    let other = AnnotateRequest { rating: Some(5), ..request.clone() };
    fails(ws.api().annotate(&other), ErrorKind::Conflict, "annotating session-2025-12-11-001#0");
    let other = AnnotateRequest { reference: format!("{id}#1"), ..request };
    fails(ws.api().annotate(&other), ErrorKind::Conflict, "was already used");
    assert_eq!(ws.written(), before);
}

#[test]
fn archiving_twice_is_archiving_once() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let before = ws.api().session(&id).unwrap();
    ws.wait(60_000);
    let request = ArchiveRequest { session_id: id, reason: Some("done".into()), ..ArchiveRequest::default() };
    let archived = checked(ws.api().archive(&request)).unwrap();
    assert!(archived.archived());
    assert_eq!(archived.last_modified_at(), before.last_modified_at(), "archiving is no work");
    let events = ws.written();
    assert_eq!(ws.api().archive(&request).unwrap(), archived);
    assert_eq!(ws.written(), events);

    assert_eq!(ws.api().restore(&request).unwrap(), before);
    let events = ws.written();
    assert_eq!(ws.api().restore(&request).unwrap(), before);
    assert_eq!(ws.written(), events);
    assert_eq!(ws.list(&ListRequest::default()).sessions, [before]);
}

#[test]
fn an_archive_that_is_retried_after_a_restore_stays_restored() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let archive =
        ArchiveRequest { session_id: id.clone(), idempotency_key: Some("k".into()), ..ArchiveRequest::default() };
    ws.api().archive(&archive).unwrap();
    let restore = ArchiveRequest { session_id: id, ..ArchiveRequest::default() };
    ws.api().restore(&restore).unwrap();
    assert!(!ws.api().archive(&archive).unwrap().archived(), "a retry is no second archiving");
}
