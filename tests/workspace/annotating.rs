//! Annotating, archiving and restoring.

use retake::internals::wire::{
    AnnotateRequest, ArchiveRequest, AuditRequest, ErrorKind, ListRequest, RecordRequest, SearchRequest, UpdateRequest,
};

use crate::support::*;

#[test]
fn the_latest_annotation_counts() {
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
    assert_eq!(archived.last_modified_at(), before.last_modified_at(), "archiving is not a modification");
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
    assert!(!ws.api().archive(&archive).unwrap().archived(), "a retry does not archive again");
}

#[test]
fn a_rating_can_be_removed() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let annotate = |text: &str| {
        let request: AnnotateRequest = serde_json::from_str(text).unwrap();
        json(&ws.api().annotate(&AnnotateRequest { reference: format!("{id}#0"), ..request }).unwrap().annotations)
    };
    assert_eq!(annotate(r#"{"reference":"","rating":4,"tags":["hero"]}"#), r#"{"rating":4,"tags":["hero"]}"#);
    assert_eq!(
        annotate(r#"{"reference":"","note":"soft"}"#),
        r#"{"rating":4,"tags":["hero"],"note":"soft"}"#,
        "absent"
    );
    assert_eq!(annotate(r#"{"reference":"","rating":null}"#), r#"{"tags":["hero"],"note":"soft"}"#, "null removes");
    let trail = ws.api().audit(&AuditRequest { session_id: id.clone(), ..AuditRequest::default() }).unwrap();
    assert_eq!(trail.events.last().unwrap().summary, "rating removed");
    assert!(
        ws.api()
            .search(&SearchRequest { query: Some("has:rating".into()), ..SearchRequest::default() })
            .unwrap()
            .iterations
            .is_empty()
    );

    // It is read back from the log, not only from memory.
    let read = ws.reopen_after(|root| std::fs::remove_dir_all(root.join("db")).unwrap()).state(&id).annotation;
    assert_eq!((read.rating, read.note.as_deref()), (None, Some("soft")));
}

#[test]
fn one_image_of_a_batch_is_rated() {
    let ws = TestWorkspace::new();
    let images = (0..3).map(|n| path(&ws.file(&format!("{n}.png"), &png(1, 1, n)))).collect();
    let id = ws.record(&RecordRequest { images, ..prompt("a batch") }).session.id().to_string();
    let rate = |image: &str, rating: u8, key: &str| AnnotateRequest {
        reference: format!("{id}#0{image}"),
        rating: Some(rating),
        idempotency_key: Some(key.into()),
        ..AnnotateRequest::default()
    };
    let annotate = |request: &AnnotateRequest| json(&checked(ws.api().annotate(request)).unwrap().annotations);
    assert_eq!(annotate(&rate("", 3, "whole")), r#"{"rating":3}"#);
    let second = r#"{"rating":5,"tags":["image/0:3","image/1:5","image/2:3"]}"#;
    assert_eq!(annotate(&rate("/1", 5, "second")), second);
    let before = ws.written();
    assert_eq!(annotate(&rate("/1", 5, "second")), second, "a retry is one write");
    assert_eq!(ws.written(), before);
    let tagged =
        AnnotateRequest { reference: format!("{id}#0"), tags: Some(vec!["hero".into()]), ..Default::default() };
    assert_eq!(annotate(&tagged), r#"{"rating":5,"tags":["hero","image/0:3","image/1:5","image/2:3"]}"#);

    let found = |query: &str| {
        let request = SearchRequest { query: Some(query.into()), facets: true, ..SearchRequest::default() };
        let view = ws.api().search(&request).unwrap();
        let tags = view.facets.unwrap().tag.into_iter().map(|tag| tag.value).collect::<Vec<_>>();
        (view.total_matches, tags)
    };
    assert_eq!(found("rating:5"), (1, vec!["hero".to_owned()]), "by its best image; ratings are not tags to filter by");
    assert_eq!(annotate(&rate("/1", 3, "level")), r#"{"rating":3,"tags":["hero"]}"#, "alike again");
    assert_eq!(
        annotate(&rate("/2", 1, "third")),
        r#"{"rating":3,"tags":["hero","image/0:3","image/1:3","image/2:1"]}"#
    );
    assert_eq!(annotate(&rate("", 2, "all")), r#"{"rating":2,"tags":["hero"]}"#, "the iteration rates all of them");
    fails(ws.api().annotate(&rate("/3", 2, "none")), ErrorKind::NotFound, "no image 3");
    let reserved = AnnotateRequest { add_tags: vec!["image/1:4".into()], ..tagged };
    fails(ws.api().annotate(&AnnotateRequest { tags: None, ..reserved }), ErrorKind::Invalid, "reserved");
}

#[test]
fn an_annotation_without_a_change_is_not_written() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let base = AnnotateRequest { reference: format!("{id}#0"), ..AnnotateRequest::default() };
    let rated = AnnotateRequest { rating: Some(4), tags: Some(vec!["hero".into()]), ..base.clone() };
    ws.api().annotate(&rated).unwrap();
    let before = ws.written();
    let modified = ws.api().session(&id).unwrap().last_modified_at();
    ws.wait(60_000);
    for same in [
        rated,
        AnnotateRequest { note: Some(String::new()), ..base.clone() },
        AnnotateRequest { add_tags: vec!["hero".into()], ..base.clone() },
        AnnotateRequest { remove_tags: vec!["other".into()], ..base },
    ] {
        ws.api().annotate(&same).unwrap();
    }
    assert_eq!(ws.written(), before);
    assert_eq!(ws.api().session(&id).unwrap().last_modified_at(), modified);
}

#[test]
fn a_session_is_named_afterwards() {
    let ws = TestWorkspace::new();
    let id = ws.session(1);
    let modified = ws.api().session(&id).unwrap().last_modified_at();
    ws.wait(60_000);
    let update = |title: Option<&str>, project: Option<&str>| UpdateRequest {
        session_id: id.clone(),
        title: title.map(str::to_owned),
        project: project.map(str::to_owned),
        ..UpdateRequest::default()
    };
    let named = |request: UpdateRequest| {
        let row = ws.api().update_session(&request).unwrap();
        (row.title().map(str::to_owned), row.project().map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(named(update(Some("Winter"), None)), (some("Winter"), None));
    assert_eq!(named(update(None, Some("cards"))), (some("Winter"), some("cards")), "what is left out stays");
    let before = ws.written();
    assert_eq!(named(update(Some("Winter"), Some("cards"))), (some("Winter"), some("cards")));
    assert_eq!(ws.written(), before, "what changes nothing is not written");
    assert_eq!(named(update(Some(" "), None)), (None, some("cards")), "an empty title removes it");
    assert_eq!(ws.api().session(&id).unwrap().last_modified_at(), modified, "naming is not work");
    fails(ws.api().update_session(&update(None, None)), ErrorKind::Invalid, "neither a title nor a project");
    fails(ws.api().update_session(&update(Some(&"x".repeat(5000)), None)), ErrorKind::Invalid, "title");
    ws.api().archive(&ArchiveRequest { session_id: id.clone(), ..ArchiveRequest::default() }).unwrap();
    assert_eq!(named(update(Some("Done"), None)), (some("Done"), some("cards")), "archived ones too");
    let latest = UpdateRequest { session_id: "latest".into(), ..update(Some("x"), None) };
    fails(ws.api().update_session(&latest), ErrorKind::NotFound, "archived");
}
