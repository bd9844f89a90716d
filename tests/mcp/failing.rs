//! Failures that an agent can act on: results, never protocol errors.

use serde_json::json;

use crate::client::{Era, TestWorkspace};

#[tokio::test]
async fn every_kind_of_error_has_a_hint() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let error = client.fail("get-iteration", json!({ "reference": "latest" })).await;
        assert_eq!(error["kind"], "notFound");
        client.record("2025-12-11T10:00:00Z", json!({})).await;
        client.record("2025-12-11T11:00:00Z", json!({})).await;
        client.get("archive-session", json!({ "sessionId": "session-2025-12-11-002" })).await;
        client.record("2025-12-11T12:00:00Z", json!({ "idempotencyKey": "k1" })).await;

        let session = "session-2025-12-11-001";
        let archived = "session-2025-12-11-002";
        for (kind, tool, arguments, named) in [
            ("invalid", "record-iteration", json!({ "prompt": " " }), "prompt"),
            ("invalid", "record-iteration", json!({ "prompt": "a", "width": 0 }), "width"),
            ("invalid", "record-iteration", json!({ "prompt": "a", "createdAt": "yesterday" }), "createdAt"),
            ("invalid", "record-iteration", json!({ "prompt": "a", "images": ["/no/such.png"] }), "/no/such.png"),
            ("invalid", "list-sessions", json!({ "limit": 0 }), "limit"),
            ("invalid", "list-sessions", json!({ "cursor": "made up" }), "cursor"),
            ("invalid", "archive-session", json!({ "sessionId": "nonsense" }), "nonsense"),
            ("invalid", "annotate-iteration", json!({ "reference": session, "rating": 6 }), "rating"),
            ("notFound", "record-iteration", json!({ "prompt": "a", "sessionId": "session-2025-12-11-009" }), "-009"),
            ("notFound", "list-iterations", json!({ "sessionId": "session-2025-12-11-009" }), "-009"),
            ("notFound", "get-iteration", json!({ "reference": "session-2025-12-11-001#7" }), "no iteration 7"),
            ("notFound", "audit-session", json!({ "sessionId": "session-2025-12-11-009" }), "-009"),
            ("notFound", "restore-session", json!({ "sessionId": "session-2025-12-11-009" }), "-009"),
            (
                "conflict",
                "record-iteration",
                json!({ "prompt": "a", "sessionId": session, "expectedIterationCount": 5 }),
                session,
            ),
            ("conflict", "record-iteration", json!({ "prompt": "another", "idempotencyKey": "k1" }), "k1"),
            ("archived", "record-iteration", json!({ "prompt": "a", "sessionId": archived }), archived),
        ] {
            let error = client.fail(tool, arguments).await;
            assert_eq!(error["kind"], kind, "{error}");
            assert!(error["message"].as_str().unwrap().contains(named), "{error}");
            assert!(error["hint"].as_str().unwrap().len() > 10, "{error}");
        }
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 3, "nothing was recorded");
    }
}

#[tokio::test]
async fn a_failing_disk_is_reported_and_nothing_is_recorded() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    client.record("2025-12-11T10:00:00Z", json!({})).await;
    let images = workspace.dir.path().join("ws/images");
    std::fs::remove_dir_all(&images).ok();
    std::fs::write(&images, "in the way").unwrap();
    let error = client.fail("record-iteration", json!({ "prompt": "a", "images": [{ "data": "SUkqAHh4" }] })).await;
    assert_eq!(error["kind"], "internal", "{error}");
    assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
}

#[tokio::test]
async fn a_wrong_argument_is_named() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for (tool, arguments, named) in [
            ("record-iteration", json!({}), "prompt is empty"),
            ("record-iteration", json!({ "prompt": "a", "session_id": "x" }), "`session_id`"),
            ("record-iteration", json!({ "prompt": "a", "steps": "30" }), "`steps`"),
            ("record-iteration", json!({ "prompt": "a", "seed": "-1" }), "`seed`"),
            ("record-iteration", json!({ "prompt": "a", "images": [{ "url": "http://x" }] }), "`images[0]`"),
            ("list-sessions", json!({ "status": "open" }), "`status`"),
            ("get-iteration", json!({ "ref": "latest" }), "`ref`"),
            ("archive-session", json!({ "sessionId": "session-2025-12-11-001", "force": true }), "`force`"),
        ] {
            let error = client.fail(tool, arguments).await;
            assert_eq!(error["kind"], "invalid", "{error}");
            assert!(error["message"].as_str().unwrap().contains(named), "{error}");
        }
        let text = client.call("record-iteration", json!({ "prompt": "a", "session_id": "x" })).await.text;
        assert_eq!(
            text,
            r#"{"error":{"kind":"invalid","message":"record-iteration has no argument `session_id`","hint":"write `sessionId`"}}"#
        );
    }
}
