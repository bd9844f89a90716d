//! Fixtures shared by the tests of all crates: batches to append, fixed clocks, comparable contents of a store, images,
//! videos, output folders of other tools, and tests that need more than Rust.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a failure in a fixture is the failure of a test"
)]

pub mod faults;
pub mod images;
pub mod made;
pub mod optional;
mod random;
pub mod videos;

pub use random::Random;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use retake_log::disk::Disk;
use retake_log::model::{
    Actor, AnnotationChange, Draft, Event, Head, Iteration, Outcome, Recipe, Session, SessionId, Timestamp,
};
use retake_log::store::{Batch, Clock, Detail, Options, Store, Target};

/// Returns 2025-12-11T10:00:00Z plus this many milliseconds.
pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_765_447_200_000 + millis).unwrap()
}

/// Returns a clock that stands still.
pub fn still_clock() -> Clock {
    Arc::new(|| at(0))
}

/// A clock that advances by a millisecond at every reading, and can be set.
#[derive(Clone, Default)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// Returns the clock in the form that a store takes.
    pub fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Arc::new(move || at(now.fetch_add(1, Ordering::Relaxed)))
    }

    /// Sets the time, in milliseconds after [`at`]`(0)`.
    pub fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }
}

/// Returns the options of a store whose clock stands still.
pub fn options() -> Options {
    options_on(Disk::default())
}

/// Returns [`options`] on this disk.
pub fn options_on(disk: Disk) -> Options {
    Options { disk, ..Options::new(still_clock()) }
}

/// Opens a store with [`options`].
pub fn open(dir: &Path) -> Store {
    Store::open(dir, options()).unwrap()
}

/// Returns the actor of all events in tests.
pub fn actor() -> Actor {
    Actor { client: "test 1.0".to_owned(), user: "ada".to_owned() }
}

/// Returns an iteration with this prompt and time.
pub fn iteration(prompt: &str, millis: i64) -> Iteration {
    Iteration {
        created_at: at(millis),
        recipe: Recipe { prompt: prompt.to_owned(), steps: Some(20), ..Recipe::default() },
        outcome: Outcome::default(),
        images: Vec::new(),
        parent: None,
        parent_reason: None,
        likely_parent: None,
    }
}

/// Returns a batch that starts a session with its first iteration.
pub fn start(prompt: &str, millis: i64, key: &str) -> Batch {
    let drafts = vec![Draft::Start { title: None, project: None }, Draft::Record(Box::new(iteration(prompt, millis)))];
    batch(Target::New(at(millis).day()), millis, key, drafts)
}

/// Returns a batch that records one more iteration.
pub fn record(id: SessionId, prompt: &str, millis: i64, key: &str) -> Batch {
    batch(Target::Existing(id), millis, key, vec![Draft::Record(Box::new(iteration(prompt, millis)))])
}

/// Returns a batch that rates an iteration.
pub fn rate(id: SessionId, index: u32, rating: u8, millis: i64, key: &str) -> Batch {
    let change = AnnotationChange { rating: Some(rating), ..AnnotationChange::default() };
    batch(Target::Existing(id), millis, key, vec![Draft::Annotate { index, change }])
}

/// Returns a batch that archives a session.
pub fn archive(id: SessionId, millis: i64, key: &str) -> Batch {
    batch(Target::Existing(id), millis, key, vec![Draft::Archive { reason: Some("done".to_owned()) }])
}

/// Returns a batch that restores a session.
pub fn restore(id: SessionId, millis: i64, key: &str) -> Batch {
    batch(Target::Existing(id), millis, key, vec![Draft::Restore { reason: None }])
}

/// Returns a batch of these drafts.
pub fn batch(target: Target, millis: i64, key: &str, drafts: Vec<Draft>) -> Batch {
    Batch { target, expected_iterations: None, at: at(millis), actor: actor(), key: key.to_owned(), drafts }
}

/// Everything a store contains, to be compared before and after something happened to its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Every session with all its events.
    pub sessions: Vec<(Head, Vec<Event>)>,
    /// One line per row of the listing.
    pub listing: Vec<String>,
    /// The totals.
    pub totals: retake_log::store::Totals,
}

/// Reads everything, and checks that heads and rows agree with the events.
pub fn contents(store: &Store) -> Contents {
    use retake_log::store::{Order, Status};
    let mut sessions = Vec::new();
    let mut after = None;
    loop {
        let ids = store.ids(after, 100).unwrap();
        let Some(last) = ids.last() else { break };
        after = Some(*last);
        for id in ids {
            let events = store.events(id, Detail::Full).unwrap();
            let head = store.head(id).unwrap().unwrap();
            assert_eq!(
                Session::fold(events.clone()).unwrap().head,
                head,
                "the head of {id} is not what its events say"
            );
            sessions.push((head, events));
        }
    }
    let rows = store.page(Status::All, Order::Recent, None, 100_000).unwrap();
    for row in &rows {
        assert_eq!(row.current_iteration_index() + 1, row.iteration_count());
    }
    let listing = rows.iter().map(|row| format!("{} {} {}", row.id, row.iteration_count(), row.last_modified_at));
    Contents { sessions, listing: listing.collect(), totals: store.totals().unwrap() }
}

/// Returns the segments of the journal in order; an empty list without a journal.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join("journal")).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    paths.sort();
    paths
}

/// Copies a directory recursively.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
