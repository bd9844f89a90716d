//! Carries out a plan: stores images and records runs as iterations in chronological order, one batch at a time. A dry
//! run takes the same path without storing anything. `writer` stores the images of a batch ahead of its turn, and
//! `commit` decides and records each run.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::images;
use crate::images::metadata::InitHash;
use crate::model::{Actor, Event, Hash, ImageRef, Iteration, IterationId, Recipe, Session, SessionId};
use crate::platform;
use crate::store::Detail;

use super::commit::Uncommitted;
use super::copies::{ImagePlace, StoreFailure};
use super::inspect::{ImageFacts, InspectedImage, map_on_all_cores};
use super::lineage::{KnownRun, KnownRuns, RunPlace};
use super::runs::{self, Group, Run};
use super::sessions::{KnownSession, RootKey, Targets};
use super::times;
use super::writer::{self, Course, ImageWriter, StoredImages, WantedImage};
use super::{FileProblem, FilesReport, FilesRequest, Problems};
use crate::workspace::{Error, Workspace};

/// The maximum number of runs in one batch: enough to share syncs among many runs, and little to redo after an
/// interruption.
const MAX_TURN_RUNS: usize = 128;
/// The maximum number of images in one batch, unless a single run has more. The more there are, the fewer directories
/// are synced.
const MAX_TURN_IMAGES: u64 = 256;
/// The maximum number of image bytes in one batch, unless a single run has more: syncing them must not delay Ctrl-C.
const MAX_TURN_BYTES: u64 = 32 * 1024 * 1024;

/// The number of batches whose images are stored ahead of their turn: one is made durable while another one is written.
const BATCHES_AHEAD: usize = 2;

/// The number of sessions that are read at once.
const MAX_SESSIONS_READ: usize = 256;

/// An import in progress, with an index of everything in the workspace by content.
pub(crate) struct Intake<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) actor: Actor,
    pub(super) request: FilesRequest,
    /// The number of events in the workspace when it was last fully indexed.
    pub(super) events: u64,
    /// The number of iterations that each session had then.
    pub(super) counts: HashMap<SessionId, u32>,
    /// Its sessions.
    pub(super) sessions: HashMap<SessionId, KnownSession>,
    /// Every image in the workspace.
    pub(super) known: HashMap<Hash, RunPlace>,
    /// Every image in the workspace, by its pixels.
    pub(super) pixels: HashMap<Hash, Vec<ImagePlace>>,
    pub(super) lineage: KnownRuns,
    /// Images by the hashes that other tools compute, if any file refers to one by such a hash.
    digests: HashMap<InitHash, Hash>,
    /// The recipes of iterations that are decided but not acknowledged yet.
    pub(super) unacknowledged: HashMap<RunPlace, Recipe>,
    /// In a dry run, the first file of each iteration.
    pub(super) planned_files: HashMap<RunPlace, PathBuf>,
    /// In a dry run, the number of sessions that would be created.
    pub(super) planned_sessions: usize,
    /// Files that could not be imported.
    pub(crate) problems: Problems,
    pub(super) report: FilesReport,
}

/// A newly recorded iteration.
pub(crate) struct NewIteration {
    pub(crate) id: IterationId,
    pub(crate) iteration: Iteration,
}

/// A group of the plan, with its number and its root.
#[derive(Clone, Copy)]
pub(super) struct PlannedGroup<'a> {
    pub(super) number: usize,
    pub(super) group: &'a Group,
    pub(super) root: &'a RootKey,
}

/// A run of the plan, with its group.
type PlannedRun<'a> = (PlannedGroup<'a>, &'a Run);

impl<'a> Intake<'a> {
    /// Creates an intake and indexes everything in the workspace.
    pub(crate) fn new(workspace: &'a Workspace, actor: &Actor, request: &FilesRequest) -> Result<Intake<'a>, Error> {
        let mut intake = Intake {
            workspace,
            actor: actor.clone(),
            request: request.clone(),
            // Count first: whatever arrives while the sessions are read is found in the next batch.
            events: workspace.log.totals()?.events,
            counts: HashMap::new(),
            sessions: HashMap::new(),
            known: HashMap::new(),
            pixels: HashMap::new(),
            lineage: KnownRuns::default(),
            digests: HashMap::new(),
            unacknowledged: HashMap::new(),
            planned_files: HashMap::new(),
            planned_sessions: 0,
            problems: Problems::default(),
            report: FilesReport { dry_run: request.dry_run, ..FilesReport::default() },
        };
        let mut after = None;
        loop {
            let ids = workspace.log.ids(after, MAX_SESSIONS_READ)?;
            // Reading and decoding take nearly all of the time.
            let read = images::on_all_cores(&ids, |id| workspace.log.events(*id, Detail::Brief), |_| true);
            for (id, events) in ids.iter().zip(read) {
                intake.learn_events(*id, events?);
            }
            after = ids.last().copied();
            if after.is_none() {
                return Ok(intake);
            }
        }
    }

    /// Indexes a session that another process may have added to.
    pub(super) fn learn(&mut self, id: SessionId) -> Result<(), Error> {
        let events = self.workspace.log.events(id, Detail::Brief)?;
        self.learn_events(id, events);
        Ok(())
    }

    fn learn_events(&mut self, id: SessionId, events: Vec<Event>) {
        let root = RootKey::that_started(&events);
        let session = Session::fold(events);
        let project = session.as_ref().and_then(|session| session.head.project.clone());
        self.sessions.insert(id, KnownSession { root, project });
        let count = session.as_ref().map_or(0, |session| session.iterations.len());
        self.counts.insert(id, u32::try_from(count).unwrap_or(u32::MAX));
        for (index, state) in session.into_iter().flat_map(|session| session.iterations) {
            let Iteration { images, recipe, created_at, .. } = state.iteration;
            let place = RunPlace::Recorded(id.iteration(index));
            for image in &images {
                self.workspace.images.remember(image);
            }
            self.note(place, &images);
            let recipe = Recipe { parameters: serde_json::Map::new(), ..recipe };
            let facts = ImageFacts { recipe, ..ImageFacts::default() };
            self.lineage.add(KnownRun::new(place, None, created_at, &facts, &images), None);
        }
    }

    /// Returns whether an image with these bytes is in the workspace.
    pub(crate) fn knows(&self, hash: Hash) -> bool {
        self.known.contains_key(&hash)
    }

    /// Groups these images, records the new ones in chronological order, and calls `on_recorded` for each iteration.
    /// Ends early if the workspace cannot be written to or `stop` is set; the report says so.
    pub(crate) fn bring_in(
        &mut self,
        found: &mut [InspectedImage],
        stop: &AtomicBool,
        on_recorded: impl FnMut(&NewIteration),
    ) {
        let notes = times::assign_times(found);
        self.report.notes.extend(notes);
        let groups = runs::group(found, self.request.gap_seconds.map(Duration::from_secs));
        self.lineage.begin();
        self.digest(found, stop);
        self.carry_out(found, &groups, stop, on_recorded);
    }

    /// Hashes images as other tools do, but only if a file refers to one by such a hash: this takes as long as
    /// importing them.
    fn digest(&mut self, found: &[InspectedImage], stop: &AtomicBool) {
        let wanted = || found.iter().flat_map(|picture| &picture.facts.evidence.init_hashes);
        let wants_file = wanted().any(|hash| matches!(hash, InitHash::FileSha256(_)));
        let wants_pixels = wanted().any(|hash| matches!(hash, InitHash::PixelsMd5(_)));
        if !wants_file && !wants_pixels {
            return;
        }
        let total = found.len() as u64;
        let hash = |picture: &InspectedImage| {
            let file = if wants_file { images::file_sha256(&picture.path).ok() } else { None };
            let pixels = if wants_pixels { self.workspace.images.pixels_md5(&picture.path).ok() } else { None };
            (file.map(InitHash::FileSha256), pixels.map(InitHash::PixelsMd5))
        };
        let hashed = map_on_all_cores(found, hash, |done| {
            self.workspace.report("hashing", done, total);
            !stop.load(Ordering::Relaxed)
        });
        for (picture, (file, pixels)) in found.iter().zip(hashed) {
            self.digests.extend(file.into_iter().chain(pixels).map(|digest| (digest, picture.hash)));
        }
    }

    /// Returns the image that a file refers to by hash, if it is in the workspace.
    pub(super) fn hashed(&self, facts: &ImageFacts) -> Option<(RunPlace, String)> {
        let hashes = facts.evidence.init_hashes.iter().filter_map(|digest| self.digests.get(digest));
        let place = hashes.filter_map(|hash| self.known.get(hash)).next()?;
        Some((*place, "its metadata contains the hash of the image it was made from".to_owned()))
    }

    fn carry_out(
        &mut self,
        found: &[InspectedImage],
        groups: &[Group],
        stop: &AtomicBool,
        mut on_recorded: impl FnMut(&NewIteration),
    ) {
        let roots: Vec<RootKey> = groups.iter().map(|group| RootKey::of(&group.root)).collect();
        let planned = groups.iter().zip(&roots).enumerate();
        let planned: Vec<PlannedGroup<'_>> =
            planned.map(|(number, (group, root))| PlannedGroup { number, group, root }).collect();
        let mut targets = Targets::default();
        if let Err(error) = planned.iter().try_for_each(|planned| self.go_on(found, *planned, &mut targets)) {
            self.report.stopped = Some(Arc::new(error));
            return;
        }
        let mut order: Vec<PlannedRun<'_>> =
            planned.iter().flat_map(|planned| planned.group.runs.iter().map(|run| (*planned, run))).collect();
        order.sort_by_key(|(_, run)| run.at);
        let total = found.len() as u64;
        let mut done = 0;
        self.report.skipped += total - order.iter().map(|(_, run)| run.pictures.len() as u64).sum::<u64>().min(total);
        let batches: Vec<&[PlannedRun<'_>]> = batches(found, &order);
        let writer = self.writer();
        let course = Course::new(stop);
        thread::scope(|scope| {
            let mut ahead: VecDeque<Option<ScopedJoinHandle<'_, StoredImages<'_>>>> = VecDeque::new();
            for (number, runs) in batches.iter().enumerate() {
                course.turn_to(number);
                let wanted = batches.iter().enumerate().take(number + 1 + BATCHES_AHEAD).skip(number + ahead.len());
                for (number, runs) in wanted.filter(|_| !course.is_over()) {
                    let (wanted, course) = (self.unknown(found, runs), &course);
                    let store = move || writer.store_ahead(&wanted, number, course);
                    // If the system cannot start a thread, they are stored when it is their turn.
                    let thread = thread::Builder::new().name("retake-import".to_owned()).spawn_scoped(scope, store);
                    ahead.push_back(thread.ok());
                }
                let Some(next) = ahead.pop_front() else {
                    self.report.interrupted = true;
                    break;
                };
                let stored = next.and_then(|stored| stored.join().ok()).unwrap_or_default();
                if let Err(error) = self.record_batch(found, runs, stored, &mut targets, stop, &mut on_recorded) {
                    self.report.stopped = Some(error);
                }
                if self.report.stopped.is_some() || self.report.interrupted {
                    break;
                }
                done += runs.iter().map(|(_, run)| run.pictures.len() as u64).sum::<u64>();
                self.workspace.report("importing", done, total.max(done));
            }
            course.end();
        });
        self.report.sessions.extend(targets.all.into_iter().filter_map(|target| target.view));
        self.report.sessions.sort_by_key(|session| (session.from, session.new_number));
    }

    fn writer(&self) -> ImageWriter<'a> {
        ImageWriter { images: &self.workspace.images, link: self.request.link, dry_run: self.request.dry_run }
    }

    /// Returns the images of these runs that are not in the workspace.
    fn unknown<'f>(&self, found: &'f [InspectedImage], runs: &[PlannedRun<'f>]) -> Vec<WantedImage<'f>> {
        let wanted = runs.iter().flat_map(|(_, run)| writer::wanted(found, run));
        wanted.filter(|image| !self.knows(image.hash())).collect()
    }

    /// Stores the images of these runs, and records the runs. Some of the images may be stored already. An error ends
    /// the whole import.
    fn record_batch<'f>(
        &mut self,
        found: &'f [InspectedImage],
        runs: &[PlannedRun<'f>],
        mut kept: StoredImages<'f>,
        targets: &mut Targets,
        stop: &AtomicBool,
        on_recorded: &mut impl FnMut(&NewIteration),
    ) -> Result<(), Arc<Error>> {
        let _lock = match runs.iter().map(|(_, run)| run.at).min() {
            Some(from) if !self.request.dry_run => Some(self.lock(from.min(self.workspace.now()))?),
            _ => None,
        };
        let pictures = runs.iter().flat_map(|(_, run)| &run.pictures).filter_map(|number| found.get(*number));
        let old: Vec<&InspectedImage> = pictures.filter(|picture| self.knows(picture.hash)).collect();
        self.restore_all(&old, stop)?;
        let mut missing = self.unknown(found, runs);
        missing.retain(|image| kept.get(image.hash()).is_none());
        kept.extend(self.writer().persist(self.writer().write_all(&missing, || stop.load(Ordering::Relaxed))));
        let mut uncommitted = Uncommitted::default();
        self.lineage.commit();
        let mut next = 0;
        while let Some((planned, run)) = runs.get(next) {
            let mut pictures = run.pictures.iter().filter_map(|number| found.get(*number));
            if !pictures.all(|picture| self.knows(picture.hash) || kept.get(picture.hash).is_some()) {
                // Stopped: record whole runs only, in chronological order.
                self.report.interrupted = true;
                break;
            }
            let decided = self.decide(found, (*planned, run), targets, &kept);
            let is_last = decided.is_err() || next + 1 == runs.len();
            let ended = decided.map(|decided| uncommitted.push(next, decided));
            if is_last || uncommitted.is_full() || self.request.dry_run {
                // Record what was decided before the error.
                match self.commit(&mut uncommitted, targets, on_recorded)? {
                    Some(again) => next = again,
                    None => {
                        ended?;
                        next += 1;
                    }
                }
            } else {
                next += 1;
            }
        }
        self.commit(&mut uncommitted, targets, on_recorded)?;
        Ok(())
    }

    /// Restores missing or damaged originals of recorded images from these files.
    fn restore_all(&mut self, pictures: &[&InspectedImage], stop: &AtomicBool) -> Result<(), Arc<Error>> {
        let restored = map_on_all_cores(pictures, |picture| self.restore(picture), |_| !stop.load(Ordering::Relaxed));
        for (picture, restored) in pictures.iter().zip(restored) {
            match restored {
                Ok(restored) => self.report.restored += u64::from(restored),
                Err(StoreFailure::File(reason)) => self.problems.push(FileProblem::new(&picture.path, reason)),
                Err(StoreFailure::Workspace(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns what was done since the last call.
    pub(crate) fn take_report(&mut self) -> FilesReport {
        let Problems { named, omitted } = std::mem::take(&mut self.problems);
        let fresh = FilesReport { dry_run: self.request.dry_run, ..FilesReport::default() };
        let report = std::mem::replace(&mut self.report, fresh);
        FilesReport { problems: named, problems_omitted: omitted, ..report }
    }

    /// Lets a group continue in the session that contains some of its images, if that session accepts more.
    fn go_on(&self, found: &[InspectedImage], planned: PlannedGroup<'_>, targets: &mut Targets) -> Result<(), Error> {
        let runs = planned.group.runs.iter();
        for picture in runs.flat_map(|run| &run.pictures).filter_map(|number| found.get(*number)) {
            if let Some((session, next_index)) = self.may_add_beside(picture.hash, planned.root)? {
                targets.enter(planned.number, session, next_index);
                break;
            }
        }
        Ok(())
    }

    /// Returns the session of an image and its next index, if an import of this root may add to it.
    pub(super) fn may_add_beside(&self, image: Hash, root: &RootKey) -> Result<Option<(SessionId, u32)>, Error> {
        let Some(RunPlace::Recorded(IterationId { session, .. })) = self.known.get(&image) else { return Ok(None) };
        let project = self.request.project.as_deref();
        if !self.sessions.get(session).is_some_and(|known| known.takes(root, project)) {
            return Ok(None);
        }
        let head = self.workspace.log.head(*session)?.filter(|head| !head.archived);
        Ok(head.map(|head| (*session, head.last_index.map_or(0, |last| last.saturating_add(1)))))
    }

    /// Indexes the images of an iteration.
    pub(super) fn note(&mut self, place: RunPlace, images: &[ImageRef]) {
        for (number, image) in (0..).zip(images) {
            self.known.insert(image.hash, place);
            if let Some(pixels) = image.pixels {
                self.pixels.entry(pixels).or_default().push(ImagePlace { place, number });
            }
        }
    }

    /// Undoes the last [`note`](Intake::note) of these images, which were unknown before it.
    pub(super) fn forget(&mut self, place: RunPlace, images: &[ImageRef]) {
        for image in images {
            self.known.remove(&image.hash);
            if let Some(pixels) = image.pixels
                && let Some(places) = self.pixels.get_mut(&pixels)
            {
                places.retain(|known| known.place != place);
                if places.is_empty() {
                    self.pixels.remove(&pixels);
                }
            }
        }
    }
}

/// Returns the maximum number of images in one batch. The files of two batches are open at once, and may take half of
/// what this process may have open.
fn max_turn_images() -> usize {
    let images = platform::max_open_files().map_or(MAX_TURN_IMAGES, |files| (files / 4).clamp(1, MAX_TURN_IMAGES));
    usize::try_from(images).unwrap_or(1)
}

/// Divides runs into batches.
fn batches<'r, 'f>(found: &[InspectedImage], mut runs: &'r [PlannedRun<'f>]) -> Vec<&'r [PlannedRun<'f>]> {
    let mut batches = Vec::new();
    while let Some((batch, later)) = runs.split_at_checked(batch_length(found, runs)).filter(|(it, _)| !it.is_empty()) {
        batches.push(batch);
        runs = later;
    }
    batches
}

/// Returns how many of these runs make up the next batch.
fn batch_length(found: &[InspectedImage], runs: &[PlannedRun<'_>]) -> usize {
    let (mut images, mut bytes) = (0, 0);
    let max_images = max_turn_images();
    let fits = |(_, run): &&PlannedRun<'_>| {
        images += run.pictures.len();
        bytes += run.pictures.iter().filter_map(|number| found.get(*number)).map(|picture| picture.bytes).sum::<u64>();
        images <= max_images && bytes <= MAX_TURN_BYTES
    };
    runs.iter().take(MAX_TURN_RUNS).take_while(fits).count().clamp(usize::from(!runs.is_empty()), MAX_TURN_RUNS)
}
