//! Responses: JSON, pages, errors with a status, and how long each may be cached.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped};

use crate::wire::{Error, ErrorKind};

/// The browser may cache the response but must revalidate it.
pub(super) const ASK_AGAIN: HeaderValue = HeaderValue::from_static("private, no-cache");
/// The content at this URL never changes.
pub(super) const FOREVER: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");

/// An error as a JSON response.
pub(super) struct Failed(pub(super) Error);

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let Failed(error) = self;
        if !error.causes.is_empty() {
            // The JSON has no field for causes, which are meant for the administrator.
            tracing::warn!(causes = ?error.causes, "{}", error.message);
        }
        (status(error.kind), Json(error.view())).into_response()
    }
}

/// Returns the HTTP status of an error kind.
pub(super) fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Conflict | ErrorKind::Archived => StatusCode::CONFLICT,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        // It existed and is gone until it is restored.
        ErrorKind::Damaged => StatusCode::GONE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the response to a refused request.
pub(super) fn refused(status: StatusCode, message: &str, hint: &str) -> Response {
    (status, Json(Error::new(ErrorKind::Invalid, message, hint).view())).into_response()
}

/// Returns a page or a part of one.
pub(super) fn html(markup: Markup) -> Response {
    let PreEscaped(text) = markup;
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], [(CACHE_CONTROL, ASK_AGAIN)], text).into_response()
}
