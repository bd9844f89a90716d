//! `/projects`: all projects with their numbers of sessions. Scripts show the same list on the wall.

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed};
use super::sessions::status_of;
use crate::model::Status;
use crate::web::state::Gallery;
use crate::web::words;
use crate::workspace::ProjectTally;

/// The maximum number of projects shown.
const MAX_SHOWN: usize = 400;

/// The query parameters: the status of the sessions to count, and the current project.
#[derive(Deserialize)]
pub(super) struct ProjectsParams {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    project: Option<String>,
}

/// Handles `GET /projects`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Query(chosen): Query<ProjectsParams>,
) -> Result<Response, Broken> {
    let status = status_of(chosen.status.as_deref())?;
    let overview = gallery.overview();
    let list = gallery.read(move |workspace, _| Ok(overview.projects(workspace)?)).await?;
    let page = Page { title: "Projects", name: "projects", menu: "projects", typed: SearchBox::default() };
    let body = html! {
        main #main tabindex="-1" { div.page { h1 { "Projects" } (projects(&list.0, status, &chosen)) } }
    };
    Ok(framed(&page, &body))
}

fn projects(list: &[ProjectTally], status: Status, chosen: &ProjectsParams) -> Markup {
    let sessions = |row: &ProjectTally| match status {
        Status::All => row.sessions,
        Status::Active => row.sessions.saturating_sub(row.archived),
        Status::Archived => row.archived,
    };
    let address =
        |project: Option<&str>| words::address("/", [("status", chosen.status.as_deref()), ("project", project)]);
    let shown: Vec<(&ProjectTally, u64)> =
        list.iter().map(|row| (row, sessions(row))).filter(|(_, sessions)| *sessions > 0).collect();
    let hidden = shown.len().saturating_sub(MAX_SHOWN) as u64;
    html! {
        div.projects {
            @if shown.is_empty() {
                p.muted { "None yet. Record with " code { "--project NAME" } " to keep what belongs together." }
            } @else {
                a href=(address(None)) aria-current=[chosen.project.is_none().then_some("true")] { span { "All projects" } span {} }
            }
            @for (row, sessions) in shown.into_iter().take(MAX_SHOWN) {
                a href=(address(Some(&row.name))) aria-current=[(chosen.project.as_deref() == Some(&row.name)).then_some("true")] {
                    span { (row.name) }
                    span title={ (words::count(sessions, "session")) ", " (words::count(row.iterations, "iteration")) " in all" } { (words::grouped(sessions)) span.sr { " sessions" } }
                }
            }
            @if hidden > 0 { p.muted { "and " (words::grouped(hidden)) " more; search with " code { "project:NAME" } } }
        }
    }
}
