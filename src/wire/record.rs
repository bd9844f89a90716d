//! `record-iteration`: records an iteration in a session, or as the first of a new one.

use std::path::Path;

use retake_recipe::fields::{optional, optional_whole};
use retake_recipe::for_each_recipe_field;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{Cost, IterationId, Lora, Outcome, OutcomeStatus, Recipe, Timestamp};
use crate::workspace::{ImageWarning, Recording};

use super::error::RequestError;
use super::image_input::{self, ImageInput};
use super::image_recipe;
use super::{Api, Error, SessionRow};

macro_rules! declare_request {
    ({} $($(#[$doc:meta])* $name:ident: $type:ty, $set:ty, $kind:ident $(($($bound:expr),*))?,
        $key:literal, $flag:literal, [$($alias:literal),*], $value:literal, $label:literal, $short:literal;)*) => {
        /// An iteration to record.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct RecordRequest {
            /// The prompt exactly as typed. Required unless `like` or the metadata of an image provides it.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub prompt: String,
            /// The session to add to, such as `session-2025-12-11-001` or `latest`. Leave it out to start a new session.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
            /// The iteration it was derived from, in any session, as a reference such as `session-2025-12-11-001#3`; by
            /// default the previous one of the session. To go back to an earlier attempt, name that one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub parent: Option<String>,
            /// An iteration, as a reference, whose recipe fills in what is left out here and is not in the image's metadata.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub like: Option<String>,
            $(
                $(#[$doc])*
                #[serde(default, rename = $key, skip_serializing_if = "Option::is_none", deserialize_with = "optional")]
                pub $name: Option<$type>,
            )*
            /// The LoRAs with their weights, in the order in which they were applied:
            /// `[{"name": "detail", "weight": 0.8}]`.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub loras: Vec<Lora>,
            /// Every other parameter, kept verbatim.
            #[serde(default, skip_serializing_if = "Map::is_empty")]
            pub parameters: Map<String, Value>,
            /// The outcome: `succeeded` (the default), `failed` or `refused`. Record failures too.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub outcome: Option<OutcomeStatus>,
            /// The provider's message, mostly if it failed or refused.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub message: Option<String>,
            /// The duration in milliseconds.
            #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
            pub generation_time_ms: Option<u64>,
            /// The cost: `{"amount": 0.04, "currency": "USD"}`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cost: Option<Cost>,
            /// When the image was made, such as `2025-12-11T14:45:22.456Z`; by default now. A new session's id gets this
            /// day.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub created_at: Option<String>,
            /// Its images: each a path or `file://` URI (over stdio only), `{"path": …}`, or
            /// `{"data": base64, "mimeType": …}`. The bytes are copied; only image and video files are taken. Recipe fields that are left
            /// out are read from their metadata if its prompt agrees with `prompt`.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub images: Vec<ImageInput>,
            /// A title for the session; an existing session is renamed.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub title: Option<String>,
            /// The project that the session belongs to; an existing session is moved there.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub project: Option<String>,
            /// How many iterations you believe the session has: refused if another writer has added to it since.
            #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
            pub expected_iteration_count: Option<u32>,
            /// Idempotency key: a retry with the same key is recorded only once.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub idempotency_key: Option<String>,
        }

        impl RecordRequest {
            /// Returns the recipe, with missing fields filled in from `like`.
            pub(super) fn recipe(&self, like: Option<Recipe>) -> Recipe {
                let mut like = like.unwrap_or_default();
                if self.changes_graph(&like) {
                    like.parameters.retain(|name, value| !is_graph(name, value));
                }
                Recipe {
                    prompt: if self.prompt.is_empty() { like.prompt } else { self.prompt.clone() },
                    $($name: self.$name.clone().or(like.$name),)*
                    loras: if self.loras.is_empty() { like.loras } else { self.loras.clone() },
                    parameters: if self.parameters.is_empty() { like.parameters } else { self.parameters.clone() },
                }
            }

            /// Returns whether a field differs from the earlier recipe, so that its graph no longer describes this one.
            fn changes_graph(&self, like: &Recipe) -> bool {
                (!self.prompt.is_empty() && self.prompt != like.prompt)
                    || (!self.loras.is_empty() && self.loras != like.loras)
                    $(|| (self.$name.is_some() && self.$name != like.$name))*
            }
        }

        impl From<Recipe> for RecordRequest {
            fn from(recipe: Recipe) -> RecordRequest {
                RecordRequest {
                    prompt: recipe.prompt,
                    $($name: recipe.$name,)*
                    loras: recipe.loras,
                    parameters: recipe.parameters,
                    ..RecordRequest::default()
                }
            }
        }
    };
}

for_each_recipe_field!(declare_request {});

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recorded {
    /// The new iteration.
    pub reference: IterationId,
    /// The row of its session as it is now.
    pub session: SessionRow,
    /// What is unusual: a truncated image, the same bytes as another iteration's, or metadata with another prompt. It is
    /// recorded all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The fields that were left out and read from the metadata of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_from_image: Vec<String>,
}

impl RecordRequest {
    /// Makes relative image paths absolute, so that they do not depend on the working directory.
    pub fn anchor(&mut self, dir: &Path) {
        self.images.iter_mut().for_each(|image| image.anchor(dir));
    }
}

/// Returns whether a parameter is the graph of ComfyUI, which holds the whole recipe once more.
fn is_graph(name: &str, value: &Value) -> bool {
    matches!(name, "prompt" | "workflow" | "extra_pnginfo") && !matches!(value, Value::Bool(_) | Value::Number(_))
}

impl Api<'_> {
    /// Returns the recipe of an iteration, or of the image that the reference names.
    fn recipe_of(&self, reference: &str) -> Result<Recipe, Error> {
        let reference = self.resolve_exactly(reference)?;
        Ok(self.workspace.state(reference.iteration)?.iteration.recipe_of(reference.image_number()))
    }

    /// Records an iteration. When this returns, it and its images are durable.
    pub fn record(&self, request: &RecordRequest) -> Result<Recorded, Error> {
        let like = request.like.as_deref().map(|like| self.recipe_of(like)).transpose()?;
        let images = image_input::sources(&request.images)?;
        let completed = image_recipe::complete(request, like, &images)?;
        let mut recording = match &request.session_id {
            Some(id) => Recording::new(self.workspace, Some(self.session_id(id)?), completed.recipe),
            None => Recording::new(self.workspace, None, completed.recipe),
        };
        recording = recording.author(self.author(request.idempotency_key.as_ref())).outcome(Outcome {
            status: request.outcome.unwrap_or_default(),
            message: request.message.clone(),
            generation_time_ms: request.generation_time_ms,
            cost: request.cost.clone(),
        });
        if let Some(time) = &request.created_at {
            recording = recording.created_at(created_at(time)?);
        }
        if let Some(title) = &request.title {
            recording = recording.title(title);
        }
        if let Some(project) = &request.project {
            recording = recording.project(project);
        }
        if let Some(count) = request.expected_iteration_count {
            recording = recording.expect_iterations(count);
        }
        if let Some(parent) = &request.parent {
            recording = recording.parent(self.resolve(parent)?);
        }
        let recorded = recording.images(images).commit()?;
        let reference = recorded.id();
        let warnings = self.workspace.image_warnings(reference).into_iter().map(|(number, warning)| match warning {
            ImageWarning::Defect(defect) => format!("{reference}/{number}: {defect}"),
            ImageWarning::SameBytes(other) => format!("{reference}/{number}: the same bytes as {other}"),
        });
        let mut warnings: Vec<String> = if request.images.is_empty() { Vec::new() } else { warnings.collect() };
        warnings.extend(completed.other_prompt.map(|number| {
            format!("{reference}/{number}: its metadata has another prompt, so no recipe field was read from it")
        }));
        let session = self.row(recorded.session_summary())?;
        Ok(Recorded { reference, session, warnings, read_from_image: completed.read })
    }
}

fn created_at(text: &str) -> Result<Timestamp, Error> {
    text.parse().map_err(|error: crate::model::time::ParseTimeError| {
        let hint = "write it with a date, a time and Z or an offset, or leave it out".to_owned();
        RequestError::Field { field: "createdAt", problem: format!("is invalid: {error}"), hint }.into()
    })
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
    fn an_invalid_time_names_its_field() {
        assert!(created_at("yesterday").unwrap_err().message.starts_with("createdAt is invalid: \"yesterday\""));
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let mut like = Recipe::new("a cat").model("sdxl").seed(42).steps(30);
        like.parameters.insert("prompt".to_owned(), serde_json::json!({ "3": { "class_type": "KSampler" } }));
        like.parameters.insert("clip_skip".to_owned(), 2.into());
        let request = RecordRequest::default();
        assert_eq!(request.recipe(Some(like.clone())), like, "everything is the same, so the graph is too");
        let request = RecordRequest { seed: Some(crate::model::Seed(43)), ..RecordRequest::default() };
        let names: Vec<String> = request.recipe(Some(like.clone())).parameters.keys().cloned().collect();
        assert_eq!(names, ["clip_skip"], "a graph with another seed would contradict the recipe");
        like.parameters.shift_remove("prompt");
        let request = RecordRequest { seed: Some(43.into()), ..RecordRequest::default() };
        assert_eq!(request.recipe(Some(like.clone())), like.clone().seed(43));
        let request = RecordRequest { prompt: "a dog".to_owned(), ..RecordRequest::default() };
        assert_eq!(request.recipe(Some(like.clone())), like.with_prompt("a dog"));
        assert_eq!(RecordRequest::from(like.clone()).recipe(None), like);
    }
}
