//! Output to a closed pipe or a full disk; colours and the log.

use std::io;
use std::process::Stdio;

use crate::support::{FIRST, TestWorkspace};

#[test]
fn a_closed_pipe_is_not_an_error() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    for args in [
        &["list"] as &[&str],
        &["list", "--json"],
        &["list", "--all"],
        &["show", FIRST],
        &["show", "latest"],
        &["audit", FIRST],
        &["verify"],
        &["doctor"],
        &["export"],
        &["completions", "bash"],
        &["--help"],
        &["record", "--help"],
        &["record", "unheard"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let child = workspace.command(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{args:?}");
    }
    assert_eq!(workspace.listed()["totalSessions"], 2, "it is recorded even if the output cannot be printed");
}

#[test]
fn reports_that_could_not_be_printed_stay_unread() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    std::fs::remove_file(workspace.workspace().join("journal/00000001.log")).unwrap();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let status = workspace.command(&["repair"]).stdout(writer).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(workspace.run(&["list"]).stderr().contains("the workspace was damaged"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_stdout_is_reported() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    for args in [&["list"] as &[&str], &["list", "--json"], &["export"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let child = workspace.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{args:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("could not be written to standard output"), "{args:?}");
    }
}

#[test]
fn colours_only_where_asked_for() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    let coloured = |args: &[&str]| workspace.run(args).stdout().contains('\u{1b}');
    assert!(!coloured(&["list"]), "this is not a terminal");
    assert!(coloured(&["list", "--color", "always"]));
    assert!(!coloured(&["list", "--color", "never"]));
    assert!(!coloured(&["list", "--color", "always", "--json"]));
}

#[test]
fn the_log_goes_to_stderr_and_only_when_asked_for() {
    let workspace = TestWorkspace::new();
    workspace.record(0, &["a cat"]);
    assert_eq!(workspace.run(&["list"]).stderr(), "");
    let verbose = workspace.run(&["list", "--json", "-vvv"]);
    assert!(serde_json::from_str::<serde_json::Value>(&verbose.stdout()).is_ok(), "{verbose}");

    let log = |filter: &str| {
        let ran = workspace.command(&["list", "--json"]).env("RETAKE_LOG", filter).output().unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&ran.stdout).is_ok());
        assert!(ran.status.success());
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    log("trace");
    assert!(log("retake=loud").starts_with("warning: RETAKE_LOG is not understood and ignored"));
}
