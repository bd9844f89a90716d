//! A sample history for `retake demo`, in a separate workspace. Its images are drawn by code; nothing is downloaded.

mod history;
mod light;
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are cut to pixels on purpose")]
mod scene;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use self::history::{SampleIteration, SampleSession};
use crate::images::on_all_cores;
use crate::model::{Actor, IterationId, Outcome, OutcomeStatus, SessionId, Status, Timestamp};
use crate::workspace::{Error, ImageSource, Options, Progress, Recording, Workspace};

/// Fills the workspace in `dir`, unless it contains work already, as if it had been used in the days before `now`.
/// Stops early once `stop` is set.
pub fn fill(dir: &Path, now: Timestamp, progress: Option<Progress>, stop: &AtomicBool) -> Result<(), Error> {
    let clock_millis = Arc::new(AtomicI64::new(now.millis()));
    let clock = Arc::clone(&clock_millis);
    let options = Options {
        actor: Actor { client: "retake-demo".to_owned(), user: "ada".to_owned() },
        clock: Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed)).unwrap_or(now)),
        ..Options::default()
    };
    let workspace = Workspace::open_with(dir, options)?;
    if workspace.count_sessions(Status::All)? == 0 {
        let sessions = history::sessions();
        let images = paint_all(&sessions, progress.as_ref(), stop);
        HistoryRecorder { workspace: &workspace, clock_millis: &clock_millis, now, ids: Vec::new(), stop }
            .record(&sessions, images)?;
    }
    workspace.close()
}

/// Paints the images of all successful iterations on all cores, and returns them by session: an empty image for an
/// iteration without one, and fewer images if `stop` is set.
fn paint_all(sessions: &[SampleSession], progress: Option<&Progress>, stop: &AtomicBool) -> Vec<Vec<Vec<u8>>> {
    let iterations: Vec<&SampleIteration> = sessions.iter().flat_map(|session| &session.iterations).collect();
    let total = iterations.len() as u64;
    let paint = |iteration: &&SampleIteration| match iteration.outcome {
        OutcomeStatus::Succeeded => scene::paint(&iteration.recipe),
        _ => Vec::new(),
    };
    let go_on = |done: u64| {
        if let Some(progress) = progress {
            progress("painting", done, total);
        }
        !stop.load(Ordering::Relaxed)
    };
    let mut images = on_all_cores(&iterations, paint, go_on).into_iter();
    sessions.iter().map(|session| images.by_ref().take(session.iterations.len()).collect()).collect()
}

/// Records the sample history, with the clock set to the time of each iteration.
struct HistoryRecorder<'a> {
    workspace: &'a Workspace,
    clock_millis: &'a AtomicI64,
    now: Timestamp,
    /// The sessions so far.
    ids: Vec<SessionId>,
    stop: &'a AtomicBool,
}

impl HistoryRecorder<'_> {
    fn record(mut self, sessions: &[SampleSession], images: Vec<Vec<Vec<u8>>>) -> Result<(), Error> {
        for (session, images) in sessions.iter().zip(images) {
            self.record_session(session, images)?;
        }
        Ok(())
    }

    fn record_session(&mut self, sample: &SampleSession, images: Vec<Vec<u8>>) -> Result<(), Error> {
        let ada = Actor { client: "retake-demo".to_owned(), user: "ada".to_owned() };
        let agent = Actor { client: "an agent 1.0".to_owned(), user: "ada".to_owned() };
        let mut at = self.now.millis() - sample.hours_ago * 60 * 60 * 1000;
        let mut session: Option<SessionId> = None;
        for (number, (iteration, image)) in sample.iterations.iter().zip(images).enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            at += 90_000 + 41_000 * i64::try_from(number % 5).unwrap_or(0);
            self.clock_millis.store(at.min(self.now.millis()), Ordering::Relaxed);
            let actor = if sample.title.is_some() { &ada } else { &agent };
            let recorded = self.recording(sample, iteration, image, session, number)?.actor(actor).commit()?;
            session = Some(recorded.session());
            self.annotate(&ada, recorded.id(), iteration)?;
        }
        if let (Some(reason), Some(id)) = (sample.archived, session) {
            self.workspace.archive(id, Some(reason))?;
        }
        self.ids.extend(session);
        Ok(())
    }

    fn recording(
        &self,
        sample: &SampleSession,
        iteration: &SampleIteration,
        image: Vec<u8>,
        session: Option<SessionId>,
        number: usize,
    ) -> Result<Recording<'_>, Error> {
        let recipe = iteration.recipe.clone();
        let millis = 3100 + 140 * u64::try_from(number).unwrap_or(0) + u64::from(recipe.steps.unwrap_or(0)) * 90;
        let elsewhere = sample.from.filter(|_| session.is_none());
        let parent = match (iteration.parent, session, elsewhere) {
            (Some(index), Some(id), _) => Some(id.iteration(index)),
            (_, _, Some((position, index))) => self.ids.get(position).map(|id| id.iteration(index)),
            _ => None,
        };
        let mut recording = match session {
            Some(id) => self.workspace.session(id)?.record(recipe),
            None => {
                let mut new = self.workspace.start_session();
                if let Some(title) = sample.title {
                    new = new.title(title);
                }
                if let Some(project) = sample.project {
                    new = new.project(project);
                }
                new.record(recipe)
            }
        };
        recording = recording.outcome(Outcome {
            status: iteration.outcome,
            message: iteration.message.map(str::to_owned),
            generation_time_ms: Some(millis),
            cost: None,
        });
        if let Some(parent) = parent {
            recording = recording.parent(parent);
        }
        Ok(if image.is_empty() { recording } else { recording.images([ImageSource::Bytes(image)]) })
    }

    fn annotate(&self, actor: &Actor, id: IterationId, sample: &SampleIteration) -> Result<(), Error> {
        if sample.rating.is_none() && sample.tags.is_empty() && sample.note.is_none() {
            return Ok(());
        }
        let mut annotating = self.workspace.annotate(id).actor(actor);
        if let Some(rating) = sample.rating {
            annotating = annotating.rating(rating);
        }
        for tag in sample.tags {
            annotating = annotating.tag(*tag);
        }
        if let Some(note) = sample.note {
            annotating = annotating.note(note);
        }
        annotating.commit().map(drop)
    }
}
