//! How long does it take to open a large workspace and show its first page? Untouched, after work and a clean close,
//! after work and `kill -9`, and with a cold page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Settings;
use crate::child::{self, End, Engine};
use crate::data::{self, Shape};
use crate::report::{Report, Table, median, percentile, ratio, times};

/// The number of iterations recorded before the process ends.
const WORK: u64 = 20_000;

/// The states a workspace is opened in.
const STATES: [&str; 5] = [
    "untouched",
    "after 20,000 appends and a clean close",
    "after 20,000 appends and kill -9",
    "untouched, cold",
    "after kill -9, cold",
];

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    measure(settings, report, settings.large());
    if settings.full {
        measure(settings, report, Shape { sessions: 1_000_000, iterations: 1, long: false });
    }
}

fn measure(settings: &Settings, report: &mut Report, shape: Shape) {
    let places = Engine::BOTH.map(|engine| DataCopy::new(settings, report, shape, engine));
    // By engine, by state: milliseconds to open, and to the first page.
    let mut opened: [[Vec<f64>; 5]; 2] = Default::default();
    let mut shown: [[Vec<f64>; 5]; 2] = Default::default();
    // The untouched ones first, since work makes the workspace larger.
    for state in [0, 3, 1, 2, 4] {
        for round in 0..settings.rounds as u64 {
            for (at, place) in places.iter().enumerate() {
                // New sessions in every round and state: keys must not repeat.
                let first = 2_000_000 + (round * STATES.len() as u64 + state as u64) * 100_000;
                match state {
                    1 => drop(child::write(place.engine, &place.path, first, WORK, End::Close)),
                    2 | 4 => drop(child::write(place.engine, &place.path, first, WORK, End::Kill)),
                    _ => {}
                }
                if state >= 3 {
                    forget_cached(&place.dir);
                }
                let probe = child::probe(place.engine, &place.path, &place.long);
                opened[at][state].push(probe.open_ms);
                shown[at][state].push(probe.page_ms);
            }
        }
    }
    let title = format!("Open and show the first page, {} sessions of {}", shape.sessions, shape.iterations);
    let columns =
        ["state", "retake open ms", "with page ms", "most ms", "SQLite with page ms", "most ms", "retake takes x"];
    let mut table = Table::new(title, &columns);
    let [ours, theirs] = &mut shown;
    for (state, name) in STATES.iter().enumerate() {
        table.row(vec![
            (*name).to_owned(),
            format!("{:.0}", median(&opened[0][state])),
            format!("{:.0}", median(&ours[state])),
            format!("{:.0}", percentile(&mut ours[state].clone(), 1.0)),
            format!("{:.1}", median(&theirs[state])),
            format!("{:.1}", percentile(&mut theirs[state].clone(), 1.0)),
            times(ratio(&ours[state], &theirs[state])),
        ]);
    }
    report.show("open", &table);
    places.iter().for_each(|place| fs::remove_dir_all(&place.dir).unwrap());
}

/// A writable copy of a data set.
struct DataCopy {
    engine: Engine,
    dir: PathBuf,
    path: PathBuf,
    long: String,
}

impl DataCopy {
    fn new(settings: &Settings, report: &Report, shape: Shape, engine: Engine) -> DataCopy {
        let dir = settings.scratch(&format!("open-{}", engine.name()));
        let (path, long) = match engine {
            Engine::Retake => {
                let (from, long) = data::retake(settings, report, shape);
                data::copy_all(&from, &dir.join("workspace"));
                (dir.join("workspace"), long.map_or("session-2022-01-01-001".to_owned(), |id| id.to_string()))
            }
            Engine::Sqlite => {
                let from = data::sqlite(settings, report, shape);
                fs::copy(from, dir.join("retake.sqlite")).unwrap();
                let long = if shape.long { shape.long_session() } else { 0 };
                (dir.join("retake.sqlite"), long.to_string())
            }
        };
        DataCopy { engine, dir, path, long }
    }
}

/// Evicts all files below `dir` from the page cache; `dd` can request that without side effects.
fn forget_cached(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget_cached(&path);
        } else {
            // Only synced pages can be evicted.
            File::open(&path).unwrap().sync_all().unwrap();
            let input = format!("if={}", path.display());
            let done = Command::new("dd").args([input.as_str(), "iflag=nocache", "count=0", "status=none"]).status();
            assert!(done.unwrap().success(), "dd could not empty the cache of a file");
        }
    }
}
