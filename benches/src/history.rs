//! How long does it take to read and decode a whole session of 200 iterations in a large workspace?

use std::hint::black_box;
use std::time::Instant;

use retake::internals::store::Detail;

use crate::Settings;
use crate::data::{self, LONG};
use crate::peers::{ours, sqlite};
use crate::report::{Report, Table, median, micros, percentile, ratio, times};

const READS: usize = 50;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let shape = settings.large();
    let (workspace, long) = data::retake(settings, report, shape);
    let (store, long) = (ours::open(&workspace), long.unwrap());
    let connection = sqlite::connect(&data::sqlite(settings, report, shape));
    // The size of one session's file does not depend on the number of others.
    let files = data::json(settings, report, data::Shape { sessions: 1_000, iterations: 1, long: true });
    let json = data::Shape { sessions: 1_000, iterations: 1, long: true }.long_session();

    let names = ["retake", "SQLite", "JSON file"];
    let mut turns: [Vec<f64>; 3] = Default::default();
    let mut all: [Vec<f64>; 3] = Default::default();
    for round in 0..=settings.rounds * 3 {
        let readings = [
            turn(|| {
                let events = store.events(long, Detail::Full).unwrap();
                assert_eq!(events.len(), LONG as usize + 1);
                black_box(events);
            }),
            turn(|| {
                let iterations = sqlite::history(&connection, shape.long_session());
                assert_eq!(iterations.len(), LONG as usize);
                black_box(iterations);
            }),
            turn(|| {
                black_box(files.history(json));
            }),
        ];
        // The first round warms the caches.
        for ((turns, all), reading) in turns.iter_mut().zip(&mut all).zip(readings).filter(|_| round > 0) {
            turns.push(median(&reading));
            all.extend(reading);
        }
    }
    store.close().unwrap();
    let title = format!("History of {LONG} iterations among {} sessions, warm", shape.sessions);
    let mut table = Table::new(title, &["engine", "p50 us", "p99 us", "retake is x faster"]);
    for ((name, theirs), all) in names.iter().zip(&turns).zip(&mut all) {
        table.row(vec![
            (*name).to_owned(),
            format!("{:.0}", median(theirs)),
            format!("{:.0}", percentile(all, 0.99)),
            times(ratio(theirs, &turns[0])),
        ]);
    }
    report.show("history", &table);
}

fn turn(read: impl Fn()) -> Vec<f64> {
    let one = |_| {
        let begun = Instant::now();
        read();
        micros(begun.elapsed())
    };
    (0..READS).map(one).collect()
}
