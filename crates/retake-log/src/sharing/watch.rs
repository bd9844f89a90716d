//! A thread that passes events to the followers in this process and notices when the owner exits, so that a client
//! takes over at once and not only at its next call.

use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::Duration;

use super::client::Client;
use super::protocol::{Change, EventSummary, Response};
use super::{Role, Shared};

/// How long to wait before looking for an owner again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Starts watching, for as long as the workspace is open.
pub(super) fn start(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    let spawned = thread::Builder::new().name("retake-watch".to_owned()).spawn(move || watch(&weak));
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start a thread to watch the owner");
    }
}

fn watch(shared: &Weak<Shared>) {
    let mut first = true;
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let again = !std::mem::take(&mut first);
        let role = strong.role().clone();
        match role {
            Role::Closed => return,
            Role::Owner(owner) => {
                let (sender, events) = mpsc::channel();
                let following = owner.with_log(|log| {
                    log.follow(Box::new(move |event| sender.send(EventSummary::from(&**event)).is_ok()));
                });
                strong.mark_listening(again);
                drop((owner, strong));
                // Ends when the store is closed, which for an owner is the end.
                while following.is_some()
                    && let Ok(event) = events.recv()
                {
                    let Some(shared) = shared.upgrade() else { return };
                    shared.notify(&Change::Event(event));
                }
                return;
            }
            Role::Client(client) => {
                drop(strong);
                listen(shared, &client, again);
                let Some(strong) = shared.upgrade() else { return };
                if let Err(error) = strong.reconnect(&client) {
                    tracing::warn!(%error, "cannot find an owner of the workspace; the next call tries again");
                    drop(strong);
                    thread::sleep(RETRY_INTERVAL);
                }
            }
        }
    }
}

/// Passes events on until the owner exits.
fn listen(shared: &Weak<Shared>, client: &Arc<Client>, again: bool) {
    let waiting = shared.upgrade().map(|shared| shared.waiting.clone()).unwrap_or_default();
    let Some(connection) = client.follow(&waiting) else { return };
    if let Some(shared) = shared.upgrade() {
        shared.mark_listening(again);
    }
    while let Ok(Response::Event(event)) = connection.receive(None) {
        let Some(shared) = shared.upgrade() else { return };
        shared.notify(&Change::Event(event));
    }
}
