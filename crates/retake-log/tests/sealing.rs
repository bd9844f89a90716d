//! Sealed segments: the journal stays a complete copy, whatever happens while or after a segment is compressed.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop anywhere")]

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retake_log::disk::{Disk, Observer, Op};
use retake_log::store::{Options, Store};
use retake_testutils::*;

const SESSIONS: i64 = 60;

fn small(options: Options) -> Options {
    Options { segment_bytes: 8 << 10, seal_from: 1, ..options }
}

fn open(dir: &Path) -> Store {
    Store::open(dir, small(options())).unwrap()
}

/// Fills a workspace with several segments; closing writes the checkpoint that allows them to be sealed.
fn fill(dir: &Path) -> Contents {
    let store = Store::open(dir, Options { seal_from: u64::MAX, ..small(options()) }).unwrap();
    for n in 0..SESSIONS {
        let id = store.append(start(&format!("a fox, take {n}"), n, &format!("s{n}"))).unwrap().head.id;
        store.append(record(id, "a fox in the snow", n + 1, &format!("r{n}"))).unwrap();
    }
    let contents = contents(&store);
    store.close().unwrap();
    contents
}

fn is_sealed(path: &Path) -> bool {
    fs::read(path).unwrap()[8] == 2
}

fn check(dir: &Path, expected: &Contents, what: &str) {
    for _ in 0..2 {
        let store = open(dir);
        assert_eq!(contents(&store), *expected, "{what}");
        let found = store.verify(None).unwrap();
        assert_eq!((found.problems, found.lost), (Vec::new(), Vec::new()), "{what}");
        assert!(store.recoveries().unwrap().iter().all(|report| report.lost_events == 0), "{what}");
        store.close().unwrap();
    }
}

#[test]
fn a_sealed_journal_is_smaller_and_still_a_whole_copy() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let expected = fill(&dir);
    // The last one accepts more frames, and stays plain.
    let size = |dir: &Path| {
        let segments = segments(dir);
        let sealable = segments.iter().take(segments.len() - 1);
        sealable.map(|path| fs::metadata(path).unwrap().len()).sum::<u64>()
    };
    let before = size(&dir);
    let store = open(&dir);
    let sealed = store.seal().unwrap();
    assert_eq!(store.seal().unwrap(), 0, "nothing is left to seal");
    for (head, _) in &expected.sessions {
        assert_eq!(store.trail(head.id).unwrap().faults, [], "both copies of {} are read", head.id);
    }
    let events = store.totals().unwrap().events;
    store.close().unwrap();
    let files = segments(&dir);
    assert_eq!(files.iter().filter(|path| is_sealed(path)).count(), sealed as usize);
    assert_eq!(sealed as usize, files.len() - 1, "all but the last");
    assert!(size(&dir) * 2 < before, "{} of {before} bytes", size(&dir));
    check(&dir, &expected, "as it is");

    fs::remove_dir_all(dir.join("db")).unwrap();
    check(&dir, &expected, "from the journal alone");
    let copy_of = home.path().join("copy");
    copy(&dir, &copy_of);
    fs::remove_dir_all(copy_of.join("journal")).unwrap();
    check(&copy_of, &expected, "from the database alone");

    let store = open(&dir);
    let id = store.append(start("afterwards", 99, "afterwards")).unwrap().head.id;
    assert_eq!(id.number().get() as usize, expected.sessions.len() + 1);
    assert_eq!(store.totals().unwrap().events, events + 2);
}

#[test]
fn damage_to_a_sealed_segment_is_found_and_repaired_from_the_database() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let expected = fill(&dir);
    open(&dir).seal().unwrap();
    let length = fs::metadata(&segments(&dir)[1]).unwrap().len();
    for at in (0..length).step_by(usize::try_from(length / 12).unwrap()) {
        let place = home.path().join(format!("damaged-{at}"));
        copy(&dir, &place);
        let path = segments(&place)[1].clone();
        let mut bytes = fs::read(&path).unwrap();
        bytes[usize::try_from(at).unwrap()] ^= 0x40;
        fs::write(&path, bytes).unwrap();
        let store = open(&place);
        store.repair(None).unwrap();
        store.close().unwrap();
        check(&place, &expected, &format!("byte {at} flipped"));
        fs::remove_dir_all(place).unwrap();
    }
    let path = segments(&dir)[1].clone();
    fs::File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let store = open(&dir);
    store.repair(None).unwrap();
    store.close().unwrap();
    check(&dir, &expected, "cut");
}

#[test]
fn a_lost_last_segment_is_not_replaced_by_writing_into_a_sealed_one() {
    for without_checkpoint in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let expected = fill(&dir);
        open(&dir).seal().unwrap();
        fs::remove_file(segments(&dir).pop().unwrap()).unwrap();
        if without_checkpoint {
            fs::remove_file(dir.join("journal/mark")).unwrap();
        }
        check(&dir, &expected, &format!("without the checkpoint: {without_checkpoint}"));
        let store = open(&dir);
        store.append(start("afterwards", 99, "afterwards")).unwrap();
        store.close().unwrap();
        let store = open(&dir);
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
        assert_eq!(store.totals().unwrap().sessions, expected.sessions.len() as u64 + 1);
    }
}

/// Fails one operation, by its number.
struct FailOnce {
    at: u64,
    count: AtomicU64,
}

impl Observer for FailOnce {
    fn before(&self, _: Op<'_>) -> io::Result<()> {
        match self.count.fetch_add(1, Ordering::Relaxed) == self.at {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

#[test]
fn an_operation_that_fails_while_sealing_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let template = home.path().join("template");
    let expected = fill(&template);
    let mut failures = 0;
    for at in 0.. {
        let dir = home.path().join("ws");
        copy(&template, &dir);
        let observer = Arc::new(FailOnce { at: u64::MAX, count: AtomicU64::new(0) });
        let store = Store::open(&dir, small(options_on(Disk::observed(observer.clone())))).unwrap();
        let opened = observer.count.load(Ordering::Relaxed);
        drop(store);
        let observer = Arc::new(FailOnce { at: opened + at, count: AtomicU64::new(0) });
        let Ok(store) = Store::open(&dir, small(options_on(Disk::observed(observer.clone())))) else { continue };
        let outcome = store.seal();
        let reached = observer.count.load(Ordering::Relaxed) > opened + at;
        drop(store);
        failures += u64::from(outcome.is_err());
        check(&dir, &expected, &format!("operation {at}"));
        let left = fs::read_dir(dir.join("journal")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
        assert!(left.is_empty(), "{left:?}");
        fs::remove_dir_all(&dir).unwrap();
        if !reached || at > 60 {
            break;
        }
    }
    assert!(failures > 10, "{failures} operations failed");
}
