//! Many requests on one stdin: each gets its response once it is durable, before the next one is needed.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{FIRST, PIXEL, TestWorkspace};

#[test]
fn each_request_is_answered_before_the_next_one_comes() {
    let workspace = TestWorkspace::new();
    let mut child =
        workspace.command(&["record", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for index in 0..3 {
        let session = if index == 0 { String::new() } else { format!(",\"sessionId\":\"{FIRST}\"") };
        // No line break at the end: the last brace is enough.
        write!(stdin, "{{\"prompt\":\"{index}\",\"createdAt\":\"2024-12-11T10:00:00Z\"{session}}}").unwrap();
        stdin.flush().unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["reference"], format!("{FIRST}#{index}"));
    }
    // Others are not locked out meanwhile, and can see the owner of the workspace.
    assert_eq!(workspace.json(&["doctor"])["owner"]["pid"], child.id());
    assert_eq!(workspace.record(5, &["from elsewhere", "--session", FIRST]), format!("{FIRST}#3"));
    // Acknowledged requests are kept, however the process ends.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(workspace.json(&["show", FIRST])["totalIterations"], 4);
}

#[test]
fn a_bad_request_does_not_stop_the_others() {
    let workspace = TestWorkspace::new();
    let input = b"{\"prompt\":\"one\"}\nnonsense\n{\"prompt\":\"\"}\n{\"prompt\":\"two\"}{\"prompt\":\n\"three\"}\n";
    let ran = workspace.run_with(&["record", "--json", "-"], input);
    assert_eq!((ran.status(), ran.stderr().as_str()), (1, ""));
    let answers: Vec<Value> = ran.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed: Vec<bool> = answers.iter().map(|answer| answer.get("error").is_some()).collect();
    assert_eq!(failed, [false, true, true, false, false]);
    assert_eq!(workspace.listed()["totalSessions"], 3);
}

#[test]
fn requests_come_from_a_file_and_paths_are_those_of_the_caller() {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    let request = b"\xef\xbb\xbf{\"prompt\":\"a cat\",\"images\":[\"cat.png\"],\"idempotencyKey\":\"once\"}\n";
    workspace.file("request.json", request);
    let first = workspace.run(&["record", "--json", "request.json"]);
    assert_eq!(first.status(), 0, "{first}");
    let again = workspace.run(&["record", "--json", "request.json"]);
    assert_eq!(again.stdout(), first.stdout(), "a retried write is one write");
    let image = &workspace.json(&["show", "latest"])["images"][0];
    assert_eq!((&image["name"], &image["width"]), (&"cat.png".into(), &1.into()));
}
