//! Carrying a plan out: pictures are kept, runs get their parents, and become iterations in the order of time.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::images;
use crate::images::metadata::{self, InitHash};
use crate::model::diff::RecipeDiff;
use crate::model::{
    Actor, Draft, Hash, ImageRef, Iteration, IterationId, LikelyParent, Outcome, Recipe, Refusal, Session, SessionId,
    Timestamp,
};
use crate::store::{self, Detail, Target};
use crate::tracker::fit;

use super::lineage::{Lineage, Made, Origin, Place};
use super::look::{Found, Light, ask_all};
use super::runs::{self, Group, Run};
use super::{BroughtSession, FileProblem, FilesReport, FilesRequest, PlannedIteration, Problems};
use super::{Error, Tracker, when};

/// Runs whose pictures are kept before they are recorded: enough for all cores, and little to do again.
const AT_ONCE: usize = 64;
/// What a prompt may take in a plan.
const SHOWN_PROMPT_BYTES: usize = 200;

/// What takes pictures in. Knows everything that is in the workspace, by content.
pub(in crate::tracker) struct Intake<'a> {
    pub(super) tracker: &'a Tracker,
    actor: Actor,
    request: FilesRequest,
    /// How many events there were in the workspace when all of it was known,
    pub(super) events: u64,
    /// and how many iterations each of its sessions had.
    pub(super) counts: HashMap<SessionId, u32>,
    /// Every image in the workspace.
    known: HashMap<Hash, Place>,
    /// Every picture in the workspace, by its pixels.
    pixels: HashMap<Hash, Vec<Told>>,
    lineage: Lineage,
    /// Pictures by the hashes that other tools give them, where something names one by such a hash.
    digests: HashMap<InitHash, Hash>,
    /// What could not be brought in.
    pub(in crate::tracker) problems: Problems,
    report: FilesReport,
}

/// An iteration that was recorded now.
pub(in crate::tracker) struct NewIteration {
    pub(in crate::tracker) id: IterationId,
    pub(in crate::tracker) iteration: Iteration,
}

/// What a picture says of itself, to tell a copy from another that happens to look the same.
#[derive(PartialEq)]
struct Told {
    prompt: String,
    seed: Option<crate::model::Seed>,
}

impl Told {
    fn of(recipe: &Recipe) -> Told {
        Told { prompt: recipe.prompt.clone(), seed: recipe.seed }
    }

    fn is_nothing(&self) -> bool {
        self.prompt.is_empty() && self.seed.is_none()
    }
}

/// A session of the plan, as it is being filled.
struct Filling {
    /// Where it goes; none for one that is yet to begin.
    session: Option<SessionId>,
    next_index: u32,
    view: Option<BroughtSession>,
}

impl<'a> Intake<'a> {
    /// Looks at everything that is in the workspace.
    pub(in crate::tracker) fn new(
        tracker: &'a Tracker,
        actor: &Actor,
        request: &FilesRequest,
    ) -> Result<Intake<'a>, Error> {
        let mut intake = Intake {
            tracker,
            actor: actor.clone(),
            request: request.clone(),
            // Counted first: what comes while the sessions are looked at is found in the next turn.
            events: tracker.log.totals()?.events,
            counts: HashMap::new(),
            known: HashMap::new(),
            pixels: HashMap::new(),
            lineage: Lineage::default(),
            digests: HashMap::new(),
            problems: Problems::default(),
            report: FilesReport { dry_run: request.dry_run, ..FilesReport::default() },
        };
        tracker.each_session(|id| intake.learn(id))?;
        Ok(intake)
    }

    /// Looks at a session that another may have added to.
    pub(super) fn learn(&mut self, id: SessionId) -> Result<(), Error> {
        let session = Session::fold(self.tracker.log.events(id, Detail::Brief)?);
        let count = session.as_ref().map_or(0, |session| session.iterations.len());
        self.counts.insert(id, u32::try_from(count).unwrap_or(u32::MAX));
        for (index, state) in session.into_iter().flat_map(|session| session.iterations) {
            let Iteration { images, recipe, created_at, .. } = state.iteration;
            let place = Place::Recorded(id.iteration(index));
            for image in &images {
                self.tracker.images.remember(image);
                self.note(place, image, &recipe);
            }
            let recipe = Recipe { parameters: serde_json::Map::new(), ..recipe };
            let light = Light { recipe, ..Light::default() };
            self.lineage.add(Made::new(place, None, created_at, &light, &images), None);
        }
        Ok(())
    }

    /// Whether an image of these bytes is in the workspace.
    pub(in crate::tracker) fn knows(&self, hash: Hash) -> bool {
        self.known.contains_key(&hash)
    }

    /// Groups these pictures, records what is new of them in the order of time, and tells of each. A workspace that takes
    /// nothing more ends it, and so does `stop`; either is in the report.
    pub(in crate::tracker) fn bring_in(
        &mut self,
        found: &mut [Found],
        stop: &AtomicBool,
        tell: impl FnMut(&NewIteration),
    ) {
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
            let pixels = if wants_pixels { self.tracker.images.pixels_md5(&picture.path).ok() } else { None };
            (file.map(InitHash::FileSha256), pixels.map(InitHash::PixelsMd5))
        };
        let hashed = ask_all(found, hash, |done| {
            self.tracker.report("hashing", done, total);
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
        let mut filling: Vec<Filling> = groups.iter().map(|group| self.goes_on(found, group)).collect();
        let mut order: Vec<(usize, &Run)> = groups
            .iter()
            .enumerate()
            .flat_map(|(number, group)| group.runs.iter().map(move |run| (number, run)))
            .collect();
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
                Some(from) if !self.request.dry_run => match self.turn(from.min(self.tracker.now())) {
                    Ok(turn) => Some(turn),
                    Err(error) => {
                        self.report.stopped = Some(error.view().error);
                        break;
                    }
                },
                _ => None,
            };
            let new: Vec<usize> = runs.iter().flat_map(|(_, run)| run.pictures.iter().copied()).collect();
            let new: Vec<&Found> = new.into_iter().filter_map(|number| found.get(number)).collect();
            let new: Vec<&Found> = new.into_iter().filter(|picture| !self.knows(picture.hash)).collect();
            let kept = ask_all(
                &new,
                |picture| self.keep(picture),
                |now| {
                    self.tracker.report("importing", done + now, total.max(done + now));
                    !stop.load(Ordering::Relaxed)
                },
            );
            let mut kept: HashMap<Hash, _> = new.iter().map(|picture| picture.hash).zip(kept).collect();
            for (number, run) in runs {
                let mut pictures = run.pictures.iter().filter_map(|number| found.get(*number));
                if !pictures.all(|picture| self.knows(picture.hash) || kept.contains_key(&picture.hash)) {
                    // Told to stop: runs are recorded whole or not at all, and in the order of time.
                    self.report.interrupted = true;
                    break;
                }
                let (Some(group), Some(filling)) = (groups.get(*number), filling.get_mut(*number)) else { continue };
                let ended = self.run(found, (*number, group, run), filling, &mut kept, &mut tell);
                if let Err(error) = ended {
                    self.report.stopped = Some(error.view().error);
                    break;
                }
            }
            done += runs.iter().map(|(_, run)| run.pictures.len() as u64).sum::<u64>();
            self.tracker.report("importing", done, total.max(done));
            if self.report.stopped.is_some() || self.report.interrupted {
                break;
            }
        }
        self.report.sessions.extend(filling.into_iter().filter_map(|filling| filling.view));
        self.report.sessions.sort_by_key(|session| session.from);
    }

    /// What it came to since it was last asked.
    pub(in crate::tracker) fn take_report(&mut self) -> FilesReport {
        let Problems { named, omitted } = std::mem::take(&mut self.problems);
        let fresh = FilesReport { dry_run: self.request.dry_run, ..FilesReport::default() };
        let report = std::mem::replace(&mut self.report, fresh);
        FilesReport { problems: named, problems_omitted: omitted, ..report }
    }

    /// The session that a group belongs to already, as some of its pictures are there.
    fn goes_on(&self, found: &[Found], group: &Group) -> Filling {
        let pictures = group.runs.iter().flat_map(|run| &run.pictures).filter_map(|number| found.get(*number));
        let mut fillings = pictures.filter_map(|picture| match self.known.get(&picture.hash)? {
            Place::Recorded(id) => Some(self.filling(Some(id.session))),
            Place::Planned(..) => None,
        });
        fillings.find(|filling| filling.session.is_some()).unwrap_or_else(|| self.filling(None))
    }

    /// A session to fill: this one, unless it takes no more.
    fn filling(&self, session: Option<SessionId>) -> Filling {
        let head = session.and_then(|id| self.tracker.head(id).ok()).filter(|head| !head.archived);
        let next_index = head.as_ref().and_then(|head| head.last_index).map_or(0, |last| last.saturating_add(1));
        Filling { session: head.map(|head| head.id), next_index, view: None }
    }

    /// Keeps a picture, or only looks at it in a dry run.
    fn keep(&self, picture: &Found) -> Result<ImageRef, Unkept> {
        let images = &self.tracker.images;
        let path = picture.path.as_path();
        let image = if self.request.dry_run {
            Ok(seen(images, picture))
        } else if !self.request.link {
            images.put_file(path)
        } else if path.to_str().is_none() {
            return Err(Unkept::File(
                "its path is not UTF-8, so that it cannot be linked; import it without --link".to_owned(),
            ));
        } else {
            images.link_file(path)
        };
        match image {
            Ok(image) if image.hash == picture.hash => Ok(image),
            Ok(_) => Err(Unkept::File(
                "it changed while it was brought in; importing again takes it as it is now".to_owned(),
            )),
            Err(error) if error.path == path || error.action.starts_with("read") => {
                Err(Unkept::File(super::walk::unreadable(&error.source)))
            }
            Err(error) => Err(Unkept::Workspace(error.into())),
        }
    }

    /// Records a run, unless all of it is here. An error ends the whole import.
    fn run(
        &mut self,
        found: &[Found],
        (number, group, run): (usize, &Group, &Run),
        filling: &mut Filling,
        kept: &mut HashMap<Hash, Result<ImageRef, Unkept>>,
        tell: &mut impl FnMut(&NewIteration),
    ) -> Result<(), Error> {
        let pictures: Vec<&Found> = run.pictures.iter().filter_map(|number| found.get(*number)).collect();
        let Some(first) = pictures.first() else { return Ok(()) };
        let (mut images, mut files) = (Vec::new(), Vec::new());
        for picture in &pictures {
            if let Some(place) = self.known.get(&picture.hash) {
                self.report.skipped += 1;
                if let Place::Recorded(id) = place
                    && filling.session != Some(id.session)
                {
                    // What follows it goes on there, if that takes more.
                    let there = self.filling(Some(id.session));
                    if there.session.is_some() {
                        *filling = Filling { view: filling.view.take(), ..there };
                    }
                }
                continue;
            }
            match kept.remove(&picture.hash) {
                Some(Ok(image)) if self.is_copy(&image, &picture.light.recipe) => self.report.skipped += 1,
                Some(Ok(image)) => {
                    images.push(image);
                    files.push(picture.path.as_path());
                }
                Some(Err(Unkept::File(reason))) => self.problems.push(FileProblem::new(&picture.path, reason)),
                Some(Err(Unkept::Workspace(error))) => return Err(error),
                // It was there twice and is recorded by now.
                None => self.report.skipped += 1,
            }
        }
        let known = pictures.iter().find_map(|picture| self.known.get(&picture.hash)).copied();
        let mut origin = self.lineage.origin(number, run.at, &first.light, &images);
        if let Some(hashed) = self.hashed(&first.light) {
            (origin.parent, origin.likely) = (Some(hashed), None);
        }
        if images.is_empty() {
            // A run that is here already still has those after it.
            if let Some(place) = known {
                self.lineage.adopt(place, number, &first.light, origin.line);
            }
            return Ok(());
        }
        let iteration = self.iteration(run.at, first, files.first().copied(), images, &origin);
        if let Err(invalid) = iteration.check_brought_in() {
            self.problems
                .push(FileProblem::new(&first.path, format!("what it says of itself cannot be recorded: {invalid}")));
            return Ok(());
        }
        let place = if self.request.dry_run {
            Place::Planned(number, filling.next_index)
        } else {
            let (id, repeated) = self.record(filling, &iteration)?;
            if repeated {
                self.report.skipped += iteration.images.len() as u64;
                return Ok(());
            }
            tell(&NewIteration { id, iteration: iteration.clone() });
            Place::Recorded(id)
        };
        self.describe(filling, group, place, &iteration, (&first.light, &origin, &files));
        for image in &iteration.images {
            self.note(place, image, &iteration.recipe);
        }
        self.report.iterations += 1;
        self.report.images += iteration.images.len() as u64;
        let made = Made::new(place, Some(number), run.at, &first.light, &iteration.images);
        self.lineage.add(made, Some(origin.line));
        Ok(())
    }

    /// The iteration of a run.
    fn iteration(
        &self,
        at: Timestamp,
        first: &Found,
        file: Option<&Path>,
        images: Vec<ImageRef>,
        origin: &Origin,
    ) -> Iteration {
        // What grouping did not need is read again. A file that is gone by now was kept, or is linked and reported later.
        let reading = file.and_then(|file| metadata::read_file(file).ok());
        let recipe = reading.map_or_else(|| first.light.recipe.clone(), |reading| reading.recipe);
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
            created_at: at.min(self.tracker.now()),
            recipe,
            outcome: Outcome::default(),
            images,
            parent,
            parent_reason,
            likely_parent: likely
                .and_then(|(place, reason)| Some(LikelyParent { reference: recorded(*place)?, reason: name(reason) })),
        }
    }

    /// Appends an iteration to its session, which begins with it where there is none. Says whether it was there already.
    fn record(&mut self, filling: &mut Filling, iteration: &Iteration) -> Result<(IterationId, bool), Error> {
        let mut hashes: Vec<Hash> = iteration.images.iter().map(|image| image.hash).collect();
        hashes.sort_unstable();
        let content: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        let key = format!("import {}", Hash::of(&content));
        loop {
            let (target, mut drafts) = match filling.session {
                Some(id) => (Target::Existing(id), Vec::new()),
                None => {
                    let start = Draft::Start { title: None, project: self.request.project.clone() };
                    (Target::New(iteration.created_at.day()), vec![start])
                }
            };
            drafts.push(Draft::BringIn(Box::new(iteration.clone())));
            let events = drafts.len() as u64;
            let batch = self.tracker.batch(&self.actor, Some(&key), target, drafts)?;
            match self.tracker.log.append(batch) {
                Ok(ack) => {
                    let id = ack.head.id.iteration(ack.index.or(ack.head.last_index).unwrap_or_default());
                    if !ack.repeated {
                        filling.session = Some(id.session);
                        filling.next_index = id.index.saturating_add(1);
                        self.events += events;
                        *self.counts.entry(id.session).or_default() += 1;
                    }
                    return Ok((id, ack.repeated));
                }
                // Archived meanwhile: the work goes on in a session of its own.
                Err(store::Error::Refused(Refusal::Archived(_) | Refusal::Full(_))) => filling.session = None,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Adds an iteration to what is said of its session.
    fn describe(
        &self,
        filling: &mut Filling,
        group: &Group,
        place: Place,
        iteration: &Iteration,
        (light, origin, files): (&Light, &Origin, &[&Path]),
    ) {
        let index = match place {
            Place::Recorded(id) => id.index,
            Place::Planned(_, index) => index,
        };
        let at = iteration.created_at;
        let session_id = filling.session;
        let view = filling.view.get_or_insert_with(|| BroughtSession {
            session_id,
            folder: group.root.display().to_string(),
            begins: group.cut.clone(),
            from: at,
            to: at,
            iterations: 0,
            images: 0,
            plan: Vec::new(),
        });
        view.session_id = view.session_id.or(session_id);
        (view.from, view.to) = (view.from.min(at), view.to.max(at));
        view.iterations += 1;
        view.images += iteration.images.len() as u64;
        if !self.request.dry_run {
            return;
        }
        filling.next_index = index.saturating_add(1);
        let text = |place: &Option<(Place, String)>| place.as_ref().map(|(place, _)| place.to_string());
        let reason = |place: &Option<(Place, String)>| place.as_ref().map(|(_, reason)| reason.clone());
        let prompt = &iteration.recipe.prompt;
        let before = origin.before.and_then(|number| self.lineage.recipe(number));
        view.plan.push(PlannedIteration {
            index,
            timestamp: at,
            prompt: fit::clipped(prompt, SHOWN_PROMPT_BYTES).unwrap_or_else(|| prompt.clone()),
            generator: light.generator.map(|generator| generator.name().to_owned()),
            line: origin.line as u64,
            label: before.map(|before| RecipeDiff::between(before, &light.recipe).label),
            parent: text(&origin.parent),
            parent_reason: reason(&origin.parent),
            likely_parent: text(&origin.likely),
            likely_reason: reason(&origin.likely),
            files: files.iter().map(|path| path.display().to_string()).collect(),
        });
    }

    /// Whether a picture is one that is here, saved again: the same pixels, and it says the same of itself or nothing. A
    /// picture of one colour is like many.
    fn is_copy(&self, image: &ImageRef, recipe: &Recipe) -> bool {
        let told = Told::of(recipe);
        let plain = image.perceptual_hash.is_none_or(|perceptual_hash| perceptual_hash.0 == 0);
        let known = image.pixels.and_then(|pixels| self.pixels.get(&pixels));
        !plain && known.is_some_and(|known| told.is_nothing() || known.contains(&told))
    }

    fn note(&mut self, place: Place, image: &ImageRef, recipe: &Recipe) {
        self.known.insert(image.hash, place);
        if let Some(pixels) = image.pixels {
            let (told, known) = (Told::of(recipe), self.pixels.entry(pixels).or_default());
            if !known.contains(&told) {
                known.push(told);
            }
        }
    }
}

/// Why a picture could not be kept.
#[derive(Debug)]
enum Unkept {
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
    fit::clip(&mut name, crate::model::iteration::MAX_NAME_BYTES);
    name
}
