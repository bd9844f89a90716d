//! Retake compared with its peers: one question per file, all engines in one run, ratios from alternating rounds.
//!
//! `cargo run --release -p retake-benches` runs everything at a modest size; `-- --full` adds the large sizes;
//! `-- append` and similar arguments select benchmarks. `README.md` explains the output.
#![expect(clippy::print_stdout, reason = "a benchmark reports on stdout")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark stops at the first surprise")]

mod agents;
mod append;
mod child;
mod data;
mod gallery;
mod history;
mod import;
mod layout;
mod metadata;
mod open;
mod page;
mod peers;
mod pictures;
mod report;
mod search;
mod sharing;
mod size;
mod workload;
mod wrap;

use std::fs;
use std::path::{Path, PathBuf};

use data::Shape;
use report::Report;

/// Answers one question.
type Ask = fn(&Settings, &mut Report);

/// The settings of a run.
pub(crate) struct Settings {
    /// The directory for data sets and temporary data.
    data: PathBuf,
    full: bool,
    rounds: usize,
    /// Only run engines whose name contains this, for profiling.
    only: Option<String>,
    /// The number of sessions in the large data set.
    sessions: u64,
    /// The numbers of writers to append with.
    writers: Vec<usize>,
}

impl Settings {
    /// Returns whether an engine of this name takes part.
    pub(crate) fn wants(&self, engine: &str) -> bool {
        self.only.as_ref().is_none_or(|only| engine.contains(only))
    }

    /// Returns the large data set that most benchmarks use.
    pub(crate) fn large(&self) -> Shape {
        Shape { sessions: self.sessions, iterations: 10, long: true }
    }

    /// Creates an empty directory for temporary data.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        let dir = self.data.join(format!("scratch-{name}"));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("child", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return child::run(rest);
    }
    if let Some(("wrap-bench", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return wrap::child(rest);
    }
    if let [verb, dir, workspace, how] = arguments.as_slice()
        && verb == "import"
    {
        return import::child(dir, workspace, how);
    }
    if let [verb, dir, writer] = arguments.as_slice()
        && verb == "client"
    {
        return sharing::child(dir, writer);
    }
    if let [verb, socket] = arguments.as_slice()
        && verb == "floor-client"
    {
        return sharing::floor_child(socket);
    }
    if let [verb, how, dir] = arguments.as_slice()
        && verb == "agent"
    {
        return agents::child(how, dir);
    }
    if let [verb, dir] = arguments.as_slice()
        && verb == "gallery"
        && Path::new(dir).is_dir()
    {
        return gallery::child(dir);
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
    let writers = flags.iter().find_map(|flag| flag.strip_prefix("--writers="));
    let writers = writers.map_or(vec![1, 16], |writers| vec![writers.parse().unwrap()]);
    let sessions = flags.iter().find_map(|flag| flag.strip_prefix("--sessions="));
    let sessions = sessions.map_or(100_000, |sessions| sessions.parse().unwrap());
    let settings = Settings { full, sessions, writers, rounds: if full { 15 } else { 7 }, only, data };
    let mut report = Report::new(&settings.data.join("results.jsonl"));
    let asked = |name: &str| questions.is_empty() || questions.iter().any(|question| question == name);
    let questions: &[(&str, Ask)] = &[
        ("append", append::run),
        ("page", page::run),
        ("history", history::run),
        ("open", open::run),
        ("size", size::run),
        ("layout", layout::run),
        ("sharing", sharing::run),
        ("agents", agents::run),
        ("import", import::run),
        ("metadata", metadata::run),
        ("search", search::run),
        ("pictures", pictures::run),
        ("gallery", gallery::run),
        ("wrap", wrap::run),
    ];
    for (name, ask) in questions {
        if asked(name) {
            ask(&settings, &mut report);
        }
    }
}
