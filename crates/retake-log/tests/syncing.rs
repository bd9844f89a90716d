//! Syncing: nothing is acknowledged before it is durable, refused events never reappear, checkpoints come in time, and
//! a workspace that was moved is not written to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use retake_log::disk::{Disk, Observer, Op};
use retake_log::store::{Error, Options, Store};
use retake_testutils::*;

struct Hook<F>(F);

impl<F: Fn(Op<'_>) -> io::Result<()> + Send + Sync> Observer for Hook<F> {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        (self.0)(op)
    }
}

fn hooked(hook: impl Fn(Op<'_>) -> io::Result<()> + Send + Sync + 'static) -> Options {
    options_on(Disk::observed(Arc::new(Hook(hook))))
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

#[test]
fn a_retry_is_acknowledged_only_after_the_tail_is_synced() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let store = open(&dir);
    store.append(start("first", 0, "k1")).unwrap();
    store.append(start("second", 1, "k2")).unwrap();
    // Killed: it is unknown whether the last frame was synced.
    let killed = home.path().join("killed");
    copy(&dir, &killed);
    let steps: Arc<Mutex<Vec<(&str, PathBuf)>>> = Arc::default();
    let seen = Arc::clone(&steps);
    let store = Store::open(
        &killed,
        hooked(move |op| {
            match op {
                Op::Write(path, ..) => seen.lock().unwrap().push(("write", path.to_owned())),
                Op::SyncFile(path) => seen.lock().unwrap().push(("sync", path.to_owned())),
                Op::SyncDir(path) => seen.lock().unwrap().push(("sync dir", path.to_owned())),
                _ => {}
            }
            Ok(())
        }),
    )
    .unwrap();
    assert!(store.append(start("second", 2, "k2")).unwrap().repeated);
    let steps = steps.lock().unwrap();
    let (segment, journal) = (killed.join("journal/00000001.log"), killed.join("journal"));
    assert!(steps.contains(&("sync", segment.clone())), "the tail is synced: {steps:?}");
    assert!(steps.contains(&("sync dir", journal)), "and its name: {steps:?}");
    // After a failed sync, the kernel may have marked the pages as clean, so they are written again.
    let written = steps.iter().position(|step| *step == ("write", segment.clone()));
    let synced = steps.iter().position(|step| *step == ("sync", segment.clone()));
    assert!(written.is_some() && written < synced, "{steps:?}");
    let checkpoint = steps.iter().position(|(_, path)| path.ends_with("journal/mark"));
    assert!(checkpoint.is_none_or(|checkpoint| Some(checkpoint) > synced), "{steps:?}");
}

#[test]
fn what_a_failed_sync_refused_never_reappears() {
    for closed in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let store = open(&dir);
        store.append(start("first", 0, "k1")).unwrap();
        store.close().unwrap();
        let fail = Arc::new(AtomicU64::new(0));
        let failing = Arc::clone(&fail);
        let store = Store::open(
            &dir,
            hooked(move |op| match op {
                Op::SyncFile(path) if is_segment(path) && failing.swap(0, Ordering::Relaxed) == 1 => {
                    Err(io::Error::from_raw_os_error(5))
                }
                _ => Ok(()),
            }),
        )
        .unwrap();
        fail.store(1, Ordering::Relaxed);
        let error = store.append(start("refused", 1, "k2")).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(fail.load(Ordering::Relaxed), 0, "the sync was not reached");
        let after = home.path().join("after");
        if closed {
            store.close().unwrap();
            copy(&dir, &after);
        } else {
            copy(&dir, &after);
            store.append(start("goes on", 2, "k3")).unwrap();
        }
        let found = open(&after);
        assert_eq!(found.totals().unwrap().sessions, 1, "closed: {closed}");
        assert!(!found.append(start("refused", 3, "k2")).unwrap().repeated);
        assert_eq!(found.totals().unwrap().sessions, 2);
        assert_eq!(found.verify(None).unwrap().problems, Vec::<String>::new());
        assert_eq!(found.recoveries().unwrap().iter().map(|report| &report.causes).next(), None, "closed: {closed}");
    }
}

#[test]
fn an_undecidable_outcome_is_reported_as_unknown() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let fail = Arc::new(AtomicU64::new(0));
    let failing = Arc::clone(&fail);
    let store = Store::open(
        &dir,
        hooked(move |op| match op {
            Op::SyncFile(_) | Op::SyncDir(_) | Op::Create(_) | Op::Rename(..) | Op::SetLen(..)
                if failing.load(Ordering::Relaxed) == 1 =>
            {
                Err(io::Error::from_raw_os_error(5))
            }
            _ => Ok(()),
        }),
    )
    .unwrap();
    store.append(start("first", 0, "k1")).unwrap();
    fail.store(1, Ordering::Relaxed);
    let error = store.append(start("unknown", 1, "k2")).unwrap_err();
    assert!(error.to_string().contains("unknown"), "{error}");
    assert!(store.append(start("third", 1, "k3")).is_err(), "nothing is acknowledged before it is settled");
    fail.store(0, Ordering::Relaxed);
    // A retry with the same key is safe: the event exists once.
    store.append(start("unknown", 2, "k2")).unwrap();
    store.close().unwrap();
    let store = open(&dir);
    assert!(store.append(start("unknown", 3, "k2")).unwrap().repeated);
    assert_eq!(store.totals().unwrap().sessions, 2);
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn a_moved_or_deleted_workspace_is_not_written_to() {
    for deleted in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let (dir, moved) = (home.path().join("ws"), home.path().join("ws.old"));
        let store = open(&dir);
        store.append(start("before", 0, "k1")).unwrap();
        if deleted {
            fs::remove_dir_all(&dir).unwrap();
        } else {
            fs::rename(&dir, &moved).unwrap();
        }
        let error = store.append(start("after", 1, "k2")).unwrap_err();
        assert!(error.to_string().contains("moved") || format!("{error:?}").contains("moved"), "{error:?}");
        assert!(!dir.exists(), "nothing is made where it was");
        // Another workspace takes the path.
        let other = open(&dir);
        other.append(start("another", 2, "k3")).unwrap();
        assert!(store.append(start("after", 3, "k4")).is_err());
        let before = contents(&other);
        drop(store);
        other.close().unwrap();
        let other = open(&dir);
        assert_eq!(contents(&other), before);
        assert_eq!(other.recoveries().unwrap().len(), 0);
        assert_eq!(other.verify(None).unwrap().problems, Vec::<String>::new());
        if !deleted {
            let old = open(&moved);
            assert_eq!(old.totals().unwrap().sessions, 1);
            assert_eq!(old.verify(None).unwrap().problems, Vec::<String>::new());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_segment_replaced_while_open_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let store = open(&dir);
    store.append(start("before", 0, "k1")).unwrap();
    let segment = dir.join("journal/00000001.log");
    let older = fs::read(&segment).unwrap();
    store.append(start("since", 1, "k2")).unwrap();
    // A sync tool replaces it by an older copy under the same name.
    fs::remove_file(&segment).unwrap();
    fs::write(&segment, older).unwrap();
    let mut acknowledged = 2;
    for n in 2..6 {
        acknowledged += u64::from(store.append(start("after", n, &format!("a{n}"))).is_ok());
    }
    assert!(acknowledged > 2, "it goes on");
    let killed = home.path().join("killed");
    copy(&dir, &killed);
    store.close().unwrap();
    for dir in [&killed, &dir] {
        let found = open(dir);
        assert_eq!(found.totals().unwrap().sessions, acknowledged, "{:?}", found.recoveries().unwrap());
        assert_eq!(found.verify(None).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_checkpoint_is_written_under_steady_load() {
    let home = tempfile::tempdir().unwrap();
    let synced = Arc::new(AtomicU64::new(0));
    let syncing = Arc::clone(&synced);
    let options = Options {
        checkpoint_after: std::time::Duration::from_millis(20),
        ..hooked(move |op| {
            syncing.fetch_add(u64::from(matches!(op, Op::SyncDatabase(_))), Ordering::Relaxed);
            Ok(())
        })
    };
    let store = Store::open(home.path(), options).unwrap();
    let before = synced.load(Ordering::Relaxed);
    // No pauses: the next append starts as soon as the last one is acknowledged.
    for n in 0..20_000 {
        store.append(start("steady", n, &format!("k{n}"))).unwrap();
        if synced.load(Ordering::Relaxed) > before + 1 {
            return;
        }
    }
    panic!("no checkpoint was written while appends went on");
}
