//! Evidence: what recovery may conclude from what it finds. Errors are not absence, older and foreign copies never win
//! over existing data, and nothing that any copy contains is dropped, renumbered or called lost.
#![expect(clippy::unwrap_used, reason = "a test may stop anywhere")]

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use retake_log::disk::{Disk, Observer, Op};
use retake_log::model::{EventKind, SessionId};
use retake_log::store::{Error, Options, Store};
use retake_testutils::*;

/// Transient errors, of a system that is short of resources or has a loose cable.
const PASSING: [i32; 5] = [5, 24, 12, 13, 11];

/// An observer that calls a closure.
struct Hook<F>(F);

impl<F: Fn(Op<'_>) -> io::Result<()> + Send + Sync> Observer for Hook<F> {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        (self.0)(op)
    }
}

fn hooked(hook: impl Fn(Op<'_>) -> io::Result<()> + Send + Sync + 'static) -> Options {
    Options { segment_bytes: 1 << 10, ..options_on(Disk::observed(Arc::new(Hook(hook)))) }
}

fn open_small(dir: &Path) -> Store {
    Store::open(dir, Options { segment_bytes: 1 << 10, ..options() }).unwrap()
}

fn fill(store: &Store, sessions: std::ops::Range<i64>) {
    for n in sessions {
        let id = store.append(start(&format!("a fox, take {n}"), n, &format!("s{n}"))).unwrap().head.id;
        store.append(record(id, "a fox in the snow", n + 1, &format!("r{n}"))).unwrap();
    }
}

/// Creates a closed workspace with sessions 1 to 6, and returns its contents.
fn workspace(dir: &Path) -> Contents {
    let store = open_small(dir);
    fill(&store, 0..6);
    let contents = contents(&store);
    store.close().unwrap();
    contents
}

/// Opens the workspace twice and checks that everything is there, nothing is called lost, both copies agree, and ids
/// continue.
fn check_whole(dir: &Path, expected: &Contents, what: &str) {
    for _ in 0..2 {
        let store = open_small(dir);
        assert_eq!(contents(&store), *expected, "{what}");
        let reports = store.recoveries().unwrap();
        assert!(reports.iter().all(|report| report.lost_events == 0), "{what}: {reports:#?}");
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
        assert_eq!(store.verify(None).unwrap().lost, Vec::<String>::new(), "{what}");
        store.close().unwrap();
    }
    let store = open_small(dir);
    let id = store.append(start("afterwards", 99, "afterwards")).unwrap().head.id;
    assert_eq!(id.number().get() as usize, expected.sessions.len() + 1, "an id was reused or skipped: {what}");
}

/// Returns the offset after the last non-zero byte.
fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

#[test]
fn an_older_journal_beside_an_intact_database_loses_nothing() {
    for older_checkpoint_only in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let store = open_small(&dir);
        fill(&store, 0..3);
        store.close().unwrap();
        copy(&dir.join("journal"), &home.path().join("older"));
        let store = open_small(&dir);
        fill(&store, 3..6);
        let expected = contents(&store);
        store.close().unwrap();
        if older_checkpoint_only {
            fs::copy(home.path().join("older/mark"), dir.join("journal/mark")).unwrap();
            let last = segments(&dir).pop().unwrap();
            cut(&last, used(&last) - 10);
        } else {
            fs::remove_dir_all(dir.join("journal")).unwrap();
            copy(&home.path().join("older"), &dir.join("journal"));
        }
        check_whole(&dir, &expected, &format!("only the checkpoint is older: {older_checkpoint_only}"));
    }
}

#[test]
fn a_journal_that_was_cut_after_a_kill_is_not_taken_for_one_that_ended_there() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 0..2);
    store.close().unwrap();
    let store = Store::open(&dir, options()).unwrap();
    let before = used(&dir.join("journal/00000001.log"));
    fill(&store, 2..5);
    let expected = contents(&store);
    // As left by a process that is killed before the checkpoint.
    let killed = home.path().join("killed");
    copy(&dir, &killed);
    drop(store);
    let whole = fs::read(killed.join("journal/00000001.log")).unwrap();
    for zeroed in [false, true] {
        let ws = home.path().join(format!("zeroed-{zeroed}"));
        copy(&killed, &ws);
        let mut bytes = whole.clone();
        if zeroed {
            bytes.get_mut(usize::try_from(before).unwrap()..).unwrap().fill(0);
        } else {
            bytes.truncate(usize::try_from(before).unwrap());
        }
        fs::write(ws.join("journal/00000001.log"), bytes).unwrap();
        let store = Store::open(&ws, options()).unwrap();
        let found = contents(&store);
        let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
        assert!(found == expected || lost > 0, "events are gone without a word");
        let id = store.append(start("afterwards", 99, "afterwards")).unwrap().head.id;
        assert_eq!(id.number().get(), 6, "an id was assigned again");
        drop(store);
        let recoveries = Store::open(&ws, options()).unwrap().recoveries().unwrap().len();
        assert_eq!(recoveries, 1, "what was reported once is settled");
    }
    check_whole(&killed, &expected, "as it was when it was killed");
}

#[test]
fn several_damaged_frames_at_the_end_are_not_a_torn_write() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 0..2);
    store.close().unwrap();
    fs::copy(dir.join("journal/mark"), home.path().join("mark")).unwrap();
    copy(&dir.join("db"), &home.path().join("db"));
    let store = Store::open(&dir, options()).unwrap();
    fill(&store, 2..4);
    let ever: Vec<SessionId> = store.ids(None, 100).unwrap();
    store.close().unwrap();
    // The database and the checkpoint only know the first two sessions; every later frame is damaged in its body.
    fs::remove_dir_all(dir.join("db")).unwrap();
    copy(&home.path().join("db"), &dir.join("db"));
    fs::copy(home.path().join("mark"), dir.join("journal/mark")).unwrap();
    let path = segments(&dir).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let frames: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"\xF7RTF")).collect();
    for frame in &frames[4..] {
        bytes[*frame + 32 + 90] ^= 1;
    }
    fs::write(&path, bytes).unwrap();
    let store = open_small(&dir);
    let reports = store.recoveries().unwrap();
    assert!(reports.iter().map(|report| report.lost_events).sum::<u64>() > 0, "the loss is named: {reports:#?}");
    let next = store.append(start("new", 9, "new")).unwrap().head.id;
    assert!(!ever.contains(&next), "{next} was assigned twice");
}

#[test]
fn a_transient_read_error_during_recovery_loses_nothing() {
    for errno in PASSING {
        for which in 0.. {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("ws");
            let expected = workspace(&dir);
            fs::remove_dir_all(dir.join("db")).unwrap();
            let count = Arc::new(AtomicU64::new(0));
            let seen = Arc::clone(&count);
            let opened = Store::open(
                &dir,
                hooked(move |op| match op {
                    Op::Read(_) | Op::List(_) | Op::OpenDatabase(_)
                        if seen.fetch_add(1, Ordering::Relaxed) == which =>
                    {
                        Err(io::Error::from_raw_os_error(errno))
                    }
                    _ => Ok(()),
                }),
            );
            match opened.and_then(Store::close) {
                Ok(()) => {}
                Err(Error::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(errno), "{source}"),
                Err(other) => panic!("{other}"),
            }
            check_whole(&dir, &expected, &format!("read {which} failed with {errno}"));
            let reads = count.load(Ordering::Relaxed);
            assert!(reads > 5 || which < 5, "reads are not observed");
            if reads <= which || (errno != PASSING[0] && which > 12) {
                break;
            }
        }
    }
}

#[test]
fn a_database_that_comes_up_with_less_is_not_trusted() {
    let mut wipes = 0;
    for wipe_at in 1..6 {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let expected = workspace(&dir);
        fs::remove_dir_all(dir.join("db")).unwrap();
        let opens = AtomicU64::new(0);
        let wiped = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&wiped);
        let opened = Store::open(
            &dir,
            hooked(move |op| {
                if let Op::OpenDatabase(path) = op
                    && opens.fetch_add(1, Ordering::Relaxed) + 1 == wipe_at
                    && path.is_dir()
                {
                    fs::remove_dir_all(path)?;
                    done.store(true, Ordering::Relaxed);
                }
                Ok(())
            }),
        );
        let wiped = wiped.load(Ordering::Relaxed);
        wipes += u32::from(wiped);
        match opened {
            Ok(store) => {
                assert_eq!(contents(&store), expected, "opening {wipe_at} came up empty");
                store.close().unwrap();
            }
            Err(error) => assert!(wiped, "{error}"),
        }
        check_whole(&dir, &expected, &format!("opening {wipe_at} came up empty: {wiped}"));
    }
    assert!(wipes > 0, "opening the database is not observed");
}

#[test]
fn a_transient_error_does_not_start_a_recovery() {
    for errno in PASSING {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let expected = workspace(&dir);
        let fired = Arc::new(AtomicBool::new(false));
        let firing = Arc::clone(&fired);
        let opened = Store::open(
            &dir,
            hooked(move |op| match op {
                Op::OpenDatabase(_) => {
                    firing.store(true, Ordering::Relaxed);
                    Err(io::Error::from_raw_os_error(errno))
                }
                _ => Ok(()),
            }),
        );
        assert!(fired.load(Ordering::Relaxed), "opening the database is not observed");
        match opened {
            Err(Error::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(errno)),
            other => panic!("{:?}", other.err()),
        }
        assert!(!dir.join("quarantine").exists(), "errno {errno}");
        check_whole(&dir, &expected, &format!("errno {errno}"));
        assert!(!dir.join("quarantine").exists(), "errno {errno}");
    }
}

#[test]
fn foreign_copies_are_set_aside_and_never_spliced_in() {
    let home = tempfile::tempdir().unwrap();
    let (own, foreign) = (home.path().join("own"), home.path().join("foreign"));
    let expected = workspace(&own);
    let store = open_small(&foreign);
    for n in 0..20 {
        store.append(start(&format!("a stranger's {n}"), n, &format!("x{n}"))).unwrap();
    }
    store.close().unwrap();
    let count = segments(&own).len();
    assert!(count > 2 && segments(&foreign).len() > count, "several segments");
    let last = format!("{count:08}.log");
    let next = format!("{:08}.log", count + 1);
    for case in ["journal", "db", "segment", "last segment", "further segment", "older database without an id"] {
        let dir = home.path().join(case.replace(' ', "-"));
        copy(&own, &dir);
        let take = |name: &str| {
            fs::copy(foreign.join("journal").join(name), dir.join("journal").join(name)).unwrap();
        };
        match case {
            "journal" | "db" => {
                fs::remove_dir_all(dir.join(case)).unwrap();
                copy(&foreign.join(case), &dir.join(case));
            }
            "segment" => take("00000002.log"),
            "last segment" => take(&last),
            "further segment" => take(&next),
            _ => {
                fs::remove_dir_all(dir.join("db")).unwrap();
                copy(&foreign.join("db"), &dir.join("db"));
                let db = sled::open(dir.join("db")).unwrap();
                db.open_tree("meta").unwrap().remove("workspace").unwrap();
            }
        }
        check_whole(&dir, &expected, case);
    }
}

#[test]
fn duplicated_and_swapped_segments_cost_nothing() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    let expected = workspace(&own);
    let count = segments(&own).len();
    let name = |number: usize| format!("journal/{number:08}.log");
    for (from, to) in [(1, 2), (2, count), (1, count + 1), (count, count + 1), (count, 1)] {
        let dir = home.path().join(format!("{from}-{to}"));
        copy(&own, &dir);
        fs::copy(own.join(name(from)), dir.join(name(to))).unwrap();
        check_whole(&dir, &expected, &format!("segment {from} copied over {to}"));
        let dir = home.path().join(format!("{from}-{to}-without-db"));
        if to > count {
            copy(&own, &dir);
            fs::copy(own.join(name(from)), dir.join(name(to))).unwrap();
            fs::remove_dir_all(dir.join("db")).unwrap();
            check_whole(&dir, &expected, &format!("segment {from} copied to {to} and the database gone"));
        }
    }
    let dir = home.path().join("swapped");
    copy(&own, &dir);
    fs::copy(own.join(name(1)), dir.join(name(2))).unwrap();
    fs::copy(own.join(name(2)), dir.join(name(1))).unwrap();
    check_whole(&dir, &expected, "two segments swapped");
    fs::remove_dir_all(&dir).unwrap();
    copy(&own, &dir);
    fs::copy(own.join(name(1)), dir.join(name(2))).unwrap();
    fs::copy(own.join(name(2)), dir.join(name(1))).unwrap();
    fs::remove_dir_all(dir.join("db")).unwrap();
    check_whole(&dir, &expected, "two segments swapped and the database gone");
}

#[test]
fn files_missing_for_one_open_are_used_again() {
    for away in [vec!["journal/00000001.log"], vec!["journal/00000002.log"], vec!["journal"]] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let expected = workspace(&dir);
        let kept = home.path().join("kept");
        copy(&dir, &kept);
        for name in ["db"].iter().chain(&away) {
            let path = dir.join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let store = open_small(&dir);
        if away != ["journal"] {
            let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
            assert!(lost > 0, "without {away:?} something is gone");
        }
        store.close().unwrap();
        fs::remove_dir_all(dir.join("db")).unwrap();
        copy(&kept.join("db"), &dir.join("db"));
        for name in &away {
            let (from, to) = (kept.join(name), dir.join(name));
            if from.is_dir() { copy(&from, &to) } else { assert!(fs::copy(from, to).unwrap() > 0) }
        }
        let store = open_small(&dir);
        let problems = store.verify(None).unwrap().problems;
        if !problems.is_empty() {
            store.repair(None).unwrap();
        }
        let events = |contents: &Contents| {
            let events = contents.sessions.iter().flat_map(|(_, events)| events.clone());
            events.filter(|event| event.body.kind() != EventKind::Lost).collect::<Vec<_>>()
        };
        assert_eq!(events(&contents(&store)), events(&expected), "{away:?}");
        let verified = store.verify(None).unwrap();
        assert_eq!((verified.problems, verified.lost), (Vec::new(), Vec::new()), "{away:?}");
        let reports = store.recoveries().unwrap();
        assert!(reports.iter().all(|report| report.lost_events == 0), "the loss is withdrawn: {reports:#?}");
        let next = store.append(start("new", 99, "new")).unwrap().head.id;
        assert!(expected.sessions.iter().all(|(head, _)| head.id != next), "{next} was assigned twice");
    }
}

#[test]
fn a_torn_tail_is_not_damage() {
    for with_next_segment in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("ws");
        let expected = workspace(&dir);
        let last = segments(&dir).pop().unwrap();
        let mut bytes = fs::read(&last).unwrap();
        let end = usize::try_from(used(&last)).unwrap();
        // A write interrupted by a power cut: the beginning of a frame, then zeros.
        bytes.resize(bytes.len().max(end + 2000), 0);
        bytes.copy_within(64..64 + 40, end);
        bytes[end + 16] = 250;
        let crc = crc32fast::hash(&bytes[end..end + 28]);
        bytes[end + 28..end + 32].copy_from_slice(&crc.to_le_bytes());
        fs::write(&last, &bytes).unwrap();
        let store = open_small(&dir);
        assert_eq!(contents(&store), expected);
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
        if with_next_segment {
            store.append(start("goes on", 99, "goes on")).unwrap();
            assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
            store.close().unwrap();
            let store = open_small(&dir);
            assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
            assert_eq!(store.recoveries().unwrap().iter().map(|report| &report.causes).next(), None);
        }
    }
}

#[test]
fn foreign_files_are_read_within_limits() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    let expected = workspace(&own);
    let count = segments(&own).len();
    let last = segments(&own).pop().unwrap().file_name().unwrap().to_owned();
    for case in ["20251211.log", "00020000.log", "sparse tail", "previous end"] {
        let dir = home.path().join(case.replace(' ', "-"));
        copy(&own, &dir);
        let journal = dir.join("journal");
        match case {
            "sparse tail" => cut(&journal.join(&last), 1 << 30),
            "previous end" => {
                let mut header = fs::read(journal.join(&last)).unwrap()[..64].to_vec();
                header[12..16].copy_from_slice(&u32::try_from(count + 1).unwrap().to_le_bytes());
                header[32..40].copy_from_slice(&1000u64.to_le_bytes());
                header[40..48].copy_from_slice(&(1u64 << 40).to_le_bytes());
                let crc = crc32fast::hash(&header[..60]);
                header[60..64].copy_from_slice(&crc.to_le_bytes());
                fs::write(journal.join(format!("{:08}.log", count + 1)), header).unwrap();
            }
            name => fs::write(journal.join(name), b"").unwrap(),
        }
        check_whole(&dir, &expected, case);
        assert!(segments(&dir).len() <= count + 3, "{case}: {:?}", segments(&dir));
    }
}

#[cfg(unix)]
#[test]
fn special_files_neither_block_nor_break_opening() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("own");
    let expected = workspace(&own);
    for place in ["db/db", "db/conf", "journal/00000002.log", "journal/mark", "db", "journal"] {
        for thing in ["fifo", "directory", "dangling link", "device"] {
            if (place == "db" || place == "journal") && thing == "directory" {
                continue;
            }
            let dir = home.path().join("case");
            copy(&own, &dir);
            let path = dir.join(place);
            if path.is_dir() {
                fs::remove_dir_all(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            match thing {
                "fifo" => assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
                "directory" => fs::create_dir(&path).unwrap(),
                "device" => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
                _ => std::os::unix::fs::symlink("/nowhere/at/all", &path).unwrap(),
            }
            check_whole(&dir, &expected, &format!("a {thing} as {place}"));
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

#[test]
fn a_clock_before_1970_is_accepted() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("ws");
    let expected = workspace(&dir);
    fs::remove_dir_all(dir.join("db")).unwrap();
    fs::write(dir.join("journal/00000001.log"), b"junk").unwrap();
    let clock = Arc::new(|| retake_log::model::Timestamp::from_millis(-86_400_000_000).unwrap());
    let store = Store::open(&dir, Options { segment_bytes: 1 << 10, ..Options::new(clock) }).unwrap();
    assert_eq!(contents(&store).listing.len() + 2, expected.listing.len() + 2 - lost_sessions(&store, &expected));
}

fn lost_sessions(store: &Store, expected: &Contents) -> usize {
    expected.listing.len() - contents(store).listing.len()
}
