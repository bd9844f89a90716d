//! Decides what happens with each run, and records runs in groups.
//!
//! A run is decided as soon as its predecessor is: which of its images are new, what it was derived from, and which
//! session it goes to. Nothing waits for the disk until a group is complete. Then the log appends the whole group with
//! one sync, and only what it acknowledges is reported. A run that starts a session ends its group, since the runs
//! after it need the session's id.
//!
//! Decisions build on each other before they are acknowledged, since a run may be the parent of the next one. Each
//! therefore states the number of iterations it expects in its session. If another process recorded something there
//! meanwhile, the log refuses the rest of the group; its provisional changes are undone, and those runs are decided
//! again.

use std::sync::Arc;

use crate::images;
use crate::images::metadata;
use crate::model::iteration::SEEDS;
use crate::model::{Draft, ImageRef, Iteration, IterationId, LikelyParent, Outcome, Refusal, Seed, Timestamp};
use crate::store::{self, Ack, Batch, GroupAck, Target};
use crate::workspace::{Author, Error, truncate};

use super::copies::StoreFailure;
use super::inspect::InspectedImage;
use super::intake::{Intake, NewIteration, PlannedGroup};
use super::lineage::{KnownRun, Origin, RunPlace};
use super::runs::Run;
use super::sessions::{self, KnownSession, Targets};
use super::writer::StoredImages;
use super::{FileProblem, FilesReport};

/// The size of a group's iterations as JSON at which the group is appended. A group crosses a socket as one message.
const MAX_GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Runs that are decided and not recorded yet, each with its number in the batch.
#[derive(Default)]
pub(super) struct Uncommitted<'f> {
    runs: Vec<(usize, DecidedRun<'f>)>,
    bytes: usize,
    starts_session: bool,
}

/// The decision about a run.
pub(super) struct DecidedRun<'f> {
    planned: PlannedGroup<'f>,
    /// The number of its images that are already in the workspace.
    skipped: u64,
    problems: Vec<FileProblem>,
    /// `None` if the run contains nothing new.
    recording: Option<RunRecording<'f>>,
    /// The [mark](super::lineage::KnownRuns::mark) of the lineage before this run.
    lineage_mark: usize,
}

/// The iteration to record for a run.
struct RunRecording<'f> {
    at: Timestamp,
    /// The session it goes to, as a position in [`Targets`].
    target: usize,
    /// The future place of the iteration; `None` if it starts a session whose id is not known yet.
    place: Option<RunPlace>,
    iteration: Iteration,
    origin: Origin,
    files: Vec<&'f InspectedImage>,
    title: Option<String>,
    /// `None` in a dry run.
    batch: Option<Batch>,
}

impl<'f> Uncommitted<'f> {
    /// Adds the run with this number in the batch.
    pub(super) fn push(&mut self, number: usize, run: DecidedRun<'f>) {
        if let Some(recording) = &run.recording {
            self.bytes += serde_json::to_vec(&recording.iteration).map_or(0, |json| json.len());
            self.starts_session |= recording.place.is_none();
        }
        self.runs.push((number, run));
    }

    /// Returns whether the group must be committed before another run is decided.
    pub(super) fn is_full(&self) -> bool {
        self.starts_session || self.bytes >= MAX_GROUP_BYTES
    }
}

impl Intake<'_> {
    /// Decides what to record of a run, and where, and notes what later runs may build on. An error ends the whole
    /// import.
    pub(super) fn decide<'f>(
        &mut self,
        found: &'f [InspectedImage],
        (planned, run): (PlannedGroup<'f>, &Run),
        targets: &mut Targets,
        kept: &StoredImages<'_>,
    ) -> Result<DecidedRun<'f>, Arc<Error>> {
        let lineage_mark = self.lineage.mark();
        let mut decided = DecidedRun { planned, skipped: 0, problems: Vec::new(), recording: None, lineage_mark };
        let pictures: Vec<&'f InspectedImage> = run.pictures.iter().filter_map(|number| found.get(*number)).collect();
        let Some(first) = pictures.first() else { return Ok(decided) };
        let mut new: Vec<(&'f InspectedImage, ImageRef)> = Vec::new();
        for picture in &pictures {
            if self.knows(picture.hash) {
                decided.skipped += 1;
                // Later runs continue in that session, if it accepts more.
                if let Some((session, next_index)) = self.may_add_beside(picture.hash, planned.root)? {
                    targets.enter(planned.number, session, next_index);
                }
                continue;
            }
            match kept.get(picture.hash) {
                Some(Ok(image)) if self.is_copy(image, picture)? => decided.skipped += 1,
                Some(Ok(image)) if new.iter().all(|(other, _)| other.hash != picture.hash) => {
                    new.push((picture, image.clone()));
                }
                Some(Ok(_)) | None => decided.skipped += 1,
                Some(Err(StoreFailure::File(reason))) => {
                    decided.problems.push(FileProblem::new(&picture.path, reason.as_str()));
                }
                Some(Err(StoreFailure::Workspace(error))) => return Err(Arc::clone(error)),
            }
        }
        let known = pictures.iter().find_map(|picture| self.known.get(&picture.hash)).copied();
        let images: Vec<ImageRef> = new.iter().map(|(_, image)| image.clone()).collect();
        let mut origin = self.lineage.origin(planned.number, run.at, &first.facts, &images);
        if let Some(hashed) = self.hashed(&first.facts) {
            (origin.parent, origin.likely) = (Some(hashed), None);
        }
        if images.is_empty() {
            // A run that is already recorded can still be the parent of later ones.
            if let Some(place) = known {
                self.lineage.adopt(place, planned.number, &first.facts, origin.line);
            }
            return Ok(decided);
        }
        let files: Vec<&'f InspectedImage> = new.iter().map(|(picture, _)| *picture).collect();
        let iteration = self.iteration(run.at, &files, images, &origin, kept);
        if let Err(invalid) = iteration.check_brought_in() {
            let reason = format!("its metadata cannot be recorded: {invalid}");
            decided.problems.push(FileProblem::new(&first.path, reason));
            return Ok(decided);
        }
        let title = sessions::title(&first.path, &iteration.recipe.prompt);
        let target = targets.position(planned.number);
        let (place, batch) = if self.request.dry_run {
            (Some(self.plan_place(targets.at(target))), None)
        } else {
            let place = targets.at(target).next().map(RunPlace::Recorded);
            (place, Some(self.run_batch(planned, place, &iteration, title.as_deref())?))
        };
        let recording = RunRecording { at: run.at, target, place, iteration, origin, files, title, batch };
        if let Some(place) = place {
            targets.at(target).advance(place);
            self.note_recording(planned, place, &recording);
        }
        decided.recording = Some(recording);
        Ok(decided)
    }

    /// Records what was decided and reports what is acknowledged. Returns the number of the first run that must be
    /// decided again because its session changed meanwhile.
    pub(super) fn commit(
        &mut self,
        uncommitted: &mut Uncommitted<'_>,
        targets: &mut Targets,
        on_recorded: &mut impl FnMut(&NewIteration),
    ) -> Result<Option<usize>, Arc<Error>> {
        let Uncommitted { mut runs, .. } = std::mem::take(uncommitted);
        let recordings = runs.iter_mut().filter_map(|(_, run)| run.recording.as_mut());
        let batches: Vec<Batch> = recordings.filter_map(|recording| recording.batch.take()).collect();
        let GroupAck { acks, error } = if batches.is_empty() {
            GroupAck { acks: Vec::new(), error: None }
        } else {
            self.workspace.log.append_all(batches)
        };
        let mut acks = acks.into_iter();
        let mut runs = runs.into_iter();
        let mut refused = None;
        for (number, mut run) in runs.by_ref() {
            let ack = match &run.recording {
                Some(_) if !self.request.dry_run => match acks.next() {
                    None => {
                        refused = Some((number, run));
                        break;
                    }
                    ack => ack,
                },
                _ => None,
            };
            let recording = run.recording.take();
            self.report.skipped += run.skipped;
            run.problems.into_iter().for_each(|problem| self.problems.push(problem));
            if let Some(recording) = recording {
                self.acknowledge(run.planned, recording, ack, targets, on_recorded);
            }
        }
        self.unacknowledged.clear();
        let Some((number, run)) = refused else {
            self.lineage.commit();
            return Ok(None);
        };
        let (group, mark) = (run.planned.number, run.lineage_mark);
        let rest: Vec<DecidedRun<'_>> = [run].into_iter().chain(runs.map(|(_, run)| run)).collect();
        self.take_back(&rest, mark, targets);
        match error {
            // The session was archived or filled up meanwhile: continue in a new one.
            Some(store::Error::Refused(Refusal::Archived(_) | Refusal::Full(_))) => targets.leave(group),
            Some(store::Error::Refused(Refusal::Count { id, actual, .. })) => targets.set_next_index(id, actual),
            Some(error) => return Err(Arc::new(error.into())),
            None => return Err(Arc::new(store::Error::Misuse("an append was not answered".into()).into())),
        }
        Ok(Some(number))
    }

    /// Undoes what was noted for runs that were not recorded.
    fn take_back(&mut self, runs: &[DecidedRun<'_>], lineage_mark: usize, targets: &mut Targets) {
        for recording in runs.iter().rev().filter_map(|run| run.recording.as_ref()) {
            if let Some(place) = recording.place {
                self.forget(place, &recording.iteration.images);
                if let RunPlace::Recorded(id) = place {
                    targets.set_next_index(id.session, id.index);
                }
            }
        }
        self.lineage.undo_to(lineage_mark);
    }

    /// Reports a run that was recorded, or that a dry run would record.
    fn acknowledge(
        &mut self,
        planned: PlannedGroup<'_>,
        recording: RunRecording<'_>,
        ack: Option<Ack>,
        targets: &mut Targets,
        on_recorded: &mut impl FnMut(&NewIteration),
    ) {
        if let Some(ack) = &ack
            && ack.repeated
        {
            // It was recorded after the check: the response to an earlier attempt was lost.
            self.report.skipped += recording.iteration.images.len() as u64;
            let place = RunPlace::Recorded(iteration_of(ack));
            match recording.place {
                Some(expected) => {
                    self.forget(expected, &recording.iteration.images);
                    self.note(place, &recording.iteration.images);
                    self.lineage.relocate(expected, place);
                }
                None => self.note_recording(planned, place, &recording),
            }
            return;
        }
        let place = match ack {
            Some(ack) => Some(RunPlace::Recorded(self.note_ack(planned, &recording, ack, targets))),
            None => recording.place,
        };
        let Some(place) = place else { return };
        if recording.place.is_none() {
            self.note_recording(planned, place, &recording);
        }
        let RunRecording { target, iteration, origin, files, title, .. } = recording;
        self.warn_of_broken(&files, &iteration.images);
        let FilesReport { iterations, images, .. } = &mut self.report;
        *iterations += 1;
        *images += iteration.images.len() as u64;
        if let Some(first) = files.first() {
            self.describe(targets.at(target), planned.group, place, &iteration, (&first.facts, &origin, &files, title));
        }
        if let RunPlace::Recorded(id) = place
            && !self.request.dry_run
        {
            on_recorded(&NewIteration { id, iteration });
        }
    }

    /// Updates what is known about the session from an acknowledgement.
    fn note_ack(
        &mut self,
        planned: PlannedGroup<'_>,
        recording: &RunRecording<'_>,
        ack: Ack,
        targets: &mut Targets,
    ) -> IterationId {
        let id = iteration_of(&ack);
        let starts = recording.place.is_none();
        if starts {
            let target = targets.at(recording.target);
            target.session = Some(id.session);
            target.next_index = id.index.saturating_add(1);
        }
        self.events += 1 + u64::from(starts);
        *self.counts.entry(id.session).or_default() += 1;
        self.sessions
            .entry(id.session)
            .or_insert_with(|| KnownSession { root: Some(planned.root.clone()), project: ack.head.project });
        id
    }

    /// Registers a recorded run, so that later runs can refer to it.
    fn note_recording(&mut self, planned: PlannedGroup<'_>, place: RunPlace, recording: &RunRecording<'_>) {
        let RunRecording { at, iteration, origin, files, .. } = recording;
        self.note(place, &iteration.images);
        if !self.request.dry_run {
            self.unacknowledged.insert(place, iteration.recipe.clone());
        }
        if let Some(first) = files.first() {
            let made = KnownRun::new(place, Some(planned.number), *at, &first.facts, &iteration.images);
            self.lineage.add(made, Some(origin.line));
        }
    }

    /// Reports images that are imported although they are damaged. Nothing can be removed later, so this must be
    /// reported now.
    fn warn_of_broken(&mut self, files: &[&InspectedImage], images: &[ImageRef]) {
        for (file, image) in files.iter().zip(images) {
            if image.pixels.is_none()
                && let Some(defect) = images::defect(&file.path)
            {
                self.report.warnings.push(FileProblem::new(&file.path, format!("imported as it is, but {defect}")));
            }
        }
    }

    /// Returns the iteration of a run.
    fn iteration(
        &self,
        at: Timestamp,
        files: &[&InspectedImage],
        images: Vec<ImageRef>,
        origin: &Origin,
        kept: &StoredImages<'_>,
    ) -> Iteration {
        let whole = |file: &InspectedImage| {
            let read = || metadata::read_file(&file.path).ok().map(|reading| reading.recipe);
            kept.recipe(&file.path).cloned().or_else(read).unwrap_or_else(|| file.facts.recipe.clone())
        };
        let mut recipe = files.first().map(|file| whole(file)).unwrap_or_default();
        let seeds: Vec<Option<Seed>> = files.iter().map(|file| file.facts.recipe.seed).collect();
        if seeds.iter().any(|seed| *seed != recipe.seed) && !recipe.parameters.contains_key(SEEDS) {
            let seeds = seeds.iter().map(|seed| seed.map(|seed| seed.to_string()).into()).collect();
            recipe.parameters.insert(SEEDS.to_owned(), serde_json::Value::Array(seeds));
        }
        let recorded = |place: RunPlace| match place {
            RunPlace::Recorded(id) => Some(id),
            RunPlace::Planned(..) => None,
        };
        let (parent, parent_reason) = match &origin.parent {
            Some((place, reason)) => (recorded(*place), recorded(*place).map(|_| recordable(reason))),
            None => (None, None),
        };
        let likely = origin.likely.as_ref();
        Iteration {
            // If the clock was ahead when the file was written, the image must not end up in the future.
            created_at: at.min(self.workspace.now()),
            recipe,
            outcome: Outcome::default(),
            images,
            parent,
            parent_reason,
            likely_parent: likely.and_then(|(place, reason)| {
                Some(LikelyParent { reference: recorded(*place)?, reason: recordable(reason) })
            }),
        }
    }

    /// Returns the batch that records a run at this place, or that starts a session with it.
    fn run_batch(
        &self,
        planned: PlannedGroup<'_>,
        place: Option<RunPlace>,
        iteration: &Iteration,
        title: Option<&str>,
    ) -> Result<Batch, Arc<Error>> {
        let author = Author { actor: Some(self.actor.clone()), key: Some(planned.root.key(&iteration.images)) };
        let record = Draft::BringIn(Box::new(iteration.clone()));
        let (target, drafts, expected) = match place {
            Some(RunPlace::Recorded(id)) => (Target::Existing(id.session), vec![record], Some(id.index)),
            Some(RunPlace::Planned(..)) | None => {
                let start = Draft::Start { title: title.map(str::to_owned), project: self.request.project.clone() };
                (Target::New(iteration.created_at.day()), vec![start, record], None)
            }
        };
        let batch = self.workspace.batch(author, target, drafts).map_err(Arc::new)?;
        Ok(Batch { expected_iterations: expected, ..batch })
    }
}

/// Returns the iteration recorded by a batch.
fn iteration_of(ack: &Ack) -> IterationId {
    ack.head.id.iteration(ack.index.or(ack.head.last_index).unwrap_or_default())
}

/// Makes a reason fit to be recorded: it can contain a file name, and therefore any character.
fn recordable(reason: &str) -> String {
    let mut text: String = reason.chars().filter(|c| !c.is_control()).collect();
    truncate(&mut text, crate::model::iteration::MAX_NAME_BYTES);
    text
}
