//! `retake wrap --url`: a reverse proxy in front of an MCP server over HTTP. Bodies are streamed; only the response to
//! a tool call is held back, event by event, until it can be marked.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::platform::termination;

use super::mark::{Announce, marked};
use super::message::Direction;
use super::observe::Scope;
use super::pipeline::{Pipeline, Setup};
use super::pump::may_complete;
use super::sse::{self, Events};
use super::tap::{MAX_OBSERVED_BYTES, Tap};

/// The maximum number of body chunks queued for a slow client.
const MAX_QUEUED_PIECES: usize = 16;
/// The header that identifies a session.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A body in either direction.
type Body = BoxBody<Bytes, io::Error>;

/// The state shared by all connections.
struct Proxy {
    target: Uri,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    tap: Tap,
    announce: Announce,
    exchanges: AtomicU64,
    /// Whether only this machine can reach us, so that only requests to a local host name are accepted.
    is_local: bool,
}

/// Serves until the process is asked to stop. Calls `ready` with the address once clients can connect.
pub(crate) fn run(
    target: Uri,
    address: SocketAddr,
    setup: Setup,
    announce: Announce,
    ready: &dyn Fn(SocketAddr),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let pipeline = Pipeline::start(setup)?;
    let tap = pipeline.tap().clone();
    let served = runtime.block_on(async {
        let terminated = termination()?;
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        let connector = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().build();
        let proxy = Arc::new(Proxy {
            target,
            client: Client::builder(TokioExecutor::new()).build(connector),
            tap,
            announce,
            exchanges: AtomicU64::new(1),
            is_local: local.ip().is_loopback(),
        });
        ready(local);
        tokio::select! {
            served = accept(&listener, &proxy) => served,
            () = terminated => Ok(()),
        }
    });
    runtime.shutdown_background();
    pipeline.give_up();
    pipeline.finish();
    served
}

async fn accept(listener: &TcpListener, proxy: &Arc<Proxy>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let proxy = Arc::clone(proxy);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let proxy = Arc::clone(&proxy);
                async move { Ok::<_, Infallible>(proxy.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

impl Proxy {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if !self.is_welcome(request.headers()) {
            return plain(StatusCode::FORBIDDEN, "retake wrap: this address is only for programs on this machine\n");
        }
        match self.forward(request).await {
            Ok(response) => response,
            Err(problem) => plain(StatusCode::BAD_GATEWAY, &format!("retake wrap: {problem}\n")),
        }
    }

    /// Rejects web pages that reach this machine under another name (DNS rebinding).
    fn is_welcome(&self, headers: &HeaderMap) -> bool {
        let is_local = |name: &str| {
            let host = name
                .rsplit_once(':')
                .map_or(name, |(host, port)| if port.bytes().all(|byte| byte.is_ascii_digit()) { host } else { name });
            matches!(host, "localhost" | "127.0.0.1" | "[::1]")
        };
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let origin =
            text(&ORIGIN).is_none_or(|origin| origin.split_once("://").is_some_and(|(_, host)| is_local(host)));
        !self.is_local || text(&HOST).is_some_and(is_local) && origin
    }

    async fn forward(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, String> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| format!("cannot read the request: {error}"))?.to_bytes();
        let is_call = head.method == Method::POST && may_complete(&body);
        let scope = self.scope(head.headers.get(SESSION));
        if head.method == Method::POST && !body.is_empty() {
            self.observe_request(scope, &body, is_call);
        }
        let mut outgoing = Request::builder().method(head.method).uri(self.uri(&head.uri)?);
        if let Some(headers) = outgoing.headers_mut() {
            *headers = end_to_end(head.headers);
            headers.remove(HOST);
            headers.remove(CONTENT_LENGTH);
            // Compressed bodies cannot be inspected.
            if headers.contains_key(ACCEPT_ENCODING) {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
        }
        let outgoing = outgoing.body(Full::new(body)).map_err(|error| error.to_string())?;
        let answer = self.client.request(outgoing).await;
        let (head, body) =
            answer.map_err(|error| format!("cannot reach {}: {}", self.target, chain(&error)))?.into_parts();
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let mut headers = end_to_end(head.headers);
        let body = if kind.starts_with("text/event-stream") {
            Arc::clone(&self).stream(body, scope)
        } else if kind.starts_with("application/json") && is_call && self.announce != Announce::Off {
            let line = Arc::new(body.collect().await.map_err(|error| error.to_string())?.to_bytes().to_vec());
            let reference = self.tap.ask_async(scope, &line).await;
            let marked = reference.and_then(|reference| marked(&line, &reference, self.announce));
            let bytes = marked.unwrap_or_else(|| line.to_vec());
            headers.remove(CONTENT_LENGTH);
            Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed()
        } else {
            Arc::clone(&self).tee(body, scope, kind.starts_with("application/json"))
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    fn observe_request(&self, scope: Scope, body: &Bytes, is_call: bool) {
        if is_call {
            self.tap.arm();
        }
        if body.len() > MAX_OBSERVED_BYTES {
            self.tap.skip(is_call);
        } else {
            self.tap.offer(scope, Direction::ToServer, Arc::new(body.to_vec()), is_call, None);
        }
    }

    /// Forwards events as they arrive, and holds one back only if it may be the response to a call.
    fn stream(self: Arc<Self>, body: Incoming, scope: Scope) -> Body {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_PIECES);
        tokio::spawn(async move {
            let mut body = pin!(body);
            let mut events = Events::default();
            let mut is_holding = false;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame.map_err(|error| tracing::debug!(%error, "a stream broke off")) else { break };
                let Ok(bytes) = frame.into_data() else { continue };
                if !is_holding {
                    // An event that was partly forwarded is not held back any more.
                    is_holding = self.announce != Announce::Off && self.tap.is_armed() && events.is_empty();
                }
                if !is_holding {
                    // A disconnected client does not end the call: its result is still recorded.
                    let _ = sender.send(Ok(Frame::data(bytes.clone()))).await;
                }
                for event in events.split(&bytes) {
                    let line = Arc::new(sse::data(&event));
                    if !is_holding {
                        self.tap.offer(scope, Direction::ToClient, line, false, None);
                        continue;
                    }
                    let reference = if line.is_empty() { None } else { self.tap.ask_async(scope, &line).await };
                    let marked = reference.and_then(|reference| marked(&line, &reference, self.announce));
                    let event = marked.and_then(|data| sse::with_data(&event, &data)).unwrap_or(event);
                    let _ = sender.send(Ok(Frame::data(Bytes::from(event)))).await;
                }
                if is_holding && (events.is_too_long() || events.is_empty()) {
                    is_holding = false;
                    if events.is_too_long() {
                        let _ = sender.send(Ok(Frame::data(Bytes::from(events.pending().to_vec())))).await;
                    }
                }
                events.forget();
            }
            let rest = events.take_rest();
            if is_holding && !rest.is_empty() {
                let _ = sender.send(Ok(Frame::data(Bytes::from(rest)))).await;
            }
        });
        ChannelBody(receiver).boxed()
    }

    /// Forwards a body as it arrives, and passes on a copy of it at the end.
    fn tee(self: Arc<Self>, body: Incoming, scope: Scope, is_observed: bool) -> Body {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_PIECES);
        tokio::spawn(async move {
            let mut body = pin!(body);
            let mut copy = Vec::new();
            let mut is_whole = is_observed;
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(io::Error::other);
                let is_broken = frame.is_err();
                if let Ok(bytes) = frame.as_ref().map(Frame::data_ref)
                    && let Some(bytes) = bytes.filter(|_| is_whole)
                {
                    copy.extend_from_slice(bytes);
                    is_whole = copy.len() <= MAX_OBSERVED_BYTES;
                }
                let _ = sender.send(frame).await;
                if is_broken {
                    return;
                }
            }
            if is_whole && !copy.is_empty() {
                self.tap.offer(scope, Direction::ToClient, Arc::new(copy), false, None);
            }
        });
        ChannelBody(receiver).boxed()
    }

    /// Returns the conversation of a request: its session, or the request itself for a client without one.
    fn scope(&self, session: Option<&HeaderValue>) -> Scope {
        match session {
            Some(session) => {
                let mut hasher = DefaultHasher::new();
                session.as_bytes().hash(&mut hasher);
                Scope { group: hasher.finish(), exchange: 0 }
            }
            None => Scope { group: 0, exchange: self.exchanges.fetch_add(1, SeqCst) },
        }
    }

    /// Returns the URL to forward a request to: `/` and the path of the server map to the server, anything else to its
    /// host.
    fn uri(&self, asked: &Uri) -> Result<Uri, String> {
        let own = self.target.path();
        let path = if asked.path() == "/" { own } else { asked.path() };
        let query = asked.query().or(self.target.query()).map(|query| format!("?{query}")).unwrap_or_default();
        let scheme = self.target.scheme_str().unwrap_or("http");
        let authority = self.target.authority().map(ToString::to_string).unwrap_or_default();
        format!("{scheme}://{authority}{path}{query}")
            .parse()
            .map_err(|error| format!("cannot forward {asked}: {error}"))
    }
}

/// Removes the headers that only concern the connection itself.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let usual = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive")];
    for name in named.iter().chain(&usual) {
        headers.remove(name);
    }
    headers
}

/// A body whose chunks are received from a channel.
struct ChannelBody(mpsc::Receiver<io::Result<Frame<Bytes>>>);

impl hyper::body::Body for ChannelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.get_mut().0.poll_recv(context)
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
