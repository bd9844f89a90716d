//! How long does it take to open a workspace of many sessions and show its first page: closed cleanly, and after a kill?
//! What does it take on disk and in memory? And how long does the whole history of a long session take?

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use retake::store::{Detail, Order, Status};

use crate::Settings;
use crate::data::{self, Shape};
use crate::peers::{ours, sqlite};
use crate::report::{Report, Table, median, micros, millis};
use crate::workload;

/// How many more iterations a process records before it is killed.
const UNSAVED: u64 = 20_000;
/// How many iterations the long session has.
const LONG: usize = data::LONG as usize;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let shape = Shape { sessions: if settings.full { 100_000 } else { 20_000 }, iterations: 10, long: true };
    let (workspace, long) = data::retake(settings, report, shape);
    let database = data::sqlite(settings, report, shape);
    let long = long.unwrap();

    let mut opening = Table::new(
        format!("Opening {} and its first page, in a process of its own (ms)", shape.name()),
        &["how it ended before", "retake", "SQLite", "retake RSS MB", "SQLite RSS MB"],
    );
    let run = |ended: &str, kill: bool, table: &mut Table| {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..settings.rounds.min(5) {
            if kill {
                killed("child-fill", &workspace, round);
                killed("child-fill-sqlite", &database, round);
            }
            ours.push(opened("child-open", &workspace));
            theirs.push(opened("child-open-sqlite", &database));
        }
        let (time, memory) = (|runs: &[(f64, f64)]| median(&first(runs)), |runs: &[(f64, f64)]| median(&second(runs)));
        table.row(vec![
            ended.to_owned(),
            format!("{:.1}", time(&ours)),
            format!("{:.1}", time(&theirs)),
            format!("{:.0}", memory(&ours)),
            format!("{:.0}", memory(&theirs)),
        ]);
    };
    run("closed cleanly", false, &mut opening);
    run("killed after 20,000 more iterations", true, &mut opening);
    report.show("opening", &opening);

    let mut size = Table::new("On disk (MB)", &["data", "retake journal", "retake database", "SQLite"]);
    let megabytes = |path: &Path| format!("{:.0}", bytes(path) as f64 / 1e6);
    size.row(vec![
        shape.name(),
        megabytes(&workspace.join("journal")),
        megabytes(&workspace.join("db")),
        megabytes(&database),
    ]);
    report.show("size", &size);

    let store = ours::open(&workspace);
    let connection = sqlite::connect(&database);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let begun = Instant::now();
        assert_eq!(black_box(store.events(long, Detail::Full).unwrap()).len(), LONG + 1);
        ours.push(micros(begun.elapsed()));
        let begun = Instant::now();
        assert_eq!(black_box(sqlite::history(&connection, shape.long_session())).len(), LONG);
        theirs.push(micros(begun.elapsed()));
    }
    let mut history = Table::new("The whole history of 200 iterations, p50 in µs", &["retake", "SQLite", "ratio"]);
    let (ours, theirs) = (median(&ours), median(&theirs));
    history.row(vec![format!("{ours:.0}"), format!("{theirs:.0}"), format!("{:.2}", ours / theirs)]);
    report.show("history", &history);
    store.close().unwrap();
}

/// What the bench's own child processes do.
pub(crate) fn child(verb: &str, path: &str, round: &str) {
    let path = Path::new(path);
    let begun = Instant::now();
    match verb {
        "child-open" => {
            let store = ours::open(path);
            assert_eq!(store.page(Status::All, Order::Recent, None, 100).unwrap().len(), 100);
            println!("{} {}", millis(begun.elapsed()), resident());
            store.close().unwrap();
        }
        "child-open-sqlite" => {
            let connection = sqlite::connect(path);
            assert_eq!(sqlite::page(&connection, None, 100).len(), 100);
            println!("{} {}", millis(begun.elapsed()), resident());
        }
        "child-fill" => {
            let store = ours::open(path);
            let first = numbers(round);
            std::thread::scope(|scope| {
                for writer in 0..32 {
                    let store = &store;
                    scope.spawn(move || {
                        for n in 0..UNSAVED / 32 {
                            let mut batch = workload::batch(None, n, 0);
                            batch.key = format!("{first} {writer} {n}");
                            store.append(batch).unwrap();
                        }
                    });
                }
            });
            println!("done");
            std::thread::park();
        }
        _ => {
            let connection = sqlite::connect(path);
            for chunk in (0..UNSAVED).collect::<Vec<_>>().chunks(64) {
                sqlite::in_transaction(&connection, || {
                    chunk.iter().for_each(|n| sqlite::append(&connection, &sqlite::Ready::new(numbers(round) + n, 0)));
                });
            }
            println!("done");
            std::thread::park();
        }
    }
}

/// Sessions that no other round and no data set has.
fn numbers(round: &str) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() % 10_000;
    2_000_000 + (round.parse::<u64>().unwrap() * 10_000 + now) * UNSAVED % 100_000_000
}

/// A child that fills and is killed when it has.
fn killed(verb: &str, path: &Path, round: usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([verb, path.to_str().unwrap(), &round.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Milliseconds to open, and megabytes held afterwards.
fn opened(verb: &str, path: &Path) -> (f64, f64) {
    let output =
        Command::new(std::env::current_exe().unwrap()).args([verb, path.to_str().unwrap(), "0"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn first(runs: &[(f64, f64)]) -> Vec<f64> {
    runs.iter().map(|run| run.0).collect()
}

fn second(runs: &[(f64, f64)]) -> Vec<f64> {
    runs.iter().map(|run| run.1).collect()
}

/// What this process holds in memory, in megabytes.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn bytes(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| bytes(&entry.unwrap().path())).sum(),
        Err(_) => fs::metadata(path).map_or(0, |file| file.len()),
    }
}
