//! What the texts of many tools and their versions say: one file a line in `texts_of_tools.jsonl`, with the texts of a PNG
//! and the prompt, negative prompt, seed and steps in them. A line without any of these is a control: texts that look like
//! metadata and are not.

use retake_recipe::metadata::read_bytes as read;
use serde::Deserialize;

use crate::build::{itxt, png_with, text};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    tool: String,
    texts: Vec<(String, String)>,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    negative: String,
    seed: Option<String>,
    steps: Option<u32>,
}

#[test]
fn texts_of_tools_are_read_as_they_were_typed() {
    let words =
        |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches([' ', ',']).to_owned();
    let mut wrong = Vec::new();
    for line in include_str!("texts_of_tools.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let chunk = |(key, value): &(String, String)| {
            if value.is_ascii() { text(key, value) } else { itxt(key, value, false) }
        };
        let chunks: Vec<Vec<u8>> = case.texts.iter().map(chunk).collect();
        let recipe = read(&png_with(&chunks, &[])).recipe;
        let read = (
            words(&recipe.prompt),
            words(recipe.negative_prompt.as_deref().unwrap_or_default()),
            recipe.seed.map(|seed| seed.to_string()),
            recipe.steps,
        );
        let expected = (words(&case.prompt), words(&case.negative), case.seed, case.steps);
        if read != expected {
            wrong.push(format!("{} ({}): expected {expected:?}, read {read:?}", case.name, case.tool));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
