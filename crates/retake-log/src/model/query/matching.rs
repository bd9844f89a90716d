//! The naive evaluation of a query, one iteration at a time: slow and simple, and the specification for the index.

use crate::model::session::{Annotation, Head};
use crate::model::tokenizer::{each_word, fold_name};
use crate::model::{Actor, Iteration, IterationId};

use super::{Condition, Facet, Field, MatchKind, Part, Quantity, Query};

/// An iteration with everything that a query can refer to.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its id.
    pub id: IterationId,
    /// The iteration.
    pub iteration: &'a Iteration,
    /// Its annotation.
    pub annotation: &'a Annotation,
    /// The head of its session.
    pub session: &'a Head,
    /// Who recorded it.
    pub recorded_by: &'a Actor,
}

/// Returns a number in millionths, in which quantities are compared, since none has more decimals.
pub fn millionths(number: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "what is too large for an i64 is compared as the largest")]
    let millionths = (number * 1e6).round() as i64;
    millionths
}

impl Query {
    /// Returns whether an iteration matches.
    pub fn matches(&self, candidate: &Candidate<'_>) -> bool {
        match self {
            Query::All(parts) => parts.iter().all(|part| part.matches(candidate)),
            Query::Any(parts) => parts.iter().any(|part| part.matches(candidate)),
            Query::Not(part) => !part.matches(candidate),
            Query::Is(condition) => condition.matches(candidate),
        }
    }
}

impl Condition {
    fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { id, iteration, annotation, session, .. } = candidate;
        match self {
            Condition::Text { field, words, by } => candidate
                .texts()
                .into_iter()
                .any(|(of, text)| field.is_none_or(|field| field == of) && has_words(text, words, *by)),
            Condition::Number { quantity, low, high } => {
                candidate.quantity(*quantity).is_some_and(|number| (*low..=*high).contains(&number))
            }
            Condition::Name { facet, by, value } => {
                candidate.names(*facet).into_iter().any(|name| by.holds(&fold_name(name), value))
            }
            Condition::Seed(seed) => iteration.recipe.seed.is_some_and(|has| has.0 == *seed),
            Condition::Size(width, height) => candidate.size() == Some((*width, *height)),
            Condition::Rating(low, high) => (*low..=*high).contains(&annotation.rating.unwrap_or(0)),
            Condition::Outcome(status) => iteration.outcome.status == *status,
            Condition::Archived(archived) => session.archived == *archived,
            Condition::Session(wanted) => id.session == *wanted,
            Condition::Has(part) => match part {
                Part::Image => !iteration.images.is_empty(),
                Part::Note => annotation.note.is_some(),
                Part::Tag => !annotation.tags.is_empty(),
                Part::Rating => annotation.rating.is_some(),
                Part::Lora => !iteration.recipe.loras.is_empty(),
                Part::Negative => iteration.recipe.negative_prompt.is_some(),
            },
            Condition::Made { from, until } => {
                let made = iteration.created_at.millis();
                from.is_none_or(|from| made >= from) && until.is_none_or(|until| made < until)
            }
        }
    }
}

impl<'a> Candidate<'a> {
    /// Returns its texts with their fields.
    pub fn texts(&self) -> Vec<(Field, &'a str)> {
        let recipe = &self.iteration.recipe;
        let mut texts = vec![(Field::Prompt, recipe.prompt.as_str())];
        texts.extend(recipe.prompt_sent.as_deref().map(|text| (Field::Prompt, text)));
        texts.extend(recipe.negative_prompt.as_deref().map(|text| (Field::Negative, text)));
        texts.extend(self.annotation.note.as_deref().map(|text| (Field::Note, text)));
        texts.extend(self.session.title.as_deref().map(|text| (Field::Title, text)));
        texts.extend(self.iteration.outcome.message.as_deref().map(|text| (Field::Message, text)));
        texts
    }

    /// Returns its names of one facet.
    pub fn names(&self, facet: Facet) -> Vec<&'a str> {
        let recipe = &self.iteration.recipe;
        match facet {
            Facet::Model => recipe.model.as_deref().into_iter().collect(),
            Facet::Lora => recipe.loras.iter().map(|lora| lora.name.as_str()).collect(),
            Facet::Sampler => recipe.sampler.as_deref().into_iter().collect(),
            Facet::Generator => recipe.provider.as_deref().into_iter().collect(),
            Facet::Tag => self.annotation.tags.iter().map(String::as_str).collect(),
            Facet::Project => self.session.project.as_deref().into_iter().collect(),
            Facet::Scheduler => recipe.scheduler.as_deref().into_iter().collect(),
            Facet::Actor => vec![&self.recorded_by.client, &self.recorded_by.user],
        }
    }

    /// Returns a quantity in millionths, if known.
    pub fn quantity(&self, quantity: Quantity) -> Option<i64> {
        quantity.of(self.iteration)
    }

    /// Returns the requested size, or else that of its first image.
    pub fn size(&self) -> Option<(u32, u32)> {
        let (recipe, made) = (&self.iteration.recipe, self.iteration.images.first());
        Some((recipe.width.or_else(|| made?.width)?, recipe.height.or_else(|| made?.height)?))
    }
}

impl Quantity {
    /// Returns the quantity of an iteration in millionths, if known.
    pub fn of(self, iteration: &Iteration) -> Option<i64> {
        let Iteration { recipe, outcome, .. } = iteration;
        match self {
            Quantity::Steps => recipe.steps.map(|steps| i64::from(steps).saturating_mul(1_000_000)),
            Quantity::GuidanceScale => recipe.guidance_scale.map(millionths),
            Quantity::Cost => outcome.cost.as_ref().map(|cost| millionths(cost.amount)),
        }
    }
}

fn has_words(text: &str, wanted: &[String], by: MatchKind) -> bool {
    let mut has = Vec::new();
    each_word(text, |word, _| has.push(word.to_owned()));
    let Some((last, before)) = wanted.split_last() else { return false };
    has.windows(wanted.len())
        .any(|window| window.split_last().is_some_and(|(end, start)| start == before && by.holds_word(end, last)))
}
