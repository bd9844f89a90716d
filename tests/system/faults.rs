//! Failing system calls of real processes, injected by strace: each call of a verb fails once.
//!
//! Whatever fails, what was acknowledged before and what is acknowledged now must be there afterwards, and the process
//! must end with an error, not with a panic and not never. A sample runs by default; `RETAKE_TEST_FAULTS=full` runs all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::Value;

use super::{retake, succeeds, trial};

/// How many faults are injected unless all are asked for.
const SAMPLE: usize = 40;
/// How long a verb may take with a fault. It takes a second without one.
const BOUND: Duration = Duration::from_secs(90);
/// The calls that fail, and how.
const FAULTS: [(&str, &[&str]); 12] = [
    ("openat", &["EMFILE", "EACCES", "EIO", "ENOMEM"]),
    ("read", &["EIO", "ENOMEM"]),
    ("pread64", &["EIO", "ENOMEM"]),
    ("write", &["EIO", "ENOSPC"]),
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO"]),
    ("fdatasync", &["EIO"]),
    ("rename", &["EIO", "ENOSPC", "EACCES"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
    ("mkdir", &["ENOSPC", "EACCES"]),
    ("flock", &["ENOMEM"]),
    ("clone3", &["EAGAIN"]),
];
/// The verbs, as their arguments after the workspace.
const VERBS: [(&str, &[&str]); 5] = [
    ("open", &["list", "--json"]),
    ("record", &["record", "a new fox", "--image", "IMAGE", "--json"]),
    ("annotate", &["annotate", "REFERENCE", "--rating", "4", "--json"]),
    ("archive", &["archive", "SESSION", "--json"]),
    ("import", &["import", "FOLDER", "--json"]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let usable = succeeds(Command::new("strace").args(["-f", "-e", "inject=getcwd:error=EIO:when=1", "true"]));
    let missing = (!usable).then_some("needs `strace` and permission to trace");
    vec![trial("a_failing_system_call_loses_nothing", missing, a_failing_system_call_loses_nothing)]
}

/// A workspace with something in it, which is copied for every fault.
struct Template {
    home: tempfile::TempDir,
    session: String,
}

fn a_failing_system_call_loses_nothing() {
    let template = Template::new();
    let mut cases = Vec::new();
    for (verb, arguments) in VERBS {
        let calls = template.count_calls(arguments);
        for (call, errors) in FAULTS {
            let count = calls.get(call).copied().unwrap_or(0);
            cases.extend(
                (1..=count).flat_map(|when| errors.iter().map(move |error| (verb, arguments, call, *error, when))),
            );
        }
    }
    let all = cases.len();
    if std::env::var("RETAKE_TEST_FAULTS").as_deref() != Ok("full") {
        cases.shuffle(&mut StdRng::seed_from_u64(7));
        cases.truncate(SAMPLE);
    }
    let problems: Vec<String> = cases
        .iter()
        .filter_map(|(verb, arguments, call, error, when)| {
            let problem = template.inject(verb, arguments, call, error, *when)?;
            Some(format!("{verb}: {call} number {when} fails with {error}: {problem}"))
        })
        .collect();
    assert!(problems.is_empty(), "{} of {} faults (of {all}):\n{}", problems.len(), cases.len(), problems.join("\n"));
}

impl Template {
    fn new() -> Template {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("template");
        fs::create_dir(home.path().join("folder")).unwrap();
        fs::write(home.path().join("folder/a.png"), retake_testutils::made::png(1, &[])).unwrap();
        fs::write(home.path().join("image.png"), retake_testutils::made::png(2, &[])).unwrap();
        let mut session = String::new();
        for prompt in ["a fox", "a bridge"] {
            let recorded = retake(&workspace).args(["record", prompt, "--json"]).output().unwrap();
            let recorded: Value = serde_json::from_slice(&recorded.stdout).unwrap();
            session = recorded["session"]["id"].as_str().unwrap().to_owned();
        }
        Template { home, session }
    }

    /// The command for a verb in a copy of the workspace, run by `strace` with these options.
    fn command(&self, copy: &Path, arguments: &[&str], options: &[&str]) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq"]).args(options).arg("-o").arg(copy.with_extension("trace"));
        command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(copy);
        for argument in arguments {
            match *argument {
                "IMAGE" => command.arg(self.home.path().join("image.png")),
                "FOLDER" => command.arg(self.home.path().join("folder")),
                "SESSION" => command.arg(&self.session),
                "REFERENCE" => command.arg(format!("{}#0", self.session)),
                other => command.arg(other),
            };
        }
        command.env_clear().env("USER", "ada").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn copy(&self) -> PathBuf {
        let copy = self.home.path().join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_dir(&self.home.path().join("template"), &copy);
        copy
    }

    /// Counts the calls of a run without faults, of the thread that makes the most of each: strace counts by thread.
    fn count_calls(&self, arguments: &[&str]) -> BTreeMap<String, u32> {
        let copy = self.copy();
        assert!(self.command(&copy, arguments, &[]).status().unwrap().success(), "{arguments:?}");
        let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
        for line in fs::read_to_string(copy.with_extension("trace")).unwrap().lines() {
            let mut words = line.split_whitespace();
            let (Some(thread), Some(call)) = (words.next(), words.next().and_then(|word| word.split_once('('))) else {
                continue;
            };
            *counts.entry((call.0.to_owned(), thread.to_owned())).or_default() += 1;
        }
        let mut most = BTreeMap::new();
        for ((call, _), count) in counts {
            let known: &mut u32 = most.entry(call).or_default();
            *known = count.max(*known);
        }
        most
    }

    /// Runs a verb with one failing call, and returns what is wrong afterwards.
    fn inject(&self, verb: &str, arguments: &[&str], call: &str, error: &str, when: u32) -> Option<String> {
        let copy = self.copy();
        let inject = format!("inject={call}:error={error}:when={when}");
        let mut running = self.command(&copy, arguments, &["-e", &inject]).spawn().unwrap();
        let Some(status) = wait(&mut running) else { return Some("it does not end".to_owned()) };
        if status.code().is_none_or(|code| code == 101 || code > 128) {
            return Some(format!("it ended with {status}"));
        }
        // The fault is gone: everything must be as it was, and what was acknowledged as well.
        let listed = retake(&copy).args(["list", "--json"]).output().unwrap();
        let list: Value = match serde_json::from_slice(&listed.stdout) {
            Ok(list) => list,
            Err(_) => return Some(format!("list fails afterwards: {}", String::from_utf8_lossy(&listed.stderr))),
        };
        let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
        if list["recovery"]["lostEvents"].as_u64().unwrap_or(0) > 0 {
            return Some(format!("events are reported as lost: {}", list["recovery"]));
        }
        let iterations: u64 = sessions.iter().filter_map(|row| row["iterationCount"].as_u64()).sum();
        if iterations < 2 {
            return Some(format!("{iterations} of 2 iterations are left"));
        }
        if !status.success() {
            return None;
        }
        let archived = || sessions.iter().any(|row| row["id"] == self.session.as_str() && row["archived"] == true);
        let rated = || {
            let shown = retake(&copy).args(["show", &format!("{}#0", self.session), "--json"]).output().unwrap();
            String::from_utf8_lossy(&shown.stdout).contains("\"rating\":4")
        };
        let there = match verb {
            "record" | "import" => iterations == 3,
            "annotate" => rated(),
            "archive" => archived(),
            _ => true,
        };
        (!there).then(|| "it was acknowledged and is not there".to_owned())
    }
}

/// Waits for a process for a bounded time, and ends it after that.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + BOUND;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
