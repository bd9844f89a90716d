//! Damaged bytes: a workspace opens whatever is done to its files; if one copy is damaged, nothing is lost; if both
//! are, the loss is reported.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may stop anywhere"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake_log::disk::{Disk, Observer, Op};
use retake_log::model::{Draft, EventBody, Hash, SessionId};
use retake_log::store::{Detail, Options, Recovery, Store};
use retake_testutils::*;

/// Opens a store with small segments, so that a workspace has several.
fn open_small(dir: &Path) -> Store {
    Store::open(dir, Options { segment_bytes: 24 << 10, ..options() }).unwrap()
}

/// Fills a workspace with everything: several segments, branches, annotations, archived sessions, long texts.
fn fill(store: &Store) {
    for n in 0..30 {
        let mut batch = start(&format!("a fox, take {n}"), n, &format!("s{n}"));
        if n % 7 == 0 {
            let Draft::Record(iteration) = &mut batch.drafts[1] else { panic!() };
            iteration.recipe.parameters.insert("workflow".to_owned(), "w".repeat(9000 + n as usize).into());
        }
        let id = store.append(batch).unwrap().head.id;
        for k in 0..n % 5 {
            store.append(record(id, &format!("a fox, step {k}"), n + k, &format!("s{n}r{k}"))).unwrap();
        }
        if n % 3 == 0 {
            store.append(rate(id, 0, 4, n + 9, &format!("s{n}a"))).unwrap();
        }
        if n % 4 == 0 {
            store.append(archive(id, n + 9, &format!("s{n}x"))).unwrap();
        }
    }
}

/// Creates a filled workspace, closed, and reopened once so that it also has a snapshot.
fn closed_workspace(dir: &Path) -> Contents {
    let store = open_small(dir);
    fill(&store);
    store.close().unwrap();
    let store = open_small(dir);
    let contents = contents(&store);
    store.close().unwrap();
    assert!(fs::read_dir(dir.join("journal")).unwrap().count() > 3, "the journal should have several segments");
    contents
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    FlipBit,
    Garbage,
    Zeros,
    Truncate,
    Remove,
}

const DAMAGES: [Damage; 5] = [Damage::FlipBit, Damage::Garbage, Damage::Zeros, Damage::Truncate, Damage::Remove];

fn hurt(path: &Path, damage: Damage, rng: &mut StdRng) {
    let mut bytes = fs::read(path).unwrap();
    if bytes.is_empty() || matches!(damage, Damage::Remove) {
        fs::remove_file(path).unwrap();
        return;
    }
    let at = rng.random_range(0..bytes.len());
    let end = |length: usize| (at + length).min(bytes.len());
    match damage {
        Damage::FlipBit => bytes[at] ^= 1 << rng.random_range(0..8),
        Damage::Garbage => {
            let end = end(512);
            rng.fill(&mut bytes[at..end]);
        }
        Damage::Zeros => {
            let (start, end) = (at & !4095, ((at & !4095) + 4096).min(bytes.len()));
            bytes[start..end].fill(0);
        }
        Damage::Truncate => bytes.truncate(at),
        Damage::Remove => unreachable!(),
    }
    fs::write(path, bytes).unwrap();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// Checks that reopening changes nothing more, nothing is wrong any more, and new work continues with new ids.
fn check_afterwards(dir: &Path, ever: &BTreeSet<SessionId>, what: &str) {
    let store = open_small(dir);
    let before = contents(&store);
    // Parts that opening had no reason to read may still be damaged.
    let repaired = store.repair(None).unwrap();
    assert!(repaired.is_none_or(|report| report.lost_events == 0), "{what}");
    assert_eq!(contents(&store), before, "repair changed something: {what}");
    let reports = store.recoveries().unwrap().len();
    assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
    store.close().unwrap();
    let store = open_small(dir);
    assert_eq!(contents(&store), before, "opening twice differs: {what}");
    assert_eq!(store.recoveries().unwrap().len(), reports, "a recovery was repeated: {what}");
    let id = store.append(start("afterwards", 50, "afterwards")).unwrap().head.id;
    assert!(!ever.contains(&id), "{id} was assigned twice: {what}");
}

#[test]
fn one_damaged_file_costs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let expected = closed_workspace(&base);
    let ever: BTreeSet<SessionId> = expected.sessions.iter().map(|(head, _)| head.id).collect();
    let files: Vec<PathBuf> = files(&base).iter().map(|path| path.strip_prefix(&base).unwrap().to_owned()).collect();
    let mut cases = 0;
    for round in 0..8 {
        for file in &files {
            // There are many long texts; the journal and the database are the critical parts.
            if file.starts_with("texts") && round > 0 {
                continue;
            }
            for damage in DAMAGES {
                if matches!(damage, Damage::Remove) && round > 0 {
                    continue;
                }
                cases += 1;
                let what = format!("{damage:?} in {} (round {round})", file.display());
                let dir = home.path().join("case");
                copy(&base, &dir);
                hurt(&dir.join(file), damage, &mut StdRng::seed_from_u64(round * 1000 + cases));
                let store = open_small(&dir);
                assert_eq!(contents(&store), expected, "{what}");
                let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
                assert_eq!(lost, 0, "{what}: {:?}", store.recoveries().unwrap());
                let repaired = store.repair(None).unwrap();
                assert!(repaired.is_none_or(|report| report.lost_events == 0), "{what}");
                assert_eq!(contents(&store), expected, "after repair: {what}");
                store.close().unwrap();
                if cases % 5 == 0 {
                    check_afterwards(&dir, &ever, &what);
                }
                fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
    println!("{cases} cases");
    assert!(cases >= 250, "{cases}");
}

#[test]
fn a_missing_copy_is_restored_from_the_other() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let expected = closed_workspace(&base);
    let ever: BTreeSet<SessionId> = expected.sessions.iter().map(|(head, _)| head.id).collect();
    for gone in [
        vec!["db"],
        vec!["journal"],
        vec!["texts"],
        vec!["retake.toml"],
        vec!["db", "texts"],
        vec!["journal/mark", "db"],
    ] {
        let dir = home.path().join(gone.concat().replace('/', "-"));
        copy(&base, &dir);
        for name in &gone {
            let path = dir.join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let store = open_small(&dir);
        assert_eq!(contents(&store), expected, "without {gone:?}");
        store.close().unwrap();
        check_afterwards(&dir, &ever, &format!("without {gone:?}"));
    }
}

/// Lets this many operations happen and refuses all others, as if the process had been killed there.
struct DiesAfter(Mutex<u64>);

impl Observer for DiesAfter {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        if matches!(op, Op::Read(_) | Op::List(_)) {
            return Ok(());
        }
        let mut left = self.0.lock().unwrap();
        *left = left.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(())
    }
}

#[test]
fn an_interrupted_recovery_is_resumed() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let before = closed_workspace(&base);
    // Both copies are damaged in the middle, so that there is something to repair, to restore and to report.
    hurt(&base.join("journal/00000002.log"), Damage::Zeros, &mut StdRng::seed_from_u64(1));
    hurt(&base.join("db/db"), Damage::Zeros, &mut StdRng::seed_from_u64(2));
    fs::remove_dir_all(base.join("db")).unwrap();
    fs::remove_file(base.join("journal/00000004.log")).unwrap();

    let dir = home.path().join("uninterrupted");
    copy(&base, &dir);
    let store = open_small(&dir);
    let expected = contents(&store);
    assert!(check_named(&before, &expected, &store.recoveries().unwrap(), "uninterrupted"), "something is lost");
    store.close().unwrap();

    let mut survived = false;
    let mut deaths = 0;
    for operations in 0.. {
        if survived {
            break;
        }
        let dir = home.path().join("case");
        copy(&base, &dir);
        let disk = Disk::observed(Arc::new(DiesAfter(Mutex::new(operations))));
        survived = Store::open(&dir, Options { segment_bytes: 24 << 10, disk, ..options() }).is_ok();
        deaths += u32::from(!survived);
        let store = open_small(&dir);
        let what = format!("dead after {operations} operations");
        assert_eq!(contents(&store), expected, "{what}");
        check_named(&before, &contents(&store), &store.recoveries().unwrap(), &what);
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
        store.close().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{deaths} deaths");
    assert!(deaths > 20, "{deaths}");
}

/// The loss from damage to both copies must be reported exactly.
#[test]
fn what_both_copies_lost_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join("base");
    let expected = closed_workspace(&base);
    let ever: BTreeSet<SessionId> = expected.sessions.iter().map(|(head, _)| head.id).collect();
    let segments: Vec<PathBuf> =
        files(&base.join("journal")).into_iter().filter(|path| path.extension().is_some()).collect();
    let (mut cases, mut with_loss) = (0, 0);
    for seed in 0..260u64 {
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = home.path().join("case");
        copy(&base, &dir);
        let segment = segments[rng.random_range(0..segments.len())].strip_prefix(&base).unwrap().to_owned();
        let damage = DAMAGES[rng.random_range(0..DAMAGES.len())];
        hurt(&dir.join(&segment), damage, &mut rng);
        let database = ["removed", "garbled"][rng.random_range(0..2)];
        if database == "removed" {
            fs::remove_dir_all(dir.join("db")).unwrap();
        } else {
            for _ in 0..3 {
                hurt(&dir.join("db/db"), Damage::Garbage, &mut rng);
            }
        }
        let what = format!("{damage:?} in {} and the database {database} (seed {seed})", segment.display());
        cases += 1;
        let store = open_small(&dir);
        let found = contents(&store);
        let reports = store.recoveries().unwrap();
        with_loss += u32::from(check_named(&expected, &found, &reports, &what));
        store.close().unwrap();
        check_afterwards(&dir, &ever, &what);
        fs::remove_dir_all(&dir).unwrap();
    }
    println!("{cases} cases, {with_loss} with a loss");
    assert!(with_loss > cases / 10, "the damage must hit something: {with_loss} of {cases}");
}

/// Compares what is left with what there was, and returns whether something is missing.
fn check_named(expected: &Contents, found: &Contents, reports: &[Recovery], what: &str) -> bool {
    let mut missing = BTreeSet::new();
    for (head, events) in &expected.sessions {
        let left = found.sessions.iter().find(|(left, _)| left.id == head.id).map(|(_, events)| events);
        for event in events {
            match left.and_then(|left| left.iter().find(|there| there.seq == event.seq)) {
                Some(there) if there.body.kind().as_str() == "lost" => drop(missing.insert((head.id, event.seq))),
                Some(there) => assert_eq!(there, event, "an event was altered: {what}"),
                None => drop(missing.insert((head.id, event.seq))),
            }
        }
    }
    for (head, events) in &found.sessions {
        let there = expected.sessions.iter().find(|(there, _)| there.id == head.id);
        let invented = events.iter().filter(|event| event.body.kind().as_str() != "lost").count();
        assert!(invented <= there.map_or(0, |(_, events)| events.len()), "events were invented: {what}");
    }
    let lost: u64 = reports.iter().map(|report| report.lost_events).sum();
    assert_eq!(lost, missing.len() as u64, "{what}\nmissing {missing:?}\n{reports:#?}");
    for loss in reports.iter().flat_map(|report| &report.losses) {
        if let Some(session) = loss.session {
            for seq in &loss.seqs {
                assert!(missing.contains(&(session, *seq)), "{session} {seq} is not missing: {what}");
            }
        }
    }
    !missing.is_empty()
}

/// An attacker edits an event in the journal and corrects the checksums.
#[test]
fn a_record_edited_by_hand_is_found() {
    for knows_the_hash in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let store = open(home.path());
        let id = store.append(start("a red fox", 0, "k1")).unwrap().head.id;
        store.append(record(id, "a blue fox", 1, "k2")).unwrap();
        store.close().unwrap();
        let path = home.path().join("journal/00000001.log");
        let mut bytes = fs::read(&path).unwrap();
        let word = bytes.windows(9).position(|window| window == b"a red fox").unwrap();
        bytes[word..word + 9].copy_from_slice(b"a hen fox");
        let magic = |magic: &[u8], before: usize| (0..before).rev().find(|at| bytes[*at..].starts_with(magic)).unwrap();
        let (event, frame) = (magic(b"\xF6RTE", word), magic(b"\xF7RTF", word));
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (payload, body) = (number(event + 12), number(frame + 8));
        if knows_the_hash {
            let hash = Hash::of(&bytes[event..event + 72 + payload]);
            bytes[event + 72 + payload..][..32].copy_from_slice(&hash.0);
        }
        let crc = crc32fast::hash(&bytes[frame + 32..frame + 32 + body]);
        bytes[frame + 24..frame + 28].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[frame..frame + 28]);
        bytes[frame + 28..frame + 32].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, &bytes).unwrap();

        let store = open(home.path());
        let faults = store.trail(id).unwrap().faults;
        let reports = store.recoveries().unwrap();
        // If the hash is unchanged, it identifies the true copy; with another hash, the next event does.
        let cause = if knows_the_hash { "hold different events at place 1" } else { "the database lacks event 1" };
        assert!(reports[0].causes[0].contains(cause), "{reports:?}");
        assert_eq!((reports[0].lost_events, faults.len()), (0, 0), "{reports:?} {faults:?}");
        let prompt = |store: &Store| {
            let events = store.events(id, Detail::Full).unwrap();
            let EventBody::Recorded { iteration, .. } = &events[1].body else { panic!("{events:?}") };
            iteration.recipe.prompt.clone()
        };
        assert_eq!(prompt(&store), "a red fox", "the event is back as it was");
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new());
        store.close().unwrap();
        // Without the other copy, the journal still has the true one.
        fs::remove_dir_all(home.path().join("db")).unwrap();
        assert_eq!(prompt(&open(home.path())), "a red fox");
    }
}
