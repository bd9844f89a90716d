//! Long calls: how far they have come, and what happens when nobody waits for them. A picture that is a pipe makes a call
//! that takes as long as the test wants: whoever reads it waits until somebody writes.
#![cfg(unix)]

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace, answer, meta};
use crate::process;

const AUDIT: &str = "session-2025-12-11-001";

/// Records two pictures, and puts a pipe in the place of the first.
pub(crate) async fn slow_session(client: &mut Client, workspace: PathBuf) -> PathBuf {
    let images = json!([{ "data": "Zmlyc3Q=" }, { "data": "c2Vjb25k" }]);
    client.record("2025-12-11T10:00:00Z", json!({ "images": images })).await;
    let whole = client.get("get-iteration", json!({ "reference": "latest" })).await;
    let hash = whole["images"][0]["hash"].as_str().unwrap();
    let pipe = workspace.join("images").join(&hash[..2]).join(&hash[2..]);
    std::fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

/// Lets whoever reads the pipe go on.
pub(crate) async fn let_go(pipe: PathBuf) {
    tokio::task::spawn_blocking(move || drop(std::fs::OpenOptions::new().write(true).open(pipe).unwrap()))
        .await
        .unwrap();
}

/// Asks for an audit that does not end by itself; returns when it is known to be under way.
async fn begin(client: &mut Client) -> u64 {
    let mut params = json!({ "name": "audit-session", "arguments": { "sessionId": AUDIT } });
    params["_meta"] = if client.era == Era::Stateless { meta() } else { json!({}) };
    params["_meta"]["progressToken"] = json!("how far?");
    let (line, id) = client.line("tools/call", params);
    client.send(&line).await;
    let progress = client.heard("notifications/progress").await;
    assert_eq!(progress["progressToken"], "how far?");
    assert_eq!((progress["progress"].as_f64(), progress["total"].as_f64()), (Some(0.0), Some(2.0)), "{progress}");
    assert_eq!(progress["message"], "checking images");
    id
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_others_are_served_meanwhile() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let pipe = slow_session(&mut client, workspace.dir.path().join("ws")).await;
        let id = begin(&mut client).await;
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
        let_go(pipe).await;
        let done = client.next_answer().await.unwrap();
        assert_eq!(done["id"], id);
        assert_eq!(answer(&done).view["images"]["checked"], 2);
        // Who did not ask is not told.
        client.get("list-iterations", json!({ "sessionId": AUDIT })).await;
        assert!(client.overheard("notifications/progress").len() <= 1);
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_and_is_answered_no_more() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let pipe = slow_session(&mut client, workspace.dir.path().join("ws")).await;
        let id = begin(&mut client).await;
        let params = json!({ "requestId": id, "reason": "no longer needed", "_meta": meta() });
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string())
            .await;
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
        let_go(pipe).await;
        for _ in 0..20 {
            client.get("list-sessions", json!({})).await;
        }
        client.hang_up();
        assert_eq!(client.next_answer().await, None);
        assert_eq!(client.overheard("notifications/progress"), Vec::<Value>::new(), "nothing more of it");
    }
}

/// A call that does not end keeps nobody: what was written is whole lines, and the process ends.
#[tokio::test]
async fn the_end_waits_only_so_long() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut client) = process::start(dir.path(), Era::Stateless).await;
    slow_session(&mut client, dir.path().to_owned()).await;
    begin(&mut client).await;
    let (line, id) = client.line("tools/call", json!({ "name": "record-iteration", "arguments": { "prompt": "b" } }));
    client.send(&line).await;
    client.hang_up();
    // Whole lines only: `next` reads each as JSON.
    assert_eq!(client.next_answer().await.unwrap()["id"], id);
    assert_eq!(client.next_answer().await, None);
    assert!(process::within_seconds(10, &mut child).await.success());
    let (child, mut client) = process::start(dir.path(), Era::Stateless).await;
    let sessions = client.get("list-sessions", json!({})).await;
    assert_eq!(sessions["totalSessions"], 2, "what was acknowledged is there");
    assert_eq!(sessions.get("recovery"), None);
    process::end(child, client).await;
}
