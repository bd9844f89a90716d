//! The pages, rendered on the server, one a file; and the frame they all have.

mod frame;
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
}
