//! The query language: `bridge model:sdxl rating:>=4 -fog before:2026-05`. What can be asked of iterations, how it is
//! written, and what it means.
//!
//! Words side by side must all be there; `"in this order"` is a phrase; `brid*` is a beginning; `-` or `NOT` means not
//! (and a bare word there is not looked for in negative prompts, which name what was not wanted); `OR` and parentheses
//! choose. `facet:value` asks for a part of the recipe, a judgement or a time. [`Query::parse`]
//! reads it, and [`Query::matches`] says by itself what it means: whatever answers faster must answer the same.
//!
//! Never known here: any index. The time of day comes in from outside.

mod facet;
mod matching;
mod parse;
mod typing;
mod when;

pub use matching::Candidate;
pub use parse::{MAX_CONDITIONS, MAX_DEPTH, MAX_QUERY_BYTES};
pub use typing::while_typing;

use serde::{Deserialize, Serialize};

use super::id::SessionId;
use super::iteration::OutcomeStatus;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// All of these; everything when there are none.
    All(Vec<Query>),
    /// Any of these.
    Any(Vec<Query>),
    /// Everything but this.
    Not(Box<Query>),
    /// This one thing.
    Is(Condition),
}

/// One thing an iteration is or is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// These words, one after the other, in one of its texts.
    Text {
        /// Which text; any when it is not said.
        field: Option<Field>,
        /// The words, folded; never none.
        words: Vec<String>,
        /// Whether the last one is only a beginning.
        prefix: bool,
    },
    /// It has such a name.
    Name {
        /// What the name is of.
        facet: Facet,
        /// How the name is compared.
        by: MatchKind,
        /// With what, folded.
        value: String,
    },
    /// The seed.
    Seed(u64),
    /// The size asked for, or that of its picture.
    Size(u32, u32),
    /// The rating is one of these, both included; without one it is 0.
    Rating(u8, u8),
    /// What came of it.
    Outcome(OutcomeStatus),
    /// Whether its session is archived.
    Archived(bool),
    /// The session it belongs to.
    Session(SessionId),
    /// It has one of these.
    Has(Part),
    /// It was made at or after the first time and before the second, in milliseconds.
    Made {
        /// From when.
        from: Option<i64>,
        /// Until when.
        until: Option<i64>,
    },
}

/// A text that words are looked for in.
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
}

/// Something that has a name.
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
}

/// How a name is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MatchKind {
    /// It is exactly that.
    Whole,
    /// It begins so.
    Start,
    /// That is a part of it.
    Part,
}

/// What an iteration may have or lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// A picture.
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

/// Why a query cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}, at character {}", at + 1)]
pub struct ParseQueryError {
    /// The character it went wrong at, from 0.
    pub at: usize,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub hint: String,
}

impl Query {
    /// Everything.
    pub fn everything() -> Query {
        Query::All(Vec::new())
    }

    /// This and that.
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

    /// The words that a result has because it was found: each with the field it was asked for in, and whether it is only
    /// a beginning. What was asked for with `-` is not among them.
    pub fn wanted_words(&self) -> Vec<(Option<Field>, &[String], bool)> {
        let mut found = Vec::new();
        self.gather_words(&mut found);
        found
    }

    fn gather_words<'a>(&'a self, found: &mut Vec<(Option<Field>, &'a [String], bool)>) {
        match self {
            Query::All(parts) | Query::Any(parts) => parts.iter().for_each(|part| part.gather_words(found)),
            Query::Is(Condition::Text { field, words, prefix }) => found.push((*field, words, *prefix)),
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
    /// Whether a folded name compares so with a folded value.
    pub fn holds(self, name: &str, value: &str) -> bool {
        match self {
            MatchKind::Whole => name == value,
            MatchKind::Start => name.starts_with(value),
            MatchKind::Part => name.contains(value),
        }
    }
}
