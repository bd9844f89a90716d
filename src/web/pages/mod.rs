//! The pages, rendered on the server, one per file, and the frame they share.

mod audit;
mod card;
mod changes;
mod compare;
mod continuing;
mod facets;
mod film;
mod frame;
mod grid;
mod loupe;
mod naming;
mod projects;
mod recipe;
mod recovery;
mod search;
mod session;
mod session_head;
mod sessions;
mod statistics;
mod story;
mod terms;
mod trail;
mod tree;
mod verdict;
mod workspace;

pub(super) use frame::nothing_here;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::server::get_only;
use super::state::Gallery;
use crate::model::Status;

/// Handles `GET /here.js`: identifies this workspace for data that scripts keep in the browser, since different
/// workspaces may be served at the same address over time.
async fn here(State(gallery): State<Gallery>) -> Response {
    let text = format!("export const workspace = \"{}\";\n", gallery.mark());
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], text).into_response()
}

/// Preloads what the first pages need. Failures surface when a page asks again.
pub(super) async fn warm_up(gallery: Gallery) {
    let overview = gallery.overview();
    let read = gallery.read(move |workspace, _| {
        let selection = overview.select(workspace, Status::Active, None)?;
        for row in selection.rows.iter().take(statistics::MAX_COSTED) {
            workspace.cost(row.id)?;
        }
        Ok(())
    });
    if let Err(error) = read.await {
        tracing::debug!(%error, "the pages could not be prepared");
    }
}

/// Returns the routes of all pages.
pub(super) fn routes() -> Router<Gallery> {
    Router::new()
        .route("/", get_only(get(sessions::page)))
        .route("/sessions/part", get_only(get(sessions::part)))
        .route("/sessions/marks", get_only(get(sessions::marks)))
        .route("/sessions/{id}", get_only(get(session::last)))
        .route("/sessions/{id}/strip", get_only(get(session::strip)))
        .route("/sessions/{id}/audit", get_only(get(audit::session)))
        .route("/sessions/{id}/verdict", get_only(get(verdict::part)))
        .route("/sessions/{id}/head", get_only(get(session::head)))
        .route("/sessions/{id}/grid", get_only(get(grid::page)))
        .route("/sessions/{id}/story", get_only(get(story::page)))
        .route("/sessions/{id}/tree", get_only(get(tree::page)))
        .route("/sessions/{id}/{index}", get_only(get(session::page)))
        .route("/sessions/{id}/{index}/part", get_only(get(session::part)))
        .route("/sessions/{id}/{index}/{image}", get_only(get(session::image)))
        .route("/sessions/{id}/{index}/recipe", get_only(get(session::whole)))
        .route("/sessions/{id}/{index}/a1111", get_only(get(continuing::a1111)))
        .route("/sessions/{id}/{index}/workflow", get_only(get(continuing::workflow)))
        .route("/sessions/{id}/{index}/raw", get_only(get(session::raw)))
        .route("/search", get_only(get(search::page)))
        .route("/search/part", get_only(get(search::part)))
        .route("/compare", get_only(get(compare::page)))
        .route("/compare/part", get_only(get(compare::part)))
        .route("/compare/seen", get_only(get(compare::seen)))
        .route("/compare/sheet.png", get_only(get(compare::sheet)))
        .route("/here.js", get_only(get(here)))
        .route("/projects", get_only(get(projects::page)))
        .route("/workspace", get_only(get(workspace::page)))
}
