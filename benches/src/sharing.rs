//! What does it cost to be a client? The same calls through the owner's socket and in the process that owns the
//! workspace. The floor writes and syncs the bytes of one append, and nothing else, in the same two ways.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use retake::internals::model::Timestamp;
use retake::internals::sharing::{Lifetime, SharedLog};
use retake::internals::store::{Options, Order, Status};
use retake::internals::wire::{Api, ListRequest};
use retake::internals::workspace::Workspace;

use crate::Settings;
use crate::report::{Report, Table, median, micros};
use crate::workload;

const ROUND: Duration = Duration::from_millis(800);
/// The sizes of a request, of what is written for it, and of its answer, as in Retake's own protocol.
const FLOOR_BYTES: (usize, usize, usize) = (700, 1100, 300);
/// The file of the floor is allocated in advance, as the journal is.
const FLOOR_FILE_BYTES: usize = 64 << 20;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    page(settings, report);
    append(settings, report);
    floor(settings, report);
}

/// Runs a client process: appends until its time is over, and prints the number of appends.
pub(crate) fn child(dir: &str, number: &str) {
    let workspace = open(Path::new(dir));
    let mut line = String::new();
    println!("ready");
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{}", append_for(&workspace, number.parse().unwrap()));
}

/// Runs a client process of the floor: sends requests until its time is over, and prints the number of answers.
pub(crate) fn floor_child(socket: &str) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let (request, mut answer) = (vec![1; FLOOR_BYTES.0], vec![0; FLOOR_BYTES.2]);
    let (begun, mut count) = (Instant::now(), 0u64);
    while begun.elapsed() < ROUND {
        stream.write_all(&request).unwrap();
        stream.read_exact(&mut answer).unwrap();
        count += 1;
    }
    println!("{count}");
}

fn open(dir: &Path) -> SharedLog {
    let clock = Arc::new(|| Timestamp::from_millis(1_700_000_000_000).unwrap());
    SharedLog::open(dir, Options::new(clock), Lifetime::OneShot).unwrap()
}

fn page(settings: &Settings, report: &mut Report) {
    let dir = settings.scratch("sharing-page");
    let owner = open(&dir);
    for session in 0..1000 {
        owner.append(workload::batch(None, session, 0)).unwrap();
    }
    let client = open(&dir);
    let workspace = Workspace::open(&dir).unwrap();
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let request = ListRequest { limit: Some(100), ..ListRequest::default() };
    for _ in 0..3000 {
        for (times, workspace) in times.iter_mut().zip([&owner, &client]) {
            let begun = Instant::now();
            assert_eq!(workspace.page(Status::All, Order::Recent, None, 100).unwrap().len(), 100);
            times.push(begun.elapsed());
        }
        let begun = Instant::now();
        assert_eq!(Api::new(&workspace).unbounded().list(&request).unwrap().sessions.len(), 100);
        times[3].push(begun.elapsed());
    }
    drop((client, workspace, owner));
    let workspace = Workspace::open(&dir).unwrap();
    for _ in 0..3000 {
        let begun = Instant::now();
        assert_eq!(Api::new(&workspace).unbounded().list(&request).unwrap().sessions.len(), 100);
        times[2].push(begun.elapsed());
    }
    let median = |times: &Vec<Duration>| median(&times.iter().map(|time| micros(*time)).collect::<Vec<_>>());
    let [log_here, log_there, list_here, list_there] = &times;
    let mut table = Table::new("A page of 100 sessions, p50 in µs", &["call", "owner", "through the socket", "ratio"]);
    for (name, here, there) in [
        ("the log's page", median(log_here), median(log_there)),
        ("list-sessions, as JSON", median(list_here), median(list_there)),
    ] {
        table.row(vec![name.to_owned(), format!("{here:.1}"), format!("{there:.1}"), format!("{:.2}", there / here)]);
    }
    report.show("sharing", &table);
}

fn append(settings: &Settings, report: &mut Report) {
    let columns = ["writers", "threads of the owner /s", "processes /s", "processes : threads"];
    let mut table = Table::new("Durable appends", &columns);
    for writers in [1usize, 4, 16] {
        let (mut inside, mut outside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..settings.rounds {
            let dir = settings.scratch(&format!("sharing-{writers}"));
            let owner = open(&dir);
            let threads = thread::scope(|scope| {
                let threads: Vec<_> = (0..writers)
                    .map(|at| (number(round, at), &owner))
                    .map(|(writer, owner)| scope.spawn(move || append_for(owner, writer)))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
            });
            drop(owner);
            // A separate workspace: sled is slowest while its trees are small, and the second run would find them
            // grown.
            let dir = settings.scratch(&format!("sharing-{writers}-processes"));
            let owner = open(&dir);
            let mut children: Vec<Child> = (0..writers).map(|at| spawn(&dir, number(round, writers + at))).collect();
            let mut outputs: Vec<_> =
                children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
            outputs.iter_mut().for_each(|lines| assert_eq!(lines.next().unwrap().unwrap(), "ready"));
            for child in &mut children {
                child.stdin.take().unwrap().write_all(b"go\n").unwrap();
            }
            let counts = outputs.iter_mut().map(|lines| lines.next().unwrap().unwrap().parse::<u64>().unwrap());
            let processes: u64 = counts.sum();
            children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
            drop(owner);
            let rate = |count: u64| count as f64 / ROUND.as_secs_f64();
            inside.push(rate(threads));
            outside.push(rate(processes));
            ratios.push(rate(processes) / rate(threads));
        }
        table.row(vec![
            writers.to_string(),
            format!("{:.0}", median(&inside)),
            format!("{:.0}", median(&outside)),
            format!("{:.2}", median(&ratios)),
        ]);
    }
    report.show("sharing", &table);
}

/// One thread that writes and syncs, and a process that has a thread of this one do so for it, alternately.
fn floor(settings: &Settings, report: &mut Report) {
    let dir = settings.scratch("sharing-floor");
    let file = File::create(dir.join("log")).unwrap();
    file.write_all_at(&vec![0; FLOOR_FILE_BYTES], 0).unwrap();
    file.sync_all().unwrap();
    let mut end = 0;
    let mut write = || {
        file.write_all_at(&[1; FLOOR_BYTES.1], end).unwrap();
        file.sync_data().unwrap();
        end = (end + FLOOR_BYTES.1 as u64) % (FLOOR_FILE_BYTES - FLOOR_BYTES.1) as u64;
    };
    let socket = dir.join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let (mut inside, mut outside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        let (begun, mut count) = (Instant::now(), 0u64);
        while begun.elapsed() < ROUND {
            write();
            count += 1;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let child = command.arg("floor-client").arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, answer) = (vec![0; FLOOR_BYTES.0], vec![1; FLOOR_BYTES.2]);
        while stream.read_exact(&mut request).is_ok() {
            write();
            if stream.write_all(&answer).is_err() {
                break;
            }
        }
        let output = child.wait_with_output().unwrap();
        let answered: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        inside.push(count as f64 / ROUND.as_secs_f64());
        outside.push(answered as f64 / ROUND.as_secs_f64());
        ratios.push(answered as f64 / count as f64);
    }
    let mut table = Table::new("The floor of one writer", &["a thread /s", "a process /s", "process : thread"]);
    table.row(vec![
        format!("{:.0}", median(&inside)),
        format!("{:.0}", median(&outside)),
        format!("{:.2}", median(&ratios)),
    ]);
    report.show("sharing", &table);
}

/// Returns a number that no other writer or round uses, so that every idempotency key is new.
fn number(round: usize, writer: usize) -> u64 {
    (round * 100 + writer) as u64
}

fn append_for(workspace: &SharedLog, writer: u64) -> u64 {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < ROUND {
        let mut batch = workload::batch(None, count, 0);
        batch.key = format!("{writer} {count}");
        workspace.append(batch).unwrap();
        count += 1;
    }
    count
}

fn spawn(dir: &Path, writer: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("client").arg(dir).arg(writer.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}
