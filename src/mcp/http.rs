//! The MCP server over HTTP: one endpoint, mounted at `/mcp` behind a guard that controls access.
//!
//! Each request is independent: any number of clients come and go, restarts are not noticed, and no state accumulates.
//! A response is plain JSON, unless it reports progress first or is a subscription; then it is an event stream.
//!
//! A client from before 2026-07-28 that starts with `initialize` gets a connection (`Mcp-Session-Id`), since there is
//! no other way to notify it of changes. Connections are only needed for that: a request with an unknown id, because
//! Retake was restarted or the client was idle for long, is served independently. Many clients do not start over after
//! the 404 that the protocol prescribes, and would be stuck. An id that the client itself has ended gets that 404.
//!
//! Absent here: access control. Host, Origin, token and sizes are checked before a request gets here, once for
//! everything that is served, and not again by rmcp, whose lists would have to be kept in sync.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
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
use crate::workspace::Workspace;

/// The maximum size of a message: a few images as base64.
const MAX_MESSAGE_BYTES: usize = 48 * 1024 * 1024;

/// The header that identifies a connection.
const CONNECTION: &str = "mcp-session-id";

/// The maximum number of connections. Further clients are served, but not notified of changes.
const MAX_CONNECTIONS: usize = 256;

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a response is kept for a client whose stream was interrupted.
const RESPONSE_RETENTION: Duration = Duration::from_secs(10);

/// The number of ended connections whose ids are remembered.
const MAX_ENDED_SESSIONS: usize = 1024;

/// The maximum size of an `initialize` message, which is far shorter.
const MAX_INITIALIZE_BYTES: usize = 64 * 1024;

/// Returns the service of the endpoint, on behalf of `user`, until `ending` becomes true.
pub fn http<S: Clone + Send + Sync + 'static>(
    workspace: Arc<Workspace>,
    user: impl Into<Arc<str>>,
    ending: watch::Receiver<bool>,
) -> MethodRouter<S> {
    let endpoint = Arc::new(Endpoint::new(Server::without_connection(workspace, user, ending.clone()), ending));
    any(move |request: Request| {
        let endpoint = Arc::clone(&endpoint);
        async move { endpoint.answer(request).await }
    })
}

/// The two ways to serve: independent requests, and connections.
struct Endpoint {
    alone: StreamableHttpService<Server, NeverSessionManager>,
    connected: StreamableHttpService<Server, LocalSessionManager>,
    connections: Arc<LocalSessionManager>,
    /// Ids of ended connections, oldest first.
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
        // An independent subscription ends with a final message, see `Server::listen`. Streams of connections have
        // none.
        let connected = config().with_legacy_session_mode(true);
        let end = connected.cancellation_token.clone();
        tokio::spawn(async move {
            // Also if the sender is dropped.
            let _ = ending.wait_for(|ending| *ending).await;
            end.cancel();
        });
        let mut connections = LocalSessionManager::default();
        connections.session_config.keep_alive = Some(IDLE_TIMEOUT);
        connections.session_config.completed_cache_ttl = RESPONSE_RETENTION;
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
            let is_end = head.method == Method::DELETE;
            let request = Request::from_parts(head, body);
            let mut response = match is_known {
                true => self.connected.handle(request).await.into_response(),
                false => self.alone.handle(request).await.into_response(),
            };
            // rmcp responds with 202, which the Python clients report as a failure.
            if is_end && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return response;
        }
        // A client that accepts anything accepts both kinds of responses; rmcp requires them to be listed.
        if head.headers.get(ACCEPT).is_some_and(|kinds| kinds.as_bytes().trim_ascii().starts_with(b"*/*")) {
            head.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
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
            None => begins(&message) && self.connections.sessions.read().await.len() < MAX_CONNECTIONS,
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
        // rmcp gives no details about bodies that are not JSON or not a message.
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
        if ended.len() >= MAX_ENDED_SESSIONS {
            ended.pop_front();
        }
        ended.push_back(id);
    }

    fn has_ended(&self, id: &str) -> bool {
        self.ended.lock().iter().any(|ended| ended == id)
    }
}

/// Returns whether a message is the first one of an older client.
fn begins(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    message.len() <= MAX_INITIALIZE_BYTES
        && serde_json::from_slice(message).is_ok_and(|message: Message| message.method == "initialize")
}

/// Returns the calling program from the headers, since requests of older clients do not include it.
pub(super) fn user_agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(axum::http::header::USER_AGENT)?.to_str().ok()
}

fn refused(status: StatusCode, code: ErrorCode, why: String, id: Option<RequestId>) -> Response {
    let message = ServerJsonRpcMessage::error(ErrorData::new(code, why, None), id);
    let body = serde_json::to_vec(&message).unwrap_or_default();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
