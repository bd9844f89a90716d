//! A workspace in a temporary directory, with a manual clock.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use retake::internals::disk::Disk;
use retake::internals::model::IterationState;
use retake::internals::model::Timestamp;
use retake::internals::wire::{
    Api, Error, ErrorKind, ImageInput, ListRequest, MAX_REPLY_BYTES, RecordRequest, Recorded, SessionList,
};
use retake::internals::workspace::{Options, Workspace};
pub(crate) use retake_testutils::actor;
pub(crate) use retake_testutils::images::plain as png;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) struct TestWorkspace {
    pub(crate) workspace: Workspace,
    pub(crate) dir: tempfile::TempDir,
    now: Arc<AtomicI64>,
}

impl TestWorkspace {
    /// Creates a workspace at 2025-12-11T10:15:30.123Z.
    pub(crate) fn new() -> TestWorkspace {
        TestWorkspace::on(Disk::default())
    }

    pub(crate) fn on(disk: Disk) -> TestWorkspace {
        let dir = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(time("2025-12-11T10:15:30.123Z").millis()));
        let workspace = Workspace::open_with(dir.path().join("ws"), options(&now, disk)).unwrap();
        TestWorkspace { workspace, dir, now }
    }

    pub(crate) fn at(&self, text: &str) {
        self.now.store(time(text).millis(), Ordering::Relaxed);
    }

    pub(crate) fn wait(&self, millis: i64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    /// Opens the same directory again.
    pub(crate) fn reopen(self) -> TestWorkspace {
        self.reopen_after(|_| {})
    }

    /// Reopens it after something happened to its files.
    pub(crate) fn reopen_after(self, happens: impl FnOnce(&Path)) -> TestWorkspace {
        let TestWorkspace { workspace, dir, now } = self;
        workspace.close().unwrap();
        happens(&dir.path().join("ws"));
        let workspace = Workspace::open_with(dir.path().join("ws"), options(&now, Disk::default())).unwrap();
        TestWorkspace { workspace, dir, now }
    }

    /// Returns the JSON surface, with the maximum reply size.
    pub(crate) fn api(&self) -> Api<'_> {
        Api::new(&self.workspace).by(&actor()).with_reply_bytes(MAX_REPLY_BYTES)
    }

    /// Returns a full iteration.
    pub(crate) fn state(&self, reference: &str) -> IterationState {
        self.workspace.state(self.api().resolve(reference).unwrap()).unwrap()
    }

    pub(crate) fn record(&self, request: &RecordRequest) -> Recorded {
        self.try_record(request).unwrap()
    }

    pub(crate) fn try_record(&self, request: &RecordRequest) -> Result<Recorded, Error> {
        checked(self.api().record(request))
    }

    /// Creates a session of this many iterations, a second apart.
    pub(crate) fn session(&self, iterations: usize) -> String {
        let id = self.record(&prompt("iteration 0")).session.id().to_string();
        for index in 1..iterations {
            self.wait(1000);
            self.record(&RecordRequest { session_id: Some(id.clone()), ..prompt(&format!("iteration {index}")) });
        }
        id
    }

    pub(crate) fn list(&self, request: &ListRequest) -> SessionList {
        checked(self.api().list(request)).unwrap()
    }

    /// Writes a file next to the workspace.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Returns everything that a write could have changed.
    pub(crate) fn written(&self) -> Written {
        let images = files_below(&self.root().join("images"));
        Written { events: self.workspace.status().unwrap().events, images }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Written {
    events: u64,
    images: BTreeMap<PathBuf, u64>,
}

fn options(now: &Arc<AtomicI64>, disk: Disk) -> Options {
    let now = now.clone();
    let clock = Arc::new(move || Timestamp::from_millis(now.load(Ordering::Relaxed)).unwrap());
    Options { clock, disk, ..Options::default() }
}

pub(crate) fn files_below(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let found = entry.metadata().unwrap();
        if found.is_dir() {
            files.extend(files_below(&entry.path()));
        } else {
            files.insert(entry.path(), found.len());
        }
    }
    files
}

pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn prompt(prompt: &str) -> RecordRequest {
    RecordRequest { prompt: prompt.to_owned(), ..RecordRequest::default() }
}

pub(crate) fn path(path: &str) -> ImageInput {
    ImageInput::Path(path.to_owned())
}

pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// Checks that a result survives a JSON round trip and stays below 60 KB.
pub(crate) fn checked<T: Serialize + DeserializeOwned>(answer: Result<T, Error>) -> Result<T, Error> {
    if let Ok(view) = &answer {
        let text = json(view);
        assert!(text.len() <= 60_000, "an answer of {} bytes", text.len());
        assert_eq!(json(&serde_json::from_str::<T>(&text).unwrap()), text);
    }
    answer
}

/// Checks that a call failed with this kind of error and a hint.
pub(crate) fn fails<T: std::fmt::Debug>(
    answer: Result<T, impl Into<Error> + std::fmt::Debug>,
    kind: ErrorKind,
    message: &str,
) {
    let error: Error = answer.unwrap_err().into();
    assert_eq!(error.kind, kind, "{error:?}");
    assert!(error.message.contains(message), "{:?} does not say {message:?}", error.message);
    assert!(!error.hint.is_empty(), "{error:?}");
}
