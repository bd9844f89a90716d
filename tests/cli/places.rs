//! The choice of the workspace, and the actor that is recorded.

use serde_json::Value;

use crate::support::TestWorkspace;

#[test]
fn the_most_specific_choice_of_the_workspace_wins() {
    let workspace = TestWorkspace::new();
    let root = workspace.root().canonicalize().unwrap();
    let below = workspace.dir().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let found = |dir: &str, variable: Option<&str>, args: &[&str]| {
        let mut command = workspace.command(&[args, &["doctor", "--json"]].concat());
        command.current_dir(workspace.root().join(dir));
        command.envs(variable.map(|value| ("RETAKE_WORKSPACE", value)));
        let output = command.output().unwrap();
        let health: Value = serde_json::from_slice(&output.stdout).unwrap();
        let place = health["workspace"].as_str().unwrap().to_owned();
        let place = std::path::Path::new(&place);
        (
            place.strip_prefix(&root).unwrap().to_string_lossy().into_owned(),
            health["chosenBy"].as_str().unwrap().to_owned(),
        )
    };
    let expect = |place: &str, by: &str| (place.to_owned(), by.to_owned());
    assert_eq!(found("desk/a/b", None, &[]), expect("desk/.retake", "directory"));
    assert_eq!(found("desk/a/b", Some(""), &[]), expect("desk/.retake", "directory"));
    assert_eq!(found("desk/a/b", Some("by-variable"), &[]), expect("desk/a/b/by-variable", "environment"));
    assert_eq!(found("desk/a/b", Some("by-variable"), &["--workspace", "by-flag"]), expect("desk/a/b/by-flag", "flag"));
    let (place, by) = found("", None, &[]);
    assert_eq!(by, "default");
    assert!(place.starts_with("home/") && place.to_lowercase().contains("retake"), "{place}");
}

#[test]
fn a_workspace_that_is_a_file_is_refused() {
    let workspace = TestWorkspace::new();
    std::fs::write(workspace.root().join("file"), "").unwrap();
    let ran = workspace.run(&["--workspace", "../file", "list"]);
    assert_eq!(ran.status(), 1);
    assert!(ran.stderr().starts_with("error: ") && ran.stderr().contains("\nhint: "), "{ran}");
}

#[test]
fn the_trail_names_the_program_and_the_user() {
    let workspace = TestWorkspace::new();
    let id = workspace.json(&["record", "a cat"])["session"]["id"].as_str().unwrap().to_owned();
    let actor = &workspace.json(&["audit", &id])["events"][0]["actor"];
    assert_eq!(actor["client"], concat!("retake-cli ", env!("CARGO_PKG_VERSION")));
    assert_eq!(actor["user"], "ada");

    let output = workspace.command(&["record", "b", "--session", &id]).env_remove("USER").output().unwrap();
    assert!(output.status.success());
    let user = workspace.json(&["audit", &id])["events"][2]["actor"]["user"].as_str().unwrap().to_owned();
    assert!(!user.is_empty() && user != "unknown", "without the variable, the system knows: {user}");
}
