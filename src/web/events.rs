//! `GET /events`: server-sent events, one for each change in the workspace, from any process.
//!
//! An event contains the session and the kind of change; pages request the details they show. After a gap (`missed`)
//! they reload everything.

use std::convert::Infallible;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

use super::reply::refused;
use super::state::Gallery;
use crate::model::Status;
use crate::workspace::Change;

/// The interval of comments on an idle stream, which let either side detect that the other is gone.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The delay after which a browser reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Forwards workspace changes to all listening pages, until the channel closes.
pub(super) fn relay(news: Receiver<Change>, gallery: &Gallery) {
    let sender = gallery.news().clone();
    let (overview, workspace) = (gallery.overview(), gallery.workspace());
    let spawned = thread::Builder::new().name("retake-news".to_owned()).spawn(move || {
        // Warm up, so that the first page is fast. If this fails, the page fails too and reports it.
        let _ = overview.select(&workspace, Status::Active, None);
        drop(workspace);
        for item in news {
            match &item {
                Change::Event(event) => overview.note_change(event.session),
                Change::Lagged => overview.note_gap(),
            }
            // Sending fails only while no page is listening.
            let _ = sender.send(item);
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start the thread that forwards changes: pages will not update by themselves");
    }
}

/// Handles `GET /events`.
pub(super) async fn events(State(gallery): State<Gallery>) -> Response {
    let Some(permit) = gallery.listener() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many pages are listening", "close some, then reload");
    };
    let listener = Listener { changes: gallery.news().subscribe(), ending: gallery.ending(), _permit: permit };
    let ready = Event::default().event("ready").retry(RECONNECT_DELAY).data("{}");
    let changes = stream::unfold(listener, async |mut listener| Some((listener.next().await?, listener)));
    let events = stream::once(async { ready }).chain(changes).map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response()
}

/// A listening page. It holds one of the listener permits.
struct Listener {
    changes: broadcast::Receiver<Change>,
    ending: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Waits for the next event; `None` if the server is shutting down.
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            change = self.changes.recv() => match change {
                Ok(change) => Some(event(&change)),
                Err(RecvError::Lagged(_)) => Some(event(&Change::Lagged)),
                Err(RecvError::Closed) => None,
            },
            _ = self.ending.wait_for(|ending| *ending) => None,
        }
    }
}

fn event(change: &Change) -> Event {
    let missed = || Event::default().event("missed").data("{}");
    match change {
        Change::Event(summary) => Event::default().event("change").json_data(summary).unwrap_or_else(|_| missed()),
        Change::Lagged => missed(),
    }
}
