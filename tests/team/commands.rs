//! The real binary on team workspaces: every command, two machines, no secrets in the output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use retake_testutils::images::PIXEL;
use serde_json::Value;

use super::postgres_trial;
use super::servers::Postgres;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("commands::every_verb_works_on_two_machines", every_verb),
        postgres_trial("commands::damage_in_the_database_costs_only_what_it_hit", damaged_records),
        postgres_trial("commands::problems_are_named_without_secrets", problems),
        postgres_trial("commands::an_mcp_server_hears_of_another_machine", mcp),
    ]
}

/// A machine: a home directory, and nothing else of the environment.
pub(crate) struct Machine {
    home: tempfile::TempDir,
    url: String,
}

pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Machine {
    pub(crate) fn new(url: &str) -> Machine {
        Machine { home: tempfile::tempdir().unwrap(), url: url.to_owned() }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        command
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("USER", "ada")
            .env("RETAKE_WORKSPACE", &self.url)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.status, Some(0), "{arguments:?}\n{}\n{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(arguments);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {text}"))
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Sets up a workspace with the binary itself, with images in a shared directory.
pub(crate) fn set_up(server: &Postgres, images: &Path) -> (String, String) {
    let schema = server.fresh_schema();
    let role = format!("app_{schema}");
    server.sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    let owner = server.url(&schema);
    let machine = Machine::new(&owner);
    let location = format!("file://{}", images.display());
    machine.ok(&["team", "init", &owner, "--images", &location, "--role", &role]);
    (schema, owner.replace("postgres@", &format!("{role}:hunter2@")))
}

fn every_verb() {
    let server = Postgres::shared();
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(server, &images.path().join("images"));
    let (here, there) = (Machine::new(&url), Machine::new(&url));
    let status = here.json(&["team", "status", "--json"]);
    assert_eq!((&status["schemaVersion"], &status["warnings"]), (&Value::from(2), &Value::Array(Vec::new())));
    let fox = here.file("fox.png", PIXEL);
    let recorded = here.json(&[
        "record",
        "a red fox",
        "--image",
        fox.to_str().unwrap(),
        "--model",
        "sdxl",
        "--seed",
        "7",
        "--json",
    ]);
    let first = recorded["reference"].as_str().unwrap().to_owned();
    let session = first.split('#').next().unwrap().to_owned();
    // The other machine sees it, has the image, and continues.
    let listed = there.json(&["list", "--json"]);
    assert_eq!(listed["sessions"][0]["id"], session.as_str());
    assert!(there.ok(&["show", &first]).contains("a red fox"));
    let folder = there.home.path().join("folder");
    there.ok(&["export", "--folder", folder.to_str().unwrap()]);
    assert!(walk(&folder).iter().any(|path| path.extension().is_some_and(|it| it == "png")), "the image came along");
    let second = there.json(&["record", "a red fox in snow", "--session", &session, "--json"]);
    assert_eq!(second["session"]["iterationCount"], 2);
    there.ok(&["annotate", &first, "--rating", "4", "--tag", "keeper"]);
    assert!(here.ok(&["resume", &session]).contains("a red fox in snow"));
    assert_eq!(here.json(&["search", "fox", "--json"])["totalMatches"], 2);
    assert_eq!(there.json(&["search", "keeper", "--json"]), here.json(&["search", "keeper", "--json"]));
    here.ok(&["compare", &first, &format!("{session}#1")]);
    there.ok(&["archive", &session, "--reason", "delivered"]);
    let refused = here.run(&["record", "more", "--session", &session]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.stderr.contains("archived"), "{}", refused.stderr);
    here.ok(&["restore", &session]);
    let audit = there.json(&["audit", &session, "--json"]);
    assert_eq!(audit["chain"]["holds"], true, "{audit}");
    assert!(here.ok(&["verify"]).to_lowercase().contains("image"));
    here.ok(&["repair"]);
    let doctor = here.run(&["doctor"]);
    assert_eq!(doctor.status, Some(0), "{}", doctor.stderr);
    assert!(!format!("{}{}", doctor.stdout, doctor.stderr).contains("hunter2"));
    // Export to a directory and import into another team workspace, byte for byte.
    let lines = here.home.path().join("all.jsonl");
    here.ok(&["export", "--output", lines.to_str().unwrap()]);
    let local = Machine::new(&here.home.path().join("local").display().to_string());
    local.ok(&["import", lines.to_str().unwrap()]);
    assert_eq!(rows(&local), rows(&here));
    let (_, other) = set_up(server, &images.path().join("other"));
    let other = Machine::new(&other);
    other.ok(&["import", lines.to_str().unwrap()]);
    assert_eq!(rows(&other), rows(&here));
    other.ok(&["verify"]);
    // An image missing from the shared location is reported.
    let kept = walk(&images.path().join("images"));
    kept.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    let damaged = there.run(&["verify"]);
    assert_eq!(damaged.status, Some(3), "{}", damaged.stdout);
    assert!(format!("{}{}", damaged.stdout, damaged.stderr).contains("missing"));
}

/// Records that no longer match their hashes, in the middle and at the end of a session.
fn damaged_records() {
    let server = Postgres::shared();
    let images = tempfile::tempdir().unwrap();
    let (schema, url) = set_up(server, images.path());
    let here = Machine::new(&url);
    here.ok(&["record", "one bridge", "--title", "Bridges"]);
    for prompt in ["two bridges", "three bridges", "four bridges"] {
        here.ok(&["record", prompt, "--session", "latest"]);
    }
    here.ok(&["record", "another bridge", "--title", "Elsewhere"]);
    // The start has number 0, so these are the second and the fourth iteration.
    server
        .sql(&format!(
            "SET session_replication_role = replica; UPDATE {schema}.records \
             SET bytes = set_byte(bytes, 90, get_byte(bytes, 90) # 1) WHERE number = 1 AND seq IN (2, 4)"
        ))
        .unwrap();
    let there = Machine::new(&url);
    assert_eq!(there.json(&["list", "--json"])["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(there.json(&["search", "bridge", "--json"])["totalMatches"], 3, "one, three and another");
    let session = there.json(&["list", "--json", "--query", "Bridges"])["sessions"][0].clone();
    assert_eq!((&session["iterationCount"], &session["currentIterationIndex"]), (&4.into(), &3.into()));
    let id = session["id"].as_str().unwrap();
    let shown = there.ok(&["show", id]);
    for whole in ["one bridge", "three bridges"] {
        assert!(shown.contains(whole), "{shown}");
    }
    for damaged in ["two bridges", "four bridges"] {
        assert!(!shown.contains(damaged), "{shown}");
    }
    let lost = there.run(&["show", &format!("{id}#1")]);
    assert_ne!(lost.status, Some(0));
    assert!(lost.stderr.contains("lost"), "{}", lost.stderr);
    // The next iteration takes the next index, and the search of a machine that knew the session goes on.
    assert_eq!(there.json(&["record", "five bridges", "--session", id, "--json"])["reference"], format!("{id}#4"));
    assert_eq!(here.json(&["search", "five", "--json"])["totalMatches"], 1);
    let verified = there.run(&["verify"]);
    assert_eq!(verified.status, Some(3), "{}", verified.stdout);
    assert!(verified.stdout.contains("does not match its hash"), "{}", verified.stdout);
}

fn rows(machine: &Machine) -> Value {
    machine.json(&["list", "--json"])["sessions"].clone()
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

fn problems() {
    let server = Postgres::shared();
    let check = |url: &str, arguments: &[&str], status: i32, words: &[&str]| {
        let ran = Machine::new(url).run(arguments);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.status, Some(status), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{words:?} in\n{text}");
        assert!(!text.contains("hunter2"), "{text}");
    };
    let url = server.url(&server.fresh_schema()).replace("postgres@", "postgres:hunter2@");
    check(&url, &["list"], 1, &["is not a Retake workspace", "retake team init"]);
    let closed = "postgres://ada:hunter2@127.0.0.1:1/studio?call_timeout=1";
    check(closed, &["list"], 1, &["unreachable", "127.0.0.1:1"]);
    check(closed, &["doctor"], 1, &["unreachable"]);
    check("postgres://ada:hunter2@db.example/studio?sslmode=prefer", &["list"], 2, &["sslmode=prefer"]);
    check(&url, &["team", "init", &url, "--images", "ftp://x"], 1, &["image location"]);
    check(&url, &["team", "init", &url, "--images", "file:///proc/nowhere"], 1, &["images cannot be kept"]);
    check("/tmp", &["team", "status"], 2, &["not a team workspace"]);
}

/// A server on one machine, a recording on another, and a notification between them.
fn mcp() {
    use std::io::{BufRead, BufReader, Write};
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(Postgres::shared(), &images.path().join("images"));
    let (here, there) = (Machine::new(&url), Machine::new(&url));
    let mut server =
        here.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut send = |text: &str| writeln!(stdin, "{text}").unwrap();
    let mut until =
        |wanted: &str| -> String { lines.by_ref().map(Result::unwrap).find(|line| line.contains(wanted)).unwrap() };
    send(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
    );
    until(r#""id":1"#);
    send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    send(r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"retake://sessions"}}"#);
    until(r#""id":2"#);
    there.ok(&["record", "from elsewhere"]);
    assert!(until("notifications/resources/updated").contains("retake://sessions"));
    send(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list-sessions","arguments":{}}}"#);
    assert!(until(r#""id":3"#).contains("iterationCount"));
    server.kill().unwrap();
    server.wait().unwrap();
}
