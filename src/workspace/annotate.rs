//! Annotating: sets the rating, tags or note of an iteration. Changes are appended; the latest wins.

use crate::model::iteration::{MAX_NOTE_BYTES, check_count, check_name, check_text};
use crate::model::{Actor, Annotation, AnnotationChange, Draft, EventBody, IterationId};
use crate::store::Target;

use super::image_rating::{is_image_rating, with_image_rating, without_image_ratings};
use super::writing::Author;
use super::{Error, Workspace};

/// A change to an iteration's annotation, written by [`commit`](Annotating::commit). Fields that are not set stay
/// unchanged.
#[must_use = "nothing is written before `commit`"]
pub struct Annotating<'a> {
    workspace: &'a Workspace,
    id: IterationId,
    image: Option<u32>,
    rating: Option<u8>,
    clears_rating: bool,
    tags: Option<Vec<String>>,
    add_tags: Vec<String>,
    remove_tags: Vec<String>,
    note: Option<String>,
    author: Author,
}

impl Workspace {
    /// Prepares a change to the rating, tags or note of an iteration.
    pub fn annotate(&self, id: IterationId) -> Annotating<'_> {
        Annotating {
            workspace: self,
            id,
            image: None,
            rating: None,
            clears_rating: false,
            tags: None,
            add_tags: Vec::new(),
            remove_tags: Vec::new(),
            note: None,
            author: Author::default(),
        }
    }
}

impl<'a> Annotating<'a> {
    /// Rates only this image of the iteration, numbered from 0. The iteration's rating is the best of its images.
    pub fn image(mut self, image: u32) -> Annotating<'a> {
        self.image = Some(image);
        self
    }

    /// Sets the rating, from 1 (worst) to 5 (best).
    pub fn rating(mut self, rating: u8) -> Annotating<'a> {
        (self.rating, self.clears_rating) = (Some(rating), false);
        self
    }

    /// Removes the rating.
    pub fn clear_rating(mut self) -> Annotating<'a> {
        self.rating = None;
        self.clears_rating = true;
        self
    }

    /// Replaces all tags; an empty list removes them.
    pub fn tags(mut self, tags: Vec<String>) -> Annotating<'a> {
        self.tags = Some(tags);
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Annotating<'a> {
        self.add_tags.push(tag.into());
        self
    }

    /// Removes a tag, if present.
    pub fn remove_tag(mut self, tag: impl Into<String>) -> Annotating<'a> {
        self.remove_tags.push(tag.into());
        self
    }

    /// Sets the note; an empty text removes it.
    pub fn note(mut self, note: impl Into<String>) -> Annotating<'a> {
        self.note = Some(note.into());
        self
    }

    /// Sets the idempotency key: a retry with the same key is applied only once.
    pub fn key(mut self, key: impl Into<String>) -> Annotating<'a> {
        self.author.key = Some(key.into());
        self
    }

    /// Sets the actor; by default the one the workspace was opened with.
    pub fn actor(mut self, actor: &Actor) -> Annotating<'a> {
        self.author.actor = Some(actor.clone());
        self
    }

    /// Sets the actor and the idempotency key.
    #[cfg(feature = "mcp")]
    pub(crate) fn author(mut self, author: Author) -> Annotating<'a> {
        self.author = author;
        self
    }

    /// Writes the change and returns the current annotation. Writes nothing if there is no change.
    pub fn commit(self) -> Result<Annotation, Error> {
        let Annotating { workspace, id, .. } = self;
        self.check()?;
        let state = workspace.brief_state(id)?;
        let before = state.annotation;
        let change = self.change(&before, state.iteration.images.len())?;
        let draft = Draft::Annotate { index: id.index, change: change.clone() };
        // A key that was used before is passed to the log, which distinguishes a retry from another request.
        let is_retry = workspace.has_key(id.session, self.author.key.as_deref())?;
        let batch = workspace.batch(self.author, Target::Existing(id.session), vec![draft])?;
        if !is_retry && changes_nothing(&before, &change) {
            return Ok(before);
        }
        let key = batch.key.clone();
        let ack = workspace.log.append(batch)?;
        if ack.repeated {
            let wanted = EventBody::Annotated { index: id.index, change };
            let is_same = |events: &[crate::model::Event]| events.iter().any(|event| event.body == wanted);
            workspace.check_repeated(&ack, &key, Some(id.session), is_same)?;
        }
        Ok(workspace.brief_state(id)?.annotation)
    }

    fn check(&self) -> Result<(), Error> {
        let changes_tags = self.tags.is_some() || !self.add_tags.is_empty() || !self.remove_tags.is_empty();
        if self.rating.is_none() && !self.clears_rating && !changes_tags && self.note.is_none() {
            return Err(Error::NothingToAnnotate);
        }
        if let Some(rating) = self.rating.filter(|rating| !(1..=5).contains(rating)) {
            return Err(Error::InvalidField {
                field: "rating",
                problem: format!("is {rating}: expected a whole number from 1 (worst) to 5 (best)"),
                hint: "correct it, or leave it out".to_owned(),
            });
        }
        if let Some(tag) = self.add_tags.iter().find(|tag| is_image_rating(tag)) {
            return Err(Error::InvalidField {
                field: "addTags",
                problem: format!("contains {tag:?}, which is reserved for the rating of an image"),
                hint: "rate the image instead: pass its reference, such as session-2025-12-11-001#3/1".to_owned(),
            });
        }
        let (tags, add, remove) = (self.tags.iter().flatten(), self.add_tags.iter(), self.remove_tags.iter());
        check_count("tags", tags.clone().chain(add.clone()).count())?;
        let named = tags.map(|tag| ("tags[]", tag));
        let named = named.chain(add.map(|tag| ("addTags[]", tag))).chain(remove.map(|tag| ("removeTags[]", tag)));
        for (field, tag) in named {
            check_name(field, tag)?;
        }
        if let Some(note) = &self.note {
            check_text("note", note, MAX_NOTE_BYTES)?;
        }
        Ok(())
    }

    /// Returns the change as recorded in the event, with the complete new list of tags.
    fn change(&self, before: &Annotation, images: usize) -> Result<AnnotationChange, Error> {
        let rates = self.rating.is_some() || self.clears_rating;
        let (rating, rated_tags) = match self.image.filter(|_| rates) {
            Some(image) => {
                let number = usize::try_from(image).ok().filter(|number| *number < images);
                let number = number.ok_or(Error::ImageNotFound { iteration: self.id, number: image, count: images })?;
                with_image_rating(before, images, number, self.rating)
            }
            None if rates => (self.rating, without_image_ratings(&before.tags)),
            None => (before.rating, before.tags.clone()),
        };
        let changes_tags = self.tags.is_some() || !self.add_tags.is_empty() || !self.remove_tags.is_empty();
        // Tags are compared case-insensitively.
        let is_removed =
            |tag: &str| self.remove_tags.iter().any(|removed| removed.to_lowercase() == tag.to_lowercase());
        // For a batch, tags are always included, since a retry must contain the same as the first attempt.
        let tags = (changes_tags || (rates && images > 1)).then(|| {
            let plain = without_image_ratings(self.tags.as_ref().unwrap_or(&rated_tags));
            let mut distinct: Vec<String> = Vec::new();
            for tag in plain.iter().chain(&self.add_tags) {
                if !distinct.contains(tag) && !is_removed(tag) {
                    distinct.push(tag.clone());
                }
            }
            // Ratings of images can only be changed by rating.
            distinct.extend(rated_tags.iter().filter(|tag| is_image_rating(tag)).cloned());
            distinct
        });
        let rating = rates.then(|| rating.unwrap_or(AnnotationChange::NO_RATING));
        let change = AnnotationChange { rating, tags, note: self.note.clone() };
        if let Some(tags) = &change.tags {
            check_count("tags", tags.len())?;
        }
        Ok(change)
    }
}

fn changes_nothing(before: &Annotation, change: &AnnotationChange) -> bool {
    let mut after = before.clone();
    after.apply(change);
    after == *before
}
