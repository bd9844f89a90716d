//! Styles and scripts, embedded in the binary. Their URLs contain a hash of all assets, so that browsers can cache them
//! indefinitely and a new version gets new URLs. Scripts import each other by relative name.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use super::reply::{FOREVER, refused};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The name, media type and contents of every asset.
const ASSETS: &[(&str, &str, &[u8])] = &[
    ("style.css", STYLE, include_bytes!("assets/style.css")),
    ("tray.css", STYLE, include_bytes!("assets/tray.css")),
    ("session.css", STYLE, include_bytes!("assets/session.css")),
    ("views.css", STYLE, include_bytes!("assets/views.css")),
    ("theme.js", SCRIPT, include_bytes!("assets/theme.js")),
    ("app.js", SCRIPT, include_bytes!("assets/app.js")),
    ("kit.js", SCRIPT, include_bytes!("assets/kit.js")),
    ("keys.js", SCRIPT, include_bytes!("assets/keys.js")),
    ("tray.js", SCRIPT, include_bytes!("assets/tray.js")),
    ("results.js", SCRIPT, include_bytes!("assets/results.js")),
    ("wall.js", SCRIPT, include_bytes!("assets/wall.js")),
    ("typing.js", SCRIPT, include_bytes!("assets/typing.js")),
    ("shelf.css", STYLE, include_bytes!("assets/shelf.css")),
    ("compare.css", STYLE, include_bytes!("assets/compare.css")),
    ("lens.js", SCRIPT, include_bytes!("assets/lens.js")),
    ("completion.js", SCRIPT, include_bytes!("assets/completion.js")),
    ("band.js", SCRIPT, include_bytes!("assets/band.js")),
    ("pair.js", SCRIPT, include_bytes!("assets/pair.js")),
    ("actions.js", SCRIPT, include_bytes!("assets/actions.js")),
    ("select.js", SCRIPT, include_bytes!("assets/select.js")),
    ("intake.js", SCRIPT, include_bytes!("assets/intake.js")),
    ("provenance.js", SCRIPT, include_bytes!("assets/provenance.js")),
    ("session.js", SCRIPT, include_bytes!("assets/session.js")),
    ("stage.js", SCRIPT, include_bytes!("assets/stage.js")),
    ("strip.js", SCRIPT, include_bytes!("assets/strip.js")),
    ("motion.js", SCRIPT, include_bytes!("assets/motion.js")),
    ("slideshow.js", SCRIPT, include_bytes!("assets/slideshow.js")),
    ("zoom.js", SCRIPT, include_bytes!("assets/zoom.js")),
    ("writes.js", SCRIPT, include_bytes!("assets/writes.js")),
    ("head.js", SCRIPT, include_bytes!("assets/head.js")),
    ("grid.js", SCRIPT, include_bytes!("assets/grid.js")),
    ("story.js", SCRIPT, include_bytes!("assets/story.js")),
    ("tree.js", SCRIPT, include_bytes!("assets/tree.js")),
    ("compare.js", SCRIPT, include_bytes!("assets/compare.js")),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
];

/// Returns the URL of an asset.
pub(super) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", *BUILD)
}

/// A hash of all assets together.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let mut hash = blake3::Hasher::new();
    for (name, _, bytes) in ASSETS {
        hash.update(name.as_bytes()).update(bytes);
    }
    hash.finalize().to_hex().chars().take(16).collect()
});

/// Handles `GET /assets/{build}/{name}`.
pub(super) async fn asset(Path((build, name)): Path<(String, String)>) -> Response {
    let found = ASSETS.iter().find(|(known, _, _)| *known == name && build == *BUILD);
    match found {
        Some((_, kind, bytes)) => ([(CONTENT_TYPE, *kind)], [(CACHE_CONTROL, FOREVER)], *bytes).into_response(),
        None => refused(StatusCode::NOT_FOUND, "file not found", "reload the page: Retake was updated"),
    }
}
