//! Watching: a thread that passes news on to whoever follows in this process, and that notices when the owner goes, so
//! that someone takes over at once and not only when someone asks.

use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::protocol::{Answer, Change, EventSummary};
use super::{PATIENCE, Role, Shared};

/// Starts watching, for as long as the workspace is open.
pub(super) fn start(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    let spawned = thread::Builder::new().name("retake-watch".to_owned()).spawn(move || watch(&weak));
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to watch the owner");
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
                let (sender, news) = mpsc::channel();
                let told = owner.with_store(|store| {
                    store.tell(move |event| sender.send(EventSummary::from(&**event)).is_ok());
                });
                strong.hears(again);
                drop((owner, strong));
                // Ends when the store is closed, which for an owner is the end.
                while told.is_some()
                    && let Ok(notice) = news.recv()
                {
                    let Some(shared) = shared.upgrade() else { return };
                    shared.tell(&Change::Event(notice));
                }
                return;
            }
            Role::Client(client) => {
                drop(strong);
                listen(shared, &client, again);
                let Some(strong) = shared.upgrade() else { return };
                if let Err(error) = strong.seek_again(&client, Instant::now() + PATIENCE) {
                    tracing::warn!(%error, "nobody owns the workspace; the next request looks again");
                    drop(strong);
                    thread::sleep(Duration::from_secs(1));
                }
            }
        }
    }
}

/// Passes news on until the owner goes.
fn listen(shared: &Weak<Shared>, client: &Arc<Client>, again: bool) {
    let Some(wire) = client.follow() else { return };
    if let Some(shared) = shared.upgrade() {
        shared.hears(again);
    }
    while let Ok(frame) = wire.receive(None) {
        match frame.read() {
            Ok(Answer::Change(notice)) => {
                let Some(shared) = shared.upgrade() else { return };
                shared.tell(&Change::Event(notice));
            }
            _ => return,
        }
    }
}
