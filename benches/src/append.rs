//! How many iterations per second can be recorded if each must be durable before its writer continues? With one writer,
//! and with sixteen that share the disk.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::Settings;
use crate::peers::floor::{Floor, Growth};
use crate::peers::json::JsonFiles;
use crate::peers::ours::{self, Ours};
use crate::peers::sqlite::{ConnectionEach, Grouped};
use crate::peers::{Appender, Cursor};
use crate::report::{Report, Table, median, micros, percentile, processor_time, ratio, times};

/// Returns how long each engine is driven per round: briefly, because other load on the disk varies, and only turns
/// close together can be compared.
fn turn(writers: usize) -> Duration {
    Duration::from_millis(if writers == 1 { 150 } else { 300 })
}

/// The results of one engine, by round.
#[derive(Default)]
struct AppendRuns {
    /// Acknowledged appends per second while the writers ran.
    rates: Vec<f64>,
    /// The same, including the time until the background work was done.
    drained: Vec<f64>,
    /// The duration of every append of every round, in microseconds.
    latencies: Vec<f64>,
    /// The user and system time of all threads, in seconds.
    busy: f64,
}

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    for &writers in &settings.writers {
        let dir = settings.scratch("append");
        measure(settings, report, &dir, writers);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

fn measure(settings: &Settings, report: &mut Report, dir: &Path, writers: usize) {
    let sample = ours::open(&dir.join("sample"));
    let floor = Floor::new("floor: written ahead", &dir.join("ahead.log"), Growth::Ahead, &sample);
    let plain = Floor::new("floor: plain append", &dir.join("plain.log"), Growth::Plain, &sample);
    sample.close().unwrap();
    let mut engines: Vec<Box<dyn Appender>> =
        vec![Box::new(floor), Box::new(plain), Box::new(Ours(ours::open(&dir.join("retake"))))];
    engines.push(Box::new(ConnectionEach::new(&dir.join("each.sqlite"), writers)));
    if writers > 1 {
        engines.push(Box::new(Grouped::new(&dir.join("grouped.sqlite"))));
    }
    engines.push(Box::new(JsonFiles::new(&dir.join("json"))));
    engines.retain(|engine| settings.wants(engine.name()));

    let mut runs: Vec<AppendRuns> = engines.iter().map(|_| AppendRuns::default()).collect();
    let mut cursors: Vec<Vec<Cursor>> = engines
        .iter()
        .map(|_| (0..writers as u64).map(|writer| Cursor::new(writer, writers as u64)).collect())
        .collect();
    let rounds = settings.rounds * 5;
    for round in 0..=rounds {
        for turn in 0..engines.len() {
            // Each round starts with another engine, so that none always follows the same one.
            let at = (turn + round) % engines.len();
            let busy = processor_time();
            let (rate, drained, latencies) = turn_of(engines[at].as_ref(), &mut cursors[at]);
            // The first round warms up: files are new, and the first segments are being allocated.
            if round > 0 {
                runs[at].rates.push(rate);
                runs[at].drained.push(drained);
                runs[at].latencies.extend(latencies);
                runs[at].busy += processor_time() - busy;
            }
        }
    }

    // SQLite is driven in two ways; in each round, the better one counts.
    let best_sqlite: Vec<f64> = (0..rounds)
        .map(|round| {
            let sqlite = engines.iter().zip(&runs).filter(|(engine, _)| engine.name().starts_with("SQLite"));
            sqlite.map(|(_, runs)| runs.rates[round]).fold(0.0, f64::max)
        })
        .collect();
    let title = format!("Durable appends, {writers} writer{}", if writers == 1 { "" } else { "s" });
    let columns =
        ["engine", "appends/s", "with drain/s", "p50 us", "p99 us", "cpu us", "floor is x faster", "x SQLite (best)"];
    let mut table = Table::new(title, &columns);
    let floor = runs[0].rates.clone();
    for (engine, runs) in engines.iter().zip(&mut runs) {
        table.row(vec![
            engine.name().to_owned(),
            format!("{:.0}", median(&runs.rates)),
            format!("{:.0}", median(&runs.drained)),
            format!("{:.0}", percentile(&mut runs.latencies, 0.5)),
            format!("{:.0}", percentile(&mut runs.latencies, 0.99)),
            format!("{:.0}", runs.busy * 1e6 / runs.latencies.len() as f64),
            times(ratio(&floor, &runs.rates)),
            times(ratio(&runs.rates, &best_sqlite)),
        ]);
    }
    report.show("append", &table);
}

/// Drives one engine for a turn, and returns the appends per second without and with the drain, and the duration of each.
fn turn_of(engine: &dyn Appender, cursors: &mut [Cursor]) -> (f64, f64, Vec<f64>) {
    let barrier = Barrier::new(cursors.len());
    let turn = turn(cursors.len());
    let begun = Instant::now();
    let latencies: Vec<Vec<f64>> = thread::scope(|scope| {
        let writers: Vec<_> = cursors
            .iter_mut()
            .enumerate()
            .map(|(writer, cursor)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut latencies = Vec::with_capacity(8192);
                    barrier.wait();
                    let until = Instant::now() + turn;
                    let mut now = Instant::now();
                    while now < until {
                        engine.append(writer, cursor);
                        cursor.advance();
                        latencies.push(micros(now.elapsed()));
                        now = Instant::now();
                    }
                    latencies
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let driven = begun.elapsed().as_secs_f64();
    engine.drain();
    let drained = begun.elapsed().as_secs_f64();
    let latencies = latencies.concat();
    let count = latencies.len() as f64;
    (count / driven, count / drained, latencies)
}
