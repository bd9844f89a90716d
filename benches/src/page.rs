//! How long does a page of 100 sessions take, newest first, however many there are? And a page from deep in the list,
//! beyond the newest sessions kept in memory.

use std::hint::black_box;
use std::time::Instant;

use retake::internals::store::{Order, RecencyKey, Status, Store};
use rusqlite::Connection;

use crate::Settings;
use crate::data::{self, Shape};
use crate::peers::json::JsonFiles;
use crate::peers::{ours, sqlite};
use crate::report::{Report, Table, median, micros, percentile, ratio, times};

const PAGE: usize = 100;
/// The number of reads of each page per turn.
const READS: usize = 200;
/// The maximum number of files for a listing that reads every file; beyond, one listing takes many seconds.
const MAX_FILES: u64 = 100_000;

/// The results of one kind of page: the median of every turn, and every reading.
#[derive(Default)]
struct PageRuns {
    turns: Vec<f64>,
    all: Vec<f64>,
}

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let columns = ["sessions", "retake us", "p99", "SQLite us", "p99", "retake is x faster", "JSON files us"];
    let mut first = Table::new("First page of 100 sessions, warm (p50)", &columns);
    let columns = ["sessions", "retake us", "p99", "SQLite us", "p99", "retake is x faster"];
    let mut deep = Table::new("A page of 100 from the middle of the list, warm (p50)", &columns);
    let mut growth = Vec::new();
    let sizes: &[u64] = if settings.full { &[1_000, 100_000, 1_000_000] } else { &[1_000, 100_000] };
    for &sessions in sizes {
        let shape = Shape { sessions, iterations: 1, long: false };
        let (workspace, _) = data::retake(settings, report, shape);
        let database = data::sqlite(settings, report, shape);
        let (store, connection) = (ours::open(&workspace), sqlite::connect(&database));
        let mut runs = measure(settings, &store, &connection, None);
        growth.push(median(&runs[0].turns));
        let json = if sessions <= MAX_FILES {
            files(settings, &data::json(settings, report, shape))
        } else {
            "not tried".to_owned()
        };
        first.row(row(sessions, &mut runs).into_iter().chain([json]).collect());
        let mut runs = measure(settings, &store, &connection, Some(middle(&store, sessions)));
        deep.row(row(sessions, &mut runs));
        store.close().unwrap();
    }
    report.show("page", &first);
    if let (Some(least), Some(most)) = (growth.first(), growth.last()) {
        report.say(&format!("\nThe largest takes {} times what the smallest takes.", times(most / least)));
    }
    report.show("deep page", &deep);
}

fn measure(
    settings: &Settings,
    store: &Store,
    connection: &Connection,
    after: Option<(RecencyKey, (i64, i64))>,
) -> [PageRuns; 2] {
    let (ours, theirs) = (after.map(|after| after.0), after.map(|after| after.1));
    let mut runs = [PageRuns::default(), PageRuns::default()];
    for round in 0..=settings.rounds * 3 {
        let pages = [
            turn(|| assert_eq!(store.page(Status::All, Order::Recent, ours, PAGE).unwrap().len(), PAGE)),
            turn(|| assert_eq!(black_box(sqlite::page(connection, theirs, PAGE as i64)).len(), PAGE)),
        ];
        // The first round warms the caches.
        for (runs, page) in runs.iter_mut().zip(pages).filter(|_| round > 0) {
            runs.turns.push(median(&page));
            runs.all.extend(page);
        }
    }
    runs
}

fn turn(read: impl Fn()) -> Vec<f64> {
    let one = |_| {
        let begun = Instant::now();
        read();
        micros(begun.elapsed())
    };
    (0..READS).map(one).collect()
}

/// Finds the position of a session in the middle of the list by paging.
fn middle(store: &Store, sessions: u64) -> (RecencyKey, (i64, i64)) {
    let mut after = None;
    for _ in 0..sessions / 2 / 500 {
        let rows = store.page(Status::All, Order::Recent, after, 500).unwrap();
        let last = rows.last().unwrap();
        after = Some(RecencyKey { modified: last.last_modified_at, id: last.id });
    }
    let place = after.unwrap();
    (place, (place.modified.millis(), i64::MAX))
}

fn files(settings: &Settings, files: &JsonFiles) -> String {
    let reads = if settings.full { 5 } else { 3 };
    let one = |_| {
        let begun = Instant::now();
        assert_eq!(black_box(files.page(PAGE)).len(), PAGE);
        micros(begun.elapsed())
    };
    format!("{:.0}", median(&(0..reads).map(one).collect::<Vec<_>>()))
}

fn row(sessions: u64, [ours, theirs]: &mut [PageRuns; 2]) -> Vec<String> {
    vec![
        sessions.to_string(),
        format!("{:.1}", median(&ours.turns)),
        format!("{:.1}", percentile(&mut ours.all, 0.99)),
        format!("{:.1}", median(&theirs.turns)),
        format!("{:.1}", percentile(&mut theirs.all, 0.99)),
        times(ratio(&theirs.turns, &ours.turns)),
    ]
}
