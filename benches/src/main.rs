//! Retake beside its peers: one question a file, all engines in one run, ratios from rounds that take turns.
//!
//! `cargo run --release -p retake-benches` asks everything in a modest size; `-- --full` adds the large ones; `-- append`
//! and the like choose. `README.md` says how to read what is printed.
#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark stops at the first surprise")]

mod append;
mod data;
mod opening;
mod page;
mod peers;
mod report;
mod sharing;
mod workload;

use std::fs;
use std::path::PathBuf;

use report::Report;

/// What was asked for.
pub(crate) struct Settings {
    /// Where data sets are kept between runs, and everything else while it is needed.
    data: PathBuf,
    full: bool,
    rounds: usize,
    /// Only engines whose name contains this, for a profiler.
    only: Option<String>,
}

impl Settings {
    /// Whether an engine of that name takes part.
    pub(crate) fn wants(&self, engine: &str) -> bool {
        self.only.as_ref().is_none_or(|only| engine.contains(only))
    }

    /// A new empty directory for something that is thrown away.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        let dir = self.data.join(format!("scratch-{name}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, dir, writer] = arguments.as_slice()
        && verb.starts_with("child-")
    {
        return match verb.as_str() {
            "child-append" => sharing::child(dir, writer),
            _ => opening::child(verb, dir, writer),
        };
    }
    let (flags, questions): (Vec<String>, Vec<String>) =
        arguments.into_iter().partition(|argument| argument.starts_with("--"));
    let exe = std::env::current_exe().unwrap();
    let data = exe.ancestors().nth(2).unwrap().join("bench-data");
    if flags.iter().any(|flag| flag == "--fresh") {
        let _ = fs::remove_dir_all(&data);
    }
    fs::create_dir_all(&data).unwrap();
    let full = flags.iter().any(|flag| flag == "--full");
    let only = flags.iter().find_map(|flag| flag.strip_prefix("--only=").map(str::to_owned));
    let settings = Settings { full, rounds: if full { 15 } else { 7 }, only, data };
    let mut report = Report::new(&settings.data.join("results.jsonl"));
    let asked = |name: &str| questions.is_empty() || questions.iter().any(|question| question == name);
    if asked("page") {
        page::run(&settings, &mut report);
    }
    if asked("opening") {
        opening::run(&settings, &mut report);
    }
    if asked("sharing") {
        sharing::run(&settings, &mut report);
    }
    if asked("append") {
        append::run(&settings, &mut report);
    }
}
