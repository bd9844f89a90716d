//! Compresses pages, styles and scripts for clients that accept it. Images are compressed already, and streams are sent
//! as they arrive.

use std::io::Write;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The response sizes to compress, in bytes. Below, the headers outweigh the gain; above, it is not a page.
const SIZES: std::ops::RangeInclusive<u64> = 1024..=4 * 1024 * 1024;

/// Compresses the response to a request.
pub(super) async fn compress(request: Request, next: Next) -> Response {
    let accepted = request.headers().get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let accepts = accepted.split(',').any(|it| it.trim().split(';').next() == Some("gzip"));
    let response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_text = ["text/html", "text/css", "text/javascript"].iter().any(|text| kind.starts_with(text));
    let size = response.body().size_hint().exact().unwrap_or(0);
    if !accepts || !is_text || !SIZES.contains(&size) || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The size is known and small, so reading it cannot fail.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(4));
    let packed = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let Ok(packed) = packed else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(packed))
}
