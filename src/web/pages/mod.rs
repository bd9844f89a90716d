//! The pages, rendered on the server, one a file; and the frame they all have.

mod audit;
mod changes;
mod compare;
mod frame;
mod projects;
mod recipe;
mod search;
mod session;
mod sessions;

pub(super) use frame::nothing_here;

use axum::Router;
use axum::routing::get;

use super::server::get_only;
use super::state::Gallery;

/// The routes of all pages.
pub(super) fn routes() -> Router<Gallery> {
    Router::new()
        .route("/", get_only(get(sessions::page)))
        .route("/sessions/part", get_only(get(sessions::part)))
        .route("/sessions/marks", get_only(get(sessions::marks)))
        .route("/sessions/{id}", get_only(get(session::last)))
        .route("/sessions/{id}/strip", get_only(get(session::strip)))
        .route("/sessions/{id}/audit", get_only(get(audit::session)))
        .route("/sessions/{id}/{index}", get_only(get(session::page)))
        .route("/sessions/{id}/{index}/part", get_only(get(session::part)))
        .route("/sessions/{id}/{index}/recipe", get_only(get(session::whole)))
        .route("/sessions/{id}/{index}/a1111", get_only(get(session::a1111)))
        .route("/sessions/{id}/{index}/raw", get_only(get(session::raw)))
        .route("/search", get_only(get(search::page)))
        .route("/search/part", get_only(get(search::part)))
        .route("/compare", get_only(get(compare::page)))
        .route("/compare/part", get_only(get(compare::part)))
        .route("/compare/seen", get_only(get(compare::seen)))
        .route("/projects", get_only(get(projects::page)))
        .route("/workspace", get_only(get(audit::workspace)))
}
