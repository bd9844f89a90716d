//! What does `retake wrap` add to a call? The same 10,000 calls to a server directly, through a process that only
//! copies bytes, through `wrap`, and through another proxy if `RETAKE_BENCH_PROXY` contains its command (the server's
//! is appended).

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use retake::internals::workspace::{Lifetime, Options as WorkspaceOptions, Workspace};
use retake::internals::wrap::{self, ANNOUNCE_TIMEOUT, Announce, Destination, SessionChoice, WrapOptions};

use crate::Settings;
use crate::report::{Report, Table, percentile};

/// The number of calls of each kind.
const CALLS: usize = 10_000;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let this = std::env::current_exe().unwrap();
    let own = |words: &[&str]| -> Vec<OsString> {
        std::iter::once(this.clone().into_os_string()).chain(words.iter().map(OsString::from)).collect()
    };
    let workspace = settings.scratch("wrap");
    let server = own(&["wrap-bench", "server"]);
    let mut ways = vec![
        ("direct".to_owned(), Vec::new()),
        ("bare pipe".to_owned(), own(&["wrap-bench", "pipe"])),
        ("retake wrap".to_owned(), own(&["wrap-bench", "wrap", workspace.to_str().unwrap()])),
    ];
    if let Ok(proxy) = std::env::var("RETAKE_BENCH_PROXY") {
        ways.push((proxy.clone(), proxy.split_whitespace().map(OsString::from).collect()));
    }
    let mut table =
        Table::new("A call through a proxy, in microseconds", &["way", "median", "99 %", "added at the median"]);
    let mut direct = 0.0;
    for (name, prefix) in ways {
        let command: Vec<OsString> = prefix.into_iter().chain(server.iter().cloned()).collect();
        let mut times = measure(&command);
        let (median, late) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
        if name == "direct" {
            direct = median;
        }
        table.row(vec![name, format!("{median:.0}"), format!("{late:.0}"), format!("{:.0}", median - direct)]);
    }
    report.show("wrap", &table);
}

/// Makes the calls sequentially, and returns the duration of each in microseconds.
fn measure(command: &[OsString]) -> Vec<f64> {
    let mut process =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    let mut ask = |message: String| {
        let begun = Instant::now();
        stdin.write_all(message.as_bytes()).unwrap();
        line.clear();
        stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{command:?} ended");
        begun.elapsed().as_secs_f64() * 1e6
    };
    ask("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n".to_owned());
    let times = (1..=CALLS)
        .map(|id| {
            ask(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"list_things\",\"arguments\":{{}}}}}}\n"))
        })
        .collect();
    drop(stdin);
    process.wait().unwrap();
    times
}

/// Runs a process of the measurement: the server, or the proxy in front of it.
pub(crate) fn child(words: &[String]) {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server"] => server(),
        ["pipe", command @ ..] => pipe(command),
        ["wrap", workspace, command @ ..] => through_wrap(Path::new(workspace), command),
        other => println!("no such child: {other:?}"),
    }
}

fn server() {
    for line in std::io::stdin().lock().lines() {
        let message: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id") else { continue };
        let result = if message["method"] == "initialize" {
            serde_json::json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}})
        } else {
            serde_json::json!({"content": [{"type": "text", "text": "one, two"}]})
        };
        println!("{}", serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }
}

fn pipe(command: &[&str]) {
    let mut server =
        Command::new(command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to_server = server.stdin.take().unwrap();
    let mut from_server = server.stdout.take().unwrap();
    std::thread::spawn(move || copy(&mut std::io::stdin().lock(), &mut to_server));
    copy(&mut from_server, &mut std::io::stdout().lock());
    server.wait().unwrap();
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut chunk) {
        if count == 0 || to.write_all(&chunk[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn through_wrap(workspace: &Path, command: &[&str]) {
    let dir = workspace.to_owned();
    let options = WrapOptions {
        destination: Destination {
            open: Arc::new(move || {
                let options = WorkspaceOptions { lifetime: Lifetime::LongRunning, ..WorkspaceOptions::default() };
                Workspace::open_with(&dir, options).map_err(Into::into)
            }),
            dir: workspace.to_owned(),
            session: SessionChoice::PerConnection,
            project: None,
            user: "bench".to_owned(),
        },
        profile: None,
        profiles: None,
        fetch_hosts: Vec::new(),
        announce: Announce::Meta,
        announce_timeout: ANNOUNCE_TIMEOUT,
        // Stdout belongs to the server.
        warn: Arc::new(|_| ()),
    };
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    std::process::exit(wrap::run(&command, options).unwrap());
}
