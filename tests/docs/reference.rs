//! The references in `docs/` that are generated from the program: its MCP tools, and the help of every command.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

pub(crate) fn mcp_is_current() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_retake"))
        .arg("--workspace")
        .arg(dir.path())
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut ask = |method: &str, params: Value| {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).unwrap();
        input.flush().unwrap();
        serde_json::from_str::<Value>(&answers.next().unwrap().unwrap()).unwrap()["result"].take()
    };
    let client =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "docs", "version": "1"}});
    let hello = ask("initialize", client);
    let tools = ask("tools/list", json!({}));
    let templates = ask("resources/templates/list", json!({}));
    let prompts = ask("prompts/list", json!({}));
    drop(input);
    assert!(server.wait().unwrap().success());

    let mut page = String::from(
        "# MCP reference\n\n\
         Generated from the server. How agents use it is in the [guide for agents](guide-agents.md).\n\n\
         ## Instructions\n\nThe server introduces itself to the model with this text:\n\n",
    );
    for line in hello["instructions"].as_str().unwrap().lines() {
        writeln!(page, "> {line}").unwrap();
    }
    page += "\n## Tools\n";
    for tool in tools["tools"].as_array().unwrap() {
        writeln!(page, "\n### {}\n\n{}\n", text(&tool["name"]), text(&tool["description"])).unwrap();
        let schema = &tool["inputSchema"];
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        if properties.is_empty() {
            page += "Takes no arguments.\n";
            continue;
        }
        page += "| argument | type | meaning |\n|---|---|---|\n";
        for (name, property) in properties {
            let required = schema["required"].as_array().is_some_and(|it| it.iter().any(|it| it == &name));
            let name = if required { format!("**`{name}`**") } else { format!("`{name}`") };
            let meaning = text(&property["description"]).replace('|', "\\|").replace('\n', " ");
            writeln!(page, "| {name} | {} | {meaning} |", kind(&property, schema)).unwrap();
        }
    }
    page += "\n## Resources\n\n| address | what it is |\n|---|---|\n| `retake://sessions` | the list of sessions |\n";
    for template in templates["resourceTemplates"].as_array().unwrap() {
        let (address, meaning) = (text(&template["uriTemplate"]), text(&template["description"]).replace('\n', " "));
        writeln!(page, "| `{address}` | {meaning} |").unwrap();
    }
    page += "\n## Prompts\n\n| prompt | what it does |\n|---|---|\n";
    for prompt in prompts["prompts"].as_array().unwrap() {
        writeln!(page, "| `{}` | {} |", text(&prompt["name"]), text(&prompt["description"]).replace('\n', " "))
            .unwrap();
    }
    compare("docs/mcp-reference.md", &page);
}

pub(crate) fn commands_are_current() {
    let help = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retake"));
        command
            .args(args)
            .arg("--help")
            .env("COLUMNS", "100")
            .env_remove("RETAKE_WORKSPACE")
            .env_remove("RETAKE_TOKEN");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let root = help(&[]);
    let mut page = format!(
        "# Command reference\n\nGenerated: what `retake help` and `retake help COMMAND` print.\n\n```text\n{}\n```\n",
        trimmed(&root)
    );
    let names = root.lines().skip_while(|it| *it != "Commands:").skip(1).take_while(|it| !it.is_empty());
    let names: Vec<&str> = names
        .filter(|it| it.starts_with("  ") && !it.starts_with("   "))
        .filter_map(|it| it.split_whitespace().next())
        .filter(|it| *it != "help")
        .collect();
    assert!(names.len() > 15, "{root}");
    for name in names {
        write!(page, "\n## retake {name}\n\n```text\n{}\n```\n", trimmed(&help(&[name]))).unwrap();
    }
    compare("docs/command-reference.md", &page);
}

fn trimmed(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Compares a generated page with the one in the repository, or writes it if asked to.
fn compare(file: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var("RETAKE_BLESS").is_ok_and(|it| it == "docs") {
        std::fs::write(path, page).unwrap();
        return;
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(written, current)| written != current);
    assert!(
        written == page,
        "{file} is out of date, first at {differs:?}: run RETAKE_BLESS=docs cargo test --test docs"
    );
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Describes the type of a property in a few words.
fn kind(property: &Value, schema: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(|it| format!("`{}`", text(it))).collect::<Vec<_>>().join(" · ");
    }
    if let Some(name) = property["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
        return kind(&schema["$defs"][name], schema);
    }
    for variants in ["anyOf", "oneOf"] {
        if let Some(variants) = property[variants].as_array() {
            let mut kinds: Vec<String> = variants.iter().map(|it| kind(it, schema)).filter(|it| it != "null").collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
    }
    if let Some(value) = property["const"].as_str() {
        return format!("`{value}`");
    }
    match &property["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", self::kind(&property["items"], schema)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().map(text).filter(|it| *it != "null").collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}
