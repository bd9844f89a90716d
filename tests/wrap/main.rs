//! `retake wrap` as clients and servers see it: the real binary between a client simulated by these tests and a server
//! that is either this binary again (`fake`) or a real third-party one.
//!
//! Third-party servers are installed from npm and PyPI, in fixed versions, only if `RETAKE_TEST_INSTALL=1`; otherwise their
//! tests are reported as ignored.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may stop anywhere, and the fake server speaks on stdout"
)]
#![cfg_attr(not(unix), allow(dead_code, unused_imports, reason = "signals and process groups are those of Unix"))]

mod client;
mod configuration;
mod fake;
mod faults;
mod http;
mod processes;
mod recording;
mod rules;
mod servers;
mod transparency;
mod upstream;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("fake") {
        return fake::run(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (area, tests) in [
        ("transparency", transparency::TESTS),
        ("processes", processes::TESTS),
        ("faults", faults::TESTS),
        ("recording", recording::TESTS),
        ("rules", rules::TESTS),
        ("http", http::TESTS),
        ("configuration", configuration::TESTS),
    ] {
        trials.extend(tests.iter().map(|(name, test)| trial(area, name, *test)));
    }
    let install = std::env::var_os("RETAKE_TEST_INSTALL").is_some_and(|value| value == "1");
    let servers = servers::TESTS.iter().map(|(name, test)| trial("servers", name, *test).with_ignored_flag(!install));
    trials.extend(servers);
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test and its name.
type Test = (&'static str, fn());

fn trial(area: &str, name: &str, test: fn()) -> Trial {
    Trial::test(format!("{area}::{name}"), move || {
        test();
        Ok(())
    })
}
