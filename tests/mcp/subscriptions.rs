//! Subscriptions: notifications of changes made here, on another connection, and by another process.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace, meta};
use crate::process;

const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";
const FIRST: &str = "retake://sessions/session-2025-12-11-001";

/// Subscribes in the way of the client's era, and returns the id to cancel it with.
async fn subscribe(client: &mut Client, uris: &[&str]) -> u64 {
    if client.era == Era::Initialize {
        for uri in uris {
            let done = client.request("resources/subscribe", json!({ "uri": uri })).await;
            assert_eq!(done["result"], json!({}), "{done}");
        }
        return 0;
    }
    let notifications = json!({ "resourceSubscriptions": uris, "resourcesListChanged": true });
    let (line, id) = client.line("subscriptions/listen", json!({ "notifications": notifications }));
    client.send(&line).await;
    let acknowledged = client.heard("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    assert_eq!(acknowledged["notifications"]["resourceSubscriptions"], json!(uris));
    id
}

async fn unsubscribe(client: &mut Client, uri: &str, id: u64) {
    if client.era == Era::Initialize {
        assert_eq!(client.request("resources/unsubscribe", json!({ "uri": uri })).await["result"], json!({}));
    } else {
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "_meta": meta() } });
        client.send(&cancelled.to_string()).await;
    }
}

/// Returns the sessions that [`settle`] will start.
fn to_come() -> Vec<String> {
    (10..60).map(|number| format!("retake://sessions/session-2025-12-11-{number:03}")).collect()
}

/// Subscribes to these URIs, and to those that `settle` needs.
async fn subscribe_settled(client: &mut Client, uris: &[&str]) -> u64 {
    let to_come = to_come();
    let all: Vec<&str> = uris.iter().copied().chain(to_come.iter().map(String::as_str)).collect();
    subscribe(client, &all).await
}

/// Starts a session and waits for its notification: all earlier changes have been notified by then. Returns the other
/// notifications. Changes just before a subscription may be notified too, so tests start by calling this.
async fn settle(client: &mut Client, other: &mut Client) -> Vec<Value> {
    let started = other.record("2025-12-11T10:00:00Z", json!({})).await;
    let started = format!("retake://sessions/{}", started.split('#').next().unwrap());
    let (to_come, mut notified) = (to_come(), Vec::new());
    assert!(to_come.contains(&started), "{started}");
    loop {
        let uri = client.heard(UPDATED).await["uri"].as_str().unwrap().to_owned();
        if uri == started {
            return notified;
        }
        if !to_come.contains(&uri) {
            notified.push(json!(uri));
        }
    }
}

#[tokio::test]
async fn a_change_on_another_connection_is_notified() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut other = workspace.client(Era::Stateless).await;
        for _ in 0..9 {
            other.record("2025-12-11T10:00:00Z", json!({})).await;
        }
        let mut client = workspace.client(era).await;
        let id = subscribe_settled(&mut client, &[FIRST]).await;
        settle(&mut client, &mut other).await;

        other.record("2025-12-11T11:00:00Z", json!({ "sessionId": "session-2025-12-11-003" })).await;
        assert_eq!(settle(&mut client, &mut other).await, Vec::<Value>::new(), "it does not wait for that");
        other.record("2025-12-11T11:00:00Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        let mut notified = client.heard(UPDATED).await;
        while to_come().iter().any(|uri| notified["uri"] == *uri) {
            notified = client.heard(UPDATED).await;
        }
        assert_eq!(notified["uri"], FIRST);
        if era == Era::Stateless {
            assert_eq!(notified["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        }
        for (tool, arguments) in [
            ("annotate-iteration", json!({ "reference": "session-2025-12-11-001#0", "rating": 3 })),
            ("archive-session", json!({ "sessionId": "session-2025-12-11-001" })),
        ] {
            other.get(tool, arguments).await;
            assert_eq!(settle(&mut client, &mut other).await, [json!(FIRST)], "{tool}");
        }
        // A new session changes the list.
        other.record("2025-12-11T12:00:00Z", json!({})).await;
        client.heard(LIST_CHANGED).await;

        unsubscribe(&mut client, FIRST, id).await;
        if era == Era::Stateless {
            subscribe_settled(&mut client, &[]).await;
        }
        settle(&mut client, &mut other).await;
        other.get("restore-session", json!({ "sessionId": "session-2025-12-11-001" })).await;
        assert_eq!(settle(&mut client, &mut other).await, Vec::<Value>::new(), "it no longer waits for that");
    }
}

#[tokio::test]
async fn a_change_of_a_child_is_notified_too() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut other = workspace.client(Era::Stateless).await;
        let parent = other.record("2025-12-11T10:00:00Z", json!({})).await;
        for _ in 0..8 {
            other.record("2025-12-11T10:00:00Z", json!({})).await;
        }
        let mut client = workspace.client(era).await;
        let uri = "retake://iterations/session-2025-12-11-001/0";
        subscribe_settled(&mut client, &[uri]).await;
        settle(&mut client, &mut other).await;
        assert_eq!(settle(&mut client, &mut other).await, Vec::<Value>::new());
        // A child in another session, which the iteration lists.
        let child = other.record("2025-12-11T11:00:00Z", json!({ "parent": parent })).await;
        assert_eq!(settle(&mut client, &mut other).await, [json!(uri)], "notified once");
        let read = client.request("resources/read", json!({ "uri": uri })).await;
        let text = read["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["children"], json!([child]));
    }
}

#[tokio::test]
async fn a_change_by_another_process_is_notified_and_unsubscribing_is_prompt() {
    for era in Era::BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (owner, mut other) = process::start(dir.path(), Era::Stateless).await;
        other.record("2025-12-11T10:00:00Z", json!({})).await;
        let (child, mut client) = process::start(dir.path(), era).await;
        subscribe(&mut client, &["retake://sessions", FIRST]).await;
        other.record("2025-12-11T11:00:00Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        let mut notified = BTreeSet::new();
        while notified.len() < 2 {
            notified.insert(client.heard(UPDATED).await["uri"].as_str().unwrap().to_owned());
        }
        assert_eq!(notified.iter().collect::<Vec<_>>(), ["retake://sessions", FIRST]);

        // The other way round: the owner is notified of its client's changes.
        subscribe(&mut other, &[FIRST]).await;
        client.record("2025-12-11T12:00:00Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        assert_eq!(other.heard(UPDATED).await["uri"], FIRST);

        // When the owner exits, another takes over, and possibly missed changes are notified.
        drop(other);
        drop(owner);
        assert_eq!(client.heard(UPDATED).await["uri"].as_str().map(|uri| uri.starts_with("retake://")), Some(true));

        // An open subscription is not work in flight that shutdown waits for.
        let begun = std::time::Instant::now();
        client.hang_up();
        while client.next().await.is_some() {}
        let mut child = child;
        assert!(process::within_seconds(4, &mut child).await.success());
        assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn immutable_resources_cannot_be_subscribed_to() {
    let workspace = TestWorkspace::new();
    let mut client = workspace.client(Era::Initialize).await;
    let image = "retake://iterations/session-2025-12-11-001/0/image";
    assert_eq!(client.refused("resources/subscribe", json!({ "uri": image })).await, -32602);
    assert_eq!(client.refused("resources/subscribe", json!({ "uri": "file:///etc/passwd" })).await, -32002);
    assert_eq!(client.refused("subscriptions/listen", json!({ "notifications": {} })).await, -32601);

    let mut client = workspace.client(Era::Stateless).await;
    let uris = json!([image, "file:///etc/passwd", FIRST]);
    let (line, _) = client.line("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": uris } }));
    client.send(&line).await;
    let acknowledged = client.heard("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["notifications"], json!({ "resourceSubscriptions": [FIRST] }));
    assert_eq!(client.refused("resources/subscribe", json!({ "uri": FIRST })).await, -32601);
}

/// A disconnected client is not notified, and does not keep the workspace open.
#[tokio::test]
async fn a_client_that_disconnects_leaves_no_subscriptions() {
    let workspace = TestWorkspace::new();
    let before = std::sync::Arc::strong_count(&workspace.workspace);
    for era in Era::BOTH {
        let mut client = workspace.client(era).await;
        client.record("2025-12-11T10:00:00Z", json!({})).await;
        subscribe(&mut client, &[FIRST]).await;
        client.hang_up();
        while client.next().await.is_some() {}
        drop(client);
        workspace.client(Era::Stateless).await.record("2025-12-11T10:00:00Z", json!({})).await;
    }
    // The end of a connection takes a moment after its streams.
    for _ in 0..1000 {
        if std::sync::Arc::strong_count(&workspace.workspace) == before {
            return;
        }
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{} hold on to the workspace, {before} did", std::sync::Arc::strong_count(&workspace.workspace));
}
