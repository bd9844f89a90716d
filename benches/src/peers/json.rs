//! The layout of most trackers: one JSON file per session, rewritten at every change. Made durable here, which few of
//! them are: a temporary file, synced, renamed into place, and the directory synced.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{Appender, Cursor, Row};
use crate::workload;

/// A directory of session files.
pub(crate) struct JsonFiles {
    dir: PathBuf,
    temporary: AtomicU64,
}

impl JsonFiles {
    pub(crate) fn new(dir: &Path) -> JsonFiles {
        fs::create_dir_all(dir).unwrap();
        JsonFiles { dir: dir.to_owned(), temporary: AtomicU64::new(0) }
    }

    fn path(&self, session: u64) -> PathBuf {
        self.dir.join(format!("session-{session:08}.json"))
    }

    /// Writes a session with this many iterations without syncing it, to load a data set.
    pub(crate) fn load(&self, session: u64, iterations: u32) {
        let document = (0..iterations).fold(None, |document, index| Some(with_next(document, session, index)));
        fs::write(self.path(session), serde_json::to_vec_pretty(&document.unwrap()).unwrap()).unwrap();
    }

    /// Returns the listing. Without an index, this reads every file.
    pub(crate) fn page(&self, limit: usize) -> Vec<Row> {
        let files = fs::read_dir(&self.dir).unwrap();
        let mut rows: Vec<Row> = files.map(|file| row(&fs::read(file.unwrap().path()).unwrap())).collect();
        rows.sort_unstable_by_key(|row| std::cmp::Reverse((row.modified, row.id)));
        rows.truncate(limit);
        rows
    }

    /// Returns a whole session.
    pub(crate) fn history(&self, session: u64) -> Value {
        serde_json::from_slice(&fs::read(self.path(session)).unwrap()).unwrap()
    }
}

impl Appender for JsonFiles {
    fn name(&self) -> &str {
        "JSON file per session"
    }

    fn append(&self, _writer: usize, cursor: &mut Cursor) {
        let path = self.path(cursor.session);
        let before = (cursor.index > 0).then(|| serde_json::from_slice(&fs::read(&path).unwrap()).unwrap());
        let document = with_next(before, cursor.session, cursor.index);
        let temporary = self.dir.join(format!(".{}.tmp", self.temporary.fetch_add(1, Ordering::Relaxed)));
        let mut file = File::create(&temporary).unwrap();
        file.write_all(&serde_json::to_vec_pretty(&document).unwrap()).unwrap();
        file.sync_data().unwrap();
        fs::rename(&temporary, &path).unwrap();
        File::open(&self.dir).unwrap().sync_all().unwrap();
    }
}

fn with_next(document: Option<Value>, session: u64, index: u32) -> Value {
    let iteration = workload::iteration(session, index);
    let millis = iteration.created_at.millis();
    let mut document = document.unwrap_or_else(|| {
        let title = workload::title(session);
        json!({ "id": session, "title": title, "project": "lighthouse", "createdAt": millis, "iterations": [] })
    });
    document["lastModifiedAt"] = Value::from(millis);
    document["iterations"].as_array_mut().unwrap().push(json!({
        "createdAt": iteration.created_at,
        "key": workload::key(session, index),
        "recipe": iteration.recipe,
        "generationTimeMs": iteration.outcome.generation_time_ms,
        "images": iteration.images,
    }));
    document
}

fn row(bytes: &[u8]) -> Row {
    let document: Value = serde_json::from_slice(bytes).unwrap();
    let text = |name: &str| document[name].as_str().map(str::to_owned);
    Row {
        id: document["id"].as_u64().unwrap(),
        title: text("title"),
        project: text("project"),
        created: document["createdAt"].as_i64().unwrap(),
        modified: document["lastModifiedAt"].as_i64().unwrap(),
        archived: false,
        iterations: document["iterations"].as_array().unwrap().len() as u64,
    }
}
