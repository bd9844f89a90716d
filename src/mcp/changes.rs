//! What changes in the workspace, whoever changes it: heard once from the tracker and passed on to all who wait for it.

use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::address::Address;
use crate::model::EventKind;
use crate::tracker::{Change, Tracker};

/// The one ear of a server. It listens from the first time someone wants to know until the workspace is closed, so that
/// clients that come and go leave nothing behind.
pub(super) struct Changes {
    sender: Sender<Change>,
    listening: OnceLock<()>,
    early: Mutex<Option<(SubscriptionFilter, Receiver<Change>)>>,
}

/// What someone who falls behind may miss; he is told that he did.
const KEPT: usize = 1024;

impl Changes {
    pub(super) fn new() -> Changes {
        Changes { sender: channel(KEPT).0, listening: OnceLock::new(), early: Mutex::new(None) }
    }

    /// Everything that happens from now on. The first call waits for a moment until news are coming in.
    ///
    /// It does so on the calling thread, which is one of the runtime's: another would have to hold on to the tracker,
    /// and keep it from being closed when the client is gone by then.
    pub(super) fn follow(&self, tracker: &Tracker) -> Receiver<Change> {
        let receiver = self.sender.subscribe();
        self.listening.get_or_init(|| {
            let (news, sender) = (tracker.follow(), self.sender.clone());
            let spawned = thread::Builder::new().name("retake-changes".to_owned()).spawn(move || {
                while let Ok(news) = news.recv() {
                    // Nobody waiting now is no reason to stop.
                    let _ = sender.send(news);
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%error, "no thread to hear of changes");
            }
        });
        receiver
    }

    /// Begins to listen for a subscription that is about to be acknowledged: between the acknowledgement and
    /// [`take`](Changes::take) a change would otherwise be missed.
    pub(super) fn follow_early(&self, wanted: &SubscriptionFilter, tracker: &Tracker) {
        let receiver = self.follow(tracker);
        *self.early.lock() = Some((wanted.clone(), receiver));
    }

    /// What was begun for that subscription.
    pub(super) fn take(&self, wanted: &SubscriptionFilter, tracker: &Tracker) -> Receiver<Change> {
        let mut early = self.early.lock();
        match early.take() {
            Some((filter, receiver)) if filter == *wanted => receiver,
            // Two subscriptions are being set up at once. This one may have missed what happened this instant.
            other => {
                *early = other;
                drop(early);
                self.follow(tracker)
            }
        }
    }
}

/// The next changes: one, and what else has come in by then. None when the workspace is closed.
pub(super) async fn next(receiver: &mut Receiver<Change>) -> Option<Vec<Change>> {
    let mut news = vec![match receiver.recv().await {
        Ok(news) => news,
        Err(RecvError::Lagged(_)) => Change::Lagged,
        Err(RecvError::Closed) => return None,
    }];
    loop {
        match receiver.try_recv() {
            Ok(more) => news.push(more),
            Err(TryRecvError::Lagged(_)) => news.push(Change::Lagged),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(news),
        }
    }
}

/// Whether the list of resources is another one now.
pub(super) fn changed_list(news: &[Change]) -> bool {
    news.iter().any(|news| match news {
        Change::Event(notice) => notice.kind == EventKind::Started,
        Change::Lagged => true,
    })
}

/// Returns those of the addresses whose contents have changed, or may have.
///
/// An iteration shows the row of its session, so whatever happens to the session changes it; and it names the iterations
/// that came from it, which may be in any session.
pub(super) fn changed(news: &[Change], addresses: &[Address]) -> Vec<Address> {
    let mut changed: Vec<Address> = Vec::new();
    for news in news {
        let Change::Event(notice) = news else { return addresses.to_vec() };
        let is_changed = |address: &&Address| match address {
            Address::Sessions(_) => true,
            Address::Session(id, _) => *id == notice.session,
            Address::Iteration(id) => id.session == notice.session || notice.parent == Some(*id),
            Address::Image(..) => false,
        };
        let new: Vec<Address> =
            addresses.iter().filter(is_changed).filter(|address| !changed.contains(address)).cloned().collect();
        changed.extend(new);
    }
    changed
}
