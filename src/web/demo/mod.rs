//! `retake demo`: a small history to look at, made by code when it is asked for. Nothing is downloaded, and nothing of it
//! ever mixes with real work: it has a workspace of its own.

mod history;
mod light;
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are cut to pixels on purpose")]
mod scene;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use self::history::{Step, Story};
use crate::model::{Actor, OutcomeStatus, Timestamp};
use crate::tracker::{
    AnnotateRequest, ArchiveRequest, Error, ImageData, ImageInput, ListRequest, Options, Progress, RecordRequest,
    Tracker,
};

/// Fills the workspace in `dir`, unless there is work in it, as if it had been used in the days before `now`.
pub fn fill(dir: &Path, now: Timestamp, progress: Option<Progress>) -> Result<(), Error> {
    let hand = Arc::new(AtomicI64::new(now.millis()));
    let clock = Arc::clone(&hand);
    let options = Options {
        clock: Arc::new(move || Timestamp::from_millis(clock.load(Ordering::Relaxed)).unwrap_or(now)),
        ..Options::default()
    };
    let tracker = Tracker::open(dir, options)?;
    if tracker.list(&ListRequest { limit: Some(1), ..ListRequest::default() })?.total_sessions == 0 {
        let stories = history::stories();
        let pictures = painted(&stories, progress.as_ref());
        Filling { tracker: &tracker, hand: &hand, now, ids: Vec::new() }.tell(&stories, pictures)?;
    }
    tracker.close()
}

/// The pictures of all iterations that have one, story by story: painted on all cores.
fn painted(stories: &[Story], progress: Option<&Progress>) -> Vec<Vec<Vec<u8>>> {
    let steps: Vec<&Step> = stories.iter().flat_map(|story| &story.steps).collect();
    let hands = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let each = steps.len().div_ceil(hands).max(1);
    let done = AtomicI64::new(0);
    let total = steps.len() as u64;
    let paint = |step: &&Step| {
        let picture = if step.outcome == OutcomeStatus::Succeeded { scene::paint(&step.recipe) } else { Vec::new() };
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
    tracker: &'a Tracker,
    hand: &'a AtomicI64,
    now: Timestamp,
    /// The sessions so far.
    ids: Vec<String>,
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
        let mut session: Option<String> = None;
        for (number, (step, picture)) in story.steps.iter().zip(pictures).enumerate() {
            at += 90_000 + 41_000 * i64::try_from(number % 5).unwrap_or(0);
            self.hand.store(at.min(self.now.millis()), Ordering::Relaxed);
            let request = self.request(story, step, picture, session.as_deref(), number);
            let recorded = self.tracker.record(if story.title.is_some() { &ada } else { &agent }, &request)?;
            session = Some(recorded.session.id().to_string());
            self.annotate(&ada, &recorded.reference.to_string(), step)?;
        }
        if let (Some(reason), Some(id)) = (story.archived, &session) {
            let request =
                ArchiveRequest { session_id: id.clone(), reason: Some(reason.to_owned()), idempotency_key: None };
            self.tracker.archive(&ada, &request)?;
        }
        self.ids.extend(session);
        Ok(())
    }

    fn request(
        &self,
        story: &Story,
        step: &Step,
        picture: Vec<u8>,
        session: Option<&str>,
        number: usize,
    ) -> RecordRequest {
        let recipe = step.recipe.clone();
        let elsewhere = story.from.filter(|_| session.is_none());
        let parent = match (step.parent, session, elsewhere) {
            (Some(index), Some(id), _) => Some(format!("{id}#{index}")),
            (_, _, Some((story, index))) => self.ids.get(story).map(|id| format!("{id}#{index}")),
            _ => None,
        };
        let image = ImageData { data: STANDARD.encode(&picture), mime_type: Some("image/png".to_owned()) };
        RecordRequest {
            prompt: recipe.prompt,
            session_id: session.map(str::to_owned),
            parent,
            negative_prompt: recipe.negative_prompt,
            model: recipe.model,
            seed: recipe.seed,
            steps: recipe.steps,
            guidance_scale: recipe.guidance_scale,
            sampler: recipe.sampler,
            scheduler: recipe.scheduler,
            width: recipe.width,
            height: recipe.height,
            loras: recipe.loras,
            provider: recipe.provider,
            outcome: Some(step.outcome),
            message: step.message.map(str::to_owned),
            generation_time_ms: Some(
                3100 + 140 * u64::try_from(number).unwrap_or(0) + u64::from(recipe.steps.unwrap_or(0)) * 90,
            ),
            images: if picture.is_empty() { Vec::new() } else { vec![ImageInput::Data(image)] },
            title: story.title.filter(|_| session.is_none()).map(str::to_owned),
            project: story.project.filter(|_| session.is_none()).map(str::to_owned),
            ..RecordRequest::default()
        }
    }

    fn annotate(&self, actor: &Actor, reference: &str, step: &Step) -> Result<(), Error> {
        if step.rating.is_none() && step.tags.is_empty() && step.note.is_none() {
            return Ok(());
        }
        let request = AnnotateRequest {
            reference: reference.to_owned(),
            rating: step.rating,
            tags: (!step.tags.is_empty()).then(|| step.tags.iter().map(|tag| (*tag).to_owned()).collect()),
            note: step.note.map(str::to_owned),
            idempotency_key: None,
        };
        self.tracker.annotate(actor, &request).map(drop)
    }
}
