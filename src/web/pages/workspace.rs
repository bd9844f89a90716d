//! `/workspace`: the state of the workspace, statistics, and all recoveries so far.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::frame::{Broken, Page, SearchBox, framed};
use super::recovery;
use super::statistics::Statistics;
use crate::web::state::Gallery;
use crate::web::words;
use crate::workspace::{Recovery, WorkspaceStatus};

/// Handles `GET /workspace`.
pub(super) async fn page(State(gallery): State<Gallery>) -> Result<Response, Broken> {
    let overview = gallery.overview();
    let read = gallery.read(move |workspace, _| {
        Ok((workspace.status()?, workspace.recoveries()?, Statistics::read(workspace, &overview)?))
    });
    let (status, recoveries, statistics) = read.await?;
    let page = Page { title: "Workspace", name: "workspace", menu: "workspace", typed: SearchBox::default() };
    let body = html! {
        main #main tabindex="-1" {
            div.page {
                h1 { "Workspace" }
                (figures(&status))
                (statistics.shown())
                (check())
                (recovered(&recoveries, status.unread_recoveries.len() as u64))
                p.muted { a href="/api/openapi.json" { "HTTP API" } }
            }
        }
    };
    Ok(framed(&page, &body))
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
            div { dt { "Quarantine" } dd { (words::size(sizes.quarantine)) } }
        }
    }
}

fn check() -> Markup {
    html! {
        section.block #check {
            div.row { h2 { "Integrity" } span.spring {} button type="button" data-check="" hidden { "Verify now" } }
            p #checked role="status" { "Reads both copies of every event and every image. The same as " code { "retake verify" } "." }
            progress #checking max="1" value="0" aria-label="Progress of the check" hidden {}
            ul #found hidden {}
        }
    }
}

fn recovered(recoveries: &[Recovery], unread: u64) -> Markup {
    html! {
        section.block #recoveries {
            div.row {
                h2 { "Recoveries" }
                @if unread > 0 { span.muted { (words::grouped(unread)) " unread" } span.spring {} button type="button" data-read="" hidden { "Mark as read" } }
            }
            @if recoveries.is_empty() { p { "None. No damage has been found." } }
        }
        @for recovery in recoveries.iter().rev() { (recovery::report(recovery)) }
    }
}
