//! `/search?q=…`: iterations of all sessions that match, with what the matches have in common beside them. The same wall as
//! that of the sessions, in parts that follow each other by cursor.

use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, framed};
use crate::model::{Hash, OutcomeStatus, Reference};
use crate::tracker::{
    Error, ErrorKind, ExcerptField, FacetCount, FacetsView, FoundIteration, SearchRequest, SearchSort, SearchView,
    StatusFilter, Tracker,
};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;

/// Cards in a part, as on the wall of sessions.
const PART: usize = 60;
/// Values of a facet that are shown.
const MOST_VALUES: usize = 8;

/// What is looked for, as the address says it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    q: String,
    #[serde(default)]
    sort: Option<String>,
    /// Also in archived sessions.
    #[serde(default)]
    archived: Option<String>,
    /// An iteration, or the hash of a picture, whose looks are wanted.
    #[serde(default)]
    like: Option<String>,
    #[serde(default)]
    at: Option<String>,
}

/// `GET /search`.
pub(super) async fn page(State(gallery): State<Gallery>, Query(asked): Query<Asked>) -> Result<Response, Broken> {
    let request = asked.request()?;
    let found = gallery.ask(move |tracker, _| Part::read(tracker, request, true)).await;
    let page = Page { title: &format!("{} · Search", asked.q), name: "search", query: &asked.q };
    let body = match found {
        Ok(part) => shown(&asked, &part),
        // What is wrong with a query is part of writing it.
        Err(error) if error.kind == ErrorKind::Invalid => wrong(&error),
        Err(error) => return Err(error.into()),
    };
    Ok(framed(&page, &body))
}

/// `GET /search/part`: more of what was found, and in `x-next` the cursor behind it.
pub(super) async fn part(State(gallery): State<Gallery>, Query(asked): Query<Asked>) -> Result<Response, Broken> {
    let request = asked.request()?;
    let part = gallery.ask(move |tracker, _| Part::read(tracker, request, false)).await?;
    let headers = [
        (HeaderName::from_static("x-next"), part.next.clone().unwrap_or_default()),
        (HeaderName::from_static("x-total"), part.total.to_string()),
    ];
    Ok((headers, reply::html(html! { @for found in &part.found { (card(found)) } })).into_response())
}

impl Asked {
    fn request(&self) -> Result<SearchRequest, Error> {
        let like = self.like.clone().filter(|like| !like.is_empty());
        // A path would be a file of this machine.
        let named = |like: &String| like.parse::<Hash>().is_ok() || like.parse::<Reference>().is_ok();
        if !like.iter().all(named) {
            let hint = "give a reference such as session-2025-12-11-001#3, or the hash of a picture";
            return Err(Error::new(ErrorKind::Invalid, "there is no such picture to look like", hint));
        }
        Ok(SearchRequest {
            query: Some(self.q.clone()).filter(|query| !query.trim().is_empty()),
            similar_to: like,
            sort: Some(if self.sort.as_deref() == Some("best") { SearchSort::Best } else { SearchSort::Newest }),
            status: (self.archived.is_none() && !self.q.contains("status:")).then_some(StatusFilter::Active),
            cursor: self.at.clone().filter(|at| !at.is_empty()),
            ..SearchRequest::default()
        })
    }

    /// The address of this search with another query.
    fn with_query(&self, query: &str) -> String {
        let mut address = format!("/search?q={}", words::escaped(query.trim()));
        for (name, value) in [("sort", &self.sort), ("archived", &self.archived), ("like", &self.like)] {
            if let Some(value) = value {
                address.push_str(&format!("&{name}={}", words::escaped(value)));
            }
        }
        address
    }
}

/// Some of what was found.
struct Part {
    found: Vec<FoundIteration>,
    total: u64,
    next: Option<String>,
    facets: Option<FacetsView>,
}

impl Part {
    fn read(tracker: &Tracker, mut request: SearchRequest, facets: bool) -> Result<Part, Error> {
        request.facets = facets;
        let mut part = Part { found: Vec::new(), total: 0, next: None, facets: None };
        // A page of the answer ends by bytes too, and a part must not.
        loop {
            request.limit = u32::try_from(PART - part.found.len()).ok();
            let SearchView { iterations, total_matches, next_cursor, facets } = tracker.search(&request)?;
            part.found.extend(iterations);
            part.total = total_matches;
            part.facets = part.facets.take().or(facets);
            part.next = next_cursor;
            request.facets = false;
            match &part.next {
                Some(next) if part.found.len() < PART => request.cursor = Some(next.clone()),
                _ => return Ok(part),
            }
        }
    }
}

fn shown(asked: &Asked, part: &Part) -> Markup {
    let best = asked.sort.as_deref() == Some("best");
    let sorted = |sort: Option<&str>| Asked { sort: sort.map(str::to_owned), ..asked.clone() }.with_query(&asked.q);
    let archived = Asked { archived: asked.archived.is_none().then(|| "1".to_owned()), ..asked.clone() };
    html! {
        main #main tabindex="-1" {
            div.bar {
                h1 { (words::count(part.total, "iteration")) }
                @if let Some(like) = &asked.like { a.chip href=(Asked { like: None, ..asked.clone() }.with_query(&asked.q)) { "like " (like) " ×" } }
                div.spring {}
                nav.choice aria-label="Order" {
                    a href=(sorted(None)) aria-current=[(!best).then_some("true")] { "Newest" }
                    a href=(sorted(Some("best"))) aria-current=[best.then_some("true")] { "Best rated" }
                }
                nav.choice aria-label="Which sessions" {
                    a href=(archived.with_query(&asked.q)) aria-current=[asked.archived.is_some().then_some("true")] { "With archived" }
                }
            }
            @if part.found.is_empty() {
                div.empty { h2 { "Nothing matches" } p.hint { (how()) } }
            } @else {
                div.found {
                    aside.facets aria-label="Narrow down" { @if let Some(facets) = &part.facets { (facet_lists(asked, facets)) } }
                    div.wall #wall data-source="/search" data-total=(part.total) data-next=[part.next.as_deref()] {
                        div.part data-part="0" { @for found in &part.found { (card(found)) } }
                    }
                }
            }
        }
    }
}

fn facet_lists(asked: &Asked, facets: &FacetsView) -> Markup {
    let lists: [(&str, &str, &[FacetCount]); 7] = [
        ("rating", "Rating", &facets.rating),
        ("tag", "Tag", &facets.tag),
        ("project", "Project", &facets.project),
        ("model", "Model", &facets.model),
        ("lora", "LoRA", &facets.lora),
        ("sampler", "Sampler", &facets.sampler),
        ("outcome", "Outcome", &facets.outcome),
    ];
    html! {
        @for (name, heading, counts) in lists {
            @if !counts.is_empty() {
                section {
                    h2 { (heading) }
                    @for FacetCount { value, count } in counts.iter().take(MOST_VALUES) {
                        @let term = format!("{name}:\"{}\"", value.replace('"', ""));
                        @let on = asked.q.contains(&term);
                        a href=(asked.with_query(&if on { asked.q.replace(&term, "") } else { format!("{} {term}", asked.q) })) aria-current=[on.then_some("true")] {
                            span { (value) } span { (words::grouped(*count)) }
                        }
                    }
                }
            }
        }
    }
}

fn card(found: &FoundIteration) -> Markup {
    let FoundIteration { reference, image, .. } = found;
    let shown = image.as_ref().filter(|image| !image.missing);
    let marked = found.matches.iter().find(|excerpt| excerpt.field == ExcerptField::Prompt);
    html! {
        a.card href={ "/sessions/" (reference.session) "/" (reference.index) } data-reference=(reference) {
            span.cover {
                @match (shown, found.outcome) {
                    (Some(image), _) => { img src={ "/thumbs/" (image.hash) } alt="" loading="lazy" decoding="async"; }
                    (None, Some(OutcomeStatus::Failed)) => { span.blank { "failed" } }
                    (None, Some(OutcomeStatus::Refused)) => { span.blank { "refused" } }
                    (None, _) => { span.blank { "no picture" } }
                }
                @if found.archived { span.flag { "archived" } }
            }
            span.name title=(found.prompt) {
                @match marked {
                    Some(excerpt) => { @for part in &excerpt.parts { @if part.is_match { mark { (part.text) } } @else { (part.text) } } }
                    None => (found.prompt),
                }
            }
            span.meta {
                @if let Some(rating) = found.rating { (rating) " ★ · " }
                (found.title.as_deref().unwrap_or("Untitled")) " #" (reference.index) " · " (words::time(found.timestamp))
            }
        }
    }
}

fn wrong(error: &Error) -> Markup {
    html! {
        main.plain #main tabindex="-1" {
            h1 { "This search is not understood" }
            pre { (error.message) }
            p.muted { (error.hint) }
            p.hint { (how()) }
        }
    }
}

fn how() -> Markup {
    html! { "Words find prompts, notes and titles. Narrow down with " code { "rating:>=4" } ", " code { "tag:hero" } ", " code { "model:xl" } ", " code { "since:7d" } ", " code { "-fog" } ", " code { "\"at dusk\"" } "." }
}
