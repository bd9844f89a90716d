//! Failing system calls of real processes, injected by strace: each call of a command fails once.
//!
//! Whatever fails, the process must exit, and not with a panic. Afterwards everything acknowledged must exist, nothing
//! refused may exist, a healthy workspace must not be called damaged, and the command must work.
//!
//! A sample runs by default, including the cases that once failed. `RETAKE_TEST_FAULTS=full` runs all of them, and
//! `RETAKE_TEST_FAULTS=record:pread64` those whose name contains that text.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::Value;

use super::{retake, succeeds, trial};

/// The number of faults injected unless all are requested.
const SAMPLE: usize = 40;
/// The number of faults injected concurrently.
const WORKERS: usize = 2;
/// The timeout of a command with a fault. Without one, it takes a second.
const BOUND: Duration = Duration::from_secs(90);
/// The calls that fail, and their errors.
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
/// The command that runs while a call fails.
#[derive(Clone, Copy)]
struct Verb {
    name: &'static str,
    /// The arguments after the workspace.
    arguments: &'static [&'static str],
    /// What is deleted from the workspace first, so that it must be recovered.
    without: Option<&'static str>,
}

/// A fault: the call with this number fails while the command runs.
#[derive(Clone, Copy)]
struct Case {
    verb: Verb,
    call: &'static str,
    error: &'static str,
    when: u32,
}

const VERBS: [Verb; 7] = [
    Verb { name: "open", arguments: &["list", "--json"], without: None },
    Verb { name: "record", arguments: &["record", "a new fox", "--image", "IMAGE", "--json"], without: None },
    Verb { name: "annotate", arguments: &["annotate", "REFERENCE", "--rating", "4", "--json"], without: None },
    Verb { name: "archive", arguments: &["archive", "SESSION", "--json"], without: None },
    Verb { name: "import", arguments: &["import", "FOLDER", "--json"], without: None },
    Verb { name: "rebuild-database", arguments: &["list", "--json"], without: Some("db") },
    Verb { name: "rebuild-journal", arguments: &["list", "--json"], without: Some("journal") },
];
/// Cases that once lost events or declared a healthy workspace damaged, by name; they are part of every sample.
const FORMERLY_FAILING: [&str; 9] = [
    "record:pread64:EIO:5",
    "record:pread64:ENOMEM:6",
    "import:pread64:EIO:5",
    "import:pread64:ENOMEM:6",
    "open:write:EIO:1",
    "record:write:ENOSPC:2",
    "import:write:EIO:3",
    "rebuild-journal:pread64:EIO:4",
    "rebuild-journal:pread64:ENOMEM:6",
];

pub(crate) fn trials() -> Vec<Trial> {
    let usable = succeeds(Command::new("strace").args(["-f", "-e", "inject=getcwd:error=EIO:when=1", "true"]));
    let missing = (!usable).then_some("needs `strace` and permission to trace");
    vec![trial("a_failing_system_call_loses_nothing", missing, a_failing_system_call_loses_nothing)]
}

/// A workspace with some contents, which is copied for every fault.
struct Template {
    home: tempfile::TempDir,
    session: String,
}

fn a_failing_system_call_loses_nothing() {
    let template = Template::new();
    let mut cases = Vec::new();
    for verb in VERBS {
        let calls = template.count_calls(verb);
        for (call, errors) in FAULTS {
            let count = calls.get(call).copied().unwrap_or(0);
            cases.extend((1..=count).flat_map(|when| errors.iter().map(move |error| Case { verb, call, error, when })));
        }
    }
    let all = cases.len();
    match std::env::var("RETAKE_TEST_FAULTS").as_deref() {
        Ok("full") => {}
        Ok(text) => cases.retain(|case| case.to_string().contains(text)),
        Err(_) => {
            cases.shuffle(&mut StdRng::seed_from_u64(7));
            let (known, mut others): (Vec<Case>, Vec<Case>) =
                cases.into_iter().partition(|case| FORMERLY_FAILING.contains(&case.to_string().as_str()));
            others.truncate(SAMPLE);
            cases = [known, others].concat();
        }
    }
    let next = AtomicUsize::new(0);
    let problems: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (template, cases, next, problems) = (&template, &cases, &next, &problems);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(problem) = template.inject(worker, *case) {
                        problems.lock().unwrap().push(format!("{case}: {problem}"));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} of {} faults (of {all}):\n{}", problems.len(), cases.len(), problems.join("\n"));
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.verb.name, self.call, self.error, self.when)
    }
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

    /// Replaces the placeholders in a command's arguments.
    fn arguments(&self, verb: Verb) -> Vec<PathBuf> {
        let replaced = verb.arguments.iter().map(|argument| match *argument {
            "IMAGE" => self.home.path().join("image.png"),
            "FOLDER" => self.home.path().join("folder"),
            "SESSION" => PathBuf::from(&self.session),
            "REFERENCE" => PathBuf::from(format!("{}#0", self.session)),
            other => PathBuf::from(other),
        });
        replaced.collect()
    }

    /// Returns the command in a copy of the workspace, run by `strace` with these options.
    fn command(&self, copy: &Path, verb: Verb, options: &[&str]) -> Command {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq"]).args(options).arg("-o").arg(copy.with_extension("trace"));
        command.arg(env!("CARGO_BIN_EXE_retake")).arg("--workspace").arg(copy).args(self.arguments(verb));
        let printed = |ending: &str| fs::File::create(copy.with_extension(ending)).unwrap();
        command.env_clear().env("USER", "ada").stdin(Stdio::null()).stdout(printed("out")).stderr(printed("err"));
        command
    }

    fn copy(&self, worker: usize, verb: Verb) -> PathBuf {
        let copy = self.home.path().join(format!("copy-{worker}"));
        let _ = fs::remove_dir_all(&copy);
        copy_dir(&self.home.path().join("template"), &copy);
        if let Some(without) = verb.without {
            fs::remove_dir_all(copy.join(without)).unwrap();
        }
        copy
    }

    /// Counts the calls of a run without faults, by the thread that makes the most of each, since strace counts per
    /// thread.
    fn count_calls(&self, verb: Verb) -> BTreeMap<String, u32> {
        let copy = self.copy(0, verb);
        assert!(self.command(&copy, verb, &[]).status().unwrap().success(), "{}", verb.name);
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

    /// Runs a command with one failing call, and returns what is wrong afterwards.
    fn inject(&self, worker: usize, case: Case) -> Option<String> {
        let Case { verb, call, error, when } = case;
        let copy = self.copy(worker, verb);
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error={error}:when={when}"));
        // The filter of the kernel stops the process at this call only, which is several times as fast.
        let options = ["--seccomp-bpf", "-e", &trace, "-e", &inject];
        let mut running = self.command(&copy, verb, &options).spawn().unwrap();
        let Some(status) = wait(&mut running) else { return Some("it does not end".to_owned()) };
        let printed =
            |ending: &str| String::from_utf8_lossy(&fs::read(copy.with_extension(ending)).unwrap()).into_owned();
        let (stdout, stderr) = (printed("out"), printed("err"));
        if status.code().is_none_or(|code| code == 101 || code > 128) {
            return Some(format!("it ended with {status}: {stderr}"));
        }
        if verb.without.is_none() && fs::read_dir(copy.join("quarantine")).is_ok_and(|mut dir| dir.next().is_some()) {
            return Some(format!("a healthy workspace was recovered: {stderr}"));
        }
        // Without the fault, everything must be as it was, including what was acknowledged.
        let after = match self.observe(&copy) {
            Ok(after) => after,
            Err(problem) => return Some(problem),
        };
        if verb.without.is_none() && !after.recovery.is_null() {
            return Some(format!("a healthy workspace is called damaged: {}", after.recovery));
        }
        let is_done = match verb.name {
            "record" | "import" => after.iterations == 3,
            "annotate" => after.is_rated,
            "archive" => after.is_archived,
            _ => true,
        };
        if status.success() && !is_done {
            return Some("it was acknowledged and is not there".to_owned());
        }
        // A result that cannot be printed was still written, and a write whose outcome is unknown is reported as such.
        let may_be_done = !stdout.is_empty() || stderr.contains("outcome of this write is unknown") || call == "write";
        let is_read_only = verb.arguments.first() == Some(&"list");
        if !status.success() && is_done && !is_read_only && !may_be_done {
            return Some(format!("it was refused and is there: {stderr}"));
        }
        let again = retake(&copy).args(self.arguments(verb)).output().unwrap();
        if !again.status.success() {
            return Some(format!("it fails without a fault, too: {}", String::from_utf8_lossy(&again.stderr)));
        }
        let verified = retake(&copy).args(["verify"]).output().unwrap();
        (!verified.status.success())
            .then(|| format!("verify finds damage: {}", String::from_utf8_lossy(&verified.stdout)))
    }

    /// Lists the contents of a workspace; an error states what is missing.
    fn observe(&self, copy: &Path) -> Result<Observation, String> {
        let listed = retake(copy).args(["list", "--json"]).output().unwrap();
        let list: Value = serde_json::from_slice(&listed.stdout)
            .map_err(|_| format!("list fails afterwards: {}", String::from_utf8_lossy(&listed.stderr)))?;
        let recovery = list["recovery"].clone();
        if recovery["lostEvents"].as_u64().unwrap_or(0) > 0 {
            return Err(format!("events are reported as lost: {recovery}"));
        }
        let sessions = list["sessions"].as_array().cloned().unwrap_or_default();
        let iterations: u64 = sessions.iter().filter_map(|row| row["iterationCount"].as_u64()).sum();
        if iterations < 2 {
            return Err(format!("{iterations} of 2 iterations are left"));
        }
        let shown = retake(copy).args(["show", &format!("{}#0", self.session), "--json"]).output().unwrap();
        Ok(Observation {
            iterations,
            is_archived: sessions.iter().any(|row| row["id"] == self.session.as_str() && row["archived"] == true),
            is_rated: String::from_utf8_lossy(&shown.stdout).contains("\"rating\":4"),
            recovery,
        })
    }
}

/// The contents of a workspace after a fault.
struct Observation {
    iterations: u64,
    is_archived: bool,
    is_rated: bool,
    recovery: Value,
}

/// Waits for a process for a bounded time, and kills it after that.
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
