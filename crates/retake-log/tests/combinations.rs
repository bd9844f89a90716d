//! Several random faults at once: kills, truncated and damaged tails, older copies of the journal, the database, one
//! segment or the checkpoint, foreign and duplicated segments. Nothing that survives anywhere is lost, no loss is
//! hidden, and no id is used twice.
//!
//! `RETAKE_CASES=20000 cargo test --test combinations` runs longer; a case is reproduced by its seed.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may stop anywhere"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake_log::model::{EventBody, SessionId};
use retake_log::store::{Options, Store};
use retake_testutils::*;

fn open_small(dir: &Path) -> Result<Store, retake_log::store::Error> {
    Store::open(dir, Options { segment_bytes: 2 << 10, ..options() })
}

/// The workspaces that cases start from.
struct Bases {
    /// The workspace, closed after each third of its life.
    stages: Vec<PathBuf>,
    /// The workspace, copied while it was open, as after a kill.
    killed: PathBuf,
    foreign: PathBuf,
    /// Every acknowledged record.
    records: BTreeMap<(SessionId, u32), Vec<u8>>,
}

fn bases(home: &Path) -> Bases {
    let dir = home.join("ws");
    let mut stages = Vec::new();
    for life in 0..3 {
        let store = open_small(&dir).unwrap();
        for n in life * 4..life * 4 + 4 {
            let id = store.append(start(&format!("a fox {n}"), n, &format!("s{n}"))).unwrap().head.id;
            for k in 0..n % 3 {
                store.append(record(id, "a fox in the snow", n + k, &format!("s{n}r{k}"))).unwrap();
            }
        }
        store.close().unwrap();
        let stage = home.join(format!("stage{life}"));
        copy(&dir, &stage);
        stages.push(stage);
    }
    let store = open_small(&dir).unwrap();
    for n in 12..15 {
        store.append(start(&format!("a fox {n}"), n, &format!("s{n}"))).unwrap();
    }
    let killed = home.join("killed");
    copy(&dir, &killed);
    let mut records = BTreeMap::new();
    for id in store.ids(None, 100).unwrap() {
        for (seq, bytes) in store.records(id).unwrap().into_iter().enumerate() {
            records.insert((id, u32::try_from(seq).unwrap()), bytes);
        }
    }
    store.close().unwrap();
    stages.push(dir);
    let foreign = home.join("foreign");
    let store = open_small(&foreign).unwrap();
    for n in 0..24 {
        store.append(start(&format!("a stranger's {n}"), n, &format!("f{n}"))).unwrap();
    }
    store.close().unwrap();
    Bases { stages, killed, foreign, records }
}

fn replace_dir(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    if from.is_dir() {
        copy(from, to);
    }
}

/// Applies one fault to a workspace, and describes it.
fn hurt(dir: &Path, bases: &Bases, rng: &mut StdRng) -> String {
    let there = segments(dir);
    let pick = |rng: &mut StdRng| there.get(rng.random_range(0..there.len().max(1))).cloned();
    let last = there.last().cloned();
    let older = bases.stages[rng.random_range(0..bases.stages.len())].clone();
    let change = |path: &Option<PathBuf>, change: &mut dyn FnMut(&mut Vec<u8>)| {
        if let Some(path) = path
            && let Ok(mut bytes) = fs::read(path)
            && !bytes.is_empty()
        {
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
    };
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match rng.random_range(0..17) {
        0 => {
            change(&last, &mut |bytes| bytes.truncate(rng.random_range(0..=used(bytes))));
            format!("the last segment is cut ({last:?})")
        }
        1 => {
            change(&last, &mut |bytes| {
                let from = rng.random_range(0..=used(bytes));
                bytes[from..].fill(0);
            });
            "the last segment ends in zeros".to_owned()
        }
        2 => {
            let path = pick(rng);
            change(&path, &mut |bytes| {
                let at = rng.random_range(0..used(bytes).max(1));
                bytes[at] ^= 1 << rng.random_range(0..8);
            });
            format!("a bit is flipped in {path:?}")
        }
        3 => {
            change(&last, &mut |bytes| {
                for at in 0..bytes.len() {
                    if bytes[at..].starts_with(b"\xF7RTF") && rng.random_bool(0.7) {
                        let at = (at + 40 + rng.random_range(0..60)).min(bytes.len() - 1);
                        bytes[at] ^= 4;
                    }
                }
            });
            "most frames of the last segment are damaged".to_owned()
        }
        4 => {
            let path = pick(rng);
            path.iter().for_each(|path| fs::remove_file(path).unwrap());
            format!("{path:?} is removed")
        }
        5 => {
            replace_dir(&older.join("journal"), &dir.join("journal"));
            format!("the journal is that of {}", older.display())
        }
        6 => {
            replace_dir(&older.join("db"), &dir.join("db"));
            format!("the database is that of {}", older.display())
        }
        7 => {
            let _ = fs::copy(older.join("journal/mark"), dir.join("journal/mark"));
            format!("the checkpoint is that of {}", older.display())
        }
        8 => {
            let _ = fs::remove_file(dir.join("journal/mark"));
            "the checkpoint is removed".to_owned()
        }
        9 => {
            let path = pick(rng);
            if let Some(path) = &path {
                let _ = fs::copy(older.join("journal").join(path.file_name().unwrap()), path);
            }
            format!("{path:?} is that of {}", older.display())
        }
        10 => {
            let foreign = segments(&bases.foreign);
            let from = &foreign[rng.random_range(0..foreign.len())];
            let _ = fs::copy(from, dir.join("journal").join(from.file_name().unwrap()));
            format!("{from:?} is a stranger's")
        }
        11 => {
            replace_dir(&bases.foreign.join("db"), &dir.join("db"));
            "the database is a stranger's".to_owned()
        }
        12 => {
            let (from, to) = (pick(rng), rng.random_range(1..there.len() + 3));
            from.iter().for_each(|from| drop(fs::copy(from, dir.join(format!("journal/{to:08}.log")))));
            format!("{from:?} is copied to segment {to}")
        }
        13 => {
            let _ = fs::remove_dir_all(dir.join("db"));
            "the database is removed".to_owned()
        }
        14 => {
            let path = Some(dir.join("db/db"));
            change(&path, &mut |bytes| {
                let at = rng.random_range(0..bytes.len());
                let end = (at + 512).min(bytes.len());
                rng.fill(&mut bytes[at..end]);
            });
            "the database is damaged".to_owned()
        }
        15 => {
            let _ = fs::write(dir.join(format!("journal/{:08}.log", rng.random_range(1..30))), b"");
            "an empty file has the name of a segment".to_owned()
        }
        _ => {
            let names: Vec<PathBuf> =
                fs::read_dir(dir.join("db")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            if let Some(name) = names.get(rng.random_range(0..names.len().max(1))).filter(|name| name.is_file()) {
                fs::remove_file(name).unwrap();
            }
            "a file of the database is removed".to_owned()
        }
    }
}

/// Collects every byte below a directory that a recovery may read.
fn bytes_below(dir: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { bytes_below(&path, found) } else { found.extend(fs::read(path).ok()) }
    }
}

/// Returns the number of events and the newest session in the checkpoint of a case.
fn checkpoint(dir: &Path) -> (u64, u32) {
    let bytes = fs::read(dir.join("journal/mark")).unwrap_or_default();
    let slot = |at: usize| {
        let slot = bytes.get(at..at + 128)?;
        let crc = u32::from_le_bytes(slot[124..].try_into().ok()?);
        (slot.starts_with(b"RETAKEM1") && crc32fast::hash(&slot[..124]) == crc).then_some(slot)
    };
    let number = |slot: &[u8], at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().unwrap());
    let newest = [0, 512].into_iter().filter_map(slot).max_by_key(|slot| number(slot, 8));
    newest.map_or((0, 0), |slot| (number(slot, 36), u32::from_le_bytes(slot[60..64].try_into().unwrap())))
}

fn check(seed: u64, bases: &Bases, home: &Path) {
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = home.join(format!("case{seed}"));
    copy(if rng.random_bool(0.5) { &bases.killed } else { &bases.stages[3] }, &dir);
    let faults: Vec<String> = (0..rng.random_range(1..4)).map(|_| hurt(&dir, bases, &mut rng)).collect();
    let what = format!("seed {seed}: {}", faults.join("; "));
    let mut survived = Vec::new();
    bytes_below(&dir.join("journal"), &mut survived);
    bytes_below(&dir.join("db"), &mut survived);
    let contains = |record: &[u8]| survived.iter().any(|bytes| memchr::memmem::find(bytes, record).is_some());
    let found: BTreeSet<(SessionId, u32)> =
        bases.records.iter().filter(|(_, record)| contains(record)).map(|(place, _)| *place).collect();
    // A batch exists completely or not at all: a part of one is the remains of an incomplete write.
    let is_whole = |(id, seq): &(SessionId, u32)| *seq > 1 || (found.contains(&(*id, 0)) && found.contains(&(*id, 1)));
    let surviving: BTreeSet<(SessionId, u32)> = found.iter().copied().filter(is_whole).collect();
    let (known_events, newest) = checkpoint(&dir);

    let store = open_small(&dir).unwrap_or_else(|error| panic!("{what}: {error}"));
    if !store.verify(None).unwrap().problems.is_empty() {
        store.repair(None).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let mut found: BTreeSet<(SessionId, u32)> = BTreeSet::new();
    for (head, events) in contents(&store).sessions {
        for event in events.iter().filter(|event| !matches!(event.body, EventBody::Lost(_))) {
            let record = store.record(head.id, event.seq).unwrap().unwrap();
            let own = bases.records.get(&(head.id, event.seq));
            assert_eq!(own, Some(&record), "{} {} is not ours: {what}", head.id, event.seq);
            found.insert((head.id, event.seq));
        }
    }
    let silently: Vec<_> = surviving.difference(&found).collect();
    assert!(silently.is_empty(), "{silently:?} survived and were dropped: {what}\n{:#?}", store.recoveries().unwrap());
    let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
    let has_gap = bases
        .records
        .keys()
        .any(|(id, seq)| !found.contains(&(*id, *seq)) && found.range((*id, *seq)..(*id, u32::MAX)).next().is_some());
    if has_gap || (found.len() as u64) < known_events {
        assert!(
            lost > 0,
            "{} of {} events are there and nothing is called lost: {what}",
            found.len(),
            bases.records.len()
        );
    }
    let verified = store.verify(None).unwrap();
    assert_eq!(verified.problems, Vec::<String>::new(), "{what}");
    let before = contents(&store);
    store.close().unwrap();
    let store = open_small(&dir).unwrap();
    assert_eq!(contents(&store), before, "opening again changes something: {what}");
    let next = store.append(start("next", 99, "next")).unwrap().head.id;
    let highest = surviving.iter().map(|(id, _)| id.number().get()).max().unwrap_or(0).max(newest);
    assert!(next.number().get() > highest, "{next} was assigned twice: {what}");
    drop(store);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn any_combination_of_faults_loses_nothing_silently() {
    let cases: u64 = std::env::var("RETAKE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000);
    let first: u64 = std::env::var("RETAKE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let home = tempfile::tempdir().unwrap();
    let bases = bases(home.path());
    let next = AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + cases {
                        return;
                    }
                    check(seed, &bases, home.path());
                }
            });
        }
    });
    println!("{cases} cases");
}
