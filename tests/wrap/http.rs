//! `retake wrap --url`: the same over HTTP, with responses as JSON and as events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Desk, HANG, eventually, signal};
use crate::fake::png;
use crate::upstream::{Reply, Request, reply, serve};

#[cfg(unix)]
pub(crate) const TESTS: &[Test] = &[
    ("answers_as_json_are_recorded_and_marked", answers_as_json_are_recorded_and_marked),
    ("events_stream_unbuffered", events_stream_unbuffered),
    ("requests_and_answers_pass_unchanged", requests_and_answers_pass_unchanged),
    ("web_pages_of_other_hosts_are_kept_out", web_pages_of_other_hosts_are_kept_out),
    ("a_server_that_is_not_there_is_a_bad_gateway", a_server_that_is_not_there_is_a_bad_gateway),
];
#[cfg(not(unix))]
pub(crate) const TESTS: &[Test] = &[];

/// A running `retake wrap --url`.
pub(crate) struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    pub(crate) fn start(desk: &Desk, url: &str, flags: &[&str]) -> Proxy {
        let mut command =
            desk.retake(&["wrap", "--json", "--url", url, "--addr", "127.0.0.1:0", "--announce-timeout", "600000"]);
        let mut process = command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let address = ready["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Proxy { process, address }
    }

    pub(crate) fn stop(mut self) {
        signal("TERM", self.process.id());
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }

    /// Sends a request, and returns the stream to read the response from.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).unwrap();
        BufReader::new(stream)
    }

    /// Sends a request, and returns the head of the response in lower case, and its body.
    fn exchange(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (String, Vec<u8>) {
        let mut reader = self.send(method, path, headers, body);
        let head = head(&mut reader);
        let mut body = Vec::new();
        reader.read_to_end(&mut body).unwrap();
        if head.contains("transfer-encoding: chunked") {
            body = unchunked(&body);
        }
        (head, body)
    }

    pub(crate) fn post(&self, message: &Value) -> (String, Vec<u8>) {
        self.post_in(None, message)
    }

    /// Posts a message in a session.
    pub(crate) fn post_in(&self, session: Option<&str>, message: &Value) -> (String, Vec<u8>) {
        let mut headers = vec![("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
        headers.extend(session.map(|session| ("mcp-session-id", session)));
        self.exchange("POST", "/mcp", &headers, message.to_string().as_bytes())
    }
}

fn head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    head.to_lowercase()
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        if size == 0 {
            break;
        }
        bytes = &bytes[end + 2 + size + 2..];
    }
    whole
}

fn call(id: u64, prompt: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "generate_image", "arguments": {"prompt": prompt}}})
}

fn result(number: u64) -> Value {
    json!({"content": [{"type": "image", "data": STANDARD.encode(png(number)), "mimeType": "image/png"}]})
}

fn answers_as_json_are_recorded_and_marked() {
    let port = serve(|request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let number = message["id"].as_u64().unwrap();
        reply(200, &json!({"jsonrpc": "2.0", "id": number, "result": result(number)}))
    });
    let desk = Desk::new();
    let proxy = Proxy::start(&desk, &format!("http://127.0.0.1:{port}/mcp"), &[]);
    for id in 1..4 {
        let (head, body) = proxy.post(&call(id, &format!("prompt {id}")));
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert!(answer["result"]["_meta"]["dev.retake/iteration"]["reference"].is_string(), "{answer}");
    }
    proxy.stop();
    let recorded = desk.recorded();
    assert_eq!(recorded.len(), 3);
    assert_eq!(desk.json(&["list"])["totalSessions"], 1, "clients without a session share one");
    assert!(recorded.iter().all(|it| it["images"].as_array().unwrap().len() == 1));
}

/// Sends the second event only once the client has the first: a proxy that buffers would wait forever.
fn events_stream_unbuffered() {
    let (seen, first_seen) = mpsc::channel::<()>();
    let first_seen = Arc::new(Mutex::new(first_seen));
    let port = serve(move |request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let first_seen = Arc::clone(&first_seen);
        Reply::Events(Box::new(move |stream| {
            stream.write_all(b": hello\n\nevent: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n").unwrap();
            first_seen.lock().unwrap().recv_timeout(HANG).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result(77)});
            // In pieces, as networks do.
            for piece in format!("event: message\r\nid: 2\r\ndata: {answer}\r\n\r\n").as_bytes().chunks(1000) {
                stream.write_all(piece).unwrap();
            }
        }))
    });
    let desk = Desk::new();
    let proxy = Proxy::start(&desk, &format!("http://127.0.0.1:{port}/mcp"), &[]);
    let body = call(5, "streamed").to_string();
    let mut reader =
        proxy.send("POST", "/mcp", &[("mcp-session-id", "s1"), ("content-type", "application/json")], body.as_bytes());
    let head = head(&mut reader);
    assert!(head.contains("content-type: text/event-stream") && head.contains("x-accel-buffering: no"), "{head}");
    let mut text = String::new();
    while !text.contains("notifications/progress") {
        assert!(reader.read_line(&mut text).unwrap() > 0);
    }
    seen.send(()).unwrap();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("dev.retake/iteration") && text.contains("id: 2\r\n"), "{text}");
    proxy.stop();
    assert_eq!(desk.recorded()[0]["recipe"]["prompt"], "streamed");
}

fn requests_and_answers_pass_unchanged() {
    let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
    let kept = Arc::clone(&requests);
    let port = serve(move |request| {
        kept.lock().unwrap().push(request.clone());
        let headers =
            |session: &str| vec![("mcp-session-id", session.to_owned()), ("www-authenticate", "Bearer x".to_owned())];
        match (request.method.as_str(), request.path.as_str()) {
            ("DELETE", _) => Reply::Whole(405, Vec::new(), b"no".to_vec()),
            ("GET", "/.well-known/x?y=1") => Reply::Whole(404, Vec::new(), b"nothing".to_vec()),
            ("POST", _) if request.body == b"{\"odd\" :  1.0e5}" => Reply::Whole(202, headers("abc"), Vec::new()),
            _ => Reply::Whole(401, headers("abc"), b"{ \"who\" : \"are you\" }\n".to_vec()),
        }
    });
    let desk = Desk::new();
    let proxy = Proxy::start(&desk, &format!("http://127.0.0.1:{port}/mcp?key=1"), &[]);
    let sent = [
        ("authorization", "Bearer secret"),
        ("mcp-protocol-version", "2026-07-28"),
        ("last-event-id", "7"),
        ("mcp-param-x", "=?base64?eA==?="),
    ];
    let (head, body) = proxy.exchange("POST", "/", &sent, b"{\"odd\" :  1.0e5}");
    assert!(head.starts_with("http/1.1 202") && head.contains("mcp-session-id: abc") && body.is_empty(), "{head}");
    let (head, body) = proxy.exchange("POST", "/mcp", &sent, b"{}");
    assert!(head.starts_with("http/1.1 401") && head.contains("www-authenticate: bearer x"), "{head}");
    assert_eq!(body, b"{ \"who\" : \"are you\" }\n");
    assert!(proxy.exchange("DELETE", "/mcp", &sent, b"").0.starts_with("http/1.1 405"));
    let (head, body) = proxy.exchange("GET", "/.well-known/x?y=1", &sent, b"");
    assert!(head.starts_with("http/1.1 404") && body == b"nothing", "{head}");
    proxy.stop();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 4);
    assert_eq!(requests[0].path, "/mcp?key=1");
    for (name, value) in sent {
        assert_eq!(requests[0].headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(requests[0].headers["host"], format!("127.0.0.1:{port}"));
    assert!(!desk.workspace().exists());
}

fn web_pages_of_other_hosts_are_kept_out() {
    let port = serve(|_| reply(200, &json!({})));
    let desk = Desk::new();
    let proxy = Proxy::start(&desk, &format!("http://127.0.0.1:{port}/mcp"), &[]);
    for headers in [[("host", "evil.example"), ("x", "y")], [("origin", "https://evil.example"), ("x", "y")]] {
        let (head, _) = proxy.exchange("POST", "/mcp", &headers, b"{}");
        assert!(head.starts_with("http/1.1 403"), "{head}");
    }
    let (head, _) = proxy.exchange("POST", "/mcp", &[("origin", "http://localhost:3000")], b"{}");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    proxy.stop();
}

fn a_server_that_is_not_there_is_a_bad_gateway() {
    let desk = Desk::new();
    let proxy = Proxy::start(&desk, "http://127.0.0.1:1/mcp", &[]);
    let (head, body) = proxy.post(&call(1, "unheard"));
    assert!(head.starts_with("http/1.1 502"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("cannot reach http://127.0.0.1:1/mcp"));
    proxy.stop();
    let wrong = desk.retake(&["wrap", "--url", "ftp://x/mcp", "--addr", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    eventually("nothing was recorded", || !desk.workspace().join("retake.toml").exists() || desk.recorded().is_empty());
}
