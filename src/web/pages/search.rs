//! `/search?q=…`: what matches, as iterations or as the sessions they are in, with what the matches have in common beside
//! it. The same wall as that of all sessions, in parts. Scripts ask for this page again while someone types, with
//! `typing`: the last word counts as a beginning then, and what is not a query yet says so without a fuss.

use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed};
use super::sessions::{pictured, status_choice, status_of};
use crate::model::Status;
use crate::model::query::while_typing;
use crate::model::{Hash, Reference};
use crate::search::Sort;
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::search::Results;
use crate::wire::{
    Api, Error, ErrorKind, ExcerptField, FacetCount, FacetsView, FoundIteration, FoundSession, SearchRequest,
};
use crate::workspace::Workspace;

/// Cards in a part, as on the wall of sessions.
const PART: u32 = 60;
/// Values of a facet that are shown.
const MOST_VALUES: usize = 8;

/// What is looked for, as the address says it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    q: String,
    /// `session`: the sessions it is in.
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    sort: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    project: Option<String>,
    /// An iteration, or the hash of a picture, whose looks are wanted.
    #[serde(default)]
    like: Option<String>,
    /// Someone is still writing it.
    #[serde(default)]
    typing: Option<String>,
    /// The cursor to begin behind.
    #[serde(default)]
    at: Option<String>,
    /// How many to pass over from there.
    #[serde(default)]
    skip: Option<usize>,
}

/// `GET /search`.
pub(super) async fn page(State(gallery): State<Gallery>, Query(asked): Query<Asked>) -> Result<Response, Broken> {
    let question = asked.clone();
    let found = gallery.ask(move |workspace, _| Part::read(workspace, &question, true)).await;
    let body = match found {
        Ok(part) => shown(&asked, &part),
        // What is wrong with a query is part of writing it.
        Err(error) if error.kind == ErrorKind::Invalid => wrong(&error),
        Err(error) => return Err(error.into()),
    };
    let title = if asked.q.trim().is_empty() { "Search".to_owned() } else { format!("{} · Search", asked.q.trim()) };
    let carried: Vec<(&str, &str)> = asked.choices().into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let emptied = if asked.by_session() { asked.without_search() } else { asked.with_query("") };
    let typed = SearchBox { query: &asked.q, carried: &carried, emptied: &emptied };
    Ok(framed(&Page { title: &title, name: "search", typed }, &body))
}

/// `GET /search/part`: more of what was found, and in `x-next` the cursor behind it.
pub(super) async fn part(State(gallery): State<Gallery>, Query(asked): Query<Asked>) -> Result<Response, Broken> {
    let part = gallery.ask(move |workspace, _| Part::read(workspace, &asked, false)).await?;
    let headers = [
        (HeaderName::from_static("x-next"), part.next.clone().unwrap_or_default()),
        (HeaderName::from_static("x-total"), part.total.to_string()),
    ];
    Ok((headers, reply::html(part.cards())).into_response())
}

impl Asked {
    fn request(&self) -> Result<SearchRequest, Error> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let like = some(&self.like);
        // A path would be a file of this machine.
        let named = |like: &String| like.parse::<Hash>().is_ok() || like.parse::<Reference>().is_ok();
        if !like.iter().all(named) {
            let hint = "pass a reference such as session-2025-12-11-001#3, or the hash of an image";
            return Err(Error::new(ErrorKind::Invalid, "there is no such image to compare with", hint));
        }
        let status = status_of(self.status.as_deref())?;
        Ok(SearchRequest {
            query: Some(self.meant()).filter(|query| !query.trim().is_empty()),
            similar_to: like,
            sort: Some(if self.sort.as_deref() == Some("best") { Sort::Best } else { Sort::Newest }),
            project: some(&self.project),
            status: Some(if self.q.contains("status:") { Status::All } else { status }),
            cursor: some(&self.at),
            limit: Some(PART),
            ..SearchRequest::default()
        })
    }

    /// The query, with a word that is still being written as a beginning.
    fn meant(&self) -> String {
        if self.typing.is_some() { while_typing(&self.q).into_owned() } else { self.q.clone() }
    }

    fn by_session(&self) -> bool {
        self.by.as_deref() == Some("session")
    }

    /// What was chosen beside the query.
    fn choices(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("by", self.by.as_deref()),
            ("sort", self.sort.as_deref()),
            ("status", self.status.as_deref()),
            ("project", self.project.as_deref()),
            ("like", self.like.as_deref()),
        ]
    }

    /// The address of this search with another query.
    fn with_query(&self, query: &str) -> String {
        let typing = self.typing.as_deref().filter(|_| query == self.q);
        let parts = [("q", Some(query.trim()))].into_iter().chain(self.choices()).chain([("typing", typing)]);
        words::address("/search", parts)
    }

    /// The address of this search with another choice.
    fn with(&self, change: impl FnOnce(&mut Asked)) -> String {
        let mut asked = self.clone();
        change(&mut asked);
        asked.with_query(&asked.q)
    }

    /// The wall of sessions that is left when nothing is searched for.
    fn without_search(&self) -> String {
        words::address("/", [("status", self.status.as_deref()), ("project", self.project.as_deref())])
    }
}

/// Some of what was found.
struct Part {
    cards: Cards,
    total: u64,
    next: Option<String>,
    facets: Option<FacetsView>,
}

enum Cards {
    Iterations(Vec<FoundIteration>),
    Sessions(Vec<FoundSession>),
}

impl Part {
    fn read(workspace: &Workspace, asked: &Asked, facets: bool) -> Result<Part, Error> {
        let request = SearchRequest { facets, ..asked.request()? };
        let skip = asked.skip.unwrap_or(0);
        if asked.by_session() {
            let Results { found, total, next_cursor: next, facets } =
                Api::new(workspace).unbounded().find_sessions(&request, skip)?;
            Ok(Part { cards: Cards::Sessions(found), total, next, facets })
        } else {
            let Results { found, total, next_cursor: next, facets } =
                Api::new(workspace).unbounded().find_iterations(&request, skip)?;
            Ok(Part { cards: Cards::Iterations(found), total, next, facets })
        }
    }

    fn cards(&self) -> Markup {
        html! {
            @match &self.cards {
                Cards::Iterations(found) => @for found in found { (iteration(found)) },
                Cards::Sessions(found) => @for found in found { (session(found)) },
            }
        }
    }
}

fn shown(asked: &Asked, part: &Part) -> Markup {
    let best = asked.sort.as_deref() == Some("best");
    let choice = |now: bool, address: String, text: &str| {
        html! { a href=(address) aria-current=[now.then_some("true")] { (text) } }
    };
    let by_session = asked.by_session();
    html! {
        main #main tabindex="-1" {
            div.bar {
                h1 #found { (words::count(part.total, if by_session { "session" } else { "iteration" })) }
                @if let Some(project) = &asked.project { a.chip href=(asked.with(|asked| asked.project = None)) { "in " (project) span aria-hidden="true" { " ×" } } }
                @if let Some(like) = &asked.like { a.chip href=(asked.with(|asked| asked.like = None)) { "like " (like) span aria-hidden="true" { " ×" } } }
                div.spring {}
                nav.choice aria-label="What to show" {
                    (choice(by_session, asked.with(|asked| asked.by = Some("session".to_owned())), "Sessions"))
                    (choice(!by_session, asked.with(|asked| asked.by = None), "Iterations"))
                }
                nav.choice aria-label="Order" {
                    (choice(!best, asked.with(|asked| asked.sort = None), "Newest"))
                    (choice(best, asked.with(|asked| asked.sort = Some("best".to_owned())), "Best rated"))
                }
                (status_choice(asked.status.as_deref(), |status| asked.with(|asked| asked.status = status.map(str::to_owned))))
            }
            @if part.total == 0 {
                (nothing(asked))
            } @else {
                div.found {
                    aside.facets aria-label="Narrow down" { @if let Some(facets) = &part.facets { (facet_lists(asked, facets)) } }
                    div.wall #wall data-source="/search" data-total=(part.total) data-next=[part.next.as_deref()] {
                        div.part data-part="0" { (part.cards()) }
                    }
                }
            }
        }
    }
}

fn nothing(asked: &Asked) -> Markup {
    let elsewhere = asked.status.as_deref().is_none_or(|status| status == "active") && !asked.q.contains("status:");
    html! {
        div.empty {
            h2 { "Nothing matches" @if !asked.q.trim().is_empty() { " “" (asked.q.trim()) "”" } }
            p.hint { (how()) }
            p.row {
                @if elsewhere { a.button href=(asked.with(|asked| asked.status = Some("all".to_owned()))) { "Look in archived sessions too" } }
                a.button href=(asked.without_search()) { "All sessions" }
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
    // What is chosen now is chosen of what is shown now: a word that is still being written stays a beginning.
    let query = asked.meant();
    html! {
        @for (name, heading, counts) in lists {
            @if !counts.is_empty() {
                section {
                    h2 { (heading) }
                    @for FacetCount { value, count } in counts.iter().take(MOST_VALUES) {
                        @let term = format!("{name}:\"{}\"", value.replace('"', ""));
                        @let on = query.contains(&term);
                        a href=(asked.with_query(&if on { query.replace(&term, "") } else { format!("{query} {term}") })) aria-current=[on.then_some("true")] {
                            span { (value) } span { (words::grouped(*count)) }
                        }
                    }
                }
            }
        }
    }
}

fn iteration(found: &FoundIteration) -> Markup {
    let reference = found.reference;
    card(
        found,
        None,
        html! {
            @if let Some(rating) = found.rating { (rating) " ★ · " }
            (found.title.as_deref().unwrap_or("Untitled")) " #" (reference.index) " · " (words::time(found.timestamp))
        },
    )
}

fn session(found: &FoundSession) -> Markup {
    let FoundSession { session, matching, first } = found;
    let all = u64::from(session.iteration_count());
    card(
        first,
        session.title(),
        html! {
            @if *matching == all { (words::count(all, "iteration")) } @else { (words::grouped(*matching)) " of " (words::count(all, "iteration")) }
            " · " (words::time(session.last_modified_at()))
            @if let Some(project) = session.project() { " · " (project) }
        },
    )
}

/// A card of what was found, named by its session's title or by the words that matched.
fn card(found: &FoundIteration, title: Option<&str>, meta: Markup) -> Markup {
    let FoundIteration { reference, .. } = found;
    let image = found.image.as_ref().filter(|image| !image.missing).map(|image| image.hash);
    let marked = found.matches.iter().find(|excerpt| excerpt.field == ExcerptField::Prompt);
    html! {
        a.card href={ "/sessions/" (reference.session) "/" (reference.index) } data-reference=(reference) {
            span.cover {
                (pictured(image, found.outcome.unwrap_or_default()))
                @if found.archived { span.flag { "archived" } }
            }
            span.name title=(found.prompt) {
                @match (title, marked) {
                    (Some(title), _) => (title),
                    (None, Some(excerpt)) => { @for part in &excerpt.parts { @if part.is_match { mark { (part.text) } } @else { (part.text) } } }
                    (None, None) => (found.prompt),
                }
            }
            span.meta { (meta) }
        }
    }
}

fn wrong(error: &Error) -> Markup {
    html! {
        main.plain #main tabindex="-1" data-unfinished=(error.message) data-hint=(error.hint) {
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
