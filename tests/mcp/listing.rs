//! `list-sessions`: the exact JSON.

use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace};

fn ids(view: &Value) -> Vec<String> {
    view["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn no_sessions() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let answer = workspace.client(era).await.call("list-sessions", json!({})).await;
        assert_eq!(answer.text, r#"{"sessions":[],"totalSessions":0,"timestamp":"2025-12-11T10:15:30.123Z"}"#);
    }
}

#[tokio::test]
async fn the_contracts_example() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        client.record("2025-12-11T10:15:30.123Z", json!({})).await;
        for minute in 1..12 {
            let at = if minute == 11 { "2025-12-11T14:45:22.456Z" } else { &format!("2025-12-11T11:{minute:02}:00Z") };
            client.record(at, json!({ "sessionId": "session-2025-12-11-001" })).await;
        }
        workspace.at("2025-12-11T14:51:30.234Z");
        let answer = client.call("list-sessions", json!({})).await;
        assert_eq!(
            answer.text,
            r#"{"sessions":[{"id":"session-2025-12-11-001","createdAt":"2025-12-11T10:15:30.123Z","lastModifiedAt":"2025-12-11T14:45:22.456Z","iterationCount":12,"currentIterationIndex":11}],"totalSessions":1,"timestamp":"2025-12-11T14:51:30.234Z"}"#
        );
        assert!(answer.also.is_empty());
    }
}

#[tokio::test]
async fn many_sessions_most_recent_first() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        client.record("2025-12-09T08:00:00Z", json!({ "title": "Foxes", "project": "animals" })).await;
        client.record("2025-12-10T08:00:00Z", json!({ "project": "cars" })).await;
        client.record("2025-12-10T09:00:00Z", json!({})).await;
        client.record("2025-12-11T08:00:00Z", json!({ "sessionId": "session-2025-12-09-001" })).await;

        let all = client.get("list-sessions", json!({})).await;
        assert_eq!(ids(&all), ["session-2025-12-09-001", "session-2025-12-10-002", "session-2025-12-10-001"]);
        assert_eq!(all["totalSessions"], 3);
        assert_eq!(
            all["sessions"][0].to_string(),
            r#"{"id":"session-2025-12-09-001","createdAt":"2025-12-09T08:00:00.000Z","lastModifiedAt":"2025-12-11T08:00:00.000Z","iterationCount":2,"currentIterationIndex":1,"title":"Foxes","project":"animals"}"#
        );
        for row in all["sessions"].as_array().unwrap() {
            assert_eq!(row["currentIterationIndex"].as_u64().unwrap() + 1, row["iterationCount"].as_u64().unwrap());
        }

        let oldest = client.get("list-sessions", json!({ "sort": "oldest" })).await;
        assert_eq!(ids(&oldest), ["session-2025-12-10-001", "session-2025-12-10-002", "session-2025-12-09-001"]);
        let of_project = client.get("list-sessions", json!({ "project": "cars" })).await;
        assert_eq!(
            (ids(&of_project), &of_project["totalSessions"]),
            (vec!["session-2025-12-10-001".into()], &json!(1))
        );
        let found = client.get("list-sessions", json!({ "query": "FOX" })).await;
        assert_eq!(ids(&found), ["session-2025-12-09-001"]);
    }
}

#[tokio::test]
async fn archived_sessions_are_marked_and_keep_their_time() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        client.record("2025-12-10T08:00:00Z", json!({})).await;
        client.record("2025-12-11T08:00:00Z", json!({})).await;
        let archive = json!({ "sessionId": "session-2025-12-10-001", "reason": "done" });
        let row = r#"{"id":"session-2025-12-10-001","createdAt":"2025-12-10T08:00:00.000Z","lastModifiedAt":"2025-12-10T08:00:00.000Z","iterationCount":1,"currentIterationIndex":0,"archived":true}"#;
        for _ in 0..2 {
            assert_eq!(client.call("archive-session", archive.clone()).await.text, row);
        }

        let all = client.get("list-sessions", json!({})).await;
        assert_eq!(ids(&all), ["session-2025-12-11-001", "session-2025-12-10-001"]);
        assert_eq!(all["sessions"][1].to_string(), row);
        assert_eq!(all["sessions"][0].get("archived"), None);
        let archived = client.get("list-sessions", json!({ "status": "archived" })).await;
        assert_eq!((ids(&archived), &archived["totalSessions"]), (vec!["session-2025-12-10-001".into()], &json!(1)));
        let active = client.get("list-sessions", json!({ "status": "active" })).await;
        assert_eq!((ids(&active), &active["totalSessions"]), (vec!["session-2025-12-11-001".into()], &json!(1)));

        let restore = json!({ "sessionId": "session-2025-12-10-001" });
        let restored = client.call("restore-session", restore).await.text;
        assert_eq!(restored, row.replace(r#","archived":true"#, ""));
        client.record("2025-12-12T08:00:00Z", json!({ "sessionId": "session-2025-12-10-001" })).await;
    }
}

#[tokio::test]
async fn pages_list_every_session_once() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        for minute in 0..25 {
            client.record(&format!("2025-12-11T08:{minute:02}:00Z"), json!({})).await;
        }
        let (pages, seen) = walk(&mut client, json!({ "limit": 10 })).await;
        assert_eq!(pages, [10, 10, 5]);
        let expected: Vec<String> = (1..=25).rev().map(|number| format!("session-2025-12-11-{number:03}")).collect();
        assert_eq!(seen, expected);
        let whole = client.get("list-sessions", json!({ "limit": 25 })).await;
        assert_eq!(whole.get("nextCursor"), None);

        let first = client.get("list-sessions", json!({ "limit": 10 })).await;
        let cursor = first["nextCursor"].clone();
        let error = client.fail("list-sessions", json!({ "cursor": cursor, "sort": "oldest" })).await;
        assert_eq!(error["kind"], "invalid");
    }
}

#[tokio::test]
async fn no_page_is_too_large_for_a_client() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Stateless).await;
    for number in 0..150 {
        let at = format!("2025-12-11T08:00:00.{number:03}Z");
        client.record(&at, json!({ "title": "\"".repeat(500), "project": "猫".repeat(170) })).await;
    }
    // Every response is checked to be at most 60 kB.
    let (pages, seen) = walk(&mut client, json!({ "limit": 1000 })).await;
    assert!(pages.len() > 2, "{pages:?}");
    assert_eq!(seen.len(), 150);
}

async fn walk(client: &mut Client, arguments: Value) -> (Vec<usize>, Vec<String>) {
    let mut arguments = arguments;
    let (mut pages, mut seen) = (Vec::new(), Vec::new());
    loop {
        let page = client.get("list-sessions", arguments.clone()).await;
        let rows = ids(&page);
        pages.push(rows.len());
        seen.extend(rows);
        match page.get("nextCursor") {
            Some(cursor) => arguments["cursor"] = cursor.clone(),
            None => {
                assert_eq!(page["totalSessions"], seen.len());
                return (pages, seen);
            }
        }
    }
}
