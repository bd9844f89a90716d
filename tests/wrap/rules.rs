//! How well the general rules work on servers they were not written for: calls reconstructed from the source of those
//! servers, each with what a person would record. `docs/wrap.md` has the table.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::Test;
use crate::client::Desk;
use crate::fake::png;

pub(crate) const TESTS: &[Test] =
    &[("held_out_servers", held_out_servers), ("held_out_servers_of_the_second_set", second_set)];

fn held_out_servers() {
    check("held-out.json", 161);
}

fn second_set() {
    check("held-out-c.json", 210);
}

fn check(file: &str, expected: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/wrap").join(file);
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut misses = Vec::new();
    let mut checks = 0;
    for case in &cases {
        let (call, expected) = explained(case);
        for (field, expected) in &expected {
            checks += 1;
            let found = match field.as_str() {
                "decision" => call["decision"].clone(),
                "images" => json!(call["iteration"]["images"].as_array().map_or(0, Vec::len)),
                path => {
                    let pointer = format!("/iteration/{}", path.replace('.', "/"));
                    call.pointer(&pointer).cloned().unwrap_or_default()
                }
            };
            if found != *expected {
                misses.push(format!("{} {}: {field} is {found}, not {expected}", case["server"], case["tool"]));
            }
        }
    }
    assert_eq!(checks, expected);
    let right = 100 * (checks - misses.len()) / checks;
    assert!(right >= 95, "{right} % of {checks} checks:\n{}", misses.join("\n"));
}

/// Returns what `wrap --explain` prints about the call, and what it should print.
fn explained(case: &Value) -> (Value, Map<String, Value>) {
    let desk = Desk::new();
    let dir = desk.out();
    let hour = Duration::from_secs(3600);
    for (list, modified) in [("inputs", SystemTime::now() - hour), ("outputs", SystemTime::now() + hour)] {
        for (number, name) in case[list].as_array().unwrap().iter().enumerate() {
            let path = dir.join(name.as_str().unwrap());
            std::fs::write(&path, png(u64::try_from(number).unwrap() * 77 + u64::try_from(list.len()).unwrap()))
                .unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
    }
    let case: Value = serde_json::from_str(&case.to_string().replace("{dir}", dir.to_str().unwrap())).unwrap();
    let properties: Map<String, Value> = case["properties"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| (name.as_str().unwrap().to_owned(), json!({})))
        .collect();
    let tool =
        json!({"name": case["tool"], "description": case["description"], "inputSchema": {"properties": properties}});
    let mut answer = json!({"jsonrpc": "2.0", "id": 2});
    for key in ["result", "error"] {
        if let Some(value) = case.get(key) {
            answer[key] = value.clone();
        }
    }
    let transcript = json!({"transcript": [
        {"t": 0, "dir": "c->s", "msg": {"id": 1, "method": "tools/list"}},
        {"t": 0, "dir": "s->c", "msg": {"id": 1, "result": {"tools": [tool]}}},
        {"t": 1, "dir": "c->s", "msg": {"id": 2, "method": "tools/call", "params": {"name": case["tool"], "arguments": case["arguments"]}}},
        {"t": 2, "dir": "s->c", "msg": answer},
    ]});
    let file = desk.root.path().join("transcript.json");
    std::fs::write(&file, transcript.to_string()).unwrap();
    let explained = desk.json(&["wrap", "--explain", file.to_str().unwrap()]);
    (explained["calls"][0].clone(), case["expect"].as_object().unwrap().clone())
}
