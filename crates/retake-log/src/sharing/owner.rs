//! The owner's side: it has the store open, and carries out what its clients ask, a thread each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::model::Timestamp;
use crate::search::{Index, Sizes};
use crate::store::{self, Error, Lock, Options, Progress, Store};

use super::protocol::{Answer, Ask, EventSummary, Failure, Hello, OwnerInfo, PROTOCOL, Row};
use super::socket::{Door, Frame, Wire, address, remove};

/// How long a client may take to greet.
const GREETING: Duration = Duration::from_secs(5);
/// How many bytes of records one answer has.
const MOST_RECORDS: usize = 8 << 20;
/// How many rows one answer has.
const MOST_ROWS: usize = 100_000;
/// How many connections there may be.
const MOST_CLIENTS: u32 = 256;

/// An owner that serves.
pub(super) struct Owner {
    dir: PathBuf,
    /// None when it is closed. Held for reading by every call under way.
    store: RwLock<Option<Store>>,
    pub(super) index: Arc<Index>,
    since: Timestamp,
    socket: Option<PathBuf>,
    clients: AtomicU32,
    closing: AtomicBool,
}

/// What `owner.json` says: who owns the workspace, for those who cannot ask.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pid: u32,
    version: String,
    protocol: u32,
    since: Timestamp,
    pub(super) socket: Option<PathBuf>,
}

impl Claim {
    fn path(dir: &Path) -> PathBuf {
        dir.join("owner.json")
    }

    /// The claim of the owner, or of one that died.
    pub(super) fn read(dir: &Path) -> Option<Claim> {
        serde_json::from_slice(&fs::read(Claim::path(dir)).ok()?).ok()
    }

    fn write(&self, dir: &Path, disk: &Disk) {
        let written =
            serde_json::to_vec(self).map_err(Into::into).and_then(|text| disk.replace(&Claim::path(dir), &text));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot say who owns the workspace");
        }
    }
}

impl Owner {
    /// Listens, opens the store, and serves. Clients that come while it opens wait in the queue for its greeting.
    pub(super) fn start(dir: &Path, options: &Options, lock: Lock) -> Result<Arc<Owner>, Error> {
        let path = address(dir);
        let door = Door::open(&path);
        let socket = door.is_ok().then_some(path.clone());
        let since = (options.clock)();
        let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION").to_owned());
        Claim { pid, version, protocol: PROTOCOL, since, socket: socket.clone() }.write(dir, &options.disk);
        let store = match Store::open_locked(lock, options.clone()) {
            Ok(store) => store,
            Err(error) => {
                withdraw(dir, socket.as_deref());
                return Err(error);
            }
        };
        let index = Arc::new(Index::new(dir, Sizes::default()));
        let noting = Arc::clone(&index);
        store.tell(move |_| {
            noting.note();
            true
        });
        let owner = Arc::new(Owner {
            dir: dir.to_owned(),
            store: RwLock::new(Some(store)),
            index,
            since,
            socket,
            clients: AtomicU32::new(0),
            closing: AtomicBool::new(false),
        });
        owner.keep_index();
        match door {
            Ok(door) => {
                let serving = Arc::clone(&owner);
                let spawned = thread::Builder::new().name("retake-door".to_owned()).spawn(move || serving.serve(&door));
                if let Err(error) = spawned {
                    tracing::warn!(%error, "no thread to serve other processes");
                }
            }
            Err(error) => tracing::warn!(%error, path = %path.display(), "other processes cannot take part"),
        }
        Ok(owner)
    }

    /// Uses the store; none when it is closed.
    pub(super) fn with_store<T>(&self, work: impl FnOnce(&Store) -> T) -> Option<T> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
    }

    pub(super) fn info(&self) -> OwnerInfo {
        OwnerInfo {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            since: self.since,
            clients: self.clients.load(Ordering::Relaxed),
            socket: self.socket.clone(),
        }
    }

    /// Takes no new call, finishes those under way, and lets go of the workspace.
    pub(super) fn close(&self) -> Result<(), Error> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // What is under way in the background ends, and with it what it needs the store for.
        self.index.stop();
        let store = self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(store) = &store {
            self.index.close(store);
        }
        // Before the lock goes: afterwards the socket may be the next owner's.
        if let Some(socket) = &self.socket {
            // Wakes the thread that waits for connections.
            let _ = Wire::connect(socket);
        }
        withdraw(&self.dir, self.socket.as_deref());
        store.map_or(Ok(()), Store::close)
    }

    /// Keeps the search index up in the background, for as long as there is an owner.
    fn keep_index(self: &Arc<Owner>) {
        let (owner, index) = (Arc::downgrade(self), Arc::clone(&self.index));
        let spawned = thread::Builder::new().name("retake-search".to_owned()).spawn(move || {
            while index.wait() {
                let Some(owner) = owner.upgrade() else { return };
                if owner.with_store(|store| index.tend(store)).is_none() {
                    return;
                }
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to keep the search index up");
        }
    }

    fn serve(self: &Arc<Owner>, door: &Door) {
        while !self.closing.load(Ordering::Acquire) {
            let wire = match door.accept() {
                Ok(wire) => wire,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Out of file descriptors, most likely: not a reason to spin.
                    thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            let place = ClientSlot::take(self);
            if self.closing.load(Ordering::Acquire) || place.is_none() {
                continue;
            }
            let spawned = thread::Builder::new().name("retake-client".to_owned()).spawn(move || {
                if let Some(place) = place {
                    place.owner.attend(&Arc::new(wire));
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%error, "no thread for a client");
            }
        }
    }

    /// Carries out what one client asks until it goes.
    fn attend(&self, wire: &Arc<Wire>) {
        let hello = wire.receive(Some(GREETING)).and_then(|frame| frame.read::<Hello>());
        if wire.send(&Hello::ours(), &[]).is_err() || !hello.is_ok_and(|hello| hello.protocol == PROTOCOL) {
            return;
        }
        while let Ok(frame) = wire.receive(None) {
            let Ok(ask) = frame.read::<Ask>() else { return };
            if matches!(ask, Ask::Follow) {
                return self.tell_news(wire);
            }
            // The answer is sent with the store still held, so that closing waits for it to be on its way.
            let answered = self.with_store(|store| {
                let (answer, bytes) = self.answer(store, ask, &frame, wire);
                wire.send(&answer, &bytes)
            });
            match answered {
                Some(Ok(())) => {}
                // An answer that is too large must not look like an owner that is gone.
                Some(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => {
                    let failure = Failure::Misuse("an answer of more than 32 MiB".to_owned());
                    if wire.send(&Answer::Failed(failure), &[]).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    fn answer(&self, store: &Store, ask: Ask, frame: &Frame, wire: &Arc<Wire>) -> (Answer, Vec<u8>) {
        let mut bytes = Vec::new();
        let answer = match ask {
            Ask::Append(batch) => store.append(*batch).map(Answer::Ack),
            Ask::Head(id) => store.head(id).map(Answer::Head),
            Ask::Records(id, from) => store.records(id).map(|records| {
                let wanted = records.iter().filter(|record| store::place(record).is_some_and(|seq| seq >= from));
                for record in wanted {
                    if !bytes.is_empty() && bytes.len() + record.len() > MOST_RECORDS {
                        break;
                    }
                    bytes.extend_from_slice(record);
                }
                Answer::Records
            }),
            Ask::Record(id, seq) => store.record(id, seq).map(|record| {
                bytes = record.unwrap_or_default();
                Answer::Records
            }),
            Ask::Page { status, order, after, limit } => {
                store.page(status, order, after, limit.min(MOST_ROWS)).map(|rows| {
                    bytes = Row::pack(rows.iter().map(Arc::as_ref));
                    Answer::Page
                })
            }
            Ask::Totals => store.totals().map(Answer::Totals),
            Ask::Children(id) => store.children(id).map(Answer::Children),
            Ask::Ids { after, limit } => store.ids(after, limit.min(100_000)).map(Answer::Ids),
            Ask::Trail(id) => store.trail(id).map(|trail| Answer::Trail(trail.faults)),
            Ask::Text(hash) => Ok(Answer::Text(store.text(hash).is_some())),
            Ask::Import(_) => {
                let records: Vec<Vec<u8>> = store::split(&frame.bytes).into_iter().map(<[u8]>::to_vec).collect();
                store.import(&records).map(Answer::Imported)
            }
            Ask::Search(question) => {
                self.search(store, &question, Some(&progress_to(wire))).map(|(found, heads, sent)| {
                    bytes = sent;
                    Answer::Found(found, heads)
                })
            }
            Ask::Verify => store.verify(Some(progress_to(wire))).map(Answer::Verified),
            Ask::Repair => store.repair(Some(progress_to(wire))).map(Answer::Repaired),
            Ask::Owner => Ok(Answer::Owner(self.info())),
            Ask::Follow => Err(Error::Misuse("news are not an answer".into())),
        };
        (answer.unwrap_or_else(|error| Answer::Failed(error.into())), bytes)
    }

    /// Sends news until the client goes or the store is closed.
    fn tell_news(&self, wire: &Arc<Wire>) {
        let (sender, news) = mpsc::channel();
        let ender = Ender(sender.clone());
        let told = self.with_store(|store| {
            store.tell(move |event| ender.0.send(Some(EventSummary::from(&**event))).is_ok());
        });
        if told.is_none() || wire.send(&Answer::Owner(self.info()), &[]).is_err() {
            return;
        }
        // The client says nothing more: when reading ends, it is gone.
        let listening = Arc::clone(wire);
        let listener = thread::Builder::new().name("retake-news".to_owned()).spawn(move || {
            let _ = listening.receive(None);
            let _ = sender.send(None);
        });
        if listener.is_err() {
            return;
        }
        while let Ok(Some(notice)) = news.recv() {
            if wire.send(&Answer::Change(notice), &[]).is_err() {
                return;
            }
        }
        // The connection stays open for as long as the client does not close it: it must be told.
        let _ = wire.send(&Answer::Goodbye, &[]);
    }
}

/// Says that there are no more news when the store lets go of its follower.
struct Ender(Sender<Option<EventSummary>>);

impl Drop for Ender {
    fn drop(&mut self) {
        let _ = self.0.send(None);
    }
}

/// A client's place among those that may be connected.
struct ClientSlot {
    owner: Arc<Owner>,
}

impl ClientSlot {
    fn take(owner: &Arc<Owner>) -> Option<ClientSlot> {
        let before = owner.clients.fetch_add(1, Ordering::Relaxed);
        let place = ClientSlot { owner: Arc::clone(owner) };
        (before < MOST_CLIENTS).then_some(place)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.owner.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends word of progress to a client, at most twenty times a second.
fn progress_to(wire: &Arc<Wire>) -> Progress {
    let wire = Arc::clone(wire);
    let last = std::sync::Mutex::new(None::<std::time::Instant>);
    Arc::new(move |what, done, of| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > Duration::from_millis(50)) {
            *last = Some(std::time::Instant::now());
            let _ = wire.send(&Answer::Progress(what.to_owned(), done, of), &[]);
        }
    })
}

/// Removes what says that this process can be asked.
fn withdraw(dir: &Path, socket: Option<&Path>) {
    if let Some(socket) = socket {
        remove(socket);
    }
    let _ = fs::remove_file(Claim::path(dir));
}
