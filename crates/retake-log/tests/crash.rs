//! Crashes: the power fails at any write, the disk is full at any write, the process is killed at any moment.
//! Acknowledged events survive, and the store continues to work.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test may stop anywhere"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use retake_log::disk::{Disk, Observer, Op};
use retake_log::model::{Draft, Event, Hash, SessionId};
use retake_log::store::{Batch, Detail, Error, Options, Store};
use retake_testutils::*;

/// The recorded operations of a run, in order, with what had been acknowledged by then.
#[derive(Clone, Debug)]
enum Step {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    SyncFile(PathBuf),
    SyncDir(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    CreateDir(PathBuf),
    Acknowledged(Vec<Event>),
    /// The database's files were copied: they may be found in this state, or any mixture of earlier ones.
    Database(BTreeMap<PathBuf, Vec<u8>>),
}

#[derive(Default)]
struct Recorder {
    root: PathBuf,
    steps: Mutex<Vec<Step>>,
}

impl Recorder {
    fn push(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }
}

impl Observer for Recorder {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        let path = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        self.push(match op {
            Op::Create(file) => Step::Create(path(file)),
            Op::Write(file, offset, bytes) => Step::Write(path(file), offset, bytes.to_vec()),
            Op::SetLen(file, length) => Step::SetLen(path(file), length),
            Op::SyncFile(file) => Step::SyncFile(path(file)),
            Op::SyncDir(dir) => Step::SyncDir(path(dir)),
            Op::Rename(from, to) => Step::Rename(path(from), path(to)),
            Op::Remove(file) => Step::Remove(path(file)),
            Op::CreateDir(dir) => Step::CreateDir(path(dir)),
            Op::Link(..) => panic!("a healthy run sets nothing aside"),
            Op::Read(_) | Op::List(_) | Op::OpenDatabase(_) | Op::WriteDatabase(_) | Op::SyncDatabase(_) => {
                return Ok(());
            }
        });
        Ok(())
    }
}

/// A simulated file system that loses what was not synced.
#[derive(Clone, Default)]
struct Platter {
    files: Vec<SimFile>,
    /// Names as the running system sees them, and as a crash may leave them.
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    databases: Vec<BTreeMap<PathBuf, Vec<u8>>>,
    acknowledged: Vec<Event>,
}

#[derive(Clone, Default)]
struct SimFile {
    synced: Vec<u8>,
    /// Writes since the last sync: at an offset, or a new length.
    unsynced: Vec<(u64, Option<Vec<u8>>)>,
}

impl Platter {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Create(path) => {
                self.names.insert(path.clone(), self.files.len());
                self.files.push(SimFile::default());
            }
            Step::Write(path, offset, bytes) => self.file(path).unsynced.push((*offset, Some(bytes.clone()))),
            Step::SetLen(path, length) => self.file(path).unsynced.push((*length, None)),
            Step::SyncFile(path) => {
                let file = self.file(path);
                for write in std::mem::take(&mut file.unsynced) {
                    apply_write(&mut file.synced, &write);
                }
            }
            Step::SyncDir(dir) => {
                self.synced_names.retain(|path, _| path.parent() != Some(dir));
                let here = self.names.iter().filter(|(path, _)| path.parent() == Some(dir));
                self.synced_names.extend(here.map(|(path, file)| (path.clone(), *file)));
            }
            Step::Rename(from, to) => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.clone(), file);
                }
            }
            Step::Remove(path) => drop(self.names.remove(path)),
            Step::CreateDir(dir) => drop(self.dirs.insert(dir.clone())),
            Step::Acknowledged(events) => self.acknowledged.extend(events.iter().cloned()),
            Step::Database(files) => self.databases.push(files.clone()),
        }
    }

    fn file(&mut self, path: &Path) -> &mut SimFile {
        let file = self.names[path];
        &mut self.files[file]
    }

    /// Writes to `dir` what a crash now may leave: nothing, everything, or any part of what was not synced.
    fn crash(&self, dir: &Path, keep: f64, rng: &mut StdRng) {
        for made in &self.dirs {
            fs::create_dir_all(dir.join(made)).unwrap();
        }
        fs::create_dir_all(dir).unwrap();
        let paths: BTreeSet<&PathBuf> = self.names.keys().chain(self.synced_names.keys()).collect();
        for path in paths {
            let names = if rng.random_bool(keep) { &self.names } else { &self.synced_names };
            let Some(file) = names.get(path) else { continue };
            let file = &self.files[*file];
            let mut bytes = file.synced.clone();
            for write in &file.unsynced {
                // A write may reach the platter page by page, in any order.
                match write {
                    (offset, Some(written)) => {
                        for (page, piece) in written.chunks(4096).enumerate() {
                            if rng.random_bool(keep) {
                                apply_write(&mut bytes, &(offset + page as u64 * 4096, Some(piece.to_vec())));
                            }
                        }
                    }
                    length if rng.random_bool(keep) => apply_write(&mut bytes, length),
                    _ => {}
                }
            }
            let target = dir.join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
        self.crash_database(dir, rng);
    }

    /// Nothing is assumed about sled: it may be missing, stale, or a mixture of pages from two moments.
    fn crash_database(&self, dir: &Path, rng: &mut StdRng) {
        let choice = rng.random_range(0..4);
        if self.databases.is_empty() || choice == 0 {
            return;
        }
        let older = rng.random_range(0..self.databases.len());
        let newer = rng.random_range(older..self.databases.len());
        let mut mixed = self.databases[newer].clone();
        if choice == 1 {
            for (path, bytes) in &mut mixed {
                let old = self.databases[older].get(path).cloned().unwrap_or_default();
                for (page, old) in old.chunks(4096).enumerate() {
                    let at = page * 4096..page * 4096 + old.len();
                    if rng.random_bool(0.3) && at.end <= bytes.len() {
                        bytes[at].copy_from_slice(old);
                    }
                }
            }
        }
        for (path, bytes) in mixed {
            let target = dir.join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
    }
}

fn apply_write(bytes: &mut Vec<u8>, (offset, written): &(u64, Option<Vec<u8>>)) {
    let offset = usize::try_from(*offset).unwrap();
    match written {
        Some(written) => {
            if bytes.len() < offset + written.len() {
                bytes.resize(offset + written.len(), 0);
            }
            bytes[offset..offset + written.len()].copy_from_slice(written);
        }
        None => bytes.resize(offset, 0),
    }
}

fn database_files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir.join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            files.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
    files
}

/// Returns a short history with long texts and a change of segment, as batches that build on each other.
fn history() -> Vec<Batch> {
    let id = |number: u32| -> SessionId { format!("session-2025-12-11-{number:03}").parse().unwrap() };
    let mut batches = Vec::new();
    for n in 0..14 {
        let mut batch = start(&format!("a bridge {n}"), i64::from(n), &format!("s{n}"));
        if n % 6 == 1 {
            let Draft::Record(iteration) = &mut batch.drafts[1] else { panic!() };
            iteration.recipe.parameters.insert("workflow".to_owned(), "w".repeat(6000 + 10 * n as usize).into());
        }
        batches.push(batch);
        batches.push(record(id(n + 1), "a glass bridge", 100 + i64::from(n), &format!("r{n}")));
        if n % 4 == 0 {
            batches.push(archive(id(n + 1), 200, &format!("x{n}")));
        }
    }
    batches
}

fn small(disk: Disk) -> Options {
    Options { segment_bytes: 8 << 10, ..options_on(disk) }
}

fn new_events(store: &Store, known: &mut BTreeSet<Hash>) -> Vec<Event> {
    let mut events = Vec::new();
    for id in store.ids(None, 1000).unwrap() {
        events.extend(store.events(id, Detail::Full).unwrap().into_iter().filter(|event| known.insert(event.hash)));
    }
    events
}

#[test]
fn power_loss_at_any_write_keeps_what_was_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("recorded");
    let recorder = Arc::new(Recorder { root: dir.clone(), ..Recorder::default() });
    let mut known = BTreeSet::new();
    // Three runs: the second and third open what the previous one left.
    let batches = history();
    for life in batches.chunks(batches.len().div_ceil(3)) {
        let store = Store::open(&dir, small(Disk::observed(recorder.clone()))).unwrap();
        for batch in life {
            store.append(batch.clone()).unwrap();
            recorder.push(Step::Acknowledged(new_events(&store, &mut known)));
            recorder.push(Step::Database(database_files(&dir)));
        }
        store.close().unwrap();
        recorder.push(Step::Database(database_files(&dir)));
    }
    let steps = recorder.steps.lock().unwrap().clone();
    let everything: BTreeSet<Hash> = known;

    let mut platter = Platter::default();
    let mut crashes = 0;
    for (point, step) in steps.iter().enumerate() {
        platter.apply(step);
        if matches!(step, Step::Database(_)) {
            continue;
        }
        for keep in [0.0, 0.5, 1.0] {
            let mut rng = StdRng::seed_from_u64(point as u64 * 10 + (keep * 2.0) as u64);
            let crashed = home.path().join("crashed");
            platter.crash(&crashed, keep, &mut rng);
            crashes += 1;
            let what = format!("after step {point} of {}, keeping {keep}", steps.len());
            let store = Store::open(&crashed, small(Disk::default())).unwrap();
            let found = new_events(&store, &mut BTreeSet::new());
            for event in &platter.acknowledged {
                assert!(found.contains(event), "{} {} is gone {what}", event.session, event.seq);
            }
            assert!(found.iter().all(|event| everything.contains(&event.hash)), "events were invented {what}");
            let lost: u64 = store.recoveries().unwrap().iter().map(|report| report.lost_events).sum();
            assert_eq!(lost, 0, "nothing acknowledged was lost, so nothing may be called lost {what}");
            let state = contents(&store);
            // It continues, and new events are there the next time.
            store.append(start("afterwards", 500, "afterwards")).unwrap();
            store.close().unwrap();
            let store = Store::open(&crashed, small(Disk::default())).unwrap();
            assert_eq!(contents(&store).sessions.len(), state.sessions.len() + 1, "{what}");
            if point % 7 == 0 {
                assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "{what}");
            }
            store.close().unwrap();
            fs::remove_dir_all(&crashed).unwrap();
        }
    }
    println!("{crashes} crashes at {} points", steps.len());
    assert!(crashes > 300);
}

/// Refuses operations from the given one on, for a while, like a full disk.
struct Full {
    count: Mutex<u64>,
    refused: std::ops::Range<u64>,
}

impl Observer for Full {
    fn before(&self, op: Op<'_>) -> io::Result<()> {
        let takes_room =
            matches!(op, Op::Create(_) | Op::Write(..) | Op::SyncFile(_) | Op::CreateDir(_) | Op::Rename(..));
        if !takes_room {
            return Ok(());
        }
        let mut count = self.count.lock().unwrap();
        *count += 1;
        if self.refused.contains(&*count) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_store_stays_usable() {
    let home = tempfile::tempdir().unwrap();
    let mut refused_somewhere = 0;
    // Each operation of a run in turn, and the two after it, fail with a full disk.
    for at in 0.. {
        let dir = home.path().join(at.to_string());
        let full = Arc::new(Full { count: Mutex::new(0), refused: at..at + 3 });
        let mut acknowledged = BTreeSet::new();
        let mut refused = 0;
        match Store::open(&dir, small(Disk::observed(full.clone()))) {
            Ok(store) => {
                for batch in history().into_iter().take(12) {
                    // Clients retry the same request with the same key.
                    let ack = loop {
                        let before = contents(&store);
                        match store.append(batch.clone()) {
                            Ok(ack) => break ack,
                            Err(Error::Io { source, .. }) => {
                                assert_eq!(source.kind(), io::ErrorKind::StorageFull);
                                assert_eq!(contents(&store), before, "something was half written (operation {at})");
                                refused += 1;
                                assert!(refused < 10, "it never recovers (operation {at})");
                            }
                            Err(Error::OutcomeUnknown { .. }) => {
                                assert_eq!(contents(&store), before, "an unknown outcome counts (operation {at})");
                                refused += 1;
                                assert!(refused < 10, "it never recovers (operation {at})");
                            }
                            Err(other) => panic!("{other} (operation {at})"),
                        }
                    };
                    assert!(!ack.repeated);
                    acknowledged.insert((ack.head.id, ack.head.next_seq));
                }
                store.close().unwrap();
            }
            Err(Error::Io { source, .. }) => {
                assert_eq!(source.kind(), io::ErrorKind::StorageFull);
                refused += 1;
            }
            Err(other) => panic!("{other} (operation {at})"),
        }
        let store = Store::open(&dir, small(Disk::default())).unwrap();
        for (id, next_seq) in acknowledged {
            assert!(store.head(id).unwrap().unwrap().next_seq >= next_seq, "{id} lost something (operation {at})");
        }
        assert_eq!(store.verify(None).unwrap().problems, Vec::<String>::new(), "operation {at}");
        let reports = store.recoveries().unwrap();
        assert!(reports.iter().all(|report| report.lost_events == 0), "operation {at}: {reports:?}");
        store.close().unwrap();
        refused_somewhere += refused;
        if *full.count.lock().unwrap() < at {
            break;
        }
    }
    assert!(refused_somewhere > 30, "{refused_somewhere}");
}
