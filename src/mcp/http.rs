//! The server over HTTP: one endpoint, to be mounted at `/mcp` behind someone who decides who may ask.
//!
//! Each request stands for itself: any number of clients come and go, a restart is not noticed, and nothing is left
//! behind. An answer is plain JSON, unless something is to be said before it (progress) or it is a subscription: then it
//! is a stream of events.
//!
//! A client from before 2026-07-28 that begins with `initialize` gets a connection (`Mcp-Session-Id`), since it can be
//! told of changes in no other way. It is only needed for that: an id that is not known here, because Retake was
//! restarted or the client was silent for long, is a request that stands for itself. Many clients do not begin again at
//! the 404 that the protocol has for it, and would be stuck. An id that the client itself has ended gets that 404.
//!
//! Never known here: who may ask. Host, Origin, token and sizes are checked before a request gets here, once for all
//! that is served, and not again by rmcp, whose lists would have to be kept the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use parking_lot::Mutex;
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::sync::watch;

use super::server::Server;
use super::{json, lines};
use crate::tracker::Tracker;

/// The largest message: a few pictures as base64.
const MAX_MESSAGE_BYTES: usize = 48 * 1024 * 1024;

/// The header that names a connection.
const CONNECTION: &str = "mcp-session-id";

/// Connections that are kept at once. Clients beyond them are served too, and not told of changes.
const MOST_CONNECTIONS: usize = 256;

/// How long a connection is kept without a word from its client.
const SILENT_FOR: Duration = Duration::from_secs(60 * 60);

/// How long an answer is kept for a client whose stream broke off before its end.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Connections that their clients have ended, of which we still know it.
const MOST_ENDED: usize = 1024;

/// An `initialize` is shorter than this by far.
const MOST_FIRST_WORDS: usize = 64 * 1024;

/// What answers at the endpoint, on behalf of `user`, until `ending` turns true.
pub fn http<S: Clone + Send + Sync + 'static>(
    tracker: Arc<Tracker>,
    user: impl Into<Arc<str>>,
    ending: watch::Receiver<bool>,
) -> MethodRouter<S> {
    let endpoint = Arc::new(Endpoint::new(Server::without_connection(tracker, user, ending.clone()), ending));
    any(move |request: Request| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.answer(request).await }
    })
}

/// The two ways to answer: each request for itself, and on a connection.
struct Endpoint {
    alone: StreamableHttpService<Server, NeverSessionManager>,
    connected: StreamableHttpService<Server, LocalSessionManager>,
    connections: Arc<LocalSessionManager>,
    /// Ids of connections that were ended, oldest first.
    ended: Mutex<VecDeque<String>>,
}

impl Endpoint {
    fn new(server: Server, mut ending: watch::Receiver<bool>) -> Endpoint {
        let config = || {
            StreamableHttpServerConfig::default()
                .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
                .disable_allowed_hosts()
                .disable_allowed_origins()
        };
        // What a request waits for by itself ends with a last word, see `Server::listen`. Streams of connections have none.
        let connected = config().with_legacy_session_mode(true);
        let end = connected.cancellation_token.clone();
        tokio::spawn(async move {
            // Also when nobody is left to say so.
            let _ = ending.wait_for(|ending| *ending).await;
            end.cancel();
        });
        let mut connections = LocalSessionManager::default();
        connections.session_config.keep_alive = Some(SILENT_FOR);
        connections.session_config.completed_cache_ttl = KEPT_FOR;
        let connections = Arc::new(connections);
        let connecting = server.clone();
        Endpoint {
            alone: StreamableHttpService::new(
                move || Ok(server.clone()),
                Arc::new(NeverSessionManager::default()),
                config().with_legacy_session_mode(false).with_json_response(true),
            ),
            connected: StreamableHttpService::new(
                move || Ok(connecting.connected()),
                Arc::clone(&connections),
                connected,
            ),
            connections,
            ended: Mutex::default(),
        }
    }

    async fn answer(&self, request: Request) -> Response {
        let (mut head, body) = request.into_parts();
        let connection = head.headers.get(CONNECTION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let is_known = match &connection {
            Some(id) => self.connections.sessions.read().await.contains_key(id.as_str()),
            None => false,
        };
        if head.method != Method::POST {
            if is_known && head.method == Method::DELETE {
                self.note_end(connection.unwrap_or_default());
            }
            let request = Request::from_parts(head, body);
            return match is_known {
                true => self.connected.handle(request).await.into_response(),
                false => self.alone.handle(request).await.into_response(),
            };
        }
        let message = match to_bytes(body, MAX_MESSAGE_BYTES).await {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "a message was not read");
                let why = format!("a message must arrive in time and may take {MAX_MESSAGE_BYTES} bytes");
                return refused(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::INVALID_REQUEST, why, None);
            }
        };
        if !json::has_bounded_values(&message) {
            let why = format!("a message may have at most {} values", json::MAX_VALUES);
            return refused(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::INVALID_REQUEST, why, None);
        }
        let on_connection = match &connection {
            Some(id) => is_known || self.has_ended(id),
            None => begins(&message) && self.connections.sessions.read().await.len() < MOST_CONNECTIONS,
        };
        if !on_connection {
            head.headers.remove(CONNECTION);
        }
        self.answer_message(head, message, on_connection).await
    }

    async fn answer_message(&self, head: Parts, message: Bytes, on_connection: bool) -> Response {
        let kind = head.headers.get(CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let request = Request::from_parts(head, Body::from(Bytes::clone(&message)));
        let answered = match on_connection {
            true => self.connected.handle(request).await,
            false => self.alone.handle(request).await,
        };
        // rmcp says no more than this of what is not JSON, and of JSON that is no message.
        if is_json && answered.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            match lines::parse(&message) {
                Err((code, why, id)) => return refused(StatusCode::BAD_REQUEST, code, why, id),
                Ok(None) => return StatusCode::ACCEPTED.into_response(),
                Ok(Some(_)) => (),
            }
        }
        answered.into_response()
    }

    fn note_end(&self, id: String) {
        let mut ended = self.ended.lock();
        if ended.len() >= MOST_ENDED {
            ended.pop_front();
        }
        ended.push_back(id);
    }

    fn has_ended(&self, id: &str) -> bool {
        self.ended.lock().iter().any(|ended| ended == id)
    }
}

/// Whether a message is the first of an older client.
fn begins(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    message.len() <= MOST_FIRST_WORDS
        && serde_json::from_slice(message).is_ok_and(|message: Message| message.method == "initialize")
}

/// The program that asks, as far as its headers say: a request of an older client says nothing of it itself.
pub(super) fn user_agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(axum::http::header::USER_AGENT)?.to_str().ok()
}

fn refused(status: StatusCode, code: ErrorCode, why: String, id: Option<RequestId>) -> Response {
    let message = ServerJsonRpcMessage::error(ErrorData::new(code, why, None), id);
    let body = serde_json::to_vec(&message).unwrap_or_default();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
