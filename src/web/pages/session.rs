//! `/sessions/{id}`, `/sessions/{id}/{index}` and `/sessions/{id}/{index}/{image}`: the loupe. One large image with its
//! facts, and the filmstrip below. Scripts request the facts of other iterations (`…/part`), more of the strip, and the
//! header.

use axum::extract::{Path, Query, State};
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;

use super::frame::Broken;
use super::session_head::{self, NamedSession, View, session_id, summary_of, worded};
use super::{film, loupe};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::url;
use crate::wire::{Api, ErrorKind};
use crate::workspace::Mark;

/// The number of steps rendered with the page.
const FIRST_STEPS: u32 = 100;
/// The maximum number of steps per request.
const MAX_STEPS: u32 = 200;

/// Handles `GET /sessions/{id}`: shows the last iteration.
pub(super) async fn last(State(gallery): State<Gallery>, Path(id): Path<String>) -> Result<Response, Broken> {
    shown(gallery, id, None, 0).await
}

/// Handles `GET /sessions/{id}/{index}`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, String)>,
) -> Result<Response, Broken> {
    let Ok(index) = index.parse() else { return Ok(Redirect::to(&format!("/sessions/{id}")).into_response()) };
    shown(gallery, id, Some(index), 0).await
}

/// Handles `GET /sessions/{id}/{index}/{image}`: another image of an iteration, from 0.
pub(super) async fn image(
    State(gallery): State<Gallery>,
    Path((id, index, image)): Path<(String, String, String)>,
) -> Result<Response, Broken> {
    match (index.parse(), image.parse()) {
        (Ok(index), Ok(image)) => shown(gallery, id, Some(index), image).await,
        _ => Ok(Redirect::to(&format!("/sessions/{id}")).into_response()),
    }
}

async fn shown(gallery: Gallery, id: String, index: Option<u32>, image: usize) -> Result<Response, Broken> {
    let name = id.clone();
    let is_local = gallery.is_local();
    let read = gallery.ask(move |workspace, _| {
        let read = session_id(&id).and_then(|id| {
            let row = workspace.summary(id)?;
            let index = index.unwrap_or(row.current_iteration_index());
            let from = index.saturating_sub(index % FIRST_STEPS);
            let strip = workspace.strip(row.id, from, FIRST_STEPS)?;
            Ok((strip, from, index, loupe::SelectedIteration::read(workspace, row.id.iteration(index), is_local)))
        });
        Ok(read.map_err(|error| (error, summary_of(workspace, &id))))
    });
    let (strip, from, index, chosen) = read.await?.map_err(|(error, found)| worded(error, &name, found.as_ref()))?;
    let named = NamedSession::new(strip.session.clone(), strip.subject.as_deref());
    let row = &named.row;
    let (image, middle) = match &chosen {
        Ok(chosen) => {
            let image = image.min(chosen.last_image());
            (image, html! { (loupe::stage(chosen, image)) (loupe::facts(chosen, image)) })
        }
        // If one iteration is lost, the others can still be shown.
        Err(error) if error.kind == ErrorKind::Damaged => {
            let near = nearest(&strip.marks, index);
            (0, loupe::lost(row.id.iteration(index), near))
        }
        Err(error) => return Err(worded(error.clone(), &name, Some(row))),
    };
    let body = html! {
        main #main tabindex="-1" data-session=(row.id) data-name=(named.name) data-count=(row.iteration_count()) data-index=(index)
            data-image=(image) data-marks=(film::marks(&strip)) data-archived[row.archived]
            data-cover=[strip.cover.map(|(index, number)| format!("{index}/{number}"))] {
            div #view { (middle) }
            section.strip aria-label="Iterations" {
                div.tools {
                    label { span.sr { "Show in the strip" }
                        select #filter {
                            option value="takes" { "All" }
                            option value="unreviewed" { "Unreviewed" }
                            option value="liked" { "★ 4 and up" }
                            option value="everything" { "With rejected" }
                        }
                    }
                    button.quiet #lanes type="button" aria-pressed="false" hidden[strip.lanes < 2] title="Unfold the branches" data-shortcut="b" { "⎇ Branches" }
                    span.muted #shown-count {}
                }
                nav.film #strip aria-label="Filmstrip" data-lanes=(strip.lanes) data-from=(from) data-step=(FIRST_STEPS) {
                    div.reel { (film::takes(&strip, from, FIRST_STEPS, index)) }
                }
            }
            p.sr #announce role="status" aria-live="polite" {}
        }
    };
    Ok(session_head::framed(&named, View::Loupe, index, &loupe::title(&named.name, index), &body))
}

/// Handles `GET /sessions/{id}/{index}/part`: the facts, and the placeholder of a missing image.
pub(super) async fn part(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let is_local = gallery.is_local();
    let read = gallery.ask(move |workspace, _| {
        let row = workspace.summary(session_id(&id)?)?;
        let chosen = loupe::SelectedIteration::read(workspace, row.id.iteration(index), is_local);
        Ok((row.id, chosen))
    });
    let (id, chosen) = read.await?;
    let body = match chosen {
        Ok(chosen) => html! { (loupe::stage(&chosen, 0)) (loupe::facts(&chosen, 0)) },
        Err(error) if error.kind == ErrorKind::Damaged => loupe::lost(id.iteration(index), None),
        Err(error) => return Err(error.into()),
    };
    Ok(reply::html(body))
}

/// Handles `GET /sessions/{id}/head`: the header and the menu, for a page that is open while the session changes.
pub(super) async fn head(State(gallery): State<Gallery>, Path(id): Path<String>) -> Result<Response, Broken> {
    let strip = gallery.ask(move |workspace, _| Ok(workspace.strip(session_id(&id)?, 0, 0)?)).await?;
    let named = NamedSession::new(strip.session, strip.subject.as_deref());
    // Header values are ASCII.
    let name = url::encode(&named.name);
    Ok(([(HeaderName::from_static("x-name"), name)], session_head::part(&named)).into_response())
}

/// A range of the strip.
#[derive(Deserialize)]
pub(super) struct StripRange {
    #[serde(default)]
    from: u32,
    #[serde(default)]
    limit: Option<u32>,
}

/// Handles `GET /sessions/{id}/strip`: more of the strip.
pub(super) async fn strip(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(window): Query<StripRange>,
) -> Result<Response, Broken> {
    let limit = window.limit.unwrap_or(FIRST_STEPS).min(MAX_STEPS);
    let strip = gallery.ask(move |workspace, _| Ok(workspace.strip(session_id(&id)?, window.from, limit)?)).await?;
    let count = strip.session.iteration_count();
    Ok(reply::html(html! {
        div.reel data-lanes=(strip.lanes) data-count=(count) data-marks=(film::marks(&strip)) {
            (film::takes(&strip, window.from, limit, u32::MAX))
        }
    }))
}

/// Handles `GET /sessions/{id}/{index}/recipe`: the full recipe as JSON, however large.
pub(super) async fn whole(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let read = gallery.ask(move |workspace, _| Ok(workspace.state(session_id(&id)?.iteration(index))?));
    let state = read.await?;
    let text = serde_json::to_string_pretty(&state.iteration.recipe).unwrap_or_default();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// Handles `GET /sessions/{id}/{index}/raw`: all text in the image's file.
pub(super) async fn raw(
    State(gallery): State<Gallery>,
    Path((id, index)): Path<(String, u32)>,
) -> Result<Response, Broken> {
    let view = gallery.ask(move |workspace, _| Api::new(workspace).raw(&format!("{id}#{index}"))).await?;
    Ok(reply::html(html! {
        @if let Some(generator) = &view.generator { p.muted { "Generator: " (generator) } }
        @if view.raw.is_empty() && view.searched { p.muted { "No generation data in this file." } }
        @for entry in &view.raw { h3 { (entry.key) " " span.muted { (entry.place) } } pre dir="auto" tabindex="0" { (entry.text) } }
        @for note in &view.notes { p.muted { (note) } }
    }))
}

/// Returns the iteration closest to a lost one.
fn nearest(marks: &[Mark], index: u32) -> Option<u32> {
    let left = (0u32..).zip(marks).filter(|(_, mark)| **mark != Mark::Lost).map(|(at, _)| at);
    left.min_by_key(|at| at.abs_diff(index))
}
