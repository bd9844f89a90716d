//! Subscriptions: notifies clients of changed resources, according to their protocol revision.
//!
//! Since 2026-07-28, a client keeps a request open that lists what it waits for, and the subscription ends with the
//! request. Earlier clients subscribe to individual resources for the duration of the connection; over HTTP, such a
//! client gets a connection when it initialises.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::broadcast::Receiver;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::address::Address;
use super::changes::{self, Changes};
use super::resources;
use crate::workspace::{Change, Workspace};

/// Returns the part of a subscription that is supported.
pub(super) fn accepted(wanted: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::new();
    accepted.resources_list_changed = wanted.resources_list_changed;
    let can_change = |uri: &&String| uri.parse().is_ok_and(|address: Address| address.can_change());
    accepted.resource_subscriptions =
        wanted.resource_subscriptions.as_ref().map(|uris| uris.iter().filter(can_change).cloned().collect());
    accepted
}

/// Notifies one subscriber until it cancels, its connection is `closing`, or the workspace is closed.
pub(super) async fn listen(
    context: SubscriptionContext,
    mut news: Receiver<Change>,
    mut closing: watch::Receiver<bool>,
) {
    let list_too = context.accepted().resources_list_changed == Some(true);
    let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
    let addresses: Vec<Address> = uris.iter().filter_map(|uri| uri.parse().ok()).collect();
    loop {
        let heard = tokio::select! {
            heard = changes::next(&mut news) => heard,
            () = context.cancelled() => return,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        let Some(heard) = heard else { return };
        if list_too && changes::changed_list(&heard) && context.sink().notify_resource_list_changed().await.is_err() {
            return;
        }
        for address in changes::changed(&heard, &addresses) {
            if context.sink().notify_resource_updated(address.to_string()).await.is_err() {
                return;
            }
        }
    }
}

/// The subscriptions of one connection of an older client.
#[derive(Default)]
pub(super) struct Subscriptions {
    wanted: Arc<Mutex<BTreeSet<Address>>>,
    telling: OnceLock<AbortHandle>,
}

impl Subscriptions {
    /// Starts notifying this client: of changes to the list from now on, and of resources once it subscribes to them.
    pub(super) fn begin(&self, changes: &Changes, workspace: &Arc<Workspace>, peer: Peer<RoleServer>) {
        self.telling.get_or_init(|| {
            let news = changes.follow(workspace);
            // A weak reference, so that a disconnected client does not keep the workspace open.
            let notifying = notify(news, Arc::clone(&self.wanted), peer);
            tokio::spawn(notifying).abort_handle()
        });
    }

    pub(super) fn add(&self, uri: &str) -> Result<(), ErrorData> {
        let address: Address = uri.parse().map_err(|_| resources::unknown(uri))?;
        if !address.can_change() {
            return Err(ErrorData::invalid_params("what is at this address never changes: read it once", None));
        }
        let mut wanted = self.wanted();
        if wanted.len() >= MAX_SUBSCRIPTIONS {
            return Err(ErrorData::invalid_params(
                format!(
                    "at most {MAX_SUBSCRIPTIONS} subscriptions: subscribe to retake://sessions, which reports all changes"
                ),
                None,
            ));
        }
        wanted.insert(address);
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) -> Result<(), ErrorData> {
        let address: Address = uri.parse().map_err(|_| resources::unknown(uri))?;
        self.wanted().remove(&address);
        Ok(())
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeSet<Address>> {
        self.wanted.lock()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        if let Some(telling) = self.telling.get() {
            telling.abort();
        }
    }
}

/// The maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 1000;

async fn notify(mut news: Receiver<Change>, wanted: Arc<Mutex<BTreeSet<Address>>>, peer: Peer<RoleServer>) {
    while let Some(heard) = changes::next(&mut news).await {
        if changes::changed_list(&heard) && peer.notify_resource_list_changed().await.is_err() {
            return;
        }
        let addresses: Vec<Address> = wanted.lock().iter().cloned().collect();
        for address in changes::changed(&heard, &addresses) {
            let updated = ResourceUpdatedNotificationParam::new(address.to_string());
            if peer.notify_resource_updated(updated).await.is_err() {
                return;
            }
        }
    }
}
