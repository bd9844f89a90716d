//! The client side: connections to the owner, kept for further calls.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::store::{Error, Progress};

use super::connection::{Connection, address, is_trusted};
use super::owner::Claim;
use super::owner_wait::OwnerWait;
use super::protocol::{Hello, PROTOCOL, Request, Response};

/// The maximum number of idle connections kept.
const MAX_IDLE: usize = 16;

/// Access to the owner of a workspace.
pub(super) struct Client {
    socket: PathBuf,
    /// The owner's process id, from its greeting.
    pid: u32,
    idle: Mutex<Vec<Connection>>,
    next_id: AtomicU64,
}

/// The reason why a call has no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// The owner is gone: retry with the next one.
    Gone,
    /// The owner exists but does not respond; with its process id if known.
    Unresponsive(Option<u32>),
    /// The request is too large, or cannot be encoded.
    Unsendable(io::Error),
    /// The call ran and failed.
    Failed(Error),
}

impl Client {
    /// Connects to the owner of the workspace in `dir`; `None` if there is none.
    pub(super) fn connect(dir: &Path, waiting: &OwnerWait) -> Result<Option<Client>, Error> {
        // If the path is too long for a socket, the socket is in the owner's runtime directory, which only its claim
        // states.
        let claim = Claim::read(dir);
        let socket = claim.as_ref().and_then(|claim| claim.socket.clone()).unwrap_or_else(|| address(dir));
        let Some(socket) = [socket, address(dir)].into_iter().find(|socket| is_trusted(socket, dir)) else {
            return Ok(None);
        };
        let pid = claim.map(|claim| claim.pid);
        Ok(greet(&socket, pid, waiting)?.map(|(connection, pid)| Client {
            socket,
            pid,
            idle: Mutex::new(vec![connection]),
            next_id: AtomicU64::new(1),
        }))
    }

    /// Makes a call and returns the encoded answer.
    pub(super) fn call(
        &self,
        name: &str,
        body: &[u8],
        progress: Option<&Progress>,
        waiting: &OwnerWait,
    ) -> Result<Vec<u8>, CallError> {
        let kept = self.idle.lock().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => self.greet(waiting)?,
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = Request::Call { id, name: name.to_owned(), body: body.to_vec() };
        connection.send(&request).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => CallError::Unsendable(error),
            // The owner has not read earlier data for a while.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => CallError::Unresponsive(Some(self.pid)),
            _ => CallError::Gone,
        })?;
        let answer = self.answer(&connection, id, progress, waiting);
        if matches!(answer, Ok(_) | Err(CallError::Failed(_))) {
            let mut idle = self.idle.lock();
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        }
        answer
    }

    /// Waits for the answer to request `id`.
    fn answer(
        &self,
        connection: &Connection,
        id: u64,
        progress: Option<&Progress>,
        waiting: &OwnerWait,
    ) -> Result<Vec<u8>, CallError> {
        loop {
            match receive(connection, Some(self.pid), waiting)? {
                Response::Answer { id: of, body } if of == id => return Ok(body),
                Response::Failed { id: of, error } if of == id => return Err(CallError::Failed(error)),
                Response::Progress { id: of, what, done, total } if of == id => {
                    if let Some(progress) = progress {
                        progress(&what, done, total);
                    }
                }
                // A heartbeat may cross the answer to the previous request.
                Response::Working { .. } => {}
                // An answer to another request: this connection can no longer be trusted.
                _ => return Err(CallError::Gone),
            }
        }
    }

    /// Returns a connection on which events arrive, once the owner has confirmed it.
    pub(super) fn follow(&self, waiting: &OwnerWait) -> Option<Connection> {
        let connection = self.greet(waiting).ok()?;
        connection.send(&Request::Follow).ok()?;
        matches!(receive(&connection, Some(self.pid), waiting), Ok(Response::Following)).then_some(connection)
    }

    fn greet(&self, waiting: &OwnerWait) -> Result<Connection, CallError> {
        match greet(&self.socket, Some(self.pid), waiting) {
            Ok(Some((connection, _))) => Ok(connection),
            Err(Error::Unresponsive { pid }) => Err(CallError::Unresponsive(pid)),
            Ok(None) | Err(_) => Err(CallError::Gone),
        }
    }
}

/// Receives the next response. A running owner sends something every second.
fn receive(connection: &Connection, pid: Option<u32>, waiting: &OwnerWait) -> Result<Response, CallError> {
    let since = Instant::now();
    loop {
        match connection.receive(Some(waiting.next(since))) {
            Ok(response) => return Ok(response),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                if waiting.is_over(since) {
                    return Err(CallError::Unresponsive(pid));
                }
                waiting.report(pid, since);
            }
            Err(_) => return Err(CallError::Gone),
        }
    }
}

/// Connects and exchanges greetings. Returns the connection and the owner's process id; `None` if there is no owner or
/// it disappears meanwhile.
fn greet(socket: &Path, pid: Option<u32>, waiting: &OwnerWait) -> Result<Option<(Connection, u32)>, Error> {
    let since = Instant::now();
    let connection = loop {
        match Connection::connect(socket, waiting.next(since)) {
            Ok(Some(connection)) => break connection,
            Ok(None) => return Ok(None),
            // Its backlog is full: it has not accepted anything for a while.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                if waiting.is_over(since) {
                    return Err(Error::Unresponsive { pid });
                }
                waiting.report(pid, since);
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(source) => {
                return Err(Error::Io {
                    action: "connect to the process of another user that owns the workspace".into(),
                    path: socket.to_owned(),
                    source,
                });
            }
        }
    };
    // An owner that closes the connection on our greeting may have sent its own: a version mismatch must not look like
    // an absent owner.
    let _ = serde_json::to_vec(&Hello::ours()).map_err(io::Error::from).and_then(|hello| connection.send_bytes(&hello));
    let frame = loop {
        match connection.receive_bytes(Some(waiting.next(since))) {
            Ok(frame) => break frame,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                if waiting.is_over(since) {
                    return Err(Error::Unresponsive { pid });
                }
                waiting.report(pid, since);
            }
            Err(_) => return Ok(None),
        }
    };
    match serde_json::from_slice::<Hello>(&frame) {
        Ok(hello) if hello.protocol == PROTOCOL => Ok(Some((connection, hello.pid))),
        Ok(hello) => Err(Error::Incompatible(format!(
            "the workspace is in use by Retake {} (process {}), which speaks protocol {}; this is Retake {} with protocol {PROTOCOL}",
            hello.version,
            hello.pid,
            hello.protocol,
            env!("CARGO_PKG_VERSION"),
        ))),
        Err(_) => Ok(None),
    }
}
