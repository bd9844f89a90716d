//! Long-running processes on a team workspace: `wrap`, `watch` and `serve`, also while the database is unreachable.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libtest_mimic::Trial;
use retake_testutils::made::png;
use serde_json::{Value, json};

use super::commands::{Machine, set_up};
use super::postgres_trial;
use super::processes::CHILD;
use super::proxy::{Mode, Proxy};
use super::servers::{Postgres, wait_until};

/// The role of this program as an image server.
pub(crate) const IMAGE_SERVER: &str = "image-server";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("recorders::wrap_spools_while_the_database_is_gone", wrap_spools),
        postgres_trial("recorders::a_killed_wrap_leaves_its_spool_to_the_next", killed_wrap),
        postgres_trial("recorders::watch_goes_on_after_the_database_was_gone", watch),
        postgres_trial("recorders::a_gallery_shows_what_another_machine_records", serve),
    ]
}

/// An MCP server that makes an image for every call.
pub(crate) fn image_server() {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(id) = message.get("id") else { continue };
        let prompt = message["params"]["arguments"]["prompt"].as_str().unwrap_or_default();
        let number = prompt.bytes().fold(1_u64, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte));
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "team-images", "version": "1"}}),
            Some("tools/call") => json!({"content": [
                {"type": "image", "mimeType": "image/png", "data": STANDARD.encode(png(number, &[]))},
            ]}),
            _ => json!({"tools": []}),
        };
        writeln!(stdout, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap();
        stdout.flush().unwrap();
    }
}

/// A client of `retake wrap`.
struct Wrapped {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    id: u64,
}

impl Wrapped {
    fn start(machine: &Machine) -> Wrapped {
        let this = std::env::current_exe().unwrap();
        let mut command = machine.command(&["wrap", "--announce-timeout", "20000", "--", this.to_str().unwrap()]);
        command.env(CHILD, IMAGE_SERVER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut wrapped = Wrapped { process, lines, id: 0 };
        wrapped.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
        );
        wrapped
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        writeln!(self.process.stdin.as_mut().unwrap(), "{request}").unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Generates an image, and returns the reference in the response.
    fn generate(&mut self, prompt: &str) -> Option<String> {
        let answer = self.ask("tools/call", json!({"name": "generate_image", "arguments": {"prompt": prompt}}));
        assert_eq!(answer["result"]["content"][0]["type"], "image", "{answer}");
        answer["result"]["_meta"]["dev.retake/iteration"]["reference"].as_str().map(str::to_owned)
    }

    fn finish(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// Returns a proxy to a workspace, a machine that uses it, and one that connects directly.
fn behind_proxy(images: &Path) -> (Proxy, Machine, Machine) {
    let server = Postgres::shared();
    let (_, url) = set_up(server, images);
    let proxy = Proxy::to(server.port);
    let separator = if url.contains('?') { '&' } else { '?' };
    let through = url.replace(&format!(":{}", server.port), &format!(":{}", proxy.port));
    let through = format!("{through}{separator}call_timeout=2&attempt_timeout=1");
    (proxy, Machine::new(&through), Machine::new(&url))
}

/// Returns all prompts of a workspace, sorted, each as often as it was recorded.
fn prompts(machine: &Machine) -> Vec<String> {
    let found = machine.json(&["search", "--limit", "100", "--json"]);
    let mut prompts: Vec<String> =
        found["iterations"].as_array().unwrap().iter().map(|it| it["prompt"].as_str().unwrap().to_owned()).collect();
    prompts.sort_unstable();
    prompts
}

/// Returns the files in the spool of a machine.
fn spooled(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| if path.is_dir() { spooled(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "waiting"))
        .collect()
}

fn wrap_spools() {
    let images = tempfile::tempdir().unwrap();
    let (proxy, here, there) = behind_proxy(&images.path().join("images"));
    let mut client = Wrapped::start(&here);
    assert!(client.generate("one").is_some());
    proxy.set(Mode::Cut);
    assert_eq!(client.generate("two"), None);
    assert_eq!(client.generate("three"), None);
    wait_until("both are in the spool", || spooled(here.home()).len() == 2);
    assert_eq!(prompts(&there), ["one"]);
    proxy.set(Mode::Pass);
    wait_until("the spool is delivered", || prompts(&there) == ["one", "three", "two"]);
    client.generate("four");
    client.finish();
    assert_eq!(prompts(&there), ["four", "one", "three", "two"]);
    assert!(spooled(here.home()).is_empty());
    there.ok(&["verify"]);
}

fn killed_wrap() {
    let images = tempfile::tempdir().unwrap();
    let (proxy, here, there) = behind_proxy(&images.path().join("images"));
    let mut client = Wrapped::start(&here);
    assert!(client.generate("one").is_some());
    proxy.set(Mode::Cut);
    client.generate("two");
    wait_until("it is in the spool", || spooled(here.home()).len() == 1);
    client.process.kill().unwrap();
    client.process.wait().unwrap();
    proxy.set(Mode::Pass);
    let mut client = Wrapped::start(&here);
    assert!(client.generate("three").is_some());
    client.finish();
    assert_eq!(prompts(&there), ["one", "three", "two"]);
    assert!(spooled(here.home()).is_empty());
}

/// The folder is the spool of `watch`: what could not be recorded is still in it.
fn watch() {
    let images = tempfile::tempdir().unwrap();
    let (proxy, here, there) = behind_proxy(&images.path().join("images"));
    let folder = here.home().join("renders");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.png"), png(1, &[])).unwrap();
    let mut watching = here.command(&["watch", folder.to_str().unwrap(), "--json"]);
    let mut watching = watching.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let count = || there.json(&["search", "--json"])["totalMatches"].as_u64().unwrap();
    wait_until("the first image is there", || count() == 1);
    proxy.set(Mode::Cut);
    std::fs::write(folder.join("b.png"), png(2, &[])).unwrap();
    std::fs::write(folder.join("c.png"), png(3, &[])).unwrap();
    let attempts = proxy.refused();
    wait_until("it has tried", || proxy.refused() > attempts + 1);
    assert_eq!(count(), 1);
    proxy.set(Mode::Pass);
    wait_until("the others are there", || count() == 3);
    watching.kill().unwrap();
    watching.wait().unwrap();
    // A second import finds nothing new.
    here.ok(&["import", folder.to_str().unwrap()]);
    assert_eq!(count(), 3);
}

fn serve() {
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(Postgres::shared(), &images.path().join("images"));
    let (here, there) = (Machine::new(&url), Machine::new(&url));
    let mut serving = here.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
    let mut serving = serving.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let shown: Value = serde_json::from_str(&line).unwrap();
    let address = shown["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let get = |path: &str| -> String {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    };
    assert!(get("/").starts_with("HTTP/1.1 200"));
    assert!(get("/api/list-sessions").contains("\"totalSessions\":0"));
    let fox = there.file("fox.png", &png(7, &[]));
    there.ok(&["record", "from elsewhere", "--image", fox.to_str().unwrap()]);
    let found = get("/api/search-iterations?query=elsewhere");
    assert!(found.contains("from elsewhere"), "{found}");
    let hash = there.json(&["show", "latest", "--json"])["images"][0]["hash"].as_str().unwrap().to_owned();
    assert!(get(&format!("/thumbs/{hash}")).starts_with("HTTP/1.1 200"), "a thumbnail of another machine's image");
    serving.kill().unwrap();
    serving.wait().unwrap();
}
