//! Real files that other tools wrote, with the values on which independent readers agree. They are no part of this
//! repository: they are looked for in `RETAKE_SAMPLES`, or in `shared/samples` beside the checkout.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use retake::images::metadata::{self, Reading};
use retake::tracker::{RawView, raw_file};
use serde_json::Value;

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/samples");
    let folder = std::env::var_os("RETAKE_SAMPLES").map_or(beside, PathBuf::from);
    if folder.join("expected.json").is_file() {
        return Some(folder);
    }
    // Past the capture of test output: a test that looked at nothing says so.
    let note = format!("samples: NOT TESTED, there is no {}; set RETAKE_SAMPLES\n", folder.display());
    std::io::stderr().write_all(note.as_bytes()).unwrap();
    None
}

#[test]
fn every_agreed_value_is_read() {
    let Some(folder) = folder() else { return };
    let rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap();
    assert!(rows.len() > 50, "only {} rows", rows.len());
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &rows {
        let file = row["file"].as_str().unwrap();
        let reading = metadata::read_file(&folder.join(file)).unwrap();
        let view = raw_file(&folder.join(file)).unwrap();
        for field in row["agreed"].as_array().unwrap() {
            let field = field.as_str().unwrap();
            let (expected, read) = (expected(row, field), found(&view, field));
            if expected != read {
                let miss = format!("{field}: expected {expected:?}, read {read:?}");
                wrong.entry(file.to_owned()).or_default().push(miss);
            }
        }
        assert_eq!(reading.raw, metadata::read(&fs::read(folder.join(file)).unwrap()).raw, "{file}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_invented_for_the_controls() {
    let Some(folder) = folder() else { return };
    let rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap();
    let mut controls = 0;
    for row in rows.iter().filter(|row| ["none", "C2PA (not AI)"].contains(&row["generator"].as_str().unwrap())) {
        let reading = metadata::read_file(&folder.join(row["file"].as_str().unwrap())).unwrap();
        let empty = Reading { format: None, width: None, height: None, raw: Vec::new(), notes: Vec::new(), ..reading };
        assert_eq!(empty, Reading::default(), "{}", row["file"]);
        controls += 1;
    }
    assert!(controls >= 5, "only {controls} controls");
}

/// White space collapsed, and no comma at the end: so the expected values were written.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_end_matches([' ', ',']).to_owned()
}

fn expected(row: &Value, field: &str) -> Option<String> {
    match &row[field] {
        Value::String(text) => Some(plain(text)),
        Value::Null => None,
        number => Some(number.as_f64().unwrap().to_string()),
    }
}

/// What a person is shown of the file.
fn found(view: &RawView, field: &str) -> Option<String> {
    let text = |name: &str| view.recipe.get(name).and_then(Value::as_str).map(plain);
    let number = |name: &str| view.recipe.get(name).and_then(Value::as_f64).map(|number| number.to_string());
    match field {
        "negative" => text("negativePrompt"),
        "cfg" => number("guidanceScale"),
        "steps" => number("steps"),
        "size" => Some(format!("{}x{}", number("width")?, number("height")?)),
        "prompt" | "seed" | "sampler" | "model" => text(field),
        _ => panic!("{field} is no field of the samples"),
    }
}
