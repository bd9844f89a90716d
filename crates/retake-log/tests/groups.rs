//! Batches appended together: one sync for all, each independent, and nothing after the first refusal.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use retake_log::disk::{Disk, Observer, Op};
use retake_log::model::{Draft, Refusal, SessionId};
use retake_log::store::{Batch, Error, Options, Store, Target};
use retake_testutils::faults::each_failing_operation;
use retake_testutils::*;

/// EIO, ENOSPC.
const ERRORS: [i32; 2] = [5, 28];

/// Counts syncs of the journal.
#[derive(Default)]
struct JournalSyncs(AtomicU64);

impl JournalSyncs {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Observer for JournalSyncs {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        if matches!(op, Op::SyncFile(path) if path.extension().is_some_and(|extension| extension == "log")) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn on<O: Observer + 'static>(observer: &Arc<O>) -> Options {
    options_on(Disk::observed(Arc::clone(observer) as Arc<dyn Observer>))
}

/// Returns a batch that expects the session to have this many iterations.
fn expecting(count: u32, batch: Batch) -> Batch {
    Batch { expected_iterations: Some(count), ..batch }
}

/// Returns a batch with a text that is too long for a record.
fn long(mut batch: Batch) -> Batch {
    let text = batch.key.repeat(3000);
    for draft in &mut batch.drafts {
        if let Draft::Record(iteration) = draft {
            iteration.recipe.parameters.insert("workflow".to_owned(), text.clone().into());
        }
    }
    batch
}

#[test]
fn a_group_is_durable_with_one_sync_of_the_journal() {
    let home = tempfile::tempdir().unwrap();
    let syncs = Arc::new(JournalSyncs::default());
    let store = Store::open(home.path(), on(&syncs)).unwrap();
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    let before = syncs.count();
    let mut batches: Vec<Batch> =
        (1..50).map(|n| expecting(n, record(id, "next", n.into(), &format!("k{n}")))).collect();
    batches.push(start("another", 99, "other"));
    let group = store.append_all(&batches);
    assert!(group.error.is_none(), "{:?}", group.error);
    let indexes: Vec<Option<u32>> = group.acks.iter().map(|ack| ack.index).collect();
    assert_eq!(indexes, (1..50).map(Some).chain([Some(0)]).collect::<Vec<_>>());
    assert_eq!(syncs.count() - before, 1);
    let expected = contents(&store);
    drop(store);
    assert_eq!(contents(&open(home.path())), expected);
}

#[test]
fn the_first_refusal_ends_a_group() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    let batches = [
        expecting(1, record(id, "second", 1, "k1")),
        expecting(7, record(id, "not the eighth", 2, "k2")),
        record(id, "never tried", 3, "k3"),
    ];
    let group = store.append_all(&batches);
    assert_eq!(group.acks.len(), 1);
    assert!(matches!(group.error, Some(Error::Refused(Refusal::Count { expected: 7, actual: 2, .. }))));
    assert_eq!(store.head(id).unwrap().unwrap().last_index, Some(1));
    // None of the others syncs as seen.
    assert!(store.append_all(&batches[2..]).acks.iter().all(|ack| !ack.repeated));
    let empty = batch(Target::Existing(id), 4, "k4", Vec::new());
    let group = store.append_all(&[record(id, "fourth", 4, "k5"), empty]);
    assert_eq!((group.acks.len(), matches!(group.error, Some(Error::Misuse(_)))), (1, true));
    assert!(store.append_all(&[]).error.is_none());
}

#[test]
fn a_key_syncs_once_also_within_a_group() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    let group = store.append_all(&[
        record(id, "second", 1, "k1"),
        record(id, "second", 1, "k1"),
        start("first", 0, "k0"),
        record(id, "third", 2, "k2"),
    ]);
    assert!(group.error.is_none(), "{:?}", group.error);
    let acks: Vec<(Option<u32>, bool)> = group.acks.iter().map(|ack| (ack.index, ack.repeated)).collect();
    assert_eq!(acks, [(Some(1), false), (Some(1), true), (Some(0), true), (Some(2), false)]);
}

#[test]
fn groups_of_several_threads_do_not_interfere() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let id = store.append(start("first", 0, "k0")).unwrap().head.id;
    let indexes: Vec<u32> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut indexes = Vec::new();
                    for group in 0..20 {
                        // Some keys are shared with the other threads.
                        let key = |n: u64| if n == 3 { format!("s{group}") } else { format!("{thread} {group} {n}") };
                        let batches: Vec<Batch> = (0..6).map(|n| record(id, "next", 1, &key(n))).collect();
                        let group = store.append_all(&batches);
                        assert!(group.error.is_none(), "{:?}", group.error);
                        assert_eq!(group.acks.len(), 6);
                        indexes.extend(group.acks.iter().filter(|ack| !ack.repeated).map(|ack| ack.index.unwrap()));
                    }
                    indexes
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(indexes.len(), 4 * 20 * 5 + 20);
    assert_eq!(indexes.iter().copied().collect::<BTreeSet<u32>>(), (1..=420).collect());
}

/// Returns the session that exists before the group is appended.
fn first() -> SessionId {
    "session-2025-12-11-001".parse().unwrap()
}

fn group() -> Vec<Batch> {
    vec![
        expecting(1, record(first(), "second", 1, "w0")),
        long(expecting(2, record(first(), "third", 2, "w1"))),
        start("another", 3, "w2"),
        long(record(first(), "fourth", 4, "w3")),
        record(first(), "fifth", 5, "w4"),
    ]
}

#[test]
fn every_operation_of_a_group_may_fail_once() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let store = open(&base);
    store.append(start("first", 0, "k0")).unwrap();
    store.close().unwrap();
    let cases = each_failing_operation(&ERRORS, |fails, what| {
        let dir = home.path().join("case");
        copy(&base, &dir);
        let mut outcome = None;
        match Store::open(&dir, on(fails)) {
            Ok(store) => {
                outcome = Some(store.append_all(&group()));
                // Closing may hit the error; acknowledged writes do not depend on it.
                let _ = store.close();
            }
            Err(Error::Io { .. }) => {}
            Err(other) => panic!("{what}: {other}"),
        }
        let store = open(&dir);
        let again = store.append_all(&group());
        assert!(again.error.is_none(), "{what}: {:?}", again.error);
        if let Some(outcome) = outcome {
            let is_unknown = matches!(outcome.error, Some(Error::OutcomeUnknown { .. }));
            assert_eq!(outcome.error.is_none(), outcome.acks.len() == group().len(), "{what}");
            for (number, ack) in again.acks.iter().enumerate() {
                if number < outcome.acks.len() {
                    assert!(ack.repeated, "an acknowledged write is gone: {what}");
                } else if !is_unknown {
                    assert!(!ack.repeated, "a refused write appeared: {what}");
                }
            }
        }
        assert_eq!(store.totals().unwrap().events, 8, "{what}");
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
        store.close().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    });
    assert!(cases > 50, "{cases}");
}
