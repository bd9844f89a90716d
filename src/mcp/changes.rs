//! Changes to the workspace by any process, received once and broadcast to all subscribers.

use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::address::Address;
use crate::model::EventKind;
use crate::workspace::{Change, Workspace};

/// The change receiver of a server. It listens from the first subscription until the workspace is closed, so that
/// clients that come and go leave no threads behind.
pub(super) struct Changes {
    sender: Sender<Change>,
    listening: OnceLock<()>,
    early: Mutex<Option<(SubscriptionFilter, Receiver<Change>)>>,
}

/// The number of changes buffered per subscriber; one that lags further receives [`Change::Lagged`].
const MAX_BUFFERED: usize = 1024;

impl Changes {
    pub(super) fn new() -> Changes {
        Changes { sender: channel(MAX_BUFFERED).0, listening: OnceLock::new(), early: Mutex::new(None) }
    }

    /// Subscribes to all future changes. The first call waits briefly until changes are being received.
    ///
    /// It waits on the calling runtime thread: another thread would need a handle to the workspace, and would keep it
    /// open if the client is gone by then.
    pub(super) fn follow(&self, workspace: &Workspace) -> Receiver<Change> {
        let receiver = self.sender.subscribe();
        self.listening.get_or_init(|| {
            let (news, sender) = (workspace.follow(), self.sender.clone());
            let spawned = thread::Builder::new().name("retake-changes".to_owned()).spawn(move || {
                while let Ok(news) = news.recv() {
                    // Without subscribers now, there may be some later.
                    let _ = sender.send(news);
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%error, "cannot start the thread that receives changes");
            }
        });
        receiver
    }

    /// Starts listening for a subscription that is about to be acknowledged, so that no change is missed between the
    /// acknowledgement and [`take`](Changes::take).
    pub(super) fn follow_early(&self, wanted: &SubscriptionFilter, workspace: &Workspace) {
        let receiver = self.follow(workspace);
        *self.early.lock() = Some((wanted.clone(), receiver));
    }

    /// Returns the receiver created in advance for this subscription.
    pub(super) fn take(&self, wanted: &SubscriptionFilter, workspace: &Workspace) -> Receiver<Change> {
        let mut early = self.early.lock();
        match early.take() {
            Some((filter, receiver)) if filter == *wanted => receiver,
            // Two subscriptions are being set up at once. This one may have missed the latest changes.
            other => {
                *early = other;
                drop(early);
                self.follow(workspace)
            }
        }
    }
}

/// Waits for a change, and returns it together with all others available by then; `None` if the workspace is closed.
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

/// Returns whether the list of resources has changed.
pub(super) fn changed_list(news: &[Change]) -> bool {
    news.iter().any(|news| match news {
        Change::Event(notice) => notice.kind == EventKind::Started,
        Change::Lagged => true,
    })
}

/// Returns the addresses whose contents have changed, or may have.
///
/// An iteration contains the row of its session, so any change to the session changes it too; and it lists its
/// children, which may be in any session.
pub(super) fn changed(news: &[Change], addresses: &[Address]) -> Vec<Address> {
    let mut changed: Vec<Address> = Vec::new();
    for news in news {
        let Change::Event(notice) = news else { return addresses.to_vec() };
        let is_changed = |address: &&Address| match address {
            Address::Sessions(_) => true,
            Address::Session(id, _) => *id == notice.session,
            Address::Iteration(id) => id.session == notice.session || notice.parent == Some(*id),
            Address::Image(..) | Address::App => false,
        };
        let new: Vec<Address> =
            addresses.iter().filter(is_changed).filter(|address| !changed.contains(address)).cloned().collect();
        changed.extend(new);
    }
    changed
}
