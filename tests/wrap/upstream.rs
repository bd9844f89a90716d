//! HTTP servers on loopback: a small general-purpose one, and a stand-in for the services behind image servers. A
//! prompt with `REFUSE` is refused as that service would, and `BOOM` responds with 500.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use retake_testutils::made::sized_png;
use serde_json::{Value, json};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// A response.
pub(crate) enum Reply {
    /// A status, additional headers, and the body.
    Whole(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Events, written one by one by the function.
    Events(Box<dyn FnOnce(&mut TcpStream) + Send>),
}

/// Serves on a new port for as long as the process lives.
pub(crate) fn serve(handler: impl Fn(Request) -> Reply + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let handler = Arc::new(handler);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, handler) = (stream.unwrap(), Arc::clone(&handler));
            std::thread::spawn(move || connection(stream, &*handler));
        }
    });
    port
}

fn connection(mut stream: TcpStream, handler: &dyn Fn(Request) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read_request(&mut reader) {
        match handler(request) {
            Reply::Whole(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                head.push_str("\r\n");
                if stream.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                    return;
                }
            }
            Reply::Events(write) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-accel-buffering: no\r\nconnection: close\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                return write(&mut stream);
            }
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|it| it.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = headers.get("content-length").and_then(|it| it.parse().ok()) {
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
    }
    Some(Request { method, path, headers, body })
}

/// Starts the services behind image servers.
pub(crate) fn services() -> u16 {
    let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
    let graphs: Arc<Mutex<HashMap<String, (String, Value)>>> = Arc::default();
    let count = AtomicU64::new(1);
    let port = Arc::new(AtomicU64::new(0));
    let own = Arc::clone(&port);
    let bound = serve(move |request| {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let number = count.fetch_add(1, SeqCst);
        let image = |texts: &[(&str, &str)]| sized_png(number * 7919, 64, texts);
        let path = request.path.as_str();
        if text.contains("BOOM") {
            let error = json!({"error": {"message": "internal upstream explosion", "code": 500, "status": "INTERNAL"}});
            return reply(500, &error);
        }
        let refuse = text.contains("REFUSE");
        if let Some(name) = path.strip_prefix("/files/") {
            return files.lock().unwrap().get(name).map_or_else(|| reply(404, &json!({})), |bytes| png(bytes));
        }
        if path.ends_with("/images/generations") || path.ends_with("/images/edits") {
            if refuse {
                let message = "Your request was rejected by the safety system. safety_violations=[sexual].";
                return reply(
                    400,
                    &json!({"error": {"message": message, "type": "user_error", "code": "moderation_blocked"}}),
                );
            }
            let data = json!([{"b64_json": STANDARD.encode(image(&[])), "revised_prompt": "revised"}]);
            return reply(200, &json!({"created": 1, "data": data, "usage": {"total_tokens": 285}}));
        }
        if path.contains(":generateContent") || path.contains(":streamGenerateContent") {
            if refuse {
                return reply(
                    200,
                    &json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 8}}),
                );
            }
            let part = if path.contains("image") {
                json!({"inlineData": {"mimeType": "image/png", "data": STANDARD.encode(image(&[]))}})
            } else {
                json!({"text": "enhanced"})
            };
            let candidate = json!({"content": {"role": "model", "parts": [{"text": "Here is your image"}, part]}, "finishReason": "STOP", "index": 0});
            return reply(200, &json!({"candidates": [candidate], "usageMetadata": {"totalTokenCount": 9}}));
        }
        if path.contains("/v1beta/files") {
            let uri = format!("http://127.0.0.1:{}/v1beta/files/f1", own.load(SeqCst));
            let file =
                json!({"name": "files/f1", "uri": uri, "mimeType": "image/png", "state": "ACTIVE", "sizeBytes": "10"});
            let upload = format!("http://127.0.0.1:{}/upload/v1beta/files?upload_id=1", own.load(SeqCst));
            let is_final = request.headers.get("x-goog-upload-command").is_some_and(|it| it.contains("finalize"));
            let headers = vec![
                ("content-type", "application/json".to_owned()),
                ("x-goog-upload-url", upload),
                ("x-goog-upload-status", if is_final { "final" } else { "active" }.to_owned()),
            ];
            let body = if path.contains("upload") { json!({"file": file}) } else { file };
            return Reply::Whole(200, headers, body.to_string().into_bytes());
        }
        if path.starts_with("/v1/image_generation") {
            if refuse {
                let refused = json!({"status_code": 1026, "status_msg": "prompt involves sensitive content"});
                return reply(200, &json!({"id": "x", "data": {"image_urls": []}, "base_resp": refused}));
            }
            let wanted = body["n"].as_u64().unwrap_or(1);
            let urls: Vec<String> = (0..wanted)
                .map(|place| {
                    let name = format!("{number}-{place}.png");
                    files.lock().unwrap().insert(name.clone(), sized_png(number * 7919 + place * 31, 64, &[]));
                    format!("http://127.0.0.1:{}/files/{name}", own.load(SeqCst))
                })
                .collect();
            return reply(
                200,
                &json!({"id": "x", "data": {"image_urls": urls}, "base_resp": {"status_code": 0, "status_msg": "success"}}),
            );
        }
        if path == "/prompt" {
            let (id, name) = (format!("prompt-{number}"), format!("ComfyUI_{number:05}_.png"));
            let graph = body["prompt"].clone();
            files.lock().unwrap().insert(name.clone(), image(&[("prompt", &graph.to_string())]));
            graphs.lock().unwrap().insert(id.clone(), (name, graph));
            return reply(200, &json!({"prompt_id": id, "number": 1, "node_errors": {}}));
        }
        if let Some(id) = path.strip_prefix("/history/") {
            let graphs = graphs.lock().unwrap();
            let Some((name, graph)) = graphs.get(id) else { return reply(200, &json!({})) };
            let outputs = json!({"9": {"images": [{"filename": name, "subfolder": "", "type": "output"}]}});
            let status = json!({"status_str": "success", "completed": true, "messages": []});
            return reply(
                200,
                &json!({id: {"prompt": [0, id, graph, {}, ["9"]], "outputs": outputs, "status": status}}),
            );
        }
        if let Some((_, query)) = path.split_once("/view?") {
            let name = query.split('&').find_map(|part| part.strip_prefix("filename=")).unwrap_or_default();
            return files.lock().unwrap().get(name).map_or_else(|| reply(404, &json!({})), |bytes| png(bytes));
        }
        if path.starts_with("/queue") {
            return reply(200, &json!({"queue_running": [], "queue_pending": []}));
        }
        reply(200, &json!({"ok": true}))
    });
    port.store(u64::from(bound), SeqCst);
    bound
}

pub(crate) fn reply(status: u16, body: &Value) -> Reply {
    Reply::Whole(status, vec![("content-type", "application/json".to_owned())], body.to_string().into_bytes())
}

fn png(bytes: &[u8]) -> Reply {
    Reply::Whole(200, vec![("content-type", "image/png".to_owned())], bytes.to_vec())
}
