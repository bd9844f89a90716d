//! A working directory and the real binary, isolated from the environment of the tests.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

pub(crate) use retake_testutils::images::PIXEL;

/// The first session that [`TestWorkspace::record`] starts.
pub(crate) const FIRST: &str = "session-2024-12-11-001";

/// A fresh directory with a workspace `.retake/`, which is the current directory of every command.
pub(crate) struct TestWorkspace {
    root: tempfile::TempDir,
}

impl TestWorkspace {
    pub(crate) fn new() -> TestWorkspace {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("desk/.retake")).unwrap();
        TestWorkspace { root }
    }

    /// Returns the current directory of the commands.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("desk")
    }

    /// Returns the directory that contains everything, including the home directory.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the workspace directory.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir().join(".retake")
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the binary, ready to run here.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        self.settle(&mut command, args);
        command
    }

    /// Sets the arguments, the current directory and the environment.
    fn settle(&self, command: &mut Command, args: &[impl AsRef<OsStr>]) {
        command
            .args(args)
            .current_dir(self.dir())
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("USER", "ada")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs with this input on stdin.
    pub(crate) fn run_with(&self, args: &[impl AsRef<OsStr>], input: &[u8]) -> Ran {
        self.ended_with(self.command(args), args, input)
    }

    /// Runs as a user who is bound by permissions: as `nobody` if the tests run as root. All files here are given to
    /// that user first.
    #[cfg(unix)]
    pub(crate) fn run_bound(&self, args: &[impl AsRef<OsStr>]) -> Ran {
        use std::os::unix::fs::{MetadataExt, lchown};
        use std::os::unix::process::CommandExt;
        const NOBODY: u32 = 65534;
        if tempfile::tempfile().unwrap().metadata().unwrap().uid() != 0 {
            return self.run(args);
        }
        // `nobody` cannot access the directory of the test binary.
        let binary = self.root().join("retake");
        if !binary.exists() {
            let ours = env!("CARGO_BIN_EXE_retake");
            fs::hard_link(ours, &binary).or_else(|_| fs::copy(ours, &binary).map(drop)).unwrap();
        }
        for entry in walkdir::WalkDir::new(self.root()) {
            let entry = entry.unwrap();
            if entry.path() != binary {
                lchown(entry.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut command = Command::new(binary);
        self.settle(&mut command, args);
        command.uid(NOBODY).gid(NOBODY);
        self.ended_with(command, args, b"")
    }

    /// Runs another command here to its end; the arguments are only shown.
    pub(crate) fn ended(&self, mut command: Command, args: &[impl AsRef<OsStr>]) -> Ran {
        command.current_dir(self.dir()).env_clear().env("HOME", self.root.path().join("home"));
        self.ended_with(command, args, b"")
    }

    fn ended_with(&self, mut command: Command, args: &[impl AsRef<OsStr>], input: &[u8]) -> Ran {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // Write from a thread, so that neither side waits for the other. A process that does not read its input may
        // exit early.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let ran = self.waited(child, args);
        writer.join().unwrap();
        ran
    }

    /// Waits for a process that was started with these arguments.
    pub(crate) fn waited(&self, child: Child, args: &[impl AsRef<OsStr>]) -> Ran {
        let output = child.wait_with_output().unwrap();
        let args = args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
        Ran { args, output, root: self.root.path().to_owned() }
    }

    /// Runs a command that must succeed, and returns its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.status(), 0, "{ran}");
        serde_json::from_slice(&ran.output.stdout).unwrap()
    }

    /// Records an iteration made in the morning of 2024-12-11, and returns its reference.
    pub(crate) fn record(&self, minute: u32, args: &[&str]) -> String {
        let made = format!("2024-12-11T10:{minute:02}:00Z");
        let recorded = self.json(&[&["record", "--created-at", &made], args].concat());
        recorded["reference"].as_str().unwrap().to_owned()
    }

    /// Returns the full listing, without the time of the request.
    pub(crate) fn listed(&self) -> Value {
        let mut list = self.json(&["list"]);
        list.as_object_mut().unwrap().remove("timestamp").unwrap();
        list
    }
}

/// Sends a signal to a process that was started here.
#[cfg(unix)]
pub(crate) fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

/// A command and its result.
pub(crate) struct Ran {
    args: Vec<String>,
    pub(crate) output: Output,
    root: PathBuf,
}

impl Ran {
    pub(crate) fn status(&self) -> i32 {
        self.output.status.code().unwrap_or(-1)
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |arg: &String| match arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_#./:=@".contains(c)) {
            true if !arg.is_empty() => arg.clone(),
            _ => format!("{arg:?}"),
        };
        writeln!(f, "$ retake {}", self.args.iter().map(shown).collect::<Vec<_>>().join(" "))?;
        let root = self.root.to_string_lossy();
        let mut part = |text: String, mark: &str| {
            text.replace(&*root, "[root]").lines().try_for_each(|line| writeln!(f, "{mark}{line}"))
        };
        part(self.stdout(), "")?;
        part(self.stderr(), "stderr: ")?;
        match self.status() {
            0 => Ok(()),
            status => writeln!(f, "[exit status {status}]"),
        }
    }
}

/// A sequence of commands with their output, compared as a whole.
pub(crate) struct Transcript<'a> {
    workspace: &'a TestWorkspace,
    text: String,
}

impl<'a> Transcript<'a> {
    pub(crate) fn new(workspace: &'a TestWorkspace) -> Transcript<'a> {
        Transcript { workspace, text: String::new() }
    }

    pub(crate) fn run(&mut self, args: &[&str]) -> &mut Self {
        self.run_with(args, b"")
    }

    pub(crate) fn run_with(&mut self, args: &[&str], input: &[u8]) -> &mut Self {
        let ran = self.workspace.run_with(args, input);
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        write!(self.text, "{ran}").unwrap();
        self
    }

    /// Compares with the snapshot of this name. What differs from run to run is replaced: the times of today, the
    /// hashes that depend on them, sizes on disk.
    pub(crate) fn check(&self, name: &str) {
        let filters = [
            (r"20(2[6-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{3}Z)?)?( UTC)?", "[now]"),
            (r"20\d{6}T\d{9}Z", "[name]"),
            (r"\b[0-9a-f]{64}\b", "[hash]"),
            (r"\b\d+(\.\d)? [kM]?B\b", "[size]"),
            (r"(retake|retake-cli) \d+\.\d+\.\d+", "$1 [version]"),
            (r#""version":"\d+\.\d+\.\d+""#, r#""version":"[version]""#),
            (r#""(journal|journalBytes|database|quarantine)":\d+"#, r#""$1":[bytes]"#),
            (r"--cursor [\w-]{10,}", "--cursor [cursor]"),
            (r"at byte \d+ of segment", "at byte [offset] of segment"),
            (r"caused by: .* \(os error \d+\)", "caused by: [os error]"),
        ];
        insta::with_settings!({ filters => filters, omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name, self.text);
        });
    }
}
