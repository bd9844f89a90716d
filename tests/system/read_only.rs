//! Workspaces on a read-only mount: everything can be read, nothing can be written, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{retake, succeeds, trial};

/// Mounts `$1` read-only and runs the rest there.
const READ_ONLY: &str = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"";

pub(crate) fn trials() -> Vec<Trial> {
    let probe = tempfile::tempdir().unwrap();
    let permitted = succeeds(read_only(probe.path()).arg("true"));
    let missing = (!permitted).then_some("needs `unshare` and permission to mount");
    vec![
        trial("a_read_only_workspace_can_be_read", missing, a_read_only_workspace_can_be_read),
        trial("damage_to_a_read_only_workspace_is_named", missing, damage_to_a_read_only_workspace_is_named),
        trial("the_gallery_of_a_read_only_workspace", missing, the_gallery_of_a_read_only_workspace),
    ]
}

/// Returns a command that runs with this directory mounted read-only.
fn read_only(dir: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-Um", "--map-root-user", "sh", "-c", READ_ONLY, "sh"]).arg(dir);
    command
}

/// A workspace with two sessions, one of them archived, and a directory for temporary files.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("temporary")).unwrap();
        fs::write(home.path().join("a.png"), retake_testutils::made::png(1, &[])).unwrap();
        let place = Place { home };
        for prompt in ["a fox", "a bridge"] {
            let image = place.home.path().join("a.png");
            assert!(succeeds(retake(&place.workspace()).args(["record", prompt, "--image"]).arg(image)));
        }
        assert!(succeeds(retake(&place.workspace()).args(["annotate", "latest", "--rating", "4"])));
        place
    }

    fn workspace(&self) -> PathBuf {
        self.home.path().join("ws")
    }

    fn run_read_only(&self, arguments: &[&str]) -> Output {
        let mut command = read_only(&self.workspace());
        command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(self.workspace()).args(arguments);
        command.env("USER", "ada").env("TMPDIR", self.home.path().join("temporary")).output().unwrap()
    }

    /// Returns every file of the workspace with its length and modification time.
    fn files(&self) -> BTreeMap<PathBuf, (u64, SystemTime)> {
        let mut files = BTreeMap::new();
        let mut dirs = vec![self.workspace()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let found = entry.metadata().unwrap();
                if found.is_dir() {
                    dirs.push(entry.path());
                }
                files.insert(entry.path(), (found.len(), found.modified().unwrap()));
            }
        }
        files
    }
}

fn a_read_only_workspace_can_be_read() {
    let place = Place::new();
    let reading: [&[&str]; 8] = [
        &["list", "--json"],
        &["show", "latest", "--json"],
        &["resume", "latest", "--json"],
        &["audit", "latest", "--json"],
        &["search", "fox", "--json"],
        &["verify"],
        &["export", "--no-images"],
        &["list", "--projects"],
    ];
    let expected: Vec<Output> =
        reading.iter().map(|arguments| retake(&place.workspace()).args(*arguments).output().unwrap()).collect();
    let before = place.files();
    for (arguments, expected) in reading.iter().zip(expected) {
        let output = place.run_read_only(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {} {stderr}", String::from_utf8_lossy(&output.stdout));
        if !arguments.contains(&"export") {
            // An export contains the time at which it was made.
            assert_eq!(untimed(&output), untimed(&expected), "{arguments:?}");
        }
    }
    let writing: [&[&str]; 4] =
        [&["record", "another"], &["annotate", "latest", "--rating", "3"], &["archive", "latest"], &["repair"]];
    for arguments in writing {
        let output = place.run_read_only(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr.contains("the workspace can only be read"), "{arguments:?}: {stderr}");
    }
    assert_eq!(place.files(), before);
    let left: Vec<_> = fs::read_dir(place.home.path().join("temporary")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the output, without the time of the response.
fn untimed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(mut answer)) => {
            answer.remove("timestamp");
            Value::Object(answer).to_string()
        }
        _ => text,
    }
}

fn the_gallery_of_a_read_only_workspace() {
    let place = Place::new();
    let before = place.files();
    let mut command = read_only(&place.workspace());
    command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(place.workspace());
    command.args(["serve", "--port", "0", "--json"]).env("TMPDIR", place.home.path().join("temporary"));
    let mut serving = Serving(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(serving.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let served: Value = serde_json::from_str(&line).unwrap();
    let address = served["url"].as_str().unwrap().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    for (path, part) in [("/", "a bridge"), ("/api/list-sessions", r#""totalSessions":2"#)] {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(part), "{path}: {answer}");
    }
    drop(serving);
    assert_eq!(place.files(), before);
}

/// A process that is killed at the end of the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn damage_to_a_read_only_workspace_is_named() {
    let place = Place::new();
    let journal = place.workspace().join("journal/00000001.log");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[200] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let before = place.files();
    let verified = place.run_read_only(&["verify"]);
    assert_eq!(verified.status.code(), Some(3), "{}", String::from_utf8_lossy(&verified.stdout));
    assert_eq!(place.files(), before, "nothing is repaired there");

    // A missing database only costs time.
    fs::remove_dir_all(place.workspace().join("db")).unwrap();
    let listed = place.run_read_only(&["list", "--json"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("\"iterationCount\":1"), "{listed:?}");
    assert!(!place.workspace().join("db").exists());
}
