//! A sample history for `retake demo`, in a workspace of its own. Its images are drawn by code; nothing is downloaded.

mod history;
mod light;
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are cut to pixels on purpose")]
mod scene;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use self::history::{Step, Story};
use crate::model::{Actor, IterationId, Outcome, OutcomeStatus, SessionId, Status, Timestamp};
use crate::workspace::{Error, ImageSource, Options, Progress, Recording, Workspace};

/// Fills the workspace in `dir`, unless there is work in it, as if it had been used in the days before `now`. Ends early
/// once `stop` is set.
pub fn fill(dir: &Path, now: Timestamp, progress: Option<Progress>, stop: &AtomicBool) -> Result<(), Error> {
    let hand = Arc::new(AtomicI64::new(now.millis()));
    let clock = Arc::clone(&hand);
    let options = Options {
        actor: Actor { client: "retake-demo".to_owned(), user: "ada".to_owned() },
        clock: Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed)).unwrap_or(now)),
        ..Options::default()
    };
    let workspace = Workspace::open_with(dir, options)?;
    if workspace.count_sessions(Status::All)? == 0 {
        let stories = history::stories();
        let pictures = painted(&stories, progress.as_ref(), stop);
        Filling { workspace: &workspace, hand: &hand, now, ids: Vec::new(), stop }.tell(&stories, pictures)?;
    }
    workspace.close()
}

/// Paints the images of all successful iterations on all cores, and returns them story by story.
fn painted(stories: &[Story], progress: Option<&Progress>, stop: &AtomicBool) -> Vec<Vec<Vec<u8>>> {
    let steps: Vec<&Step> = stories.iter().flat_map(|story| &story.steps).collect();
    let hands = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = steps.len().div_ceil(hands).max(1);
    let done = AtomicI64::new(0);
    let total = steps.len() as u64;
    let paint = |step: &&Step| {
        let painted = step.outcome == OutcomeStatus::Succeeded && !stop.load(Ordering::Relaxed);
        let picture = if painted { scene::paint(&step.recipe) } else { Vec::new() };
        let done = done.fetch_add(1, Ordering::Relaxed).unsigned_abs() + 1;
        if let Some(progress) = progress {
            progress("painting", done, total);
        }
        picture
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> =
            steps.chunks(each).map(|part| scope.spawn(|| part.iter().map(paint).collect::<Vec<_>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>().into_iter()
    });
    stories.iter().map(|story| all.by_ref().take(story.steps.len()).collect()).collect()
}

/// A history being recorded.
struct Filling<'a> {
    workspace: &'a Workspace,
    hand: &'a AtomicI64,
    now: Timestamp,
    /// The sessions so far.
    ids: Vec<SessionId>,
    stop: &'a AtomicBool,
}

impl Filling<'_> {
    fn tell(mut self, stories: &[Story], pictures: Vec<Vec<Vec<u8>>>) -> Result<(), Error> {
        for (story, pictures) in stories.iter().zip(pictures) {
            self.session(story, pictures)?;
        }
        Ok(())
    }

    fn session(&mut self, story: &Story, pictures: Vec<Vec<u8>>) -> Result<(), Error> {
        let ada = Actor { client: "retake-demo".to_owned(), user: "ada".to_owned() };
        let agent = Actor { client: "an agent 1.0".to_owned(), user: "ada".to_owned() };
        let mut at = self.now.millis() - story.hours_ago * 60 * 60 * 1000;
        let mut session: Option<SessionId> = None;
        for (number, (step, picture)) in story.steps.iter().zip(pictures).enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            at += 90_000 + 41_000 * i64::try_from(number % 5).unwrap_or(0);
            self.hand.store(at.min(self.now.millis()), Ordering::Relaxed);
            let actor = if story.title.is_some() { &ada } else { &agent };
            let recorded = self.recording(story, step, picture, session, number)?.actor(actor).commit()?;
            session = Some(recorded.session());
            self.annotate(&ada, recorded.id(), step)?;
        }
        if let (Some(reason), Some(id)) = (story.archived, session) {
            self.workspace.archive(id, Some(reason))?;
        }
        self.ids.extend(session);
        Ok(())
    }

    fn recording(
        &self,
        story: &Story,
        step: &Step,
        picture: Vec<u8>,
        session: Option<SessionId>,
        number: usize,
    ) -> Result<Recording<'_>, Error> {
        let recipe = step.recipe.clone();
        let millis = 3100 + 140 * u64::try_from(number).unwrap_or(0) + u64::from(recipe.steps.unwrap_or(0)) * 90;
        let elsewhere = story.from.filter(|_| session.is_none());
        let parent = match (step.parent, session, elsewhere) {
            (Some(index), Some(id), _) => Some(id.iteration(index)),
            (_, _, Some((story, index))) => self.ids.get(story).map(|id| id.iteration(index)),
            _ => None,
        };
        let mut recording = match session {
            Some(id) => self.workspace.session(id)?.record(recipe),
            None => {
                let mut new = self.workspace.start_session();
                if let Some(title) = story.title {
                    new = new.title(title);
                }
                if let Some(project) = story.project {
                    new = new.project(project);
                }
                new.record(recipe)
            }
        };
        recording = recording.outcome(Outcome {
            status: step.outcome,
            message: step.message.map(str::to_owned),
            generation_time_ms: Some(millis),
            cost: None,
        });
        if let Some(parent) = parent {
            recording = recording.parent(parent);
        }
        Ok(if picture.is_empty() { recording } else { recording.images([ImageSource::Bytes(picture)]) })
    }

    fn annotate(&self, actor: &Actor, id: IterationId, step: &Step) -> Result<(), Error> {
        if step.rating.is_none() && step.tags.is_empty() && step.note.is_none() {
            return Ok(());
        }
        let mut annotating = self.workspace.annotate(id).actor(actor);
        if let Some(rating) = step.rating {
            annotating = annotating.rating(rating);
        }
        for tag in step.tags {
            annotating = annotating.tag(*tag);
        }
        if let Some(note) = step.note {
            annotating = annotating.note(note);
        }
        annotating.commit().map(drop)
    }
}
