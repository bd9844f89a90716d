//! The store by itself: appended events are read back in order, exactly once, after any reopening.

use std::sync::Arc;

use retake_log::model::{Draft, EventBody, IterationId, IterationState, Refusal, Session};
use retake_log::store::{Detail, Error, Order, RecencyKey, Status, Store, Target};
use retake_testutils::*;

#[test]
fn a_session_starts_with_its_first_iteration_and_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.page(Status::All, Order::Recent, None, 10).unwrap(), []);
    let ack = store.append(start("a red fox", 0, "k1")).unwrap();
    let id = ack.head.id;
    assert_eq!(id.to_string(), "session-2025-12-11-001");
    assert_eq!(ack.index, Some(0));
    let ack = store.append(record(id, "a red fox, snow", 5, "k2")).unwrap();
    assert_eq!(ack.index, Some(1));
    store.append(rate(id, 1, 4, 9, "k3")).unwrap();
    let before = contents(&store);
    store.close().unwrap();

    let store = open(dir.path());
    assert_eq!(contents(&store), before);
    let events = store.events(id, Detail::Full).unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event.body.kind().as_str()).collect();
    assert_eq!(kinds, ["started", "recorded", "recorded", "annotated"]);
    let EventBody::Recorded { index: 1, iteration } = &events[2].body else { panic!("{events:?}") };
    assert_eq!(iteration.parent, Some(id.iteration(0)));
    assert_eq!(iteration.recipe.prompt, "a red fox, snow");
    assert!(events.windows(2).all(|pair| pair[1].prev == pair[0].hash));
    assert_eq!(store.children(id.iteration(0)).unwrap(), [id.iteration(1)]);
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
    assert_eq!(store.trail(id).unwrap().faults, []);
}

#[test]
fn a_repeated_key_is_one_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = store.append(start("a", 0, "same")).unwrap();
    for _ in 0..2 {
        let again = store.append(start("a", 1, "same")).unwrap();
        assert_eq!((again.head.id, again.index, again.repeated), (first.head.id, Some(0), true));
    }
    store.close().unwrap();
    let store = open(dir.path());
    assert!(store.append(start("a", 2, "same")).unwrap().repeated);
    assert_eq!(store.totals().unwrap().sessions, 1);
    // Many concurrent appends with one key.
    let store = Arc::new(store);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || store.append(start("b", 3, "together")).unwrap())
        })
        .collect();
    let acks: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(acks.iter().filter(|ack| !ack.repeated).count(), 1);
    assert_eq!(store.totals().unwrap().sessions, 2);
}

#[test]
fn refusals_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = store.append(start("a", 0, "k")).unwrap().head.id;
    let unknown = "session-2025-12-11-002".parse().unwrap();
    let check = |batch, expected: Refusal| match store.append(batch) {
        Err(Error::Refused(refusal)) => assert_eq!(refusal, expected),
        other => panic!("{other:?}"),
    };
    check(record(unknown, "x", 1, "k1"), Refusal::NoSession(unknown));
    check(rate(id, 1, 3, 1, "k2"), Refusal::NoIteration { id, index: 1, last: 0 });
    let mut stale = record(id, "x", 1, "k3");
    stale.expected_iterations = Some(2);
    check(stale, Refusal::Count { id, expected: 2, actual: 1 });
    store.append(archive(id, 2, "k4")).unwrap();
    check(record(id, "x", 3, "k5"), Refusal::Archived(id));
    assert_eq!(store.totals().unwrap().events, 3);
    store.append(restore(id, 4, "k6")).unwrap();
    // A refused request may be retried with its key.
    assert!(!store.append(record(id, "x", 5, "k5")).unwrap().repeated);
}

#[test]
fn ids_continue_past_999_and_restart_each_day() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let day = 24 * 3600 * 1000;
    let midnight = 14 * 3600 * 1000;
    for n in 0..1001 {
        store.append(start("a", n, &format!("a{n}"))).unwrap();
    }
    let ids = store.ids(None, 2000).unwrap();
    assert_eq!(ids.len(), 1001);
    assert_eq!(ids[998].to_string(), "session-2025-12-11-999");
    assert_eq!(ids[999].to_string(), "session-2025-12-11-1000");
    let last = store.append(start("a", midnight - 1, "b")).unwrap().head.id;
    let first = store.append(start("a", midnight, "c")).unwrap().head.id;
    assert_eq!(last.to_string(), "session-2025-12-11-1002");
    assert_eq!(first.to_string(), "session-2025-12-12-001");
    // Imported work keeps its day.
    let brought = store.append(start("a", -40 * day, "d")).unwrap().head.id;
    assert_eq!(brought.to_string(), "session-2025-11-01-001");
    store.close().unwrap();
    let store = open(dir.path());
    assert_eq!(store.append(start("a", 5, "e")).unwrap().head.id.to_string(), "session-2025-12-11-1003");
}

#[test]
fn pages_are_the_same_from_the_window_and_from_the_tree() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let count = 1500;
    for n in 0..count {
        let id = store.append(start("a", n % 700, &format!("s{n}"))).unwrap().head.id;
        if n % 3 == 0 {
            store.append(archive(id, n, &format!("x{n}"))).unwrap();
        }
    }
    let all = |store: &Store, status, order, size| {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = store.page(status, order, after, size).unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { return rows };
            after = Some(RecencyKey { modified: last.last_modified_at, id: last.id });
            rows.extend(page.iter().map(|row| (row.last_modified_at, row.id, row.archived)));
        }
    };
    for status in [Status::All, Status::Active, Status::Archived] {
        let mut expected = all(&store, status, Order::Oldest, 97);
        let wanted = match status {
            Status::All => count,
            Status::Active => count - count / 3,
            Status::Archived => count / 3,
        };
        assert_eq!(expected.len(), usize::try_from(wanted).unwrap());
        assert!(expected.is_sorted());
        expected.reverse();
        for size in [1, 10, 97, 511, 512, 513, 5000] {
            assert_eq!(all(&store, status, Order::Recent, size), expected, "{status:?} by {size}");
        }
    }
    // The list of recent sessions follows changes.
    let first = store.page(Status::All, Order::Oldest, None, 1).unwrap()[0].id;
    store.append(rate(first, 0, 5, 10_000, "r")).unwrap();
    assert_eq!(store.page(Status::All, Order::Recent, None, 1).unwrap()[0].id, first);
    assert_eq!(all(&store, Status::All, Order::Recent, 100).len(), usize::try_from(count).unwrap());
}

#[test]
fn last_modified_never_decreases() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let id = store.append(start("a", 1000, "1")).unwrap().head.id;
    let head = store.append(record(id, "b", -5000, "2")).unwrap().head;
    assert_eq!(head.summary().unwrap().last_modified_at, at(1000));
    let head = store.append(rate(id, 0, 2, -9000, "3")).unwrap().head;
    assert_eq!(head.summary().unwrap().last_modified_at, at(1000));
    let head = store.append(archive(id, 90_000, "4")).unwrap().head;
    assert_eq!(head.summary().unwrap().last_modified_at, at(1000), "archiving is not a modification");
    assert_eq!(head.summary().unwrap().created_at, at(1000));
}

#[test]
fn long_texts_are_restored_from_either_copy() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let workflow = "{\"nodes\":\"".to_owned() + &"n".repeat(900_000) + "\"}";
    let mut batch = start(&"long prompt ".repeat(1000), 0, "k");
    let Draft::Record(iteration) = &mut batch.drafts[1] else { panic!() };
    iteration.recipe.parameters = serde_json::from_str(&workflow).unwrap();
    let expected = iteration.recipe.clone();
    let id = store.append(batch).unwrap().head.id;
    let recipe = |store: &Store, detail| {
        let events = store.events(id, detail).unwrap();
        let EventBody::Recorded { iteration, .. } = &events[1].body else { panic!() };
        iteration.recipe.clone()
    };
    assert_eq!(recipe(&store, Detail::Full), expected);
    let brief = recipe(&store, Detail::Brief);
    assert_eq!((brief.prompt.len(), brief.parameters.len()), (12_000, 0));
    store.close().unwrap();

    std::fs::remove_dir_all(dir.path().join("texts")).unwrap();
    let store = open(dir.path());
    assert_eq!(recipe(&store, Detail::Full), expected, "the journal gives the texts back");
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "and their files are there again");
    store.close().unwrap();
    std::fs::remove_dir_all(dir.path().join("journal")).unwrap();
    let store = open(dir.path());
    assert_eq!(recipe(&store, Detail::Full), expected, "the files and the database give the journal back");
    store.close().unwrap();
    std::fs::remove_dir_all(dir.path().join("texts")).unwrap();
    assert_eq!(recipe(&open(dir.path()), Detail::Full), expected);
}

#[test]
fn followers_receive_every_event_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.append(start("before", 0, "0")).unwrap();
    let news = store.follow();
    let id = store.append(start("a", 1, "1")).unwrap().head.id;
    store.append(rate(id, 0, 3, 2, "2")).unwrap();
    let heard: Vec<_> = news.try_iter().map(|event| (event.session, event.seq, event.body.kind().as_str())).collect();
    assert_eq!(heard, [(id, 0, "started"), (id, 1, "recorded"), (id, 2, "annotated")]);
}

#[test]
fn exported_records_produce_the_same_sessions_elsewhere() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let store = open(here.path());
    for n in 0..5 {
        let id = store.append(start("a", n, &format!("s{n}"))).unwrap().head.id;
        store.append(record(id, "b", n + 10, &format!("r{n}"))).unwrap();
    }
    let copy = open(there.path());
    for id in store.ids(None, 10).unwrap() {
        let records = store.records(id).unwrap();
        assert_eq!(copy.import(&records).unwrap(), 3);
        assert_eq!(copy.import(&records).unwrap(), 0, "twice changes nothing");
        assert_eq!(copy.import(&records[..1]).unwrap(), 0);
    }
    assert_eq!(contents(&copy), contents(&store));
    assert_eq!(copy.append(start("a", 1, "new")).unwrap().head.id.to_string(), "session-2025-12-11-006");
    assert!(copy.append(record("session-2025-12-11-001".parse().unwrap(), "b", 0, "r0")).unwrap().repeated);

    let id = "session-2025-12-11-001".parse().unwrap();
    let records = store.records(id).unwrap();
    let mut altered = records.clone();
    altered[1][90] ^= 1;
    let fresh = tempfile::tempdir().unwrap();
    let fresh = open(fresh.path());
    assert!(matches!(fresh.import(&altered), Err(Error::Import { .. })));
    assert!(matches!(fresh.import(&records[1..]), Err(Error::Import { .. })), "a chain must begin at its beginning");
    assert_eq!(fresh.totals().unwrap().events, 0);
    store.append(rate(id, 0, 1, 99, "x")).unwrap();
    copy.append(rate(id, 0, 5, 99, "y")).unwrap();
    assert!(matches!(copy.import(&store.records(id).unwrap()), Err(Error::Import { .. })), "they have parted ways");
}

#[test]
fn a_session_must_begin_with_an_iteration() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let target = Target::New(at(0).day());
    let lonely = batch(target, 0, "k", vec![Draft::Start { title: None, project: None }]);
    assert!(matches!(store.append(lonely), Err(Error::Misuse(_))));
    assert_eq!(store.totals().unwrap().events, 0);
}

/// Children are found whether they follow their parent, branch off later, or are in another session.
#[test]
fn children_are_found_wherever_they_branch_off() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    let from = |parent: u32, index: u32| {
        let mut sent = record(id, "branch", i64::from(index), &format!("k{index}"));
        let Draft::Record(iteration) = &mut sent.drafts[0] else { unreachable!() };
        iteration.parent = Some(id.iteration(parent));
        sent
    };
    for (index, parent) in [(1, 0), (2, 0), (3, 2), (4, 0)] {
        store.append(from(parent, index)).unwrap();
    }
    let mut elsewhere = start("elsewhere", 9, "other");
    let Draft::Record(iteration) = &mut elsewhere.drafts[1] else { unreachable!() };
    iteration.parent = Some(id.iteration(0));
    let other = store.append(elsewhere).unwrap().head.id;
    let check = |store: &Store| {
        let expected = [id.iteration(1), id.iteration(2), id.iteration(4), other.iteration(0)];
        assert_eq!(store.children(id.iteration(0)).unwrap(), expected);
        assert_eq!(store.children(id.iteration(2)).unwrap(), [id.iteration(3)]);
        for childless in [1, 3, 4, 5, u32::MAX] {
            assert_eq!(store.children(id.iteration(childless)).unwrap(), [], "{childless}");
        }
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
    };
    check(&store);
    store.close().unwrap();
    std::fs::remove_dir_all(home.path().join("db")).unwrap();
    check(&open(home.path()));
}

/// One iteration can be read without its session, with the same result.
#[test]
fn a_point_read_equals_the_iteration_in_its_session() {
    let read_alone = |store: &Store, id: IterationId| -> Option<IterationState> {
        let events = store.events_of_iteration(id, Detail::Full).unwrap();
        Session::fold(events).and_then(|mut session| session.iterations.remove(&id.index))
    };
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    for index in 1..90u32 {
        let millis = i64::from(index) * 10;
        let prompt = format!("take {index} {}", "brush ".repeat(index as usize % 40));
        store.append(record(id, &prompt, millis, &format!("k{index}"))).unwrap();
        // Annotations come soon after, late, and twice.
        let rated = [index, index / 2, 3];
        for (at, rated) in rated.into_iter().enumerate().take(index as usize % 4) {
            let rating = u8::try_from(1 + (index + rated) % 5).unwrap();
            store.append(rate(id, rated, rating, millis + 1, &format!("r{index}-{at}"))).unwrap();
        }
    }
    store.close().unwrap();
    let store = open(home.path());
    for extra in [0, 1] {
        // Once from the state at open, and once with an annotation that has not been applied yet.
        if extra > 0 {
            store.append(rate(id, 40, 5, 5000, "late")).unwrap();
        }
        let session = Session::fold(store.events(id, Detail::Full).unwrap()).unwrap();
        assert_eq!(session.iterations.len(), 90);
        for (index, expected) in &session.iterations {
            assert_eq!(read_alone(&store, id.iteration(*index)).as_ref(), Some(expected), "iteration {index}");
        }
        assert_eq!(read_alone(&store, id.iteration(90)), None);
    }
}
