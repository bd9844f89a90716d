//! Checks that nothing connects to another machine without being asked to: a whole session of work under strace.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Trial;

use super::{retake, succeeds, trial};

pub(crate) fn trials() -> Vec<Trial> {
    let missing = (!succeeds(Command::new("strace").arg("-V"))).then_some("needs strace");
    vec![
        trial("no_verb_connects_to_another_machine", missing, no_verb_connects_to_another_machine),
        trial("a_connection_would_be_noticed", missing, a_connection_would_be_noticed),
    ]
}

fn no_verb_connects_to_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("workspace");
    let image = dir.path().join("in").join("a.png");
    std::fs::create_dir(image.parent().unwrap()).unwrap();
    std::fs::write(&image, retake_testutils::images::plain(64, 64, 7)).unwrap();
    let folder = dir.path().join("out");
    let image = image.to_str().unwrap();
    for (number, args) in [
        vec!["record", "a fox", "--seed", "1", "--image", image],
        vec!["record", "a fox at night", "--session", "latest"],
        vec!["import", dir.path().join("in").to_str().unwrap()],
        vec!["list"],
        vec!["show", "latest"],
        vec!["resume"],
        vec!["search", "fox"],
        vec!["compare", "latest#0", "latest#1"],
        vec!["annotate", "latest", "--rating", "4"],
        vec!["export", "--folder", folder.to_str().unwrap()],
        vec!["verify"],
        vec!["doctor"],
        vec!["mcp"],
        vec!["mcp", "install", "cursor"],
        vec!["audit", "--status", "all"],
        vec!["archive", "latest"],
        vec!["wrap", "--", "true"],
    ]
    .into_iter()
    .enumerate()
    {
        let trace = dir.path().join(format!("{number}.trace"));
        let mut command = traced(&trace);
        command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(&workspace).args(&args);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{args:?}: {status}");
        let foreign = connections(&trace);
        assert!(foreign.is_empty(), "retake {args:?} connected:\n{}", foreign.join("\n"));
    }
    serves_without_connecting(&workspace, &dir.path().join("serve.trace"));
    assert!(retake(&workspace).arg("list").output().unwrap().status.success());
}

/// Serves the gallery to one reader, and ends it with `kill`.
fn serves_without_connecting(workspace: &Path, trace: &Path) {
    let mut command = traced(trace);
    command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(workspace).args([
        "serve",
        "--addr",
        "127.0.0.1:0",
    ]);
    let mut strace = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut printed = BufReader::new(strace.stdout.take().unwrap()).lines();
    let url = printed.next().unwrap().unwrap();
    let address = url.rsplit_once("http://").unwrap().1.trim_end_matches('/').to_owned();
    for page in ["/", "/api/list-sessions"] {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{page}: {}", String::from_utf8_lossy(&answer));
    }
    // strace itself ignores the signal, so it is sent to the traced process.
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", strace.id())).unwrap();
    assert!(succeeds(Command::new("kill").arg(children.trim())));
    assert!(strace.wait().unwrap().success());
    let foreign = connections(trace);
    assert!(foreign.is_empty(), "retake serve connected:\n{}", foreign.join("\n"));
}

/// Checks that a trace shows connections, without which the test above would prove nothing. Connecting a datagram
/// socket to an address reserved for documentation sends nothing.
fn a_connection_would_be_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    assert!(traced(&trace).args(["bash", "-c", &script]).status().unwrap().success());
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.contains("inet_addr(\"127.0.0.1\")"), "{text}");
    assert!(connections(&trace).is_empty());
    // A machine without a route refuses the call, but the trace still contains it.
    let script = "exec 3<>/dev/udp/192.0.2.1/9";
    traced(&trace).args(["bash", "-c", script]).stderr(Stdio::null()).status().unwrap();
    let found = connections(&trace);
    assert!(found.iter().any(|line| line.contains("192.0.2.1")), "{found:?}");
}

fn traced(trace: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o"]).arg(trace);
    command
}

/// Returns the calls with an address of another machine.
fn connections(trace: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap();
    let named = text.lines().filter(|line| line.contains("sin_addr") || line.contains("sin6_addr"));
    named.filter(|line| !line.contains("inet_addr(\"127.") && !line.contains("\"::1\"")).map(str::to_owned).collect()
}
