//! `/search?q=…`: matching iterations, or the sessions that contain them, with facets. Every image of a batch has a
//! card. Cards are loaded in parts, as on the wall of sessions. While the user types, scripts request this page with
//! `typing`: the last word then counts as a prefix, and an unfinished query is not an error.

use std::sync::Arc;

use axum::extract::{self, State};
use axum::http::HeaderName;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::card::{self, pictured};
use super::facets::{self, Ranges};
use super::frame::{Broken, Page, SearchBox, framed, sentence};
use super::naming;
use super::sessions::{saved_searches, size_slider, status_choice, status_of};
use super::terms::Terms;
use crate::model::query::{Condition, while_typing};
use crate::model::{Hash, Query, Reference, Status, Summary, Timestamp};
use crate::search::Sort;
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::search::Results;
use crate::wire::{
    Api, Error, ErrorKind, ExcerptField, ExcerptPart, FacetsView, FoundIteration, FoundSession, SearchRequest,
};
use crate::workspace::{Cover, Overview, REJECTED_TAG, Workspace};

/// The number of cards in a part, as on the wall of sessions.
const PART: u32 = 60;
/// The orders: their names in the URL, and in the menu.
const SORTS: [(&str, &str); 4] =
    [("newest", "Newest"), ("best", "Best rated"), ("largest", "Largest"), ("random", "Random")];
/// The condition that leaves out rejected iterations.
const WITHOUT_REJECTED: &str = "-tag:rejected";

/// The query parameters.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SearchParams {
    #[serde(default)]
    q: String,
    /// `session` to return sessions.
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    sort: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    project: Option<String>,
    /// The number of the random order, if `sort` is `random`.
    #[serde(default)]
    shuffle: Option<String>,
    /// An iteration or the hash of an image that results should look like.
    #[serde(default)]
    like: Option<String>,
    /// `shown` to include rejected iterations.
    #[serde(default)]
    rejected: Option<String>,
    /// Present while the user is typing.
    #[serde(default)]
    typing: Option<String>,
    /// The cursor of the previous page.
    #[serde(default)]
    at: Option<String>,
    /// The number of results to skip from there.
    #[serde(default)]
    skip: Option<String>,
}

/// Handles `GET /search`. Ranges from the form next to the results are written into the query.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    extract::Query(asked): extract::Query<SearchParams>,
    extract::Query(ranges): extract::Query<Ranges>,
) -> Result<Response, Broken> {
    if ranges.are_given() {
        return Ok(Redirect::to(&asked.with_query(&ranges.within(&asked.q))).into_response());
    }
    let question = asked.clone();
    let overview = gallery.overview();
    let found = gallery.read(move |workspace, _| ResultsPart::read(workspace, &overview, &question, true)).await;
    let body = match found {
        Ok(part) => shown(&asked, &part),
        // Errors are a normal part of writing a query.
        Err(error) if error.kind == ErrorKind::Invalid => wrong(&error),
        Err(error) => return Err(error.into()),
    };
    let title = if asked.q.trim().is_empty() { "Search".to_owned() } else { format!("{} · Search", asked.q.trim()) };
    let carried: Vec<(&str, &str)> = asked.choices().into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let emptied = if asked.by_session() { asked.without_search() } else { asked.with_query("") };
    let typed = SearchBox { query: &asked.q, carried: &carried, emptied: &emptied };
    let menu = if asked.by_session() { "sessions" } else { "search" };
    Ok(framed(&Page { title: &title, name: "search", menu, typed }, &body))
}

/// Handles `GET /search/part`: further results, with the cursor of the next part in `x-next`.
pub(super) async fn part(
    State(gallery): State<Gallery>,
    extract::Query(asked): extract::Query<SearchParams>,
) -> Result<Response, Broken> {
    let overview = gallery.overview();
    let part = gallery.read(move |workspace, _| ResultsPart::read(workspace, &overview, &asked, false)).await?;
    let headers = [
        (HeaderName::from_static("x-next"), part.next.clone().unwrap_or_default()),
        (HeaderName::from_static("x-total"), part.total.to_string()),
    ];
    Ok((headers, reply::html(part.cards())).into_response())
}

impl SearchParams {
    fn request(&self) -> Result<SearchRequest, Error> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let like = some(&self.like);
        // A path would name a file on this machine.
        let named = |like: &String| like.parse::<Hash>().is_ok() || like.parse::<Reference>().is_ok();
        if !like.iter().all(named) {
            let hint = "pass a reference such as session-2025-12-11-001#3, or the hash of an image";
            return Err(Error::new(ErrorKind::Invalid, "the image to compare with does not exist", hint));
        }
        let status = status_of(self.status.as_deref())?;
        Ok(SearchRequest {
            query: Some(self.asked_for()).filter(|query| !query.trim().is_empty()),
            similar_to: like,
            sort: Some(match self.sort() {
                "best" => Sort::Best,
                "largest" => Sort::Largest,
                _ => Sort::Newest,
            }),
            shuffle: (self.sort() == "random").then(|| self.shuffle_number()),
            project: some(&self.project),
            status: Some(if self.q.contains("status:") { Status::All } else { status }),
            cursor: some(&self.at),
            limit: Some(PART),
            ..SearchRequest::default()
        })
    }

    /// Returns a whole search for another query.
    pub(super) fn for_query(&self, query: String) -> SearchParams {
        SearchParams { q: query, typing: None, ..self.clone() }
    }

    /// Returns the query; while typing, with the last word as a prefix.
    pub(super) fn meant(&self) -> String {
        if self.typing.is_some() { while_typing(&self.q).into_owned() } else { self.q.clone() }
    }

    /// Returns the query without what was rejected, unless that is wanted.
    pub(super) fn asked_for(&self) -> String {
        let query = self.meant();
        // An error names a place in what the user wrote.
        let is_whole = Query::parse(&query, Timestamp::now()).is_ok();
        match (self.hides_rejected() && is_whole, query.trim()) {
            (false, _) => query,
            (true, "") => WITHOUT_REJECTED.to_owned(),
            (true, some) => format!("({some}) {WITHOUT_REJECTED}"),
        }
    }

    /// Returns whether rejected iterations are left out: by default, if the query does not mention them.
    fn hides_rejected(&self) -> bool {
        self.rejected.as_deref() != Some("shown") && !self.q.contains(REJECTED_TAG)
    }

    fn sort(&self) -> &str {
        let known = |sort: &&str| SORTS.iter().any(|(name, _)| name == sort);
        self.sort.as_deref().filter(known).unwrap_or("newest")
    }

    fn shuffle_number(&self) -> u16 {
        self.shuffle.as_deref().and_then(|number| number.parse().ok()).unwrap_or_default()
    }

    fn by_session(&self) -> bool {
        self.by.as_deref() == Some("session")
    }

    /// Returns the parameters other than the query.
    pub(super) fn choices(&self) -> [(&'static str, Option<&str>); 7] {
        [
            ("by", self.by.as_deref()),
            ("sort", self.sort.as_deref()),
            ("shuffle", self.shuffle.as_deref()),
            ("status", self.status.as_deref()),
            ("project", self.project.as_deref()),
            ("like", self.like.as_deref()),
            ("rejected", self.rejected.as_deref()),
        ]
    }

    /// Returns the URL of this search with another query.
    pub(super) fn with_query(&self, query: &str) -> String {
        let typing = self.typing.as_deref().filter(|_| query == self.q);
        let parts = [("q", Some(query.trim()))].into_iter().chain(self.choices()).chain([("typing", typing)]);
        words::address("/search", parts)
    }

    /// Returns the URL of this search with a changed parameter.
    fn with(&self, change: impl FnOnce(&mut SearchParams)) -> String {
        let mut asked = self.clone();
        change(&mut asked);
        asked.with_query(&asked.q)
    }

    /// Returns the URL of the shelf without the search.
    fn without_search(&self) -> String {
        words::address("/", [("status", self.status.as_deref()), ("project", self.project.as_deref())])
    }
}

/// A part of the results.
struct ResultsPart {
    cards: Cards,
    total: u64,
    next: Option<String>,
    facets: Option<FacetsView>,
    /// The image that results should look like.
    like: Option<Likeness>,
    /// The query with its typing errors corrected, if nothing matches because of them.
    corrected: Option<String>,
    wanted: WantedRatings,
}

enum Cards {
    Iterations(Vec<FoundIteration>),
    Sessions(Vec<(FoundSession, Option<Arc<Cover>>)>),
}

/// The image that results should look like.
struct Likeness {
    label: String,
    image: Option<Hash>,
}

impl ResultsPart {
    fn read(
        workspace: &Workspace,
        overview: &Overview,
        asked: &SearchParams,
        facets: bool,
    ) -> Result<ResultsPart, Error> {
        let request = SearchRequest { facets, ..asked.request()? };
        let skip = asked.skip.as_deref().and_then(|skip| skip.parse().ok()).unwrap_or(0);
        let api = || Api::new(workspace).unbounded();
        let like = asked.like.as_deref().filter(|_| facets).map(|like| likeness(workspace, like));
        let (cards, total, next, found_facets) = if asked.by_session() {
            let Results { found, total, next_cursor: next, facets } = api().find_sessions(&request, skip)?;
            let with_cover = found.into_iter().map(|found| {
                let row: Result<Summary, _> = workspace.summary(found.session.id());
                let cover = row.ok().and_then(|row| overview.cover(workspace, &row).ok().flatten());
                (found, cover)
            });
            (Cards::Sessions(with_cover.collect()), total, next, facets)
        } else {
            let Results { found, total, next_cursor: next, facets } = api().find_iterations(&request, skip)?;
            (Cards::Iterations(found), total, next, facets)
        };
        let wanted = WantedRatings::of(&asked.meant());
        let corrected = if total == 0 && facets { api().corrected(&asked.meant())? } else { None };
        let mut part = ResultsPart { cards, total, next, facets: found_facets, like, corrected, wanted };
        if let Some(facets) = &mut part.facets {
            facets::widen(asked, &api(), &request, facets)?;
        }
        Ok(part)
    }

    fn cards(&self) -> Markup {
        html! {
            @match &self.cards {
                Cards::Iterations(found) => @for found in found { (iteration(found, &self.wanted)) },
                Cards::Sessions(found) => @for (found, cover) in found { (session(found, cover.as_deref())) },
            }
        }
    }
}

fn likeness(workspace: &Workspace, like: &str) -> Likeness {
    let named = Api::new(workspace).resolve(like).ok().and_then(|id| {
        let state = workspace.brief_state(id).ok()?;
        let title = workspace.summary(id.session).ok().and_then(|summary| summary.title);
        let label = format!("{} #{}", naming::session(title.as_deref(), Some(&state.iteration)), id.index);
        Some(Likeness { label, image: state.iteration.images.first().map(|image| image.hash) })
    });
    named.unwrap_or_else(|| Likeness { label: "this image".to_owned(), image: like.parse().ok() })
}

fn shown(asked: &SearchParams, part: &ResultsPart) -> Markup {
    let choice = |now: bool, address: String, text: &str| {
        html! { a href=(address) aria-current=[now.then_some("true")] { (text) } }
    };
    let by_session = asked.by_session();
    let favourites = Terms::of(&asked.q, "rating").any == [">=4"];
    html! {
        main #main tabindex="-1" {
            div.bar {
                h1 #found { (words::count(part.total, if by_session { "session" } else { "iteration" })) }
                @if let Some(project) = &asked.project { a.chip href=(asked.with(|asked| asked.project = None)) { "in " (project) span aria-hidden="true" { " ×" } } }
                @if let Some(like) = &part.like {
                    a.chip.like href=(asked.with(|asked| asked.like = None)) aria-label={ "Similar to " (like.label) ": remove" } {
                        @if let Some(image) = like.image { img src={ "/thumbs/" (image) } alt=""; }
                        "similar to " span dir="auto" { (like.label) } span aria-hidden="true" { " ×" }
                    }
                }
                a.toggle href=(asked.with_query(&Terms::of(&asked.q, "rating").with_any(if favourites { &[] } else { &[">=4"] }))) aria-current=[favourites.then_some("true")] title="Only what is rated 4 or 5" { "★ 4+" }
                @if !asked.q.contains(REJECTED_TAG) {
                    a.toggle href=(asked.with(|asked| asked.rejected = asked.hides_rejected().then(|| "shown".to_owned()))) aria-current=[(!asked.hides_rejected()).then_some("true")] title="Include what was rejected" { "With rejected" }
                }
                (saved_searches())
                div.spring {}
                (size_slider())
                nav.choice aria-label="What to show" {
                    (choice(by_session, asked.with(|asked| asked.by = Some("session".to_owned())), "Sessions"))
                    (choice(!by_session, asked.with(|asked| asked.by = None), "Images"))
                }
                @if part.like.is_some() { span.muted.order { "Most similar first" } } @else { (order_menu(asked)) }
                (status_choice(asked.status.as_deref(), |status| asked.with(|asked| asked.status = status.map(str::to_owned))))
            }
            @if part.total == 0 {
                (nothing(asked, part.corrected.as_deref()))
            } @else {
                div.found {
                    details.facets open { summary { "Filter" } div { @if let Some(facets) = &part.facets { (facets::lists(asked, facets, part.total)) } } }
                    div.shelf {
                        div.wall #wall data-source="/search" data-total=(part.total) data-next=[part.next.as_deref()] {
                            div.part data-part="0" { (part.cards()) }
                        }
                    }
                }
                @if let Some(next) = &part.next { p.onward { a.button href={ (asked.with_query(&asked.q)) (if asked.with_query(&asked.q).contains('?') { "&" } else { "?" }) "at=" (next) } { "More results" } } }
            }
        }
    }
}

fn order_menu(asked: &SearchParams) -> Markup {
    let now = asked.sort();
    html! {
        details.drop.right {
            summary { "Sort: " (SORTS.iter().find(|(name, _)| *name == now).map_or("Newest", |(_, text)| text)) }
            div { nav.list aria-label="Order" {
                @for (name, text) in SORTS {
                    @let is_random = name == "random";
                    @let address = asked.with(|asked| {
                        asked.sort = (name != "newest").then(|| name.to_owned());
                        // A new order each time.
                        asked.shuffle = is_random.then(|| Timestamp::now().millis().rem_euclid(i64::from(u16::MAX)).to_string());
                    });
                    a href=(address) aria-current=[(now == name).then_some("true")] { @if is_random && now == name { "Shuffle again" } @else { (text) } }
                }
            } }
        }
    }
}

fn nothing(asked: &SearchParams, corrected: Option<&str>) -> Markup {
    let elsewhere = asked.status.as_deref().is_none_or(|status| status == "active") && !asked.q.contains("status:");
    html! {
        div.empty {
            h2 { "Nothing matches" @if !asked.q.trim().is_empty() { " “" (asked.q.trim()) "”" } }
            @if let Some(corrected) = corrected {
                p { "Did you mean " a dir="auto" href=(asked.for_query(corrected.to_owned()).with_query(corrected)) { (corrected) } "?" }
            }
            p.hint { (how()) }
            p.row {
                @if elsewhere { a.button href=(asked.with(|asked| asked.status = Some("all".to_owned()))) { "Search archived sessions too" } }
                a.button href=(asked.without_search()) { "All sessions" }
            }
        }
    }
}

/// Renders the cards of an iteration: one for each image that has a matching rating.
fn iteration(found: &FoundIteration, wanted: &WantedRatings) -> Markup {
    let called = found.title.clone().or_else(|| naming::first_words(&found.prompt));
    let file = || found.image.as_ref().and_then(|image| image.name.clone());
    let called = called.or_else(file).unwrap_or_else(|| "Untitled".to_owned());
    let label = format!("{called} #{}", found.reference.index);
    let shown = found.image.as_ref();
    let first = Card {
        number: 0,
        hash: shown.map(|image| image.hash),
        ratio: shown.and_then(|image| ratio(image.width, image.height)),
        rating: found.image_rating,
        missing: shown.is_some_and(|image| image.missing),
    };
    let further = (1..).zip(&found.more_images).map(|(number, image)| Card {
        number,
        hash: Some(image.hash),
        ratio: image.size.and_then(|(width, height)| ratio(Some(width), Some(height))),
        rating: image.rating,
        missing: false,
    });
    let cards: Vec<Card> = [first].into_iter().chain(further).collect();
    let some = cards.iter().any(|card| wanted.contains(card.rating));
    html! { @for card in cards.iter().filter(|card| !some || wanted.contains(card.rating)) { (image_card(found, &label, &called, card)) } }
}

/// An image among the results.
struct Card {
    number: usize,
    hash: Option<Hash>,
    ratio: Option<f64>,
    rating: Option<u8>,
    /// Whether the original is missing: the thumbnail may still be there.
    missing: bool,
}

fn image_card(found: &FoundIteration, label: &str, called: &str, card: &Card) -> Markup {
    let Card { number, hash, ratio, rating, missing } = *card;
    let many = found.more_images.len() + 1;
    let reference = found.reference;
    let after = if many > 1 { format!("/{number}") } else { String::new() };
    let address =
        format!("/sessions/{}/{}{}", reference.session, reference.index, if number > 0 { after.as_str() } else { "" });
    let own = match number {
        0 => format!("#{}", reference.index),
        number => format!("#{}, image {}", reference.index, number + 1),
    };
    let label = if number > 0 { format!("{label}, image {}", number + 1) } else { label.to_owned() };
    html! {
        div.item data-ratio=[ratio] data-at=(found.timestamp) {
            a.card href=(address) data-project=[found.project.as_deref()] data-reference={ (reference) (after) } data-label=(label) data-rating=(rating.unwrap_or(0)) {
                span.cover {
                    (pictured(hash, found.outcome.unwrap_or_default()))
                    span.flags {
                        @if found.archived { span.flag { "archived" } }
                        @if missing { span.flag.bad { "original missing" } }
                    }
                    @if many > 1 { span.takes { (number + 1) "/" (many) } }
                }
                span.name title=(found.prompt) dir="auto" { (excerpt(found).unwrap_or_else(|| html! { (naming::first_words(&found.prompt).unwrap_or_else(|| called.to_owned())) })) }
                span.meta {
                    @if let Some(rating) = rating { span.rated aria-label={ (rating) " of 5" } role="img" { @for _ in 0..rating { "★" } } " " }
                    // Without a title, the first line already names it.
                    span dir="auto" { @if found.title.is_some() { (label) } @else { (own) } } " · " (words::time(found.timestamp))
                }
            }
        }
    }
}

/// The ratings that a query asks for. An iteration matches by its best image, but only images with a matching rating
/// are shown.
struct WantedRatings(Vec<(u8, u8)>);

impl WantedRatings {
    fn of(query: &str) -> WantedRatings {
        let ranges = Terms::of(query, "rating").any.into_iter().filter_map(|value| {
            let parsed = Query::parse(&format!("rating:{value}"), Timestamp::now());
            match parsed.ok()? {
                Query::Is(Condition::Rating(low, high)) => Some((low, high)),
                _ => None,
            }
        });
        WantedRatings(ranges.collect())
    }

    fn contains(&self, rating: Option<u8>) -> bool {
        let rating = rating.unwrap_or(0);
        self.0.is_empty() || self.0.iter().any(|(low, high)| (*low..=*high).contains(&rating))
    }
}

fn ratio(width: Option<u32>, height: Option<u32>) -> Option<f64> {
    let (width, height) = width.zip(height).filter(|(width, height)| *width > 0 && *height > 0)?;
    Some(f64::from(width) / f64::from(height))
}

/// Renders the card of a session in the results: a matching image, and the number of matches.
fn session(found: &FoundSession, cover: Option<&Cover>) -> Markup {
    let FoundSession { session, matching, first } = found;
    let all = u64::from(session.iteration_count());
    let file = || first.image.as_ref().and_then(|image| image.name.clone());
    let called = session.title().map(str::to_owned).or_else(|| naming::first_words(&first.prompt)).or_else(file);
    let called = called.unwrap_or_else(|| "Untitled".to_owned());
    let image = first.image.as_ref();
    html! {
        div.item data-ratio=[image.and_then(|image| ratio(image.width, image.height))] data-at=(session.last_modified_at()) {
            a.card href={ "/sessions/" (first.reference.session) "/" (first.reference.index) } data-session=(session.id()) data-project=[session.project()] data-reference={ (first.reference) @if !first.more_images.is_empty() { "/0" } } data-label=(called) data-rating=(first.image_rating.unwrap_or(0)) {
                span.cover data-many[all > 1] {
                    (pictured(image.map(|image| image.hash), first.outcome.unwrap_or_default()))
                    span.flags { @if session.archived() { span.flag { "archived" } } @if let Some(cover) = cover { @if cover.open_branches > 0 { span.flag { (card::branches(cover.open_branches)) } } } }
                    @if all > 1 { span.takes { @if *matching < all { (words::grouped(*matching)) "/" } (words::grouped(all)) span.sr { " iterations" } } }
                }
                span.name title=(first.prompt) dir="auto" { @match session.title() { Some(title) => (title), None => (excerpt(first).unwrap_or_else(|| html! { (called) })) } }
                span.meta {
                    @if let Some(rating) = first.rating { span.rated aria-label={ (rating) " of 5" } role="img" { @for _ in 0..rating { "★" } } " " }
                    @if let Some(excerpt) = session.title().and_then(|_| excerpt(first)) { span.change dir="auto" { (excerpt) } " · " }
                    (words::time(session.last_modified_at()))
                    @if let Some(project) = session.project() { " · " span dir="auto" { (project) } }
                }
            }
        }
    }
}

/// The number of characters of an excerpt before the first match, since cards are narrow.
const BEFORE_MATCH: usize = 16;

/// Renders an excerpt with the matched words, if the card has space for it.
fn excerpt(found: &FoundIteration) -> Option<Markup> {
    let found = found.matches.iter().find(|excerpt| excerpt.field == ExcerptField::Prompt)?;
    let first = found.parts.iter().position(|part| part.is_match)?;
    let before: String = found.parts.iter().take(first).map(|part| part.text.as_str()).collect();
    let count = before.chars().count();
    let short: String = before.chars().skip(count.saturating_sub(BEFORE_MATCH)).collect();
    let parts: Vec<&ExcerptPart> = found.parts.iter().skip(first).collect();
    Some(html! {
        @if count > BEFORE_MATCH { "…" (short.split_once(' ').map_or(short.as_str(), |(_, rest)| rest)) } @else { (before) }
        @for part in parts { @if part.is_match { mark { (part.text) } } @else { (part.text) } }
    })
}

/// Renders why a query cannot be read. The place in the query is left out: the search box shows all of it.
fn wrong(error: &Error) -> Markup {
    let message = error.message.split(", at character ").next().unwrap_or(&error.message);
    // Examples are instructions of their own elsewhere.
    let hint = error.hint.replace(": write ", ": ");
    html! {
        main.plain #main tabindex="-1" data-unfinished=(message) data-hint=(hint) {
            h1 { "Can't read this search" }
            p dir="auto" { (with_code(&sentence(message))) }
            @if !hint.is_empty() { p.muted dir="auto" { (with_code(&sentence(&hint))) } }
            p.hint { (how()) }
        }
    }
}

/// Renders text between backticks as code.
fn with_code(text: &str) -> Markup {
    html! { @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
}

fn how() -> Markup {
    html! { "Searches prompts, notes and titles. Filter: " code { "rating:>=4" } ", " code { "tag:hero" } ", " code { "model:xl" } ", " code { "since:7d" } ", " code { "-fog" } ", " code { "\"at dusk\"" } "." }
}
