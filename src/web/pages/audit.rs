//! `/sessions/{id}/audit`: everything that happened to a session, and whether it all checks out. `/workspace`: how the
//! workspace is doing, and what recovery ever did to it.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed};
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, AuditEvent, AuditRequest, AuditView, SessionRow};
use crate::workspace::{Recovery, WorkspaceStatus};

/// Where to go on.
#[derive(Deserialize)]
pub(super) struct At {
    #[serde(default)]
    at: Option<String>,
}

/// `GET /sessions/{id}/audit`.
pub(super) async fn session(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(at): Query<At>,
) -> Result<Response, Broken> {
    let begun = at.at.is_some();
    let read = gallery.ask(move |workspace, _| {
        let request = AuditRequest { session_id: id.clone(), cursor: at.at, limit: None };
        let api = Api::new(workspace).unbounded();
        let view = api.audit(&request)?;
        // A session of which nothing is left has no row, and its trail is all the more worth reading.
        Ok((api.session(&id).ok(), view))
    });
    let (row, view) = read.await?;
    let name = row.as_ref().and_then(SessionRow::title).map_or_else(|| view.session_id.to_string(), str::to_owned);
    let page = Page { title: &format!("Audit of {name}"), name: "audit", typed: SearchBox::default() };
    let body = html! {
        main #main tabindex="-1" {
            div.page {
                div.bar {
                    h1 { "Audit of " (name) }
                    span.spring {}
                    a.button href={ "/sessions/" (view.session_id) } { "Back to the session" }
                }
                (verdict(&view))
                section {
                    h2 { (words::count(view.total_events, "event")) }
                    ol.events { @for event in &view.events { (line(&view, event)) } }
                    @if begun { p { a href={ "/sessions/" (view.session_id) "/audit" } { "From the beginning" } } }
                    @if let Some(next) = &view.next_cursor { p { a.button href={ "/sessions/" (view.session_id) "/audit?at=" (next) } { "More events" } } }
                }
            }
        }
    };
    Ok(framed(&page, &body))
}

/// `GET /workspace`.
pub(super) async fn workspace(State(gallery): State<Gallery>) -> Result<Response, Broken> {
    let (status, recoveries) = gallery.ask(|workspace, _| Ok((workspace.status()?, workspace.recoveries()?))).await?;
    let page = Page { title: "Workspace", name: "workspace", typed: SearchBox::default() };
    let body = html! {
        main #main tabindex="-1" {
            div.page {
                h1 { "Workspace" }
                (figures(&status))
                section.block {
                    h2 { "Recoveries" }
                    @if recoveries.is_empty() { p { "None. Nothing was ever damaged here." } }
                    @else { p.muted { "Damage that was found, what was done about it, and what was set aside. Newest first. " code { "retake repair" } " marks the reports as read." } }
                }
                @for recovery in recoveries.iter().rev() { (report(recovery)) }
                p.muted { "Check every byte with " code { "retake verify" } ". The verbs of this page are at " a href="/api/openapi.json" { "/api" } "." }
            }
        }
    };
    Ok(framed(&page, &body))
}

fn verdict(view: &AuditView) -> Markup {
    let images = view.images.as_ref();
    let broken = images.map_or(0, |images| (images.missing.len() + images.damaged.len()) as u64 + images.omitted);
    let good = view.chain.holds && broken == 0 && view.lost.is_empty();
    html! {
        div.verdict.bad[!good] role="status" {
            strong {
                @if good { "Everything checks out" }
                @else if !view.chain.holds { "The chain does not hold" }
                @else if !view.lost.is_empty() { "Some events were lost, and the chain says so" }
                @else { "Some images are not what was recorded" }
            }
            @if view.chain.holds { span { "Every event names the one before it, unchanged, in both copies." } }
            @for fault in &view.chain.faults { span { "Event " (fault.seq) ": " (fault.what) } }
            @if view.chain.faults_omitted > 0 { span { "and " (view.chain.faults_omitted) " more" } }
            @if !view.lost.is_empty() { span { "Lost to damage: events " (view.lost.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) } }
            @if let Some(images) = images {
                span.muted { (words::count(images.checked, "picture")) " read and compared with their hash" @if broken == 0 { "." } @else { ":" } }
                @for image in &images.missing { span { a href={ "/sessions/" (image.reference.session) "/" (image.reference.index) } { "#" (image.reference.index) } ": its file is gone" } }
                @for image in &images.damaged { span { a href={ "/sessions/" (image.reference.session) "/" (image.reference.index) } { "#" (image.reference.index) } ": its file holds something else" } }
            }
        }
    }
}

fn line(view: &AuditView, event: &AuditEvent) -> Markup {
    html! {
        li {
            span.seq { (event.seq) }
            span.kind { (event.kind) }
            span.what {
                @if let Some(index) = event.index { a href={ "/sessions/" (view.session_id) "/" (index) } { "#" (index) } " " }
                (event.summary)
                @if let Some(reason) = &event.reason { " " span.muted { "“" (reason) "”" } }
            }
            span.who { (event.actor.user) " · " (event.actor.client) " · " time datetime=(event.at) data-exact="" { (event.at) } }
            span.hash title=(event.hash) { (event.hash) }
        }
    }
}

fn figures(status: &WorkspaceStatus) -> Markup {
    let sizes = &status.sizes;
    html! {
        dl.figures {
            div { dt { "Sessions" } dd { (words::grouped(status.sessions)) } }
            div { dt { "Archived" } dd { (words::grouped(status.archived)) } }
            div { dt { "Events" } dd { (words::grouped(status.events)) } }
            div { dt { "Images" } dd { (words::size(sizes.images)) } }
            div { dt { "Journal and database" } dd { (words::size(sizes.journal + sizes.database)) } }
            div { dt { "Set aside" } dd { (words::size(sizes.quarantine)) } }
        }
    }
}

fn report(recovery: &Recovery) -> Markup {
    html! {
        section.block {
            h2 { time datetime=(recovery.at) data-exact="" { (recovery.at) } }
            p { (recovery.message) }
            @if !recovery.causes.is_empty() { p.muted { "Noticed: " (recovery.causes.join("; ")) } }
            @for loss in &recovery.losses {
                p {
                    "Lost: "
                    @match loss.session {
                        Some(session) => a href={ "/sessions/" (session) "/audit" } { (session) },
                        None => "a session that is not known",
                    }
                    @if !loss.iterations.is_empty() { ", iterations " (loss.iterations.iter().take(40).map(u32::to_string).collect::<Vec<_>>().join(", ")) }
                }
            }
            @if !recovery.quarantined.is_empty() {
                details { summary { "Set aside: " (words::count(recovery.quarantined.len() as u64, "file")) } pre { (recovery.quarantined.join("\n")) } }
            }
        }
    }
}
