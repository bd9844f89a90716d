//! Damage as users see it: the listing reports it until it is acknowledged, and losses are listed everywhere.

use std::fs;

use retake::internals::export::ExportRequest;
use retake::internals::wire::{
    AnnotateRequest, AuditRequest, ErrorKind, GetRequest, IterationsRequest, ListRequest, RecordRequest,
};

use crate::support::*;

/// Creates a workspace that lost the second of four iterations: its record is altered in the journal, and the database
/// is gone.
fn damaged() -> (TestWorkspace, String) {
    let ws = TestWorkspace::new();
    let id = ws.session(4);
    let ws = ws.reopen_after(|root| {
        fs::remove_dir_all(root.join("db")).unwrap();
        for path in files_below(&root.join("journal")).into_keys() {
            let mut bytes = fs::read(&path).unwrap();
            let prompt = b"iteration 1";
            if let Some(at) = bytes.windows(prompt.len()).position(|window| window == prompt) {
                bytes[at] ^= 1;
                fs::write(&path, bytes).unwrap();
            }
        }
    });
    (ws, id)
}

#[test]
fn the_listing_shows_a_recovery_until_its_report_is_read() {
    let (ws, _) = damaged();
    let list = ws.list(&ListRequest::default());
    let recovery = list.recovery.clone().unwrap();
    assert_eq!(recovery.lost_events, 1);
    assert!(!recovery.quarantined.is_empty() && !recovery.message.is_empty(), "{recovery:?}");
    assert_eq!(list.sessions[0].iteration_count(), 4, "no index is assigned twice");
    assert!(json(&list).contains(r#""recovery":{"lostEvents":1,"quarantined":["#));

    let ws = ws.reopen();
    assert!(ws.list(&ListRequest::default()).recovery.is_some(), "reopening is not reading");
    assert_eq!(ws.workspace.status().unwrap().unread_recoveries.len(), 1);
    ws.workspace.mark_recoveries_read().unwrap();
    assert_eq!(ws.list(&ListRequest::default()).recovery, None);
    let status = ws.workspace.status().unwrap();
    assert_eq!((status.recoveries, status.unread_recoveries.len()), (1, 0));
    assert!(status.sizes.quarantine > 0);
}

#[test]
fn losses_are_named() {
    let (ws, id) = damaged();
    let request = IterationsRequest { session_id: id.clone(), ..IterationsRequest::default() };
    let list = checked(ws.api().iterations(&request)).unwrap();
    assert_eq!(list.iterations.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!((list.total_iterations, list.returned_count, list.lost), (4, 3, vec![1]));

    let get = GetRequest { reference: format!("{id}#1"), ..GetRequest::default() };
    let error = ws.api().get(&get).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Damaged);
    assert_eq!(error.message, format!("{id}#1 was lost to damage"));
    assert!(error.hint.contains(&format!("the nearest that is left is {id}#0")), "{}", error.hint);
    let annotate = AnnotateRequest { reference: format!("{id}#1"), rating: Some(3), ..AnnotateRequest::default() };
    fails(ws.api().annotate(&annotate), ErrorKind::Damaged, "was lost to damage");

    let audit = AuditRequest { session_id: id, ..AuditRequest::default() };
    let view = checked(ws.api().audit(&audit)).unwrap();
    assert_eq!(view.lost, [2]);
    assert!(!view.chain.holds);
    assert_eq!(
        (view.chain.faults[0].seq, view.chain.faults[0].what.as_str()),
        (2, "the event is missing from both copies")
    );
    assert_eq!(view.events.last().unwrap().summary, "lost to damage: event 2");
}

#[test]
fn a_damaged_session_can_be_continued() {
    let (ws, id) = damaged();
    let next = ws.record(&RecordRequest { session_id: Some(id.clone()), ..prompt("on and on") });
    assert_eq!(next.reference.to_string(), format!("{id}#4"));
    assert_eq!(ws.api().resolve("latest").unwrap(), next.reference);
    let mut out = Vec::new();
    let report = ws.workspace.export(&ExportRequest::default(), &mut out).unwrap();
    assert_eq!((report.sessions, report.problems.len()), (1, 0));
}
