//! Long calls: progress and cancellation. An image that grows as soon as it is opened makes a call take as long as the
//! test needs: the reader does not reach its end until the test truncates it.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::inotify;
use serde_json::{Value, json};

use crate::client::{Client, Era, TestWorkspace, answer, meta};
use crate::process;

const AUDIT: &str = "session-2025-12-11-001";

/// The initial length of the slow image: below the limit, and more than is read before it grows.
const FIRST_LENGTH: u64 = 200 << 20;
/// The length it grows to once it is open: minutes of reading, and sparse on disk.
const LENGTH: u64 = 1 << 40;

/// An image whose end is not reached once it is opened.
pub(crate) struct SlowImage {
    file: Arc<Mutex<GrowingFile>>,
}

struct GrowingFile {
    file: File,
    may_grow: bool,
}

/// Records two images, and replaces the first by a slow one.
pub(crate) async fn slow_session(client: &mut Client, workspace: PathBuf) -> SlowImage {
    let images = json!([{ "data": "SUkqAGZpcnN0" }, { "data": "SUkqAHNlY29uZA==" }]);
    client.record("2025-12-11T10:00:00Z", json!({ "images": images })).await;
    let whole = client.get("get-iteration", json!({ "reference": "latest" })).await;
    let hash = whole["images"][0]["hash"].as_str().unwrap();
    let path = workspace.join("images").join(&hash[..2]).join(&hash[2..]);
    std::fs::remove_file(&path).unwrap();
    let file = File::create(&path).unwrap();
    file.set_len(FIRST_LENGTH).unwrap();
    let watch = inotify::init(inotify::CreateFlags::empty()).unwrap();
    inotify::add_watch(&watch, &path, inotify::WatchFlags::OPEN).unwrap();
    let file = Arc::new(Mutex::new(GrowingFile { file, may_grow: true }));
    let growing = Arc::clone(&file);
    std::thread::spawn(move || {
        let mut buffer = [const { MaybeUninit::uninit() }; 512];
        inotify::Reader::new(watch, &mut buffer).next().unwrap();
        let growing = growing.lock().unwrap();
        if growing.may_grow {
            growing.file.set_len(LENGTH).unwrap();
        }
    });
    SlowImage { file }
}

/// Lets the reader of the image continue, by truncating it before the reader's position.
pub(crate) async fn let_go(image: SlowImage) {
    let mut growing = image.file.lock().unwrap();
    growing.may_grow = false;
    growing.file.set_len(0).unwrap();
}

/// Starts an audit that does not end by itself, and returns once it is known to be running.
async fn begin(client: &mut Client) -> u64 {
    let mut params = json!({ "name": "audit-session", "arguments": { "sessionId": AUDIT } });
    params["_meta"] = if client.era == Era::Stateless { meta() } else { json!({}) };
    params["_meta"]["progressToken"] = json!("how far?");
    let (line, id) = client.line("tools/call", params);
    client.send(&line).await;
    let progress = client.heard("notifications/progress").await;
    assert_eq!(progress["progressToken"], "how far?");
    // The first image may be checked before the first notification is sent.
    assert!(progress["progress"].as_f64() < Some(2.0) && progress["total"].as_f64() == Some(2.0), "{progress}");
    assert_eq!(progress["message"], "checking images");
    id
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_others_are_served_meanwhile() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let image = slow_session(&mut client, workspace.dir.path().join("ws")).await;
        let id = begin(&mut client).await;
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
        let_go(image).await;
        let done = client.next_answer().await.unwrap();
        assert_eq!(done["id"], id);
        assert_eq!(answer(&done).view["images"]["checked"], 2);
        // A client that did not ask for progress gets none.
        client.get("list-iterations", json!({ "sessionId": AUDIT })).await;
        assert!(client.overheard("notifications/progress").len() <= 1);
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_without_a_response() {
    for era in Era::BOTH {
        let workspace = TestWorkspace::new();
        let mut client = workspace.client(era).await;
        let image = slow_session(&mut client, workspace.dir.path().join("ws")).await;
        let id = begin(&mut client).await;
        let params = json!({ "requestId": id, "reason": "no longer needed", "_meta": meta() });
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string())
            .await;
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
        let_go(image).await;
        for _ in 0..20 {
            client.get("list-sessions", json!({})).await;
        }
        client.hang_up();
        assert_eq!(client.next_answer().await, None);
        assert_eq!(client.overheard("notifications/progress"), Vec::<Value>::new(), "nothing more of it");
    }
}

/// A call that does not end does not keep the process alive: all output is complete lines, and it exits.
#[tokio::test]
async fn shutdown_waits_for_calls_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut client) = process::start(dir.path(), Era::Stateless).await;
    slow_session(&mut client, dir.path().to_owned()).await;
    begin(&mut client).await;
    let (line, id) = client.line("tools/call", json!({ "name": "record-iteration", "arguments": { "prompt": "b" } }));
    client.send(&line).await;
    client.hang_up();
    // Complete lines only: `next` parses each as JSON.
    assert_eq!(client.next_answer().await.unwrap()["id"], id);
    assert_eq!(client.next_answer().await, None);
    assert!(process::within_seconds(10, &mut child).await.success());
    let (child, mut client) = process::start(dir.path(), Era::Stateless).await;
    let sessions = client.get("list-sessions", json!({})).await;
    assert_eq!(sessions["totalSessions"], 2, "what was acknowledged is there");
    assert_eq!(sessions.get("recovery"), None);
    process::end(child, client).await;
}
