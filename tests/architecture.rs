//! The house: no lower layer names a higher one, the model stays pure, and every file says what lives in it.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;
use std::path::{Path, PathBuf};

/// Each layer, and the layers it may name.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("disk", &[]),
    ("store", &["model", "disk"]),
    ("images", &["model", "disk"]),
    ("search", &["model", "disk", "store"]),
    ("sharing", &["model", "disk", "store", "search"]),
    ("tracker", &["model", "disk", "store", "search", "images", "sharing"]),
    ("mcp", &["model", "tracker"]),
    ("web", &["model", "tracker", "mcp"]),
    ("cli", &["model", "disk", "tracker", "mcp", "web"]),
];

/// What the model must not know: the clock, the disk, the database, the runtime.
const IMPURE: &[&str] =
    &["std::fs", "std::net", "std::io", "std::env", "SystemTime", "Instant", "Utc::now", "sled", "bincode", "tokio"];

/// Question a file past this.
const MOST_LINES: usize = 620;

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        // What fuzzing builds is nobody's source.
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file: no comments, no tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The layers that a file's code names, by `crate::layer` or `retake::layer`.
fn named(code: &str) -> Vec<&'static str> {
    let names = |layer: &str| {
        ["crate", "retake"].iter().any(|root| {
            code.match_indices(&format!("{root}::{layer}")).any(|(at, found)| {
                let behind = code[at + found.len()..].chars().next().unwrap_or(' ');
                !(behind.is_alphanumeric() || behind == '_')
            })
        })
    };
    LAYERS.iter().map(|(layer, _)| *layer).filter(|layer| names(layer)).collect()
}

#[test]
fn no_layer_names_a_higher_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut seen = Vec::new();
    for path in sources(&root) {
        let relative = path.strip_prefix(&root).unwrap();
        let Some(layer) = relative.iter().next().and_then(|part| part.to_str()).filter(|_| relative.iter().count() > 1)
        else {
            continue;
        };
        let allowed = LAYERS.iter().find(|(name, _)| *name == layer).map(|(_, allowed)| *allowed);
        let allowed = allowed
            .unwrap_or_else(|| panic!("{layer} is no layer: add it to the map in docs/architecture.md and here"));
        seen.push(layer.to_owned());
        let code = code(&fs::read_to_string(&path).unwrap());
        assert!(
            !code.contains("use crate::{"),
            "{}: name layers one by one, so that this test sees them",
            relative.display()
        );
        for name in named(&code) {
            assert!(name == layer || allowed.contains(&name), "{} names {name}", relative.display());
        }
        for word in IMPURE.iter().filter(|_| layer == "model") {
            assert!(!code.contains(word), "{} knows {word}", relative.display());
        }
    }
    for layer in ["model", "disk", "store", "images", "tracker", "mcp", "cli"] {
        assert!(seen.iter().any(|there| there == layer), "no file of {layer} was looked at");
    }
}

#[test]
fn every_file_says_what_lives_there_and_stays_readable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for dir in ["src", "tests", "benches/src"] {
        for path in sources(&root.join(dir)) {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().display();
            assert!(text.starts_with("//! "), "{name} does not open by saying what lives there");
            assert!(text.lines().count() <= MOST_LINES, "{name} has {} lines: is it one idea?", text.lines().count());
        }
    }
}

#[test]
fn the_layer_test_can_fail() {
    assert_eq!(named("use crate::tracker::Tracker;"), ["tracker"]);
    assert_eq!(named("retake::store::open()"), ["store"]);
    assert_eq!(named("use crate::storekeeper;"), Vec::<&str>::new());
    assert_eq!(code("// crate::cli\nlet a = 1;\n#[cfg(test)]\nmod tests { use crate::cli; }"), "let a = 1;");
}
