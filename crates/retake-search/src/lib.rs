//! The search index of Retake, which is derived from the log and can be deleted at any time.
//!
//! It lives in `cache/search/` of the workspace and belongs to the process that owns the workspace. It consists of
//! immutable segments and a manifest that names them and the journal position up to which they are complete. What was
//! acknowledged after that position is read from the journal by the next search, so appending does no work for the
//! index. Enough new documents become a segment, and segments are merged so that they stay few. `docs/search.md`
//! describes the design, and why no existing engine is used.
//!
//! An index that is missing, damaged, of another version or older than a recovery is rebuilt. It never causes an error or
//! a wrong answer: every extent has a checksum that is verified before use.
//!
//! This crate does not know about sockets, images or how results are shown. [`Query::matches`] defines what must be
//! found.

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
mod near;
mod segment;
mod set;
mod tail;
mod terms;

pub use call::{Finding, Findings, SearchLog, extension};
pub use index::{Index, Sizes};

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use retake_log::model::{Hash, IterationId, PerceptualHash, Query};

/// A search request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The query that iterations must match.
    pub query: Query,
    /// The perceptual hash that their images must resemble; the most similar come first.
    pub perceptual_hash: Option<PerceptualHash>,
    /// The hash of the pixels of that image, if known: identical pixels come before images that only look the same.
    #[serde(default)]
    pub pixels: Option<Hash>,
    /// An iteration to leave out: the one whose image they must resemble.
    pub except: Option<IterationId>,
    /// The order if no perceptual hash is given.
    pub sort: Sort,
    /// If given, a random order in place of `sort`. The same number always gives the same order, so that it can be paged.
    #[serde(default)]
    pub shuffle: Option<u16>,
    /// Only hits after this key.
    pub after: Option<SearchKey>,
    /// The number of hits to skip from there, for a dragged scroll bar.
    #[serde(default)]
    pub skip: usize,
    /// The maximum number of hits.
    pub limit: usize,
    /// Whether to count the values of all facets.
    pub facets: bool,
    /// Whether to return only the first hit of each session. The total then counts sessions.
    #[serde(default)]
    pub per_session: bool,
}

impl Question {
    /// Creates a request for the newest hits of a query, without facets.
    pub fn new(query: Query, limit: usize) -> Question {
        Question {
            query,
            perceptual_hash: None,
            pixels: None,
            except: None,
            sort: Sort::Newest,
            shuffle: None,
            after: None,
            skip: 0,
            limit,
            facets: false,
            per_session: false,
        }
    }
}

/// The order of hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sort {
    /// Newest first.
    #[default]
    Newest,
    /// Highest rating first, then newest.
    Best,
    /// Most pixels first, then newest.
    Largest,
}

/// The sort key of a hit. It stays valid whatever is recorded meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchKey {
    /// The primary key, at most [`MAX_RANK`]: 0 for the same pixels and otherwise 1 more than the distance of its perceptual
    /// hash; 5 minus its rating; less for more pixels; or a random number.
    pub rank: u32,
    /// The time at which it was made, in milliseconds.
    pub made: i64,
    /// The iteration.
    pub id: IterationId,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The hits, in the requested order.
    pub hits: Vec<Hit>,
    /// The number of all matches.
    pub total: u64,
    /// Whether more hits follow.
    pub more: bool,
    /// The counts per facet, if requested.
    pub facets: Option<Facets>,
}

/// A matching iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Its sort key.
    pub place: SearchKey,
    /// The sequence number of its `recorded` event.
    pub seq: u32,
    /// Its rating; 0 if unrated.
    pub rating: u8,
    /// Its tags.
    pub tags: Vec<String>,
    /// The sequence number of the event with its note.
    pub noted: Option<u32>,
    /// The number of bits, of 128, in which its perceptual hash differs from the requested one.
    pub distance: Option<u32>,
    /// The number of matching iterations in its session, itself included, if only the first of each session was requested.
    #[serde(default)]
    pub siblings: Option<u64>,
}

/// The number of matches per value of each facet, most frequent first, at most [`MAX_FACET_VALUES`] per facet.
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

/// The largest rank of a hit. Rank and time are compared as one number while results are skipped.
pub const MAX_RANK: u32 = u16::MAX as u32;

/// The maximum number of values per facet.
pub const MAX_FACET_VALUES: usize = 50;

/// The largest distance of similar images. Images made from each other stay below [`PerceptualHash::NEAR`]; a new seed
/// of the same prompt is often slightly above that.
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
