//! Finding iterations: an index beside the log, made from it and thrown away at will.
//!
//! It lies in `cache/search/` of the workspace and is kept by the process that owns the workspace. It consists of
//! segments that never change and a manifest that names them and the point of the journal up to which they are complete.
//! What was acknowledged after that point is read from the journal when someone searches, so appending does nothing for
//! it. When enough has gathered it becomes a segment, and segments are merged so that they stay few. `docs/search.md`
//! says how, and why not an engine from elsewhere.
//!
//! Whatever is wrong with it (deleted, damaged, of another version, behind a recovery) ends in making it again, never in
//! an error and never in a wrong answer: every piece carries a checksum that is looked at before the piece is used.
//!
//! This crate knows nothing of sockets, images or how results are shown. [`Query::matches`] defines what must be found.

mod build;
mod bytes;
mod call;
mod columns;
mod compact;
mod counts;
mod doc;
mod evaluate;
mod find;
mod index;
mod make;
mod manifest;
mod merge;
mod segment;
mod set;
mod tail;
mod terms;

pub use call::{Finding, Findings, SearchLog, extension};
pub use index::{Index, Sizes};

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use retake_log::model::{IterationId, PerceptualHash, Query};

/// What is asked of the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What iterations must be.
    pub query: Query,
    /// What their pictures must look like; the most similar come first.
    pub perceptual_hash: Option<PerceptualHash>,
    /// One that is not to be found: the one they must look like.
    pub except: Option<IterationId>,
    /// In which order they come otherwise.
    pub sort: Sort,
    /// Only those behind this place.
    pub after: Option<SearchKey>,
    /// How many to pass over from there: for a scroll bar that is dragged to anywhere.
    #[serde(default)]
    pub skip: usize,
    /// At most this many.
    pub limit: usize,
    /// Whether to count what the matches have.
    pub facets: bool,
    /// Whether only the first of each session is wanted. The total is that of the sessions then.
    #[serde(default)]
    pub per_session: bool,
}

/// The order of what is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sort {
    /// Made last first.
    #[default]
    Newest,
    /// Highest rated first, and of those made last first.
    Best,
}

/// A place in the order of what is found: it stays where it is, whatever is recorded meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchKey {
    /// How far from the first: the distance of its looks, or what its rating lacks.
    pub rank: u32,
    /// When it was made, in milliseconds.
    pub made: i64,
    /// The iteration.
    pub id: IterationId,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The next ones in the order asked for.
    pub hits: Vec<Hit>,
    /// How many match in all.
    pub total: u64,
    /// Whether there are more behind these.
    pub more: bool,
    /// What the matches have, if that was asked.
    pub facets: Option<Facets>,
}

/// One iteration that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Where it stands.
    pub place: SearchKey,
    /// The place of its recording in the session's chain.
    pub seq: u32,
    /// Its rating; 0 without one.
    pub rating: u8,
    /// Its tags.
    pub tags: Vec<String>,
    /// The place of the event that gave it its note.
    pub noted: Option<u32>,
    /// In how many of 128 bits its looks differ from those asked for.
    pub distance: Option<u32>,
    /// How many iterations of its session match, itself included, where only the first of each was wanted.
    #[serde(default)]
    pub siblings: Option<u64>,
}

/// How many matches have each value, the most frequent first, at most [`MOST_VALUES`] of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facets {
    /// Models.
    pub model: Vec<(String, u64)>,
    /// LoRAs.
    pub lora: Vec<(String, u64)>,
    /// Samplers.
    pub sampler: Vec<(String, u64)>,
    /// Providers and tools.
    pub generator: Vec<(String, u64)>,
    /// Sizes.
    pub size: Vec<(String, u64)>,
    /// Tags.
    pub tag: Vec<(String, u64)>,
    /// Ratings from `1` to `5`, and `none`.
    pub rating: Vec<(String, u64)>,
    /// Projects.
    pub project: Vec<(String, u64)>,
    /// Outcomes.
    pub outcome: Vec<(String, u64)>,
    /// `active` and `archived`.
    pub status: Vec<(String, u64)>,
}

/// The most values of one facet.
pub const MOST_VALUES: usize = 50;

/// Up to this distance pictures count as similar. Those that were made from each other stay below
/// [`PerceptualHash::NEAR`]; a new seed of the same prompt is often a little beyond.
pub const SIMILAR: u32 = 40;

impl Ord for SearchKey {
    fn cmp(&self, other: &SearchKey) -> Ordering {
        let newest_first = || (other.made, other.id).cmp(&(self.made, self.id));
        self.rank.cmp(&other.rank).then_with(newest_first)
    }
}

impl PartialOrd for SearchKey {
    fn partial_cmp(&self, other: &SearchKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
