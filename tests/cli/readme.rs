//! Runs the console blocks of the README and of the book as a reader would, each page in a fresh workspace.
//!
//! Every line that starts with `$ ` in a ```` ```console ```` block is run in order by the shell, and the text up to
//! the next one is its expected output. Dates, times and hashes are only compared by shape. The day in session ids is
//! that of the page in the text and today when it is run. The home directory is `/home/ada`; it has four A1111 images
//! in `webui/outputs`. The current directory contains `cat.png`. `<!-- setup: COMMAND -->` runs a command without
//! showing it, and `<!-- not run -->` before a block skips it.
//!
//! `RETAKE_BLESS=readme cargo test --test cli readme` writes the actual output into the pages.
//!
//! Commands in other blocks need servers, browsers or the reader's files. They are not run, but the program must accept
//! their flags and values.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use retake_testutils::images::patterned;

use crate::support::{PIXEL, TestWorkspace};

#[test]
fn the_readme_and_the_book_show_what_happens() {
    let mut commands = 0;
    let mut differences = Vec::new();
    for path in pages() {
        let text = fs::read_to_string(&path).unwrap();
        let ran = run(&text);
        commands += ran.commands;
        if std::env::var("RETAKE_BLESS").is_ok_and(|what| what == "readme") {
            fs::write(&path, ran.text).unwrap();
        } else {
            differences.extend(ran.differences.iter().map(|difference| format!("{}: {difference}", path.display())));
        }
    }
    assert!(commands >= 20, "only {commands} commands were found");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn the_readme_and_the_book_name_only_flags_that_exist() {
    let workspace = TestWorkspace::new();
    let mut checked = 0;
    let mut wrong = Vec::new();
    for path in pages() {
        for line in commands_not_run(&fs::read_to_string(&path).unwrap()) {
            checked += 1;
            // `--help` takes effect before anything is done, but after the flags and values on its left were parsed.
            let line = match line.split_once(" -- ") {
                Some((ours, _)) => format!("{ours} --help"),
                None => format!("{line} --help"),
            };
            let ran = Shell::new(&workspace).output(&line);
            if !ran.status.success() {
                let described = String::from_utf8_lossy(&ran.stdout);
                wrong.push(format!("{}: {line}\n{described}", path.display()));
            }
        }
    }
    assert!(checked >= 20, "only {checked} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_flag_that_does_not_exist_is_found() {
    let text = "```sh\nRETAKE_LOG=debug retake list --limits 3   # the first\n```\n```console\n$ retake list\n```\n";
    assert_eq!(commands_not_run(text), ["retake list --limits 3"]);
    let workspace = TestWorkspace::new();
    let shell = Shell::new(&workspace);
    assert!(!shell.output("retake list --limits 3 --help").status.success());
    assert!(!shell.output("retake list --limit many --help").status.success());
    assert!(shell.output("retake list --limit 3 --help").status.success());
}

#[test]
fn a_correct_block_passes_and_a_wrong_one_fails() {
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

/// The result of running a text.
struct Outcome {
    /// The number of commands run.
    commands: usize,
    /// The commands whose output differs.
    differences: Vec<String>,
    /// The text with the actual output.
    text: String,
}

fn run(text: &str) -> Outcome {
    let workspace = TestWorkspace::new();
    workspace.file("cat.png", PIXEL);
    let mut shell = Shell::new(&workspace);
    shell.generate();
    let mut outcome = Outcome { commands: 0, differences: Vec::new(), text: String::new() };
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
            outcome.commands += 1;
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

/// A shell in which the days of the README are mapped to today.
struct Shell<'a> {
    workspace: &'a TestWorkspace,
    /// The days in the README's session ids, and the actual ones.
    days: HashMap<String, String>,
}

impl Shell<'_> {
    fn new(workspace: &TestWorkspace) -> Shell<'_> {
        Shell { workspace, days: HashMap::new() }
    }

    /// Creates the reader's images: one idea, another seed, another prompt, another parameter.
    fn generate(&self) {
        let dir = self.home().join("webui/outputs");
        fs::create_dir_all(&dir).unwrap();
        let images = [("a glass bridge", 42, 7), ("a glass bridge", 43, 7), ("a glass bridge, fog", 43, 7)];
        for (number, (prompt, seed, cfg)) in (0..).zip(images.into_iter().chain([("a glass bridge, fog", 43, 9)])) {
            let parameters = format!(
                "{prompt}\nSteps: 20, Sampler: Euler a, CFG scale: {cfg}, Seed: {seed}, Size: 512x512, Model: sdxl"
            );
            let path = dir.join(format!("0000{number}-{seed}.png"));
            fs::write(&path, patterned(number + 1, &[("parameters", &parameters)])).unwrap();
            // 2025-12-11 10:00 UTC and the minutes after it.
            let made = UNIX_EPOCH + Duration::from_secs(1_765_447_200 + 60 * number);
            fs::File::options().write(true).open(&path).unwrap().set_modified(made).unwrap();
        }
    }

    fn home(&self) -> PathBuf {
        self.workspace.root().join("home")
    }

    fn run(&self, command: &str) -> String {
        let printed = String::from_utf8(self.output(command).stdout).unwrap();
        printed.replace(self.home().to_str().unwrap(), "/home/ada")
    }

    fn output(&self, command: &str) -> std::process::Output {
        let mut command = command.to_owned();
        for (written, here) in &self.days {
            command = command.replace(&format!("session-{written}"), &format!("session-{here}"));
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_retake"));
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", binary.parent().unwrap().display());
        Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(self.workspace.dir())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("USER", "ada")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Maps a day of the README to the actual one, from the first id of an output.
    fn learn(&mut self, expected: &str, printed: &str) {
        if let (Some(written), Some(here)) = (first_day(expected), first_day(printed)) {
            self.days.entry(written).or_insert(here);
        }
    }

    fn as_written(&self, printed: &str) -> String {
        self.days.iter().fold(printed.to_owned(), |text, (written, here)| text.replace(here, written))
    }
}

/// Returns the README and the pages of the book, without the generated references.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| {
        path.extension().is_some_and(|ending| ending == "md") && !path.ends_with("command-reference.md")
    });
    let mut pages: Vec<PathBuf> = docs.chain([root.join("README.md")]).collect();
    pages.sort();
    pages
}

/// Returns the calls of `retake` in shell blocks that are not run, without leading variables and trailing comments.
fn commands_not_run(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut block = None;
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
        } else if matches!(block, Some("sh" | "")) {
            let calls = line.find("retake ").filter(|at| {
                let before = &line[..*at];
                before.is_empty() || before.split_whitespace().all(|word| word.contains('=')) && before.ends_with(' ')
            });
            let call = calls.map(|at| line[at..].split("  #").next().unwrap().trim_end());
            found.extend(
                call.filter(|call| !call.starts_with("retake  ") && !call.contains('…') && !call.ends_with('\\')),
            );
        }
    }
    found
}

fn first_day(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("session-")?;
    rest.get(..10).map(str::to_owned)
}

/// Returns a text with the digits of dates, times and hashes replaced, and without white space that depends on them.
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
