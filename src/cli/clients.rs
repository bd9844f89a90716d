//! The MCP clients supported by `retake mcp install`: where each keeps its configuration, and how to add an entry
//! without losing anything else.
//!
//! Nothing is guessed: a file with unexpected contents (such as a list in place of an object) is left unchanged, and
//! the reason is reported.

use std::path::PathBuf;

use clap::ValueEnum;
use directories::BaseDirs;
use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::jsonc;

/// A program that uses MCP servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    #[value(name = "vscode", alias = "vs-code")]
    VsCode,
    Codex,
}

/// All known clients.
pub(super) const CLIENTS: [Client; 5] =
    [Client::ClaudeDesktop, Client::ClaudeCode, Client::Cursor, Client::VsCode, Client::Codex];

/// The information that a client needs to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerEntry {
    /// The name under which the client lists the server.
    pub(super) name: String,
    /// The program.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
}

impl Client {
    /// Returns its display name.
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Claude Desktop",
            Client::ClaudeCode => "Claude Code",
            Client::Cursor => "Cursor",
            Client::VsCode => "VS Code",
            Client::Codex => "Codex",
        }
    }

    /// Returns its configuration file for the user; `None` if the user has no home directory.
    pub(super) fn user_file(self) -> Option<PathBuf> {
        let dirs = BaseDirs::new()?;
        let named = |variable: &str| std::env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from);
        Some(match self {
            Client::ClaudeDesktop => dirs.config_dir().join("Claude").join("claude_desktop_config.json"),
            Client::ClaudeCode => {
                named("CLAUDE_CONFIG_DIR").unwrap_or_else(|| dirs.home_dir().to_owned()).join(".claude.json")
            }
            Client::Cursor => dirs.home_dir().join(".cursor").join("mcp.json"),
            Client::VsCode => dirs.config_dir().join("Code").join("User").join("mcp.json"),
            Client::Codex => named("CODEX_HOME").unwrap_or_else(|| dirs.home_dir().join(".codex")).join("config.toml"),
        })
    }

    /// Returns its configuration file for one directory, relative to it; `None` if it has no such file.
    pub(super) fn project_file(self) -> Option<PathBuf> {
        match self {
            Client::ClaudeDesktop => None,
            Client::ClaudeCode => Some(PathBuf::from(".mcp.json")),
            Client::Cursor => Some([".cursor", "mcp.json"].iter().collect()),
            Client::VsCode => Some([".vscode", "mcp.json"].iter().collect()),
            Client::Codex => Some([".codex", "config.toml"].iter().collect()),
        }
    }

    /// Returns a configuration that contains only this entry.
    pub(super) fn alone(self, entry: &ServerEntry) -> String {
        self.merged("", entry).unwrap_or_default()
    }

    /// Returns the servers that a configuration starts as child processes.
    pub(super) fn entries(self, text: &str) -> Result<Vec<ServerEntry>, String> {
        let servers: Value = match self {
            Client::Codex => {
                let document: toml::Value = toml::from_str(text).map_err(|error| format!("it is not TOML: {error}"))?;
                let servers = document.get("mcp_servers").cloned();
                servers.and_then(|servers| serde_json::to_value(servers).ok()).unwrap_or_default()
            }
            Client::VsCode => json_servers(text, "servers")?,
            Client::ClaudeDesktop | Client::ClaudeCode | Client::Cursor => json_servers(text, "mcpServers")?,
        };
        let entry = |(name, server): (&String, &Value)| {
            let args = server.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            Some(ServerEntry {
                name: name.clone(),
                command: server.get("command")?.as_str()?.to_owned(),
                args: args.iter().map(|arg| arg.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            })
        };
        Ok(servers.as_object().into_iter().flatten().filter_map(entry).collect())
    }

    /// Returns the configuration with the command of an entry replaced and everything else unchanged.
    pub(super) fn replaced(self, text: &str, entry: &ServerEntry) -> Result<String, String> {
        match self {
            // Do not add the `type` of a new entry, so that undoing the change leaves nothing behind.
            Client::VsCode => json(text, "servers", false, entry),
            _ => self.merged(text, entry),
        }
    }

    /// Returns the configuration without the entry of this name; `None` if it has none.
    pub(super) fn removed(self, text: &str, name: &str) -> Result<Option<String>, String> {
        let key = match self {
            Client::Codex => {
                let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
                let servers = document.get_mut("mcp_servers").and_then(Item::as_table_like_mut);
                let removed = servers.and_then(|servers| servers.remove(name));
                return Ok(removed.map(|_| document.to_string()));
            }
            Client::VsCode => "servers",
            Client::ClaudeDesktop | Client::ClaudeCode | Client::Cursor => "mcpServers",
        };
        let (mark, bare) = text.strip_prefix('\u{feff}').map_or(("", text), |bare| ("\u{feff}", bare));
        json_servers(bare, key)?;
        Ok(jsonc::remove(bare, key, name).map(|edited| format!("{mark}{edited}")))
    }

    /// Returns the configuration in `text` with the entry added. Other keys of an existing entry, such as `env`, are
    /// kept.
    pub(super) fn merged(self, text: &str, entry: &ServerEntry) -> Result<String, String> {
        match self {
            Client::Codex => toml(text, entry),
            Client::VsCode => json(text, "servers", true, entry),
            Client::ClaudeDesktop | Client::ClaudeCode | Client::Cursor => json(text, "mcpServers", false, entry),
        }
    }
}

fn json_servers(text: &str, key: &str) -> Result<Value, String> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root: Value =
        serde_json::from_str(&jsonc::blanked(bare)).map_err(|error| format!("it is not JSON: {error}"))?;
    Ok(root.get_mut(key).map(Value::take).unwrap_or_default())
}

fn json(text: &str, key: &str, typed: bool, entry: &ServerEntry) -> Result<String, String> {
    let (mark, bare) = text.strip_prefix('\u{feff}').map_or(("", text), |bare| ("\u{feff}", bare));
    let mut root: Map<String, Value> = if bare.trim().is_empty() {
        Map::new()
    } else {
        serde_json::from_str(&jsonc::blanked(bare)).map_err(|error| format!("it is not a JSON object: {error}"))?
    };
    // Comments and trailing commas only survive if the text is edited in place.
    let has_comments = !bare.trim().is_empty() && serde_json::from_str::<Value>(bare).is_err();
    let servers = root.entry(key).or_insert_with(|| json!({}));
    let servers = servers.as_object_mut().ok_or_else(|| format!("its `{key}` is not an object"))?;
    let ours = servers.entry(&entry.name).or_insert_with(|| json!({}));
    let ours = ours.as_object_mut().ok_or_else(|| format!("its `{key}.{}` is not an object", entry.name))?;
    let before = ours.clone();
    if typed {
        ours.insert("type".to_owned(), json!("stdio"));
    }
    ours.insert("command".to_owned(), json!(entry.command));
    ours.insert("args".to_owned(), json!(entry.args));
    if *ours == before {
        return Ok(text.to_owned());
    }
    if has_comments {
        let ours = Value::Object(ours.clone());
        let edited = jsonc::set(bare, key, &entry.name, &ours, &indentation(bare));
        return edited.map(|edited| format!("{mark}{edited}")).ok_or_else(|| "its shape is unusual".to_owned());
    }
    let mut written = Vec::new();
    let indent = indentation(bare);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut written, formatter);
    serde::Serialize::serialize(&root, &mut serializer).map_err(|error| error.to_string())?;
    let written = String::from_utf8(written).map_err(|error| error.to_string())?;
    let end = if bare.contains("\r\n") { "\r\n" } else { "\n" };
    Ok(format!("{mark}{}{end}", written.replace('\n', end)))
}

/// Returns the indentation of the file's first indented line; two spaces by default.
fn indentation(text: &str) -> String {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let indent = indented.map(|line| line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect());
    indent.unwrap_or_else(|| "  ".to_owned())
}

fn toml(text: &str, entry: &ServerEntry) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("it is not TOML: {error}"))?;
    let servers = document.entry("mcp_servers").or_insert_with(|| {
        let mut table = Table::new();
        // Write only `[mcp_servers.retake]`, without an empty `[mcp_servers]` before it.
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or("its `mcp_servers` is not a table")?;
    let ours = servers.entry(&entry.name).or_insert_with(|| Item::Table(Table::new()));
    let ours = ours.as_table_like_mut().ok_or_else(|| format!("its `mcp_servers.{}` is not a table", entry.name))?;
    let same = |ours: &dyn toml_edit::TableLike| {
        let args = ours.get("args").and_then(Item::as_array).map(|args| args.iter().map(|arg| arg.as_str()).collect());
        let wanted: Vec<Option<&str>> = entry.args.iter().map(|arg| Some(arg.as_str())).collect();
        ours.get("command").and_then(Item::as_str) == Some(&entry.command) && args == Some(wanted)
    };
    if same(ours) {
        return Ok(text.to_owned());
    }
    ours.insert("command", value(&entry.command));
    ours.insert("args", value(entry.args.iter().collect::<Array>()));
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> ServerEntry {
        ServerEntry { name: "retake".to_owned(), command: "/bin/retake".to_owned(), args: vec!["mcp".to_owned()] }
    }

    #[test]
    fn other_entries_are_kept() {
        let before = "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\", \"args\": []},\n        \"retake\": {\"env\": {\"A\": \"1\"}, \"command\": \"/old\"}\n    },\n    \"zoom\": 1.0,\n    \"id\": 18446744073709551615\n}\n";
        let after = Client::Cursor.merged(before, &entry()).unwrap();
        let mut expected: Value = serde_json::from_str(before).unwrap();
        expected["mcpServers"]["retake"] = json!({ "env": { "A": "1" }, "command": "/bin/retake", "args": ["mcp"] });
        assert_eq!(serde_json::from_str::<Value>(&after).unwrap(), expected);
        assert!(after.starts_with("{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"other\""), "{after}");
        assert_eq!(Client::Cursor.merged(&after, &entry()).unwrap(), after, "and once is enough");
        let windows = Client::Cursor.merged("\u{feff}{\r\n\t\"a\": 1\r\n}\r\n", &entry()).unwrap();
        assert!(windows.starts_with("\u{feff}{\r\n\t\"a\": 1,\r\n\t\"mcpServers\""), "{windows:?}");
    }

    #[test]
    fn json_keeps_its_comments() {
        let before =
            "{\n  // mine\n  \"servers\": {\n    \"other\": { \"command\": \"x\" }, // the good one\n  },\n}\n";
        let after = Client::VsCode.merged(before, &entry()).unwrap();
        for kept in ["// mine", "// the good one", "\"other\": { \"command\": \"x\" },"] {
            assert!(after.contains(kept), "{kept} in {after}");
        }
        let names = |text: &str| {
            let entries = Client::VsCode.entries(text).unwrap();
            entries.into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&after), ["other", "retake"]);
        assert_eq!(Client::VsCode.merged(&after, &entry()).unwrap(), after);
        let removed = Client::VsCode.removed(&after, "retake").unwrap().unwrap();
        assert!(removed.contains("// mine") && !removed.contains("/bin/retake"), "{removed}");
        assert_eq!(Client::VsCode.removed(&removed, "retake"), Ok(None));
        let toml = Client::Codex.merged("# mine\n", &entry()).unwrap();
        assert_eq!(Client::Codex.removed(&toml, "retake").unwrap().unwrap().trim(), "# mine");
    }

    #[test]
    fn toml_keeps_its_comments() {
        let before =
            "# mine\nmodel = \"o5\" # the good one\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[profiles.a]\nb = 1\n";
        let after = Client::Codex.merged(before, &entry()).unwrap();
        for line in before.lines() {
            assert!(after.contains(line), "{line} in {after}");
        }
        assert!(after.contains("[mcp_servers.retake]\ncommand = \"/bin/retake\"\nargs = [\"mcp\"]\n"), "{after}");
        assert_eq!(Client::Codex.merged(&after, &entry()).unwrap(), after);
        let inline = "mcp_servers = { retake = { command = \"/old\", env = { A = \"1\" } } }\n";
        let after = Client::Codex.merged(inline, &entry()).unwrap();
        let read: toml::Value = toml::from_str(&after).unwrap();
        assert_eq!(read["mcp_servers"]["retake"]["command"].as_str(), Some("/bin/retake"));
        assert_eq!(read["mcp_servers"]["retake"]["env"]["A"].as_str(), Some("1"));
        assert_eq!(
            Client::Codex.alone(&entry()),
            "[mcp_servers.retake]\ncommand = \"/bin/retake\"\nargs = [\"mcp\"]\n"
        );
    }

    #[test]
    fn files_with_unexpected_contents_are_refused() {
        for (client, text, why) in [
            (Client::VsCode, "{\"servers\": {},", "not a JSON object"),
            (Client::ClaudeCode, "[]", "not a JSON object"),
            (Client::ClaudeCode, "{\"mcpServers\": []}", "`mcpServers` is not an object"),
            (Client::ClaudeDesktop, "{\"mcpServers\": {\"retake\": \"x\"}}", "`mcpServers.retake` is not an object"),
            (Client::Codex, "a = ", "not TOML"),
            (Client::Codex, "mcp_servers = 1", "`mcp_servers` is not a table"),
            (Client::Codex, "[mcp_servers]\nretake = 1", "`mcp_servers.retake` is not a table"),
        ] {
            let refused = client.merged(text, &entry()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn vs_code_uses_its_own_keys() {
        let alone: Value = serde_json::from_str(&Client::VsCode.alone(&entry())).unwrap();
        assert_eq!(
            alone,
            json!({ "servers": { "retake": { "type": "stdio", "command": "/bin/retake", "args": ["mcp"] } } })
        );
    }
}
