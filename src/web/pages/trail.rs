//! The trail of a session as sentences: "Ada rated #8 ★5, was ★4". Makes one pass over the events, oldest first,
//! tracking the previous state.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::diff::RecipeDiff;
use crate::model::{Annotation, AnnotationChange, Event, EventBody, EventKind, Hash, Iteration, OutcomeStatus};

use super::{changes, naming};
use crate::workspace::{REJECTED_TAG, image_rating, is_image_rating, rated_image};

/// An event as a sentence.
pub(super) struct TrailLine<'a> {
    pub(super) event: &'a Event,
    /// The predicate, which follows the actor's name.
    pub(super) did: String,
    pub(super) reason: Option<&'a str>,
    /// The iteration concerned.
    pub(super) index: Option<u32>,
    /// The image of that iteration.
    pub(super) image: Option<Hash>,
}

/// A filter for lines; an empty field matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) who: String,
    pub(super) kind: String,
    pub(super) image: Option<u32>,
}

impl Filter {
    /// Returns whether a line matches.
    pub(super) fn wants(&self, line: &TrailLine<'_>) -> bool {
        let kind = line.event.body.kind();
        (self.who.is_empty() || self.who == line.event.actor.user)
            && (self.kind.is_empty() || self.kind == kind.as_str())
            && (self.image.is_none() || self.image == line.index)
    }
}

/// Returns one line per event, oldest first.
pub(super) fn lines(events: &[Event]) -> Vec<TrailLine<'_>> {
    let mut iterations: BTreeMap<u32, &Iteration> = BTreeMap::new();
    let mut notes: BTreeMap<u32, Annotation> = BTreeMap::new();
    let mut lines = Vec::with_capacity(events.len());
    for event in events {
        let mut line = TrailLine { event, did: String::new(), reason: event.body.reason(), index: None, image: None };
        match &event.body {
            EventBody::Started { title, project } => {
                line.did = match (title, project) {
                    (None, None) => "started the session".to_owned(),
                    (Some(title), None) => format!("started “{title}”"),
                    (None, Some(project)) => format!("started a session of {project}"),
                    (Some(title), Some(project)) => format!("started “{title}” of {project}"),
                };
            }
            EventBody::Recorded { index, iteration } => {
                let parent = iteration.parent.filter(|parent| parent.session == event.session);
                let before = parent.and_then(|parent| iterations.get(&parent.index));
                line.did = recorded(*index, iteration, parent.map(|parent| parent.index), before.copied());
                (line.index, line.image) = (Some(*index), iteration.images.first().map(|image| image.hash));
                iterations.insert(*index, iteration);
            }
            EventBody::Annotated { index, change } => {
                let before = notes.entry(*index).or_default();
                line.did = annotated(*index, before, change);
                line.index = Some(*index);
                line.image = iterations.get(index).and_then(|it| it.images.first()).map(|image| image.hash);
                apply(before, change);
            }
            EventBody::Titled { title, project } => line.did = titled(title.as_deref(), project.as_deref()),
            EventBody::Archived { .. } => "archived the session".clone_into(&mut line.did),
            EventBody::Restored { .. } => "restored the session from the archive".clone_into(&mut line.did),
            EventBody::Lost(loss) => {
                let count = loss.seqs.len();
                line.did = format!("found {count} {} lost to damage", if count == 1 { "event" } else { "events" });
            }
            EventBody::Unknown { .. } => {
                "wrote an event that only a newer Retake understands".clone_into(&mut line.did);
            }
        }
        lines.push(line);
    }
    lines
}

/// Returns the name of an event kind in the filter.
pub(super) fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Started => "Started",
        EventKind::Recorded => "Iterations",
        EventKind::Annotated => "Ratings, tags and notes",
        EventKind::Titled => "Names",
        EventKind::Archived => "Archived",
        EventKind::Restored => "Restored",
        EventKind::Lost => "Losses",
        EventKind::Unknown => "Other",
    }
}

fn recorded(index: u32, iteration: &Iteration, parent: Option<u32>, before: Option<&Iteration>) -> String {
    let change =
        before.map(|before| changes::readable(&RecipeDiff::between(&before.recipe, &iteration.recipe).summary));
    let what = match (parent, change.filter(|change| !change.is_empty())) {
        (Some(parent), Some(change)) => format!("#{index} from #{parent}: {change}"),
        (Some(parent), None) => format!("#{index} from #{parent}"),
        (None, _) => format!("#{index}: {}", naming::described(iteration)),
    };
    let message = iteration.outcome.message.as_deref().map(|message| format!(" ({message})")).unwrap_or_default();
    match iteration.outcome.status {
        OutcomeStatus::Succeeded => format!("made {what}"),
        OutcomeStatus::Failed => format!("tried {what}, which failed{message}"),
        OutcomeStatus::Refused => format!("tried {what}, which was refused{message}"),
    }
}

fn annotated(index: u32, before: &Annotation, change: &AnnotationChange) -> String {
    let mut did = Vec::new();
    let was = before.rating.map(|rating| format!(", was ★{rating}")).unwrap_or_default();
    let of_images = rated_images(index, before, change);
    did.extend(of_images.iter().cloned());
    match change.rating.filter(|_| of_images.is_empty()) {
        Some(AnnotationChange::NO_RATING) => did.push(format!("cleared the rating of #{index}{was}")),
        Some(rating) if before.rating == Some(rating) => did.push(format!("rated #{index} ★{rating} again")),
        Some(rating) => did.push(format!("rated #{index} ★{rating}{was}")),
        None => {}
    }
    if let Some(tags) = &change.tags {
        let only = |tags: &[String], others: &[String]| -> Vec<String> {
            tags.iter().filter(|tag| !others.contains(tag) && !is_image_rating(tag)).cloned().collect()
        };
        let (mut added, mut removed) = (only(tags, &before.tags), only(&before.tags, tags));
        let unchanged = added.is_empty() && removed.is_empty();
        let take = |tags: &mut Vec<String>| {
            let found = tags.iter().position(|tag| tag == REJECTED_TAG);
            found.map(|at| tags.remove(at)).is_some()
        };
        if take(&mut added) {
            did.push(format!("rejected #{index}"));
        }
        if take(&mut removed) {
            did.push(format!("took back the rejection of #{index}"));
        }
        if !added.is_empty() {
            did.push(format!("tagged #{index} {}", added.join(", ")));
        }
        if !removed.is_empty() {
            did.push(format!("took the tag {} off #{index}", removed.join(", ")));
        }
        // A rating of an image in a batch is stored as tags, which are not mentioned separately.
        if unchanged && change.rating.is_none() {
            did.push(format!("kept the tags of #{index}"));
        }
    }
    match change.note.as_deref() {
        Some("") => did.push(format!("removed the note on #{index}")),
        Some(note) => did.push(format!("noted on #{index}: “{note}”")),
        None => {}
    }
    if did.is_empty() { format!("annotated #{index}") } else { did.join(", ") }
}

/// Returns the rating changes of single images in a batch.
fn rated_images(index: u32, before: &Annotation, change: &AnnotationChange) -> Vec<String> {
    let mut after = before.clone();
    apply(&mut after, change);
    let numbers: BTreeSet<usize> = before.tags.iter().chain(&after.tags).filter_map(|tag| rated_image(tag)).collect();
    let rating = |of: &Annotation, number: usize| image_rating(of.rating, &of.tags, number);
    let changed = numbers.into_iter().map(|number| (number, rating(before, number), rating(&after, number)));
    let worded = changed.filter(|(_, was, now)| was != now).map(|(number, was, now)| {
        let was = was.map(|rating| format!(", was ★{rating}")).unwrap_or_default();
        let image = format!("image {} of #{index}", number + 1);
        match now {
            Some(rating) => format!("rated {image} ★{rating}{was}"),
            None => format!("cleared the rating of {image}{was}"),
        }
    });
    worded.collect()
}

fn titled(title: Option<&str>, project: Option<&str>) -> String {
    let title = title.map(|title| match title {
        "" => "removed the title".to_owned(),
        title => format!("called it “{title}”"),
    });
    let project = project.map(|project| match project {
        "" => "took it out of its project".to_owned(),
        project => format!("put it into {project}"),
    });
    let did: Vec<String> = title.into_iter().chain(project).collect();
    if did.is_empty() { "named it".to_owned() } else { did.join(" and ") }
}

fn apply(annotation: &mut Annotation, change: &AnnotationChange) {
    if let Some(rating) = change.rating {
        annotation.rating = Some(rating).filter(|rating| *rating != AnnotationChange::NO_RATING);
    }
    if let Some(tags) = &change.tags {
        annotation.tags.clone_from(tags);
    }
    if let Some(note) = &change.note {
        annotation.note = Some(note.clone()).filter(|note| !note.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rating_shows_the_previous_value() {
        let mut before = Annotation::default();
        let rate = |rating| AnnotationChange { rating: Some(rating), tags: None, note: None };
        assert_eq!(annotated(8, &before, &rate(4)), "rated #8 ★4");
        apply(&mut before, &rate(4));
        assert_eq!(annotated(8, &before, &rate(5)), "rated #8 ★5, was ★4");
        assert_eq!(annotated(8, &before, &rate(0)), "cleared the rating of #8, was ★4");
        let tags = |tags: &[&str]| AnnotationChange {
            rating: None,
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
            note: Some("softer".to_owned()),
        };
        assert_eq!(annotated(8, &before, &tags(&["hero"])), "tagged #8 hero, noted on #8: “softer”");
        apply(&mut before, &tags(&["hero"]));
        assert_eq!(annotated(8, &before, &tags(&[])), "took the tag hero off #8, noted on #8: “softer”");
    }

    #[test]
    fn a_judgement_of_one_image_names_it() {
        let before = Annotation { rating: Some(3), tags: vec!["hero".to_owned()], note: None };
        let tags = ["hero", "image/0:3", "image/1:5"].map(str::to_owned).to_vec();
        let change = AnnotationChange { rating: Some(5), tags: Some(tags), note: None };
        assert_eq!(annotated(8, &before, &change), "rated image 2 of #8 ★5, was ★3");
    }

    #[test]
    fn titles_are_set_and_removed() {
        assert_eq!(titled(Some("Cats"), Some("zoo")), "called it “Cats” and put it into zoo");
        assert_eq!(titled(Some(""), None), "removed the title");
    }
}
