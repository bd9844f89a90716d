//! Every disk operation fails once, with each of the transient errors: acknowledged writes stay, refused ones never
//! appear, a healthy workspace is not called damaged, and afterwards everything is as before.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use retake_log::disk::{Disk, Observer};
use retake_log::model::SessionId;
use retake_log::store::{Batch, Error, Options, Store};
use retake_testutils::faults::each_failing_operation;
use retake_testutils::*;

/// EIO, ENOSPC, EMFILE, ENOMEM, EACCES.
const ERRORS: [i32; 5] = [5, 28, 24, 12, 13];

fn small(disk: Disk) -> Options {
    Options { segment_bytes: 2 << 10, ..options_on(disk) }
}

fn fill(dir: &Path) -> Contents {
    let store = Store::open(dir, small(Disk::default())).unwrap();
    for n in 0..4 {
        let id = store.append(start("before", n, &format!("s{n}"))).unwrap().head.id;
        store.append(record(id, "again", n + 5, &format!("r{n}"))).unwrap();
    }
    let contents = contents(&store);
    store.close().unwrap();
    contents
}

/// Returns a client's writes, one of each kind, the last two by import.
fn writes() -> Vec<Batch> {
    let first: SessionId = "session-2025-12-11-001".parse().unwrap();
    // Another session is archived, so that each write can be repeated whatever happened to the others.
    let second: SessionId = "session-2025-12-11-002".parse().unwrap();
    let mut long = start("long", 20, "w0");
    if let Some(retake_log::model::Draft::Record(iteration)) = long.drafts.get_mut(1) {
        iteration.recipe.parameters.insert("workflow".to_owned(), "w".repeat(6000).into());
    }
    vec![long, record(first, "more", 21, "w1"), rate(first, 0, 4, 22, "w2"), archive(second, 23, "w3")]
}

#[test]
fn every_operation_of_opening_and_writing_may_fail_once() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let before = fill(&base);
    let elsewhere = Store::open(&home.path().join("elsewhere"), small(Disk::default())).unwrap();
    let imported = elsewhere.append(start("elsewhere", -90_000_000, "e0")).unwrap().head.id;
    let records = elsewhere.records(imported).unwrap();
    let cases = each_failing_operation(&ERRORS, |fails, what| {
        let dir = home.path().join("case");
        copy(&base, &dir);
        let mut outcomes = Vec::new();
        let mut import = None;
        match Store::open(&dir, small(Disk::observed(Arc::clone(fails) as Arc<dyn Observer>))) {
            Ok(store) => {
                outcomes = writes().into_iter().map(|batch| store.append(batch)).collect();
                import = Some(store.import(&records));
                // Closing may hit the error; acknowledged writes do not depend on it.
                let _ = store.close();
            }
            Err(Error::Io { .. }) => {}
            Err(other) => panic!("{what}: {other}"),
        }
        let store = Store::open(&dir, small(Disk::default())).unwrap_or_else(|error| panic!("{what}: {error}"));
        let reports = store.recoveries().unwrap();
        assert!(reports.is_empty(), "a healthy workspace was called damaged: {what}: {reports:#?}");
        assert!(!dir.join("quarantine").exists(), "{what}");
        let mut expected = before.totals.events;
        for (batch, outcome) in writes().into_iter().zip(outcomes) {
            let events = batch.drafts.len() as u64;
            let again = store.append(batch).unwrap_or_else(|error| panic!("{what}: {error}"));
            match outcome {
                Ok(_) => assert!(again.repeated, "an acknowledged write is gone: {what}"),
                Err(Error::OutcomeUnknown { .. }) => {}
                Err(error) => assert!(!again.repeated, "a refused write ({error}) appeared: {what}"),
            }
            expected += events;
        }
        let new = store.import(&records).unwrap_or_else(|error| panic!("{what}: {error}"));
        if matches!(import, Some(Ok(_))) {
            assert_eq!(new, 0, "an acknowledged import is gone: {what}");
        }
        assert_eq!(store.totals().unwrap().events, expected + 2, "{what}");
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
        store.close().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    });
    assert!(cases > 200, "{cases}");
}

#[test]
fn every_operation_of_a_recovery_may_fail_once() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let before = fill(&base);
    // The database is gone and a segment is damaged, so that there is something to repair and something to report.
    fs::remove_dir_all(base.join("db")).unwrap();
    let mut bytes = fs::read(base.join("journal/00000001.log")).unwrap();
    if let Some(byte) = bytes.get_mut(300) {
        *byte ^= 1;
    }
    fs::write(base.join("journal/00000001.log"), bytes).unwrap();
    let dir = home.path().join("uninterrupted");
    copy(&base, &dir);
    let store = Store::open(&dir, small(Disk::default())).unwrap();
    let expected = contents(&store);
    let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
    assert!(lost > 0 && expected != before);
    drop(store);
    let cases = each_failing_operation(&ERRORS, |fails, what| {
        let dir = home.path().join("case");
        copy(&base, &dir);
        match Store::open(&dir, small(Disk::observed(Arc::clone(fails) as Arc<dyn Observer>))) {
            Ok(store) => drop(store),
            Err(Error::Io { .. } | Error::Database(_)) => {}
            Err(other) => panic!("{what}: {other}"),
        }
        let store = Store::open(&dir, small(Disk::default())).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(contents(&store), expected, "{what}");
        let named: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
        assert_eq!(named, lost, "{what}: {:#?}", store.recoveries().unwrap());
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
        store.close().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    });
    assert!(cases > 200, "{cases}");
}
