//! Changes to the workspace by any process: received once from the workspace and broadcast to all subscribers.

use std::sync::OnceLock;
use std::thread;

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::address::Address;
use crate::model::EventKind;
use crate::workspace::{Change, Workspace};

/// The receiver of changes of a server. It listens from the first subscription until the workspace is closed, so clients
/// that come and go leave no threads.
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

    /// Subscribes to all changes from now on. The first call waits briefly until changes are coming in.
    ///
    /// It does so on the calling thread, which is one of the runtime's: another thread would need a hold on the workspace,
    /// and keep it from being closed if the client has gone by then.
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

    /// Begins to listen for a subscription that is about to be acknowledged: between the acknowledgement and
    /// [`take`](Changes::take) a change would otherwise be missed.
    pub(super) fn follow_early(&self, wanted: &SubscriptionFilter, workspace: &Workspace) {
        let receiver = self.follow(workspace);
        *self.early.lock() = Some((wanted.clone(), receiver));
    }

    /// Returns the receiver that was created early for that subscription.
    pub(super) fn take(&self, wanted: &SubscriptionFilter, workspace: &Workspace) -> Receiver<Change> {
        let mut early = self.early.lock();
        match early.take() {
            Some((filter, receiver)) if filter == *wanted => receiver,
            // Two subscriptions are being set up at once. This one may have missed what happened this instant.
            other => {
                *early = other;
                drop(early);
                self.follow(workspace)
            }
        }
    }
}

/// Waits for a change, and returns it with all others that have come in by then; `None` if the workspace is closed.
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

/// Returns those of the addresses whose contents have changed, or may have.
///
/// An iteration shows the row of its session, so any change to the session changes it too; and it names its children,
/// which may be in any session.
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
