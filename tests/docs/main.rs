//! The documentation: the generated references are up to date, links are valid, and the book builds.
//!
//! `RETAKE_BLESS=docs cargo test --test docs` regenerates the references after a change to a tool.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed assertion is the report of a test"
)]

mod reference;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use retake_testutils::optional::{may_install, optional, run};

fn main() -> ExitCode {
    run(vec![
        optional("the_mcp_reference_is_current", None, reference::mcp_is_current),
        optional("the_command_reference_is_current", None, reference::commands_are_current),
        optional("links_lead_somewhere", None, links_lead_somewhere),
        optional("quoted_messages_exist", None, quoted_messages_exist),
        optional("every_page_is_in_the_book", None, every_page_is_in_the_book),
        optional("platform_code_is_in_one_place", None, platform_code_is_in_one_place),
        optional("the_book_builds", missing_mdbook(), the_book_builds),
    ])
}

/// The pages with links that are not part of the book.
const OUTSIDE_THE_BOOK: [&str; 8] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benches/README.md",
    "data/README.md",
    "packaging/README.md",
    "crates/retake-recipe/README.md",
];

fn links_lead_somewhere() {
    let root = root();
    let mut pages: Vec<PathBuf> = OUTSIDE_THE_BOOK.iter().map(|page| root.join(page)).collect();
    pages.extend(docs());
    let mut broken = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for target in links(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if file.starts_with("../") && page.starts_with(root.join("docs")) {
                broken.push(format!("{}: {target} (not in the book)", page.display()));
            } else if !linked.exists() {
                broken.push(format!("{}: {target}", page.display()));
            } else if !anchor.is_empty() && linked.extension().is_some_and(|it| it == "md") {
                let text = std::fs::read_to_string(&linked).unwrap();
                let anchors: Vec<String> = text.lines().filter(|it| it.starts_with('#')).map(anchor_of).collect();
                if !anchors.iter().any(|it| it == anchor) {
                    broken.push(format!("{}: {target} (no such heading)", page.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// The messages in the troubleshooting page are those that the program prints: each occurs in the sources.
fn quoted_messages_exist() {
    let page = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let mut sources = String::new();
    for dir in ["src", "crates"] {
        for file in walkdir::WalkDir::new(root().join(dir)) {
            let file = file.unwrap().into_path();
            if file.extension().is_some_and(|ending| ending == "rs") {
                sources += &std::fs::read_to_string(file).unwrap();
            }
        }
    }
    // Join messages that continue on the next line of the source.
    let sources = sources.split("\\\n").map(str::trim_start).collect::<String>();
    let heads = page.split("\n\n").filter_map(|part| part.strip_prefix("**")?.split("**").next());
    let quoted = heads.flat_map(|head| head.split('`').skip(1).step_by(2));
    let mut seen = 0;
    for message in quoted.filter(|message| !OF_OTHERS.iter().any(|other| message.starts_with(other))) {
        // Replace the parts that vary: names, numbers and addresses.
        let message = message.replace('\n', " ").replace("process 123", "…");
        let parts = message.split(['…', ',', ':']).flat_map(|part| part.split(|c: char| c.is_ascii_digit()));
        let words = parts.map(str::trim).filter(|part| part.contains(' ')).filter(|part| !part.starts_with("retake "));
        for part in words {
            seen += 1;
            assert!(sources.contains(part), "no message contains {part:?}, which docs/troubleshooting.md quotes");
        }
    }
    assert!(seen > 12, "only {seen} messages were found");
}

/// Messages of the shell and of the system.
const OF_OTHERS: [&str; 3] = ["no matches found", "Input/output error", "Too many open files"];

fn every_page_is_in_the_book() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for page in docs() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "{name} is not in docs/SUMMARY.md");
    }
}

/// Code that depends on the operating system is in the `platform` module of each crate, where it can be read and ported
/// as a whole. Tests may check the target anywhere.
fn platform_code_is_in_one_place() {
    let mut found = Vec::new();
    for dir in [
        "src",
        "crates/retake-log/src",
        "crates/retake-recipe/src",
        "crates/retake-search/src",
        "crates/retake-team/src",
    ] {
        for entry in walkdir::WalkDir::new(root().join(dir)).sort_by_file_name() {
            let path = entry.unwrap().into_path();
            let is_test = path.file_name().is_some_and(|it| it == "tests.rs");
            let is_platform = path.to_str().unwrap().contains("/src/platform");
            if path.extension().is_some_and(|it| it == "rs") && !is_test && !is_platform {
                let text = std::fs::read_to_string(&path).unwrap();
                found.extend(platform_lines(&text).into_iter().map(|line| format!("{}:{line}", path.display())));
            }
        }
    }
    assert!(found.is_empty(), "platform code outside of `platform`:\n{}", found.join("\n"));
    assert_eq!(
        platform_lines("fn f() {\n    if cfg!(unix) {}\n}\n#[cfg(test)]\nmod tests {\n#[cfg(unix)]\n"),
        ["2: if cfg!(unix) {}"]
    );
}

/// Returns the lines of a source file, before its tests, that depend on the operating system.
fn platform_lines(text: &str) -> Vec<String> {
    const MARKS: [&str; 8] =
        ["(unix)", "(not(unix))", "(windows)", "target_os", "os::unix", "os::windows", "os::fd", "rustix::"];
    // Tests may check the target, also in a separate file.
    let before = std::iter::once("").chain(text.lines());
    let code = before.zip(text.lines()).enumerate().take_while(|(_, (_, line))| *line != "mod tests {");
    let code = code.filter(|(_, (before, _))| *before != "#[cfg(test)]").map(|(number, (_, line))| (number, line));
    code.filter(|(_, line)| MARKS.iter().any(|mark| line.contains(mark)) && !line.trim_start().starts_with("//"))
        .map(|(number, line)| format!("{}: {}", number + 1, line.trim()))
        .collect()
}

fn the_book_builds() {
    let mdbook = mdbook().unwrap_or_else(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // Unoptimised: a book of this size takes a second either way, and compiling takes a third of the time.
        cargo.args(["install", "--debug", "mdbook", "--version", "0.5.4", "--locked"]);
        cargo.args(["--no-default-features", "--features", "search"]).env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Without the flags and the target directory of this build.
        cargo.arg("--root").arg(tools()).env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        let output = cargo.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        tools().join("bin/mdbook")
    });
    let output = tempfile::tempdir().unwrap();
    let built = Command::new(mdbook)
        .arg("build")
        .arg(root().join("docs"))
        .arg("--dest-dir")
        .arg(output.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    assert!(output.path().join("index.html").exists());
    assert!(output.path().join("mcp-reference.html").exists());
}

fn missing_mdbook() -> Option<String> {
    (mdbook().is_none() && !may_install())
        .then(|| "needs mdBook: `cargo install mdbook`, or set RETAKE_TEST_INSTALL=1".to_owned())
}

fn mdbook() -> Option<PathBuf> {
    let works = |path: &Path| Command::new(path).arg("--version").output().is_ok_and(|it| it.status.success());
    [PathBuf::from("mdbook"), tools().join("bin/mdbook")].into_iter().find(|path| works(path))
}

fn tools() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn docs() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|ending| ending == "md")).collect()
}

/// Returns the relative links of a page, outside code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for after in line.split("](").skip(1) {
            let target = after.split(')').next().unwrap();
            if !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('<') {
                found.push(target);
            }
        }
    }
    found
}

/// Returns the anchor of a heading.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'))
        .map(|it| if it == ' ' { '-' } else { it })
        .collect()
}
