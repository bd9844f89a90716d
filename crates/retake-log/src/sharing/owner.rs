//! The owner side: has the store open, and runs the calls of its clients, one thread per client.
//!
//! It listens before the store is open, so that a client sees at once that there is an owner and that it is working,
//! for example on the recovery of a large workspace. During a call, it sends a heartbeat every second.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, sweep_temporaries, temporary_dirs};
use crate::log::{Log, OpenLog};
use crate::model::Timestamp;
use crate::store::{Error, Lock, Options, Progress, ReadOnlyStore, Store};

use super::call::{CallContext, Extension, LogHandle, Registry};
use super::calls;
use super::connection::{Connection, Listener, address, decode, remove};
use super::protocol::{EventSummary, Hello, OwnerInfo, PROTOCOL, Request, Response};

/// How long a client may take to send its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of heartbeats to a client with a call in progress.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of connections.
const MAX_CLIENTS: u32 = 256;

/// The owner of the workspace, shared by its threads.
pub(super) struct Owner {
    dir: PathBuf,
    /// `None` before the store is open and after it is closed. Every call in progress holds a read lock.
    store: RwLock<Option<Opened>>,
    phase: Mutex<Phase>,
    phase_changed: Condvar,
    calls: Registry,
    extensions: Vec<Arc<dyn Extension>>,
    since: Timestamp,
    socket: Option<PathBuf>,
    /// The directory of recovery reports: in the workspace, unless it is read-only.
    reports: PathBuf,
    /// Whether the workspace is read-only, so that this process must not remove anything in it.
    is_read_only: bool,
    clients: AtomicU32,
    /// The calls in progress, by number.
    under_way: Mutex<HashMap<u64, UnderWay>>,
    next_call: AtomicU64,
}

/// The open log. The store holds the lock of the workspace itself; for another carrier, it is kept here.
struct Opened {
    log: Box<dyn Log>,
    _lock: Option<Lock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Closed,
}

/// A client's call that has not been answered yet.
struct UnderWay {
    connection: Arc<Connection>,
    id: u64,
    since: Instant,
}

/// The content of `owner.json`, which identifies the owner to processes that cannot connect to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claim {
    pub(super) pid: u32,
    version: String,
    protocol: u32,
    since: Timestamp,
    pub(super) socket: Option<PathBuf>,
}

impl Claim {
    fn path(dir: &Path) -> PathBuf {
        dir.join("owner.json")
    }

    /// Returns the claim of the owner, or of a dead one.
    pub(super) fn read(dir: &Path) -> Option<Claim> {
        serde_json::from_slice(&fs::read(Claim::path(dir)).ok()?).ok()
    }

    fn write(&self, dir: &Path, disk: &Disk) {
        let written =
            serde_json::to_vec(self).map_err(Into::into).and_then(|text| disk.replace(&Claim::path(dir), &text));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot write owner.json");
        }
    }
}

impl From<Claim> for OwnerInfo {
    fn from(claim: Claim) -> OwnerInfo {
        let Claim { pid, version, protocol, since, socket } = claim;
        OwnerInfo { pid, version, protocol, since, clients: 0, socket }
    }
}

impl Owner {
    /// Listens, opens the store, and serves.
    pub(super) fn start(
        dir: &Path,
        options: &Options,
        lock: Lock,
        extensions: &[Arc<dyn Extension>],
        carrier: Option<&OpenLog>,
    ) -> Result<Arc<Owner>, Error> {
        let path = address(dir);
        let listener = Listener::bind(&path);
        let socket = listener.is_ok().then_some(path.clone());
        let since = (options.clock)();
        let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION").to_owned());
        Claim { pid, version, protocol: PROTOCOL, since, socket: socket.clone() }.write(dir, &options.disk);
        let owner = Arc::new(Owner { socket, ..Owner::new(dir, since, extensions) });
        match listener {
            Ok(listener) => {
                let serving = Arc::clone(&owner);
                spawn("retake-listener", move || serving.serve(&listener));
                let beating = Arc::clone(&owner);
                spawn("retake-heartbeat", move || beating.send_heartbeats());
            }
            Err(error) => tracing::warn!(%error, path = %path.display(), "other processes cannot take part"),
        }
        let opened = match carrier {
            Some(open) => open().map(|log| Opened { log, _lock: Some(lock) }),
            None => Store::open_locked(lock, options.clone()).map(|store| Opened { log: Box::new(store), _lock: None }),
        };
        match opened {
            Ok(opened) => owner.open(opened),
            Err(error) => {
                owner.enter(Phase::Closed);
                owner.withdraw();
                return Err(error);
            }
        }
        Ok(owner)
    }

    /// Opens a read-only workspace, for this process only.
    pub(super) fn start_read_only(
        dir: &Path,
        options: &Options,
        extensions: &[Arc<dyn Extension>],
    ) -> Result<Arc<Owner>, Error> {
        let store = ReadOnlyStore::open(dir, options)?;
        let reports = store.reports_dir().to_owned();
        let owner = Owner::new(dir, (options.clock)(), extensions);
        let owner = Arc::new(Owner { reports, is_read_only: true, ..owner });
        owner.open(Opened { log: Box::new(store), _lock: None });
        Ok(owner)
    }

    fn new(dir: &Path, since: Timestamp, extensions: &[Arc<dyn Extension>]) -> Owner {
        let mut calls = calls::registry();
        for extension in extensions {
            extension.register(&mut calls);
        }
        Owner {
            dir: dir.to_owned(),
            store: RwLock::new(None),
            phase: Mutex::new(Phase::Opening),
            phase_changed: Condvar::new(),
            calls,
            extensions: extensions.to_vec(),
            since,
            socket: None,
            reports: dir.to_owned(),
            is_read_only: false,
            clients: AtomicU32::new(0),
            under_way: Mutex::new(HashMap::new()),
            next_call: AtomicU64::new(0),
        }
    }

    /// Returns the directory of recovery reports.
    pub(super) fn reports_dir(&self) -> &Path {
        &self.reports
    }

    fn open(self: &Arc<Owner>, opened: Opened) {
        for dir in temporary_dirs(&self.dir).into_iter().filter(|_| !self.is_read_only) {
            let removed = sweep_temporaries(&dir, SystemTime::now());
            if removed > 0 {
                tracing::info!(removed, dir = %dir.display(), "removed temporary files that killed processes left");
            }
        }
        let extensions = self.extensions.clone();
        opened.log.follow(Box::new(move |_| {
            extensions.iter().for_each(|extension| extension.acknowledged());
            true
        }));
        *self.store.write() = Some(opened);
        self.enter(Phase::Open);
        for extension in &self.extensions {
            let (extension, log) = (Arc::clone(extension), LogHandle { owner: Arc::downgrade(self) });
            spawn("retake-background", move || extension.run(&log));
        }
    }

    /// Uses the log; `None` if it is closed.
    pub(super) fn with_log<T>(&self, work: impl FnOnce(&dyn Log) -> T) -> Option<T> {
        self.store.read().as_ref().map(|opened| work(&*opened.log))
    }

    /// Uses the log for a call of this process; `None` if it is closed.
    pub(super) fn run<T>(&self, progress: Option<&Progress>, work: impl FnOnce(&CallContext<'_>) -> T) -> Option<T> {
        self.with_log(|log| work(&CallContext { log, owner: self, progress }))
    }

    pub(super) fn extensions(&self) -> &[Arc<dyn Extension>] {
        &self.extensions
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

    /// Accepts no new calls, finishes those in progress, and releases the workspace.
    pub(super) fn close(&self) -> Result<(), Error> {
        if self.enter(Phase::Closed) == Phase::Closed {
            return Ok(());
        }
        // Background work ends first, since it uses the store.
        self.extensions.iter().for_each(|extension| extension.stop());
        let store = self.store.write().take();
        if let Some(opened) = &store {
            self.extensions.iter().for_each(|extension| extension.close(&*opened.log));
        }
        // Before the lock is released: afterwards, the socket may belong to the next owner.
        self.withdraw();
        store.map_or(Ok(()), |opened| opened.log.close())
    }

    /// Removes the socket and the claim, and wakes the threads that wait for clients.
    fn withdraw(&self) {
        if self.is_read_only {
            return;
        }
        if let Some(socket) = &self.socket {
            let _ = Connection::connect(socket, Duration::from_millis(100));
            remove(socket);
        }
        let _ = fs::remove_file(Claim::path(&self.dir));
    }

    fn serve(self: &Arc<Owner>, listener: &Listener) {
        while self.phase() != Phase::Closed {
            let connection = match listener.accept() {
                Ok(connection) => Arc::new(connection),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Most likely out of file descriptors; wait instead of spinning.
                    thread::sleep(Duration::from_millis(50));
                    continue;
                }
            };
            let slot = ClientSlot::take(self);
            if self.phase() == Phase::Closed {
                return;
            }
            if let Some(slot) = slot {
                spawn("retake-client", move || slot.owner.attend(&connection));
            }
        }
    }

    /// Runs the calls of one client until it disconnects.
    fn attend(&self, connection: &Arc<Connection>) {
        let hello = connection.receive_bytes(Some(GREETING_TIMEOUT)).ok();
        let hello = hello.and_then(|frame| serde_json::from_slice::<Hello>(&frame).ok());
        let ours = serde_json::to_vec(&Hello::ours()).unwrap_or_default();
        if connection.send_bytes(&ours).is_err() || hello.is_none_or(|hello| hello.protocol != PROTOCOL) {
            return;
        }
        while let Ok(frame) = connection.receive_bytes(None) {
            let (id, name, body) = match decode(&frame) {
                Ok(Request::Call { id, name, body }) => (id, name, body),
                Ok(Request::Follow) => return self.send_events(connection),
                // Without a number, there is no request to respond to. Only another program sends this.
                Err(_) => return,
            };
            if !self.answer(connection, id, &name, &body) {
                return;
            }
        }
    }

    /// Runs a call and sends the answer. Returns whether the connection is still usable.
    fn answer(&self, connection: &Arc<Connection>, id: u64, name: &str, body: &[u8]) -> bool {
        let under_way = self.begin(connection, id);
        if self.wait_until_open() == Phase::Closed {
            return false;
        }
        let progress = progress_to(connection, id);
        // The answer is sent while the store is held, so that closing waits for it.
        let sent = self.run(Some(&progress), |context| {
            let answer = self.calls.run(name, body, context);
            drop(under_way);
            let response = match answer {
                Ok(body) => Response::Answer { id, body },
                Err(error) => Response::Failed { id, error },
            };
            match connection.send(&response) {
                // An answer that is too large must not look like an owner that is gone.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    let error = Error::Misuse(format!("the answer to {name:?} cannot be sent: {error}").into());
                    connection.send(&Response::Failed { id, error })
                }
                sent => sent,
            }
        });
        matches!(sent, Some(Ok(())))
    }

    /// Sends events until the client disconnects or the store is closed.
    fn send_events(&self, connection: &Arc<Connection>) {
        if self.wait_until_open() == Phase::Closed {
            return;
        }
        let (sender, events) = mpsc::channel();
        let end = EndOfEvents(sender.clone());
        let following = self.with_log(|log| {
            log.follow(Box::new(move |event| end.0.send(Some(EventSummary::from(&**event))).is_ok()));
        });
        if following.is_none() || connection.send(&Response::Following).is_err() {
            return;
        }
        // The client sends nothing more: when reading ends, it has disconnected.
        let reading = Arc::clone(connection);
        let reader = spawn("retake-events", move || {
            let _ = reading.receive_bytes(None);
            let _ = sender.send(None);
        });
        if !reader {
            return;
        }
        while let Ok(Some(event)) = events.recv() {
            if connection.send(&Response::Event(event)).is_err() {
                return;
            }
        }
        // The client keeps the connection open until it is notified.
        let _ = connection.send(&Response::Goodbye);
    }

    /// Sends heartbeats to all clients with long calls.
    fn send_heartbeats(&self) {
        let mut phase = self.lock_phase();
        while *phase != Phase::Closed {
            self.phase_changed.wait_for(&mut phase, HEARTBEAT_INTERVAL);
            if *phase == Phase::Closed {
                return;
            }
            drop(phase);
            let slow: Vec<(Arc<Connection>, u64)> = {
                let under_way = self.under_way.lock();
                let slow = under_way.values().filter(|call| call.since.elapsed() >= HEARTBEAT_INTERVAL / 2);
                slow.map(|call| (Arc::clone(&call.connection), call.id)).collect()
            };
            for (connection, id) in slow {
                let _ = connection.send(&Response::Working { id });
            }
            phase = self.lock_phase();
        }
    }

    /// Registers a call for heartbeats until the guard is dropped.
    fn begin(&self, connection: &Arc<Connection>, id: u64) -> UnderWayGuard<'_> {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let call = UnderWay { connection: Arc::clone(connection), id, since: Instant::now() };
        self.under_way.lock().insert(number, call);
        UnderWayGuard { owner: self, number }
    }

    fn wait_until_open(&self) -> Phase {
        let mut phase = self.lock_phase();
        self.phase_changed.wait_while(&mut phase, |phase| *phase == Phase::Opening);
        *phase
    }

    /// Changes the phase, and returns the previous one.
    fn enter(&self, phase: Phase) -> Phase {
        let before = std::mem::replace(&mut *self.lock_phase(), phase);
        self.phase_changed.notify_all();
        before
    }

    fn phase(&self) -> Phase {
        *self.lock_phase()
    }

    fn lock_phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock()
    }
}

/// Sends the end of events when the store drops its follower.
struct EndOfEvents(Sender<Option<EventSummary>>);

impl Drop for EndOfEvents {
    fn drop(&mut self) {
        let _ = self.0.send(None);
    }
}

/// Keeps a call registered for heartbeats.
struct UnderWayGuard<'a> {
    owner: &'a Owner,
    number: u64,
}

impl Drop for UnderWayGuard<'_> {
    fn drop(&mut self) {
        self.owner.under_way.lock().remove(&self.number);
    }
}

/// A permit for one of the connections.
struct ClientSlot {
    owner: Arc<Owner>,
}

impl ClientSlot {
    fn take(owner: &Arc<Owner>) -> Option<ClientSlot> {
        let before = owner.clients.fetch_add(1, Ordering::Relaxed);
        let slot = ClientSlot { owner: Arc::clone(owner) };
        (before < MAX_CLIENTS).then_some(slot)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.owner.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns a callback that reports progress to a client, at most twenty times a second.
fn progress_to(connection: &Arc<Connection>, id: u64) -> Progress {
    let connection = Arc::clone(connection);
    let last = Mutex::new(None::<Instant>);
    Arc::new(move |what, done, total| {
        let mut last = last.lock();
        if last.is_none_or(|last| last.elapsed() > PROGRESS_INTERVAL) {
            *last = Some(Instant::now());
            let _ = connection.send(&Response::Progress { id, what: what.to_owned(), done, total });
        }
    })
}

/// Starts a thread and returns whether that succeeded. Without it, the process continues with reduced function.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    if let Err(error) = &spawned {
        tracing::warn!(%error, name, "cannot start a thread");
    }
    spawned.is_ok()
}
