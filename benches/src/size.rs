//! How much space does it take? Bytes on disk, and the memory of a process that opened and browsed a large workspace.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::Settings;
use crate::child::{self, Engine};
use crate::data::{self, Shape};
use crate::report::{Report, Table, times};
use crate::workload::Stored;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    measure(settings, report, settings.large());
    if settings.full {
        measure(settings, report, Shape { sessions: 1_000_000, iterations: 1, long: false });
    }
}

fn measure(settings: &Settings, report: &mut Report, shape: Shape) {
    let (workspace, long) = data::retake(settings, report, shape);
    let database = data::sqlite(settings, report, shape);
    let long = long.map_or("session-2022-01-01-001".to_owned(), |id| id.to_string());
    let ours = child::probe(Engine::Retake, &workspace, &long);
    let their_long = if shape.long { shape.long_session() } else { 0 };
    let theirs = child::probe(Engine::Sqlite, &database, &their_long.to_string());

    let iterations = shape.sessions * u64::from(shape.iterations);
    let payload = Stored::new(shape.sessions / 2, 1).encode().len() as u64;
    let raw = (iterations * payload) as f64 / 1e6;
    let title =
        format!("Disk and memory, {} sessions of {} ({raw:.0} MB of payloads)", shape.sessions, shape.iterations);
    let columns = ["what", "disk MB", "x payloads", "memory MB", "peak MB"];
    let mut table = Table::new(title, &columns);
    let mut row = |what: &str, path: &Path, memory: Option<(f64, f64)>| {
        let disk = on_disk(path) as f64 / 1e6;
        let (memory, peak) = memory
            .map_or((String::new(), String::new()), |(memory, peak)| (format!("{memory:.0}"), format!("{peak:.0}")));
        table.row(vec![what.to_owned(), format!("{disk:.0}"), times(disk / raw), memory, peak]);
    };
    row("retake", &workspace, Some((ours.rss_mb, ours.peak_mb)));
    row("  of it the journal", &workspace.join("journal"), None);
    row("  of it sled", &workspace.join("db"), None);
    row("SQLite", database.parent().unwrap(), Some((theirs.rss_mb, theirs.peak_mb)));
    report.show("size", &table);
}

/// Returns the bytes allocated for a file, or for all files below a directory.
pub(crate) fn on_disk(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    let below = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| on_disk(&entry.unwrap().path())).sum::<u64>();
    metadata.blocks() * 512 + if metadata.is_dir() { below(path) } else { 0 }
}
