//! A suspended owner of the workspace, as by Ctrl-Z: others report what they wait for, and give up in time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;

use super::{retake, succeeds, trial};

/// Far more than the 30 seconds after which a call fails, and far less than the 10 minutes it once took.
const BOUND: Duration = Duration::from_secs(120);

pub(crate) fn trials() -> Vec<Trial> {
    let missing = (!succeeds(Command::new("kill").args(["-0", &std::process::id().to_string()])))
        .then_some("needs the command `kill`");
    vec![trial("a_suspended_owner_is_named_and_given_up", missing, a_suspended_owner_is_named_and_given_up)]
}

/// A suspended process, killed at the end of the test.
struct Suspended(Child);

impl Drop for Suspended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_suspended_owner_is_named_and_given_up() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    assert!(succeeds(retake(&workspace).args(["record", "first"])));
    let mut owner = retake(&workspace).arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It responds, so it owns the workspace.
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    writeln!(owner.stdin.as_mut().unwrap(), "{request}").unwrap();
    BufReader::new(owner.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let pid = owner.id();
    assert!(succeeds(Command::new("kill").args(["-STOP", &pid.to_string()])));
    let owner = Suspended(owner);

    let begun = Instant::now();
    let start = |arguments: &[&str]| {
        let mut command = retake(&workspace);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let (mut list, doctor) = (start(&["list", "--json"]), start(&["doctor"]));
    let (machine, completed) = (start(&["doctor", "--json"]), start(&["complete-references"]));
    let [doctor, machine, completed] = [doctor, machine, completed].map(|child| child.wait_with_output().unwrap());
    assert!(list.try_wait().unwrap().is_none(), "neither a diagnosis nor a key press waits as long as a request");
    let list = list.wait_with_output().unwrap();
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());

    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (answer, reported) = (text(&list.stdout), text(&list.stderr));
    assert_eq!(list.status.code(), Some(1), "{answer}");
    assert!(reported.contains(&format!("waiting for process {pid}")), "{reported}");
    assert!(answer.contains(r#""kind":"busy""#) && answer.contains(&format!("process {pid} ")), "{answer}");
    let diagnosis = text(&doctor.stdout);
    let named = format!("process {pid}, which does not answer; retake {}, since 2", env!("CARGO_PKG_VERSION"));
    for part in [named, format!("kill -CONT {pid}"), "format ".into(), "journal ".into(), "images ".into()] {
        assert!(diagnosis.contains(&part), "{part} in {diagnosis}");
    }
    assert!(!text(&doctor.stderr).contains("error:"), "it is an answer, not an error");
    let machine: serde_json::Value = serde_json::from_slice(&machine.stdout).unwrap();
    assert_eq!((&machine["owner"]["pid"], &machine["ownerResponds"]), (&pid.into(), &false.into()), "{machine}");
    assert_eq!((doctor.status.code(), completed.status.success()), (Some(1), false), "a health check fails");

    assert!(succeeds(Command::new("kill").args(["-CONT", &pid.to_string()])));
    assert!(succeeds(retake(&workspace).arg("list")));
    drop(owner);
}
