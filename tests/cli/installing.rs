//! `retake mcp install`: into new and edited configuration files of clients. Only on Linux, where the tests control the
//! home directory.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::TestWorkspace;

const FILES: [(&str, &str, &str); 5] = [
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ("claude-code", ".claude.json", "mcpServers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("vscode", ".config/Code/User/mcp.json", "servers"),
    ("codex", ".codex/config.toml", "mcp_servers"),
];

fn home(workspace: &TestWorkspace, file: &str) -> PathBuf {
    workspace.root().join("home").join(file)
}

fn read(path: &PathBuf) -> Value {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|it| it == "toml") {
        serde_json::to_value(toml::from_str::<toml::Value>(&text).unwrap()).unwrap()
    } else {
        serde_json::from_str(&text).unwrap()
    }
}

/// Returns the arguments that let agents record files only below the home directory and the temporary one.
fn with_roots(workspace: &TestWorkspace) -> Value {
    json!(["mcp", "--root", workspace.root().join("home"), "--root", "/tmp"])
}

#[test]
fn without_write_it_only_prints() {
    let workspace = TestWorkspace::new();
    for (client, file, key) in FILES {
        let ran = workspace.run(&["mcp", "install", client, "--workspace", "studio"]);
        assert_eq!(ran.status(), 0, "{ran}");
        let path = workspace.root().join("printed").with_extension(if client == "codex" { "toml" } else { "json" });
        fs::write(&path, ran.stdout()).unwrap();
        let entry = &read(&path)[key]["retake"];
        assert_eq!(entry["command"], env!("CARGO_BIN_EXE_retake"));
        let studio = workspace.dir().canonicalize().unwrap().join("studio");
        let (below, tmp) = (workspace.root().join("home"), "/tmp");
        assert_eq!(entry["args"], json!(["mcp", "--workspace", studio, "--root", below, "--root", tmp]));
        assert!(ran.stderr().contains(file), "{ran}");
        assert!(!home(&workspace, file).exists());
    }
}

#[test]
fn a_workspace_other_than_the_clients_is_reported() {
    let workspace = TestWorkspace::new();
    let here = workspace.workspace().canonicalize().unwrap();
    let here = here.to_str().unwrap();
    let installed = workspace.run(&["mcp", "install", "cursor", "--write"]);
    assert!(installed.stderr().contains(&format!("commands here use {here}; add --workspace '{here}'")), "{installed}");
    let doctor = |workspace: &TestWorkspace| workspace.run(&["doctor"]).stdout();
    assert!(doctor(&workspace).contains("Cursor uses the workspace of the directory it starts in"));

    // A project's client starts in the directory of its file.
    let project = workspace.json(&["mcp", "install", "cursor", "--project"]);
    assert_eq!(project.get("otherWorkspace"), None, "{project}");
    let named = workspace.json(&["mcp", "install", "cursor", "--write", "--workspace", here]);
    assert_eq!(named.get("otherWorkspace"), None, "{named}");
    assert!(doctor(&workspace).contains("Cursor uses this workspace"), "{}", doctor(&workspace));
    workspace.json(&["mcp", "install", "cursor", "--write", "--workspace", "studio"]);
    assert!(doctor(&workspace).contains("Cursor uses another workspace: "), "{}", doctor(&workspace));
}

#[test]
fn a_team_workspace_stays_a_url() {
    let workspace = TestWorkspace::new();
    let url = "postgres://ada@db.example/studio";
    let printed = workspace.run(&["mcp", "install", "cursor", "--workspace", url]).stdout();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed["mcpServers"]["retake"]["args"][2], url, "{printed}");
}

/// A setting that a bundle's user leaves empty means the workspace of the commands.
#[test]
fn a_bundle_and_the_commands_agree() {
    let manifest = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/mcp/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["server"]["mcp_config"]["env"]["RETAKE_WORKSPACE"], "${user_config.workspace}");
    let setting = &manifest["user_config"]["workspace"];
    assert_eq!((&setting["required"], &setting["default"]), (&json!(false), &json!("")));
    let workspace = TestWorkspace::new();
    let dir = workspace.root().join("elsewhere");
    fs::create_dir(&dir).unwrap();
    let chosen = |value: Option<&str>| {
        let mut command = workspace.command(&["doctor", "--json"]);
        command.current_dir(&dir).envs(value.map(|value| ("RETAKE_WORKSPACE", value)));
        let doctor: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        doctor["workspace"].clone()
    };
    for unfilled in ["", "${user_config.workspace}"] {
        assert_eq!(chosen(Some(unfilled)), chosen(None));
    }
}

#[test]
fn writing_twice_changes_nothing_and_keeps_other_entries() {
    for (client, file, key) in FILES {
        let workspace = TestWorkspace::new();
        let path = home(&workspace, file);
        let install = || workspace.json(&["mcp", "install", client, "--write"]);
        let made = install();
        assert_eq!((&made["written"], &made["changed"], made.get("backup")), (&json!(true), &json!(true), None));
        let first = fs::read(&path).unwrap();
        assert_eq!(read(&path)[key]["retake"]["args"], with_roots(&workspace));
        let again = install();
        assert_eq!((&again["changed"], again.get("backup")), (&json!(false), None));
        assert_eq!(fs::read(&path).unwrap(), first);

        let theirs = if client == "codex" {
            "# keep me\n[mcp_servers.other]\ncommand = \"x\"\n".to_owned()
        } else {
            format!("{{\"zeta\": 1, \"{key}\": {{\"other\": {{\"command\": \"x\"}}}}, \"alpha\": [1, 2]}}\n")
        };
        fs::write(&path, &theirs).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let merged = install();
        let backup = PathBuf::from(merged["backup"].as_str().unwrap());
        assert_eq!(fs::read_to_string(&backup).unwrap(), theirs);
        for path in [&path, &backup] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        let now = read(&path);
        assert_eq!(
            (&now[key]["other"]["command"], &now[key]["retake"]["args"]),
            (&json!("x"), &with_roots(&workspace))
        );
        if client == "codex" {
            assert!(fs::read_to_string(&path).unwrap().starts_with("# keep me\n"));
        } else {
            assert_eq!(now.as_object().unwrap().keys().collect::<Vec<_>>(), ["zeta", key, "alpha"]);
        }
        // Another workspace: the entry changes, and the first backup stays.
        let other = workspace.json(&["mcp", "install", client, "--write", "--workspace", "studio"]);
        assert_ne!(other["backup"], merged["backup"]);
        assert_eq!(fs::read_to_string(&backup).unwrap(), theirs);
    }
}

#[test]
fn files_that_cannot_be_parsed_are_left_unchanged() {
    let workspace = TestWorkspace::new();
    for (client, file, _) in FILES {
        let path = home(&workspace, file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for theirs in [&b"{ // a comment\n \"a\": 1"[..], b"[1, 2", b"{,}", b"\xff\xfe"] {
            fs::write(&path, theirs).unwrap();
            let ran = workspace.run(&["mcp", "install", client, "--write"]);
            assert_eq!(ran.status(), 1, "{ran}");
            assert!(ran.stderr().contains("was not changed"), "{ran}");
            assert!(ran.stderr().contains("by hand"), "{ran}");
            assert_eq!(fs::read(&path).unwrap(), theirs);
            let beside = fs::read_dir(path.parent().unwrap()).unwrap().map(|it| it.unwrap().file_name());
            assert!(beside.into_iter().all(|name| !name.to_string_lossy().contains("retake")), "no litter");
        }
    }
}

#[test]
fn for_one_directory_and_through_links() {
    let workspace = TestWorkspace::new();
    for (client, file) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
    ] {
        workspace.json(&["mcp", "install", client, "--project", "--write"]);
        let key = FILES.iter().find(|(name, ..)| *name == client).unwrap().2;
        let args = read(&workspace.dir().join(file))[key]["retake"]["args"].clone();
        assert_eq!(args, json!(["mcp", "--root", "."]), "{client}: no path of this machine");
    }
    assert_eq!(workspace.run(&["mcp", "install", "claude-desktop", "--project"]).status(), 2);
    assert_eq!(workspace.run(&["mcp", "install", "emacs"]).status(), 2);
    assert_eq!(workspace.run(&["mcp", "install", "cursor", "--name", "a b"]).status(), 2);

    let real = workspace.file("dotfile.json", "{}");
    let path = home(&workspace, ".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    workspace.json(&["mcp", "install", "cursor", "--write", "--name", "takes"]);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(read(&real)["mcpServers"]["takes"]["args"], with_roots(&workspace));
    fs::create_dir(workspace.dir().join("renders")).unwrap();
    workspace.json(&["mcp", "install", "cursor", "--write", "--name", "takes", "--root", "renders"]);
    let renders = workspace.dir().canonicalize().unwrap().join("renders");
    assert_eq!(read(&real)["mcpServers"]["takes"]["args"], json!(["mcp", "--root", renders]));
}

/// The entry that it writes starts a server.
#[test]
fn the_entry_works() {
    let workspace = TestWorkspace::new();
    workspace.json(&["mcp", "install", "cursor", "--write", "--workspace", "studio"]);
    let entry = read(&home(&workspace, ".cursor/mcp.json"))["mcpServers"]["retake"].clone();
    let args: Vec<&str> = entry["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
    let ran = workspace.run_with(&args, format!("{request}\n").as_bytes());
    assert_eq!(ran.status(), 0, "{ran}");
    assert!(ran.stdout().contains(r#""serverInfo":{"name":"retake""#), "{ran}");
    assert!(workspace.dir().join("studio/retake.toml").exists());
}

#[test]
fn the_command_is_written_as_it_is_found() {
    let workspace = TestWorkspace::new();
    let bin = workspace.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let link = bin.join("retake");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_retake"), &link).unwrap();
    let mut command = workspace.command(&["mcp", "install", "cursor"]);
    command.env("PATH", &bin);
    let printed: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(printed["mcpServers"]["retake"]["command"], json!(link), "an upgrade replaces what the link points to");
    let shared = workspace.run(&["mcp", "install", "cursor", "--project"]).stdout();
    let shared: Value = serde_json::from_str(&shared).unwrap();
    assert_eq!(shared["mcpServers"]["retake"]["command"], "retake", "others have it elsewhere");
}

#[test]
fn comments_are_kept_and_uninstalling_removes_the_entry() {
    let workspace = TestWorkspace::new();
    for (client, file, key) in FILES {
        let path = home(&workspace, file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = if client == "codex" {
            "# mine\n[mcp_servers.other]\ncommand = \"x\"\nargs = []\n".to_owned()
        } else {
            format!(
                "{{\n  // mine\n  \"{key}\": {{\n    \"other\": {{ \"command\": \"x\", \"args\": [] }},\n  }},\n}}\n"
            )
        };
        fs::write(&path, &before).unwrap();
        assert_eq!(workspace.json(&["mcp", "install", client, "--write"])["changed"], true);
        let with = fs::read_to_string(&path).unwrap();
        assert!(with.contains("mine") && with.contains("retake") && with.contains("other"), "{client}: {with}");
        let removed = workspace.json(&["mcp", "uninstall", client]);
        assert_eq!(removed["changed"], true, "{client}: {removed}");
        let without = fs::read_to_string(&path).unwrap();
        assert!(without.contains("mine") && without.contains("other") && !without.contains("\"mcp\""), "{without}");
        assert_eq!(workspace.json(&["mcp", "uninstall", client])["changed"], false);
    }
}
