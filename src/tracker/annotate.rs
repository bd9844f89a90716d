//! `annotate`: rate, tag or note an iteration. Appended; the newest word counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::iteration::{MAX_NOTE_BYTES, check_count, check_name, check_text};
use crate::model::{Actor, Annotation, AnnotationChange, Draft, EventBody, IterationId};
use crate::store::Target;

use super::fit::{self, Cuts, Cutting, MAX_ANSWER_BYTES};
use super::{Error, Tracker, lookup};

/// What to say of an iteration. What is left out stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnnotateRequest {
    /// The iteration, such as `session-2025-12-11-001#3` or `latest`.
    pub reference: String,
    /// 1 (worst) to 5 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub rating: Option<u8>,
    /// The tags it has from now on, replacing those it had; an empty list removes them. At most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The note it has from now on; an empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Any text that is unique to this change: asking again with the same one changes nothing twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// The newest word on an iteration; what was never said is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationView {
    /// 1 (worst) to 5 (best).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The annotations of an iteration as they stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationsView {
    /// The iteration.
    pub reference: IterationId,
    /// Its annotations now.
    pub annotations: AnnotationView,
    /// The fields that were cut short to keep this answer small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Tracker {
    /// Rates, tags or notes an iteration.
    pub fn annotate(&self, actor: &Actor, request: &AnnotateRequest) -> Result<AnnotationsView, Error> {
        let change = change(request)?;
        let id = self.resolve(&request.reference)?;
        lookup::iteration_of(Some(self.folded(id.session)?), id)?;

        let draft = Draft::Annotate { index: id.index, change: change.clone() };
        let key = request.idempotency_key.as_deref();
        let batch = self.batch(actor, key, Target::Existing(id.session), vec![draft])?;
        let key = batch.key.clone();
        let ack = self.store.append(batch)?;
        if ack.repeated {
            let wanted = EventBody::Annotated { index: id.index, change };
            self.check_repeated(&ack, &key, Some(id.session), |events| events.iter().any(|it| it.body == wanted))?;
        }

        let state = lookup::iteration_of(Some(self.folded(id.session)?), id)?;
        let mut view = AnnotationsView { reference: id, annotations: state.annotation.into(), truncated: Vec::new() };
        for cuts in &Cuts::STEPS {
            if fit::json_bytes(&view) <= MAX_ANSWER_BYTES {
                break;
            }
            view.annotations.cut("annotations.", cuts, &mut view.truncated);
        }
        Ok(view)
    }
}

impl AnnotationView {
    /// Leaves so much of everything, and names what was cut behind `prefix`.
    pub(super) fn cut(&mut self, prefix: &str, cuts: &Cuts, truncated: &mut Vec<String>) {
        let mut cut = Cutting { truncated };
        cut.text(&format!("{prefix}note"), self.note.as_mut(), cuts.text);
        cut.list(&format!("{prefix}tags"), &mut self.tags, cuts.list);
        for tag in &mut self.tags {
            cut.text(&format!("{prefix}tags"), Some(tag), cuts.name);
        }
    }
}

impl From<Annotation> for AnnotationView {
    fn from(annotation: Annotation) -> AnnotationView {
        let Annotation { rating, tags, note } = annotation;
        AnnotationView { rating, tags, note }
    }
}

fn change(request: &AnnotateRequest) -> Result<AnnotationChange, Error> {
    let AnnotateRequest { rating, tags, note, .. } = request;
    if rating.is_none() && tags.is_none() && note.is_none() {
        return Err(Error::invalid("there is nothing to annotate", "give a rating, tags or a note"));
    }
    if let Some(rating) = rating.filter(|rating| !(1..=5).contains(rating)) {
        return Err(Error::invalid(format!("rating is {rating}"), "give a whole number from 1 (worst) to 5 (best)"));
    }
    let mut distinct: Option<Vec<String>> = None;
    if let Some(tags) = tags {
        check_count("tags", tags.len())?;
        let distinct = distinct.insert(Vec::with_capacity(tags.len()));
        for tag in tags {
            check_name("tags", tag)?;
            if !distinct.contains(tag) {
                distinct.push(tag.clone());
            }
        }
    }
    if let Some(note) = note {
        check_text("note", note, MAX_NOTE_BYTES)?;
    }
    Ok(AnnotationChange { rating: *rating, tags: distinct, note: note.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> AnnotateRequest {
        AnnotateRequest { reference: "latest".to_owned(), ..AnnotateRequest::default() }
    }

    #[test]
    fn says_what_is_wrong() {
        let message = |request: AnnotateRequest| change(&request).unwrap_err().message;
        assert_eq!(message(request()), "there is nothing to annotate");
        assert_eq!(message(AnnotateRequest { rating: Some(0), ..request() }), "rating is 0");
        assert_eq!(message(AnnotateRequest { rating: Some(6), ..request() }), "rating is 6");
        let tags = |tags: Vec<String>| message(AnnotateRequest { tags: Some(tags), ..request() });
        assert_eq!(tags(vec![" ".to_owned()]), "tags is empty");
        assert_eq!(tags(vec!["a\nb".to_owned()]), "tags has a line break");
        assert_eq!(tags(vec!["a".to_owned(); 65]), "tags has 65 entries, and at most 64 are allowed");
        let note = message(AnnotateRequest { note: Some("x".repeat(MAX_NOTE_BYTES + 1)), ..request() });
        assert!(note.starts_with("note is 65537 bytes long"), "{note}");
    }

    #[test]
    fn a_tag_counts_once() {
        let tags = Some(["a", "b", "a"].map(str::to_owned).to_vec());
        let change = change(&AnnotateRequest { tags, ..request() }).unwrap();
        assert_eq!(change.tags.unwrap(), ["a", "b"]);
    }
}
