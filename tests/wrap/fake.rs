//! Scripted servers: one replays a script byte for byte, one makes images.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An entry of a script: a line that must be read, or bytes to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    ToServer(Vec<u8>),
    ToClient(Vec<u8>),
}

/// Writes a script to a file.
pub(crate) fn write_script(path: &Path, entries: &[Entry]) {
    let mut file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    for entry in entries {
        let (way, bytes) = match entry {
            Entry::ToServer(bytes) => (b'>', bytes),
            Entry::ToClient(bytes) => (b'<', bytes),
        };
        file.write_all(&[way]).unwrap();
        file.write_all(&u64::try_from(bytes.len()).unwrap().to_le_bytes()).unwrap();
        file.write_all(bytes).unwrap();
    }
}

fn read_script(path: &str) -> Vec<Entry> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let length = usize::try_from(u64::from_le_bytes(rest[1..9].try_into().unwrap())).unwrap();
        let body = rest[9..9 + length].to_vec();
        entries.push(if rest[0] == b'>' { Entry::ToServer(body) } else { Entry::ToClient(body) });
        rest = &rest[9 + length..];
    }
    entries
}

pub(crate) fn run(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["replay", script, received, code] => replay(script, received, code.parse().unwrap()),
        ["images", dir] => images(Path::new(dir)),
        other => panic!("no such fake: {other:?}"),
    }
}

/// Reads and writes according to the script, stores what was read, and exits with this code after the end of input.
fn replay(script: &str, received: &str, code: i32) {
    let mut stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    let mut kept = OpenOptions::new().create(true).append(true).open(received).unwrap();
    for entry in read_script(script) {
        match entry {
            Entry::ToClient(bytes) => {
                stdout.write_all(&bytes).unwrap();
                stdout.flush().unwrap();
            }
            Entry::ToServer(expected) => {
                let mut bytes = vec![0; expected.len()];
                stdin.read_exact(&mut bytes).unwrap();
                kept.write_all(&bytes).unwrap();
            }
        }
    }
    let mut rest = Vec::new();
    stdin.read_to_end(&mut rest).unwrap();
    kept.write_all(&rest).unwrap();
    std::process::exit(code);
}

/// Returns a PNG whose pixels depend on the number.
pub(crate) fn png(number: u64) -> Vec<u8> {
    retake_testutils::made::png(number, &[])
}

/// Serves an image for every prompt, in the way the prompt asks for.
fn images(dir: &Path) {
    let mut count = 0;
    let mut jobs: Vec<(String, String)> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake-images", "version": "1.2.3"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "generate_image", "description": "Makes an image", "inputSchema": {"type": "object",
                    "properties": {"prompt": {"type": "string"}, "seed": {"type": "integer"}}}},
                {"name": "edit_image", "inputSchema": {"type": "object", "properties": {"prompt": {}, "image": {}}}},
                {"name": "check_job", "inputSchema": {"type": "object", "properties": {"job_id": {}}}},
                {"name": "list_things", "inputSchema": {"type": "object"}},
            ]}),
            "resources/read" => json!({"contents": [
                {"uri": message["params"]["uri"], "mimeType": "image/png", "blob": STANDARD.encode(png(4000))},
            ]}),
            "tools/call" => {
                count += 1;
                match call(&message["params"], dir, count, &mut jobs) {
                    Some(result) => result,
                    None => continue,
                }
            }
            _ => json!({}),
        };
        println!("{}", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        std::io::stdout().flush().unwrap();
    }
}

/// Returns a number that is unique among all images, including those of another run in the same second.
fn fresh_number() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos() % 1_000_000_007).unwrap()
}

fn call(params: &Value, dir: &Path, count: u64, jobs: &mut Vec<(String, String)>) -> Option<Value> {
    let text = |text: String| Some(json!({"content": [{"type": "text", "text": text}]}));
    let prompt = params["arguments"]["prompt"].as_str().unwrap_or_default();
    let inline = |number: u64| json!({"type": "image", "data": STANDARD.encode(png(number)), "mimeType": "image/png"});
    match params["name"].as_str()? {
        "list_things" => return text("one, two".to_owned()),
        "check_job" => {
            let job = params["arguments"]["job_id"].as_str().unwrap_or_default();
            // A job of an earlier run of the server is done by now.
            if job.starts_with("job-") && jobs.iter().all(|(id, _)| id != job) {
                jobs.push((job.to_owned(), "done".to_owned()));
            }
            let Some((_, state)) = jobs.iter_mut().find(|(id, _)| id == job) else { return text("unknown".to_owned()) };
            if state == "running" {
                "done".clone_into(state);
                return text(json!({"status": "running", "job_id": job}).to_string());
            }
            return Some(
                json!({"content": [{"type": "text", "text": json!({"status": "completed", "job_id": job}).to_string()},
                inline(fresh_number())]}),
            );
        }
        _ => (),
    }
    let word = prompt.split(' ').next().unwrap_or_default();
    match word {
        "crash" => std::process::exit(3),
        "silent" => None,
        "late" => {
            std::thread::sleep(Duration::from_millis(1200));
            Some(json!({"content": [inline(fresh_number())]}))
        }
        "refuse" => text("Error: Your request was rejected by the safety system.".to_owned()),
        "fail" => text(json!({"success": false, "error": "quota exceeded"}).to_string()),
        "error" => Some(json!({"content": [{"type": "text", "text": "no"}], "isError": true})),
        "job" => {
            let id = format!("job-{count}-abcdef");
            jobs.push((id.clone(), "running".to_owned()));
            text(json!({"status": "queued", "job_id": id}).to_string())
        }
        "link" => {
            Some(json!({"content": [{"type": "resource_link", "uri": format!("images://{count}/full"), "name": "x"}]}))
        }
        "at" => text(format!("Image: {}", prompt.split(' ').nth(1).unwrap_or_default())),
        "url" => text("Image: https://cdn.example/a.png".to_owned()),
        "file" => {
            let path = dir.join(format!("out {count}.png"));
            fs::write(&path, retake_testutils::made::sized_png(fresh_number(), 96, &[])).unwrap();
            let printed = format!("Image saved to:\n- {}\n\nSeed: 1234\nTotal cost: $0.04", path.display());
            // A preview next to it, which must not win.
            Some(json!({"content": [{"type": "text", "text": printed}, inline(fresh_number())]}))
        }
        _ => Some(json!({"content": [inline(fresh_number())]})),
    }
}
