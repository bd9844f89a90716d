//! The README's console blocks, run as a reader would run them, in a fresh workspace.
//!
//! Every line that starts with `$ ` in a ```` ```console ```` block is run in order by the shell, and what follows up to the
//! next one is what it must print. What differs from day to day is compared by its shape: dates, times, hashes and sizes.
//! The day in session ids is that of the README in the text and today when it is run. `<!-- setup: COMMAND -->` runs a
//! command without showing it, and `<!-- not run -->` before a block leaves it out.
//!
//! `RETAKE_BLESS=readme cargo test --test cli readme` writes what the commands print into the README.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{PIXEL, TestWorkspace};

#[test]
fn the_readme_shows_what_happens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let ran = run(&text);
    if std::env::var("RETAKE_BLESS").is_ok_and(|what| what == "readme") {
        fs::write(&path, ran.text).unwrap();
        return;
    }
    assert!(ran.differences.is_empty(), "{}", ran.differences.join("\n\n"));
}

#[test]
fn a_block_that_is_true_passes_and_another_does_not() {
    let text = "\
Text.
<!-- setup: retake record 'a dog' --title Dogs --created-at '2024-01-02 10:00' -->
```console
$ retake record \"a cat\" --image cat.png --title Cat --cost 0.04
recorded session-2001-02-03-001#0, the first of a new session
$ retake record \"a cat at night\" --session session-2001-02-03-001
recorded session-2001-02-03-001#1
$ retake list | grep Dogs
session-2024-01-02-001  1           2024-01-02 10:00                     Dogs
```
<!-- not run -->
```console
$ false
never
```
";
    let ran = run(text);
    assert!(ran.differences.is_empty(), "{}", ran.differences.join("\n\n"));
    assert_eq!(ran.text, text, "what is true is written as it was");
    let wrong = text.replace("#1\n", "#2\n");
    let ran = run(&wrong);
    assert_eq!(ran.differences.len(), 1, "{:?}", ran.differences);
    assert_eq!(ran.text, text, "and is put right");
}

/// What came of running a text.
struct Outcome {
    /// The commands that print something else.
    differences: Vec<String>,
    /// The text with what they print.
    text: String,
}

fn run(text: &str) -> Outcome {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    let mut shell = Shell { workspace: &workspace, days: HashMap::new() };
    let mut outcome = Outcome { differences: Vec::new(), text: String::new() };
    let mut lines = text.lines().peekable();
    let mut skip = false;
    while let Some(line) = lines.next() {
        outcome.text += &format!("{line}\n");
        if let Some(setup) = line.trim().strip_prefix("<!-- setup: ").and_then(|line| line.strip_suffix(" -->")) {
            shell.run(setup);
        }
        if line.trim() != "```console" {
            skip = line.trim() == "<!-- not run -->" || (skip && line.trim().is_empty());
            continue;
        }
        while let Some(line) = lines.next_if(|line| line.trim() != "```") {
            outcome.text += &format!("{line}\n");
            let Some(command) = line.strip_prefix("$ ").filter(|_| !skip) else { continue };
            let mut expected = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && line.trim() != "```") {
                expected += &format!("{line}\n");
            }
            let printed = shell.run(command);
            shell.learn(&expected, &printed);
            if shape(&expected) == shape(&printed) {
                outcome.text += &expected;
            } else {
                outcome.differences.push(format!("$ {command}\nexpected:\n{expected}\nprinted:\n{printed}"));
                outcome.text += &shell.as_written(&printed);
            }
        }
        skip = false;
    }
    outcome
}

/// A shell in which the days of the README are those of today.
struct Shell<'a> {
    workspace: &'a TestWorkspace,
    /// The days in the README's session ids, and what they are here.
    days: HashMap<String, String>,
}

impl Shell<'_> {
    fn run(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (written, here) in &self.days {
            command = command.replace(&format!("session-{written}"), &format!("session-{here}"));
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_retake"));
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", binary.parent().unwrap().display());
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(self.workspace.dir())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.workspace.root().join("home"))
            .env("USER", "ada")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Learns which day of the README is which here, from the first id of an output.
    fn learn(&mut self, expected: &str, printed: &str) {
        if let (Some(written), Some(here)) = (first_day(expected), first_day(printed)) {
            self.days.entry(written).or_insert(here);
        }
    }

    fn as_written(&self, printed: &str) -> String {
        self.days.iter().fold(printed.to_owned(), |text, (written, here)| text.replace(here, written))
    }
}

fn first_day(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("session-")?;
    rest.get(..10).map(str::to_owned)
}

/// A text with digits of dates, times and hashes replaced, and without white space that depends on them.
fn shape(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| line.split_whitespace().map(word_shape).collect::<Vec<_>>().join(" ")).collect()
}

fn word_shape(word: &str) -> String {
    let is_hash = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        return "[hash]".to_owned();
    }
    let digits: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let dated = ["0000-00-00", "00:00:00", "00:00"].iter().any(|date| digits.starts_with(date));
    match word.strip_prefix("session-").and_then(|rest| Some((rest.get(..10)?, rest.get(10..)?))) {
        Some((_, number)) => format!("session-[day]{number}"),
        None if dated => digits,
        None => word.to_owned(),
    }
}
