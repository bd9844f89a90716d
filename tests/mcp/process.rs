//! The real binary, as clients start it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use crate::client::{Client, Era};

fn command(workspace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command
        .args(["mcp", "--workspace"])
        .arg(workspace)
        .env_remove("RUST_LOG")
        .env_remove("RETAKE_LOG")
        .env_remove("RETAKE_ROOTS")
        .kill_on_drop(true);
    command
}

pub(crate) async fn start(workspace: &Path, era: Era) -> (Child, Client) {
    start_with(workspace, era, |_| ()).await
}

pub(crate) async fn start_with(workspace: &Path, era: Era, with: impl FnOnce(&mut Command)) -> (Child, Client) {
    let mut command = command(workspace);
    with(&mut command);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut client = Client::new(era, child.stdout.take().unwrap(), child.stdin.take().unwrap());
    client.open().await;
    (child, client)
}

/// Ends the conversation; the process must exit successfully, promptly, and without output.
pub(crate) async fn end(mut child: Child, mut client: Client) {
    client.hang_up();
    assert_eq!(client.next_answer().await, None);
    let status = within_seconds(5, &mut child).await;
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).await.unwrap();
    assert!(status.success(), "{status}: {message}");
    assert_eq!(message, "");
}

pub(crate) async fn within_seconds(seconds: u64, child: &mut Child) -> ExitStatus {
    tokio::time::timeout(Duration::from_secs(seconds), child.wait()).await.expect("it ends in time").unwrap()
}

#[tokio::test]
async fn sessions_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("not made yet");
    for (writer, reader) in [(Era::Initialize, Era::Stateless), (Era::Stateless, Era::Initialize)] {
        let (child, mut client) = start(&workspace, writer).await;
        client.record("2025-12-11T10:15:30.123Z", json!({ "title": "Foxes" })).await;
        client.record("2025-12-11T14:45:22.456Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        client.get("archive-session", json!({ "sessionId": "session-2025-12-11-001" })).await;
        let before = client.get("list-sessions", json!({})).await;
        end(child, client).await;

        let (child, mut client) = start(&workspace, reader).await;
        let after = client.get("list-sessions", json!({})).await;
        let shown = |view: &Value| (view["sessions"].to_string(), view["totalSessions"].clone());
        assert_eq!(shown(&after), shown(&before));
        assert_eq!(after.get("recovery"), None, "{after}");
        client.get("restore-session", json!({ "sessionId": "session-2025-12-11-001" })).await;
        end(child, client).await;
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut client) = start(dir.path(), Era::Stateless).await;
    let reference = client.record("2025-12-11T10:15:30.123Z", json!({})).await;
    child.kill().await.unwrap();
    let (child, mut client) = start(dir.path(), Era::Stateless).await;
    assert_eq!(client.get("get-iteration", json!({ "reference": "latest" })).await["reference"], reference);
    end(child, client).await;
}

/// Every client starts its own server.
#[tokio::test]
async fn two_servers_share_a_workspace_and_either_may_exit() {
    for kill_first in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (mut first, mut one) = start(dir.path(), Era::Initialize).await;
        let (mut second, mut other) = start(dir.path(), Era::Stateless).await;
        for index in 0..5 {
            one.record("2025-12-11T10:00:00Z", json!({})).await;
            let id = format!("session-2025-12-11-{:03}", index + 1);
            let reference = other.record("2025-12-11T11:00:00Z", json!({ "sessionId": id })).await;
            assert_eq!(reference, format!("{id}#1"));
        }
        let (child, mut left) = if kill_first {
            first.kill().await.unwrap();
            (second, other)
        } else {
            second.kill().await.unwrap();
            (first, one)
        };
        assert_eq!(left.get("list-sessions", json!({})).await["totalSessions"], 5);
        let reference = left.record("2025-12-11T12:00:00Z", json!({ "sessionId": "session-2025-12-11-001" })).await;
        assert_eq!(reference, "session-2025-12-11-001#2");
        end(child, left).await;
    }
}

#[tokio::test]
async fn a_silent_client_is_not_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut child =
        command(dir.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(within_seconds(5, &mut child).await.success());
}

/// Node starts its children on sockets, which cannot be read like pipes, and a read that never returns must not keep
/// the process alive.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_it_at_once_on_pipes_and_sockets() {
    for sockets in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path());
        command.stderr(Stdio::piped());
        let (mut child, mut client);
        if sockets {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let stdin = Stdio::from(std::os::fd::OwnedFd::from(theirs.try_clone().unwrap()));
            child = command.stdin(stdin).stdout(Stdio::from(std::os::fd::OwnedFd::from(theirs))).spawn().unwrap();
            drop(command);
            ours.set_nonblocking(true).unwrap();
            let (reader, writer) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
            client = Client::new(Era::Initialize, reader, writer);
        } else {
            child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            client = Client::new(Era::Initialize, child.stdout.take().unwrap(), child.stdin.take().unwrap());
        }
        client.open().await;
        client.record("2025-12-11T10:15:30.123Z", json!({})).await;

        let begun = Instant::now();
        let pid = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        assert!(within_seconds(5, &mut child).await.success(), "sockets: {sockets}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

        let (child, mut client) = start(dir.path(), Era::Stateless).await;
        assert_eq!(client.get("list-sessions", json!({})).await["totalSessions"], 1);
        end(child, client).await;
    }
}
