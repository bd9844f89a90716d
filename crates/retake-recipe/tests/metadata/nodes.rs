//! What graphs with particular nodes say, as the sources of these nodes tell: one queued graph a line in `nodes.jsonl`, and
//! one of the editor in `editor_nodes.jsonl`, with the prompt, seed and steps that made its image. A field that is listed
//! as unread must be absent, since a wrong value is worse than none.

use retake_recipe::metadata::{Reading, read_bytes as read};
use serde::Deserialize;
use serde_json::Value;

use crate::build::{png, text};
use crate::graphs::of;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    node: String,
    #[serde(default)]
    prompt: String,
    seed: Option<String>,
    steps: Option<u32>,
    #[serde(default)]
    unread: Vec<String>,
    graph: Value,
}

#[test]
fn nodes_mean_what_their_sources_say() {
    check(include_str!("nodes.jsonl"), of);
}

#[test]
fn nodes_of_the_editor_mean_what_they_do_in_it() {
    check(include_str!("editor_nodes.jsonl"), |workflow| read(&png(&[text("workflow", workflow.to_string())])));
}

fn check(cases: &str, read: impl Fn(&Value) -> Reading) {
    let words =
        |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches([' ', ',']).to_owned();
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let recipe = read(&case.graph).recipe;
        let is_read = |field: &str| !case.unread.iter().any(|unread| unread == field);
        let mut check = |field: &str, expected: Option<String>, read: Option<String>| {
            let expected = expected.filter(|_| is_read(field));
            if expected != read {
                wrong.push(format!("{} ({}): {field}: expected {expected:?}, read {read:?}", case.name, case.node));
            }
        };
        let present = |text: String| Some(text).filter(|text| !text.is_empty());
        check("prompt", present(words(&case.prompt)), present(words(&recipe.prompt)));
        check("seed", case.seed.clone(), recipe.seed.map(|seed| seed.to_string()));
        check("steps", case.steps.map(|steps| steps.to_string()), recipe.steps.map(|steps| steps.to_string()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
