//! The number of queries: the same for a page of many sessions as for a page of few, and for one iteration of a long
//! session as for one of a short session.

use libtest_mimic::Trial;
use retake_log::model::SessionId;
use retake_testutils::record;

use super::commands::{Machine, set_up};
use super::postgres_trial;
use super::servers::{Postgres, open};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        postgres_trial("round_trips::a_page_takes_as_many_queries_however_long_it_is", pages),
        postgres_trial("round_trips::the_children_of_an_iteration_are_a_point_read", children),
    ]
}

/// Returns the statements on the log's tables that the server received while something ran, except those of followers,
/// which poll periodically.
fn statements(server: &Postgres, run: impl FnOnce()) -> Vec<String> {
    let before = server.log().len();
    run();
    let log = server.log();
    let reads = |line: &&str| {
        let names_a_table = line.contains(".records") || line.contains(".heads");
        line.contains(": SELECT") && names_a_table && !line.contains("horizon")
    };
    log[before..].lines().filter(reads).map(str::to_owned).collect()
}

fn pages() {
    let server = Postgres::start(&["log_statement = 'all'"]);
    let images = tempfile::tempdir().unwrap();
    let (_, url) = set_up(&server, &images.path().join("images"));
    let machine = Machine::new(&url);
    let record = |n: u32| {
        let prompt = format!("a fox, study {n}");
        machine.ok(&["record", &prompt, "--cost", "0.25 USD", "--project", "foxes"]);
    };
    (0..2).for_each(record);
    let verbs: [&[&str]; 3] = [&["list"], &["list", "--json"], &["list", "--projects"]];
    let few = verbs.map(|verb| statements(&server, || drop(machine.ok(verb))));
    (2..12).for_each(record);
    let many = verbs.map(|verb| statements(&server, || drop(machine.ok(verb))));
    for (verb, (few, many)) in verbs.iter().zip(few.iter().zip(&many)) {
        assert_eq!(few.len(), many.len(), "{verb:?}: {many:#?}");
        assert!(!few.is_empty(), "statements are logged");
    }
    let list = machine.json(&["list", "--json"]);
    assert_eq!(list["totalSessions"], 12);
    assert!(list["sessions"].as_array().unwrap().iter().all(|row| row["cost"][0]["amount"] == 0.25), "{list}");
    let projects = machine.json(&["list", "--projects", "--json"]);
    assert_eq!(projects["projects"][0]["cost"][0]["amount"], 3.0, "{projects}");
}

fn children() {
    let server = Postgres::start(&["log_statement = 'all'"]);
    let log = open(&server.workspace());
    let id: SessionId = log.append(retake_testutils::start("a", 0, "a")).unwrap().head.id;
    for n in 1..60 {
        log.append(record(id, "b", n, &format!("{n}"))).unwrap();
    }
    let sent = statements(&server, || {
        assert_eq!(log.children(id.iteration(7)).unwrap(), [id.iteration(8)]);
        assert_eq!(log.children(id.iteration(59)).unwrap(), []);
    });
    let is_point_read = |statement: &String| statement.contains("seq >=") || !statement.contains(".records");
    assert!(sent.iter().all(is_point_read), "{sent:#?}");
}
