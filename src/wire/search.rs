//! `search-iterations`: finds iterations of any session by words, recipe, rating, time or appearance.

use retake_recipe::fields::optional_whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::query::{Candidate, Condition, Facet, Field, MatchKind, time as query_time};
use crate::model::tokenizer::fold_name;
use crate::model::{Hash, IterationId, OutcomeStatus, Query, Reference, Seed, Status, Timestamp};
use crate::search::{self, Sort};
use crate::workspace::{self, OpenedImage, Search, SearchHit, SearchPage, SimilarTo, image_rating, is_image_rating};

use super::error::RequestError;
use super::excerpt::{Excerpt, excerpt};
use super::iterations::{message, metadata};
use super::limits::{self, PageRows};
use super::{Api, Error, ImageView, Metadata, SessionRow, cursor};

/// What to search for. Everything that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// Words to find in prompts, negative prompts, notes, titles and messages, and conditions such as
    /// `bridge "at night" model:sdxl rating:>=4 tag:hero -fog before:2026-05`. Words of three letters or more are also found
    /// inside others and as plurals; quotes ask for whole words. `OR` and parentheses choose. Facets: model, lora, sampler,
    /// scheduler, provider, actor, tag, project, seed, steps, cfg, cost, size, rating, outcome, status, session, has, since,
    /// after, before, until, on, prompt, negative, note, title, message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// A part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The seed it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// One of its tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The lowest rating, from 1 to 5.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    #[schemars(range(min = 1, max = 5))]
    pub min_rating: Option<u8>,
    /// A part of the project of its session, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// In which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Made since: `2026`, `2026-03`, `2026-03-14`, `yesterday`, `last week`, `7d`, or an RFC 3339 time (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Made until the end of that time, written as `since` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// An image that results should look like: an iteration such as `session-2025-12-11-001#3` or `latest`, the hash of a
    /// recorded image, or the path of an image file. The most similar come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similar_to: Option<String>,
    /// The file that `similarTo` names, where only certain files may be read. Never part of a request.
    #[serde(skip)]
    pub similar_opened: Option<OpenedImage>,
    /// `newest` (the default), `best`: highest rated first, or `largest`: most pixels first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// A number that determines a random order, which only the gallery offers. Never part of a request.
    #[serde(skip)]
    pub shuffle: Option<u16>,
    /// Whether to count which models, tags and the like the matches have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub facets: bool,
    /// Maximum number of results (default 50, at most 1000). A page may hold fewer; `nextCursor` tells whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional_whole")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
    /// `nextCursor` of the previous page, with all other arguments unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of search results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchView {
    /// The iterations, in the requested order.
    pub iterations: Vec<FoundIteration>,
    /// The number of matches, on all pages together.
    pub total_matches: u64,
    /// Present if there are more: pass it as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// The values that the matches have, if `facets` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<FacetsView>,
    /// Present if nothing matches: which word is the reason, and what to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// An iteration that was found, with what one needs to choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundIteration {
    /// The iteration, to be passed wherever a reference is expected.
    pub reference: IterationId,
    /// The prompt as typed, truncated if it is long.
    pub prompt: String,
    /// Present and true if `prompt` was truncated: `get-iteration` has more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prompt_truncated: bool,
    /// When the image was made (UTC).
    pub timestamp: Timestamp,
    /// The title of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The project of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Present and true if its session is archived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// Present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeStatus>,
    /// The provider's message, present if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its rating from 1 to 5, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<u8>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What is known about how it was made.
    pub metadata: Metadata,
    /// Its first image. Not part of the JSON, since `get-iteration` has all of them.
    #[serde(skip)]
    pub image: Option<ImageView>,
    /// The rating of its first image. Not part of the reply.
    #[serde(skip)]
    pub(crate) image_rating: Option<u8>,
    /// Its further images, for a face that shows every image. Not part of the reply.
    #[serde(skip)]
    pub(crate) more_images: Vec<FurtherImage>,
    /// In how many of 128 bits its perceptual hash differs from the given image: 0 looks the same, up to 31 nearly so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u32>,
    /// Present and true if it is the given image itself, pixel for pixel. Such results come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identical: bool,
    /// The words that matched, each in an excerpt of the text they are in; not those in a prompt that is shown whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Excerpt>,
}

/// An image of a batch other than the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FurtherImage {
    pub(crate) hash: Hash,
    /// Its width and height in pixels, if they could be read.
    pub(crate) size: Option<(u32, u32)>,
    pub(crate) rating: Option<u8>,
}

/// The values that matches have, the most frequent first.
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
    /// The value; in a query it goes into quotes after its facet: `model:"…"`.
    pub value: String,
    /// The number of matches that have it.
    pub count: u64,
}

impl SearchRequest {
    /// Returns the path in `similarTo`, if it contains one.
    pub fn similar_file(&mut self) -> Option<&mut String> {
        let is_file = |like: &String| like.parse::<Reference>().is_err() && like.parse::<Hash>().is_err();
        self.similar_to.as_mut().filter(|like| is_file(like))
    }
}

/// A part of the search results for a wall, with the cursor of the next part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Results<T> {
    /// The results, in the requested order.
    pub(crate) found: Vec<T>,
    /// The number of all results.
    pub(crate) total: u64,
    /// Present if there are more.
    pub(crate) next_cursor: Option<String>,
    /// The facets of all matches, if requested.
    pub(crate) facets: Option<FacetsView>,
}

/// A session that contains matches.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSession {
    /// The session.
    pub session: SessionRow,
    /// The number of matching iterations in it.
    pub matching: u64,
    /// The first of them, in the requested order.
    pub first: FoundIteration,
}

impl Api<'_> {
    /// Searches for iterations, a page at a time. Covers everything acknowledged before the call.
    ///
    /// A cursor keeps its position while more is recorded: every iteration that matches throughout appears exactly
    /// once.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchView, Error> {
        let Answer { query, scope, limit, page: found } = self.answer(request, ResultKind::Iterations, 0)?;
        let mut view = SearchView {
            iterations: Vec::new(),
            total_matches: found.total,
            next_cursor: None,
            facets: found.facets.map(FacetsView::new),
            hint: match (found.total, &query) {
                (1.., _) => None,
                (0, Query::All(parts)) if parts.is_empty() && request.similar_to.is_some() => {
                    Some("no other recorded image looks like it".to_owned())
                }
                (0, query) => self.hint(query)?,
            },
        };
        let mut page = PageRows::new(limit, self.reply_bytes, &view);
        let (mut last, mut full) = (None, false);
        for hit in &found.hits {
            if !page.push(self.found_iteration(&query, hit, self.marks_prompts)) {
                full = true;
                break;
            }
            last = Some(hit.place);
        }
        if full || found.more {
            view.next_cursor = last.map(|place| cursor::encode(&scope, &show_place(place)));
        }
        view.iterations = page.rows;
        Ok(view)
    }

    /// Searches for iterations, starting `skip` results after the cursor.
    pub(crate) fn find_iterations(
        &self,
        request: &SearchRequest,
        skip: usize,
    ) -> Result<Results<FoundIteration>, Error> {
        let answer = self.answer(request, ResultKind::Iterations, skip)?;
        let found = answer.page.hits.iter().map(|hit| self.found_iteration(&answer.query, hit, true)).collect();
        Ok(answer.results(found))
    }

    /// Searches for sessions that contain matches, starting `skip` results after the cursor, in the order of their
    /// first matches.
    pub(crate) fn find_sessions(&self, request: &SearchRequest, skip: usize) -> Result<Results<FoundSession>, Error> {
        let answer = self.answer(request, ResultKind::Sessions, skip)?;
        let found = answer.page.hits.iter().map(|hit| {
            let summary = hit.session.summary().ok_or(workspace::Error::SessionLost(hit.session.id))?;
            Ok(FoundSession {
                session: SessionRow::new(&summary)?,
                matching: hit.matches_in_session.unwrap_or(1),
                first: self.found_iteration(&answer.query, hit, true),
            })
        });
        let found = found.collect::<Result<_, Error>>()?;
        Ok(answer.results(found))
    }

    fn answer(&self, request: &SearchRequest, kind: ResultKind, skip: usize) -> Result<Answer, Error> {
        let limit = limits::limit(request.limit.or(Some(DEFAULT_LIMIT)))?;
        let query = self.query(request)?;
        let similar_to = request.similar_to.as_deref();
        let search = Search {
            query: query.clone(),
            similar_to: match &request.similar_opened {
                Some(opened) => Some(SimilarTo::Opened(opened.clone())),
                None => similar_to.map(|text| SimilarTo::parse(text, self.workspace)).transpose()?,
            },
            sort: request.sort.unwrap_or_default(),
            shuffle: request.shuffle,
            facets: request.facets,
            per_session: kind == ResultKind::Sessions,
        };
        let is_file = matches!(search.similar_to, Some(SimilarTo::File(_) | SimilarTo::Opened(_)));
        let scope = scope(request, kind);
        let after = request.cursor.as_deref().map(|cursor| cursor::decode(&scope, cursor, parse_place)).transpose()?;
        let page =
            self.workspace.search_page(&search, after, skip, limit, &self.context).map_err(|error| match error {
                workspace::Error::InvalidImage { problem, .. } => RequestError::Field {
                    field: "similarTo",
                    problem: problem.to_string(),
                    hint: "pass a reference, the hash of a recorded image, or the path of an image file".to_owned(),
                }
                .into(),
                workspace::Error::Undecodable { reason, .. } if is_file => RequestError::Field {
                    field: "similarTo",
                    problem: format!("cannot be compared: {reason}"),
                    hint: "pass an image file, a reference, or the hash of a recorded image".to_owned(),
                }
                .into(),
                error => Error::from(error),
            })?;
        Ok(Answer { query, scope, limit, page })
    }

    fn query(&self, request: &SearchRequest) -> Result<Query, Error> {
        let now = self.workspace.now();
        let text = request.query.as_deref().unwrap_or_default();
        let mut query = Query::parse(text, now).map_err(workspace::Error::from)?;
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
                let problem = format!("is {rating}: expected a whole number from 1 to 5");
                let hint = "correct it, or leave it out".to_owned();
                return Err(RequestError::Field { field: "minRating", problem, hint }.into());
            }
            query = query.and(Condition::Rating(rating, 5).into());
        }
        if let Some(project) = &request.project {
            let value = fold_name(project);
            query = query.and(Condition::Name { facet: Facet::Project, by: MatchKind::Part, value }.into());
        }
        match request.status.unwrap_or_default() {
            Status::All => {}
            Status::Active => query = query.and(Condition::Archived(false).into()),
            Status::Archived => query = query.and(Condition::Archived(true).into()),
        }
        let made = Query::made(request.since.as_deref(), request.until.as_deref(), now);
        made.map(|made| query.and(made)).map_err(|(field, hint)| {
            let text = if field == "since" { &request.since } else { &request.until };
            invalid_time(field, text.as_deref().unwrap_or_default(), &hint)
        })
    }

    fn found_iteration(&self, query: &Query, hit: &SearchHit, marks_prompts: bool) -> FoundIteration {
        let SearchHit { iteration, annotation, session, recorded_by, .. } = hit;
        let id = hit.id();
        let candidate = Candidate { id, iteration, annotation, session, recorded_by };
        let cut = limits::clipped(&iteration.recipe.prompt, PROMPT_BYTES);
        let mut matches: Vec<Excerpt> = Vec::new();
        for (field, text) in candidate.texts() {
            let repeats = field == Field::Prompt && cut.is_none() && text == iteration.recipe.prompt;
            if repeats && !marks_prompts {
                continue;
            }
            if matches.len() < MAX_EXCERPTS
                && let Some(found) = excerpt(query, field, text)
                // The prompt as sent mostly repeats the prompt as typed.
                && !matches.iter().any(|known| field == Field::Prompt && known.field == found.field)
            {
                matches.push(found);
            }
        }
        let name = |name: &str| limits::clipped(name, NAME_BYTES).unwrap_or_else(|| name.to_owned());
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
            message: message(iteration),
            rating: annotation.rating,
            tags: annotation.tags.iter().take(MAX_TAGS).map(|tag| name(tag)).collect(),
            metadata: metadata(iteration),
            image: self.image_views(id, first).pop(),
            image_rating: image_rating(annotation.rating, &annotation.tags, 0),
            more_images: iteration
                .images
                .iter()
                .enumerate()
                .skip(1)
                .map(|(number, image)| FurtherImage {
                    hash: image.hash,
                    size: image.width.zip(image.height),
                    rating: image_rating(annotation.rating, &annotation.tags, number),
                })
                .collect(),
            distance: hit.distance,
            identical: hit.is_identical(),
            matches,
        }
    }
}

/// The kind of result: iterations, or the first match of each session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultKind {
    Iterations,
    Sessions,
}

/// The results of a search, with the parsed request.
struct Answer {
    query: Query,
    scope: String,
    limit: usize,
    page: SearchPage,
}

impl Answer {
    fn results<T>(self, found: Vec<T>) -> Results<T> {
        let last = self.page.hits.last().filter(|_| self.page.more);
        Results {
            found,
            total: self.page.total,
            next_cursor: last.map(|last| cursor::encode(&self.scope, &show_place(last.place))),
            facets: self.page.facets.map(FacetsView::new),
        }
    }
}

/// The end of a period that a time denotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PeriodEdge {
    Start,
    End,
}

/// Parses a time such as `2026-03`, `yesterday` or `7d`, and returns the first or the last moment of that period.
pub(super) fn time_bound(
    field: &'static str,
    text: Option<&str>,
    now: Timestamp,
    bound: PeriodEdge,
) -> Result<Option<Timestamp>, Error> {
    let Some(text) = text else { return Ok(None) };
    let time = query_time::span(text, now).and_then(|(start, end)| match bound {
        PeriodEdge::Start => Timestamp::from_millis(start),
        PeriodEdge::End => Timestamp::from_millis(end.saturating_sub(1)),
    });
    time.map(Some).ok_or_else(|| invalid_time(field, text, query_time::EXAMPLES))
}

fn invalid_time(field: &'static str, text: &str, hint: &str) -> Error {
    let text: String = text.chars().take(60).collect();
    let problem = format!("is invalid: {text:?} is not a date or time");
    RequestError::Field { field, problem, hint: hint.to_owned() }.into()
}

/// The default number of results on a page.
const DEFAULT_LIMIT: u32 = 50;
/// The maximum size of a prompt in a row.
const PROMPT_BYTES: usize = 600;
/// The maximum size of a name in a row.
const NAME_BYTES: usize = 300;
/// The maximum number of tags in a row.
const MAX_TAGS: usize = 16;
/// The maximum number of excerpts in a row.
const MAX_EXCERPTS: usize = 3;
/// The maximum size of the facets in a reply.
const FACETS_BYTES: usize = 8000;

impl FacetsView {
    fn new(facets: search::Facets) -> FacetsView {
        // A truncated value could not be searched for, so values that are too long are left out.
        let counts = |values: Vec<(String, u64)>| -> Vec<FacetCount> {
            let short = values.into_iter().filter(|(value, _)| value.len() <= NAME_BYTES && !is_image_rating(value));
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
        for most in [30, 20, 12, 6, 3] {
            if limits::json_bytes(&view) <= FACETS_BYTES {
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

fn scope(request: &SearchRequest, kind: ResultKind) -> String {
    let choices = SearchRequest { limit: None, cursor: None, facets: false, ..request.clone() };
    let of = match kind {
        ResultKind::Iterations => "iterations",
        ResultKind::Sessions => "sessions",
    };
    let shuffle = request.shuffle.map(|shuffle| format!(" {shuffle}")).unwrap_or_default();
    format!("search {of} {}{shuffle}", serde_json::to_string(&choices).unwrap_or_default())
}

fn show_place(place: search::SearchKey) -> String {
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
    fn a_position_round_trips_through_its_cursor() {
        let place = search::SearchKey { rank: 3, made: -5, id: "session-2025-12-11-1000#7".parse().unwrap() };
        assert_eq!(parse_place(&show_place(place)), Some(place));
        assert_eq!(parse_place("1 2"), None);
    }

    #[test]
    fn facets_stay_small() {
        let many: Vec<(String, u64)> = (0..50).map(|n| (format!("{n}-{}", "x".repeat(290)), 50 - n)).collect();
        let huge = vec![("y".repeat(400), 9)];
        let facets =
            search::Facets { model: many.clone(), lora: many.clone(), tag: many, project: huge, ..Default::default() };
        let view = FacetsView::new(facets);
        assert!(limits::json_bytes(&view) <= FACETS_BYTES, "{}", limits::json_bytes(&view));
        assert_eq!(view.model.first().unwrap().count, 50);
        assert!(view.project.is_empty());
    }
}
