//! What others' programs think of the real binary, on stdio and over HTTP: the official Python client, the official
//! Inspector, and the official conformance suite in three revisions. The first run installs them from PyPI and npm into
//! target/judges.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

#[test]
fn no_judge_has_complaints() {
    let judges = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges.sh");
    let ran = Command::new(judges).arg(env!("CARGO_BIN_EXE_retake")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("PASSED: all judges"),
        "a judge complains, or cannot be installed (they need python3, npm and their registries):\n{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}
