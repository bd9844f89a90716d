//! Nothing connects to another machine unless it was asked to: a whole session of work under strace.

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
    assert!(retake(&workspace).arg("list").output().unwrap().status.success());
}

/// Checks that the trace shows connections at all, without which the test above proves nothing: a server on loopback
/// differs from another machine only in its address.
fn a_connection_would_be_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    assert!(traced(&trace).args(["bash", "-c", &script]).status().unwrap().success());
    let text = std::fs::read_to_string(&trace).unwrap();
    assert!(text.contains("inet_addr(\"127.0.0.1\")"), "{text}");
    assert!(connections(&trace).is_empty());
    std::fs::write(&trace, text.replace("127.0.0.1", "192.0.2.1")).unwrap();
    assert_eq!(connections(&trace).len(), 1);
}

fn traced(trace: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o"]).arg(trace);
    command
}

/// Returns the calls that name an address of another machine.
fn connections(trace: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap();
    let named = text.lines().filter(|line| line.contains("sin_addr") || line.contains("sin6_addr"));
    named.filter(|line| !line.contains("inet_addr(\"127.") && !line.contains("\"::1\"")).map(str::to_owned).collect()
}
