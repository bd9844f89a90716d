//! The server: the listener, connections with limits and timeouts, the routes, and a graceful shutdown.
//!
//! Drives hyper directly, since axum's own server sets no timeouts: a connection that sends its headers at a byte a
//! minute would stay open forever.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use super::state::{Gallery, MAX_CALLS};
use super::write_timeout::WriteTimeout;
use super::wrong_tokens::Peer;
use super::{api, assets, checking, compression, events, exports, guard, imports, openapi, pages, pictures, reply};
use crate::mcp;
use crate::platform::termination;
use crate::wire::{Error, ErrorKind};
use crate::workspace::Workspace;

/// The maximum number of connections; further ones wait in the system's backlog.
const MAX_CONNECTIONS: usize = 512;
/// How long the headers of a request may take, and how long a connection may be idle.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client may go without reading any of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a request's headers.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// How long requests may take to finish on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The options of a gallery server.
pub struct Serving {
    /// The user, for the audit trail.
    pub user: String,
    /// The token that every request must carry; `None` on loopback.
    pub token: Option<String>,
}

/// An address that this process listens on.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds an address.
pub fn bind(address: SocketAddr) -> Result<Bound, Error> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    });
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::new(
            ErrorKind::Busy,
            format!("{address} is taken by another program"),
            format!("choose another port with --addr {}:PORT; port 0 lets the system choose", shown(address)),
        ),
        io::ErrorKind::AddrNotAvailable => Error::new(
            ErrorKind::Invalid,
            format!("{address} is not an address of this machine"),
            "choose one that is, such as --addr 127.0.0.1:7373",
        ),
        io::ErrorKind::PermissionDenied => Error::new(
            ErrorKind::Invalid,
            format!("not allowed to serve on {address}"),
            "choose a port above 1023, such as --addr 127.0.0.1:7373",
        ),
        _ => Error::new(ErrorKind::Internal, format!("cannot serve on {address}"), "choose another one with --addr")
            .caused_by(error),
    })
}

/// Returns whether only this machine can reach the address.
pub fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Bound {
    /// Returns the address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for browsers.
    pub fn url(&self) -> String {
        // Browsers cannot open the unspecified address.
        let ip = self.address.ip();
        let port = self.address.port();
        match (ip.is_unspecified(), ip.is_ipv4()) {
            (false, _) => format!("http://{}/", self.address),
            (true, true) => format!("http://127.0.0.1:{port}/"),
            (true, false) => format!("http://[::1]:{port}/"),
        }
    }

    /// Serves until the process is asked to stop. Running requests get a few seconds to finish.
    pub fn serve(self, workspace: Arc<Workspace>, serving: Serving) -> Result<(), Error> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Internal, what, "look at the cause, then try again").caused_by(error)
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(MAX_CALLS + 8)
            .enable_all()
            .build()
            .map_err(|error| failed("cannot start the server", &error))?;
        let served = runtime.block_on(async {
            let ended = termination().map_err(|error| failed("cannot listen for signals", &error))?;
            let listener =
                tokio::net::TcpListener::from_std(self.listener).map_err(|error| failed("cannot listen", &error))?;
            let (end, ending) = watch::channel(false);
            let news = workspace.follow();
            let agents = mcp::http(Arc::clone(&workspace), serving.user.as_str(), ending.clone());
            let gallery = Gallery::new(workspace, serving.user, serving.token, ending)
                .map_err(|error| failed("cannot start the threads of the server", &error))?;
            events::relay(news, &gallery);
            tokio::spawn(pages::warm_up(gallery.clone()));
            accept(listener, router(gallery, agents), WRITE_TIMEOUT, end, ended).await;
            Ok(())
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        served
    }
}

/// Returns all routes.
fn router(gallery: Gallery, agents: MethodRouter<Gallery>) -> Router {
    Router::new()
        .merge(pages::routes())
        .route("/assets/{build}/{name}", get_only(get(assets::asset)))
        .route("/images/{hash}", get_only(get(pictures::original)))
        .route("/thumbs/{hash}", get_only(get(pictures::thumbnail)))
        .route("/heat/{one}/{other}", get_only(get(pictures::heat_map)))
        .route("/events", get_only(get(events::events)))
        .route("/export/{form}", get_only(get(exports::export)))
        .route("/import", post(imports::import).fallback(wrong_method))
        .route("/workspace/check", get(checking::state).post(checking::start).fallback(wrong_method))
        .route("/workspace/read", post(checking::mark_read).fallback(wrong_method))
        .route("/mcp", agents)
        .route("/api/openapi.json", get_only(get(openapi::document)))
        .route("/api/{verb}", get(api::get).post(api::post).fallback(wrong_method))
        .fallback(nothing_here)
        .layer(middleware::from_fn(compression::compress))
        .layer(middleware::from_fn_with_state(gallery.clone(), guard::guard))
        .with_state(gallery)
}

/// Returns a read-only route.
pub(super) fn get_only(route: MethodRouter<Gallery>) -> MethodRouter<Gallery> {
    route.fallback(wrong_method)
}

/// Responds to unknown paths with JSON for programs and a page for people.
async fn nothing_here(uri: Uri) -> Response {
    if uri.path().starts_with("/api") { api::no_such_verb().into_response() } else { pages::nothing_here() }
}

async fn wrong_method() -> Response {
    reply::refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "that cannot be done here",
        "see /api/openapi.json for paths and methods",
    )
}

async fn accept(
    listener: tokio::net::TcpListener,
    router: Router,
    write_timeout: Duration,
    end: watch::Sender<bool>,
    ended: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut ended = std::pin::pin!(ended);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES)
        .half_close(false);
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &places) => accepted,
            () = &mut ended => break,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        // Otherwise each part of a response waits up to 40 ms for the acknowledgement of the previous one (Nagle's
        // algorithm).
        let _ = stream.set_nodelay(true);
        let stream = TokioIo::new(WriteTimeout::new(stream, write_timeout));
        let connection = http.serve_connection(stream, TowerToHyperService::new(router.clone().layer(Extension(peer))));
        let mut ending = end.subscribe();
        tokio::spawn(async move {
            let _place = place;
            let mut connection = std::pin::pin!(connection);
            let shutdown = async move { ending.wait_for(|ending| *ending).await.is_ok() };
            let done = tokio::select! {
                done = connection.as_mut() => Some(done),
                _ = shutdown => None,
            };
            let done = match done {
                Some(done) => done,
                None => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = done {
                tracing::debug!(%error, "a connection broke off");
            }
        });
    }
    drop(listener);
    // Sending fails if all connections have already ended.
    let _ = end.send(true);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    if timeout(SHUTDOWN_TIMEOUT, places.acquire_many(all)).await.is_err() {
        tracing::info!("some connections did not finish in time");
    }
}

/// Accepts the next connection once a permit is available.
async fn next(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, Peer, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, address)) => Some((stream, Peer(address.ip()), place)),
        Err(error) => {
            // Usually out of file descriptors, and there is no event to wait for.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

fn shown(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_can_be_opened() {
        let url = |address: &str| {
            let bound = bind(address.parse().unwrap()).unwrap();
            bound.url().replace(&bound.address.port().to_string(), "PORT")
        };
        assert_eq!(url("127.0.0.1:0"), "http://127.0.0.1:PORT/");
        assert_eq!(url("0.0.0.0:0"), "http://127.0.0.1:PORT/");
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let error = bind(first.address).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.message.ends_with("is taken by another program"), "{error}");
    }

    /// An endless response that reports when its client disconnects.
    struct Endless(Option<tokio::sync::oneshot::Sender<()>>);

    impl axum::body::HttpBody for Endless {
        type Data = axum::body::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            let bytes = axum::body::Bytes::from_static(&[7; 65536]);
            std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(bytes))))
        }
    }

    impl Drop for Endless {
        fn drop(&mut self) {
            let _ = self.0.take().map(|dropped| dropped.send(()));
        }
    }

    #[test]
    fn a_client_that_never_reads_is_disconnected() {
        use std::io::Write;
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (dropped, left) = tokio::sync::oneshot::channel();
            let dropped = std::sync::Mutex::new(Some(dropped));
            let answer = move || {
                let body = Endless(dropped.lock().unwrap().take());
                async move { Response::new(axum::body::Body::new(body)) }
            };
            let answer = Arc::new(answer);
            let router = Router::new().route("/", get(move || answer()));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let (end, _) = watch::channel(false);
            // The server stops once the response is abandoned.
            let given_up = async { left.await.unwrap() };
            accept(listener, router, Duration::from_millis(10), end, given_up).await;
            drop(client);
        });
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (address, loopback) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("192.168.0.7:1", false),
        ] {
            assert_eq!(is_loopback(&address.parse().unwrap()), loopback, "{address}");
        }
    }
}
