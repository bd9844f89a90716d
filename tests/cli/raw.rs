//! `show --raw`: any picture, recorded or not, and what is none.

use retake::internals::images::metadata::embed;

use crate::support::{FIRST, PIXEL, TestWorkspace, Transcript};

const TEXT: &str = "a glass bridge, <lora:glass:0.8>\nNegative prompt: fog\u{1b}[31m\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 42, Size: 64x32, Model hash: 1f, Model: bridges, Clip skip: 2, Version: v1.10.1";

fn picture() -> Vec<u8> {
    embed(PIXEL, &[("parameters", TEXT), ("Software", "unknown")]).unwrap()
}

#[test]
fn lays_out_what_is_in_a_file() {
    let workspace = TestWorkspace::new();
    workspace.file("bridge.png", picture());
    workspace.file("plain.png", PIXEL);
    workspace.file("note.txt", "no picture");
    workspace.file("long.png", embed(PIXEL, &[("Comment", &"words on a line\n".repeat(30))]).unwrap());
    workspace.record(1, &["a glass bridge", "--image", "bridge.png"]);
    let first = format!("{FIRST}#0");
    let mut transcript = Transcript::new(&workspace);
    transcript.run(&["show", "--raw", "bridge.png"]);
    transcript.run(&["show", "--raw", &first]);
    transcript.run(&["show", "--raw", "plain.png"]);
    transcript.run(&["show", "--raw", "note.txt"]);
    transcript.run(&["show", "--raw", "long.png"]);
    transcript.run(&["show", "--raw", "gone.png"]);
    transcript.run(&["show", "--raw", "."]);
    transcript.run(&["show", "--raw", "latest", "--json"]);
    transcript.check("raw");
}

#[test]
fn reads_a_file_without_a_workspace() {
    let workspace = TestWorkspace::new();
    std::fs::remove_dir(workspace.workspace()).unwrap();
    workspace.file("bridge.png", picture());
    let view = workspace.json(&["show", "--raw", "bridge.png"]);
    assert_eq!((&view["file"], &view["generator"]), (&"bridge.png".into(), &"A1111".into()));
    assert_eq!((&view["recipe"]["seed"], &view["recipe"]["steps"]), (&"42".into(), &20.into()));
    assert_eq!(view["raw"][0]["text"], TEXT);
    assert_eq!(view["raw"][0]["where"], "PNG iTXt at byte 33");
    workspace.file("plain.png", PIXEL);
    let nothing = workspace.json(&["show", "--raw", "plain.png"]);
    assert_eq!((&nothing["generator"], nothing["recipe"].to_string().as_str()), (&serde_json::Value::Null, "{}"));
    assert!(!workspace.workspace().exists() && !workspace.root().join("home").exists());
}
