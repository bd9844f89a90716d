//! Tests that need more than Rust: browsers, other people's programs, files outside of the repository.
//!
//! `libtest` cannot ignore a test at run time, so a test without its prerequisites would have to pass. Such test
//! binaries are built with `harness = false` and list [`Trial`]s instead: tests with missing prerequisites are reported
//! as ignored, with instructions, and still run under `--include-ignored`.
//!
//! Nothing is installed unless `RETAKE_TEST_INSTALL=1` asks for it.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Returns whether tests may install system packages, and packages from npm and PyPI.
pub fn may_install() -> bool {
    std::env::var_os("RETAKE_TEST_INSTALL").is_some_and(|value| value == "1")
}

/// Creates a test. If something is `missing`, it is ignored with that text as the reason.
pub fn optional(name: &str, missing: Option<String>, test: impl FnOnce() + Send + 'static) -> Trial {
    let trial = Trial::test(name, || {
        test();
        Ok(())
    });
    match missing {
        Some(reason) => trial.with_kind(reason).with_ignored_flag(true),
        None => trial,
    }
}

/// Runs tests as `libtest` would, with the arguments of this process.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_its_tools_is_ignored_with_the_reason() {
        let missing = optional("clicks", Some("needs a browser: install chromium".to_owned()), || {});
        assert!(missing.has_ignored_flag());
        assert_eq!((missing.name(), missing.kind()), ("clicks", "needs a browser: install chromium"));
        assert!(!optional("clicks", None, || {}).has_ignored_flag());
    }
}
