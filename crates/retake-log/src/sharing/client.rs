//! The client's side: connections to the owner, kept for the next call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::store::{Error, Progress};

use super::owner::Claim;
use super::protocol::{Answer, Ask, Hello, PROTOCOL};
use super::socket::{Frame, Wire, address};

/// How long an owner that is opening the workspace is waited for: it may be recovering a large one.
const GREETING: Duration = Duration::from_secs(600);
/// How long an answer, or word of progress, is waited for.
const ANSWER: Duration = Duration::from_secs(60);
/// How many connections are kept for later.
const KEPT: usize = 16;

/// A connection to an owner.
pub(super) struct Client {
    path: PathBuf,
    idle: Mutex<Vec<Wire>>,
}

/// Why a call came to nothing.
pub(super) enum Lost {
    /// The owner is gone, or does not answer: ask the next one.
    Gone,
    /// No owner would take it.
    TooLarge,
}

impl Client {
    /// Connects to the owner of the workspace in `dir`; none when there is none.
    pub(super) fn connect(dir: &Path) -> Result<Option<Client>, Error> {
        // Where the path is too long, only the owner knows where it listens: its idea of a runtime directory counts.
        let path = Claim::read(dir).and_then(|claim| claim.socket).unwrap_or_else(|| address(dir));
        let Some(wire) = greet(&path)? else { return Ok(None) };
        Ok(Some(Client { path, idle: Mutex::new(vec![wire]) }))
    }

    /// Asks, and gives the answer with the bytes that came with it.
    pub(super) fn call(&self, ask: &Ask, progress: Option<&Progress>) -> Result<(Answer, Vec<u8>), Lost> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let wire = match kept {
            Some(wire) => wire,
            None => greet(&self.path).ok().flatten().ok_or(Lost::Gone)?,
        };
        let bytes: &[u8] = if let Ask::Import(records) = ask { records } else { &[] };
        wire.send(ask, bytes).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Lost::TooLarge,
            _ => Lost::Gone,
        })?;
        loop {
            let frame = wire.receive(Some(ANSWER)).map_err(|_| Lost::Gone)?;
            match frame.read().map_err(|_| Lost::Gone)? {
                Answer::Progress(what, done, of) => {
                    if let Some(progress) = progress {
                        progress(&what, done, of);
                    }
                }
                answer => {
                    let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                    if idle.len() < KEPT {
                        idle.push(wire);
                    }
                    return Ok((answer, frame.bytes));
                }
            }
        }
    }

    /// A connection on which news come; the owner has said that they do.
    pub(super) fn follow(&self) -> Option<Wire> {
        let wire = greet(&self.path).ok().flatten()?;
        wire.send(&Ask::Follow, &[]).ok()?;
        wire.receive(Some(ANSWER)).ok()?;
        Some(wire)
    }
}

/// Connects and exchanges greetings; none when nobody is there, or goes away meanwhile.
fn greet(path: &Path) -> Result<Option<Wire>, Error> {
    let connected = Wire::connect(path).map_err(|source| Error::Io {
        action: "connect to the process that owns the workspace, which is another user's".into(),
        path: path.to_owned(),
        source,
    })?;
    let Some(wire) = connected else { return Ok(None) };
    // One that hangs up on our greeting may have sent its own: that it is another version must not look like absence.
    let _ = wire.send(&Hello::ours(), &[]);
    let greeted = wire.receive(Some(GREETING));
    match greeted.and_then(|frame: Frame| frame.read::<Hello>()) {
        Ok(hello) if hello.protocol == PROTOCOL => Ok(Some(wire)),
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
