//! `search`: iterations of any session, by words, recipe, judgement, time or looks.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::query::{Candidate, Condition, Facet, Field, MatchKind};
use crate::model::words::fold_name;
use crate::model::{
    Annotation, Hash, IterationId, OutcomeStatus, ParseQueryError, PerceptualHash, Query, Reference, Seed, Timestamp,
};
use crate::search::{self, Finding, Findings, Question, SearchLog};

use super::excerpt::{Excerpt, excerpt};
use super::fit::{self, Page};
use super::iterations::metadata;
use super::list::StatusFilter;
use super::{CallContext, Error, ErrorKind, ImageView, Metadata, Progress, Tracker, cursor, lookup};

/// What to look for. Everything that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// Words to find in prompts, negative prompts, notes and titles, and conditions such as
    /// `bridge "at night" brid* model:sdxl rating:>=4 tag:hero -fog before:2026-05`. `OR` and parentheses choose.
    /// Facets: model, lora, sampler, generator, tag, project, seed, size, rating, outcome, status, session, has, since,
    /// after, before, until, on, prompt, negative, note, title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// A part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The seed it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// A tag it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Rated at least so, 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub min_rating: Option<u8>,
    /// The project of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Of which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusFilter>,
    /// Made since: `2026`, `2026-03`, `2026-03-14`, `yesterday`, `last week`, `7d`, or an RFC 3339 time (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Made until the end of that time, written as `since` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Looks like this picture: an iteration such as `session-2025-12-11-001#3` or `latest`, the hash of a recorded
    /// image, or the path of an image file. The most similar come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similar_to: Option<String>,
    /// `newest` (the default) or `best`: highest rated first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<SearchSort>,
    /// Whether to count which models, tags and the like the matches have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub facets: bool,
    /// At most this many (default 50, at most 1000). A page may hold fewer; `nextCursor` says whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before, with all other arguments unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// In which order to show what is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SearchSort {
    /// Made last first.
    #[default]
    Newest,
    /// Highest rated first, and of those made last first.
    Best,
}

/// A page of what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchView {
    /// The iterations, in the order asked for.
    pub iterations: Vec<FoundIteration>,
    /// How many match, on all pages together.
    pub total_matches: u64,
    /// Present when there are more: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many matches have which value, when `facets` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<FacetsView>,
}

/// An iteration that was found: enough to choose by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundIteration {
    /// The iteration, to be given back wherever a reference is wanted.
    pub reference: IterationId,
    /// The prompt as typed, cut short when it is long.
    pub prompt: String,
    /// Present and true when `prompt` was cut: `get-iteration` has more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_truncated: bool,
    /// When the picture was made (UTC).
    pub timestamp: Timestamp,
    /// The title of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Present and true when its session is archived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// Present when the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// Its rating, 1 to 5, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What is known of how it was made.
    pub metadata: Metadata,
    /// Its first picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageView>,
    /// In how many of 128 bits its looks differ from those asked for: 0 looks the same, up to 31 is nearly the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// The words that matched, each in an excerpt of the text they are in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Excerpt>,
}

/// How many matches have which value, the most frequent first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FacetsView {
    /// Models.
    pub model: Vec<FacetCount>,
    /// LoRAs.
    pub lora: Vec<FacetCount>,
    /// Samplers.
    pub sampler: Vec<FacetCount>,
    /// Providers and tools.
    pub generator: Vec<FacetCount>,
    /// Sizes, such as `1024x768`.
    pub size: Vec<FacetCount>,
    /// Tags.
    pub tag: Vec<FacetCount>,
    /// Ratings from `5` to `1`, and `none`.
    pub rating: Vec<FacetCount>,
    /// Projects.
    pub project: Vec<FacetCount>,
    /// Outcomes.
    pub outcome: Vec<FacetCount>,
    /// `active` and `archived`.
    pub status: Vec<FacetCount>,
}

/// A value and how many matches have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FacetCount {
    /// The value; in a query it goes into quotes behind its facet: `model:"…"`.
    pub value: String,
    /// How many matches have it.
    pub count: u64,
}

impl SearchRequest {
    /// The file that `similarTo` names, when it names one.
    pub fn similar_file(&mut self) -> Option<&mut String> {
        let is_file = |like: &String| like.parse::<Reference>().is_err() && like.parse::<Hash>().is_err();
        self.similar_to.as_mut().filter(|like| is_file(like))
    }
}

impl Tracker {
    /// The iterations that match, a page at a time, with everything that was acknowledged before taken into account.
    ///
    /// A cursor keeps its place while more is recorded: every iteration that matches throughout comes exactly once.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchView, Error> {
        self.search_for(request, &self.context())
    }

    /// The same, for someone who is told how far it has come when the index must be made first.
    pub fn search_for(&self, request: &SearchRequest, context: &CallContext) -> Result<SearchView, Error> {
        let Answered { query, scope, limit, findings: found } = self.answered(request, Of::Iterations, 0, context)?;
        let mut view = SearchView {
            iterations: Vec::new(),
            total_matches: found.found.total,
            next_cursor: None,
            facets: found.found.facets.map(FacetsView::new),
        };
        let mut page = Page::new(limit, &view);
        let (mut last, mut full) = (None, false);
        for finding in &found.findings {
            if !page.push(self.found_iteration(&query, finding)) {
                full = true;
                break;
            }
            last = Some(finding.hit.place);
        }
        if full || found.found.more {
            view.next_cursor = last.map(|place| cursor::encode(&scope, &show_place(place)));
        }
        view.iterations = page.rows;
        Ok(view)
    }

    /// What the index says to a request, beginning `skip` behind its cursor.
    pub(super) fn answered(
        &self,
        request: &SearchRequest,
        of: Of,
        skip: usize,
        context: &CallContext,
    ) -> Result<Answered, Error> {
        let limit = fit::limit(request.limit.or(Some(DEFAULT_LIMIT)))?;
        let query = self.query(request)?;
        let (perceptual_hash, except) = match request.similar_to.as_deref() {
            Some(like) => self.looks_of(like).map(|(perceptual_hash, except)| (Some(perceptual_hash), except))?,
            None => (None, None),
        };
        let scope = scope(request, of);
        let after = request.cursor.as_deref().map(|cursor| cursor::decode(&scope, cursor, parse_place)).transpose()?;
        let sort = match request.sort.unwrap_or_default() {
            SearchSort::Newest => search::Sort::Newest,
            SearchSort::Best => search::Sort::Best,
        };
        let question = Question {
            query: query.clone(),
            perceptual_hash,
            except,
            sort,
            after,
            skip,
            limit,
            facets: request.facets,
            per_session: of == Of::Sessions,
        };
        let watching = context.clone();
        let progress: Progress = Arc::new(move |what: &str, done: u64, of: u64| {
            // An index that is being made is made to its end, since the next one to ask needs it too.
            let _ = watching.step(what, done, of);
        });
        let findings = self.log.search(&question, Some(&progress))?;
        Ok(Answered { query, scope, limit, findings })
    }

    fn query(&self, request: &SearchRequest) -> Result<Query, Error> {
        let now = self.now();
        let mut query = Query::parse(request.query.as_deref().unwrap_or_default(), now)?;
        if let Some(model) = &request.model {
            query = query.and(Condition::named(Facet::Model, model).into());
        }
        if let Some(Seed(seed)) = request.seed {
            query = query.and(Condition::Seed(seed).into());
        }
        if let Some(tag) = &request.tag {
            query = query.and(Condition::named(Facet::Tag, tag).into());
        }
        if let Some(rating) = request.min_rating {
            if !(1..=5).contains(&rating) {
                return Err(Error::invalid(format!("minRating is {rating}"), "give a whole number from 1 to 5"));
            }
            query = query.and(Condition::Rating(rating, 5).into());
        }
        if let Some(project) = &request.project {
            let value = fold_name(project);
            query = query.and(Condition::Name { facet: Facet::Project, by: MatchKind::Whole, value }.into());
        }
        match request.status.unwrap_or_default() {
            StatusFilter::All => {}
            StatusFilter::Active => query = query.and(Condition::Archived(false).into()),
            StatusFilter::Archived => query = query.and(Condition::Archived(true).into()),
        }
        let made = Query::made(request.since.as_deref(), request.until.as_deref(), now);
        made.map(|made| query.and(made)).map_err(|(field, hint)| {
            let said = if field == "since" { &request.since } else { &request.until };
            let said: String = said.as_deref().unwrap_or_default().chars().take(60).collect();
            Error::invalid(format!("{field} is {said:?}, which is no time"), hint)
        })
    }

    /// What a picture looks like, said by reference, hash or path, and the iteration that is not to be found by itself.
    fn looks_of(&self, like: &str) -> Result<(PerceptualHash, Option<IterationId>), Error> {
        if like.parse::<Reference>().is_ok() {
            let id = self.resolve(like)?;
            let state = lookup::iteration_of(Some(self.folded(id.session)?), id)?;
            let perceptual_hash = state.iteration.images.iter().find_map(|image| image.perceptual_hash);
            return perceptual_hash.map(|perceptual_hash| (perceptual_hash, Some(id))).ok_or_else(|| {
                let (what, hint) = match state.iteration.images.is_empty() {
                    true => ("has no picture", "choose an iteration that has one"),
                    false => ("has no picture that could be read", "give the path of an image file instead"),
                };
                Error::new(ErrorKind::NotFound, format!("{id} {what}"), hint)
            });
        }
        let perceptual_hash = match like.parse::<Hash>() {
            Ok(hash) => self
                .images
                .see_file(&self.images.path(hash))
                .map(|seen| seen.perceptual_hash)
                .map_err(|error| self.unseen(hash, error)),
            Err(_) => self.perceptual_hash_of_file(like),
        };
        Ok((perceptual_hash?, None))
    }

    pub(super) fn found_iteration(&self, query: &Query, finding: &Finding) -> FoundIteration {
        let Finding { hit, iteration, note, session } = finding;
        let id = hit.place.id;
        let rating = Some(hit.rating).filter(|rating| *rating > 0);
        let annotation = Annotation { rating, tags: hit.tags.clone(), note: note.clone() };
        let candidate = Candidate { id, iteration, annotation: &annotation, session };
        let mut matches: Vec<Excerpt> = Vec::new();
        for (field, text) in candidate.texts() {
            if matches.len() < MAX_EXCERPTS
                && let Some(found) = excerpt(query, field, text)
                // What was sent mostly repeats what was typed.
                && !matches.iter().any(|known| field == Field::Prompt && known.field == found.field)
            {
                matches.push(found);
            }
        }
        let cut = fit::clipped(&iteration.recipe.prompt, PROMPT_BYTES);
        let name = |name: &str| fit::clipped(name, NAME_BYTES).unwrap_or_else(|| name.to_owned());
        let first = iteration.images.get(..1).unwrap_or_default();
        FoundIteration {
            reference: id,
            prompt_truncated: cut.is_some(),
            prompt: cut.unwrap_or_else(|| iteration.recipe.prompt.clone()),
            timestamp: iteration.created_at,
            title: session.title.as_deref().map(name),
            project: session.project.as_deref().map(name),
            archived: session.archived,
            outcome: Some(iteration.outcome.status).filter(|status| *status != OutcomeStatus::Succeeded),
            rating,
            tags: annotation.tags.iter().take(MAX_TAGS).map(|tag| name(tag)).collect(),
            metadata: metadata(iteration),
            image: self.image_views(id, first).pop(),
            distance: hit.distance,
            matches,
        }
    }
}

/// What is looked for: iterations, or of each session the first that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Iterations,
    Sessions,
}

/// What the index said, and what it was asked.
pub(super) struct Answered {
    pub(super) query: Query,
    pub(super) scope: String,
    pub(super) limit: usize,
    pub(super) findings: Findings,
}

/// Rows on a page when nobody says how many.
const DEFAULT_LIMIT: u32 = 50;
/// What a prompt may take in a row.
const PROMPT_BYTES: usize = 1000;
/// What a name may take in a row.
const NAME_BYTES: usize = 300;
/// The most tags a row shows.
const MAX_TAGS: usize = 16;
/// The most excerpts a row shows.
const MAX_EXCERPTS: usize = 3;
/// What the counts may take in an answer.
const FACETS_BYTES: usize = 16_000;

impl FacetsView {
    pub(super) fn new(facets: search::Facets) -> FacetsView {
        // A value that is cut could not be asked for, so those too long to show are left out.
        let counts = |values: Vec<(String, u64)>| -> Vec<FacetCount> {
            let short = values.into_iter().filter(|(value, _)| value.len() <= NAME_BYTES);
            short.map(|(value, count)| FacetCount { value, count }).collect()
        };
        let mut view = FacetsView {
            model: counts(facets.model),
            lora: counts(facets.lora),
            sampler: counts(facets.sampler),
            generator: counts(facets.generator),
            size: counts(facets.size),
            tag: counts(facets.tag),
            rating: counts(facets.rating),
            project: counts(facets.project),
            outcome: counts(facets.outcome),
            status: counts(facets.status),
        };
        for most in [30, 20, 12, 6] {
            if fit::json_bytes(&view) <= FACETS_BYTES {
                break;
            }
            let FacetsView { model, lora, sampler, generator, size, tag, project, .. } = &mut view;
            for values in [model, lora, sampler, generator, size, tag, project] {
                values.truncate(most);
            }
        }
        view
    }
}

impl From<ParseQueryError> for Error {
    fn from(error: ParseQueryError) -> Error {
        Error::invalid(error.to_string(), error.hint)
    }
}

fn scope(request: &SearchRequest, of: Of) -> String {
    let choices = SearchRequest { limit: None, cursor: None, facets: false, ..request.clone() };
    format!("search {of:?} {}", serde_json::to_string(&choices).unwrap_or_default())
}

pub(super) fn show_place(place: search::SearchKey) -> String {
    format!("{} {} {}", place.rank, place.made, place.id)
}

fn parse_place(text: &str) -> Option<search::SearchKey> {
    let mut parts = text.splitn(3, ' ');
    Some(search::SearchKey {
        rank: parts.next()?.parse().ok()?,
        made: parts.next()?.parse().ok()?,
        id: parts.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_cursor() {
        let place = search::SearchKey { rank: 3, made: -5, id: "session-2025-12-11-1000#7".parse().unwrap() };
        assert_eq!(parse_place(&show_place(place)), Some(place));
        assert_eq!(parse_place("1 2"), None);
    }

    #[test]
    fn counts_stay_small() {
        let many: Vec<(String, u64)> = (0..50).map(|n| (format!("{n}-{}", "x".repeat(290)), 50 - n)).collect();
        let huge = vec![("y".repeat(400), 9)];
        let facets =
            search::Facets { model: many.clone(), lora: many.clone(), tag: many, project: huge, ..Default::default() };
        let view = FacetsView::new(facets);
        assert!(fit::json_bytes(&view) <= FACETS_BYTES, "{}", fit::json_bytes(&view));
        assert_eq!(view.model.first().unwrap().count, 50);
        assert!(view.project.is_empty());
    }
}
