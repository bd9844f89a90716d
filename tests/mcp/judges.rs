//! What the official Python client thinks of the real binary, on stdio and over HTTP. The first run installs it from PyPI
//! into target/judges. The other judges take longer to install: `tests/judges.sh` runs them all.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn judged(target: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ran = Command::new(root.join("tests/judges/python.sh")).args(target).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("PASSED"),
        "the Python client complains, or cannot be installed (it needs python3 and PyPI):\n{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn the_python_client_has_no_complaints() {
    let dir = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_retake");
    judged(&[binary, "mcp", "--workspace", dir.path().join("stdio").to_str().unwrap()]);

    let mut server = Command::new(binary)
        .args(["serve", "--addr", "127.0.0.1:0", "--json", "--workspace"])
        .arg(dir.path().join("http"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let said: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = format!("{}mcp", said["url"].as_str().unwrap());
    let judging = std::panic::catch_unwind(|| judged(&[&url]));
    server.kill().unwrap();
    server.wait().unwrap();
    judging.unwrap_or_else(|complaint| std::panic::resume_unwind(complaint));
}
