//! Records the commit and target of the build in the binary, for `retake --version` and bug reports.
//!
//! The commit comes from `RETAKE_COMMIT`, otherwise from the file that Cargo puts into a published package, otherwise,
//! in release builds only, from git. Development builds leave it out, since every commit would otherwise rebuild the
//! library.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RETAKE_COMMIT");
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=RETAKE_BUILD_TARGET={target}");
    let commit = std::env::var("RETAKE_COMMIT").ok().or_else(published_commit).or_else(git_commit);
    if let Some(commit) = commit {
        let short: String = commit.trim().chars().filter(char::is_ascii_hexdigit).take(12).collect();
        println!("cargo:rustc-env=RETAKE_BUILD_COMMIT={short}");
    }
}

/// Reads the commit from the file that `cargo package` writes.
fn published_commit() -> Option<String> {
    let text = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    after.split('"').nth(1).map(str::to_owned)
}

/// Runs git, if this is a release build of a checkout.
fn git_commit() -> Option<String> {
    if std::env::var("PROFILE").ok()? != "release" || !Path::new(".git").exists() {
        return None;
    }
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/logs/HEAD");
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
