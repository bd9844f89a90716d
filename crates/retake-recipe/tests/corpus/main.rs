//! Real files written by other people's tools. They are not part of this repository: `develop.json`, `held_out.json` and
//! `blind*.json` list the repository, commit and path of each with its expected contents, and the files are searched below
//! `RETAKE_CORPUS`, under `owner+name/path`. A file that ends in `.json` is a graph as it is sent to ComfyUI, which is read
//! as ComfyUI writes it into an image. A second set with its own `expected.json` is searched in `RETAKE_SAMPLES`.
//!
//! Expectations come from reading files by hand or from a second, independent reader, never from this crate. Without
//! the files, the tests are reported as ignored.
#![expect(clippy::unwrap_used, reason = "a test reports what is wrong by failing")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use image::{ImageFormat, RgbImage};
use libtest_mimic::{Arguments, Failed, Trial};
use retake_recipe::metadata::{ANY_SEED, Generator};
use retake_recipe::{Hash, Reading, read, read_bytes};
use serde::Deserialize;
use serde_json::Value;

fn main() -> ExitCode {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_dir());
    let corpus = folder("RETAKE_CORPUS");
    let samples = folder("RETAKE_SAMPLES").filter(|folder| folder.join("expected.json").is_file());
    let mut trials = Vec::new();
    let lists = [
        ("develop", include_str!("develop.json")),
        ("held_out", include_str!("held_out.json")),
        ("blind", include_str!("blind.json")),
        ("blind_2", include_str!("blind_2.json")),
        ("blind_3", include_str!("blind_3.json")),
        ("blind_4", include_str!("blind_4.json")),
        ("blind_5", include_str!("blind_5.json")),
        ("blind_6", include_str!("blind_6.json")),
        ("blind_7", include_str!("blind_7.json")),
        ("blind_8", include_str!("blind_8.json")),
        ("blind_9", include_str!("blind_9.json")),
        ("blind_10", include_str!("blind_10.json")),
        ("blind_11", include_str!("blind_11.json")),
        ("blind_12", include_str!("blind_12.json")),
        ("blind_13", include_str!("blind_13.json")),
        ("blind_14", include_str!("blind_14.json")),
        ("develop_graphs", include_str!("develop_graphs.json")),
    ];
    for (name, rows) in lists {
        let corpus = corpus.clone();
        let ignored = corpus.is_none();
        trials.push(
            Trial::test(format!("{name} (RETAKE_CORPUS)"), move || check_corpus(&corpus.unwrap(), rows))
                .with_ignored_flag(ignored),
        );
    }
    let ignored = samples.is_none();
    trials.push(
        Trial::test("samples (RETAKE_SAMPLES)", move || check_samples(&samples.unwrap())).with_ignored_flag(ignored),
    );
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The expected contents of a file.
#[derive(Deserialize)]
struct Row {
    repository: String,
    path: String,
    /// The place of the graph in a JSON file that contains more, as a JSON pointer.
    #[serde(default)]
    at: String,
    /// The generator; `null` for a control, for which nothing must be made up.
    generator: Option<String>,
    /// The beginning of the prompt, for people.
    #[serde(default)]
    prompt: Option<String>,
    /// The first 16 digits of the BLAKE3 hash of the prompt with its white space collapsed. The prompts are other people's
    /// work, so they are not repeated here.
    #[serde(default)]
    prompt_hash: Option<String>,
    #[serde(default)]
    seed: Option<String>,
    #[serde(default)]
    steps: Option<u32>,
    /// Why two answers are defensible; such a file is not judged.
    #[serde(default)]
    ambiguous: Option<String>,
    /// Whether nothing is read from the file yet: what is not read must not be made up.
    #[serde(default)]
    unread: bool,
    /// Whether prompt and seed must be absent: a graph that only loads or crops, or a vendor that only signs.
    #[serde(default)]
    empty: bool,
    /// Whether the prompt must be absent although the other fields are not: it was made when the graph ran.
    #[serde(default)]
    promptless: bool,
    /// Other fields that must be absent, since the file does not determine them.
    #[serde(default)]
    absent: Vec<String>,
}

#[derive(Deserialize)]
struct Rows {
    repositories: BTreeMap<String, String>,
    files: Vec<Row>,
}

fn check_corpus(folder: &Path, rows: &str) -> Result<(), Failed> {
    let rows: Rows = serde_json::from_str(rows)?;
    let mut wrong: Vec<String> = Vec::new();
    let mut found = 0;
    for row in &rows.files {
        if !rows.repositories.contains_key(&row.repository) {
            wrong.push(format!("{}: the repository has no commit", row.repository));
        }
        let path = folder.join(row.repository.replace('/', "+")).join(&row.path);
        if row.ambiguous.is_some() || !path.is_file() {
            continue;
        }
        found += 1;
        let differences = differences(row, &reading(row, &path)?);
        if !differences.is_empty() {
            wrong.push(format!("{}/{}: {}", row.repository, row.path, differences.join("; ")));
        }
    }
    if found == 0 {
        return Err(format!("none of the {} files is below {}", rows.files.len(), folder.display()).into());
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} of {found} files:\n{}", wrong.len(), wrong.join("\n")).into())
    }
}

fn reading(row: &Row, path: &Path) -> Result<Reading, Failed> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(read(path)?);
    }
    let json: Value = serde_json::from_slice(&fs::read(path)?)?;
    let graph = json.pointer(&row.at).ok_or_else(|| format!("{} has no {}", path.display(), row.at))?;
    Ok(read_bytes(&image_with_graph(graph)))
}

/// Returns a PNG with this graph, as ComfyUI saves it: everything above ASCII is escaped.
fn image_with_graph(graph: &Value) -> Vec<u8> {
    let mut text = b"prompt\0".to_vec();
    for character in graph.to_string().chars() {
        if character.is_ascii() {
            text.push(u8::try_from(character).unwrap());
        } else {
            let units =
                character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            text.extend(units.bytes());
        }
    }
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        let crc = crc32fast::hash(&[kind, data].concat()).to_be_bytes();
        [&length, kind.as_slice(), data, &crc].concat()
    };
    let mut image = Cursor::new(Vec::new());
    RgbImage::new(16, 16).write_to(&mut image, ImageFormat::Png).unwrap();
    let image = image.into_inner();
    let (header, rest) = image.split_at(33);
    [header, &chunk(b"tEXt", &text), rest].concat()
}

fn differences(row: &Row, reading: &Reading) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |field: &str, expected: Option<String>, read: Option<String>| {
        if expected != read {
            differences.push(format!("{field}: expected {expected:?}, read {read:?}"));
        }
    };
    let recipe = &reading.recipe;
    compare("generator", row.generator.clone(), reading.generator.map(|generator| generator.name().to_owned()));
    let prompt = Some(plain(&recipe.prompt)).filter(|prompt| !prompt.is_empty());
    let seed = recipe.seed.map(|seed| seed.to_string());
    if row.empty || row.unread || row.generator.is_none() {
        compare("prompt", None, prompt);
        compare("seed", None, seed);
        return differences;
    }
    if row.promptless {
        compare("prompt", None, prompt.clone());
    }
    if let Some(expected) = &row.prompt_hash {
        let text = prompt.unwrap_or_default();
        if !Hash::of(text.as_bytes()).to_string().starts_with(expected.as_str()) {
            compare("prompt", row.prompt.clone(), Some(text));
        }
    }
    let must_be_absent = |field: &str| row.absent.iter().any(|absent| absent == field);
    if row.seed.is_some() || must_be_absent("seed") {
        compare("seed", row.seed.clone(), seed);
    }
    if row.steps.is_some() || must_be_absent("steps") {
        compare("steps", row.steps.map(|steps| steps.to_string()), recipe.steps.map(|steps| steps.to_string()));
    }
    differences
}

/// Checks the values on which independent readers agree, and that controls stay empty.
fn check_samples(folder: &Path) -> Result<(), Failed> {
    let rows: Vec<Value> = serde_json::from_str(&fs::read_to_string(folder.join("expected.json"))?)?;
    let mut wrong: Vec<String> = Vec::new();
    for row in &rows {
        let file = row["file"].as_str().unwrap();
        let reading = read(folder.join(file))?;
        let is_control = row["generator"] == "none" || row["generator"] == "C2PA (not AI)";
        // This one is listed as a control, yet SD.Next's parameters follow a prompt that is a JSON document.
        if is_control && !file.contains("Ideogram-4") {
            if reading.generator.is_some() || !reading.recipe.prompt.is_empty() {
                wrong.push(format!("{file}: {:?} was invented", reading.generator.map(Generator::name)));
            }
            continue;
        }
        for field in row["agreed"].as_array().unwrap() {
            let field = field.as_str().unwrap();
            let (expected, read) = (expected(row, field), sample_value(&reading, field));
            if expected != read {
                wrong.push(format!("{file}: {field}: expected {expected:?}, read {read:?}"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn expected(row: &Value, field: &str) -> Option<String> {
    match &row[field] {
        Value::String(text) => Some(plain(text)),
        Value::Null => None,
        number => Some(number.as_f64().unwrap().to_string()),
    }
}

fn sample_value(reading: &Reading, field: &str) -> Option<String> {
    let recipe = &reading.recipe;
    let any_seed = || reading.sources.iter().any(|source| source.field == "seed").then(|| ANY_SEED.to_owned());
    match field {
        "prompt" => Some(plain(&recipe.prompt)).filter(|prompt| !prompt.is_empty()),
        "negative" => recipe.negative_prompt.as_deref().map(plain),
        "seed" => recipe.seed.map(|seed| seed.to_string()).or_else(any_seed),
        "steps" => recipe.steps.map(|steps| f64::from(steps).to_string()),
        "cfg" => recipe.guidance_scale.map(|scale| scale.to_string()),
        "sampler" => recipe.sampler.as_deref().map(plain),
        "model" => recipe.model.as_deref().map(plain),
        "size" => Some(format!("{}x{}", recipe.width?, recipe.height?)),
        _ => None,
    }
}

/// Collapses white space and drops a comma at the end, as the expectations do.
fn plain(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.trim_end_matches([' ', ',']).to_owned()
}
