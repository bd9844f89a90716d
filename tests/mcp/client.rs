//! A client that speaks in lines, so that tests see the wire format; and an in-memory server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use retake::internals::mcp::{Server, serve};
use retake::internals::model::Timestamp;
use retake::internals::wire::MAX_REPLY_BYTES;
use retake::internals::workspace::{Lifetime, Options, Workspace};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};

/// The two ways of starting a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize` first.
    Initialize,
    /// Every request is self-contained, since 2026-07-28.
    Stateless,
}

impl Era {
    pub(crate) const BOTH: [Era; 2] = [Era::Initialize, Era::Stateless];
}

/// A workspace in a temporary directory, with a manual clock.
pub(crate) struct TestWorkspace {
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) dir: tempfile::TempDir,
    now: Arc<AtomicI64>,
}

impl TestWorkspace {
    pub(crate) fn new() -> TestWorkspace {
        let dir = tempfile::tempdir().unwrap();
        let now = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now);
        let clock = Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed)).unwrap());
        let workspace = Workspace::open_with(
            dir.path().join("ws"),
            Options { clock, lifetime: Lifetime::LongRunning, ..Options::default() },
        )
        .unwrap();
        let workspace = TestWorkspace { workspace: Arc::new(workspace), dir, now };
        workspace.at("2025-12-11T10:15:30.123Z");
        workspace
    }

    pub(crate) fn at(&self, text: &str) {
        self.now.store(text.parse::<Timestamp>().unwrap().millis(), Ordering::Relaxed);
    }

    /// Returns a client that has not sent anything yet.
    pub(crate) fn connect(&self, era: Era) -> Client {
        // One for each direction, so that each side can close its own.
        let (asks, asked) = tokio::io::duplex(1 << 20);
        let (answers, answered) = tokio::io::duplex(1 << 20);
        let server = Server::new(Arc::clone(&self.workspace), "ada");
        tokio::spawn(serve(server, asked, answers, std::future::pending()));
        Client::new(era, answered, asks)
    }

    /// Returns a client that has initialised the conversation, if its era requires that.
    pub(crate) async fn client(&self, era: Era) -> Client {
        let mut client = self.connect(era);
        client.open().await;
        client
    }
}

pub(crate) struct Client {
    pub(crate) era: Era,
    reader: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    last_id: u64,
    /// Notifications that arrived while waiting for something else.
    heard: VecDeque<Value>,
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) view: Value,
    pub(crate) failed: bool,
    /// The other content blocks of the result.
    pub(crate) also: Vec<Value>,
}

impl Client {
    pub(crate) fn new(
        era: Era,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Client {
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        Client {
            era,
            reader: BufReader::new(reader).lines(),
            writer: Some(Box::new(writer)),
            last_id: 0,
            heard: VecDeque::new(),
        }
    }

    pub(crate) async fn open(&mut self) {
        if self.era == Era::Initialize {
            let answer = self.request("initialize", initialize("2025-11-25")).await;
            assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
            self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
    }

    /// Sends a line unchanged.
    pub(crate) async fn send(&mut self, line: &str) {
        let writer = self.writer.as_mut().expect("not closed yet");
        writer.write_all(line.as_bytes()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
        writer.flush().await.unwrap();
    }

    /// Sends bytes without a line break.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("not closed yet");
        writer.write_all(bytes).await.unwrap();
        writer.flush().await.unwrap();
    }

    /// Returns the next message; `None` if the server has closed its side.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(60), self.reader.next_line());
        let line = line.await.expect("an answer within 60 s").unwrap()?;
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Returns the next response; notifications before it are kept.
    pub(crate) async fn next_answer(&mut self) -> Option<Value> {
        loop {
            let message = self.next().await?;
            // The response to an unreadable message has no id.
            if message.get("method").is_none() {
                return Some(message);
            }
            self.heard.push_back(message);
        }
    }

    /// Returns the next notification with this method; others are dropped.
    pub(crate) async fn heard(&mut self, method: &str) -> Value {
        loop {
            let message = match self.heard.pop_front() {
                Some(message) => message,
                None => self.next().await.expect("a notification"),
            };
            if message["method"] == method {
                return message["params"].clone();
            }
            assert!(message.get("method").is_some(), "an unexpected response: {message}");
        }
    }

    /// Returns the notifications received so far with this method. Only complete after a response to a later request.
    pub(crate) fn overheard(&mut self, method: &str) -> Vec<Value> {
        let (these, others): (Vec<Value>, Vec<Value>) =
            std::mem::take(&mut self.heard).into_iter().partition(|reply| reply["method"] == method);
        self.heard = others.into();
        these
    }

    /// Closes the sending side.
    pub(crate) fn hang_up(&mut self) {
        self.writer = None;
    }

    /// Returns the line of a request, with everything that its era requires, and its id.
    pub(crate) fn line(&mut self, method: &str, mut params: Value) -> (String, u64) {
        self.last_id += 1;
        if self.era == Era::Stateless && params.get("_meta").is_none() {
            params["_meta"] = meta();
        }
        (json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }).to_string(), self.last_id)
    }

    /// Sends a request, and returns the whole response.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let (line, id) = self.line(method, params);
        self.send(&line).await;
        let response = self.next_answer().await.expect("a response");
        assert_eq!(response["id"], id, "{response}");
        response
    }

    /// Returns the error code of a refused request.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> i64 {
        let response = self.request(method, params).await;
        response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{response}"))
    }

    /// Calls a tool, and checks what holds for all of them.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer(&response)
    }

    /// Calls a tool that must not fail.
    pub(crate) async fn get(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments).await;
        assert!(!answer.failed, "{}", answer.text);
        answer.view
    }

    /// Calls a tool that must fail, and returns its error.
    pub(crate) async fn fail(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments).await;
        assert!(answer.failed, "{}", answer.text);
        let error = answer.view["error"].clone();
        let keys: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["kind", "message", "hint"], "{error}");
        error
    }

    /// Records an iteration made at this time, and returns its reference.
    pub(crate) async fn record(&mut self, at: &str, more: Value) -> String {
        let mut arguments =
            Map::from_iter([("prompt".to_owned(), json!("a fox")), ("createdAt".to_owned(), json!(at))]);
        arguments.extend(more.as_object().cloned().unwrap_or_default());
        let view = self.get("record-iteration", Value::Object(arguments)).await;
        view["reference"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn answer(response: &Value) -> Answer {
    let result = response.get("result").unwrap_or_else(|| panic!("{response}"));
    let view = result["structuredContent"].clone();
    let content = result["content"].as_array().unwrap();
    let text = content[0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, view.to_string(), "the text is the structured content, key by key");
    assert!(text.len() <= MAX_REPLY_BYTES, "{} bytes", text.len());
    Answer { text, view, failed: result["isError"].as_bool().unwrap(), also: content[1..].to_vec() }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "judge", "version": "9.9" } })
}

pub(crate) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "judge", "version": "9.9" }
    })
}
