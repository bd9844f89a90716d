//! `get`: one iteration with everything that is known of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Actor, Cost, Event, EventBody, IterationId, IterationState, LikelyParent, Outcome, OutcomeStatus, Recipe, Session,
    SessionId, Timestamp,
};
use crate::store::Detail;

use super::fit::{self, Cuts, Cutting, MAX_ANSWER_BYTES};
use super::{AnnotationView, Error, ImageView, SessionRow, Tracker, lookup};

/// Which iteration to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetRequest {
    /// The iteration: `session-2025-12-11-001#3`, `session-2025-12-11-001` (its last), `latest` (the last of the most
    /// recent session), or `#3`, `#first`, `#latest` of the most recent session.
    pub reference: String,
    /// Whether to send the first picture too, as a thumbnail of at most 512 pixels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_image: bool,
}

/// One iteration with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationView {
    /// Its reference, exact: `session-2025-12-11-001#3`.
    pub reference: IterationId,
    /// Its session.
    pub session_id: SessionId,
    /// Its index there, from 0.
    pub index: u32,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// When it was recorded, which for work brought in is later (UTC).
    pub recorded_at: Timestamp,
    /// Who recorded it.
    pub recorded_by: Actor,
    /// What came of it.
    pub outcome: OutcomeView,
    /// All it takes to make it again.
    pub recipe: RecipeView,
    /// The iteration it came from, in any session; absent for one that came from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// Why that parent, when it was found by evidence rather than told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_reason: Option<String>,
    /// The iteration it may have come from, where the evidence is too weak to say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_parent: Option<LikelyParent>,
    /// The iterations that came from it, in any session.
    pub children: Vec<IterationId>,
    /// The newest rating, tags and note.
    pub annotations: AnnotationView,
    /// Its pictures.
    pub images: Vec<ImageView>,
    /// The row of its session, with title, project and whether it is archived.
    pub session: SessionRow,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    /// Whether it worked.
    pub status: OutcomeStatus,
    /// What the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// A recipe, and what was left out of it to keep the answer small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipeView {
    /// The recipe.
    #[serde(flatten)]
    pub recipe: Recipe,
    /// Present when `parameters` was left out because it is large: its size as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_omitted_bytes: Option<u64>,
}

impl Tracker {
    /// One iteration with everything that is known of it, cut to the size of an answer.
    pub fn get(&self, request: &GetRequest) -> Result<IterationView, Error> {
        let (id, state) = self.whole(&request.reference)?;
        let IterationState { iteration, recorded_at, recorded_by, annotation } = state;
        let mut view = IterationView {
            reference: id,
            session_id: id.session,
            index: id.index,
            timestamp: iteration.created_at,
            recorded_at,
            recorded_by,
            outcome: iteration.outcome.into(),
            recipe: RecipeView { recipe: iteration.recipe, parameters_omitted_bytes: None },
            parent: iteration.parent,
            parent_reason: iteration.parent_reason,
            likely_parent: iteration.likely_parent,
            children: self.log.children(id)?,
            annotations: annotation.into(),
            images: self.image_views(id, &iteration.images),
            session: SessionRow::new(&self.summary(id.session)?)?,
            truncated: Vec::new(),
        };
        if view.images.len() < iteration.images.len() {
            view.truncated.push("images".to_owned());
        }
        view.fit();
        Ok(view)
    }

    /// One iteration whole, however large its recipe is.
    pub fn whole(&self, reference: &str) -> Result<(IterationId, IterationState), Error> {
        let id = self.resolve(reference)?;
        // Only this iteration's parameters are read: those of a long session together can be larger than memory.
        let events = self.log.events(id.session, Detail::Brief)?;
        let recorded = |event: &&Event| matches!(event.body, EventBody::Recorded { index, .. } if index == id.index);
        let place = events.iter().find(recorded).map(|event| event.seq);
        let mut state = lookup::iteration_of(Session::fold(events), id)?;
        let whole = place.map(|seq| self.log.event(id.session, seq, Detail::Full)).transpose()?.flatten();
        if let Some(Event { body: EventBody::Recorded { iteration, .. }, .. }) = whole {
            state.iteration = *iteration;
        }
        state.iteration.images.iter().for_each(|image| self.images.remember(image));
        Ok((id, state))
    }
}

impl From<Outcome> for OutcomeView {
    fn from(outcome: Outcome) -> OutcomeView {
        let Outcome { status, message, generation_time_ms, cost } = outcome;
        OutcomeView { status, message, generation_time_ms, cost }
    }
}

/// Parameters larger than this are left out before any text is cut.
const LARGE_PARAMETERS: usize = 20_000;

impl IterationView {
    /// Cuts what is longest, a little more each time, until the answer fits; the last step always does.
    fn fit(&mut self) {
        if self.fits() {
            return;
        }
        self.recipe.omit_large_parameters();
        for (step, cuts) in Cuts::STEPS.iter().enumerate() {
            if self.fits() {
                return;
            }
            if step == 2 {
                self.recipe.omit_parameters();
            }
            self.cut(cuts);
        }
    }

    fn fits(&self) -> bool {
        fit::json_bytes(self) <= MAX_ANSWER_BYTES
    }

    fn cut(&mut self, cuts: &Cuts) {
        self.recipe.cut("recipe.", cuts, &mut self.truncated);
        let mut cut = Cutting { truncated: &mut self.truncated };
        cut.text("outcome.message", self.outcome.message.as_mut(), cuts.text);
        cut.text("outcome.cost", self.outcome.cost.as_mut().map(|cost| &mut cost.currency), cuts.name);
        cut.text("recordedBy", Some(&mut self.recorded_by.client), cuts.name);
        cut.text("recordedBy", Some(&mut self.recorded_by.user), cuts.name);
        cut.list("children", &mut self.children, cuts.list);
        cut.list("images", &mut self.images, cuts.list);
        self.annotations.cut("annotations.", cuts, &mut self.truncated);
    }
}

impl RecipeView {
    /// Leaves `parameters` out when they are large.
    pub(super) fn omit_large_parameters(&mut self) {
        if fit::json_bytes(&self.recipe.parameters) > LARGE_PARAMETERS {
            self.omit_parameters();
        }
    }

    /// Leaves `parameters` out, and says how large they are.
    pub(super) fn omit_parameters(&mut self) {
        let parameters = std::mem::take(&mut self.recipe.parameters);
        if !parameters.is_empty() {
            self.parameters_omitted_bytes = u64::try_from(fit::json_bytes(&parameters)).ok();
        }
    }

    /// Leaves so much of everything else, and names what was cut behind `prefix`.
    pub(super) fn cut(&mut self, prefix: &str, cuts: &Cuts, truncated: &mut Vec<String>) {
        let recipe = &mut self.recipe;
        let mut cut = Cutting { truncated };
        let texts = [
            ("prompt", Some(&mut recipe.prompt)),
            ("promptSent", recipe.prompt_sent.as_mut()),
            ("negativePrompt", recipe.negative_prompt.as_mut()),
        ];
        for (name, text) in texts {
            cut.text(&format!("{prefix}{name}"), text, cuts.text);
        }
        let names = [
            ("model", &mut recipe.model),
            ("modelHash", &mut recipe.model_hash),
            ("sampler", &mut recipe.sampler),
            ("scheduler", &mut recipe.scheduler),
            ("provider", &mut recipe.provider),
        ];
        for (name, text) in names {
            cut.text(&format!("{prefix}{name}"), text.as_mut(), cuts.name);
        }
        let loras = format!("{prefix}loras");
        cut.list(&loras, &mut recipe.loras, cuts.list);
        for lora in &mut recipe.loras {
            cut.text(&loras, Some(&mut lora.name), cuts.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::iteration::{MAX_NAME_BYTES, MAX_NOTE_BYTES, MAX_PROMPT_BYTES};
    use crate::model::{Hash, Lora};

    fn plain() -> IterationView {
        serde_json::from_value(serde_json::json!({
            "reference": "session-2025-12-11-001#3", "sessionId": "session-2025-12-11-001", "index": 3,
            "timestamp": "2025-12-11T14:45:22.456Z", "recordedAt": "2025-12-11T14:45:22.456Z",
            "recordedBy": {"client": "test", "user": "me"}, "outcome": {"status": "succeeded"},
            "recipe": {"prompt": "a cat", "seed": 7, "parameters": {"clipSkip": 2}},
            "children": [], "annotations": {}, "images": [],
            "session": {"id": "session-2025-12-11-001", "createdAt": "2025-12-11T14:45:22.456Z",
                "lastModifiedAt": "2025-12-11T14:45:22.456Z", "iterationCount": 4, "currentIterationIndex": 3},
        }))
        .unwrap()
    }

    #[test]
    fn what_fits_is_left_alone() {
        let mut view = plain();
        view.fit();
        assert_eq!(view, plain());
        let json = serde_json::to_string(&view).unwrap();
        assert!(json.contains(r#""recipe":{"prompt":"a cat","seed":"7","parameters":{"clipSkip":2}}"#), "{json}");
        assert_eq!(serde_json::from_str::<IterationView>(&json).unwrap(), view);
    }

    #[test]
    fn large_parameters_go_first_and_say_how_large() {
        let mut view = plain();
        view.recipe.recipe.parameters.insert("workflow".to_owned(), "x".repeat(1_000_000).into());
        view.fit();
        assert_eq!(view.recipe.parameters_omitted_bytes, Some(1_000_028));
        assert!(view.recipe.recipe.parameters.is_empty());
        assert_eq!(view.truncated, Vec::<String>::new());
    }

    #[test]
    fn a_long_prompt_does_not_cost_the_parameters() {
        let mut view = plain();
        view.recipe.recipe.prompt = "x".repeat(100_000);
        view.fit();
        assert_eq!(view.recipe.recipe.parameters.len(), 1);
        assert_eq!(view.truncated, ["recipe.prompt"]);
        assert!(view.recipe.recipe.prompt.len() > 15_000);
    }

    #[test]
    fn the_worst_that_can_be_recorded_fits() {
        let mut view = plain();
        let name = "\"".repeat(MAX_NAME_BYTES);
        let recipe = &mut view.recipe.recipe;
        recipe.prompt = "\"".repeat(MAX_PROMPT_BYTES);
        recipe.prompt_sent = Some("\n".repeat(MAX_PROMPT_BYTES));
        recipe.negative_prompt = Some("\\".repeat(MAX_PROMPT_BYTES));
        for field in [
            &mut recipe.model,
            &mut recipe.model_hash,
            &mut recipe.sampler,
            &mut recipe.scheduler,
            &mut recipe.provider,
        ] {
            *field = Some(name.clone());
        }
        recipe.loras = vec![Lora { name: name.clone(), weight: 0.123_456_789 }; 64];
        recipe.parameters.insert("a".to_owned(), "\"".repeat(19_000 / 2).into());
        view.outcome.message = Some("\t".repeat(MAX_NOTE_BYTES));
        view.annotations.note = Some("\"".repeat(MAX_NOTE_BYTES));
        view.annotations.tags = vec![name; 64];
        view.children = vec![view.reference; 5000];
        view.images = (0..64)
            .map(|n| ImageView {
                hash: Hash::NONE,
                mime_type: "application/octet-stream".to_owned(),
                bytes: u64::MAX,
                width: Some(u32::MAX),
                height: Some(u32::MAX),
                name: Some("\"".repeat(150)),
                uri: format!("retake://iterations/session-2025-12-11-001/3/image/{n}"),
                missing: true,
            })
            .collect();
        view.fit();
        assert!(view.fits(), "{}", fit::json_bytes(&view));
        assert!(view.truncated.contains(&"annotations.tags".to_owned()), "{:?}", view.truncated);
    }
}
