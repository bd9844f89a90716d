//! `GET /events`: server-sent events, one for each change that anyone makes in the workspace.
//!
//! An event names the session and what happened; pages ask for what they show of it. After a gap (`missed`) they ask for
//! everything.

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

/// The interval of comments on an idle stream, by which either side notices that the other is gone.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a browser reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Forwards changes of the workspace to all listening pages, until there are no more.
pub(super) fn relay(news: Receiver<Change>, gallery: &Gallery) {
    let sender = gallery.news().clone();
    let (overview, workspace) = (gallery.overview(), gallery.workspace());
    let spawned = thread::Builder::new().name("retake-news".to_owned()).spawn(move || {
        // The first page should not have to wait for it. What fails here fails there too, and is reported there.
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

/// Answers `GET /events`.
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

/// A page that listens. Holds one of the places for listeners.
struct Listener {
    changes: broadcast::Receiver<Change>,
    ending: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Waits for the next event; `None` if the server ends.
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
