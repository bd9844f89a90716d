//! Real processes of the real binary: killed at random, racing each other, short of disk space, without permissions.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may stop anywhere"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake::internals::model::{Draft, EventBody, IterationId, SessionId};
use retake::internals::store::{Detail, Store, Target};
use retake_testutils::*;
use serde_json::{Value, json};

fn retake(workspace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.env_clear().env("USER", "ada").arg("--workspace").arg(workspace);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// A process that records the requests on its stdin, one per line.
struct Recorder {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Recorder {
    fn start(workspace: &Path) -> Recorder {
        let mut child = retake(workspace).args(["record", "--json", "-"]).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Recorder { child, stdin, stdout }
    }

    fn send(&mut self, request: &Value) -> bool {
        self.stdin.as_mut().is_some_and(|stdin| writeln!(stdin, "{request}").is_ok())
    }

    /// Returns the next response; `None` if the process is gone. A partial line does not count.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
        serde_json::from_str(&line).ok()
    }
}

/// Checks that everything acknowledged exists once, with the prompt it was sent with.
fn check_recorded(store: &Store, acknowledged: &BTreeMap<String, IterationId>) {
    let mut prompts = BTreeMap::new();
    let mut keys = BTreeSet::new();
    let mut after = None;
    loop {
        let ids = store.ids(after, 1000).unwrap();
        let Some(last) = ids.last() else { break };
        after = Some(*last);
        for id in ids {
            for event in store.events(id, Detail::Full).unwrap() {
                if let EventBody::Recorded { index, iteration } = event.body {
                    prompts.insert(id.iteration(index), iteration.recipe.prompt);
                    assert!(keys.insert(event.key.clone()), "{} was recorded twice", event.key);
                }
            }
        }
    }
    for (key, reference) in acknowledged {
        assert_eq!(prompts.get(reference), Some(key), "{reference} was acknowledged");
    }
    let problems = store.verify(None).unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(store.recoveries().unwrap().iter().map(|report| report.lost_events).sum::<u64>(), 0);
}

/// Checks that the session numbers of one day are consecutive from 1.
fn check_ids(store: &Store) {
    let mut days: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for id in store.ids(None, 1_000_000).unwrap() {
        days.entry(id.day()).or_default().push(id.number().get());
    }
    for (day, numbers) in days {
        let expected: Vec<u32> = (1..).take(numbers.len()).collect();
        assert_eq!(numbers, expected, "{day}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    let mut acknowledged = BTreeMap::new();
    let mut rng = StdRng::seed_from_u64(1);
    let rounds = 200;
    for round in 0..rounds {
        let mut recorder = Recorder::start(&workspace);
        let session: Option<SessionId> = acknowledged.values().last().map(|id: &IterationId| id.session);
        // Several requests are in the pipe, so that it is killed in the middle of one.
        let requests: Vec<(String, Value)> = (0..12)
            .map(|n| {
                let prompt = format!("{round:03} {n:02}");
                let mut request = json!({"prompt": prompt, "idempotencyKey": prompt});
                if let Some(session) = session.filter(|_| n % 3 != 0) {
                    request["sessionId"] = json!(session);
                }
                if n % 5 == 4 {
                    request["parameters"] = json!({"workflow": "w".repeat(20_000)});
                }
                (prompt, request)
            })
            .collect();
        for (_, request) in &requests {
            recorder.send(request);
        }
        for (prompt, _) in requests.iter().take(rng.random_range(0..12)) {
            let answer = recorder.answer().unwrap();
            let reference = answer["reference"].as_str().unwrap_or_else(|| panic!("{answer}"));
            acknowledged.insert(prompt.clone(), reference.parse().unwrap());
        }
        recorder.child.kill().unwrap();
        // What it printed before it died counts as well.
        for (prompt, _) in &requests {
            if !acknowledged.contains_key(prompt) {
                let Some(answer) = recorder.answer() else { break };
                acknowledged.insert(prompt.clone(), answer["reference"].as_str().unwrap().parse().unwrap());
            }
        }
        recorder.child.wait().unwrap();
        if round % 10 == 9 {
            let store = open(&workspace);
            check_recorded(&store, &acknowledged);
            check_ids(&store);
        }
    }
    println!("{} acknowledged in {rounds} rounds", acknowledged.len());
    assert!(acknowledged.len() > 400, "{}", acknowledged.len());
}

/// Frames of many commits, larger than what the database applies at once: a kill between two transactions of one frame
/// once looked like a gap in the database, and every later open read the whole journal.
#[test]
fn a_kill_under_heavy_load_needs_no_recovery() {
    const WRITES: &str = "RETAKE_TEST_WRITES_TO";
    if let Some(workspace) = std::env::var_os(WRITES) {
        write_until_killed(Path::new(&workspace));
    }
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    for round in 0..12 {
        let mut writer = Command::new(std::env::current_exe().unwrap());
        writer.args(["--exact", "a_kill_under_heavy_load_needs_no_recovery", "--nocapture"]).env(WRITES, &workspace);
        let mut writer = writer.stdout(Stdio::piped()).spawn().unwrap();
        let mut described = BufReader::new(writer.stdout.take().unwrap()).lines();
        let acknowledged: BTreeSet<SessionId> =
            described.by_ref().filter_map(|line| line.unwrap().strip_prefix("wrote ")?.parse().ok()).take(20).collect();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = open(&workspace);
        for id in acknowledged {
            assert_eq!(store.head(id).unwrap().unwrap().summary().unwrap().iteration_count(), 40, "round {round}");
        }
        assert_eq!(store.recoveries().unwrap().len(), 0, "round {round}");
        store.close().unwrap();
    }
}

/// Starts sessions of forty iterations on sixteen threads, and prints each acknowledgement.
fn write_until_killed(workspace: &Path) -> ! {
    let store = open(workspace);
    let run = std::process::id();
    thread::scope(|scope| {
        for writer in 0..16 {
            let store = &store;
            scope.spawn(move || {
                for count in 0.. {
                    let mut drafts = vec![Draft::Start { title: None, project: None }];
                    drafts.extend((0..40).map(|n| Draft::Record(Box::new(iteration(&format!("take {n}"), n)))));
                    let key = format!("{run} {writer} {count}");
                    let ack = store.append(batch(Target::New(at(0).day()), 0, &key, drafts)).unwrap();
                    println!("\nwrote {}", ack.head.id);
                }
            });
        }
    });
    unreachable!("the writers write until they are killed")
}

/// Returns every iteration of a workspace, with its files and its parent.
fn imported(workspace: &Path) -> Vec<String> {
    let store = open(workspace);
    assert_eq!(store.recoveries().unwrap().len(), 0);
    let mut lines = Vec::new();
    for id in store.ids(None, 1000).unwrap() {
        for event in store.events(id, Detail::Brief).unwrap() {
            if let EventBody::Recorded { index, iteration } = event.body {
                let names: Vec<_> = iteration.images.iter().map(|image| image.name.clone().unwrap()).collect();
                lines.push(format!("{} {names:?} {:?}", id.iteration(index), iteration.parent));
            }
        }
    }
    store.close().unwrap();
    lines
}

#[test]
fn a_killed_import_resumes_where_it_stopped() {
    let home = tempfile::tempdir().unwrap();
    let pictures = home.path().join("pictures");
    made::folder(&pictures, 400);
    // With few open files, batches are small, and there are many moments between them.
    let limited = "ulimit -n 128; exec \"$0\" \"$@\"";
    let import = |workspace: &Path| {
        let mut command = Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_retake"), "--workspace"]).arg(workspace);
        command.arg("import").arg(&pictures).env("USER", "ada").stdout(Stdio::null()).spawn().unwrap()
    };
    let whole = home.path().join("whole");
    assert!(import(&whole).wait().unwrap().success());
    let expected = imported(&whole);

    let workspace = home.path().join("ws");
    let entries = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let stored = || entries(workspace.join("images")).flat_map(|dir| entries(dir.path())).count();
    let mut rng = StdRng::seed_from_u64(3);
    let mut kills = 0;
    for _ in 0..20 {
        let wanted = stored() + rng.random_range(0..60);
        let mut child = import(&workspace);
        let mut ended = None;
        while ended.is_none() && stored() < wanted {
            ended = child.try_wait().unwrap();
        }
        kills += usize::from(ended.is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let here = imported(&workspace);
        assert_eq!(here.iter().collect::<BTreeSet<_>>().len(), here.len(), "something was recorded twice");
    }
    assert!(import(&workspace).wait().unwrap().success());
    assert_eq!(imported(&workspace), expected);
    assert!(retake(&workspace).arg("verify").stdout(Stdio::null()).status().unwrap().success());
    println!("{kills} kills, {} iterations", expected.len());
    assert!(kills > 3, "it was never killed half way");
}

#[test]
fn eight_processes_create_at_once_without_gaps() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    let mut recorders: Vec<Recorder> = (0..8).map(|_| Recorder::start(&workspace)).collect();
    let created: Vec<IterationId> = thread::scope(|scope| {
        let threads: Vec<_> = recorders
            .iter_mut()
            .enumerate()
            .map(|(process, recorder)| {
                scope.spawn(move || {
                    let mut created: Vec<IterationId> = Vec::new();
                    for n in 0..200 {
                        assert!(recorder.send(&json!({"prompt": format!("{process} {n}")})));
                        let answer = recorder.answer().unwrap();
                        created
                            .push(answer["reference"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap());
                    }
                    drop(recorder.stdin.take());
                    assert!(recorder.child.wait().unwrap().success());
                    created
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let unique: BTreeSet<&IterationId> = created.iter().collect();
    assert_eq!(unique.len(), 1600);
    let store = open(&workspace);
    assert_eq!(store.totals().unwrap().sessions, 1600);
    check_ids(&store);
}

/// An MCP client with its own server process, which starts another when that one is killed.
struct Agent {
    workspace: PathBuf,
    running: Arc<Running>,
    process: Option<Talking>,
    next: u64,
}

struct Talking {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Processes that may be killed: those not waited for yet, so that their ids are not reused.
#[derive(Default)]
struct Running(Mutex<BTreeSet<u32>>);

impl Running {
    fn reap(&self, child: &mut Child) {
        let mut running = self.0.lock().unwrap();
        child.wait().unwrap();
        running.remove(&child.id());
    }

    fn add(&self, child: &Child) {
        self.0.lock().unwrap().insert(child.id());
    }

    /// Kills this process, or any other if it is gone. Returns whether it was this one.
    fn kill(&self, wanted: Option<u32>, rng: &mut StdRng) -> Option<bool> {
        let running = self.0.lock().unwrap();
        let found = wanted.filter(|pid| running.contains(pid));
        let any = rng.random_range(0..running.len().max(1));
        let pid = found.or_else(|| running.iter().nth(any).copied())?;
        Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        Some(found.is_some())
    }
}

impl Agent {
    fn new(workspace: &Path, running: &Arc<Running>) -> Agent {
        Agent { workspace: workspace.to_owned(), running: Arc::clone(running), process: None, next: 0 }
    }

    /// Calls a tool until some process responds. An error in the response ends the test.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        for _ in 0..500 {
            if let Some(answer) = self.try_call(tool, arguments) {
                assert!(answer["result"]["isError"] != json!(true) && answer["error"].is_null(), "{answer}");
                return answer["result"]["structuredContent"].clone();
            }
            if let Some(mut process) = self.process.take() {
                let _ = process.child.kill();
                self.running.reap(&mut process.child);
            }
        }
        panic!("no process ever answers");
    }

    fn try_call(&mut self, tool: &str, arguments: &Value) -> Option<Value> {
        if self.process.is_none() {
            let mut child = retake(&self.workspace).arg("mcp").spawn().unwrap();
            self.running.add(&child);
            let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            self.process = Some(Talking { child, stdin, stdout });
            let info = json!({"name": "agent", "version": "1"});
            let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
            self.request("initialize", &hello)?;
            let process = self.process.as_mut()?;
            writeln!(process.stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).ok()?;
        }
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn request(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.next += 1;
        let process = self.process.as_mut()?;
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(process.stdin, "{request}").ok()?;
        // Notifications of other processes' changes arrive in between.
        loop {
            let mut line = String::new();
            process.stdout.read_line(&mut line).ok().filter(|_| line.ends_with('\n'))?;
            let described: Value = serde_json::from_str(&line).ok()?;
            if described["id"] == self.next {
                return Some(described);
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(Talking { mut child, stdin, .. }) = self.process.take() {
            drop(stdin);
            self.running.reap(&mut child);
        }
    }
}

#[test]
fn writers_and_readers_continue_while_processes_are_killed() {
    const KILLS: usize = 60;
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    let running = Arc::new(Running::default());
    let acknowledged = Mutex::new(BTreeMap::<String, IterationId>::new());
    let count = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let acknowledge = |prompt: String, answer: &Value| {
        let reference = answer["reference"].as_str().unwrap_or_else(|| panic!("{answer}")).parse().unwrap();
        assert_eq!(acknowledged.lock().unwrap().insert(prompt, reference), None);
        count.fetch_add(1, Ordering::Release);
    };
    let mut takeovers = Vec::new();
    thread::scope(|scope| {
        for writer in 0..3 {
            let mut agent = Agent::new(&workspace, &running);
            let (stop, acknowledge) = (&stop, &acknowledge);
            scope.spawn(move || {
                let mut session = Value::Null;
                for n in 0.. {
                    let prompt = format!("agent {writer}, {n}");
                    let mut request = json!({"prompt": prompt, "idempotencyKey": prompt});
                    if n % 4 != 0 {
                        request["sessionId"] = session.clone();
                    }
                    let answer = agent.call("record-iteration", &request);
                    session = answer["session"]["id"].clone();
                    acknowledge(prompt, &answer);
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
        }
        let (stop_, acknowledge_, workspace_, running_) = (&stop, &acknowledge, &workspace, &running);
        scope.spawn(move || {
            for n in 0.. {
                let prompt = format!("command line, {n}");
                // A killed command is repeated with its key.
                let answer = loop {
                    let mut command = retake(workspace_);
                    let mut child = command.args(["record", &prompt, "--key", &prompt, "--json"]).spawn().unwrap();
                    running_.add(&child);
                    let mut line = String::new();
                    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
                    running_.reap(&mut child);
                    if line.ends_with('\n') {
                        break serde_json::from_str(&line).unwrap();
                    }
                };
                acknowledge_(prompt, &answer);
                if stop_.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let mut reader = Agent::new(&workspace, &running);
        let stop_ = &stop;
        scope.spawn(move || {
            let mut before = 0;
            while !stop_.load(Ordering::Acquire) {
                let list = reader.call("list-sessions", &json!({"limit": 20}));
                let total = list["totalSessions"].as_u64().unwrap();
                assert!(total >= before, "{total} sessions after {before}");
                before = total;
                for row in list["sessions"].as_array().unwrap() {
                    let (count, index) = (row["iterationCount"].as_u64(), row["currentIterationIndex"].as_u64());
                    assert_eq!(count, index.map(|index| index + 1));
                }
            }
        });

        let mut rng = StdRng::seed_from_u64(3);
        let mut kills = 0;
        while kills < KILLS {
            let before = count.load(Ordering::Acquire);
            wait_until(|| count.load(Ordering::Acquire) >= before + 3);
            // Mostly the owner; sometimes any process.
            let owner = std::fs::read(workspace.join("owner.json")).ok();
            let owner: Option<Value> = owner.and_then(|text| serde_json::from_slice(&text).ok());
            let owner = owner.and_then(|claim| u32::try_from(claim["pid"].as_u64()?).ok());
            let wanted = owner.filter(|_| kills % 4 != 3);
            let (before, begun) = (count.load(Ordering::Acquire), Instant::now());
            let Some(was_owner) = running.kill(wanted, &mut rng) else { continue };
            kills += 1;
            if was_owner {
                wait_until(|| count.load(Ordering::Acquire) > before);
                takeovers.push(begun.elapsed());
            }
        }
        stop.store(true, Ordering::Release);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    takeovers.sort();
    println!(
        "{KILLS} kills, {} of the owner; {} acknowledged; next acknowledgement after {:?} (median), {:?} (worst)",
        takeovers.len(),
        acknowledged.len(),
        takeovers.get(takeovers.len() / 2),
        takeovers.last(),
    );
    assert!(takeovers.len() > KILLS / 3, "the owner was killed too seldom");
    let store = open(&workspace);
    check_recorded(&store, &acknowledged);
    check_ids(&store);
}

fn wait_until(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no progress");
        thread::yield_now();
    }
}

#[test]
fn a_process_ends_promptly_on_sigterm() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    for how in ["stdin", "TERM", "INT"] {
        let running = Arc::new(Running::default());
        let mut owner = Agent::new(&workspace, &running);
        owner.call("record-iteration", &json!({"prompt": "a"}));
        let mut client = Agent::new(&workspace, &running);
        client.call("record-iteration", &json!({"prompt": "b"}));
        let Talking { mut child, stdin, .. } = owner.process.take().unwrap();
        let begun = Instant::now();
        if how == "stdin" {
            drop(stdin);
        } else {
            Command::new("kill").args(["-s", how, &child.id().to_string()]).status().unwrap();
        }
        let status = child.wait().unwrap();
        assert!(status.success(), "{how}: {status}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{how}: {:?}", begun.elapsed());
        client.call("record-iteration", &json!({"prompt": "c"}));
    }
    assert_eq!(open(&workspace).totals().unwrap().sessions, 9);
}

#[test]
fn a_real_disk_limit_is_reported_and_nothing_is_half_written() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    assert!(retake(&workspace).args(["record", "before"]).output().unwrap().status.success());
    let large = home.path().join("large.png");
    // Starts like a TIFF image, since only images are recorded.
    std::fs::write(&large, [b"II*\0".as_slice(), &[7; 3 << 20]].concat()).unwrap();
    // The shell's limit on file sizes is the closest to a full disk that needs no privileges.
    let limited = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_retake"), "--workspace"])
        .arg(&workspace)
        .args(["record", "too much", "--image"])
        .arg(&large)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: the disk is full") && stderr.contains("hint: "), "{stderr}");
    let store = open(&workspace);
    assert_eq!(store.totals().unwrap().sessions, 1);
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
    drop(store);
    assert!(retake(&workspace).args(["record", "after", "--image"]).arg(&large).output().unwrap().status.success());
}

#[test]
fn missing_permissions_are_reported() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().join("ws");
    assert!(retake(&workspace).args(["record", "before"]).output().unwrap().status.success());
    for dir in [home.path(), &workspace] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    // Permissions do not apply to root: then run as the user `nobody`, with a copy of the binary that this user can
    // access.
    let root = std::fs::metadata(home.path()).unwrap().uid() == 0;
    let binary = home.path().join("retake");
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    if root {
        std::fs::copy(env!("CARGO_BIN_EXE_retake"), &binary).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    }
    for target in [&workspace, &home.path().join("new")] {
        let mut command = Command::new(command.get_program());
        if root {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        }
        let output = command.arg("--workspace").arg(target).args(["record", "b"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("error: not allowed to") && stderr.contains("hint: "), "{stderr}");
    }
    for dir in [home.path(), &workspace] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(retake(&workspace).args(["record", "after"]).output().unwrap().status.success());
    assert_eq!(open(&workspace).totals().unwrap().sessions, 2);
}
