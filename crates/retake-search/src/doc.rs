//! The documents of the index: iterations and sessions.

use std::num::NonZeroU32;

use chrono::{Datelike, NaiveDate};

use retake_log::model::query::{Field, Quantity};
use retake_log::model::{Actor, AnnotationChange, Hash, Head, Iteration, IterationId, OutcomeStatus, SessionId};

/// A session id as a number with the same order.
pub(super) type SessionKey = u64;

/// An iteration to be indexed, with its texts, of which the index only keeps words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Doc {
    pub(super) facts: Facts,
    pub(super) texts: Vec<(Field, String)>,
}

/// The properties of an iteration that can be read back from the index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) session: SessionKey,
    pub(super) index: u32,
    /// The sequence number of its `recorded` event.
    pub(super) seq: u32,
    /// The time at which it was made, in milliseconds.
    pub(super) made: i64,
    /// The rating; 0 if unrated.
    pub(super) rating: u8,
    /// The sequence number of the event with its note; 0 without one, since a session never starts with a note.
    pub(super) noted: u32,
    /// See the constants below.
    pub(super) flags: u8,
    pub(super) seed: u64,
    /// Steps, guidance scale and cost, in this order, in millionths; [`UNKNOWN`] if unknown.
    pub(super) quantities: [i64; QUANTITIES.len()],
    /// Model, sampler, generator, size and scheduler, in this order.
    pub(super) names: [Option<String>; SINGLE],
    /// LoRAs, tags and the actor's names, in this order.
    pub(super) lists: [Vec<String>; LISTS],
    /// The images whose appearance is known.
    pub(super) images: Vec<Look>,
}

/// What the index knows about an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Its perceptual hash.
    pub(super) perceptual_hash: u128,
    /// The prefix of the hash of its pixels.
    pub(super) pixels: u64,
}

/// A session to be indexed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SessionDoc {
    pub(super) key: SessionKey,
    pub(super) archived: bool,
    pub(super) project: Option<String>,
    pub(super) title: Option<String>,
}

/// The number of facets of which an iteration has at most one name.
pub(super) const SINGLE: usize = 5;
pub(super) const MODEL: usize = 0;
pub(super) const SAMPLER: usize = 1;
pub(super) const GENERATOR: usize = 2;
pub(super) const SIZE: usize = 3;
pub(super) const SCHEDULER: usize = 4;
/// The number of facets of which an iteration has any number of names.
pub(super) const LISTS: usize = 4;
pub(super) const LORA: usize = 0;
pub(super) const TAG: usize = 1;
pub(super) const ACTOR: usize = 2;
/// The seeds of the other images of a batch.
pub(super) const SEED: usize = 3;
/// The quantities that have a column.
pub(super) const QUANTITIES: [Quantity; 3] = [Quantity::Steps, Quantity::GuidanceScale, Quantity::Cost];
/// The value of a quantity that is unknown.
pub(super) const UNKNOWN: i64 = i64::MIN;

/// The mask of the outcome in the flags.
pub(super) const OUTCOME: u8 = 3;
pub(super) const HAS_IMAGE: u8 = 4;
pub(super) const HAS_NEGATIVE: u8 = 8;
pub(super) const HAS_SEED: u8 = 16;

impl Doc {
    /// Creates the document of an iteration without annotations.
    pub(super) fn new(id: IterationId, seq: u32, iteration: &Iteration, recorded_by: &Actor) -> Doc {
        let recipe = &iteration.recipe;
        let mut texts = vec![(Field::Prompt, recipe.prompt.clone())];
        texts.extend(recipe.prompt_sent.clone().map(|text| (Field::Prompt, text)));
        texts.extend(recipe.negative_prompt.clone().map(|text| (Field::Negative, text)));
        texts.extend(iteration.outcome.message.clone().map(|text| (Field::Message, text)));
        let made = iteration.images.first();
        let (width, height) = (recipe.width.or_else(|| made?.width), recipe.height.or_else(|| made?.height));
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let mut loras: Vec<String> = recipe.loras.iter().map(|lora| lora.name.clone()).collect();
        loras.sort_unstable();
        loras.dedup();
        let mut actor = vec![recorded_by.client.clone(), recorded_by.user.clone()];
        actor.sort_unstable();
        actor.dedup();
        let facts = Facts {
            session: key_of(id.session),
            index: id.index,
            seq,
            made: iteration.created_at.millis(),
            rating: 0,
            noted: 0,
            flags: outcome_flag(iteration.outcome.status)
                | flag(!iteration.images.is_empty(), HAS_IMAGE)
                | flag(recipe.negative_prompt.is_some(), HAS_NEGATIVE)
                | flag(recipe.seed.is_some(), HAS_SEED),
            seed: recipe.seed.map_or(0, |seed| seed.0),
            quantities: QUANTITIES.map(|quantity| quantity.of(iteration).unwrap_or(UNKNOWN)),
            names: [
                recipe.model.clone(),
                recipe.sampler.clone(),
                recipe.provider.clone(),
                width.zip(height).map(|(width, height)| size_name(width, height)),
                recipe.scheduler.clone(),
            ],
            lists: [loras, Vec::new(), actor, iteration.other_seeds().iter().map(ToString::to_string).collect()],
            images: iteration
                .images
                .iter()
                .filter_map(|image| {
                    let perceptual_hash = image.perceptual_hash?.0;
                    Some(Look { perceptual_hash, pixels: pixels(image.pixels.unwrap_or(image.hash)) })
                })
                .collect(),
        };
        Doc { facts, texts }
    }

    /// Applies the annotation of the event with this sequence number.
    pub(super) fn annotate(&mut self, seq: u32, change: &AnnotationChange) {
        if let Some(rating) = change.rating {
            self.facts.rating = rating;
        }
        if let (Some(tags), Some(has)) = (&change.tags, self.facts.lists.get_mut(TAG)) {
            has.clone_from(tags);
            has.sort_unstable();
            has.dedup();
        }
        if let Some(note) = &change.note {
            self.note(seq, note);
        }
    }

    /// Sets the note, or removes it.
    pub(super) fn note(&mut self, seq: u32, note: &str) {
        self.texts.retain(|(field, _)| *field != Field::Note);
        self.facts.noted = 0;
        if !note.is_empty() {
            self.facts.noted = seq;
            self.texts.push((Field::Note, note.to_owned()));
        }
    }
}

impl SessionDoc {
    pub(super) fn new(head: &Head) -> SessionDoc {
        SessionDoc {
            key: key_of(head.id),
            archived: head.archived,
            project: head.project.clone(),
            title: head.title.clone(),
        }
    }
}

/// Returns the prefix of the hash of an image's pixels, which is enough to distinguish images that look alike.
pub(super) fn pixels(hash: Hash) -> u64 {
    hash.0.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

pub(super) fn size_name(width: u32, height: u32) -> String {
    format!("{width}x{height}")
}

pub(super) fn outcome_flag(status: OutcomeStatus) -> u8 {
    match status {
        OutcomeStatus::Succeeded => 0,
        OutcomeStatus::Failed => 1,
        OutcomeStatus::Refused => 2,
    }
}

pub(super) fn key_of(id: SessionId) -> SessionKey {
    // The year has four digits, so the day is a positive number.
    let day = u64::try_from(id.day().num_days_from_ce()).unwrap_or(0);
    day << 32 | u64::from(id.number().get())
}

/// Returns the session id of a key; `None` if the key is invalid.
pub(super) fn session_of(key: SessionKey) -> Option<SessionId> {
    let day = NaiveDate::from_num_days_from_ce_opt(i32::try_from(key >> 32).ok()?)?;
    SessionId::new(day, NonZeroU32::new(u32::try_from(key & u64::from(u32::MAX)).ok()?)?)
}
