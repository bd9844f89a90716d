//! What graphs with particular nodes say, as the sources of these nodes tell: one graph a line in `nodes.jsonl`, with the
//! prompt, seed and steps that made its image. A field that is listed as unread must be absent, since a wrong value is worse
//! than none.

use serde::Deserialize;
use serde_json::Value;

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
    let words =
        |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches([' ', ',']).to_owned();
    let mut wrong = Vec::new();
    for line in include_str!("nodes.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let recipe = of(&case.graph).recipe;
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
