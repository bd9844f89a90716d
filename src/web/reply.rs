//! What an answer looks like on the wire: JSON, pages, failures with a fitting status, and how long each may be kept.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, PreEscaped};

use crate::wire::{Error, ErrorKind};

/// What may be kept by nobody but the browser, and must be asked for again.
pub(super) const ASK_AGAIN: HeaderValue = HeaderValue::from_static("private, no-cache");
/// What never changes under its address.
pub(super) const FOREVER: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");

/// A failure as JSON.
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
            // The contract's error has no place for them, and they are for whoever looks after the machine.
            tracing::warn!(causes = ?error.causes, "{}", error.message);
        }
        (status(error.kind), Json(error.view())).into_response()
    }
}

/// The status that tells a program what the kind tells people.
pub(super) fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Conflict | ErrorKind::Archived => StatusCode::CONFLICT,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        // It was here, and will not be again unless someone brings it back.
        ErrorKind::Damaged => StatusCode::GONE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A refusal that is about the request itself and not about what it asks for.
pub(super) fn refused(status: StatusCode, message: &str, hint: &str) -> Response {
    (status, Json(Error::new(ErrorKind::Invalid, message, hint).view())).into_response()
}

/// A page, or a part of one.
pub(super) fn html(markup: Markup) -> Response {
    let PreEscaped(text) = markup;
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], [(CACHE_CONTROL, ASK_AGAIN)], text).into_response()
}
