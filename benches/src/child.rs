//! Measurements in separate processes: opening with fresh memory, as a user's program does; and writing in a process
//! that is then killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{fs, thread};

use retake::internals::store::{Detail, Order, Status};
use serde_json::{Value, json};

use crate::peers::ours::{self, Ours};
use crate::peers::sqlite::{self, Grouped};
use crate::peers::{Appender, Cursor};
use crate::report::millis;

const WRITERS: u64 = 16;

/// The two engines that are opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Retake,
    Sqlite,
}

impl Engine {
    pub(crate) const BOTH: [Engine; 2] = [Engine::Retake, Engine::Sqlite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Retake => "retake",
            Engine::Sqlite => "sqlite",
        }
    }
}

/// How a writing process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It closes what it opened.
    Close,
    /// It is killed while it is writing.
    Kill,
}

/// The measurements of a process.
pub(crate) struct Probe {
    pub(crate) open_ms: f64,
    pub(crate) page_ms: f64,
    pub(crate) rss_mb: f64,
    pub(crate) peak_mb: f64,
}

/// Opens in a new process, and reads the first page and the history of the long session.
pub(crate) fn probe(engine: Engine, path: &Path, long: &str) -> Probe {
    let output = itself(&["probe", engine.name(), path.to_str().unwrap(), long]).wait_with_output().unwrap();
    assert!(output.status.success(), "the process that opens failed");
    let text: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| text[name].as_f64().unwrap();
    Probe { open_ms: number("openMs"), page_ms: number("pageMs"), rss_mb: number("rssMb"), peak_mb: number("peakMb") }
}

/// Appends `count` iterations in a new process, to sessions from `first` on, and ends it. Returns its memory before the
/// end.
pub(crate) fn write(engine: Engine, path: &Path, first: u64, count: u64, end: End) -> f64 {
    let (first, count) = (first.to_string(), count.to_string());
    let how = if end == End::Close { "close" } else { "go-on" };
    let mut child = itself(&["write", engine.name(), path.to_str().unwrap(), &first, &count, how]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let text: Value = serde_json::from_str(&line).unwrap();
    if end == End::Kill {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), end == End::Close, "the process that writes ended otherwise");
    text["rssMb"].as_f64().unwrap()
}

/// Does the work of a child, if this process is one.
pub(crate) fn run(arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["probe", "retake", path, long] => {
            let begun = Instant::now();
            let store = ours::open(Path::new(path));
            let open = begun.elapsed();
            assert!(!store.page(Status::All, Order::Recent, None, 100).unwrap().is_empty());
            let page = begun.elapsed();
            assert!(!store.events(long.parse().unwrap(), Detail::Full).unwrap().is_empty());
            let causes: Vec<String> =
                store.recoveries().unwrap().into_iter().flat_map(|report| report.causes).collect();
            assert!(causes.is_empty(), "a healthy workspace was rebuilt: {causes:?}");
            say(
                &json!({ "openMs": millis(open), "pageMs": millis(page), "rssMb": memory("VmRSS"), "peakMb": memory("VmHWM") }),
            );
            store.close().unwrap();
        }
        ["probe", "sqlite", path, long] => {
            let begun = Instant::now();
            let connection = sqlite::connect(Path::new(path));
            let open = begun.elapsed();
            assert!(!sqlite::page(&connection, None, 100).is_empty());
            let page = begun.elapsed();
            assert!(!sqlite::history(&connection, long.parse().unwrap()).is_empty());
            say(
                &json!({ "openMs": millis(open), "pageMs": millis(page), "rssMb": memory("VmRSS"), "peakMb": memory("VmHWM") }),
            );
        }
        ["write", engine, path, first, count, how] => {
            let path = Path::new(path);
            let (first, count) = (first.parse().unwrap(), count.parse().unwrap());
            let close = *how == "close";
            if *engine == "retake" {
                let store = Ours(ours::open(path));
                append(&store, first, count, close);
                store.0.close().unwrap();
            } else {
                append(&Grouped::new(path), first, count, close);
            }
        }
        _ => unreachable!("children are started by this program only"),
    }
}

fn append(engine: &dyn Appender, first: u64, count: u64, close: bool) {
    let appended = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let appended = &appended;
            scope.spawn(move || {
                let mut cursor = Cursor::new(first + writer, WRITERS);
                loop {
                    engine.append(usize::try_from(writer).unwrap(), &mut cursor);
                    cursor.advance();
                    let done = appended.fetch_add(1, Ordering::Relaxed) + 1;
                    if done == count {
                        say(&json!({ "rssMb": memory("VmRSS") }));
                    }
                    if close && done >= count {
                        break;
                    }
                }
            });
        }
    });
}

fn itself(arguments: &[&str]) -> Child {
    let exe = std::env::current_exe().unwrap();
    Command::new(exe).arg("child").args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

fn say(value: &Value) {
    println!("{value}");
}

/// Returns a field of `/proc/self/status`, in megabytes.
fn memory(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}
