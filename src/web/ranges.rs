//! Responds to `Range` requests, with which browsers play and seek in videos without loading all of them. Supports a
//! single range (RFC 9110, section 14); a request for several gets the whole file, as the RFC allows.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::stream;

/// The number of bytes read at once.
const CHUNK_BYTES: u64 = 256 * 1024;

/// The part of a file to respond with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FilePart {
    Whole,
    Range(RangeInclusive<u64>),
    Unsatisfiable,
}

/// Returns the requested part of an open file. `tag` is the entity tag of the file, without quotes.
pub(super) fn respond(file: File, length: u64, request: &HeaderMap, tag: &str) -> Response {
    let (status, body, size, range) = match part(request, length, tag) {
        FilePart::Whole => (StatusCode::OK, stream_from(file, 0, length), length, None),
        FilePart::Range(range) => {
            let size = range.end() - range.start() + 1;
            let described = format!("bytes {}-{}/{length}", range.start(), range.end());
            (StatusCode::PARTIAL_CONTENT, stream_from(file, *range.start(), size), size, Some(described))
        }
        FilePart::Unsatisfiable => {
            (StatusCode::RANGE_NOT_SATISFIABLE, Body::empty(), 0, Some(format!("bytes */{length}")))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    if let Some(range) = range.and_then(|range| HeaderValue::from_str(&range).ok()) {
        headers.insert(CONTENT_RANGE, range);
    }
    response
}

fn part(request: &HeaderMap, length: u64, tag: &str) -> FilePart {
    let Some(range) = request.get(RANGE).and_then(|range| range.to_str().ok()) else { return FilePart::Whole };
    // The client has a part of a different version.
    if request.get(IF_RANGE).is_some_and(|known| known.as_bytes() != format!("\"{tag}\"").as_bytes()) {
        return FilePart::Whole;
    }
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-')) else {
        return FilePart::Whole;
    };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            let last = last.unwrap_or(u64::MAX).min(length.saturating_sub(1));
            match first {
                _ if first >= length => FilePart::Unsatisfiable,
                _ if first > last => FilePart::Whole,
                _ => FilePart::Range(first..=last),
            }
        }
        // A suffix range: the last bytes of the file.
        (Some(None), Some(Some(0))) => FilePart::Unsatisfiable,
        (Some(None), Some(Some(_))) if length == 0 => FilePart::Unsatisfiable,
        (Some(None), Some(Some(last))) => FilePart::Range(length.saturating_sub(last)..=length - 1),
        _ => FilePart::Whole,
    }
}

/// Parses one end of a range. The inner `None` means that it is left out, the outer one that it is malformed.
fn number(text: &str) -> Option<Option<u64>> {
    match text {
        "" => Some(None),
        _ if text.bytes().all(|byte| byte.is_ascii_digit()) => Some(Some(text.parse().unwrap_or(u64::MAX))),
        _ => None,
    }
}

/// Returns a body of `length` bytes of a file, read as the client consumes them.
fn stream_from(file: File, offset: u64, length: u64) -> Body {
    Body::from_stream(stream::unfold((file, offset, length), async |(file, offset, left)| {
        if left == 0 {
            return None;
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut file = file;
            file.seek(SeekFrom::Start(offset))?;
            let mut chunk = Vec::new();
            Read::by_ref(&mut file).take(left.min(CHUNK_BYTES)).read_to_end(&mut chunk)?;
            match chunk.len() as u64 {
                // The body ends before its announced length, so the client does not take a part for the whole.
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                read => Ok((Bytes::from(chunk), (file, offset + read, left - read))),
            }
        });
        match read.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((chunk, rest)) => Some((Ok::<_, io::Error>(chunk), rest)),
            Err(error) => {
                tracing::warn!(%error, "a video cannot be read");
                None
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_the_part_that_was_asked_for() {
        let of = |range: &str, length: u64| {
            let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_str(range).unwrap())]);
            part(&headers, length, "tag")
        };
        for (range, expected) in [
            ("bytes=0-", FilePart::Range(0..=99)),
            ("bytes=10-19", FilePart::Range(10..=19)),
            ("bytes=90-1000", FilePart::Range(90..=99)),
            ("bytes=-10", FilePart::Range(90..=99)),
            ("bytes=-1000", FilePart::Range(0..=99)),
            ("bytes=99-99", FilePart::Range(99..=99)),
            ("bytes=99999999999999999999999-", FilePart::Unsatisfiable),
            ("bytes=100-", FilePart::Unsatisfiable),
            ("bytes=-0", FilePart::Unsatisfiable),
            ("bytes=20-10", FilePart::Whole),
            ("bytes=1-2,4-5", FilePart::Whole),
            ("bytes=-", FilePart::Whole),
            ("bytes=+1-2", FilePart::Whole),
            ("pages=1-2", FilePart::Whole),
        ] {
            assert_eq!(of(range, 100), expected, "{range}");
        }
        assert_eq!(of("bytes=0-", 0), FilePart::Unsatisfiable);
        assert_eq!(of("bytes=-5", 0), FilePart::Unsatisfiable);
    }

    #[test]
    fn a_part_of_another_file_is_not_continued() {
        let headers = |known: &'static str| {
            let known = HeaderValue::from_static(known);
            HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=5-")), (IF_RANGE, known)])
        };
        assert_eq!(part(&headers("\"tag\""), 10, "tag"), FilePart::Range(5..=9));
        assert_eq!(part(&headers("\"other\""), 10, "tag"), FilePart::Whole);
    }
}
