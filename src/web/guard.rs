//! Access control, and the security headers of every response.
//!
//! Any page on the web can make a browser send requests to this machine. None of them may read or change anything, so
//! every request must pass all of these checks:
//! - **Host** names this machine. A DNS name that an attacker points here does not.
//! - **Origin**, if a browser sends one, is ours, and `Sec-Fetch-Site` agrees. Only links may come from elsewhere.
//! - **Writes are JSON** with a matching content type. A form or script on another page cannot send that without a
//!   preflight request, which we never answer. No cookie grants access on loopback, so there is nothing to forge.
//! - If a token is set, every request carries it: as a bearer token, or in a cookie set by the URL with the token. A bearer
//!   token is accepted from any origin.
//!
//! Body sizes and times are bounded here too; connections and headers are bounded in `server.rs`.

use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST,
    LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

use super::reply::{ASK_AGAIN, refused};
use super::state::Gallery;
use super::token_page;
use super::url;
use super::wrong_tokens::Peer;

/// The maximum size of a request: a few images as base64.
pub(super) const MAX_REQUEST_BYTES: u64 = 48 * 1024 * 1024;
/// How long a request may take to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The content security policy: only our own scripts and styles, never inline; no framing; and scripts turn text into
/// HTML in one place only.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types retake";

/// A permit for part of the memory shared by all requests, held while the request is served.
#[derive(Clone)]
pub(super) struct RequestMemory(#[expect(dead_code, reason = "held for its drop")] Arc<OwnedSemaphorePermit>);

/// Passes a request on, or responds with a refusal.
pub(super) async fn guard(State(gallery): State<Gallery>, mut request: Request, next: Next) -> Response {
    let admitted = match admit(&gallery, &request) {
        Ok(()) => bound_body(&gallery, &mut request).await,
        refused => refused,
    };
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => *refusal,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(ASK_AGAIN);
    response
}

/// Bounds the size, time and memory of a request body. A body of unknown length is read here, so that it holds no more
/// memory than it needs: its response may be a stream that lasts for hours.
async fn bound_body(gallery: &Gallery, request: &mut Request) -> Result<(), Box<Response>> {
    let body = Body::new(Bounded {
        inner: std::mem::take(request.body_mut()),
        left: MAX_REQUEST_BYTES,
        deadline: Box::pin(sleep(ARRIVAL_TIMEOUT)),
        failed: false,
    });
    if !has_body(request) {
        *request.body_mut() = body;
        return Ok(());
    }
    let announced = content_length(request.headers());
    let memory = gallery.request_memory(announced.unwrap_or(MAX_REQUEST_BYTES)).await;
    let mut memory = memory.ok_or_else(|| {
        refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many large requests are waiting",
            "try again in a moment, with fewer at once",
        )
    })?;
    *request.body_mut() = if announced.is_some() {
        body
    } else {
        let bytes = to_bytes(body, usize::MAX).await.map_err(|error| {
            let message = format!("the request could not be read: {error}");
            refusal(StatusCode::PAYLOAD_TOO_LARGE, &message, "send it again, smaller and at once")
        })?;
        drop(memory.split(memory.num_permits().saturating_sub(bytes.len())));
        Body::from(bytes)
    };
    request.extensions_mut().insert(RequestMemory(Arc::new(memory)));
    Ok(())
}

fn admit(gallery: &Gallery, request: &Request) -> Result<(), Box<Response>> {
    let headers = request.headers();
    let host = host(request).ok_or_else(|| {
        refusal(StatusCode::BAD_REQUEST, "the request does not say which host it is for", "send one Host header")
    })?;
    let bearer = match gallery.token() {
        Some(token) => match checked_pass(gallery, token, request)? {
            TokenSource::Bearer => true,
            TokenSource::Cookie => false,
            TokenSource::Address(to) => return Err(Box::new(redirect_with_cookie(token, &to))),
            TokenSource::None => {
                let mut response = if text(headers, &ACCEPT).is_some_and(|kinds| kinds.contains("text/html")) {
                    token_page::response(presents_token(request))
                } else {
                    refused(
                        StatusCode::UNAUTHORIZED,
                        "this gallery asks for a token",
                        "send `Authorization: Bearer TOKEN`, or open the address that `retake serve` printed",
                    )
                };
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                return Err(Box::new(response));
            }
        },
        None if !is_loopback_name(host.host()) => {
            return Err(refusal(
                StatusCode::FORBIDDEN,
                "this gallery is not served under that name",
                "use localhost or 127.0.0.1; to serve it to others, start it with --token",
            ));
        }
        None => false,
    };
    if !bearer {
        check_origin(request.method(), headers, &host)?;
    }
    if matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        let json = text(headers, &CONTENT_TYPE).is_some_and(|kind| {
            kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !json {
            return Err(refusal(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the request is not JSON",
                "send JSON with `Content-Type: application/json`",
            ));
        }
    }
    if content_length(headers).is_some_and(|length| length > MAX_REQUEST_BYTES) {
        return Err(refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request is larger than 48 MiB",
            "record fewer pictures at once, or record them by path with `retake record`",
        ));
    }
    Ok(())
}

/// Returns the host of the request. A request line with an absolute URL must agree with the header.
fn host(request: &Request) -> Option<Authority> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let host: Authority = host.to_str().ok()?.parse().ok()?;
    let agrees = request.uri().authority().is_none_or(|named| *named == host);
    (agrees && !host.as_str().contains('@')).then_some(host)
}

fn check_origin(method: &Method, headers: &HeaderMap, host: &Authority) -> Result<(), Box<Response>> {
    let foreign = || {
        refusal(
            StatusCode::FORBIDDEN,
            "the request comes from a page of another origin",
            "open the gallery itself; programs send no Origin, or the token as a bearer",
        )
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let ours = ["http://", "https://"].iter().any(|scheme| {
            origin
                .to_str()
                .ok()
                .and_then(|it| it.strip_prefix(scheme))
                .is_some_and(|it| it.eq_ignore_ascii_case(host.as_str()))
        });
        if !ours || origins.next().is_some() {
            return Err(foreign());
        }
    }
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let following_a_link = reads && text(headers, &HeaderName::from_static("sec-fetch-mode")) == Some("navigate");
    match text(headers, &HeaderName::from_static("sec-fetch-site")) {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if following_a_link => Ok(()),
        Some(_) => Err(foreign()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, &CONTENT_LENGTH).and_then(|length| length.parse().ok())
}

fn has_body(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE)
}

/// Checks the token, unless this client has presented too many wrong ones.
fn checked_pass(gallery: &Gallery, token: &str, request: &Request) -> Result<TokenSource, Box<Response>> {
    let (wrong_tokens, now) = (gallery.wrong_tokens(), Instant::now());
    let peer = request.extensions().get::<Peer>().copied();
    if wrong_tokens.is_refused(peer, now) {
        return Err(refusal(
            StatusCode::TOO_MANY_REQUESTS,
            "too many wrong tokens were presented",
            "wait a minute, then open the address that `retake serve` printed",
        ));
    }
    let found = pass(token, request);
    if matches!(found, TokenSource::None) && presents_token(request) {
        wrong_tokens.count(peer, now);
    }
    Ok(found)
}

/// Returns whether a request presents a token. A token in the URL does not count, since other pages can make a browser
/// send it.
fn presents_token(request: &Request) -> bool {
    let headers = request.headers();
    let foreign = text(headers, &HeaderName::from_static("sec-fetch-site")) == Some("cross-site");
    let in_cookie = headers.get_all(COOKIE).iter().any(|it| it.to_str().is_ok_and(|it| it.contains(COOKIE_NAME)));
    let in_address = request.uri().query().unwrap_or_default().split('&').any(|it| it.starts_with("token="));
    !foreign && (headers.contains_key(AUTHORIZATION) || in_cookie || in_address)
}

/// The way a request presents the token.
enum TokenSource {
    Bearer,
    Cookie,
    /// In the URL, from which it is moved to a cookie. Holds the rest of the URL.
    Address(String),
    None,
}

const COOKIE_NAME: &str = "retake-token";

fn pass(token: &str, request: &Request) -> TokenSource {
    let headers = request.headers();
    let scheme = |it: &str| it.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    let bearer = text(headers, &AUTHORIZATION).filter(|it| scheme(it)).and_then(|it| it.get(7..));
    if bearer.is_some_and(|it| same(it.trim(), token)) {
        return TokenSource::Bearer;
    }
    let mut cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(';'));
    let wanted = fingerprint(token);
    if cookies
        .any(|it| it.trim().split_once('=').is_some_and(|(name, value)| name == COOKIE_NAME && same(value, &wanted)))
    {
        return TokenSource::Cookie;
    }
    let query = request.uri().query().unwrap_or_default();
    let mut rest: Vec<&str> = query.split('&').collect();
    // A form writes a space as a plus sign.
    let is_it = |text: &str| same(&url::decode(text), token) || same(&url::decode(&text.replace('+', " ")), token);
    let named = rest.iter().position(|it| it.strip_prefix("token=").is_some_and(is_it));
    match named {
        Some(at) if *request.method() == Method::GET => {
            rest.remove(at);
            let query = rest.join("&");
            // Keep this a path: a second slash would make it a host.
            let path = format!("/{}", request.uri().path().trim_start_matches('/'));
            TokenSource::Address(if query.is_empty() { path } else { format!("{path}?{query}") })
        }
        _ => TokenSource::None,
    }
}

/// Responds to a URL with the token: sets a cookie and redirects to the URL without the token.
fn redirect_with_cookie(token: &str, to: &str) -> Response {
    let cookie = format!("{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict", fingerprint(token));
    let location = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Returns the value of the cookie, which is derived from the token.
fn fingerprint(token: &str) -> String {
    blake3::derive_key("retake 2026 gallery cookie", token.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Compares in constant time.
fn same(given: &str, wanted: &str) -> bool {
    blake3::hash(given.as_bytes()) == blake3::hash(wanted.as_bytes())
}

/// Returns whether a host name can only mean this machine.
fn is_loopback_name(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn refusal(status: StatusCode, message: &str, hint: &str) -> Box<Response> {
    Box::new(refused(status, message, hint))
}

/// A body that ends with an error if it is too large or takes too long.
struct Bounded {
    inner: Body,
    left: u64,
    deadline: Pin<Box<Sleep>>,
    failed: bool,
}

/// The reason why a body was cut off.
#[derive(Debug, thiserror::Error)]
enum CutOff {
    #[error("the request is larger than 48 MiB")]
    TooLarge,
    #[error("the request took too long to arrive")]
    TooSlow,
    #[error(transparent)]
    Broken(#[from] axum::Error),
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if self.failed {
            return Poll::Ready(None);
        }
        if self.deadline.as_mut().poll(context).is_ready() {
            self.failed = true;
            return Poll::Ready(Some(Err(CutOff::TooSlow)));
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => 0,
        };
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Poll::Ready(frame.map(|frame| frame.map_err(CutOff::from)))
            }
            None => {
                self.failed = true;
                Poll::Ready(Some(Err(CutOff::TooLarge)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "[::1]"] {
            assert!(is_loopback_name(name), "{name}");
        }
        for name in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "192.168.1.2", "[::2]", ""]
        {
            assert!(!is_loopback_name(name), "{name}");
        }
    }
}
