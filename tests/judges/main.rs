//! Other people's programs against the real MCP server, on stdio and over HTTP: the official Python client, the
//! official Inspector, the official conformance suite in three revisions, and the official host library of MCP Apps in
//! Chromium.
//!
//! They are installed from PyPI and npm into `target/judges` if `RETAKE_TEST_INSTALL=1`. Without them, the test is
//! reported as ignored.
#![expect(clippy::unwrap_used, reason = "test code: a failure is a test failure")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use retake_testutils::optional::{may_install, optional, run};

fn main() -> ExitCode {
    run(vec![optional("every_judge_is_satisfied", missing(), every_judge_is_satisfied)])
}

fn every_judge_is_satisfied() {
    let output = judges().arg(env!("CARGO_BIN_EXE_retake")).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success() && text.contains("PASSED: all judges"), "{text}");
}

/// Returns what to do about missing programs; `None` if they are installed or may be installed.
fn missing() -> Option<String> {
    if !cfg!(unix) {
        return Some("needs a Unix shell".to_owned());
    }
    if may_install() {
        return None;
    }
    let output = judges().arg("--check").output().unwrap();
    (!output.status.success()).then(|| "needs the MCP judges: set RETAKE_TEST_INSTALL=1 to install".to_owned())
}

fn judges() -> Command {
    let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges.sh");
    Command::new(script)
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
