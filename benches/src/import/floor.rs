//! The floor of an import: the images and records that an import wrote, written again in groups and nothing else.
//!
//! A group is the data of 64 iterations. Its images are created under names of the same kind and written; then every
//! file is synced, on a few threads, and every directory with a new name once; then the records of the group are
//! appended to one file and synced. Reading the source files, hashing, decoding, thumbnails, grouping and the database
//! are left out, so the distance from the floor is their cost. The data is in memory before the clock starts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use retake::internals::model::{EventBody, Timestamp};
use retake::internals::store::Detail;

use crate::peers::ours;

/// The number of iterations whose files and records are made durable together.
const GROUP: usize = 64;
/// The number of threads that create and sync files, as many as an import uses on two cores.
const THREADS: usize = 4;

/// One iteration: when it was made, its images with their paths below the workspace, and its records.
struct Step {
    at: Timestamp,
    images: Vec<(PathBuf, Vec<u8>)>,
    records: Vec<u8>,
}

/// Writes the contents of the workspace in `from` to `to` in groups, and returns the time in seconds and the number of
/// images.
pub(super) fn write(from: &Path, to: &Path) -> (f64, u64) {
    let steps = read(from);
    fs::create_dir_all(to).unwrap();
    let begun = Instant::now();
    let mut log = File::create(to.join("records")).unwrap();
    for group in steps.chunks(GROUP) {
        let images: Vec<&(PathBuf, Vec<u8>)> = group.iter().flat_map(|step| &step.images).collect();
        let dirs: BTreeSet<PathBuf> =
            images.iter().map(|(path, _)| to.join(path).parent().unwrap().to_owned()).collect();
        for dir in dirs.iter().filter(|dir| !dir.is_dir()) {
            fs::create_dir_all(dir).unwrap();
            File::open(dir.parent().unwrap()).unwrap().sync_all().unwrap();
        }
        let files: Vec<File> = on_threads(&images, |(path, bytes)| {
            let mut file = File::create(to.join(path)).unwrap();
            file.write_all(bytes).unwrap();
            file
        });
        on_threads(&files, |file| file.sync_data().unwrap());
        let dirs: Vec<PathBuf> = dirs.into_iter().collect();
        on_threads(&dirs, |dir| File::open(dir).unwrap().sync_all().unwrap());
        let records: Vec<u8> = group.iter().flat_map(|step| step.records.iter().copied()).collect();
        log.write_all(&records).unwrap();
        log.sync_data().unwrap();
    }
    (begun.elapsed().as_secs_f64(), steps.iter().map(|step| step.images.len() as u64).sum())
}

/// Reads the iterations of a workspace in chronological order.
fn read(workspace: &Path) -> Vec<Step> {
    let store = ours::open(workspace);
    let mut steps: Vec<Step> = Vec::new();
    let mut after = None;
    loop {
        let ids = store.ids(after, 1000).unwrap();
        for id in &ids {
            let mut records = Vec::new();
            for (record, event) in store.records(*id).unwrap().iter().zip(store.events(*id, Detail::Brief).unwrap()) {
                records.extend_from_slice(record);
                let EventBody::Recorded { iteration, .. } = event.body else { continue };
                let images = iteration.images.iter().map(|image| {
                    let hash = image.hash.to_string();
                    let (first, rest) = hash.split_at(2);
                    let path = Path::new("images").join(first).join(rest);
                    let bytes = fs::read(workspace.join(&path)).unwrap();
                    (path, bytes)
                });
                let images = images.collect();
                steps.push(Step { at: iteration.created_at, images, records: std::mem::take(&mut records) });
            }
        }
        after = ids.last().copied();
        if after.is_none() {
            break;
        }
    }
    store.close().unwrap();
    steps.sort_by_key(|step| step.at);
    steps
}

/// Calls `work` for every item on a few threads, and returns the results in arbitrary order.
fn on_threads<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            results.push(work(item));
        }
        results
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}
