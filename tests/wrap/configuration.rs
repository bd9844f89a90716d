//! `mcp install --wrap` and `--unwrap`, and what `doctor` reports about them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::Test;
use crate::client::Desk;

pub(crate) const TESTS: &[Test] = &[
    ("an_entry_is_wrapped_and_unwrapped", an_entry_is_wrapped_and_unwrapped),
    ("a_program_of_another_name_knows_its_entries", a_program_of_another_name_knows_its_entries),
    ("comments_of_toml_stay", comments_of_toml_stay),
    ("an_entry_that_is_not_there_is_named", an_entry_that_is_not_there_is_named),
];

fn config(desk: &Desk, file: &str) -> PathBuf {
    let path = desk.root.path().join("home").join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

fn an_entry_is_wrapped_and_unwrapped() {
    for (client, file, key) in [
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
        ("claude-code", ".claude.json", "mcpServers"),
    ] {
        let desk = Desk::new();
        let path = config(&desk, file);
        let before = json!({
            "theme": "dark",
            key: {"nano": {"command": "npx", "args": ["-y", "nano-banana-mcp"], "env": {"GEMINI_API_KEY": "x"}}, "other": {"url": "https://x"}},
            "zoom": 1.0,
        });
        std::fs::write(&path, serde_json::to_string_pretty(&before).unwrap() + "\n").unwrap();
        let original = std::fs::read_to_string(&path).unwrap();

        desk.json(&["mcp", "install", client, "--wrap", "nano", "--write"]);
        let after: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let entry = &after[key]["nano"];
        let workspace = desk.workspace();
        let expected = json!(["wrap", "--workspace", workspace, "--", "npx", "-y", "nano-banana-mcp"]);
        assert_eq!(entry["args"], expected, "{client}");
        assert_eq!(entry["env"], before[key]["nano"]["env"]);
        assert!(entry["command"].as_str().unwrap().ends_with("retake"));
        assert_eq!((&after["theme"], &after[key]["other"]), (&before["theme"], &before[key]["other"]));

        // A second call changes nothing.
        desk.json(&["mcp", "install", client, "--wrap", "nano", "--write"]);
        let again: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(again, after);
        let doctor = desk.json(&["doctor"]);
        assert_eq!(doctor["wrapped"][0]["name"], "nano", "{doctor}");
        assert_eq!(doctor["wrapped"][0]["command"], "npx -y nano-banana-mcp");
        let shown = desk.retake(&["doctor"]).output().unwrap();
        assert!(String::from_utf8_lossy(&shown.stdout).contains("nano in "), "{shown:?}");

        desk.json(&["mcp", "install", client, "--unwrap", "nano", "--write"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), original, "{client}");
        assert_eq!(desk.json(&["doctor"]).get("wrapped"), None);
    }
}

fn a_program_of_another_name_knows_its_entries() {
    let desk = Desk::new();
    let path = config(&desk, ".cursor/mcp.json");
    let original = "{\n  \"mcpServers\": {\n    \"nano\": {\n      \"command\": \"npx\"\n    }\n  }\n}\n";
    std::fs::write(&path, original).unwrap();
    let program = desk.root.path().canonicalize().unwrap().join("retake-nightly");
    let ours = env!("CARGO_BIN_EXE_retake");
    std::fs::hard_link(ours, &program).or_else(|_| std::fs::copy(ours, &program).map(drop)).unwrap();
    let run = |flag: &str| {
        let mut command = Command::new(&program);
        desk.settle(&mut command);
        let output = command.args(["mcp", "install", "cursor", flag, "nano", "--write"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(&path).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["nano"].take()
    };
    let wrapped = run("--wrap");
    assert_eq!(wrapped["command"], program.to_str().unwrap());
    assert_eq!(run("--wrap"), wrapped, "twice is once");
    assert_eq!(run("--unwrap")["command"], "npx");
}

fn comments_of_toml_stay() {
    let desk = Desk::new();
    let path = config(&desk, ".codex/config.toml");
    let original = "# mine\nmodel = \"o5\" # good\n\n[mcp_servers.fal]\ncommand = \"uvx\"\nargs = [\"fal-mcp\"]\n";
    std::fs::write(&path, original).unwrap();
    desk.json(&["mcp", "install", "codex", "--wrap", "fal", "--write"]);
    let wrapped = std::fs::read_to_string(&path).unwrap();
    assert!(
        wrapped.contains("# mine") && wrapped.contains("\"wrap\"") && wrapped.contains("\"uvx\", \"fal-mcp\""),
        "{wrapped}"
    );
    desk.json(&["mcp", "install", "codex", "--unwrap", "fal", "--write"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), original);
}

fn an_entry_that_is_not_there_is_named() {
    let desk = Desk::new();
    let path = config(&desk, ".cursor/mcp.json");
    std::fs::write(&path, "{\"mcpServers\": {\"nano\": {\"command\": \"npx\"}}}").unwrap();
    let output = desk.retake(&["mcp", "install", "cursor", "--wrap", "banana", "--write"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        printed.contains("Cursor starts no server \"banana\"") && printed.contains("name one of: nano"),
        "{printed}"
    );
    // Without --write nothing is changed.
    let shown = desk.retake(&["mcp", "install", "cursor", "--wrap", "nano"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("\"wrap\""));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"mcpServers\": {\"nano\": {\"command\": \"npx\"}}}");
}
