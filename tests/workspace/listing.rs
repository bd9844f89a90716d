//! Listing: the exact JSON of the contract, pages that neither skip nor repeat, and replies of bounded size.

use std::collections::BTreeSet;

use retake::internals::model::{Order, Status};
use retake::internals::wire::{
    Api, ArchiveRequest, AuditRequest, ErrorKind, IterationsRequest, ListRequest, RecordRequest, SessionList,
};

use crate::support::*;

#[test]
fn the_json_is_exactly_that_of_the_contract() {
    let ws = TestWorkspace::new();
    assert_eq!(
        json(&ws.list(&ListRequest::default())),
        r#"{"sessions":[],"totalSessions":0,"timestamp":"2025-12-11T10:15:30.123Z"}"#
    );
    let id = ws.session(11);
    ws.at("2025-12-11T14:45:22.456Z");
    ws.record(&RecordRequest { session_id: Some(id), ..prompt("the twelfth") });
    ws.at("2025-12-11T14:51:30.234Z");
    assert_eq!(
        json(&ws.list(&ListRequest::default())),
        r#"{"sessions":[{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T14:45:22.456Z","iterationCount":12,"currentIterationIndex":11}],"totalSessions":1,"timestamp":"2025-12-11T14:51:30.234Z"}"#
    );
}

/// Returns all pages of a listing.
fn pages(ws: &TestWorkspace, request: &ListRequest) -> Vec<SessionList> {
    let mut request = request.clone();
    let mut pages = vec![ws.list(&request)];
    while let Some(cursor) = pages.last().unwrap().next_cursor.clone() {
        request.cursor = Some(cursor);
        pages.push(ws.list(&request));
        assert!(pages.len() < 1000, "the pages do not end");
    }
    pages
}

fn ids(pages: &[SessionList]) -> Vec<String> {
    pages.iter().flat_map(|page| &page.sessions).map(|row| row.id().to_string()).collect()
}

#[test]
fn pages_hold_every_session_once_in_order() {
    let ws = TestWorkspace::new();
    for _ in 0..25 {
        ws.session(1);
        ws.wait(10);
    }
    // Two with the same time are ordered by id.
    ws.session(1);
    ws.session(1);
    let whole = ids(&[ws.list(&ListRequest::default())]);
    assert_eq!(whole.len(), 27);
    assert_eq!(whole[0], "session-2025-12-11-027");
    let by_ten = pages(&ws, &ListRequest { limit: Some(10), ..ListRequest::default() });
    assert_eq!(by_ten.iter().map(|page| page.sessions.len()).collect::<Vec<_>>(), [10, 10, 7]);
    assert!(by_ten.iter().all(|page| page.total_sessions == 27));
    assert_eq!(ids(&by_ten), whole);
    let oldest = pages(&ws, &ListRequest { limit: Some(4), sort: Some(Order::Oldest), ..ListRequest::default() });
    assert_eq!(ids(&oldest), whole.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_cursor_keeps_its_place_while_sessions_change() {
    let ws = TestWorkspace::new();
    for _ in 0..6 {
        ws.session(1);
        ws.wait(10);
    }
    let request = ListRequest { limit: Some(2), ..ListRequest::default() };
    let first = ws.list(&request);
    ws.session(1);
    let moved = first.sessions[1].id().to_string();
    ws.record(&RecordRequest { session_id: Some(moved), ..prompt("the cursor's own session moves") });
    let rest = pages(&ws, &ListRequest { cursor: first.next_cursor, ..request });
    let expected: Vec<String> = (1..=4).rev().map(|n| format!("session-2025-12-11-{n:03}")).collect();
    assert_eq!(ids(&rest), expected);
}

#[test]
fn a_cursor_from_elsewhere_is_refused() {
    let ws = TestWorkspace::new();
    let id = ws.session(5);
    ws.session(1);
    ws.session(1);
    let base = ListRequest { limit: Some(1), ..ListRequest::default() };
    let cursor = ws.list(&base).next_cursor.unwrap();
    let listing = |request: ListRequest| ws.api().list(&request);
    let with = |cursor: &str| ListRequest { cursor: Some(cursor.into()), ..base.clone() };
    for request in [
        ListRequest { status: Some(Status::Active), ..with(&cursor) },
        ListRequest { sort: Some(Order::Oldest), ..with(&cursor) },
        ListRequest { project: Some("zoo".into()), ..with(&cursor) },
        ListRequest { query: Some("cat".into()), ..with(&cursor) },
    ] {
        fails(listing(request), ErrorKind::Invalid, "the cursor belongs to another listing");
    }
    for made_up in ["", "1", "bmV4dA", "session-2025-12-11-001", &cursor[1..]] {
        fails(listing(with(made_up)), ErrorKind::Invalid, "invalid cursor");
    }
    let iterations = |cursor: Option<String>| {
        ws.api().iterations(&IterationsRequest { session_id: id.clone(), limit: Some(2), cursor, ..Default::default() })
    };
    let audit =
        |cursor: Option<String>| ws.api().audit(&AuditRequest { session_id: id.clone(), limit: Some(2), cursor });
    let (of_iterations, of_audit) = (iterations(None).unwrap().next_cursor, audit(None).unwrap().next_cursor);
    assert!(of_iterations.is_some() && of_audit.is_some());
    fails(iterations(of_audit.clone()), ErrorKind::Invalid, "another listing");
    fails(audit(of_iterations), ErrorKind::Invalid, "another listing");
    fails(listing(ListRequest { cursor: of_audit, ..base.clone() }), ErrorKind::Invalid, "another listing");
}

#[test]
fn filters_are_applied() {
    let ws = TestWorkspace::new();
    for (title, project) in [("Winter Cats", "zoo"), ("dogs", "zoo"), ("Ämter", "offices")] {
        ws.record(&RecordRequest { title: Some(title.into()), project: Some(project.into()), ..prompt("x") });
        ws.wait(10);
    }
    let away = ArchiveRequest { session_id: "session-2025-12-11-002".into(), ..ArchiveRequest::default() };
    ws.api().archive(&away).unwrap();
    let check = |request: ListRequest, expected: &[u32]| {
        let list = ws.list(&request);
        let found: Vec<u32> = list.sessions.iter().map(|row| row.id().number().get()).collect();
        assert_eq!(found, expected, "{request:?}");
        assert_eq!(list.total_sessions, expected.len() as u64, "{request:?}");
    };
    let base = ListRequest::default;
    check(base(), &[3, 2, 1]);
    check(ListRequest { status: Some(Status::Active), ..base() }, &[3, 1]);
    check(ListRequest { status: Some(Status::Archived), ..base() }, &[2]);
    check(ListRequest { project: Some("zoo".into()), ..base() }, &[2, 1]);
    check(ListRequest { project: Some("ZOO".into()), ..base() }, &[2, 1]);
    check(ListRequest { query: Some("CATS".into()), ..base() }, &[1]);
    check(ListRequest { query: Some("ämt".into()), ..base() }, &[3]);
    check(ListRequest { query: Some("11-002".into()), ..base() }, &[2]);
    check(ListRequest { query: Some("zoo".into()), status: Some(Status::Active), ..base() }, &[1]);
    check(ListRequest { query: Some("  ".into()), ..base() }, &[3, 2, 1]);

    let archived = ws.list(&ListRequest { status: Some(Status::Archived), ..base() });
    assert!(json(&archived).contains(r#""title":"dogs","project":"zoo","archived":true}"#));
    let one = ListRequest { query: Some("zoo".into()), limit: Some(1), ..base() };
    let found = pages(&ws, &one);
    assert_eq!(ids(&found), ["session-2025-12-11-002", "session-2025-12-11-001"]);
    assert!(found.iter().all(|page| page.total_sessions == 2));
}

#[test]
fn long_titles_make_more_pages_instead_of_longer_ones() {
    let ws = TestWorkspace::new();
    let title = "\"".repeat(512);
    for _ in 0..120 {
        ws.record(&RecordRequest { title: Some(title.clone()), project: Some(title.clone()), ..prompt("x") });
    }
    let found = pages(&ws, &ListRequest { limit: Some(1000), ..ListRequest::default() });
    assert!(found.len() > 1);
    assert_eq!(ids(&found).into_iter().collect::<BTreeSet<_>>().len(), 120);
}

#[test]
fn iterations_are_the_newest_in_ascending_order() {
    let ws = TestWorkspace::new();
    let id = ws.session(5);
    let page = |cursor: Option<String>| {
        let request = IterationsRequest { session_id: id.clone(), limit: Some(2), cursor, ..Default::default() };
        checked(ws.api().iterations(&request)).unwrap()
    };
    let newest = page(None);
    assert!(json(&newest).starts_with(
        r#"{"sessionId":"session-2025-12-11-001","iterations":[{"index":3,"prompt":"iteration 3","timestamp":"2025-12-11T10:15:33.123Z","metadata":{}},{"index":4,"prompt":"iteration 4","timestamp":"2025-12-11T10:15:34.123Z","metadata":{}}],"totalIterations":5,"returnedCount":2,"nextCursor":""#
    ));
    ws.record(&RecordRequest { session_id: Some(id.clone()), ..prompt("one more") });
    let older = page(newest.next_cursor);
    assert_eq!(older.iterations.iter().map(|row| row.index).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(older.total_iterations, 6);
    let oldest = page(older.next_cursor);
    assert_eq!(oldest.iterations.iter().map(|row| row.index).collect::<Vec<_>>(), [0]);
    assert_eq!(oldest.next_cursor, None);
}

#[test]
fn long_prompts_are_truncated_and_pages_limited_by_bytes() {
    let ws = TestWorkspace::new();
    let long = "a very long prompt, ".repeat(500);
    let id = ws.record(&prompt(&long)).session.id().to_string();
    for n in 1..60 {
        let picture = path(&ws.file("picture.png", &png(8, 4, n)));
        ws.record(&RecordRequest { session_id: Some(id.clone()), images: vec![picture], ..prompt(&long) });
    }
    let mut request =
        IterationsRequest { session_id: id, limit: Some(1000), include_images: true, ..Default::default() };
    let mut indexes = Vec::new();
    loop {
        let page = checked(ws.api().iterations(&request)).unwrap();
        assert!(page.iterations.iter().all(|row| row.prompt_truncated && row.prompt.ends_with('…')));
        indexes.extend(page.iterations.iter().rev().map(|row| row.index));
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(indexes, (0..60).rev().collect::<Vec<_>>());
    request.cursor = None;
    let newest = ws.api().iterations(&request).unwrap();
    let row = newest.iterations.last().unwrap();
    assert_eq!((row.metadata.width, row.metadata.height), (Some(8), Some(4)), "read from the image");
    assert_eq!(row.images.as_ref().unwrap().len(), 1);
}

#[test]
fn a_reply_takes_24_kb_unless_the_caller_raises_it() {
    let ws = TestWorkspace::new();
    for number in 0..300 {
        ws.record(&RecordRequest { title: Some(format!("{number} {}", "x".repeat(300))), ..prompt("a cat") });
    }
    let request = ListRequest { limit: Some(1000), ..ListRequest::default() };
    let size = |api: Api<'_>| serde_json::to_string(&api.list(&request).unwrap()).unwrap().len();
    let api = || Api::new(&ws.workspace);
    assert!((20_000..=24_000).contains(&size(api())), "{}", size(api()));
    assert!((50_000..=60_000).contains(&size(api().with_reply_bytes(1_000_000))));
    assert!(size(api().unbounded()) > 100_000);
    assert_eq!(api().unbounded().list(&request).unwrap().sessions.len(), 300);
}

#[test]
fn a_project_is_found_by_a_part_of_its_name_in_any_case_on_every_page() {
    let ws = TestWorkspace::new();
    for (project, title) in [("Cat cards", "1"), ("CATALOGUE", "2"), ("dogs", "3"), ("cats", "4")] {
        ws.wait(1000);
        ws.record(&RecordRequest { project: Some(project.into()), title: Some(title.into()), ..prompt("a cat") });
    }
    let mut request = ListRequest { project: Some("cat".into()), limit: Some(2), ..ListRequest::default() };
    let mut titles = Vec::new();
    loop {
        let list = ws.list(&request);
        assert_eq!(list.total_sessions, 3);
        titles.extend(list.sessions.iter().map(|row| row.title().unwrap().to_owned()));
        match list.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(titles, ["4", "2", "1"]);
    let since = ListRequest { since: Some("2025-12-12".into()), ..ListRequest::default() };
    assert_eq!(ws.list(&since).total_sessions, 0);
    let until = ListRequest { until: Some("today".into()), ..ListRequest::default() };
    assert_eq!(ws.list(&until).total_sessions, 4);
}
