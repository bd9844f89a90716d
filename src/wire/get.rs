//! `get-iteration`: returns one iteration with everything known about it.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Actor, Cost, ExactReference, IterationId, IterationState, LikelyParent, Outcome, OutcomeStatus, Recipe, SessionId,
    Timestamp,
};

use super::limits::{self, Limits, Truncator};
use super::{AnnotationView, Api, Error, ImageView, SessionRow, parse_reference};

/// The iteration to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetRequest {
    /// The iteration: `session-2025-12-11-001#3`, `session-2025-12-11-001` (its last), `latest` (the last of the most
    /// recent session), or `#3`, `#first`, `#latest` of the most recent session. `/1` after any of them names its second
    /// image.
    pub reference: String,
    /// Whether to send an image too, as a thumbnail of at most 512 pixels. It is sent anyway if one is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_image: bool,
    /// Which of its images to send, from 0; by default the one that `reference` names, or the first.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    pub image: Option<u32>,
}

/// One iteration with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IterationView {
    /// Its reference, exact: `session-2025-12-11-001#3`.
    pub reference: IterationId,
    /// Its session.
    pub session_id: SessionId,
    /// Its index there, from 0.
    pub index: u32,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// When it was recorded, which for imported work is later (UTC).
    pub recorded_at: Timestamp,
    /// Who recorded it.
    pub recorded_by: Actor,
    /// The outcome.
    pub outcome: OutcomeView,
    /// Everything needed to make it again.
    pub recipe: RecipeView,
    /// The iteration it was derived from, in any session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<IterationId>,
    /// The evidence for the parent, if it was inferred rather than given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_reason: Option<String>,
    /// The iteration it may have been derived from, if the evidence is weak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely_parent: Option<LikelyParent>,
    /// The iterations derived from it, in any session.
    pub children: Vec<IterationId>,
    /// The rating, tags and note.
    pub annotations: AnnotationView,
    /// Its images.
    pub images: Vec<ImageView>,
    /// The row of its session, with title, project and whether it is archived.
    pub session: SessionRow,
    /// The fields that were truncated to keep this reply small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    /// Whether it succeeded.
    pub status: OutcomeStatus,
    /// The provider's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The duration in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation_time_ms: Option<u64>,
    /// The cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// A recipe, without what was omitted to keep the reply small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecipeView {
    /// The recipe.
    #[serde(flatten)]
    pub recipe: Recipe,
    /// Present if `parameters` was omitted because it is large: its size as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters_omitted_bytes: Option<u64>,
}

impl Api<'_> {
    /// Returns one iteration with everything known about it.
    pub fn get(&self, request: &GetRequest) -> Result<IterationView, Error> {
        let mut reference = parse_reference(&request.reference)?;
        reference.image = request.image.or(reference.image);
        self.iteration_of(self.workspace.resolve_exactly(reference)?)
    }

    /// Returns the image to send with the reply; `None` if none is requested or the iteration has none.
    pub(super) fn image_to_send(&self, request: &GetRequest) -> Result<Option<ImageView>, Error> {
        let mut reference = parse_reference(&request.reference)?;
        reference.image = request.image.or(reference.image);
        if reference.image.is_none() && !request.include_image {
            return Ok(None);
        }
        let reference = self.workspace.resolve_exactly(reference)?;
        let images = self.workspace.brief_state(reference.iteration)?.iteration.images;
        Ok(self.image_of(reference, &images))
    }

    /// Returns one iteration by its id.
    pub fn iteration(&self, id: IterationId) -> Result<IterationView, Error> {
        self.iteration_of(id.into())
    }

    /// Returns one iteration, with the recipe of one of its images if one is named.
    fn iteration_of(&self, ExactReference { iteration: id, image }: ExactReference) -> Result<IterationView, Error> {
        let IterationState { iteration, recorded_at, recorded_by, annotation } = self.workspace.state(id)?;
        let recipe = image.map_or_else(|| iteration.recipe.clone(), |image| iteration.recipe_of(image));
        let mut view = IterationView {
            reference: id,
            session_id: id.session,
            index: id.index,
            timestamp: iteration.created_at,
            recorded_at,
            recorded_by,
            outcome: iteration.outcome.into(),
            recipe: RecipeView { recipe, parameters_omitted_bytes: None },
            parent: iteration.parent,
            parent_reason: iteration.parent_reason,
            likely_parent: iteration.likely_parent,
            children: self.workspace.children(id)?,
            annotations: annotation.into(),
            images: self.image_views(id, &iteration.images),
            session: self.row(&self.workspace.summary(id.session)?)?,
            truncated: Vec::new(),
        };
        if view.images.len() < iteration.images.len() {
            view.truncated.push("images".to_owned());
        }
        view.fit(self.reply_bytes);
        Ok(view)
    }
}

impl From<Outcome> for OutcomeView {
    fn from(outcome: Outcome) -> OutcomeView {
        let Outcome { status, message, generation_time_ms, cost } = outcome;
        OutcomeView { status, message, generation_time_ms, cost }
    }
}

/// The size above which parameters are omitted before any text is truncated.
const LARGE_PARAMETERS: usize = 8000;

impl IterationView {
    /// Truncates the longest parts step by step until the reply fits, which it always does after the last step.
    fn fit(&mut self, reply_bytes: usize) {
        if self.fits(reply_bytes) {
            return;
        }
        self.recipe.omit_large_parameters();
        for (step, limits) in Limits::STEPS.iter().enumerate() {
            if self.fits(reply_bytes) {
                return;
            }
            if step == 2 {
                self.recipe.omit_parameters();
            }
            self.cut(limits);
        }
    }

    fn fits(&self, reply_bytes: usize) -> bool {
        limits::json_bytes(self) <= reply_bytes
    }

    fn cut(&mut self, limits: &Limits) {
        self.recipe.cut("recipe.", limits, &mut self.truncated);
        let mut cut = Truncator { truncated: &mut self.truncated };
        cut.text("outcome.message", self.outcome.message.as_mut(), limits.text);
        cut.text("outcome.cost", self.outcome.cost.as_mut().map(|cost| &mut cost.currency), limits.name);
        cut.text("recordedBy", Some(&mut self.recorded_by.client), limits.name);
        cut.text("recordedBy", Some(&mut self.recorded_by.user), limits.name);
        cut.list("children", &mut self.children, limits.list);
        cut.list("images", &mut self.images, limits.list);
        self.annotations.cut("annotations.", limits, &mut self.truncated);
    }
}

impl RecipeView {
    /// Omits `parameters` if they are large.
    pub(super) fn omit_large_parameters(&mut self) {
        if limits::json_bytes(&self.recipe.parameters) > LARGE_PARAMETERS {
            self.omit_parameters();
        }
    }

    /// Omits `parameters` and records their size.
    pub(super) fn omit_parameters(&mut self) {
        let parameters = std::mem::take(&mut self.recipe.parameters);
        if !parameters.is_empty() {
            self.parameters_omitted_bytes = u64::try_from(limits::json_bytes(&parameters)).ok();
        }
    }

    /// Truncates everything else, and adds the names of truncated fields to `truncated`, each after `prefix`.
    pub(super) fn cut(&mut self, prefix: &str, limits: &Limits, truncated: &mut Vec<String>) {
        let recipe = &mut self.recipe;
        let mut cut = Truncator { truncated };
        cut.text(&format!("{prefix}prompt"), Some(&mut recipe.prompt), limits.text);
        for (field, text) in recipe.texts_mut() {
            let most = if field.is_parameter() { limits.name } else { limits.text };
            cut.text(&format!("{prefix}{}", field.key), Some(text), most);
        }
        let loras = format!("{prefix}loras");
        cut.list(&loras, &mut recipe.loras, limits.list);
        for lora in &mut recipe.loras {
            cut.text(&loras, Some(&mut lora.name), limits.name);
            if !lora.extra.is_empty() && limits::json_bytes(&lora.extra) > limits.name {
                lora.extra.clear();
                cut.note(&loras);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{DEFAULT_REPLY_BYTES, MAX_REPLY_BYTES};
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
    fn what_fits_is_unchanged() {
        let mut view = plain();
        view.fit(MAX_REPLY_BYTES);
        assert_eq!(view, plain());
        let json = serde_json::to_string(&view).unwrap();
        assert!(json.contains(r#""recipe":{"prompt":"a cat","seed":"7","parameters":{"clipSkip":2}}"#), "{json}");
        assert_eq!(serde_json::from_str::<IterationView>(&json).unwrap(), view);
    }

    #[test]
    fn large_parameters_are_omitted_first() {
        let mut view = plain();
        view.recipe.recipe.parameters.insert("workflow".to_owned(), "x".repeat(1_000_000).into());
        view.fit(MAX_REPLY_BYTES);
        assert_eq!(view.recipe.parameters_omitted_bytes, Some(1_000_028));
        assert!(view.recipe.recipe.parameters.is_empty());
        assert_eq!(view.truncated, Vec::<String>::new());
    }

    #[test]
    fn a_long_prompt_does_not_cost_the_parameters() {
        let mut view = plain();
        view.recipe.recipe.prompt = "x".repeat(100_000);
        view.fit(MAX_REPLY_BYTES);
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
        recipe.loras = vec![Lora::new(name.clone(), 0.123_456_789).with("hash", "\"".repeat(400)); 64];
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
                path: None,
                missing: true,
            })
            .collect();
        view.fit(DEFAULT_REPLY_BYTES);
        assert!(view.fits(DEFAULT_REPLY_BYTES), "{}", limits::json_bytes(&view));
        assert!(view.truncated.contains(&"annotations.tags".to_owned()), "{:?}", view.truncated);
    }
}
