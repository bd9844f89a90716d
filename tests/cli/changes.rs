//! Changes from step to step: a session as a story, resuming it, and iterations side by side.

use serde_json::json;

use crate::support::{FIRST, TestWorkspace, Transcript};

const SECOND: &str = "session-2024-12-11-002";

/// Creates a session with rerolls, an abandoned branch, a failure and a rating, and another session that continues from
/// it.
fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    let base = ["--model", "sdxl", "--steps", "20", "--cfg", "7", "--size", "1024x768"];
    let record = |minute: u32, more: &[&str]| workspace.record(minute, &[&base, more].concat());
    let prompt = "1girl, (red dress:1.2), standing, forest, <lora:add_detail:0.8>";
    record(0, &[prompt, "--seed", "1", "--title", "Winter", "--project", "cards"]);
    let here = ["--session", FIRST];
    record(1, &[&here[..], &[prompt, "--seed", "2"]].concat());
    record(2, &[&here[..], &[prompt, "--seed", "3"]].concat());
    let solo = "1girl, solo, (red dress:1.35), forest, <lora:add_detail:0.6>";
    record(3, &[&here[..], &[solo, "--seed", "3", "--negative-prompt", "blurry"]].concat());
    let annotate =
        ["annotate", "session-2024-12-11-001#3", "--rating", "5", "--tag", "hero", "--note", "the light\nis right"];
    workspace.json(&annotate);
    let night = "1girl, solo, (red dress:1.35), forest, night, <lora:add_detail:0.6>";
    record(4, &[&here[..], &[night, "--seed", "3", "--outcome", "refused", "--message", "no"]].concat());
    let dawn = "1girl, (red dress:1.2), standing, forest, dawn, <lora:add_detail:0.8>";
    let back = format!("{FIRST}#0");
    record(5, &[&here[..], &[dawn, "--seed", "3", "--lora", "fur:0.8", "--parent", &back]].concat());
    workspace.record(6, &["an old lighthouse in a storm", "--session", FIRST]);
    let elsewhere = format!("{FIRST}#4");
    workspace.record(7, &["an old lighthouse in a storm at night", "--parent", &elsewhere]);
    workspace
}

#[test]
fn a_session_is_shown_as_a_story() {
    let workspace = workspace();
    let mut screen = Transcript::new(&workspace);
    screen.run(&["show", FIRST]).run(&["show", SECOND]).run(&["show", FIRST, "--limit", "2"]);
    screen.check("story_of_a_session");
    // Scripts get the list defined by the contract, whatever people see.
    let list = workspace.json(&["show", FIRST]);
    assert_eq!((&list["totalIterations"], &list["returnedCount"]), (&json!(7), &json!(7)));
    assert!(list["iterations"][3].get("summary").is_none());
}

#[test]
fn resuming_shows_what_is_needed() {
    let workspace = workspace();
    let mut screen = Transcript::new(&workspace);
    let reference = format!("{FIRST}#4");
    screen.run(&["resume", FIRST]).run(&["resume", &reference]).run(&["resume", SECOND]).run(&["resume", "tomorrow"]);
    screen.check("resume");
    let view = workspace.json(&["resume", &reference]);
    assert_eq!(view["next"]["parent"], reference);
    assert_eq!(view["recipe"]["seed"], "3");
    let empty = TestWorkspace::new();
    let mut screen = Transcript::new(&empty);
    screen.run(&["resume"]).check("resume_nothing");
}

#[test]
fn iterations_side_by_side() {
    let workspace = workspace();
    let at = |index: u32| format!("{FIRST}#{index}");
    let mut screen = Transcript::new(&workspace);
    screen
        .run(&["compare", &at(0), &at(3)])
        .run(&["compare", &at(0), &at(1)])
        .run(&["compare", &at(3), &at(5), SECOND, "latest#0"])
        .run(&["compare", &at(0)])
        .run(&["compare", &at(0), "session-2024-12-11-009"]);
    screen.check("compare");
    let view = workspace.json(&["compare", &at(0), &at(1)]);
    assert_eq!(view["differences"][0]["label"], "reroll");
}
