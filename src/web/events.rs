//! What happens, as it happens: server-sent events, one for each thing that anyone records in the workspace.
//!
//! An event says which session and what; pages ask for what they show of it. After a gap (`missed`) they ask for all.

use std::pin::Pin;
use std::sync::mpsc::Receiver;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use super::reply::refused;
use super::state::Gallery;
use crate::tracker::Change;

/// Sent when nothing happens, so that either side notices when the other is gone.
const STILL_HERE: Duration = Duration::from_secs(15);

/// Passes news on to whoever listens, until there are no more.
pub(super) fn relay(news: Receiver<Change>, gallery: &Gallery) {
    let sender = gallery.news().clone();
    let spawned = thread::Builder::new().name("retake-news".to_owned()).spawn(move || {
        for item in news {
            // Nobody listening is no failure.
            let _ = sender.send(item);
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to pass news on: pages do not update by themselves");
    }
}

/// `GET /events`.
pub(super) async fn events(State(gallery): State<Gallery>) -> Response {
    let Some(permit) = gallery.listener() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many pages are listening", "close some, then reload");
    };
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(feed(gallery, sender));
    let body = Body::new(Stream { receiver, _permit: permit });
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Writes what happens until the listener is gone or the server ends.
async fn feed(gallery: Gallery, sender: mpsc::Sender<Bytes>) {
    let mut news = gallery.news().subscribe();
    let mut ending = gallery.ending();
    let mut tick = interval(STILL_HERE);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    let mut text = "retry: 1000\nevent: ready\ndata: {}\n\n".to_owned();
    loop {
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        text = tokio::select! {
            item = news.recv() => match item {
                Ok(item) => written(&item),
                Err(RecvError::Lagged(_)) => written(&Change::Lagged),
                Err(RecvError::Closed) => return,
            },
            _ = tick.tick() => ": still here\n\n".to_owned(),
            _ = ending.wait_for(|ending| *ending) => return,
            () = sender.closed() => return,
        };
    }
}

fn written(news: &Change) -> String {
    match news {
        Change::Event(notice) => match serde_json::to_string(notice) {
            Ok(json) => format!("event: change\ndata: {json}\n\n"),
            Err(_) => "event: missed\ndata: {}\n\n".to_owned(),
        },
        Change::Lagged => "event: missed\ndata: {}\n\n".to_owned(),
    }
}

/// The body of one listener's answer.
struct Stream {
    receiver: mpsc::Receiver<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
