//! The index of a workspace: loaded when first needed, brought up to date by every search, written when enough
//! documents have accumulated, and rebuilt if anything is wrong with it.
//!
//! One lock guards the loaded index. Searching and merging work outside of it, on immutable segments. An append never
//! takes it.

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
use super::evaluate::SegmentView;
use super::find::find;
use super::manifest::{Entry, Manifest, segment_path};
use super::near::near;
use super::segment::Segment;
use super::set::Bits;
use super::tail::{Fresh, IndexError, Tail};
use super::{Found, Question};

/// The maximum number of events that a closing process still indexes; more are left to a longer-running one.
const MAX_CLOSING_EVENTS: u64 = 64 * 1024;
/// The number of segments from which on a merge is requested at once.
const MAX_SEGMENTS: usize = 48;
/// How long a process must run before it builds an index unprompted.
const STARTUP_DELAY: Duration = Duration::from_secs(2);
/// The number of attempts, with a rebuild in between, for one search.
const MAX_ATTEMPTS: usize = 3;

/// The label of progress reports while the index is built.
pub(super) const BUILDING: &str = "building the search index";

/// The thresholds of the index.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The number of documents in memory that become a segment.
    pub full: usize,
    /// The number of documents below which a closing process writes no segment.
    pub left: usize,
    /// The number of documents per segment when the index is built from the log.
    pub made_at_once: usize,
    /// The maximum number of documents in a merged segment. A merge holds all columns of its segments in memory.
    pub max_merged: u32,
    /// The number of documents from which on a phrase is searched by several threads.
    pub worth_threads: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { full: 2048, left: 256, made_at_once: 32 * 1024, max_merged: 256 * 1024, worth_threads: 100_000 }
    }
}

/// The index of a workspace. All methods may be called from any thread.
pub struct Index {
    pub(super) dir: PathBuf,
    pub(super) sizes: Sizes,
    state: Mutex<Option<Loaded>>,
    /// The number of events that this process noted since a segment was last written.
    pub(super) noted: AtomicU64,
    pub(super) stopping: AtomicBool,
    /// The progress of a build (done, total), for callers that wait for it.
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
    /// The open generation of the log for which `recoveries` and `point` were last verified.
    pub(super) verified_generation: Option<u64>,
    /// The journal position that parts and tail together have reached.
    pub(super) point: Point,
    pub(super) parts: Vec<IndexPart>,
    pub(super) tail: Tail,
    pub(super) next: u64,
    /// Parts and tail, ready to be searched; `None` after a change.
    pub(super) view: Option<Arc<Vec<SegmentView>>>,
}

/// A segment with the number of its file; without one, it could not be written and lives in memory.
pub(super) struct IndexPart {
    pub(super) number: Option<u64>,
    pub(super) live: SegmentView,
}

impl Index {
    /// Creates the index of the workspace in `dir`, without reading or writing anything.
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

    /// Searches everything that was acknowledged before the call. If the index must be built first, `progress` is called.
    pub fn search(&self, store: &dyn Log, question: &Question, progress: Option<&Progress>) -> Result<Found, Error> {
        self.read(store, progress, |view| find(question, view, self.sizes.worth_threads))
    }

    /// Returns up to three words that are similar to a folded word and occur somewhere, most similar first.
    pub fn near_words(&self, store: &dyn Log, word: &str, progress: Option<&Progress>) -> Result<Vec<String>, Error> {
        self.read(store, progress, |view| near(word, view))
    }

    /// Reads the index, including everything acknowledged before the call; rebuilds it if it is damaged.
    fn read<T>(
        &self,
        store: &dyn Log,
        progress: Option<&Progress>,
        read: impl Fn(&[SegmentView]) -> Result<T, Damage>,
    ) -> Result<T, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let view = {
                let mut state = self.lock(progress);
                self.current(&mut state, store, progress)?
            };
            match read(&view) {
                Ok(found) => return Ok(found),
                Err(damage) => {
                    tracing::warn!(%damage, "rebuilding the search index");
                    let mut state = self.lock(progress);
                    let seen = state.as_ref().and_then(|loaded| loaded.view.as_ref());
                    if seen.is_none_or(|current| Arc::ptr_eq(current, &view)) {
                        self.forget(&mut state);
                    }
                }
            }
        }
        Err(Error::Database("the search index keeps failing after a rebuild".to_owned()))
    }

    /// Counts an acknowledged event. Called for every one, so it does nothing else.
    pub fn note(&self) {
        let noted = self.noted.fetch_add(1, Ordering::Relaxed) + 1;
        if noted >= self.sizes.full as u64 && noted.is_multiple_of(256) {
            self.waiting.1.notify_one();
        }
    }

    /// Waits until there is background work to do; returns false if the index is being closed.
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
            changed.wait_while_for(&mut waiting, idle, STARTUP_DELAY);
        }
        waiting.settled = true;
        !self.stopping.load(Ordering::Acquire)
    }

    /// Does the background work: indexes new events, writes segments and merges them.
    pub fn tend(&self, store: &dyn Log) {
        let mut state = self.lock(None);
        match self.current(&mut state, store, None) {
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the search index cannot be kept up to date"),
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

    /// Interrupts background work.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _guard = self.waiting.0.lock();
        self.waiting.1.notify_all();
    }

    /// Closes the index, writing what the next process would otherwise have to read again. Never starts anything long.
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
            if behind.is_none_or(|behind| behind < self.sizes.full as u64 || behind > MAX_CLOSING_EVENTS) {
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

    /// Takes the lock, reporting progress while another thread builds the index.
    pub(super) fn lock(&self, progress: Option<&Progress>) -> MutexGuard<'_, Option<Loaded>> {
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(state) = self.state.try_lock() {
                return state;
            }
            let (done, of) = (self.made.0.load(Ordering::Relaxed), self.made.1.load(Ordering::Relaxed));
            if let Some(progress) = progress.filter(|_| of > 0) {
                progress(BUILDING, done, of);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Returns the index with everything acknowledged, loading or building it if necessary.
    fn current(
        &self,
        state: &mut Option<Loaded>,
        store: &dyn Log,
        progress: Option<&Progress>,
    ) -> Result<Arc<Vec<SegmentView>>, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let is_of_another = |loaded: &Loaded| {
                loaded.verified_generation != Some(store.opening()) && loaded.recoveries != recoveries(store)
            };
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
            match caught_up
                .and_then(|up| if up { loaded.view().map_err(IndexError::Damage).map(Some) } else { Ok(None) })
            {
                Ok(Some(view)) => return Ok(view),
                Ok(None) => self.forget(state),
                Err(IndexError::Log(error)) => return Err(error),
                Err(IndexError::Damage(damage)) => {
                    tracing::warn!(%damage, "rebuilding the search index");
                    self.forget(state);
                }
            }
        }
        Err(Error::Database("the search index cannot be brought up to date".to_owned()))
    }

    /// Discards the index.
    pub(super) fn forget(&self, state: &mut Option<Loaded>) {
        *state = None;
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an unusable search index cannot be removed");
            let _ = fs::remove_file(self.dir.join("manifest"));
        }
    }

    /// Loads the index from disk; `None` if there is none that matches the log.
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
            let live = SegmentView {
                segment: Arc::new(segment),
                dead: Arc::new(dead),
                dead_sessions: Arc::new(dead_sessions),
            };
            parts.push(IndexPart { number: Some(entry.number), live });
        }
        let Manifest { recoveries, point, next, .. } = manifest;
        Some(Loaded { recoveries, verified_generation: None, point, parts, tail: Tail::default(), next, view: None })
    }

    /// Indexes the events that follow the index; returns false if that is impossible and the index must be rebuilt.
    fn catch_up(&self, loaded: &mut Loaded, store: &dyn Log) -> Result<bool, IndexError> {
        if loaded.verified_generation == Some(store.opening()) && store.ends_at(&loaded.point) {
            return Ok(true);
        }
        let target = store.totals()?.events;
        loop {
            let Some(since) = store.since(&loaded.point)? else { return Ok(false) };
            // Superseded documents are in the tail, which is consulted first, so these views need not know about them.
            let parts: Vec<SegmentView> = loaded.parts.iter().map(|part| part.live.clone()).collect();
            for event in &since.events {
                if let Some(fresh) = loaded.tail.take(event, store, &parts)? {
                    loaded.mark_superseded(fresh)?;
                }
                loaded.view = None;
            }
            loaded.point = since.point;
            if loaded.tail.len() >= self.sizes.full {
                self.write_tail(loaded);
            }
            if since.complete || loaded.point.events >= target {
                loaded.verified_generation = Some(store.opening());
                return Ok(true);
            }
        }
    }

    /// Writes the tail as a segment, and a manifest that names it. A manifest is only written without a tail, so that
    /// every document it declares dead is in a newer segment.
    pub(super) fn write_tail(&self, loaded: &mut Loaded) {
        if !loaded.tail.is_empty() {
            self.write_part(loaded);
        }
        self.write_manifest(loaded);
        if loaded.parts.len() >= MAX_SEGMENTS {
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
                let live =
                    SegmentView { segment: Arc::new(segment), dead: Arc::default(), dead_sessions: Arc::default() };
                loaded.parts.push(IndexPart { number, live });
                loaded.tail = Tail::default();
                loaded.view = None;
            }
            // The next search finds the same damage and rebuilds.
            Err(damage) => tracing::warn!(%damage, "a part of the search index cannot be used"),
        }
    }

    pub(super) fn write_manifest(&self, loaded: &Loaded) {
        let entry = |part: &IndexPart| {
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
    /// Marks documents that the tail now supersedes as dead.
    fn mark_superseded(&mut self, fresh: Fresh) -> Result<(), Damage> {
        for part in &mut self.parts {
            let SegmentView { segment, dead, dead_sessions } = &mut part.live;
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

    /// Returns parts and tail, ready to be searched.
    fn view(&mut self) -> Result<Arc<Vec<SegmentView>>, Damage> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let mut parts: Vec<SegmentView> = self.parts.iter().map(|part| part.live.clone()).collect();
        if !self.tail.is_empty() {
            let bytes = build(Vec::new(), self.tail.docs.values(), self.tail.sessions.values())
                .map_err(|error| Damage(error.to_string()))?;
            let segment = Arc::new(Segment::open(Source::Memory(bytes))?);
            parts.push(SegmentView { segment, dead: Arc::default(), dead_sessions: Arc::default() });
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

/// Identifies the recoveries that the log has been through.
pub(super) fn recoveries(store: &dyn Log) -> String {
    let names = store.recoveries().unwrap_or_default();
    format!("{} {}", names.len(), names.last().map_or("", |last| last.name.as_str()))
}
