//! Carrying a plan out: images are stored, runs get their parents, and become iterations in the order of time. A dry run
//! takes the same way and stores nothing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::images;
use crate::images::metadata::{self, InitHash};
use crate::model::{
    Actor, Draft, Hash, ImageRef, Iteration, IterationId, LikelyParent, Outcome, Recipe, Refusal, Seed, Session,
    SessionId, Timestamp,
};
use crate::store::{self, Detail, Target};
use crate::workspace::{Author, truncate};

use super::copies::{self, ImagePlace};
use super::lineage::{Lineage, Made, Origin, Place};
use super::look::{Found, Light, ask_all};
use super::runs::{self, Group, Run};
use super::sessions::{self, KnownSession, RootKey, Targets};
use super::when;
use super::{FileProblem, FilesReport, FilesRequest, Problems};
use crate::workspace::{Error, Workspace};

/// Runs whose pictures are kept before they are recorded: enough for all cores, and little to do again.
const AT_ONCE: usize = 64;

/// What takes images in. Knows everything that is in the workspace, by content.
pub(crate) struct Intake<'a> {
    pub(super) workspace: &'a Workspace,
    actor: Actor,
    pub(super) request: FilesRequest,
    /// The number of events in the workspace when all of it was known.
    pub(super) events: u64,
    /// The number of iterations that each of its sessions had then.
    pub(super) counts: HashMap<SessionId, u32>,
    /// Its sessions.
    sessions: HashMap<SessionId, KnownSession>,
    /// Every image in the workspace.
    known: HashMap<Hash, Place>,
    /// Every image in the workspace, by its pixels.
    pub(super) pixels: HashMap<Hash, Vec<ImagePlace>>,
    pub(super) lineage: Lineage,
    /// Images by the hashes that other tools give them, where something names one by such a hash.
    digests: HashMap<InitHash, Hash>,
    /// Of a dry run: the first file of every iteration.
    pub(super) planned_files: HashMap<Place, PathBuf>,
    /// Of a dry run: the number of sessions that would be new.
    pub(super) planned_sessions: usize,
    /// What could not be brought in.
    pub(crate) problems: Problems,
    pub(super) report: FilesReport,
}

/// An iteration that was recorded now.
pub(crate) struct NewIteration {
    pub(crate) id: IterationId,
    pub(crate) iteration: Iteration,
}

/// A group of the plan: its number, itself and its root.
#[derive(Clone, Copy)]
struct PlannedGroup<'a> {
    number: usize,
    group: &'a Group,
    root: &'a RootKey,
}

impl<'a> Intake<'a> {
    /// Looks at everything that is in the workspace.
    pub(crate) fn new(workspace: &'a Workspace, actor: &Actor, request: &FilesRequest) -> Result<Intake<'a>, Error> {
        let mut intake = Intake {
            workspace,
            actor: actor.clone(),
            request: request.clone(),
            // Counted first: what comes while the sessions are looked at is found in the next turn.
            events: workspace.log.totals()?.events,
            counts: HashMap::new(),
            sessions: HashMap::new(),
            known: HashMap::new(),
            pixels: HashMap::new(),
            lineage: Lineage::default(),
            digests: HashMap::new(),
            planned_files: HashMap::new(),
            planned_sessions: 0,
            problems: Problems::default(),
            report: FilesReport { dry_run: request.dry_run, ..FilesReport::default() },
        };
        workspace.each_session(|id| intake.learn(id))?;
        Ok(intake)
    }

    /// Looks at a session that another may have added to.
    pub(super) fn learn(&mut self, id: SessionId) -> Result<(), Error> {
        let events = self.workspace.log.events(id, Detail::Brief)?;
        let root = RootKey::that_started(&events);
        let session = Session::fold(events);
        let project = session.as_ref().and_then(|session| session.head.project.clone());
        self.sessions.insert(id, KnownSession { root, project });
        let count = session.as_ref().map_or(0, |session| session.iterations.len());
        self.counts.insert(id, u32::try_from(count).unwrap_or(u32::MAX));
        for (index, state) in session.into_iter().flat_map(|session| session.iterations) {
            let Iteration { images, recipe, created_at, .. } = state.iteration;
            let place = Place::Recorded(id.iteration(index));
            for image in &images {
                self.workspace.images.remember(image);
            }
            self.note(place, &images);
            let recipe = Recipe { parameters: serde_json::Map::new(), ..recipe };
            let light = Light { recipe, ..Light::default() };
            self.lineage.add(Made::new(place, None, created_at, &light, &images), None);
        }
        Ok(())
    }

    /// Whether an image of these bytes is in the workspace.
    pub(crate) fn knows(&self, hash: Hash) -> bool {
        self.known.contains_key(&hash)
    }

    /// Groups these pictures, records what is new of them in the order of time, and tells of each. A workspace that takes
    /// nothing more ends it, and so does `stop`; either is in the report.
    pub(crate) fn bring_in(&mut self, found: &mut [Found], stop: &AtomicBool, tell: impl FnMut(&NewIteration)) {
        let notes = when::settle(found);
        self.report.notes.extend(notes);
        let groups = runs::group(found, self.request.gap_seconds.map(Duration::from_secs));
        self.lineage.begin();
        self.digest(found, stop);
        self.carry_out(found, &groups, stop, tell);
    }

    /// Hashes pictures as other tools do, if any names one by its hash: that takes as long as importing them.
    fn digest(&mut self, found: &[Found], stop: &AtomicBool) {
        let wanted = || found.iter().flat_map(|picture| &picture.light.evidence.init_hashes);
        let wants_file = wanted().any(|hash| matches!(hash, InitHash::FileSha256(_)));
        let wants_pixels = wanted().any(|hash| matches!(hash, InitHash::PixelsMd5(_)));
        if !wants_file && !wants_pixels {
            return;
        }
        let total = found.len() as u64;
        let hash = |picture: &Found| {
            let file = if wants_file { images::file_sha256(&picture.path).ok() } else { None };
            let pixels = if wants_pixels { self.workspace.images.pixels_md5(&picture.path).ok() } else { None };
            (file.map(InitHash::FileSha256), pixels.map(InitHash::PixelsMd5))
        };
        let hashed = ask_all(found, hash, |done| {
            self.workspace.report("hashing", done, total);
            !stop.load(Ordering::Relaxed)
        });
        for (picture, (file, pixels)) in found.iter().zip(hashed) {
            self.digests.extend(file.into_iter().chain(pixels).map(|digest| (digest, picture.hash)));
        }
    }

    /// The picture that a file names by its hash, if it is here.
    fn hashed(&self, light: &Light) -> Option<(Place, String)> {
        let hashes = light.evidence.init_hashes.iter().filter_map(|digest| self.digests.get(digest));
        let place = hashes.filter_map(|hash| self.known.get(hash)).next()?;
        Some((*place, "it holds the hash of the picture it was made from".to_owned()))
    }

    fn carry_out(&mut self, found: &[Found], groups: &[Group], stop: &AtomicBool, mut tell: impl FnMut(&NewIteration)) {
        let roots: Vec<RootKey> = groups.iter().map(|group| RootKey::of(&group.root)).collect();
        let planned = groups.iter().zip(&roots).enumerate();
        let planned: Vec<PlannedGroup<'_>> =
            planned.map(|(number, (group, root))| PlannedGroup { number, group, root }).collect();
        let mut targets = Targets::default();
        planned.iter().for_each(|planned| self.go_on(found, *planned, &mut targets));
        let mut order: Vec<(PlannedGroup<'_>, &Run)> =
            planned.iter().flat_map(|planned| planned.group.runs.iter().map(|run| (*planned, run))).collect();
        order.sort_by_key(|(_, run)| run.at);
        let total = found.len() as u64;
        let mut done = 0;
        self.report.skipped += total - order.iter().map(|(_, run)| run.pictures.len() as u64).sum::<u64>().min(total);
        for runs in order.chunks(AT_ONCE) {
            if stop.load(Ordering::Relaxed) {
                self.report.interrupted = true;
                break;
            }
            let _turn = match runs.iter().map(|(_, run)| run.at).min() {
                Some(from) if !self.request.dry_run => match self.turn(from.min(self.workspace.now())) {
                    Ok(turn) => Some(turn),
                    Err(error) => {
                        self.report.stopped = Some(Arc::new(error));
                        break;
                    }
                },
                _ => None,
            };
            let pictures = runs.iter().flat_map(|(_, run)| run.pictures.iter().copied());
            let pictures: Vec<&Found> = pictures.filter_map(|number| found.get(number)).collect();
            let (old, new): (Vec<&Found>, Vec<&Found>) =
                pictures.into_iter().partition(|picture| self.knows(picture.hash));
            if let Err(error) = self.restore_all(&old, stop) {
                self.report.stopped = Some(Arc::new(error));
                break;
            }
            let kept = ask_all(
                &new,
                |picture| self.keep(picture),
                |now| {
                    self.workspace.report("importing", done + now, total.max(done + now));
                    !stop.load(Ordering::Relaxed)
                },
            );
            let mut kept: HashMap<Hash, _> = new.iter().map(|picture| picture.hash).zip(kept).collect();
            for (planned, run) in runs {
                let mut pictures = run.pictures.iter().filter_map(|number| found.get(*number));
                if !pictures.all(|picture| self.knows(picture.hash) || kept.contains_key(&picture.hash)) {
                    // Told to stop: runs are recorded whole or not at all, and in the order of time.
                    self.report.interrupted = true;
                    break;
                }
                let ended = self.run(found, (*planned, run), &mut targets, &mut kept, &mut tell);
                if let Err(error) = ended {
                    self.report.stopped = Some(Arc::new(error));
                    break;
                }
            }
            done += runs.iter().map(|(_, run)| run.pictures.len() as u64).sum::<u64>();
            self.workspace.report("importing", done, total.max(done));
            if self.report.stopped.is_some() || self.report.interrupted {
                break;
            }
        }
        self.report.sessions.extend(targets.all.into_iter().filter_map(|target| target.view));
        self.report.sessions.sort_by_key(|session| (session.from, session.new_number));
    }

    /// Restores the originals of recorded images that are missing or damaged, from these files.
    fn restore_all(&mut self, pictures: &[&Found], stop: &AtomicBool) -> Result<(), Error> {
        let restored = ask_all(pictures, |picture| self.restore(picture), |_| !stop.load(Ordering::Relaxed));
        for (picture, restored) in pictures.iter().zip(restored) {
            match restored {
                Ok(restored) => self.report.restored += u64::from(restored),
                Err(Unkept::File(reason)) => self.problems.push(FileProblem::new(&picture.path, reason)),
                Err(Unkept::Workspace(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// What it came to since it was last asked.
    pub(crate) fn take_report(&mut self) -> FilesReport {
        let Problems { named, omitted } = std::mem::take(&mut self.problems);
        let fresh = FilesReport { dry_run: self.request.dry_run, ..FilesReport::default() };
        let report = std::mem::replace(&mut self.report, fresh);
        FilesReport { problems: named, problems_omitted: omitted, ..report }
    }

    /// Lets a group go on in the session that some of its images are in, if it takes more.
    fn go_on(&self, found: &[Found], planned: PlannedGroup<'_>, targets: &mut Targets) {
        let runs = planned.group.runs.iter();
        let mut pictures = runs.flat_map(|run| &run.pictures).filter_map(|number| found.get(*number));
        let there = pictures.find_map(|picture| self.may_add_beside(picture.hash, planned.root));
        if let Some((session, next_index)) = there {
            targets.enter(planned.number, session, next_index);
        }
    }

    /// Returns the session of an image and its next index, if an import of that root may add to it.
    fn may_add_beside(&self, image: Hash, root: &RootKey) -> Option<(SessionId, u32)> {
        let Place::Recorded(id) = self.known.get(&image)? else { return None };
        let session = id.session;
        if !self.sessions.get(&session)?.takes(root, self.request.project.as_deref()) {
            return None;
        }
        let head = self.workspace.head(session).ok().filter(|head| !head.archived)?;
        Some((session, head.last_index.map_or(0, |last| last.saturating_add(1))))
    }

    /// Stores an image, or only looks at it in a dry run.
    fn keep(&self, picture: &Found) -> Result<ImageRef, Unkept> {
        let images = &self.workspace.images;
        let path = picture.path.as_path();
        if self.request.link && path.to_str().is_none() {
            return Err(Unkept::File("its path is not UTF-8, so it can only be copied, not linked".to_owned()));
        }
        let image = if self.request.dry_run {
            Ok(seen(images, picture))
        } else if self.request.link {
            images.link_file(path)
        } else {
            images.put_file(path)
        };
        match image {
            Ok(image) if image.hash == picture.hash => Ok(image),
            Ok(_) => {
                Err(Unkept::File("it changed while it was imported; importing again takes it as it is now".to_owned()))
            }
            Err(error) => Err(copies::unkept(path, error)),
        }
    }

    /// Records a run, unless all of it is here. An error ends the whole import.
    fn run(
        &mut self,
        found: &[Found],
        (planned, run): (PlannedGroup<'_>, &Run),
        targets: &mut Targets,
        kept: &mut HashMap<Hash, Result<ImageRef, Unkept>>,
        tell: &mut impl FnMut(&NewIteration),
    ) -> Result<(), Error> {
        let pictures: Vec<&Found> = run.pictures.iter().filter_map(|number| found.get(*number)).collect();
        let Some(first) = pictures.first() else { return Ok(()) };
        let mut new = Vec::new();
        for picture in &pictures {
            if self.knows(picture.hash) {
                self.report.skipped += 1;
                // What follows it goes on there, if that takes more.
                if let Some((session, next_index)) = self.may_add_beside(picture.hash, planned.root) {
                    targets.enter(planned.number, session, next_index);
                }
                continue;
            }
            match kept.remove(&picture.hash) {
                Some(Ok(image)) if self.is_copy(&image, picture) => self.report.skipped += 1,
                Some(Ok(image)) => new.push((*picture, image)),
                Some(Err(Unkept::File(reason))) => self.problems.push(FileProblem::new(&picture.path, reason)),
                Some(Err(Unkept::Workspace(error))) => return Err(error),
                // It was there twice and is recorded by now.
                None => self.report.skipped += 1,
            }
        }
        let known = pictures.iter().find_map(|picture| self.known.get(&picture.hash)).copied();
        let images: Vec<ImageRef> = new.iter().map(|(_, image)| image.clone()).collect();
        let mut origin = self.lineage.origin(planned.number, run.at, &first.light, &images);
        if let Some(hashed) = self.hashed(&first.light) {
            (origin.parent, origin.likely) = (Some(hashed), None);
        }
        if images.is_empty() {
            // A run that is here already still has those after it.
            if let Some(place) = known {
                self.lineage.adopt(place, planned.number, &first.light, origin.line);
            }
            return Ok(());
        }
        let files: Vec<&Found> = new.iter().map(|(picture, _)| *picture).collect();
        let iteration = self.iteration(run.at, &files, images, &origin);
        if let Err(invalid) = iteration.check_brought_in() {
            self.problems.push(FileProblem::new(&first.path, format!("its metadata cannot be recorded: {invalid}")));
            return Ok(());
        }
        let title = sessions::title(&first.path, &iteration.recipe.prompt);
        let place = if self.request.dry_run {
            self.plan_place(targets.current(planned.number))
        } else {
            let (id, repeated) = self.record(targets, planned, &iteration, title.as_deref())?;
            if repeated {
                self.report.skipped += iteration.images.len() as u64;
                return Ok(());
            }
            tell(&NewIteration { id, iteration: iteration.clone() });
            Place::Recorded(id)
        };
        self.warn_of_broken(&files, &iteration.images);
        let target = targets.current(planned.number);
        self.describe(target, planned.group, place, &iteration, (&first.light, &origin, &files, title));
        self.note(place, &iteration.images);
        self.report.iterations += 1;
        self.report.images += iteration.images.len() as u64;
        let made = Made::new(place, Some(planned.number), run.at, &first.light, &iteration.images);
        self.lineage.add(made, Some(origin.line));
        Ok(())
    }

    /// Names images that are imported although they are broken: nothing can be removed, so this is the time to say so.
    fn warn_of_broken(&mut self, files: &[&Found], images: &[ImageRef]) {
        for (file, image) in files.iter().zip(images) {
            if image.pixels.is_none()
                && let Some(defect) = images::defect(&file.path)
            {
                self.report.warnings.push(FileProblem::new(&file.path, format!("imported as it is, but {defect}")));
            }
        }
    }

    /// Returns the iteration of a run.
    fn iteration(&self, at: Timestamp, files: &[&Found], images: Vec<ImageRef>, origin: &Origin) -> Iteration {
        // What grouping did not need is read again. A file that is gone by now was stored, or is linked and reported later.
        let reading = files.first().and_then(|file| metadata::read_file(&file.path).ok());
        let light = || files.first().map(|file| file.light.recipe.clone()).unwrap_or_default();
        let mut recipe = reading.map_or_else(light, |reading| reading.recipe);
        let seeds: Vec<Option<Seed>> = files.iter().map(|file| file.light.recipe.seed).collect();
        if seeds.iter().any(|seed| *seed != recipe.seed) && !recipe.parameters.contains_key(copies::SEEDS) {
            let seeds = seeds.iter().map(|seed| seed.map(|seed| seed.to_string()).into()).collect();
            recipe.parameters.insert(copies::SEEDS.to_owned(), serde_json::Value::Array(seeds));
        }
        let recorded = |place: Place| match place {
            Place::Recorded(id) => Some(id),
            Place::Planned(..) => None,
        };
        let (parent, parent_reason) = match &origin.parent {
            Some((place, reason)) => (recorded(*place), recorded(*place).map(|_| name(reason))),
            None => (None, None),
        };
        let likely = origin.likely.as_ref();
        Iteration {
            // A clock that was ahead when the file was written does not make a picture of tomorrow.
            created_at: at.min(self.workspace.now()),
            recipe,
            outcome: Outcome::default(),
            images,
            parent,
            parent_reason,
            likely_parent: likely
                .and_then(|(place, reason)| Some(LikelyParent { reference: recorded(*place)?, reason: name(reason) })),
        }
    }

    /// Appends an iteration to its session, which starts with it if there is none. Returns whether it was there already.
    fn record(
        &mut self,
        targets: &mut Targets,
        planned: PlannedGroup<'_>,
        iteration: &Iteration,
        title: Option<&str>,
    ) -> Result<(IterationId, bool), Error> {
        let key = planned.root.key(&iteration.images);
        loop {
            let (target, mut drafts) = match targets.current(planned.number).session {
                Some(id) => (Target::Existing(id), Vec::new()),
                None => {
                    let start = Draft::Start { title: title.map(str::to_owned), project: self.request.project.clone() };
                    (Target::New(iteration.created_at.day()), vec![start])
                }
            };
            drafts.push(Draft::BringIn(Box::new(iteration.clone())));
            let events = drafts.len() as u64;
            let batch = self.workspace.batch(
                Author { actor: Some(self.actor.clone()), key: Some(key.clone()) },
                target,
                drafts,
            )?;
            match self.workspace.log.append(batch) {
                Ok(ack) => {
                    let id = ack.head.id.iteration(ack.index.or(ack.head.last_index).unwrap_or_default());
                    if !ack.repeated {
                        let target = targets.current(planned.number);
                        target.session = Some(id.session);
                        target.next_index = id.index.saturating_add(1);
                        self.events += events;
                        *self.counts.entry(id.session).or_default() += 1;
                        self.sessions.entry(id.session).or_insert_with(|| KnownSession {
                            root: Some(planned.root.clone()),
                            project: ack.head.project,
                        });
                    }
                    return Ok((id, ack.repeated));
                }
                // Archived meanwhile: the work goes on in a session of its own.
                Err(store::Error::Refused(Refusal::Archived(_) | Refusal::Full(_))) => targets.leave(planned.number),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&mut self, place: Place, images: &[ImageRef]) {
        for (number, image) in images.iter().enumerate() {
            self.known.insert(image.hash, place);
            if let Some(pixels) = image.pixels {
                self.pixels.entry(pixels).or_default().push(ImagePlace { place, number });
            }
        }
    }
}

/// Why an image could not be stored.
#[derive(Debug)]
pub(super) enum Unkept {
    /// The file is bad.
    File(String),
    /// The workspace does not take it.
    Workspace(Error),
}

/// What there is to say of a picture that is not kept.
fn seen(images: &images::Images, picture: &Found) -> ImageRef {
    let seen = images.see_file(&picture.path).ok();
    let size = seen.map(|seen| (seen.width, seen.height)).or(picture.light.size);
    ImageRef {
        hash: picture.hash,
        bytes: 0,
        mime_type: String::new(),
        width: size.map(|(width, _)| width),
        height: size.map(|(_, height)| height),
        name: Some(picture.name()),
        pixels: seen.map(|seen| seen.pixels),
        perceptual_hash: seen.map(|seen| seen.perceptual_hash),
        linked: None,
    }
}

/// A reason as it may be recorded: it can hold a file's name, and that anything.
fn name(reason: &str) -> String {
    let mut name: String = reason.chars().filter(|c| !c.is_control()).collect();
    truncate(&mut name, crate::model::iteration::MAX_NAME_BYTES);
    name
}
