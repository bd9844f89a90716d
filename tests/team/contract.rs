//! The contract of all carriers of the log, run against the embedded store and PostgreSQL alike.

use std::sync::Arc;

use libtest_mimic::Trial;
use retake_log::model::{AnnotationChange, Draft, Event, EventBody, EventKind, Refusal};
use retake_log::store::{Error, Order, RecencyKey, Status, Target};
use retake_testutils::{archive, at, batch, rate, record, restore, start};

use super::carrier::{Carrier, all_ids, contents};
use super::postgres_trial;
use super::servers::{Postgres, open};

/// A case of the contract, with its name.
type Case = (&'static str, fn(&dyn Carrier));

const CASES: [Case; 11] = [
    ("a_session_is_born_with_its_first_iteration", born_with_its_first_iteration),
    ("a_repeated_key_is_one_write", a_repeated_key_is_one_write),
    ("refusals_write_nothing", refusals_write_nothing),
    ("ids_continue_past_999_and_restart_each_day", ids_count_per_day),
    ("pages_are_complete_in_both_orders", pages),
    ("long_texts_and_odd_characters_come_back", long_texts),
    ("branches_know_their_children_across_sessions", branches),
    ("one_iteration_is_read_without_its_session", point_reads),
    ("archiving_does_not_touch_the_modification_time", archiving),
    ("a_new_session_needs_an_iteration", needs_an_iteration),
    ("titles_change_and_stay", titles),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, case) in CASES {
        trials.push(Trial::test(format!("contract::embedded::{name}"), move || {
            let dir = tempfile::tempdir().unwrap();
            let store = retake_testutils::open(dir.path());
            case(&store);
            assert_eq!(Carrier::problems(&store), Vec::<String>::new());
            Ok(())
        }));
    }
    // Function pointers carry no name, so the cases are repeated by index.
    for (at, (name, _)) in CASES.iter().enumerate() {
        trials.push(postgres_trial(&format!("contract::postgres::{name}"), ON_POSTGRES[at]));
    }
    trials.push(Trial::test("contract::embedded::many_writers_at_once", || {
        let dir = tempfile::tempdir().unwrap();
        many_writers(Arc::new(retake_testutils::open(dir.path())));
        Ok(())
    }));
    trials.push(postgres_trial("contract::postgres::many_writers_at_once", || {
        many_writers(Arc::new(open(&Postgres::shared().workspace())));
    }));
    trials.push(postgres_trial("contract::sessions_move_between_carriers_byte_for_byte", moving));
    trials
}

const ON_POSTGRES: [fn(); 11] = [
    || on_postgres(0),
    || on_postgres(1),
    || on_postgres(2),
    || on_postgres(3),
    || on_postgres(4),
    || on_postgres(5),
    || on_postgres(6),
    || on_postgres(7),
    || on_postgres(8),
    || on_postgres(9),
    || on_postgres(10),
];

fn on_postgres(case: usize) {
    let log = open(&Postgres::shared().workspace());
    (CASES[case].1)(&log);
    assert_eq!(Carrier::problems(&log), Vec::<String>::new());
}

fn refused(log: &dyn Carrier, batch: retake_log::store::Batch) -> Refusal {
    match log.append(batch) {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("expected a refusal: {other:?}"),
    }
}

fn born_with_its_first_iteration(log: &dyn Carrier) {
    assert_eq!(log.page(Status::All, Order::Recent, None, 10).unwrap(), []);
    let ack = log.append(start("a red fox", 0, "k1")).unwrap();
    let id = ack.head.id;
    assert_eq!((id.to_string().as_str(), ack.index, ack.repeated), ("session-2025-12-11-001", Some(0), false));
    assert_eq!(log.append(record(id, "a red fox, snow", 5, "k2")).unwrap().index, Some(1));
    let ack = log.append(rate(id, 1, 4, 9, "k3")).unwrap();
    assert_eq!(log.head(id).unwrap(), Some(ack.head));
    let events = log.events(id).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.body.kind()).collect();
    assert_eq!(kinds, [EventKind::Started, EventKind::Recorded, EventKind::Recorded, EventKind::Annotated]);
    let EventBody::Recorded { index: 1, iteration } = &events[2].body else { panic!("{events:?}") };
    assert_eq!(iteration.parent, Some(id.iteration(0)));
    assert!(events.windows(2).all(|pair| pair[1].prev == pair[0].hash));
    assert_eq!(log.children(id.iteration(0)).unwrap(), [id.iteration(1)]);
    let row = &log.page(Status::All, Order::Recent, None, 10).unwrap()[0];
    assert_eq!((row.iteration_count(), row.current_iteration_index()), (2, 1));
    assert_eq!((row.created_at, row.last_modified_at), (at(0), at(9)));
    let totals = log.totals().unwrap();
    assert_eq!((totals.sessions, totals.archived, totals.events), (1, 0, 4));
    assert_eq!(log.head("session-2025-12-11-002".parse().unwrap()).unwrap(), None);
}

fn a_repeated_key_is_one_write(log: &dyn Carrier) {
    let first = log.append(start("a", 0, "same")).unwrap();
    for _ in 0..2 {
        let again = log.append(start("a", 1, "same")).unwrap();
        assert_eq!((again.head.id, again.index, again.repeated), (first.head.id, Some(0), true));
    }
    // Also after the session was archived, and whatever count is expected.
    let id = first.head.id;
    let sent = record(id, "b", 2, "second");
    log.append(sent.clone()).unwrap();
    log.append(archive(id, 3, "archive")).unwrap();
    let again = log.append(retake_log::store::Batch { expected_iterations: Some(7), ..sent }).unwrap();
    assert_eq!((again.index, again.repeated, again.head.archived), (Some(1), true, true));
    assert_eq!(log.totals().unwrap().events, 4);
}

fn refusals_write_nothing(log: &dyn Carrier) {
    let id = log.append(start("a", 0, "k")).unwrap().head.id;
    let unknown = "session-2025-12-11-002".parse().unwrap();
    assert_eq!(refused(log, record(unknown, "x", 1, "k1")), Refusal::NoSession(unknown));
    assert_eq!(refused(log, rate(id, 1, 3, 1, "k2")), Refusal::NoIteration { id, index: 1, last: 0 });
    let mut stale = record(id, "x", 1, "k3");
    stale.expected_iterations = Some(2);
    assert_eq!(refused(log, stale), Refusal::Count { id, expected: 2, actual: 1 });
    log.append(archive(id, 2, "k4")).unwrap();
    assert_eq!(refused(log, record(id, "x", 3, "k5")), Refusal::Archived(id));
    assert_eq!(log.totals().unwrap().events, 3);
    log.append(restore(id, 4, "k6")).unwrap();
    // A refused request may be retried with its key.
    assert!(!log.append(record(id, "x", 5, "k5")).unwrap().repeated);
}

fn ids_count_per_day(log: &dyn Carrier) {
    let day = 24 * 3600 * 1000;
    let midnight = 14 * 3600 * 1000;
    for n in 0..1001 {
        log.append(start("a", n, &format!("a{n}"))).unwrap();
    }
    let ids = all_ids(log);
    assert_eq!(ids.len(), 1001);
    assert_eq!(ids[998].to_string(), "session-2025-12-11-999");
    assert_eq!(ids[999].to_string(), "session-2025-12-11-1000");
    let last = log.append(start("a", midnight - 1, "b")).unwrap().head.id;
    let first = log.append(start("a", midnight, "c")).unwrap().head.id;
    assert_eq!(last.to_string(), "session-2025-12-11-1002");
    assert_eq!(first.to_string(), "session-2025-12-12-001");
    let brought = log.append(start("a", -40 * day, "d")).unwrap().head.id;
    assert_eq!(brought.to_string(), "session-2025-11-01-001");
}

fn pages(log: &dyn Carrier) {
    let count = 300;
    for n in 0..count {
        let id = log.append(start("a", n % 140, &format!("s{n}"))).unwrap().head.id;
        if n % 3 == 0 {
            log.append(archive(id, n, &format!("x{n}"))).unwrap();
        }
    }
    let all = |status, order, size| {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = log.page(status, order, after, size).unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { return rows };
            after = Some(RecencyKey { modified: last.last_modified_at, id: last.id });
            rows.extend(page.iter().map(|row| (row.last_modified_at, row.id, row.archived)));
        }
    };
    for (status, wanted) in [(Status::All, 300), (Status::Active, 200), (Status::Archived, 100)] {
        let mut expected = all(status, Order::Oldest, 37);
        assert_eq!(expected.len(), wanted);
        assert!(expected.is_sorted());
        expected.reverse();
        for size in [1, 10, 97, 500] {
            assert_eq!(all(status, Order::Recent, size), expected, "{status:?} by {size}");
        }
    }
    let first = log.page(Status::All, Order::Oldest, None, 1).unwrap()[0].id;
    log.append(rate(first, 0, 5, 10_000, "r")).unwrap();
    assert_eq!(log.page(Status::All, Order::Recent, None, 1).unwrap()[0].id, first);
}

fn long_texts(log: &dyn Carrier) {
    let prompts = ["\u{0}\u{1}nul and \u{feff}marks", &"long ".repeat(4000), "é🦊\u{202e}", &"long ".repeat(4000)];
    let id = log.append(start(prompts[0], 0, "k0")).unwrap().head.id;
    for (n, prompt) in prompts.iter().enumerate().skip(1) {
        log.append(record(id, prompt, 1, &format!("k{n}\u{0}"))).unwrap();
    }
    let title = Draft::Title { title: Some("nul \u{0} title".to_owned()), project: Some("é".to_owned()) };
    log.append(batch(Target::Existing(id), 2, "title", vec![title])).unwrap();
    let found: Vec<String> = log
        .events(id)
        .unwrap()
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::Recorded { iteration, .. } => Some(iteration.recipe.prompt),
            _ => None,
        })
        .collect();
    assert_eq!(found, prompts);
    let head = log.head(id).unwrap().unwrap();
    assert_eq!((head.title.as_deref(), head.project.as_deref()), (Some("nul \u{0} title"), Some("é")));
}

fn branches(log: &dyn Carrier) {
    let first = log.append(start("a", 0, "a")).unwrap().head.id;
    log.append(record(first, "b", 1, "b")).unwrap();
    let mut sent = start("c", 2, "c");
    let Draft::Record(iteration) = &mut sent.drafts[1] else { unreachable!() };
    iteration.parent = Some(first.iteration(0));
    let second = log.append(sent).unwrap().head.id;
    assert_eq!(log.children(first.iteration(0)).unwrap(), [first.iteration(1), second.iteration(0)]);
    assert_eq!(log.children(second.iteration(0)).unwrap(), []);
}

/// The records of one iteration are its own and those of its annotations, whatever names surround the index.
fn point_reads(log: &dyn Carrier) {
    let id = log.append(start("0", 0, "a key")).unwrap().head.id;
    for index in 1..40u32 {
        let key = "k".repeat(index as usize * 7);
        log.append(record(id, &"x".repeat(index as usize), i64::from(index), &key)).unwrap();
        if index % 3 == 0 {
            log.append(rate(id, index / 2, 4, i64::from(index), &format!("rating {index}"))).unwrap();
        }
    }
    let events = log.events(id).unwrap();
    let records = log.records(id).unwrap();
    for index in 0..41u32 {
        let concerns = |event: &Event| match &event.body {
            EventBody::Recorded { index: at, .. } | EventBody::Annotated { index: at, .. } => *at == index,
            _ => false,
        };
        let own = events.iter().zip(&records).filter(|(event, _)| concerns(event)).map(|(_, record)| record.clone());
        assert_eq!(log.records_of_iteration(id.iteration(index)).unwrap(), own.collect::<Vec<_>>(), "{index}");
    }
}

fn archiving(log: &dyn Carrier) {
    let id = log.append(start("a", 100, "a")).unwrap().head.id;
    let head = log.append(archive(id, 5000, "b")).unwrap().head;
    assert_eq!(head.span.unwrap().last_modified_at, at(100));
    assert_eq!(log.totals().unwrap().archived, 1);
    // Annotating is allowed, and time does not run backwards.
    let head = log.append(rate(id, 0, 3, 50, "c")).unwrap().head;
    assert_eq!(head.span.unwrap().last_modified_at, at(100));
    log.append(restore(id, 6000, "d")).unwrap();
    assert_eq!(log.totals().unwrap().archived, 0);
}

fn needs_an_iteration(log: &dyn Carrier) {
    let empty = batch(Target::New(at(0).day()), 0, "k", vec![Draft::Start { title: None, project: None }]);
    assert!(matches!(log.append(empty), Err(Error::Misuse(_))));
    assert_eq!(log.append(start("a", 0, "k")).unwrap().head.id.to_string(), "session-2025-12-11-001");
}

fn titles(log: &dyn Carrier) {
    let mut sent = start("a", 0, "a");
    sent.drafts[0] = Draft::Start { title: Some("Fox".to_owned()), project: None };
    let id = log.append(sent).unwrap().head.id;
    let change = |title: Option<&str>, project: Option<&str>| Draft::Title {
        title: title.map(str::to_owned),
        project: project.map(str::to_owned),
    };
    log.append(batch(Target::Existing(id), 1, "b", vec![change(None, Some("Film"))])).unwrap();
    let head = log.append(batch(Target::Existing(id), 1, "c", vec![change(Some(""), None)])).unwrap().head;
    assert_eq!((head.title.as_deref(), head.project.as_deref()), (None, Some("Film")), "an empty title removes it");
    assert_eq!(log.head(id).unwrap(), Some(head));
}

/// Threads create, record, annotate and repeat concurrently: no gaps, nothing lost, nothing duplicated.
fn many_writers(log: Arc<dyn Carrier>) {
    let shared = log.append(start("shared", 0, "shared")).unwrap().head.id;
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for n in 0..25 {
                    let sent = start("own", n, &format!("{thread} {n} start"));
                    let id = log.append(sent.clone()).unwrap().head.id;
                    assert!(log.append(sent).unwrap().repeated);
                    log.append(record(id, "more", n, &format!("{thread} {n} own"))).unwrap();
                    log.append(record(shared, "shared", n, &format!("{thread} {n} shared"))).unwrap();
                    log.append(start("one for all", n, &format!("{n} together"))).unwrap();
                    let change = AnnotationChange { rating: Some(3), ..AnnotationChange::default() };
                    let drafts = vec![Draft::Annotate { index: 0, change }];
                    log.append(batch(Target::Existing(shared), n, &format!("{thread} {n} rate"), drafts)).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let found = contents(&*log);
    let expected = 1 + 8 * 25 + 25;
    assert_eq!(found.sessions.len(), expected);
    for (n, (head, _)) in found.sessions.iter().enumerate() {
        assert_eq!(head.id.number().get() as usize, n + 1, "ids are gap-free");
    }
    assert_eq!(log.head(shared).unwrap().unwrap().last_index, Some(8 * 25));
    assert_eq!(log.problems(), Vec::<String>::new());
}

fn moving() {
    let dir = tempfile::tempdir().unwrap();
    let local = retake_testutils::open(dir.path());
    let id = local.append(start("a", 0, "a")).unwrap().head.id;
    local.append(record(id, &"long ".repeat(4000), 1, "b")).unwrap();
    local.append(rate(id, 1, 5, 2, "c")).unwrap();
    local.append(archive(id, 3, "d")).unwrap();
    let second = local.append(start("other", 4, "e")).unwrap().head.id;
    let team = open(&Postgres::shared().workspace());
    Carrier::put_text(&team, &"long ".repeat(4000));
    // The second one first: its number leaves a gap for the first.
    assert_eq!(Carrier::import(&team, &Carrier::records(&local, second).unwrap()).unwrap(), 2);
    let records = Carrier::records(&local, id).unwrap();
    assert_eq!(Carrier::import(&team, &records[..2]).unwrap(), 2);
    assert_eq!(Carrier::import(&team, &records).unwrap(), 3, "what is there is skipped");
    assert_eq!(Carrier::import(&team, &records).unwrap(), 0);
    assert_eq!(contents(&team), contents(&local));
    assert_eq!(Carrier::records(&team, id).unwrap(), records);
    // The keys were imported too, and the next session takes the next number.
    assert!(Carrier::append(&team, start("a", 0, "a")).unwrap().repeated);
    assert_eq!(Carrier::append(&team, start("b", 0, "f")).unwrap().head.id.to_string(), "session-2025-12-11-003");
    // Back, into an empty directory.
    let other = tempfile::tempdir().unwrap();
    let back = retake_testutils::open(other.path());
    Carrier::put_text(&back, &"long ".repeat(4000));
    for id in all_ids(&team) {
        Carrier::import(&back, &Carrier::records(&team, id).unwrap()).unwrap();
    }
    assert_eq!(contents(&back), contents(&team));
    // An altered or foreign record is refused.
    let mut altered = records;
    altered[2][100] ^= 1;
    assert!(matches!(Carrier::import(&team, &altered), Err(Error::Import { .. })));
    let fork = Carrier::append(&team, rate(second, 0, 1, 9, "fork")).unwrap();
    assert_eq!(fork.head.next_seq, 3);
    local.append(rate(second, 0, 2, 9, "local")).unwrap();
    assert!(matches!(Carrier::import(&team, &Carrier::records(&local, second).unwrap()), Err(Error::Import { .. })));
}
