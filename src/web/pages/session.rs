//! `/sessions/{id}` and `/sessions/{id}/{index}`: one session. The chosen iteration large, what is known of it beside it,
//! all of them in a strip below. Scripts ask for the middle (`…/part`) and for more of the strip.

use axum::extract::{Path, Query, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::changes;
use super::frame::{Broken, Page, SearchBox, framed};
use super::recipe;
use crate::model::diff::RecipeDiff;
use crate::model::{Hash, IterationId, OutcomeStatus};
use crate::tracker::{Error, ErrorKind, GetRequest, IterationView, Step, StripView, Tracker, a1111_text};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::url;
use crate::web::words;

/// Steps that come with the page.
const FIRST_STEPS: u32 = 100;
/// The most steps at once.
const MOST_STEPS: u32 = 200;
/// Links to other iterations, each with its picture.
const MOST_LINKS: usize = 24;

/// `GET /sessions/{id}`: its last iteration.
pub(super) async fn last(State(gallery): State<Gallery>, Path(id): Path<String>) -> Result<Response, Broken> {
    shown(gallery, id, None).await
}

/// `GET /sessions/{id}/{index}`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, String)>,
) -> Result<Response, Broken> {
    let Ok(index) = index.parse() else { return Ok(Redirect::to(&format!("/sessions/{id}")).into_response()) };
    shown(gallery, id, Some(index)).await
}

async fn shown(gallery: Gallery, id: String, index: Option<u32>) -> Result<Response, Broken> {
    let read = gallery.ask(move |tracker, _| {
        let row = tracker.session(&id)?;
        let index = index.unwrap_or(row.current_iteration_index());
        let around = index.saturating_sub(index % FIRST_STEPS);
        let strip = tracker.strip(&id, around, FIRST_STEPS)?;
        Ok((strip, index, Chosen::read(tracker, &id, index)))
    });
    let (strip, index, chosen) = read.await?;
    let (chosen, damage) = match chosen {
        Ok(chosen) => (Some(chosen), None),
        // One iteration that is lost leaves the others to look at.
        Err(error) if error.kind == ErrorKind::Damaged => (None, Some(error)),
        Err(error) => return Err(error.into()),
    };
    let middle = match (&chosen, &damage) {
        (Some(chosen), _) => middle(chosen),
        (None, Some(error)) => lost(index, error),
        (None, None) => html! {},
    };
    let row = &strip.session;
    let name = row.title().map_or_else(|| row.id().to_string(), str::to_owned);
    let page = Page { title: &title(&name, index), name: "session", typed: SearchBox::default() };
    let body = html! {
        main #main tabindex="-1" data-session=(row.id()) data-count=(row.iteration_count()) data-index=(index) data-archived[row.archived()] {
            header.head {
                h1 { (name) }
                @if row.archived() { span.outcome { "archived" } }
                span.muted {
                    span #count { (words::count(row.iteration_count().into(), "iteration")) }
                    " · " (words::time(row.last_modified_at()))
                    @if let Some(project) = row.project() { " · " a href={ "/?project=" (url::encode(project)) } { (project) } }
                }
                span.spring {}
                button type="button" data-do="copy" data-what="Session id" data-text=(row.id()) { "Copy id" }
                a.button href={ "/sessions/" (row.id()) "/audit" } { "Audit" }
                button type="button" data-do="archive" { @if row.archived() { "Restore" } @else { "Archive" } }
            }
            div #view { (middle) }
            nav.strip #strip aria-label="Iterations" data-lanes=(strip.lanes) tabindex="-1" {
                div.film { (takes(&strip, index)) }
            }
        }
    };
    Ok(framed(&page, &body))
}

/// `GET /sessions/{id}/{index}/part`: the middle of the page.
pub(super) async fn part(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let read = gallery.ask(move |tracker, _| {
        let row = tracker.session(&id)?;
        Ok((row, Chosen::read(tracker, &id, index)))
    });
    let (row, chosen) = read.await?;
    let name = row.title().map_or_else(|| row.id().to_string(), str::to_owned);
    let body = match chosen {
        Ok(chosen) => middle(&chosen),
        Err(error) if error.kind == ErrorKind::Damaged => lost(index, &error),
        Err(error) => return Err(error.into()),
    };
    // Headers hold no letters beyond ASCII.
    let title = url::encode(&format!("{} · Retake", title(&name, index)));
    Ok(([(HeaderName::from_static("x-title"), title)], reply::html(body)).into_response())
}

/// A window of the strip.
#[derive(Deserialize)]
pub(super) struct Window {
    #[serde(default)]
    from: u32,
    #[serde(default)]
    limit: Option<u32>,
}

/// `GET /sessions/{id}/strip`: more of the strip.
pub(super) async fn strip(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(window): Query<Window>,
) -> Result<Response, Broken> {
    let limit = window.limit.unwrap_or(FIRST_STEPS).min(MOST_STEPS);
    let strip = gallery.ask(move |tracker, _| tracker.strip(&id, window.from, limit)).await?;
    let headers = [
        (HeaderName::from_static("x-lanes"), strip.lanes.to_string()),
        (HeaderName::from_static("x-count"), strip.session.iteration_count().to_string()),
    ];
    Ok((headers, reply::html(takes(&strip, u32::MAX))).into_response())
}

/// `GET /sessions/{id}/{index}/recipe`: the recipe whole as JSON, however large.
pub(super) async fn whole(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let read = gallery.ask(move |tracker, _| tracker.whole(&format!("{id}#{index}")));
    let (_, state) = read.await?;
    let text = serde_json::to_string_pretty(&state.iteration.recipe).unwrap_or_default();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// `GET /sessions/{id}/{index}/a1111`: the recipe whole as A1111, Forge and the like take it from a paste.
pub(super) async fn a1111(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let (_, state) = gallery.ask(move |tracker, _| tracker.whole(&format!("{id}#{index}"))).await?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], a1111_text(&state.iteration.recipe)).into_response())
}

/// `GET /sessions/{id}/{index}/raw`: every text of the picture's file.
pub(super) async fn raw(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let view = gallery.ask(move |tracker, _| tracker.raw(&format!("{id}#{index}"))).await?;
    Ok(reply::html(html! {
        @if let Some(generator) = &view.generator { p.muted { "Made with " (generator) } }
        @if view.raw.is_empty() { p.muted { "The file says nothing of how it was made." } }
        @for entry in &view.raw { h2 { (entry.key) " " span.muted { (entry.place) } } pre { (entry.text) } }
        @for note in &view.notes { p.muted { (note) } }
    }))
}

/// The chosen iteration, with what it came from and what came of it.
struct Chosen {
    view: IterationView,
    diff: Option<RecipeDiff>,
    parent: Option<Link>,
    children: Vec<Link>,
    more_children: usize,
}

/// Another iteration.
struct Link {
    id: IterationId,
    image: Option<Hash>,
}

impl Chosen {
    fn read(tracker: &Tracker, id: &str, index: u32) -> Result<Chosen, Error> {
        let view = tracker.get(&GetRequest { reference: format!("{id}#{index}"), include_image: false })?;
        let link = |id: IterationId| {
            let found = tracker.get(&GetRequest { reference: id.to_string(), include_image: false });
            Link { id, image: found.ok().and_then(|view| view.images.first().map(|image| image.hash)) }
        };
        // What was lost is still named, without its picture and what changed.
        let before = view.parent.and_then(|parent| tracker.whole(&parent.to_string()).ok());
        let diff = before.map(|(_, state)| RecipeDiff::between(&state.iteration.recipe, &view.recipe.recipe));
        Ok(Chosen {
            diff,
            parent: view.parent.map(link),
            children: view.children.iter().take(MOST_LINKS).copied().map(link).collect(),
            more_children: view.children.len().saturating_sub(MOST_LINKS),
            view,
        })
    }
}

fn title(name: &str, index: u32) -> String {
    format!("{name} #{index}")
}

fn middle(chosen: &Chosen) -> Markup {
    html! { (stage(&chosen.view)) (facts(chosen)) }
}

fn stage(view: &IterationView) -> Markup {
    let first = view.images.first();
    html! {
        div.stage {
            figure {
                @match first {
                    Some(image) if !image.missing && image.mime_type.starts_with("image/") => {
                        a href={ "/images/" (image.hash) } title="Open the original" {
                            img.picture src={ "/images/" (image.hash) } alt=(alt(view)) width=[image.width] height=[image.height];
                            span.gone.unseen { strong { "The picture cannot be shown" } span { "Its file is gone, or holds something else. Its recipe is here. Record the original again, and it takes its old place." } }
                        }
                    }
                    Some(image) if !image.missing => {
                        div.gone { strong { "No picture a browser shows" } a.button href={ "/images/" (image.hash) } { "Keep the file" } }
                    }
                    Some(_) => {
                        div.gone { strong { "The picture's file is gone" } span { "Its recipe is here. Record the original again, and it takes its old place." } }
                    }
                    None => (nothing(view)),
                }
            }
            @if view.images.len() > 1 {
                div.more {
                    @for image in view.images.iter().skip(1) {
                        a href={ "/images/" (image.hash) } { img src={ "/thumbs/" (image.hash) } alt="Another picture of this iteration" loading="lazy"; }
                    }
                }
            }
        }
    }
}

fn nothing(view: &IterationView) -> Markup {
    html! {
        div.gone {
            strong {
                @match view.outcome.status {
                    OutcomeStatus::Succeeded => "No picture was kept",
                    OutcomeStatus::Failed => "This attempt failed",
                    OutcomeStatus::Refused => "This attempt was refused",
                }
            }
            @if let Some(message) = &view.outcome.message { span { (message) } }
        }
    }
}

fn lost(index: u32, error: &Error) -> Markup {
    html! {
        div.stage { figure { div.gone { strong { "#" (index) " was lost to damage" } span { (error.message) } } } }
        aside.facts aria-label="Details" { section { h2 { "#" (index) } p.muted { (error.hint) } } }
    }
}

fn alt(view: &IterationView) -> String {
    let prompt = &view.recipe.recipe.prompt;
    let short: String = prompt.chars().take(200).collect();
    format!("#{}: {short}", view.index)
}

fn facts(chosen: &Chosen) -> Markup {
    let view = &chosen.view;
    let rating = view.annotations.rating.unwrap_or(0);
    let image = view.images.first().map(|image| image.hash.to_string());
    html! {
        aside.facts aria-label="Details" tabindex="0" {
            div.step {
                h2 { "#" (view.index) }
                span.muted { (words::time(view.timestamp)) }
                @match view.outcome.status {
                    OutcomeStatus::Failed => span.outcome { "failed" },
                    OutcomeStatus::Refused => span.outcome { "refused" },
                    OutcomeStatus::Succeeded => {}
                }
                span.spring {}
                span.stars role="group" aria-label={ "Rating: " (rating) " of 5" } {
                    @for star in 1..=5_u8 {
                        button.on[star <= rating] type="button" data-do="rate" data-rating=(star) aria-label={ "Rate " (star) " of 5" } aria-pressed=(star == rating) { "★" }
                    }
                }
            }
            div.row {
                button type="button" data-tray=(view.reference) data-image=[image.as_deref()] aria-pressed="false" { "Add to compare" }
                @if image.is_some() { a.button href={ "/search?like=" (url::encode(&view.reference.to_string())) } { "Similar" } }
                @if let Some(parent) = &chosen.parent {
                    button type="button" data-do="compare-parent" data-parent=(parent.id) { "Compare with #" (parent.id.index) }
                }
            }
            @if let Some(diff) = &chosen.diff {
                section {
                    h2 { "Changed from " (here_or_there(view, chosen.parent.as_ref())) }
                    (changes::list(diff))
                }
            }
            section {
                h2 { "Prompt" span.spring {} (copy_button("Prompt", "#prompt")) }
                p.prompt #prompt { (view.recipe.recipe.prompt) }
                @if let Some(sent) = &view.recipe.recipe.prompt_sent {
                    details data-name="sent" { summary { "As it was sent" } p.prompt.small { (sent) } }
                }
                @if let Some(negative) = &view.recipe.recipe.negative_prompt {
                    h2 { "Negative prompt" span.spring {} (copy_button("Negative prompt", "#negative")) }
                    p.prompt.small #negative { (negative) }
                }
            }
            section { h2 { "Recipe" } (recipe::pairs(view)) }
            section {
                h2 { "Copy" }
                div.row {
                    button type="button" data-do="copy" data-what="A1111 text" data-path={ "/sessions/" (view.session_id) "/" (view.index) "/a1111" } { "A1111 text" }
                    button type="button" data-do="copy" data-what="JSON" data-path={ "/sessions/" (view.session_id) "/" (view.index) "/recipe" } { "JSON" }
                    button type="button" data-do="copy" data-what="Reference" data-text=(view.reference) { "Reference" }
                }
            }
            section {
                h2 { "Notes" span.spring {} button.quiet type="button" data-do="tag" { "Tags" } button.quiet type="button" data-do="note" { "Note" } }
                @if view.annotations.tags.is_empty() && view.annotations.note.is_none() { p.muted { "None yet." } }
                @if !view.annotations.tags.is_empty() {
                    div.tags { @for tag in &view.annotations.tags { a.chip data-tag=(tag) href={ "/search?q=" (url::encode(&format!("tag:\"{tag}\""))) } { (tag) } } }
                }
                @if let Some(note) = &view.annotations.note { p.prompt.small data-note="" { (note) } }
            }
            (lineage(chosen))
            @if !view.recipe.recipe.parameters.is_empty() || view.recipe.parameters_omitted_bytes.is_some() {
                details data-name="parameters" {
                    summary { "Parameters" }
                    @match view.recipe.parameters_omitted_bytes {
                        Some(bytes) => p.muted { (words::size(bytes)) ". " a href={ "/sessions/" (view.session_id) "/" (view.index) "/recipe" } { "Show the whole recipe" } },
                        None => pre { (serde_json::to_string_pretty(&view.recipe.recipe.parameters).unwrap_or_default()) },
                    }
                }
            }
            @if !view.images.is_empty() {
                details data-name="file" {
                    summary { "File" }
                    @for image in &view.images {
                        dl.pairs {
                            @if let Some(name) = &image.name { dt { "Name" } dd { (name) } }
                            dt { "Type" } dd { (image.mime_type) }
                            dt { "Size" } dd { (words::size(image.bytes)) @if let (Some(width), Some(height)) = (image.width, image.height) { ", " (width) " × " (height) } }
                            dt { "Hash" } dd { code { (image.hash) } }
                        }
                    }
                }
            }
            @if view.images.first().is_some_and(|image| !image.missing) {
                details data-name="raw" data-load={ "/sessions/" (view.session_id) "/" (view.index) "/raw" } { summary { "Metadata in the file" } div { p.muted { "Reading…" } } }
            }
            p.muted { "Recorded " (words::time(view.recorded_at)) " by " (view.recorded_by.user) " with " (view.recorded_by.client) }
            @if !view.truncated.is_empty() { p.muted { "Shown in part: " (view.truncated.join(", ")) } }
        }
    }
}

fn here_or_there(view: &IterationView, parent: Option<&Link>) -> String {
    match parent {
        Some(parent) if parent.id.session == view.session_id => format!("#{}", parent.id.index),
        Some(parent) => parent.id.to_string(),
        None => "nothing".to_owned(),
    }
}

fn copy_button(what: &str, from: &str) -> Markup {
    html! { button.quiet type="button" data-do="copy" data-what=(what) data-from=(from) aria-label={ "Copy: " (what) } { "Copy" } }
}

fn lineage(chosen: &Chosen) -> Markup {
    let view = &chosen.view;
    let to = |link: &Link| {
        let here = link.id.session == view.session_id;
        html! {
            @if let Some(image) = link.image { img src={ "/thumbs/" (image) } alt="" loading="lazy"; }
            span { @if here { "#" (link.id.index) } @else { (link.id) } }
        }
    };
    let index = |link: &Link| (link.id.session == view.session_id).then_some(link.id.index);
    let address = |link: &Link| format!("/sessions/{}/{}", link.id.session, link.id.index);
    html! {
        @if chosen.parent.is_some() || !chosen.children.is_empty() || view.likely_parent.is_some() {
            section {
                @if let Some(parent) = &chosen.parent {
                    h2 { "Came from" }
                    div.links { a href=(address(parent)) data-index=[index(parent)] data-parent-link="" { (to(parent)) } }
                    @if let Some(reason) = &view.parent_reason { p.muted { (reason) } }
                }
                @if let Some(likely) = &view.likely_parent {
                    h2 { "May have come from" }
                    div.links { a href={ "/sessions/" (likely.reference.session) "/" (likely.reference.index) } { span { (likely.reference) } } }
                    p.muted { (likely.reason) }
                }
                @if !chosen.children.is_empty() {
                    h2 { "Led to" }
                    div.links { @for child in &chosen.children { a href=(address(child)) data-index=[index(child)] data-child-link="" { (to(child)) } } }
                    @if chosen.more_children > 0 { p.muted { "and " (chosen.more_children) " more" } }
                }
            }
        }
    }
}

fn takes(strip: &StripView, chosen: u32) -> Markup {
    let id = strip.session.id();
    html! { @for step in &strip.steps { (take(&format!("/sessions/{id}/{}", step.index), step, step.index == chosen)) } }
}

fn take(address: &str, step: &Step, chosen: bool) -> Markup {
    let parent = step.parent_lane.and(step.parent).map(|parent| parent.index);
    let change = step.change.as_deref().unwrap_or(&step.prompt);
    html! {
        a.take href=(address) title=(change) data-index=(step.index) data-lane=(step.lane) data-parent=[parent] data-parent-lane=[step.parent_lane]
            data-image=[step.image] aria-current=[chosen.then_some("true")] {
            span.pic {
                @match (step.image, step.outcome) {
                    (Some(image), _) => { img src={ "/thumbs/" (image) } alt="" loading="lazy" decoding="async"; }
                    (None, OutcomeStatus::Failed) => span.no { "failed" },
                    (None, OutcomeStatus::Refused) => span.no { "refused" },
                    (None, OutcomeStatus::Succeeded) => span.no { "no picture" },
                }
            }
            span.under { span { "#" (step.index) } span.sr { (change) } @if let Some(rating) = step.rating { span.rated aria-label={ (rating) " of 5" } { @for _ in 0..rating { "★" } } } }
        }
    }
}
