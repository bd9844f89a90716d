//! Searches iterations of any session by words, recipe, rating, time or appearance.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::images;
use crate::model::{
    Actor, Annotation, ExactReference, Hash, Head, ImageRef, Iteration, IterationId, PerceptualHash, Query, Recipe,
    Reference, SessionId, Timestamp,
};
use crate::search::{Facets, Finding, Question, SearchKey, SearchLog, Sort};

use super::error::Error;
use super::{CallContext, OpenedImage, Progress, Workspace, image_source};

/// A search request.
#[derive(Clone, Debug)]
pub struct Search {
    /// The conditions, all of which must hold.
    pub query: Query,
    /// The image that results should look like; the most similar come first.
    pub similar_to: Option<SimilarTo>,
    /// The order of the results.
    pub sort: Sort,
    /// If given, a random order in place of `sort`, determined by this number.
    pub shuffle: Option<u16>,
    /// Whether to count facets of the matches.
    pub facets: bool,
    /// Whether to return only the first match of each session.
    pub per_session: bool,
}

/// An image to compare others with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimilarTo {
    /// An image of an iteration: the named one, or the first that can be decoded.
    Iteration(ExactReference),
    /// A stored image.
    Image(Hash),
    /// Any image file.
    File(PathBuf),
    /// An open image file, so that its path cannot be redirected any more.
    Opened(OpenedImage),
}

/// The appearance of an image.
#[derive(Clone, Copy)]
struct Appearance {
    perceptual_hash: PerceptualHash,
    pixels: Hash,
    /// The iteration it belongs to, which is excluded from the results.
    except: Option<IterationId>,
}

/// A part of the search results.
#[derive(Debug)]
pub struct SearchPage {
    /// The results, in order.
    pub hits: Vec<SearchHit>,
    /// The number of all results.
    pub total: u64,
    /// Whether there are more results after these.
    pub more: bool,
    /// The facets of all matches, if requested.
    pub facets: Option<Facets>,
}

/// A matching iteration, without large parameters.
#[derive(Clone, Debug)]
pub struct SearchHit {
    pub(crate) place: SearchKey,
    /// The recorded iteration.
    pub iteration: Iteration,
    /// Its rating, tags and note.
    pub annotation: Annotation,
    /// The head of its session.
    pub session: Head,
    /// Who recorded it.
    pub recorded_by: Actor,
    /// The number of bits in which its perceptual hash differs from the given one.
    pub distance: Option<u32>,
    /// The number of matches in its session, if only the first of each session was requested.
    pub matches_in_session: Option<u64>,
}

impl SearchHit {
    /// Returns the iteration's id.
    pub fn id(&self) -> IterationId {
        self.place.id
    }

    /// Returns the id of its session.
    pub fn session(&self) -> SessionId {
        self.place.id.session
    }

    /// Returns whether its pixels are identical to those searched for.
    pub fn is_identical(&self) -> bool {
        self.distance.is_some() && self.place.rank == 0
    }

    /// Returns its recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.iteration.recipe
    }
}

impl From<Query> for Search {
    fn from(query: Query) -> Search {
        Search { query, similar_to: None, sort: Sort::Newest, shuffle: None, facets: false, per_session: false }
    }
}

/// The results of a search, read a page at a time.
pub struct SearchResults<'a> {
    workspace: &'a Workspace,
    search: Search,
    after: Option<SearchKey>,
    ahead: VecDeque<SearchHit>,
    exhausted: bool,
}

impl Iterator for SearchResults<'_> {
    type Item = Result<SearchHit, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.is_empty() && !self.exhausted {
            let page = self.workspace.search_page(&self.search, self.after, 0, PAGE, &CallContext::default());
            match page {
                Ok(page) => {
                    self.exhausted = !page.more;
                    self.after = page.hits.last().map(|hit| hit.place);
                    self.ahead.extend(page.hits);
                }
                Err(error) => {
                    self.exhausted = true;
                    return Some(Err(error));
                }
            }
        }
        self.ahead.pop_front().map(Ok)
    }
}

/// The number of results read at once.
const PAGE: usize = 100;

impl Workspace {
    /// Searches for iterations with a query such as `bridge model:sdxl rating:>=4`, newest first.
    pub fn search(&self, query: &str) -> Result<SearchResults<'_>, Error> {
        Ok(self.find(Query::parse(query, self.now())?.into()))
    }

    /// Searches for iterations.
    pub fn find(&self, search: Search) -> SearchResults<'_> {
        SearchResults { workspace: self, search, after: None, ahead: VecDeque::new(), exhausted: false }
    }

    /// Returns the results after a position in their order, skipping some. Covers everything acknowledged before the
    /// call.
    pub(crate) fn search_page(
        &self,
        search: &Search,
        after: Option<SearchKey>,
        skip: usize,
        limit: usize,
        context: &CallContext,
    ) -> Result<SearchPage, Error> {
        let wanted = search.similar_to.as_ref().map(|similar_to| self.appearance(similar_to)).transpose()?;
        let question = Question {
            query: search.query.clone(),
            perceptual_hash: wanted.map(|wanted| wanted.perceptual_hash),
            pixels: wanted.map(|wanted| wanted.pixels),
            except: wanted.and_then(|wanted| wanted.except),
            sort: search.sort,
            shuffle: search.shuffle,
            after,
            skip,
            limit,
            facets: search.facets,
            per_session: search.per_session,
        };
        let watching = context.clone();
        let progress: Progress = Arc::new(move |what: &str, done: u64, of: u64| {
            // Finish building the index even if this caller is gone, since the next one needs it too.
            let _ = watching.step(what, done, of);
        });
        let findings = self.log.search(&question, Some(&progress))?;
        let hits: Vec<SearchHit> = findings.findings.into_iter().map(SearchHit::from).collect();
        for image in hits.iter().flat_map(|hit| &hit.iteration.images) {
            self.images.remember(image);
        }
        Ok(SearchPage { hits, total: findings.found.total, more: findings.found.more, facets: findings.found.facets })
    }

    /// Returns up to three words that are similar to a folded word and occur somewhere, most similar first.
    #[cfg(feature = "mcp")]
    pub(crate) fn near_words(&self, word: &str) -> Result<Vec<String>, Error> {
        Ok(self.log.near_words(word)?)
    }

    /// Returns the perceptual hash of any image file.
    pub fn perceptual_hash_of_file(&self, path: impl AsRef<Path>) -> Result<PerceptualHash, Error> {
        Ok(self.see(path.as_ref())?.perceptual_hash)
    }

    fn see(&self, path: &Path) -> Result<images::Seen, Error> {
        image_source::check_file(path).map_err(|problem| Error::InvalidImage { number: 0, problem })?;
        seen_file(path, self.images.see_file(path))
    }

    /// Computes the appearance of an image.
    fn appearance(&self, image: &SimilarTo) -> Result<Appearance, Error> {
        let seen = |seen: images::Seen| Appearance {
            perceptual_hash: seen.perceptual_hash,
            pixels: seen.pixels,
            except: None,
        };
        match image {
            SimilarTo::Iteration(ExactReference { iteration, image }) => {
                let mut images = self.brief_state(*iteration)?.iteration.images;
                if let Some(number) = image {
                    let named = usize::try_from(*number).ok().and_then(|number| images.get(number).cloned());
                    images = named.into_iter().collect();
                }
                let look = |image: &ImageRef| {
                    let pixels = image.pixels.unwrap_or(image.hash);
                    Some(Appearance { perceptual_hash: image.perceptual_hash?, pixels, except: Some(*iteration) })
                };
                match images.iter().find_map(look) {
                    Some(appearance) => Ok(appearance),
                    None => Err(Error::NothingToSee { iteration: *iteration, recorded: !images.is_empty() }),
                }
            }
            SimilarTo::Image(hash) => {
                let path = self.images.path(*hash);
                self.images.see_file(&path).map(seen).map_err(|error| Error::unavailable(*hash, &path, error))
            }
            SimilarTo::File(path) => self.see(path).map(seen),
            SimilarTo::Opened(opened) => {
                opened.check().map_err(|problem| Error::InvalidImage { number: 0, problem })?;
                seen_file(opened.path(), self.images.see_open(opened.file())).map(seen)
            }
        }
    }

    /// Returns the current time of the workspace's clock.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

fn seen_file(path: &Path, seen: Result<images::Seen, images::ImageUnavailable>) -> Result<images::Seen, Error> {
    match seen {
        Ok(seen) => Ok(seen),
        Err(images::ImageUnavailable::Unread(error)) => Err(Error::io("read the image", path, error)),
        Err(images::ImageUnavailable::Undecodable(reason)) => {
            Err(Error::undecodable(path.display().to_string(), reason))
        }
    }
}

impl SimilarTo {
    /// Parses a reference, the hash of a recorded image, or the path of an image file.
    pub fn parse(text: &str, workspace: &Workspace) -> Result<SimilarTo, Error> {
        if let Ok(reference) = text.parse::<Reference>() {
            return Ok(SimilarTo::Iteration(workspace.resolve_exactly(reference)?));
        }
        Ok(text.parse().map_or_else(|_| SimilarTo::File(text.into()), SimilarTo::Image))
    }
}

impl From<Finding> for SearchHit {
    fn from(finding: Finding) -> SearchHit {
        let Finding { hit, iteration, note, session, recorded_by } = finding;
        let rating = Some(hit.rating).filter(|rating| *rating > 0);
        SearchHit {
            place: hit.place,
            iteration: *iteration,
            annotation: Annotation { rating, tags: hit.tags, note },
            session,
            recorded_by,
            distance: hit.distance,
            matches_in_session: hit.siblings,
        }
    }
}
