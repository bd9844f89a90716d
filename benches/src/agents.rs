//! How soon does an agent get its response? Measures the time from starting the server to its first reply, and a call
//! of `list-sessions`, over stdio and HTTP. The floor of each is measured too: a process that does nothing, and the
//! same bytes through a pipe and a socket that only echo them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use retake::internals::mcp::{self, Paths};
use retake::internals::model::Actor;
use retake::internals::web::{self, Serving};
use retake::internals::wire::{Api, RecordRequest};
use retake::internals::workspace::{Lifetime, Options, Workspace};
use serde_json::{Value, json};

use crate::Settings;
use crate::report::{Report, Table, median, micros, millis, ratio, times};

const CALLS: usize = 500;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let dir = settings.scratch("agents");
    let workspace = Workspace::open(&dir).unwrap();
    let me = Actor { client: "bench".to_owned(), user: "bench".to_owned() };
    for number in 0..200 {
        let request = RecordRequest { prompt: format!("a fox, take {number}"), ..RecordRequest::default() };
        Api::new(&workspace).by(&me).record(&request).unwrap();
    }
    workspace.close().unwrap();
    starting(settings, &dir, report);
    calling(settings, &dir, report);
}

/// Runs the server in a separate process: `agent stdio DIR` or `agent http DIR`.
pub(crate) fn child(how: &str, dir: &str) {
    let options = Options { lifetime: Lifetime::LongRunning, ..Options::default() };
    let workspace = Arc::new(Workspace::open_with(Path::new(dir), options).unwrap());
    if how == "stdio" {
        return mcp::run(workspace, "bench".to_owned(), Paths::Any).unwrap();
    }
    let bound = web::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    println!("{}", bound.url());
    bound.serve(workspace, Serving { user: "bench".to_owned(), token: None }).unwrap();
}

fn starting(settings: &Settings, dir: &Path, report: &mut Report) {
    let opening = [
        (
            "initialize",
            request(
                "initialize",
                json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" } }),
            ),
        ),
        ("server/discover", request("server/discover", json!({ "_meta": meta() }))),
        (
            "list-sessions at once",
            request("tools/call", json!({ "name": "list-sessions", "arguments": {}, "_meta": meta() })),
        ),
    ];
    let rounds = settings.rounds * 3;
    let mut nothing = Vec::new();
    let mut replied = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let begun = Instant::now();
        assert!(Command::new("true").status().unwrap().success());
        nothing.push(millis(begun.elapsed()));
        for (times, (_, line)) in replied.iter_mut().zip(&opening) {
            let begun = Instant::now();
            let mut agent = Agent::start(dir);
            agent.ask(line);
            times.push(millis(begun.elapsed()));
            agent.end();
        }
    }
    let columns = ["first reply", "ms", "beside `true`"];
    let mut table = Table::new("From starting `retake mcp` on 200 sessions to its first reply", &columns);
    table.row(vec!["`true`, started and ended".to_owned(), format!("{:.2}", median(&nothing)), times(1.0)]);
    for (times_, (name, _)) in replied.iter().zip(&opening) {
        let row = vec![(*name).to_owned(), format!("{:.2}", median(times_)), times(ratio(times_, &nothing))];
        table.row(row);
    }
    report.show("agents", &table);
}

fn calling(settings: &Settings, dir: &Path, report: &mut Report) {
    let arguments = json!({ "name": "list-sessions", "arguments": { "limit": 100 } });
    let line = request("tools/call", arguments);
    let mut agent = Agent::start(dir);
    agent.ask(&request(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "b", "version": "1" } }),
    ));
    agent.tell(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let answer = agent.ask(&line);
    let mut cat = Agent::of(Command::new("cat"));
    let mut http = Http::start(dir);
    let mut echo = Http::echo(answer.len());
    let (mut stdio, mut pipe, mut served, mut socket) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        for (times, ask) in [
            (&mut stdio, &mut (|| drop(agent.ask(&line))) as &mut dyn FnMut()),
            // The same number of bytes as the response, in both directions.
            (&mut pipe, &mut || drop(cat.ask(answer.trim_end()))),
            (&mut served, &mut || http.ask(&line)),
            (&mut socket, &mut || echo.bounce()),
        ] {
            let each: Vec<f64> = (0..CALLS / settings.rounds.max(1) + 1)
                .map(|_| {
                    let begun = Instant::now();
                    ask();
                    micros(begun.elapsed())
                })
                .collect();
            times.push(median(&each));
        }
    }
    agent.end();
    cat.end();
    http.end();
    let columns = ["a page of 100 sessions", "p50 µs", "floor µs", "ratio"];
    let mut table = Table::new(format!("A call of list-sessions ({} bytes)", answer.len()), &columns);
    for (name, ours, floor) in
        [("stdio, beside `cat`", &stdio, &pipe), ("HTTP, beside an echoing socket", &served, &socket)]
    {
        let (ours_p50, floor_p50) = (format!("{:.0}", median(ours)), format!("{:.0}", median(floor)));
        table.row(vec![name.to_owned(), ours_p50, floor_p50, times(ratio(ours, floor))]);
    }
    report.show("agents", &table);
}

fn request(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" }
    })
}

/// A server on a pair of pipes.
struct Agent {
    child: Child,
    asks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Agent {
    fn start(dir: &Path) -> Agent {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["agent", "stdio"]).arg(dir);
        Agent::of(command)
    }

    fn of(mut command: Command) -> Agent {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Agent { asks: child.stdin.take(), answers, child }
    }

    fn tell(&mut self, line: &str) {
        self.asks.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(!answer.contains("\"error\":{\"code\""), "{answer}");
        answer
    }

    fn end(mut self) {
        self.asks = None;
        assert!(self.child.wait().unwrap().success());
    }
}

/// A server on a socket, with one persistent connection.
struct Http {
    child: Option<Child>,
    stream: TcpStream,
    host: String,
    size: usize,
}

impl Http {
    fn start(dir: &Path) -> Http {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.args(["agent", "http"]).arg(dir).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let host = url.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_nodelay(true).unwrap();
        Http { child: Some(child), stream, host, size: 0 }
    }

    /// Starts a socket that echoes what it receives, `size` bytes at a time.
    fn echo(size: usize) -> Http {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_nodelay(true).unwrap();
            let mut bytes = vec![0; size];
            while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
        });
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_nodelay(true).unwrap();
        Http { child: None, stream, host, size }
    }

    fn bounce(&mut self) {
        let mut bytes = vec![7; self.size];
        self.stream.write_all(&bytes).unwrap();
        self.stream.read_exact(&mut bytes).unwrap();
    }

    fn ask(&mut self, body: &str) {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut reader = BufReader::new(&self.stream);
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let header = line.trim().to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if header.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        assert!(length > 1000, "{}", String::from_utf8_lossy(&answer));
    }

    fn end(mut self) {
        if let Some(child) = &mut self.child {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
