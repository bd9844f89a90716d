//! The server over HTTP: one endpoint, to be mounted at `/mcp` behind someone who decides who may ask.
//!
//! Each request stands for itself, for older clients too: no session is kept, so any number of clients come and go, a
//! restart is not noticed, and nothing is left behind. What it costs is that an older client cannot be told of changes;
//! it can of 2026-07-28. An answer is plain JSON, unless something is to be said before it (progress) or it is a
//! subscription: then it is a stream of events.
//!
//! Never known here: who may ask. Host, Origin, token and sizes are checked before a request gets here, once for all
//! that is served, and not again by rmcp, whose lists would have to be kept the same.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::watch;

use super::lines;
use super::server::Server;
use crate::tracker::Tracker;

/// The largest message: a few pictures as base64.
const MAX_MESSAGE_BYTES: usize = 48 * 1024 * 1024;

/// What answers at the endpoint, on behalf of `user`, until `ending` turns true.
pub fn http<S: Clone + Send + Sync + 'static>(
    tracker: Arc<Tracker>,
    user: impl Into<Arc<str>>,
    ending: watch::Receiver<bool>,
) -> MethodRouter<S> {
    let server = Server::without_connection(tracker, user, ending);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_MESSAGE_BYTES)
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
    any(move |request: Request| {
        let service = service.clone();
        async move { answer(&service, request).await }
    })
}

/// The program that asks, as far as its headers say: a request of an older client says nothing of it itself.
pub(super) fn user_agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(axum::http::header::USER_AGENT)?.to_str().ok()
}

async fn answer(service: &StreamableHttpService<Server, NeverSessionManager>, request: Request) -> Response {
    if request.method() != Method::POST {
        return service.handle(request).await.into_response();
    }
    let (head, body) = request.into_parts();
    let is_json = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let message = match to_bytes(body, MAX_MESSAGE_BYTES).await {
        Ok(message) => message,
        Err(error) => {
            tracing::debug!(%error, "a message was not read");
            let why = format!("a message must arrive in time and may take {MAX_MESSAGE_BYTES} bytes");
            return refused(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::INVALID_REQUEST, why, None);
        }
    };
    let answered = service.handle(Request::from_parts(head, Body::from(Bytes::clone(&message)))).await;
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

fn refused(status: StatusCode, code: ErrorCode, why: String, id: Option<RequestId>) -> Response {
    let message = ServerJsonRpcMessage::error(ErrorData::new(code, why, None), id);
    let body = serde_json::to_vec(&message).unwrap_or_default();
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
