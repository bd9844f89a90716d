//! A client of `retake wrap`: the real binary, a workspace, and what was recorded in it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The time after which a test counts as hanging.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// A directory with a path for a workspace, and one for the output of servers.
pub(crate) struct Desk {
    pub(crate) root: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Desk {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("out")).unwrap();
        std::fs::create_dir_all(root.path().join("home")).unwrap();
        Desk { root }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.root.path().join("out")
    }

    /// Returns the command of the binary with these arguments, in this directory.
    pub(crate) fn retake(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        self.settle(&mut command);
        command.arg("--workspace").arg(self.workspace()).args(arguments);
        command
    }

    pub(crate) fn settle(&self, command: &mut Command) {
        command.current_dir(self.out()).env_clear().env("HOME", self.root.path().join("home")).env("USER", "ada");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    }

    /// Runs a command that must succeed, and returns its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.retake(arguments).arg("--json").output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// Returns every recorded iteration in full, in the order of recording.
    pub(crate) fn recorded(&self) -> Vec<Value> {
        let mut found = Vec::new();
        let sessions = self.json(&["list"]);
        let mut ids: Vec<&str> =
            sessions["sessions"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
        ids.sort_unstable();
        for id in ids {
            let session = sessions["sessions"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap();
            for index in 0..session["iterationCount"].as_u64().unwrap() {
                found.push(self.json(&["show", &format!("{id}#{index}")]));
            }
        }
        found
    }

    /// Starts `retake wrap` with a fake server that makes images.
    pub(crate) fn wrap_images(&self, flags: &[&str]) -> Client {
        let out = self.out();
        self.wrap(flags, &fake(&["images", out.to_str().unwrap()]))
    }

    /// Starts `retake wrap` with a command.
    pub(crate) fn wrap(&self, flags: &[&str], command: &[OsString]) -> Client {
        let mut wrap = self.retake(&["wrap", "--announce-timeout", "600000"]);
        wrap.args(flags).arg("--").args(command);
        Client::start(wrap)
    }
}

/// Returns the command of a fake server.
pub(crate) fn fake(words: &[&str]) -> Vec<OsString> {
    let this = std::env::current_exe().unwrap();
    let mut command = vec![this.into_os_string(), "fake".into()];
    command.extend(words.iter().map(OsString::from));
    command
}

/// A running process and its streams.
pub(crate) struct Client {
    pub(crate) process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: JoinHandle<String>,
    id: u64,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().unwrap();
        let stderr = process.stderr.take().unwrap();
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::with_capacity(1 << 20, stdout);
            loop {
                let mut line = Vec::new();
                if stdout.read_until(b'\n', &mut line).unwrap_or(0) == 0 || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
        Client { process, stdin, lines, stderr, id: 0 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).and_then(|()| stdin.flush()).unwrap();
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        self.lines.recv_timeout(HANG).expect("a line in time")
    }

    /// Sends a request without waiting for its response, and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> u64 {
        self.id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.send(format!("{message}\n").as_bytes());
        self.id
    }

    /// Waits for the response with this id, answering requests of the server meanwhile.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let Ok(message) = serde_json::from_slice::<Value>(&self.line()) else { continue };
            if message.get("method").is_some() && message.get("id").is_some() {
                let answer = match message["method"].as_str() {
                    Some("roots/list") => json!({"roots": []}),
                    Some("elicitation/create") => json!({"action": "accept", "content": {}}),
                    _ => json!({}),
                };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": answer});
                self.send(format!("{answer}\n").as_bytes());
            } else if message["id"] == json!(id) {
                return message;
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    pub(crate) fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {}, "elicitation": {}},
            "clientInfo": {"name": "test-client", "version": "9"},
        });
        self.ask("initialize", params);
        self.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        self.ask("tools/list", json!({}));
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Closes stdin, as a client does when it is done.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Waits for the process to exit, and returns the status, the rest of stdout, and stderr.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<u8>, String) {
        self.close();
        let deadline = Instant::now() + HANG;
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let rest: Vec<u8> = self.lines.iter().flatten().collect();
        (status, rest, self.stderr.join().unwrap())
    }

    /// Closes stdin, and checks that the process succeeds.
    pub(crate) fn finish(self) -> String {
        let (status, _, stderr) = self.wait();
        assert_eq!(status.code(), Some(0), "{stderr}");
        stderr
    }
}

/// Returns the reference that a response is marked with.
pub(crate) fn mark(response: &Value) -> Option<String> {
    response["result"]["_meta"]["dev.retake/iteration"]["reference"].as_str().map(str::to_owned)
}

/// Waits until a condition holds that depends on another process.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether a process exists.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Sends a signal to a process that a test started.
pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}
