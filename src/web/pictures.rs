//! `/images/{hash}`, `/thumbs/{hash}` and `/heat/{one}/{other}`: images by content hash, so that the content of a URL
//! never changes.
//!
//! Only types that browsers show as an image or play as a video are sent as such. Everything else is a download: an SVG
//! or HTML file recorded as an image would otherwise run scripts on our origin. Videos support range requests.

use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::ranges;
use super::reply::{FOREVER, Failed};
use super::state::Gallery;
use crate::export::ending;
use crate::images::{self, ThumbSide};
use crate::model::Hash;
use crate::wire::{Error, ErrorKind};
use crate::workspace::{OpenVideo, Workspace};

/// The media types that browsers show as an image and never as anything else.
const SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/// Returns whether a browser shows this media type as an image.
pub(super) fn is_shown(mime_type: &str) -> bool {
    SHOWN.contains(&mime_type)
}

/// Returns whether browsers play this media type, provided they support the codecs inside.
pub(super) fn is_played(mime_type: &str) -> bool {
    images::is_video(mime_type)
}

/// The maximum size of a heat map as PNG; a larger one is sent as JPEG.
const MAX_MAP_BYTES: usize = 1_500_000;

/// Handles `GET /images/{hash}`: the original, byte for byte.
pub(super) async fn original(
    State(gallery): State<Gallery>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let hash = hash(&name)?;
    if has_it(&headers, &name) {
        return Ok(unchanged(&name));
    }
    let video = gallery.ask(move |workspace, _| Ok(workspace.open_video(hash)?)).await;
    if let Some(OpenVideo { file, bytes, mime_type }) = video.map_err(|error| without_path(error, &name))? {
        let mut response = ranges::respond(file, bytes, &headers, &name);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime_type));
        keep(response.headers_mut(), &name);
        return Ok(named(response, &name));
    }
    let read = move |workspace: &Workspace| Ok(workspace.original(hash).map(|it| (it.data, it.mime_type))?);
    Ok(named(served(&gallery, &name, &headers, read).await?, &name))
}

/// Adds a file name of a readable length, for a browser that saves the image. Pages name their downloads themselves.
fn named(mut response: Response, name: &str) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let short = name.get(..12).unwrap_or(name);
    let value = kind.map(|kind| format!("inline; filename=\"{short}.{}\"", ending(kind)));
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
        response.headers_mut().entry(CONTENT_DISPOSITION).or_insert(value);
    }
    response
}

/// Handles `GET /thumbs/{hash}`: a small JPEG.
pub(super) async fn thumbnail(
    State(gallery): State<Gallery>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let hash = hash(&name)?;
    let read = move |workspace: &Workspace| Ok((workspace.thumbnail(hash, ThumbSide::Large)?, "image/jpeg"));
    served(&gallery, &name, &headers, read).await
}

/// Handles `GET /heat/{one}/{other}`: a map of where the second image differs from the first.
pub(super) async fn heat_map(
    State(gallery): State<Gallery>,
    Path((one, other)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let (first, second) = (hash(&one)?, hash(&other)?);
    let read = move |workspace: &Workspace| Ok(workspace.heat_map(first, second)?.within(MAX_MAP_BYTES));
    served(&gallery, &format!("{one}-{other}"), &headers, read).await
}

/// Serves an image, or `304 Not Modified` if the browser has it: the content of a hash never changes.
async fn served(
    gallery: &Gallery,
    name: &str,
    headers: &HeaderMap,
    read: impl FnOnce(&Workspace) -> Result<(Vec<u8>, &'static str), Error> + Send + 'static,
) -> Result<Response, Failed> {
    if has_it(headers, name) {
        return Ok(unchanged(name));
    }
    let picture = gallery.ask(move |workspace, _| read(workspace)).await;
    let (data, kind) = picture.map_err(|error| without_path(error, name))?;
    let shown = SHOWN.into_iter().find(|shown| *shown == kind);
    let mut response = data.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(shown.unwrap_or("application/octet-stream")));
    if shown.is_none() {
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    }
    keep(headers, name);
    Ok(response)
}

/// Returns why an image is unavailable, without disclosing a path on this machine.
pub(super) fn without_path(error: Error, name: &str) -> Error {
    let message = match error.kind {
        ErrorKind::NotFound => format!("there is no image {name}"),
        ErrorKind::Damaged => format!("image {name} is damaged"),
        ErrorKind::Invalid => format!("image {name} cannot be shown"),
        _ => {
            tracing::warn!(causes = ?error.causes, "{}", error.message);
            format!("image {name} cannot be read")
        }
    };
    Error::new(error.kind, message, error.hint)
}

/// Parses a hash: 64 lower-case hexadecimal digits, so that nothing else can become a path.
fn hash(name: &str) -> Result<Hash, Error> {
    let exact = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    name.parse().ok().filter(|_| exact).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "images are named by their hash",
            "write the 64 digits as `hash` of an image gives them",
        )
    })
}

fn has_it(headers: &HeaderMap, name: &str) -> bool {
    let sent = headers.get(IF_NONE_MATCH).and_then(|it| it.to_str().ok()).unwrap_or_default();
    sent.split(',').any(|it| it.trim().trim_start_matches("W/").trim_matches('"') == name)
}

fn unchanged(name: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    keep(response.headers_mut(), name);
    response
}

fn keep(headers: &mut HeaderMap, name: &str) {
    headers.insert(CACHE_CONTROL, FOREVER);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{name}\"")) {
        headers.insert(ETAG, tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hash_names_a_picture() {
        let good = "ab".repeat(32);
        assert!(hash(&good).is_ok());
        for name in [
            "",
            "..",
            "../../etc/passwd",
            &good.to_uppercase(),
            &format!("{good}0"),
            &good[1..],
            &good.replace('a', "/"),
        ] {
            assert_eq!(hash(name).unwrap_err().kind, ErrorKind::NotFound, "{name}");
        }
    }
}
