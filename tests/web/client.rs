//! A gallery of the real binary in a fresh workspace, and a minimal client that sends exactly what a test writes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) use retake_testutils::images::PIXEL_BASE64 as PIXEL;

/// `retake serve`, running.
pub(crate) struct Gallery {
    child: Child,
    pub(crate) url: String,
    pub(crate) host: String,
    _dir: Option<tempfile::TempDir>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Returns the command, isolated from the environment of the tests.
pub(crate) fn retake(workspace: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
    command.args(args).arg("--workspace").arg(workspace).env_clear().env("USER", "ada").stdin(Stdio::null());
    command
}

impl Gallery {
    pub(crate) fn new() -> Gallery {
        let dir = tempfile::tempdir().unwrap();
        let mut gallery = Gallery::serve(dir.path(), &[]);
        gallery._dir = Some(dir);
        gallery
    }

    /// Serves this workspace on a port chosen by the system.
    pub(crate) fn serve(workspace: &Path, args: &[&str]) -> Gallery {
        let args = [&["serve", "--addr", "127.0.0.1:0", "--json"], args].concat();
        let mut child = retake(workspace, &args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let printed: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let url = printed["url"].as_str().unwrap().to_owned();
        let host = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Gallery { child, url, host, _dir: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends exactly these bytes, and reads until the other side closes.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    /// Sends a request with these headers and this body.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            write!(head, "Host: {}\r\n", self.host).unwrap();
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if !body.is_empty() {
            write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    /// Sends JSON as a program does: without Origin.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// Records a pixel, and returns the reference.
    pub(crate) fn record(&self, prompt: &str) -> String {
        let body = serde_json::json!({ "prompt": prompt, "images": [{ "data": PIXEL, "mimeType": "image/png" }] });
        let answer = self.post("/api/record-iteration", &body);
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()["reference"].as_str().unwrap().to_owned()
    }

    /// Returns the number of sessions.
    pub(crate) fn sessions(&self) -> u64 {
        self.get("/api/list-sessions").json()["totalSessions"].as_u64().unwrap()
    }
}

impl Drop for Gallery {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let split = bytes.windows(4).position(|it| it == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut body = bytes[split..].to_vec();
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            body = dechunked(&body);
        }
        Answer { status, head, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.head, self.text())
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).ok().and_then(|it| usize::from_str_radix(it.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size > 0 && end + 2 + size <= bytes.len()) else { break };
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
    whole
}
