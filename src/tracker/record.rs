//! `record`: one more iteration, in a session or as the first of a new one.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::iteration::check_optional_name;
use crate::model::{
    Actor, Cost, Draft, Event, EventBody, Head, Iteration, IterationId, Lora, Outcome, OutcomeStatus, Recipe, Refusal,
    Seed, Timestamp,
};
use crate::store::{Batch, Target};

use super::incoming::{self, ImageInput};
use super::{Error, SessionRow, Tracker, lookup};

/// An iteration to record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordRequest {
    /// The prompt exactly as it was typed.
    pub prompt: String,
    /// The session to add to, such as `session-2025-12-11-001`. Leave it out to start a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The iteration it came from, in any session, as a reference such as `session-2025-12-11-001#3`. By default the
    /// one before it in the session. To go back to an earlier attempt, name that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The prompt as sent, when it was expanded or rewritten on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sent: Option<String>,
    /// What the picture should not show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model file's hash, as the generator writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_hash: Option<String>,
    /// The seed: a whole number from 0 to 18446744073709551615, as a number or, so that no digit is lost, as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The number of sampling steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// CFG or guidance scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guidance_scale: Option<f64>,
    /// The sampler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<String>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// The width asked for, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height asked for, in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Denoising strength, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denoise: Option<f64>,
    /// LoRAs with their weights, in the order they were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<Lora>,
    /// The provider or tool that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Every other parameter, kept as it is given.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// What came of it: `succeeded` (the default), `failed` or `refused`. Record failures too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// What the provider said, mostly when it failed or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// When the picture was made, such as `2025-12-11T14:45:22.456Z`; by default now. A new session's id gets this day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// Its pictures: each a path, `{"path": …}`, or `{"data": base64, "mimeType": …}`. The bytes are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageInput>,
    /// A title for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// How many iterations you believe the session has: refused when someone else has added to it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_iteration_count: Option<u32>,
    /// Any text that is unique to this recording: asking again with the same one records nothing twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The new iteration.
    pub reference: IterationId,
    /// The row of its session as it stands now.
    pub session: SessionRow,
}

impl RecordRequest {
    /// Makes relative image paths absolute, for a request that another process will carry out.
    pub fn anchor(&mut self, dir: &Path) {
        self.images.iter_mut().for_each(|image| image.anchor(dir));
    }
}

impl Tracker {
    /// Records an iteration. When this returns, it and its images are on the disk.
    pub fn record(&self, actor: &Actor, request: &RecordRequest) -> Result<Recorded, Error> {
        let mut plan = self.plan(actor, request)?;
        let pictures = incoming::checked(&request.images)?;
        plan.refuse_early(self, request)?;

        // An image is on the disk before the event that names it.
        for picture in &pictures {
            plan.iteration.images.push(picture.keep(&self.images)?);
        }
        let mut batch = plan.batch;
        batch.drafts.push(Draft::Record(Box::new(plan.iteration.clone())));
        let key = batch.key.clone();
        let ack = self.log.append(batch)?;
        if ack.repeated {
            let session = plan.head.as_ref().map(|head| head.id);
            self.check_repeated(&ack, &key, session, |events| request.is_repeated_by(events, &plan.iteration))?;
        }
        let id = ack.head.id;
        let summary = ack.head.summary().ok_or(Refusal::Gone(id))?;
        let index = ack.index.unwrap_or_else(|| summary.current_iteration_index());
        Ok(Recorded { reference: id.iteration(index), session: SessionRow::new(&summary)? })
    }

    /// Checks all of a request but its images, and says what it comes to.
    fn plan(&self, actor: &Actor, request: &RecordRequest) -> Result<Plan, Error> {
        let now = self.now();
        let iteration = request.iteration(now)?;
        iteration.check()?;
        check_optional_name("title", request.title.as_deref())?;
        check_optional_name("project", request.project.as_deref())?;
        let id = request.session_id.as_deref().map(lookup::session_id).transpose()?;
        if id.is_none() && request.expected_iteration_count.is_some_and(|count| count > 0) {
            return Err(Error::invalid(
                "expectedIterationCount is given without sessionId",
                "name the session whose iterations you counted, or leave the count out to start a new session",
            ));
        }
        let target = id.map_or(Target::New(iteration.created_at.day()), Target::Existing);
        let mut batch = self.batch(actor, request.idempotency_key.as_deref(), target, Vec::new())?;

        let head = id.map(|id| self.head(id)).transpose()?;
        let parent = request.parent.as_deref().map(|parent| self.resolve(parent)).transpose()?;
        batch.expected_iterations = request.expected_iteration_count.filter(|_| id.is_some());
        batch.drafts.extend(request.naming(head.as_ref()));
        Ok(Plan { head, iteration: Iteration { parent, ..iteration }, batch })
    }
}

/// How far into the future a picture may have been made: clocks differ, and so do opinions on time zones.
const MAX_AHEAD_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// A request that was found good, but for its images.
struct Plan {
    /// The session it goes to; none for a new one.
    head: Option<Head>,
    /// What is recorded.
    iteration: Iteration,
    /// What is appended, still without the iteration.
    batch: Batch,
}

impl Plan {
    /// Refuses what the store would refuse, before images are kept for nothing. A retry of something that was recorded
    /// is let through: the store knows its answer.
    fn refuse_early(&self, tracker: &Tracker, request: &RecordRequest) -> Result<(), Error> {
        let Some(head) = &self.head else { return Ok(()) };
        let actual = head.last_index.map_or(0, |last| last.saturating_add(1));
        let refusal = match self.batch.expected_iterations {
            _ if head.archived => Refusal::Archived(head.id),
            Some(expected) if expected != actual => Refusal::Count { id: head.id, expected, actual },
            _ => return Ok(()),
        };
        if tracker.key_seen(head.id, request.idempotency_key.as_deref())? { Ok(()) } else { Err(refusal.into()) }
    }
}

impl RecordRequest {
    /// The iteration this asks for, still without images and parent.
    fn iteration(&self, now: Timestamp) -> Result<Iteration, Error> {
        Ok(Iteration {
            created_at: self.created_at.as_deref().map_or(Ok(now), |text| created_at(text, now))?,
            recipe: Recipe {
                prompt: self.prompt.clone(),
                prompt_sent: self.prompt_sent.clone(),
                negative_prompt: self.negative_prompt.clone(),
                model: self.model.clone(),
                model_hash: self.model_hash.clone(),
                seed: self.seed,
                steps: self.steps,
                guidance_scale: self.guidance_scale,
                sampler: self.sampler.clone(),
                scheduler: self.scheduler.clone(),
                width: self.width,
                height: self.height,
                denoise: self.denoise,
                loras: self.loras.clone(),
                provider: self.provider.clone(),
                parameters: self.parameters.clone(),
            },
            outcome: Outcome {
                status: self.outcome.unwrap_or_default(),
                message: self.message.clone(),
                generation_time_ms: self.generation_time_ms,
                cost: self.cost.clone(),
            },
            images: Vec::new(),
            parent: None,
            parent_reason: None,
            likely_parent: None,
        })
    }

    /// What starts the session, or gives it another title or project where those differ.
    fn naming(&self, head: Option<&Head>) -> Option<Draft> {
        let Some(head) = head else {
            return Some(Draft::Start { title: self.title.clone(), project: self.project.clone() });
        };
        let title = self.title.clone().filter(|_| self.title != head.title);
        let project = self.project.clone().filter(|_| self.project != head.project);
        (title.is_some() || project.is_some()).then_some(Draft::Title { title, project })
    }

    /// Whether these events, written under the same key, are what this request asks for.
    fn is_repeated_by(&self, events: &[Event], wanted: &Iteration) -> bool {
        let started = events.iter().any(|event| matches!(event.body, EventBody::Started { .. }));
        let hashes = |iteration: &Iteration| iteration.images.iter().map(|image| image.hash).collect::<Vec<_>>();
        started == self.session_id.is_none()
            && events.iter().any(|event| match &event.body {
                EventBody::Recorded { iteration, .. } => {
                    iteration.recipe == wanted.recipe
                        && iteration.outcome == wanted.outcome
                        && hashes(iteration) == hashes(wanted)
                        && (wanted.parent.is_none() || iteration.parent == wanted.parent)
                        && (self.created_at.is_none() || iteration.created_at == wanted.created_at)
                }
                _ => false,
            })
    }
}

fn created_at(text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let time: Timestamp = text.parse().map_err(|error: crate::model::time::ParseTimeError| {
        Error::invalid(
            format!("createdAt: {error}"),
            "write it with a date, a time and Z or an offset, or leave it out",
        )
    })?;
    if time > now.plus_millis(MAX_AHEAD_MILLIS) {
        return Err(Error::invalid(
            format!("createdAt is {time}, which is more than a day ahead of now, {now}"),
            "give the time the picture was made, or leave it out",
        ));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_contract_is_read_and_no_other() {
        let json = serde_json::json!({
            "prompt": "a cat", "sessionId": "session-2025-12-11-001", "parent": "latest", "promptSent": "a cat, 8k",
            "negativePrompt": "dog", "model": "flux", "modelHash": "abc", "seed": "18446744073709551615", "steps": 20,
            "guidanceScale": 7.5, "sampler": "euler", "scheduler": "karras", "width": 512, "height": 768, "denoise": 0.5,
            "loras": [{"name": "detail", "weight": 0.8}], "provider": "comfyui", "parameters": {"b": 1, "a": [2.0]},
            "outcome": "failed", "message": "out of memory", "generationTimeMs": 1234,
            "cost": {"amount": 0.04, "currency": "USD"}, "createdAt": "2025-12-11T14:45:22.456Z",
            "images": ["a.png", {"path": "b.png"}, {"data": "aGk=", "mimeType": "image/png"}],
            "title": "Cats", "project": "zoo", "expectedIterationCount": 3, "idempotencyKey": "k",
        });
        let request: RecordRequest = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&request).unwrap(), json);
        let error = serde_json::from_str::<RecordRequest>(r#"{"prompt":"a","cfg":7}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `cfg`"), "{error}");
        assert!(serde_json::from_str::<RecordRequest>("{}").is_err(), "a prompt is needed");
    }

    #[test]
    fn relative_paths_are_anchored() {
        let dir = tempfile::tempdir().unwrap();
        let absolute = dir.path().join("b.png").to_string_lossy().into_owned();
        let mut request = RecordRequest {
            images: vec![ImageInput::Path("a.png".to_owned()), ImageInput::Path(absolute.clone())],
            ..RecordRequest::default()
        };
        request.anchor(dir.path());
        let first = dir.path().join("a.png").to_string_lossy().into_owned();
        assert_eq!(request.images, [ImageInput::Path(first), ImageInput::Path(absolute)]);
    }

    #[test]
    fn a_picture_is_not_from_the_future() {
        let now: Timestamp = "2025-12-11T14:00:00.000Z".parse().unwrap();
        assert!(created_at("2025-12-12T13:59:59Z", now).is_ok(), "clocks differ");
        assert!(created_at("1999-01-01T00:00:00Z", now).is_ok(), "work brought in");
        assert!(created_at("2025-12-12T14:00:01Z", now).unwrap_err().message.contains("more than a day ahead"));
        assert!(created_at("yesterday", now).unwrap_err().message.starts_with("createdAt: \"yesterday\""));
    }
}
