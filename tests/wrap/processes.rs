//! The server as a process: exit codes, signals, end of input, and no leftover processes.

use std::ffi::OsString;

use serde_json::json;

use crate::Test;
use crate::client::{Client, Desk, eventually, is_alive, signal};

#[cfg(unix)]
pub(crate) const TESTS: &[Test] = &[
    ("exit_codes_are_the_servers", exit_codes_are_the_servers),
    ("environment_directory_and_stderr_are_the_servers", environment_directory_and_stderr_are_the_servers),
    ("signals_reach_the_server", signals_reach_the_server),
    ("a_server_that_ignores_everything_is_killed", a_server_that_ignores_everything_is_killed),
    ("no_process_outlives_the_wrapper", no_process_outlives_the_wrapper),
    ("a_command_that_is_not_there_is_an_error", a_command_that_is_not_there_is_an_error),
    ("nothing_is_created_without_a_generation", nothing_is_created_without_a_generation),
    ("a_server_that_ends_does_not_wait_for_the_client", a_server_that_ends_does_not_wait_for_the_client),
];
#[cfg(not(unix))]
pub(crate) const TESTS: &[Test] = &[];

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).into()
}

fn exit_codes_are_the_servers() {
    let desk = Desk::new();
    for (script, code) in
        [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -15 $$", 143), ("cat; exit 5", 5)]
    {
        let (status, ..) = desk.wrap(&[], &shell(script)).wait();
        assert_eq!(status.code(), Some(code), "{script}");
    }
}

fn environment_directory_and_stderr_are_the_servers() {
    let desk = Desk::new();
    let mut command = desk.retake(&["wrap", "--", "sh", "-c", "pwd; echo \"$SPECIAL\"; printf 'to \\377 stderr' >&2"]);
    command.env("SPECIAL", "a b");
    let output = command.output().unwrap();
    let expected = format!("{}\na b\n", desk.out().canonicalize().unwrap().display());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(output.stderr, b"to \xff stderr");
}

/// Starts a server that prints its process id on its first line.
fn started(desk: &Desk, script: &str) -> (Client, u32) {
    let client = desk.wrap(&[], &shell(&format!("echo $$; {script}")));
    let pid = String::from_utf8(client.line()).unwrap().trim().parse().unwrap();
    (client, pid)
}

fn signals_reach_the_server() {
    let desk = Desk::new();
    for (name, code) in [("TERM", 9), ("INT", 10), ("HUP", 11), ("USR1", 12)] {
        let script = "trap 'exit 9' TERM; trap 'exit 10' INT; trap 'exit 11' HUP; trap 'exit 12' USR1; echo ready; while :; do sleep 0.05; done";
        let (client, _) = started(&desk, script);
        client.line();
        signal(name, client.process.id());
        let (status, ..) = client.wait();
        assert_eq!(status.code(), Some(code), "{name}");
    }
}

fn a_server_that_ignores_everything_is_killed() {
    let desk = Desk::new();
    let script = "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done";
    let (client, pid) = started(&desk, script);
    client.line();
    signal("TERM", client.process.id());
    let (status, ..) = client.wait();
    assert_eq!(status.code(), Some(137));
    assert!(!is_alive(pid));
}

fn no_process_outlives_the_wrapper() {
    let desk = Desk::new();
    // The server exits at the end of input; its child holds its stdout open and ignores that.
    let (mut client, _) = started(&desk, "(trap '' HUP; exec sleep 1000) & echo $!; cat >/dev/null");
    let grandchild: u32 = String::from_utf8(client.line()).unwrap().trim().parse().unwrap();
    assert!(is_alive(grandchild));
    client.close();
    let (status, ..) = client.wait();
    assert_eq!(status.code(), Some(0));
    eventually("the grandchild ends", || !is_alive(grandchild));
}

fn a_command_that_is_not_there_is_an_error() {
    let desk = Desk::new();
    let output = desk.retake(&["wrap", "--", "no-such-command-at-all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("cannot run \"no-such-command-at-all\"") && printed.contains("hint:"), "{printed}");
    for flags in [
        &["wrap"][..],
        &["wrap", "--session", "yesterday", "--", "true"],
        &["wrap", "--addr", "127.0.0.1:0", "--", "true"],
    ] {
        let output = desk.retake(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
    // An unreachable team workspace affects recording, not the server.
    let flags = ["--workspace", "postgres://ada@127.0.0.1:1/none", "wrap", "--", "true"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_retake"));
    desk.settle(&mut command);
    let output = command.args(flags).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

fn nothing_is_created_without_a_generation() {
    let desk = Desk::new();
    let mut client = desk.wrap_images(&[]);
    client.initialize();
    client.call("list_things", json!({}));
    client.finish();
    assert!(!desk.workspace().exists());
}

fn a_server_that_ends_does_not_wait_for_the_client() {
    let desk = Desk::new();
    let mut client = desk.wrap(&[], &shell("echo bye; exit 6"));
    assert_eq!(client.line(), b"bye\n");
    // Stdin stays open.
    let status = client.process.wait().unwrap();
    assert_eq!(status.code(), Some(6));
}
