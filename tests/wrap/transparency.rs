//! With and without `wrap`, both sides see the same bytes, except for the mark in a recorded response.

use std::path::{Path, PathBuf};
use std::process::Command;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::Test;
use crate::client::{Client, Desk, fake};
use crate::fake::{Entry, write_script};

pub(crate) const TESTS: &[Test] = &[
    ("every_transcript_passes_unchanged", every_transcript_passes_unchanged),
    ("every_transcript_is_only_marked", every_transcript_is_only_marked),
    ("random_interleavings_pass_unchanged", random_interleavings_pass_unchanged),
    ("fifty_megabytes_pass_in_both_directions", fifty_megabytes_pass_in_both_directions),
    ("a_line_beyond_what_is_looked_into_passes", a_line_beyond_what_is_looked_into_passes),
    ("a_line_without_an_end_passes", a_line_without_an_end_passes),
];

/// What each side saw.
#[derive(PartialEq, Eq)]
struct Seen {
    client: Vec<u8>,
    server: Vec<u8>,
    code: Option<i32>,
}

/// Plays the client's side of a script against a command that runs the server's side.
fn play(entries: &[Entry], command: Command, received: &Path) -> Seen {
    let mut client = Client::start(command);
    let mut seen = Vec::new();
    for entry in entries {
        match entry {
            Entry::ToServer(bytes) => client.send(bytes),
            Entry::ToClient(bytes) => {
                for _ in bytes.iter().filter(|byte| **byte == b'\n') {
                    seen.extend(client.line());
                }
            }
        }
    }
    let (status, rest, _) = client.wait();
    seen.extend(rest);
    Seen { client: seen, server: std::fs::read(received).unwrap(), code: status.code() }
}

/// Plays a script directly and through `wrap`.
fn both(entries: &[Entry], flags: &[&str]) -> (Desk, Seen, Seen) {
    let desk = Desk::new();
    let script = desk.root.path().join("script");
    write_script(&script, entries);
    let server = |name: &str| {
        let received = desk.root.path().join(name);
        let words = ["replay", script.to_str().unwrap(), received.to_str().unwrap(), "7"];
        (fake(&words), received)
    };
    let (command, received) = server("direct");
    let mut direct = Command::new(&command[0]);
    direct.args(&command[1..]);
    desk.settle(&mut direct);
    let direct = play(entries, direct, &received);
    let (command, received) = server("wrapped");
    let mut wrapped = desk.retake(&["wrap", "--announce-timeout", "600000"]);
    wrapped.args(flags).arg("--").args(&command);
    let wrapped = play(entries, wrapped, &received);
    (desk, direct, wrapped)
}

fn check_same(name: &str, direct: &Seen, wrapped: &Seen) {
    assert_eq!(direct.code, Some(7), "{name}");
    assert_eq!(wrapped.code, Some(7), "{name}: the exit code");
    assert!(direct.server == wrapped.server, "{name}: what the server saw");
    assert!(direct.client == wrapped.client, "{name}: what the client saw");
}

fn transcripts() -> Vec<(String, Vec<Entry>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/wrap/transcripts");
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let path = file.unwrap().path();
        let transcript: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let line = |entry: &Value| {
            let text = entry["msg"].as_str().map_or_else(|| entry["msg"].to_string(), str::to_owned);
            format!("{text}\n").into_bytes()
        };
        let entries: Vec<Entry> = transcript["transcript"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|entry| match entry["dir"].as_str().unwrap() {
                "c->s" => Some(Entry::ToServer(line(entry))),
                way if way.starts_with("s->c") => Some(Entry::ToClient(line(entry))),
                _ => None,
            })
            .collect();
        assert!(entries.len() > 4, "{path:?}");
        found.push((path.file_stem().unwrap().to_string_lossy().into_owned(), entries));
    }
    assert!(found.len() >= 11, "{}", found.len());
    found
}

fn every_transcript_passes_unchanged() {
    for (name, entries) in transcripts() {
        let (_, direct, wrapped) = both(&entries, &["--announce", "off"]);
        check_same(&name, &direct, &wrapped);
    }
}

/// Removes the marks from what a client saw, and returns the references.
fn unmarked(bytes: &[u8]) -> (Vec<u8>, Vec<String>) {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mut references = Vec::new();
    let mut clean = String::new();
    for line in text.split_inclusive('\n') {
        let key = "\"dev.retake/iteration\":{\"reference\":\"";
        let Some(start) = line.find(key) else {
            clean.push_str(line);
            continue;
        };
        let (reference, _) = line[start + key.len()..].split_once('"').unwrap();
        references.push(reference.to_owned());
        let entry = format!("{key}{reference}\"}}");
        let whole = format!("\"_meta\":{{{entry}}}");
        let forms = [format!("{whole},"), whole, format!("{entry},"), entry];
        let form = forms.iter().find(|form| line.contains(form.as_str())).unwrap();
        clean.push_str(&line.replacen(form, "", 1));
    }
    (clean.into_bytes(), references)
}

fn every_transcript_is_only_marked() {
    let mut marked = 0;
    for (name, entries) in transcripts() {
        let (desk, direct, wrapped) = both(&entries, &[]);
        let (clean, references) = unmarked(&wrapped.client);
        check_same(&name, &direct, &Seen { client: clean, ..wrapped });
        let recorded: Vec<String> =
            desk.recorded().iter().map(|it| it["reference"].as_str().unwrap().to_owned()).collect();
        for reference in &references {
            assert!(recorded.contains(reference), "{name}: {reference} in {recorded:?}");
        }
        assert!(!recorded.is_empty(), "{name}: something was recorded");
        marked += references.len();
    }
    assert!(marked >= 15, "only {marked} responses were marked");
}

/// Messages of all kinds, including invalid ones, in random order and pieces.
fn random_interleavings_pass_unchanged() {
    for seed in 0..12 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut entries = Vec::new();
        let mut open: Vec<u64> = Vec::new();
        for id in 0..rng.random_range(20..60_u64) {
            let to_server = match rng.random_range(0..6) {
                0 => format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{{\"n\":{id}}}}}\r\n"),
                1 => "\n".to_owned(),
                2 => format!("not json {id}\n"),
                3 => format!("[{{\"jsonrpc\":\"2.0\",\"id\":\"b{id}\",\"method\":\"ping\"}}]\n"),
                _ => {
                    open.push(id);
                    let text = "x".repeat(rng.random_range(0..200_000));
                    format!(
                        "{{ \"id\":{id}, \"method\":\"tools/call\",\"params\":{{\"name\":\"generate_image\",\"arguments\":{{\"prompt\":\"{text}\"}}}}}}\n"
                    )
                }
            };
            entries.push(Entry::ToServer(to_server.into_bytes()));
            while !open.is_empty() && rng.random_bool(0.5) {
                let id = open.swap_remove(rng.random_range(0..open.len()));
                let to_client = match rng.random_range(0..5) {
                    0 => format!("{{\"id\":{id},\"error\":{{\"code\":-1,\"message\":\"no\"}}}}\n"),
                    1 => format!(
                        "{{\"method\":\"notifications/progress\",\"params\":{{}}}}\n{{\"id\":{id},\"result\":{{ }}}}\r\n"
                    ),
                    2 => format!("[{{\"id\":{id},\"result\":{{\"content\":[]}}}}]\n"),
                    3 => format!(
                        "stray output\n\u{feff}{{\"id\":{id},\"result\":{{\"big\":123456789012345678901234567890}}}}\n"
                    ),
                    _ => format!(
                        "{{\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"Error: {}\"}}]}}}}\n",
                        "y".repeat(rng.random_range(0..300_000))
                    ),
                };
                entries.push(Entry::ToClient(to_client.into_bytes()));
            }
        }
        let (_, direct, wrapped) = both(&entries, &["--announce", "off"]);
        check_same(&format!("seed {seed}"), &direct, &wrapped);
        let (_, direct, wrapped) = both(&entries, &[]);
        let (clean, _) = unmarked(&wrapped.client);
        check_same(&format!("seed {seed}, marked"), &direct, &Seen { client: clean, ..wrapped });
    }
}

fn exchange(request: &Value, result: &Value) -> Vec<Entry> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "generate_image", "arguments": request}});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    vec![Entry::ToServer(format!("{request}\n").into_bytes()), Entry::ToClient(format!("{answer}\n").into_bytes())]
}

fn fifty_megabytes_pass_in_both_directions() {
    let large = "A".repeat(50 * 1024 * 1024);
    let result = json!({"content": [{"type": "image", "data": large, "mimeType": "image/png"}, {"type": "text", "text": "Error: no"}]});
    let entries = exchange(&json!({"prompt": "large", "image": large}), &result);
    let (desk, direct, wrapped) = both(&entries, &[]);
    let (clean, references) = unmarked(&wrapped.client);
    check_same("50 MB", &direct, &Seen { client: clean, ..wrapped });
    assert_eq!(references.len(), 1);
    let recorded = desk.recorded();
    assert_eq!(recorded[0]["recipe"]["prompt"], "large");
    let kept = recorded[0]["recipe"]["parameters"]["image"].as_str().unwrap();
    assert!(kept.starts_with("blake3:") && kept.len() < 120, "{kept}");
}

fn a_line_beyond_what_is_looked_into_passes() {
    let result = json!({"content": [{"type": "text", "text": "A".repeat(70 * 1024 * 1024)}]});
    let (desk, direct, wrapped) = both(&exchange(&json!({"prompt": "too large"}), &result), &[]);
    check_same("70 MB", &direct, &wrapped);
    assert_eq!(desk.json(&["list"])["totalSessions"], 0);
}

fn a_line_without_an_end_passes() {
    let mut entries =
        exchange(&json!({"prompt": "half"}), &json!({"content": [{"type": "text", "text": "Error: no"}]}));
    entries.push(Entry::ToServer(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{}}\n".to_vec()));
    entries.push(Entry::ToClient(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"resu".to_vec()));
    let (_, direct, wrapped) = both(&entries, &["--announce", "off"]);
    check_same("half a line", &direct, &wrapped);
    let (_, direct, wrapped) = both(&entries, &[]);
    let (clean, _) = unmarked(&wrapped.client);
    check_same("half a line, marked", &direct, &Seen { client: clean, ..wrapped });
}
