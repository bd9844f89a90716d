//! `/mcp`: the MCP server behind the same guard as everything else. Its responses are tested in `tests/mcp`.

use serde_json::{Value, json};

use crate::client::{Answer, Gallery, PIXEL};

const HEADERS: [(&str, &str); 3] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2025-11-25"),
];

fn ask(gallery: &Gallery, method: &str, params: Value, more: &[(&str, &str)]) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    gallery.request("POST", "/mcp", &[&HEADERS[..], more].concat(), body.as_bytes())
}

#[test]
fn agents_record_and_read() {
    let gallery = Gallery::new();
    let arguments = json!({ "prompt": "a fox", "images": [{ "data": PIXEL }] });
    let recorded = ask(&gallery, "tools/call", json!({ "name": "record-iteration", "arguments": arguments }), &[]);
    assert_eq!(recorded.status, 200, "{recorded}");
    assert_eq!(recorded.json()["result"]["isError"], false, "{recorded}");
    assert_eq!(gallery.sessions(), 1);
    let listed = ask(&gallery, "resources/list", json!({}), &[]).json();
    assert_eq!(listed["result"]["resources"][0]["uri"], "retake://sessions");
    assert_eq!(gallery.get("/mcp").status, 405, "nothing to wait for there");
}

#[test]
fn requests_without_the_token_are_refused() {
    let gallery = Gallery::new();
    let record = json!({ "name": "record-iteration", "arguments": { "prompt": "a fox" } });
    for (more, status) in [
        (("Origin", "http://evil.example"), 403),
        (("Origin", "null"), 403),
        (("Host", "evil.example"), 403),
        (("Sec-Fetch-Site", "cross-site"), 403),
    ] {
        assert_eq!(ask(&gallery, "tools/call", record.clone(), &[more]).status, status, "{more:?}");
    }
    let by_path = json!({ "prompt": "a", "images": ["/etc/passwd"] });
    let refused = ask(&gallery, "tools/call", json!({ "name": "record-iteration", "arguments": by_path }), &[]).json();
    assert_eq!(refused["result"]["structuredContent"]["error"]["kind"], "invalid", "{refused}");
    assert_eq!(gallery.sessions(), 0);

    let dir = tempfile::tempdir().unwrap();
    let gallery = Gallery::serve(dir.path(), &["--token", "sesame street 1969"]);
    assert_eq!(ask(&gallery, "tools/call", record.clone(), &[]).status, 401);
    assert_eq!(
        ask(&gallery, "tools/call", record.clone(), &[("Authorization", "Bearer sesame street 196")]).status,
        401
    );
    let recorded = ask(&gallery, "tools/call", record, &[("Authorization", "Bearer sesame street 1969")]);
    assert_eq!(recorded.json()["result"]["isError"], false, "{recorded}");
}
