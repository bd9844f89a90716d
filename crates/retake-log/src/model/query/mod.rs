//! The query language: `bridge model:sdxl rating:>=4 -fog before:2026-05`.
//!
//! Adjacent words must all occur. A word of three letters or more is also found inside others, and as a plural;
//! `"in this order"` is a phrase of whole words; `brid*` is a prefix. `-` or `NOT` negates (a negated bare word ignores
//! negative prompts, which name what was not wanted); `OR` and parentheses combine. `facet:value` matches a part of the
//! recipe, an annotation or a time. [`Query::parse`] parses a query, and [`Query::matches`] is the specification of its
//! meaning: an index must give the same results.
//!
//! This module does not know the index, and the current time is a parameter.

mod facet;
mod matching;
mod parse;
pub mod time;
mod typing;

pub use facet::{facet_names, facet_term};
pub use matching::{Candidate, millionths};
pub use parse::{MAX_CONDITIONS, MAX_DEPTH, MAX_QUERY_BYTES};
pub use typing::while_typing;

use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::iteration::OutcomeStatus;
use super::tokenizer::contains_or_inflects;

/// A query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// All of these; everything if there are none.
    All(Vec<Query>),
    /// Any of these.
    Any(Vec<Query>),
    /// Everything except this.
    Not(Box<Query>),
    /// This condition.
    Is(Condition),
}

/// A condition that an iteration meets or does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// One of its texts contains these words in this order.
    Text {
        /// The text; any text if `None`.
        field: Option<Field>,
        /// The words, folded; never empty.
        words: Vec<String>,
        /// How the last word is compared. `Part` is for single words, and also matches their singular and plural.
        by: MatchKind,
    },
    /// One of its names matches.
    Name {
        /// The facet that the name belongs to.
        facet: Facet,
        /// How the name is compared.
        by: MatchKind,
        /// The value to compare with, folded.
        value: String,
    },
    /// A quantity lies in this inclusive range, in millionths.
    Number {
        /// The quantity.
        quantity: Quantity,
        /// The lowest value.
        low: i64,
        /// The highest value.
        high: i64,
    },
    /// The seed.
    Seed(u64),
    /// The requested size, or that of its image.
    Size(u32, u32),
    /// The rating lies in this inclusive range; unrated counts as 0.
    Rating(u8, u8),
    /// The outcome.
    Outcome(OutcomeStatus),
    /// Whether its session is archived.
    Archived(bool),
    /// The session it belongs to.
    Session(SessionId),
    /// It has this part.
    Has(Part),
    /// It was made within this half-open range of milliseconds.
    Made {
        /// The start, included.
        from: Option<i64>,
        /// The end, excluded.
        until: Option<i64>,
    },
}

/// A text that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Field {
    /// The prompt, as typed or as sent.
    Prompt,
    /// The negative prompt.
    Negative,
    /// The note.
    Note,
    /// The session's title.
    Title,
    /// The provider's message.
    Message,
}

impl Field {
    /// All fields.
    pub const ALL: [Field; 5] = [Field::Prompt, Field::Negative, Field::Note, Field::Title, Field::Message];
}

/// A number in a recipe or an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Quantity {
    /// The sampling steps.
    Steps,
    /// The guidance scale.
    GuidanceScale,
    /// The cost, in any currency.
    Cost,
}

/// A property of iterations whose values are names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Facet {
    /// The model.
    Model,
    /// A LoRA.
    Lora,
    /// The sampler.
    Sampler,
    /// The provider or tool.
    Generator,
    /// A tag.
    Tag,
    /// The session's project.
    Project,
    /// The scheduler.
    Scheduler,
    /// The program or the user that recorded it.
    Actor,
}

/// How a name is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchKind {
    /// The name equals the value.
    Whole,
    /// The name starts with the value.
    Start,
    /// The name contains the value.
    Part,
}

/// A part that an iteration may have or lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// An image.
    Image,
    /// A note.
    Note,
    /// A tag.
    Tag,
    /// A rating.
    Rating,
    /// A LoRA.
    Lora,
    /// A negative prompt.
    Negative,
}

/// The error for a query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {}", at + 1)]
pub struct ParseQueryError {
    /// The index of the offending character, from 0.
    pub at: usize,
    /// The problem.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl Query {
    /// Returns the query that matches everything.
    pub fn everything() -> Query {
        Query::All(Vec::new())
    }

    /// Returns the conjunction of two queries.
    #[must_use]
    pub fn and(self, other: Query) -> Query {
        match (self, other) {
            (Query::All(mut these), Query::All(others)) => {
                these.extend(others);
                Query::All(these)
            }
            (Query::All(mut these), other) => {
                these.push(other);
                Query::All(these)
            }
            (this, other) => Query::All(vec![this, other]),
        }
    }

    /// Returns the words to highlight in a result: each with its field and how the last one is compared. Negated words
    /// are left out.
    pub fn wanted_words(&self) -> Vec<(Option<Field>, &[String], MatchKind)> {
        let mut found = Vec::new();
        self.gather_words(&mut found);
        found
    }

    fn gather_words<'a>(&'a self, found: &mut Vec<(Option<Field>, &'a [String], MatchKind)>) {
        match self {
            Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|part| part.gather_words(found)),
            Query::Is(Condition::Text { field, words, by }) => found.push((*field, words, *by)),
            Query::Not(_) | Query::Is(_) => {}
        }
    }
}

impl From<Condition> for Query {
    fn from(condition: Condition) -> Query {
        Query::Is(condition)
    }
}

impl MatchKind {
    /// Returns whether a folded name matches a folded value.
    pub fn holds(self, name: &str, value: &str) -> bool {
        match self {
            MatchKind::Whole => name == value,
            MatchKind::Start => name.starts_with(value),
            MatchKind::Part => name.contains(value),
        }
    }

    /// Returns whether a folded word of a text matches a folded word of a query.
    pub fn holds_word(self, word: &str, wanted: &str) -> bool {
        match self {
            MatchKind::Part => contains_or_inflects(word, wanted),
            by => by.holds(word, wanted),
        }
    }
}
