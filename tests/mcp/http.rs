//! The server over HTTP, on a real socket: plain JSON for a single response, a stream for more, and no access to files
//! that a request names. Access control is tested with the gallery, which checks it first.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retake::internals::mcp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::client::{Answer, Era, TestWorkspace, answer, initialize, meta};

struct Endpoint {
    workspace: TestWorkspace,
    address: SocketAddr,
    end: watch::Sender<bool>,
}

/// A response: the status, the type, the connection id, and the body or the messages of its stream.
struct Reply {
    status: u16,
    kind: String,
    connection: Option<String>,
    body: BufReader<TcpStream>,
}

impl Endpoint {
    async fn start() -> Endpoint {
        let workspace = TestWorkspace::new();
        let (end, ending) = watch::channel(false);
        let route = mcp::http(std::sync::Arc::clone(&workspace.workspace), "ada", ending);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router: Router = Router::new().route("/mcp", route);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Endpoint { workspace, address, end }
    }

    async fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        head += &format!("Content-Length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        // A server that has already refused may not read all of it.
        stream.write_all(body).await.ok();
        let mut body = BufReader::new(stream);
        let mut line = String::new();
        body.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let (mut kind, mut connection) = (String::new(), None);
        loop {
            line.clear();
            body.read_line(&mut line).await.unwrap();
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-type") => kind = value.to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("mcp-session-id") => {
                    connection = Some(value.to_owned());
                }
                Some(_) => (),
                None => return Reply { status, kind, connection, body },
            }
        }
    }

    /// Sends a request with the headers that its era requires.
    async fn post(&self, era: Era, method: &str, params: Value) -> Reply {
        self.post_on(None, era, method, params).await
    }

    /// Sends a request on a connection.
    async fn post_on(&self, connection: Option<&str>, era: Era, method: &str, mut params: Value) -> Reply {
        let name = ["name", "uri"].iter().find_map(|key| params[*key].as_str()).unwrap_or_default().to_owned();
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("User-Agent", "old-client/1.0"),
        ];
        if era == Era::Stateless {
            let mut all = meta();
            all.as_object_mut().unwrap().extend(params["_meta"].as_object().cloned().unwrap_or_default());
            params["_meta"] = all;
            headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)]);
            if !name.is_empty() {
                headers.push(("Mcp-Name", &name));
            }
        } else if method != "initialize" {
            headers.push(("MCP-Protocol-Version", "2025-11-25"));
        }
        headers.extend(connection.map(|id| ("Mcp-Session-Id", id)));
        let request = match method.starts_with("notifications/") {
            true => json!({ "jsonrpc": "2.0", "method": method }),
            false => json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }),
        };
        self.send("POST", &headers, request.to_string().as_bytes()).await
    }

    async fn request(&self, era: Era, method: &str, params: Value) -> Value {
        self.post(era, method, params).await.json().await
    }

    async fn call(&self, era: Era, tool: &str, arguments: Value) -> Answer {
        answer(&self.request(era, "tools/call", json!({ "name": tool, "arguments": arguments })).await)
    }
}

impl Reply {
    async fn json(mut self) -> Value {
        assert!(self.kind.starts_with("application/json"), "{} {}", self.status, self.kind);
        let mut body = String::new();
        self.body.read_to_string(&mut body).await.unwrap();
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Returns the next message of a stream; `None` at its end.
    async fn next(&mut self) -> Option<Value> {
        assert!(self.kind.starts_with("text/event-stream"), "{} {}", self.status, self.kind);
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(60), self.body.read_line(&mut line));
            if read.await.expect("a message within 60 s").unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data:")
                && !data.trim().is_empty()
            {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn one_answer_is_plain_json_in_both_eras() {
    let endpoint = Endpoint::start().await;
    let discovered = endpoint.request(Era::Stateless, "server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["capabilities"]["resources"],
        json!({ "subscribe": true, "listChanged": true }),
        "{discovered}"
    );
    for (number, era) in (1..).zip(Era::BOTH) {
        let recorded = endpoint.call(era, "record-iteration", json!({ "prompt": "a fox" })).await;
        assert_eq!(recorded.view["reference"], format!("session-2025-12-11-00{number}#0"));
        let listed = endpoint.call(era, "list-sessions", json!({})).await;
        assert_eq!(listed.view["totalSessions"], number);
        let uri = "retake://sessions/session-2025-12-11-001";
        let read = endpoint.request(era, "resources/read", json!({ "uri": uri })).await;
        assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("a fox"));
        let failed = endpoint.call(era, "get-iteration", json!({ "reference": "nonsense" })).await;
        assert!(failed.failed);
        let unknown = endpoint.request(era, "resources/read", json!({ "uri": "retake://nothing" })).await;
        assert_eq!(unknown["error"]["code"], if era == Era::Initialize { -32002 } else { -32602 });
    }
    let refused = endpoint.request(Era::Initialize, "resources/subscribe", json!({ "uri": "retake://sessions" })).await;
    assert_eq!(refused["error"]["code"], -32601);

    // The actor, as far as the client identifies itself.
    let actor = async |number: u32| {
        let audit = json!({ "sessionId": format!("session-2025-12-11-00{number}") });
        endpoint.call(Era::Stateless, "audit-session", audit).await.view["events"][0]["actor"].clone()
    };
    assert_eq!(actor(1).await, json!({ "client": "old-client/1.0", "user": "ada" }));
    assert_eq!(actor(2).await, json!({ "client": "judge 9.9", "user": "ada" }));
}

/// Initialises as a client of an earlier revision, and returns the connection id.
async fn connect(endpoint: &Endpoint) -> String {
    let mut opened = endpoint.post(Era::Initialize, "initialize", initialize("2025-06-18")).await;
    let message = opened.next().await.unwrap();
    assert_eq!(message["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(message["result"]["capabilities"]["resources"], json!({ "subscribe": true, "listChanged": true }));
    let connection = opened.connection.expect("a connection has a name");
    let begun = endpoint.post_on(Some(&connection), Era::Initialize, "notifications/initialized", json!({})).await;
    assert_eq!(begun.status, 202);
    connection
}

/// Returns the response on a connection: the last message of its stream.
async fn ask(endpoint: &Endpoint, connection: &str, method: &str, params: Value) -> Value {
    let mut reply = endpoint.post_on(Some(connection), Era::Initialize, method, params).await;
    let mut last = reply.next().await.unwrap();
    while last.get("method").is_some() {
        last = reply.next().await.unwrap();
    }
    last
}

#[tokio::test]
async fn an_older_client_is_notified_on_its_connection() {
    let endpoint = Endpoint::start().await;
    endpoint.call(Era::Stateless, "record-iteration", json!({ "prompt": "a fox" })).await;
    let connection = connect(&endpoint).await;
    let other = connect(&endpoint).await;
    assert_ne!(connection, other);
    let uri = "retake://sessions/session-2025-12-11-001";
    let subscribed = ask(&endpoint, &connection, "resources/subscribe", json!({ "uri": uri })).await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let listening = [("Accept", "text/event-stream"), ("Mcp-Session-Id", connection.as_str())];
    let mut stream = endpoint.send("GET", &listening, b"").await;
    assert_eq!(stream.status, 200);
    let arguments = json!({ "prompt": "a red fox", "sessionId": "session-2025-12-11-001" });
    let params = json!({ "name": "record-iteration", "arguments": arguments });
    let recorded = answer(&ask(&endpoint, &other, "tools/call", params).await);
    assert_eq!(recorded.view["reference"], "session-2025-12-11-001#1");
    let mut notified = stream.next().await.unwrap();
    while notified["method"] == "notifications/resources/list_changed" {
        notified = stream.next().await.unwrap();
    }
    assert_eq!(
        (&notified["method"], &notified["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );

    // It is recorded under the name it initialised with.
    let audit = json!({ "sessionId": "session-2025-12-11-001" });
    let audited = endpoint.call(Era::Stateless, "audit-session", audit).await;
    let events = audited.view["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["actor"], json!({ "client": "judge 9.9", "user": "ada" }));

    // The stream ends when the server does.
    endpoint.end.send(true).unwrap();
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn a_connection_that_is_gone_is_not_missed_unless_its_client_ended_it() {
    let endpoint = Endpoint::start().await;
    let connection = connect(&endpoint).await;
    let list = || json!({ "name": "list-sessions", "arguments": {} });
    // As after a restart of the server: most clients cannot reinitialise by themselves.
    let unknown = endpoint.post_on(Some("of-another-day"), Era::Initialize, "tools/call", list()).await;
    assert_eq!(answer(&unknown.json().await).view["totalSessions"], 0);
    let named = [("Accept", "text/event-stream"), ("Mcp-Session-Id", connection.as_str())];
    assert_eq!(endpoint.send("DELETE", &named, b"").await.status, 204, "what the Python clients expect");
    let after = endpoint.post_on(Some(&connection), Era::Initialize, "tools/call", list()).await;
    assert_eq!(after.status, 404);
    // Clients that never initialise, or too often, are served independently.
    for _ in 0..300 {
        let reply = endpoint.post(Era::Initialize, "initialize", initialize("2025-06-18")).await;
        assert_eq!(reply.status, 200);
        if reply.connection.is_none() {
            let capabilities = reply.json().await["result"]["capabilities"]["resources"].clone();
            assert_eq!(capabilities, json!({}), "nothing to send changes on");
            return;
        }
    }
    panic!("any number of connections is kept");
}

#[tokio::test]
async fn invalid_messages_are_refused_as_json() {
    let endpoint = Endpoint::start().await;
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, -32600),
        (r#"{"id":1,"method":"tools/list"}"#, -32600),
        ("7", -32600),
        (&"[".repeat(1_000_000), -32700),
    ] {
        let reply = endpoint.send("POST", &headers, body.as_bytes()).await;
        assert_eq!(reply.status, 400, "{}", &body[..body.len().min(50)]);
        assert_eq!(reply.json().await["error"]["code"], code);
    }
    let other = [("Content-Type", "text/plain"), ("Accept", "application/json, text/event-stream")];
    assert_eq!(endpoint.send("POST", &other, b"{}").await.status, 415);
    assert_eq!(endpoint.send("POST", &headers[..1], b"{}").await.status, 406);
    let anything = [("Content-Type", "application/json"), ("Accept", "*/*")];
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(endpoint.send("POST", &anything, ping).await.status, 200);
    let surrogate = br#"{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"\ud83d"}}"#;
    let refused = endpoint.send("POST", &headers, surrogate).await.json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(41), &json!(-32700)), "{refused}");
    for method in ["GET", "DELETE", "PUT"] {
        assert_eq!(endpoint.send(method, &headers, b"").await.status, 405, "{method}");
    }
    let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(endpoint.send("POST", &headers, notification).await.status, 202);
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(48 << 20));
    let reply = endpoint.send("POST", &headers, large.as_bytes()).await;
    assert_eq!(reply.status, 413);
}

#[tokio::test]
async fn no_file_is_read_for_a_request() {
    let endpoint = Endpoint::start().await;
    let file = endpoint.workspace.dir.path().join("fox.png");
    std::fs::write(&file, b"\x89PNG\r\n\x1a\n").unwrap();
    for era in Era::BOTH {
        for image in [json!(file), json!({ "path": file }), json!("/etc/passwd"), json!("/no/such/file")] {
            let refused = endpoint.call(era, "record-iteration", json!({ "prompt": "a", "images": [image] })).await;
            assert!(refused.failed);
            assert_eq!(refused.view["error"]["message"], "images[0] is a path, and over HTTP no files are read");
            assert!(refused.view["error"]["hint"].as_str().unwrap().contains("base64"));
        }
        // An image of 20 MB fits.
        let data = STANDARD.encode([b"II*\0".to_vec(), vec![7; 20_000_000]].concat());
        let recorded =
            endpoint.call(era, "record-iteration", json!({ "prompt": "a", "images": [{ "data": data }] })).await;
        assert!(!recorded.failed, "{}", recorded.text);
    }
}

#[tokio::test]
async fn a_subscription_is_a_stream_that_fires_and_ends_with_the_server() {
    let endpoint = Endpoint::start().await;
    endpoint.call(Era::Stateless, "record-iteration", json!({ "prompt": "a fox" })).await;
    let uri = "retake://sessions/session-2025-12-11-001";
    let wanted = json!({ "notifications": { "resourceSubscriptions": [uri], "resourcesListChanged": true } });
    let mut stream = endpoint.post(Era::Stateless, "subscriptions/listen", wanted.clone()).await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let arguments = json!({ "prompt": "a fox", "sessionId": "session-2025-12-11-001" });
    endpoint.call(Era::Initialize, "record-iteration", arguments).await;
    // The start of the session may only be known here now.
    let mut notified = stream.next().await.unwrap();
    while notified["method"] == "notifications/resources/list_changed" {
        notified = stream.next().await.unwrap();
    }
    assert_eq!(
        (&notified["method"], &notified["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri))
    );
    endpoint.call(Era::Initialize, "record-iteration", json!({ "prompt": "another" })).await;
    while stream.next().await.unwrap()["method"] != "notifications/resources/list_changed" {}

    // A client that disconnects affects nothing else, and all streams end when the server does.
    let gone = endpoint.post(Era::Stateless, "subscriptions/listen", wanted).await;
    drop(gone);
    endpoint.end.send(true).unwrap();
    let mut last = stream.next().await.unwrap();
    while last.get("method").is_some() {
        last = stream.next().await.unwrap();
    }
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert!(stream.next().await.is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn progress_makes_a_stream_with_the_answer_at_its_end() {
    for era in Era::BOTH {
        let endpoint = Endpoint::start().await;
        let mut client = endpoint.workspace.client(Era::Stateless).await;
        let image = crate::waiting::slow_session(&mut client, endpoint.workspace.dir.path().join("ws")).await;
        let arguments = json!({ "sessionId": "session-2025-12-11-001" });
        let params =
            json!({ "name": "audit-session", "arguments": arguments, "_meta": { "progressToken": "how far?" } });
        let mut stream = endpoint.post(era, "tools/call", params).await;
        let progress = stream.next().await.unwrap();
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        assert_eq!(progress["params"]["total"].as_f64(), Some(2.0));
        crate::waiting::let_go(image).await;
        let mut last = stream.next().await.unwrap();
        while last.get("method").is_some() {
            last = stream.next().await.unwrap();
        }
        assert_eq!(answer(&last).view["images"]["checked"], 2);
        assert!(stream.next().await.is_none());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_disconnects_during_a_call_does_not_block_the_server() {
    for era in Era::BOTH {
        let endpoint = Endpoint::start().await;
        let mut client = endpoint.workspace.client(Era::Stateless).await;
        let image = crate::waiting::slow_session(&mut client, endpoint.workspace.dir.path().join("ws")).await;
        for _ in 0..8 {
            let arguments = json!({ "sessionId": "session-2025-12-11-001" });
            let params =
                json!({ "name": "audit-session", "arguments": arguments, "_meta": { "progressToken": "how far?" } });
            let mut stream = endpoint.post(era, "tools/call", params).await;
            assert_eq!(stream.next().await.unwrap()["method"], "notifications/progress");
            drop(stream);
        }
        let recorded = endpoint.call(era, "record-iteration", json!({ "prompt": "a fox" })).await;
        assert_eq!(recorded.view["reference"], "session-2025-12-11-002#0");
        crate::waiting::let_go(image).await;
        assert_eq!(endpoint.call(era, "list-sessions", json!({})).await.view["totalSessions"], 2);
    }
}
