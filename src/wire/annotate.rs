//! `annotate-iteration`: sets the rating, tags or note of an iteration. Changes are appended; the latest wins.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{Annotation, AnnotationChange, IterationId};

use super::limits::{self, Limits, Truncator};
use super::{Api, Error};

/// A change to the annotation of an iteration. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotateRequest {
    /// The iteration, such as `session-2025-12-11-001#3` or `latest`; `…#3/1` rates only its second image.
    pub reference: String,
    /// The rating, from 1 (worst) to 5 (best); null removes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "rating_or_null")]
    #[schemars(range(min = 1, max = 5), extend("nullable" = true))]
    pub rating: Option<u8>,
    /// All tags, replacing the present ones; an empty list removes them. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Tags to add to the present ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_tags: Vec<String>,
    /// Tags to remove from the present ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_tags: Vec<String>,
    /// The note; an empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Idempotency key: a retry with the same key is applied only once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The annotation of an iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationView {
    /// The rating, from 1 (worst) to 5 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// The tags. `image/1:4` among them means that the second image is rated 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The annotations of an iteration as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationsView {
    /// The iteration.
    pub reference: IterationId,
    /// Its annotations now.
    pub annotations: AnnotationView,
    /// The fields that were truncated to keep this reply small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Api<'_> {
    /// Rates, tags or notes an iteration.
    pub fn annotate(&self, request: &AnnotateRequest) -> Result<AnnotationsView, Error> {
        let named = self.resolve_exactly(&request.reference)?;
        let id = named.iteration;
        let mut annotating = self.workspace.annotate(id).author(self.author(request.idempotency_key.as_ref()));
        if let Some(image) = named.image {
            annotating = annotating.image(image);
        }
        annotating = match request.rating {
            None => annotating,
            Some(AnnotationChange::NO_RATING) => annotating.clear_rating(),
            Some(rating) => annotating.rating(rating),
        };
        if let Some(tags) = &request.tags {
            annotating = annotating.tags(tags.clone());
        }
        for tag in &request.add_tags {
            annotating = annotating.tag(tag);
        }
        for tag in &request.remove_tags {
            annotating = annotating.remove_tag(tag);
        }
        if let Some(note) = &request.note {
            annotating = annotating.note(note);
        }
        let annotations = annotating.commit()?.into();
        let mut view = AnnotationsView { reference: id, annotations, truncated: Vec::new() };
        for limits in &Limits::STEPS {
            if limits::json_bytes(&view) <= self.reply_bytes {
                break;
            }
            view.annotations.cut("annotations.", limits, &mut view.truncated);
        }
        Ok(view)
    }
}

/// Deserialises a rating that is present in a request: null removes it.
fn rating_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    Ok(Some(optional_whole(deserializer)?.unwrap_or(AnnotationChange::NO_RATING)))
}

impl AnnotationView {
    /// Truncates everything, and adds the names of truncated fields to `truncated`, each after `prefix`.
    pub(super) fn cut(&mut self, prefix: &str, limits: &Limits, truncated: &mut Vec<String>) {
        let mut cut = Truncator { truncated };
        cut.text(&format!("{prefix}note"), self.note.as_mut(), limits.text);
        cut.list(&format!("{prefix}tags"), &mut self.tags, limits.list);
        for tag in &mut self.tags {
            cut.text(&format!("{prefix}tags"), Some(tag), limits.name);
        }
    }
}

impl From<Annotation> for AnnotationView {
    fn from(annotation: Annotation) -> AnnotationView {
        let Annotation { rating, tags, note } = annotation;
        AnnotationView { rating, tags, note }
    }
}
