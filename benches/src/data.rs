//! Data sets: built once under `target/bench-data/`, closed cleanly, and reused by later runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use retake::internals::model::SessionId;

use crate::Settings;
use crate::peers::json::JsonFiles;
use crate::peers::{ours, sqlite};
use crate::report::Report;
use crate::workload;

/// The number of iterations in the long session.
pub(crate) const LONG: u32 = 200;
/// The number of loading threads: enough to share syncs, since loading is not measured.
const LOADERS: usize = 64;

/// The shape of a data set.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// The number of sessions.
    pub(crate) sessions: u64,
    /// The number of iterations in each.
    pub(crate) iterations: u32,
    /// Whether there is one more session of [`LONG`] iterations.
    pub(crate) long: bool,
}

impl Shape {
    pub(crate) fn name(self) -> String {
        let long = if self.long { format!("+{LONG}") } else { String::new() };
        format!("{}x{}{long}", self.sessions, self.iterations)
    }

    /// Returns the number of the long session: after all others, so that it is not on the first page by chance.
    pub(crate) fn long_session(self) -> u64 {
        self.sessions
    }

    fn iterations_of(self, session: u64) -> u32 {
        if session == self.sessions { LONG } else { self.iterations }
    }

    fn all(self) -> u64 {
        self.sessions + u64::from(self.long)
    }
}

/// Returns our workspace with this data, and the id of its long session.
pub(crate) fn retake(settings: &Settings, report: &Report, shape: Shape) -> (PathBuf, Option<SessionId>) {
    let dir = built(settings, report, &format!("retake-{}", shape.name()), |dir| {
        let store = ours::open(&dir.join("workspace"));
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..LOADERS {
                scope.spawn(|| {
                    loop {
                        let session = next.fetch_add(1, Ordering::Relaxed);
                        if session >= shape.all() {
                            break;
                        }
                        let mut id = None;
                        for index in 0..shape.iterations_of(session) {
                            id = Some(store.append(workload::batch(id, session, index)).unwrap().head.id);
                        }
                        if shape.long && session == shape.long_session() {
                            fs::write(dir.join("long"), id.unwrap().to_string()).unwrap();
                        }
                    }
                });
            }
        });
        // As a long-lived process leaves it: the checkpoint on closing covers the segments, which are then sealed.
        store.close().unwrap();
        let store = ours::open(&dir.join("workspace"));
        store.seal().unwrap();
        store.close().unwrap();
    });
    let long = fs::read_to_string(dir.join("long")).ok().map(|id| id.parse().unwrap());
    (dir.join("workspace"), long)
}

/// Returns a SQLite database with this data, loaded in key order, which packs its pages best.
pub(crate) fn sqlite(settings: &Settings, report: &Report, shape: Shape) -> PathBuf {
    let dir = built(settings, report, &format!("sqlite-{}", shape.name()), |dir| {
        let connection = sqlite::connect(&dir.join("retake.sqlite"));
        connection.pragma_update(None, "synchronous", "OFF").unwrap();
        let sessions: Vec<u64> = (0..shape.all()).collect();
        for chunk in sessions.chunks(2_000) {
            sqlite::in_transaction(&connection, || {
                for session in chunk {
                    for index in 0..shape.iterations_of(*session) {
                        sqlite::append(&connection, &sqlite::Ready::new(*session, index));
                    }
                }
            });
        }
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    });
    dir.join("retake.sqlite")
}

/// Returns a directory of JSON files with this data.
pub(crate) fn json(settings: &Settings, report: &Report, shape: Shape) -> JsonFiles {
    let dir = built(settings, report, &format!("json-{}", shape.name()), |dir| {
        let files = JsonFiles::new(&dir.join("sessions"));
        (0..shape.all()).for_each(|session| files.load(session, shape.iterations_of(session)));
    });
    JsonFiles::new(&dir.join("sessions"))
}

/// Returns the directory of a data set, building it unless its marker says that it is complete.
fn built(settings: &Settings, report: &Report, name: &str, build: impl FnOnce(&Path)) -> PathBuf {
    let dir = settings.data.join(name);
    let marker = dir.join("whole");
    if !marker.exists() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let begun = Instant::now();
        build(&dir);
        fs::write(marker, "").unwrap();
        report.say(&format!("built {name} in {:.0} s", begun.elapsed().as_secs_f64()));
    }
    dir
}

/// Copies a data set, for a benchmark that changes it.
pub(crate) fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_all(&entry.path(), &to);
        } else if kind.is_file() {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
