//! Several machines: processes that only share the database.

use std::process::{Command, Stdio};

use libtest_mimic::Trial;
use retake_testutils::{archive, rate, record, restore, start};

use super::carrier::{Carrier, contents};
use super::postgres_trial;
use super::servers::{Postgres, open};

/// The variable that makes this program a separate machine instead of a test run.
pub(crate) const CHILD: &str = "RETAKE_TEAM_TEST_CHILD";

const MACHINES: usize = 8;
const CREATES: usize = 200;

pub(crate) fn trials() -> Vec<Trial> {
    vec![postgres_trial("processes::eight_machines_create_and_mix_without_gaps", eight_machines)]
}

/// Runs a machine: creates sessions, records into its own and a shared one, annotates, archives and repeats.
pub(crate) fn child(role: &str) {
    if role == super::recorders::IMAGE_SERVER {
        return super::recorders::image_server();
    }
    if let Some(arguments) = role.strip_prefix("images ") {
        return super::images::child(arguments);
    }
    let (machine, url) = role.split_once(' ').unwrap();
    let log = open(url);
    let shared = "session-2025-12-11-001".parse().unwrap();
    for n in 0..CREATES {
        let time = i64::try_from(n).unwrap();
        let key = |what: &str| format!("{machine} {n} {what}");
        let sent = start(&format!("machine {machine}"), time, &key("start"));
        let id = log.append(sent.clone()).unwrap().head.id;
        match n % 5 {
            0 => {
                log.append(record(id, "more", time, &key("more"))).unwrap();
            }
            1 => {
                log.append(record(shared, "shared", time, &key("shared"))).unwrap();
            }
            2 => {
                log.append(rate(id, 0, 5, time, &key("rate"))).unwrap();
            }
            3 => {
                log.append(archive(id, time, &key("archive"))).unwrap();
                log.append(restore(id, time, &key("restore"))).unwrap();
            }
            _ => assert!(log.append(sent).unwrap().repeated),
        }
    }
}

fn eight_machines() {
    let url = Postgres::shared().workspace();
    let log = open(&url);
    log.append(start("shared", 0, "shared")).unwrap();
    let homes: Vec<_> = (0..MACHINES).map(|_| tempfile::tempdir().unwrap()).collect();
    let machines: Vec<_> = homes
        .iter()
        .enumerate()
        .map(|(machine, home)| {
            Command::new(std::env::current_exe().unwrap())
                .env(CHILD, format!("{machine} {url}"))
                .env("HOME", home.path())
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut machine in machines {
        assert!(machine.wait().unwrap().success());
    }
    let found = contents(&log);
    assert_eq!(found.sessions.len(), 1 + MACHINES * CREATES);
    for (n, (head, _)) in found.sessions.iter().enumerate() {
        assert_eq!(head.id.number().get() as usize, n + 1, "ids are gap-free");
    }
    let per_machine = CREATES * 2 + CREATES / 5 * 5;
    assert_eq!(found.totals.events, (2 + MACHINES * per_machine) as u64);
    assert_eq!(log.head("session-2025-12-11-001".parse().unwrap()).unwrap().unwrap().last_index, Some(320));
    assert_eq!(Carrier::problems(&log), Vec::<String>::new());
}
