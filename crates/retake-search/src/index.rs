//! The index of a workspace: loaded when it is first needed, caught up with the log at every search, written when enough
//! has gathered, and made again when anything is wrong with it.
//!
//! One lock guards what is loaded. Answering happens outside it, on segments that never change; so does merging. An append
//! never takes it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use retake_log::Log;
use retake_log::store::{Error, Point, Progress};

use super::build::build;
use super::bytes::{Damage, Source};
use super::evaluate::Live;
use super::find::find;
use super::manifest::{Entry, Manifest, segment_path};
use super::segment::Segment;
use super::set::Bits;
use super::tail::{Fresh, Stuck, Tail};
use super::{Found, Question};

/// How many events a process that ends may still take in: more are left to one that stays.
const MOST_AT_END: u64 = 64 * 1024;
/// How many segments there may be before someone who is not in the background merges them.
const MOST_PARTS: usize = 48;
/// How long a process must stay before it makes an index that nobody asked for.
const SETTLED: Duration = Duration::from_secs(2);
/// How often an index that fails is made again for one question.
const TRIES: usize = 3;

/// What progress is told while the index is made.
pub(super) const MAKING: &str = "making the search index";

/// How much is gathered before it is written, and how much is worth several threads.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// How many documents in memory become a segment.
    pub full: usize,
    /// How many a process that ends leaves to the next one to read again.
    pub left: usize,
    /// How many documents a segment has that is made from the whole log.
    pub made_at_once: usize,
    /// From how many documents on a phrase is looked for by several threads.
    pub worth_threads: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { full: 2048, left: 256, made_at_once: 32 * 1024, worth_threads: 100_000 }
    }
}

/// The index of a workspace. Every call may come from any thread.
pub struct Index {
    pub(super) dir: PathBuf,
    pub(super) sizes: Sizes,
    state: Mutex<Option<Loaded>>,
    /// Events acknowledged since a segment was last written, as far as this process was told.
    pub(super) noted: AtomicU64,
    pub(super) stopping: AtomicBool,
    /// How far making it has come, for those who wait.
    pub(super) made: (AtomicU64, AtomicU64),
    pub(super) waiting: (Mutex<Waiting>, Condvar),
}

#[derive(Default)]
pub(super) struct Waiting {
    settled: bool,
    pub(super) merge: bool,
}

/// An index in memory.
pub(super) struct Loaded {
    pub(super) recoveries: String,
    /// The opening of the log of which recoveries and point were found to be.
    pub(super) fits: Option<u64>,
    /// The point that parts and tail together have come to.
    pub(super) point: Point,
    pub(super) parts: Vec<Kept>,
    pub(super) tail: Tail,
    pub(super) next: u64,
    /// Parts and tail, ready for questions; none after a change.
    pub(super) view: Option<Arc<Vec<Live>>>,
}

/// A segment with its file; without one, it could not be written and lives in memory.
pub(super) struct Kept {
    pub(super) number: Option<u64>,
    pub(super) live: Live,
}

impl Index {
    /// The index of the workspace in `dir`. Nothing is read or written yet.
    pub fn new(dir: &Path, sizes: Sizes) -> Index {
        Index {
            dir: dir.join("cache").join("search"),
            sizes,
            state: Mutex::new(None),
            noted: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            made: (AtomicU64::new(0), AtomicU64::new(0)),
            waiting: (Mutex::new(Waiting::default()), Condvar::new()),
        }
    }

    /// Answers a question with everything that was acknowledged before it was asked. When the index must be made first,
    /// `progress` is told.
    pub fn search(&self, store: &dyn Log, question: &Question, progress: Option<&Progress>) -> Result<Found, Error> {
        for _ in 0..TRIES {
            let view = {
                let mut state = self.lock(progress);
                self.current(&mut state, store, progress)?
            };
            match find(question, &view, self.sizes.worth_threads) {
                Ok(found) => return Ok(found),
                Err(damage) => {
                    tracing::warn!(%damage, "it is made again");
                    let mut state = self.lock(progress);
                    let seen = state.as_ref().and_then(|loaded| loaded.view.as_ref());
                    if seen.is_none_or(|current| Arc::ptr_eq(current, &view)) {
                        self.forget(&mut state);
                    }
                }
            }
        }
        Err(Error::Database("the search index fails again and again, although it was made again".to_owned()))
    }

    /// An event was acknowledged. Called for every one, so it only counts.
    pub fn note(&self) {
        let noted = self.noted.fetch_add(1, Ordering::Relaxed) + 1;
        if noted >= self.sizes.full as u64 && noted.is_multiple_of(256) {
            self.waiting.1.notify_one();
        }
    }

    /// Waits until there is something to [tend](Index::tend); false when it is to end.
    pub fn wait(&self) -> bool {
        let (waiting, changed) = &self.waiting;
        let mut waiting = waiting.lock();
        let idle = |waiting: &mut Waiting| {
            !waiting.merge
                && self.noted.load(Ordering::Relaxed) < self.sizes.full as u64
                && !self.stopping.load(Ordering::Acquire)
        };
        if waiting.settled {
            changed.wait_while(&mut waiting, idle);
        } else {
            changed.wait_while_for(&mut waiting, idle, SETTLED);
        }
        waiting.settled = true;
        !self.stopping.load(Ordering::Acquire)
    }

    /// Does what nobody should wait for: takes in what is new, writes it, merges.
    pub fn tend(&self, store: &dyn Log) {
        let mut state = self.lock(None);
        match self.current(&mut state, store, None) {
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the search index cannot be kept up"),
        }
        if let Some(loaded) = state.as_mut()
            && loaded.tail.len() >= self.sizes.full / 2
        {
            self.write_tail(loaded);
        }
        self.noted.store(0, Ordering::Relaxed);
        drop(state);
        let mut merging = true;
        while merging && !self.stopping.load(Ordering::Acquire) {
            merging = self.merge_some();
        }
        self.waiting.0.lock().merge = false;
    }

    /// Ends what is under way in the background.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _guard = self.waiting.0.lock();
        self.waiting.1.notify_all();
    }

    /// The last words of a process: leaves little for the next one to read again. Never begins anything long.
    pub fn close(&self, store: &dyn Log) {
        self.stop();
        let mut state = self.lock(None);
        if state.is_none() {
            let wrote = self.noted.load(Ordering::Relaxed) > 0;
            let loaded = wrote.then(|| self.load(store)).flatten();
            let behind = loaded
                .as_ref()
                .zip(store.totals().ok())
                .map(|(loaded, now)| now.events.saturating_sub(loaded.point.events));
            if behind.is_none_or(|behind| behind < self.sizes.full as u64 || behind > MOST_AT_END) {
                return;
            }
            *state = loaded;
        }
        if let Some(loaded) = state.as_mut()
            && matches!(self.catch_up(loaded, store), Ok(true))
            && loaded.tail.len() >= self.sizes.left
        {
            self.write_tail(loaded);
        }
    }

    /// The lock, telling progress while someone makes the index.
    pub(super) fn lock(&self, progress: Option<&Progress>) -> MutexGuard<'_, Option<Loaded>> {
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(state) = self.state.try_lock() {
                return state;
            }
            let (done, of) = (self.made.0.load(Ordering::Relaxed), self.made.1.load(Ordering::Relaxed));
            if let Some(progress) = progress.filter(|_| of > 0) {
                progress(MAKING, done, of);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// The index with everything that is acknowledged, loaded or made where it must be.
    fn current(
        &self,
        state: &mut Option<Loaded>,
        store: &dyn Log,
        progress: Option<&Progress>,
    ) -> Result<Arc<Vec<Live>>, Error> {
        for _ in 0..TRIES {
            let is_of_another =
                |loaded: &Loaded| loaded.fits != Some(store.opening()) && loaded.recoveries != recoveries(store);
            if state.as_ref().is_some_and(is_of_another) {
                self.forget(state);
            }
            if state.is_none() {
                *state = self.load(store);
            }
            let loaded = match state {
                Some(loaded) => loaded,
                None => state.insert(self.make(store, progress)?),
            };
            let caught_up = self.catch_up(loaded, store);
            match caught_up.and_then(|up| if up { loaded.view().map_err(Stuck::Damage).map(Some) } else { Ok(None) }) {
                Ok(Some(view)) => return Ok(view),
                Ok(None) => self.forget(state),
                Err(Stuck::Log(error)) => return Err(error),
                Err(Stuck::Damage(damage)) => {
                    tracing::warn!(%damage, "it is made again");
                    self.forget(state);
                }
            }
        }
        Err(Error::Database("the search index cannot be brought up to date".to_owned()))
    }

    /// Throws the index away.
    pub(super) fn forget(&self, state: &mut Option<Loaded>) {
        *state = None;
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an index that cannot be used cannot be removed either");
            let _ = fs::remove_file(self.dir.join("manifest"));
        }
    }

    /// The index as it was written; none when there is none that fits the log.
    fn load(&self, store: &dyn Log) -> Option<Loaded> {
        let manifest = Manifest::read(&self.dir)?;
        if manifest.recoveries != recoveries(store) {
            return None;
        }
        let mut parts = Vec::new();
        for entry in &manifest.segments {
            let file = File::open(segment_path(&self.dir, entry.number)).ok()?;
            let segment = Source::file(file).and_then(Segment::open).ok()?;
            let (mut dead, mut dead_sessions) = (Bits::default(), Bits::default());
            if !entry.dead.is_empty() {
                dead = Bits::new(segment.docs());
                entry.dead.iter().for_each(|doc| dead.insert(*doc));
            }
            if !entry.dead_sessions.is_empty() {
                dead_sessions = Bits::new(segment.sessions());
                entry.dead_sessions.iter().for_each(|session| dead_sessions.insert(*session));
            }
            let live =
                Live { segment: Arc::new(segment), dead: Arc::new(dead), dead_sessions: Arc::new(dead_sessions) };
            parts.push(Kept { number: Some(entry.number), live });
        }
        let Manifest { recoveries, point, next, .. } = manifest;
        Some(Loaded { recoveries, fits: None, point, parts, tail: Tail::default(), next, view: None })
    }

    /// Reads what the log has behind the index; false when it cannot, and the index must be made again.
    fn catch_up(&self, loaded: &mut Loaded, store: &dyn Log) -> Result<bool, Stuck> {
        if loaded.fits == Some(store.opening()) && store.ends_at(&loaded.point) {
            return Ok(true);
        }
        let target = store.totals()?.events;
        loop {
            let Some(since) = store.since(&loaded.point)? else { return Ok(false) };
            // Buried documents are in the tail, where they are looked for first, so these may be as they were.
            let parts: Vec<Live> = loaded.parts.iter().map(|part| part.live.clone()).collect();
            for event in &since.events {
                if let Some(fresh) = loaded.tail.take(event, store, &parts)? {
                    loaded.bury(fresh)?;
                }
                loaded.view = None;
            }
            loaded.point = since.point;
            if loaded.tail.len() >= self.sizes.full {
                self.write_tail(loaded);
            }
            if since.complete || loaded.point.events >= target {
                loaded.fits = Some(store.opening());
                return Ok(true);
            }
        }
    }

    /// Makes the tail a segment, and the manifest name it. A manifest is only ever written without a tail: what it says
    /// is dead is in one of its segments again.
    pub(super) fn write_tail(&self, loaded: &mut Loaded) {
        if !loaded.tail.is_empty() {
            self.write_part(loaded);
        }
        self.write_manifest(loaded);
        if loaded.parts.len() >= MOST_PARTS {
            self.waiting.0.lock().merge = true;
        }
        self.waiting.1.notify_one();
    }

    pub(super) fn write_part(&self, loaded: &mut Loaded) {
        let Ok(bytes) = build(Vec::new(), loaded.tail.docs.values(), loaded.tail.sessions.values()) else { return };
        let number = loaded.next;
        loaded.next += 1;
        let path = segment_path(&self.dir, number);
        let written = fs::create_dir_all(&self.dir).and_then(|()| write_file(&path, &bytes));
        let opened = written.and_then(|()| File::open(&path)).map_err(|error| Damage(error.to_string()));
        let (number, source) = match opened.and_then(Source::file) {
            Ok(source) => (Some(number), source),
            Err(error) => {
                tracing::warn!(%error, "a part of the search index cannot be written and stays in memory");
                (None, Source::Memory(bytes))
            }
        };
        match Segment::open(source) {
            Ok(segment) => {
                let live = Live { segment: Arc::new(segment), dead: Arc::default(), dead_sessions: Arc::default() };
                loaded.parts.push(Kept { number, live });
                loaded.tail = Tail::default();
                loaded.view = None;
            }
            // Found again, and acted on, by the next question.
            Err(damage) => tracing::warn!(%damage, "a part of the search index cannot be used"),
        }
    }

    pub(super) fn write_manifest(&self, loaded: &Loaded) {
        let entry = |part: &Kept| {
            let (dead, dead_sessions) = (part.live.dead.docs(), part.live.dead_sessions.docs());
            Some(Entry { number: part.number?, dead, dead_sessions })
        };
        let Some(entries) = loaded.parts.iter().map(entry).collect::<Option<Vec<_>>>() else { return };
        let manifest = Manifest::new(loaded.recoveries.clone(), loaded.point, entries, loaded.next);
        match manifest.write(&self.dir) {
            Ok(()) => manifest.sweep(&self.dir),
            Err(error) => tracing::warn!(%error, "the search index cannot be written"),
        }
        self.noted.store(0, Ordering::Relaxed);
    }
}

impl Loaded {
    /// Marks what the tail now says better.
    fn bury(&mut self, fresh: Fresh) -> Result<(), Damage> {
        for part in &mut self.parts {
            let Live { segment, dead, dead_sessions } = &mut part.live;
            match fresh {
                Fresh::Iteration(session, index) => {
                    if let Some(doc) = segment.find(session, index)? {
                        mark(dead, doc, segment.docs());
                    }
                }
                Fresh::Session(session) => {
                    if let Some(at) = segment.find_session(session)? {
                        mark(dead_sessions, at, segment.sessions());
                    }
                }
            }
        }
        Ok(())
    }

    /// Parts and tail, ready for questions.
    fn view(&mut self) -> Result<Arc<Vec<Live>>, Damage> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let mut parts: Vec<Live> = self.parts.iter().map(|part| part.live.clone()).collect();
        if !self.tail.is_empty() {
            let bytes = build(Vec::new(), self.tail.docs.values(), self.tail.sessions.values())
                .map_err(|error| Damage(error.to_string()))?;
            let segment = Arc::new(Segment::open(Source::Memory(bytes))?);
            parts.push(Live { segment, dead: Arc::default(), dead_sessions: Arc::default() });
        }
        Ok(Arc::clone(self.view.insert(Arc::new(parts))))
    }
}

pub(super) fn mark(bits: &mut Arc<Bits>, at: u32, universe: u32) {
    if **bits == Bits::default() {
        *bits = Arc::new(Bits::new(universe));
    }
    if !bits.contains(at) {
        Arc::make_mut(bits).insert(at);
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// Which recoveries the log has been through.
pub(super) fn recoveries(store: &dyn Log) -> String {
    let names = store.recoveries().unwrap_or_default();
    format!("{} {}", names.len(), names.last().map_or("", |last| last.name.as_str()))
}
