//! Team workspaces against real servers: PostgreSQL 15 and an S3 server on loopback, each private to the run.
//!
//! If a server is not installed, its tests are reported as ignored with instructions; with `RETAKE_TEST_INSTALL=1`,
//! they install it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "test code: a failure is a test failure"
)]

mod access;
mod carrier;
mod commands;
mod contract;
mod database;
mod failover;
mod faults;
mod following;
mod grouping;
mod images;
mod machines;
mod model;
mod processes;
mod proxy;
mod recorders;
mod round_trips;
mod s3;
mod servers;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Ok(role) = std::env::var(processes::CHILD) {
        processes::child(&role);
        return;
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    trials.extend(contract::trials());
    trials.extend(model::trials());
    trials.extend(database::trials());
    trials.extend(grouping::trials());
    trials.extend(round_trips::trials());
    trials.extend(following::trials());
    trials.extend(machines::trials());
    trials.extend(commands::trials());
    trials.extend(recorders::trials());
    trials.extend(access::trials());
    trials.extend(faults::trials());
    trials.extend(processes::trials());
    trials.extend(images::trials());
    trials.extend(failover::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    servers::stop_all();
    s3::stop();
    conclusion.exit();
}

/// A test that needs PostgreSQL.
fn postgres_trial(name: &str, test: fn()) -> Trial {
    let missing = servers::postgres_missing();
    let kind = if missing { servers::HOW_TO_GET_POSTGRES } else { "" };
    let test = move || {
        test();
        Ok(())
    };
    Trial::test(name, test).with_kind(kind).with_ignored_flag(missing)
}
