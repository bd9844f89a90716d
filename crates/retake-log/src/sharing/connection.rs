//! Connections between processes, and their framing. `platform` provides the sockets.
//!
//! A frame is its length, four zero bytes, and that many bytes: JSON in the greeting, then MessagePack, which can carry
//! any JSON value (parameters may be deeply nested) and byte strings as they are.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{ConnectOptions, Listener as SocketListener, ListenerOptions, Stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::polling::Polling;
use crate::platform::{HAS_TIMEOUTS, read_available, restrict_listener, socket_name_of};
pub(super) use crate::platform::{address, is_trusted, remove_socket as remove};

/// The maximum size of a frame. The largest recipe takes a quarter of it.
pub(super) const MAX_FRAME_BYTES: usize = 32 << 20;
/// The maximum nesting depth that is decoded: twice that of JSON parsers, and small enough for the stack of any thread.
const MAX_DEPTH: usize = 300;
/// How long the rest of a frame may take once it has started, and how long an unread one is kept.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// The length of a frame's header.
const FRAME_HEADER: usize = 8;
/// The number of bytes requested per read: all of a typical frame, which then takes one system call.
const READ_BYTES: usize = 8 << 10;
/// The number of bytes requested per read of a large frame. The buffer grows as bytes arrive, so that a header alone
/// does not cost memory.
const MAX_READ_BYTES: usize = 64 << 10;
/// The granularity of socket timeouts, which are rounded up to it so that they are seldom set again.
const TIMEOUT_STEP: Duration = Duration::from_millis(10);

/// One end of a connection.
pub(super) struct Connection {
    stream: Stream,
    /// Held while a frame is sent, since answers and heartbeats come from different threads.
    sending: Mutex<()>,
    receiving: Mutex<Receiving>,
}

/// The receiving side of a connection.
#[derive(Default)]
struct Receiving {
    /// Bytes received that belong to the next frames.
    buffer: Vec<u8>,
    /// The current timeout of the socket.
    timeout: Option<Duration>,
    polling: Polling,
}

/// A socket that accepts connections.
pub(super) struct Listener {
    socket: SocketListener,
}

impl Listener {
    /// Listens at `path`, for this user only. The caller holds the workspace's lock, so an existing socket is left
    /// over.
    pub(super) fn bind(path: &Path) -> io::Result<Listener> {
        remove(path);
        let options = ListenerOptions::new().name(socket_name_of(path)?).reclaim_name(false);
        Ok(Listener { socket: restrict_listener(options).create_sync()? })
    }

    pub(super) fn accept(&self) -> io::Result<Connection> {
        Connection::new(self.socket.accept()?)
    }
}

impl Connection {
    /// Connects; `None` if no process listens there. If the listener does not accept within `timeout`, the error is of
    /// kind `TimedOut`.
    pub(super) fn connect(path: &Path, timeout: Duration) -> io::Result<Option<Connection>> {
        let wait_mode = if HAS_TIMEOUTS { ConnectWaitMode::Timeout(timeout) } else { ConnectWaitMode::Unbounded };
        match ConnectOptions::new().name(socket_name_of(path)?).wait_mode(wait_mode).connect_sync() {
            Ok(stream) => Connection::new(stream).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::TimedOut) => {
                Err(error)
            }
            // On Linux, a full backlog is reported immediately, without waiting.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(_) => Ok(None),
        }
    }

    fn new(stream: Stream) -> io::Result<Connection> {
        if HAS_TIMEOUTS {
            stream.set_send_timeout(Some(FRAME_TIMEOUT))?;
        }
        Ok(Connection { stream, sending: Mutex::new(()), receiving: Mutex::default() })
    }

    /// Sends a message. If it cannot be encoded or is too large, the error is of kind `InvalidInput`, and nothing was
    /// sent.
    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_bytes(&encode(message)?)
    }

    /// Sends a frame with these bytes.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME_BYTES);
        let length = length.ok_or(io::Error::new(io::ErrorKind::InvalidInput, "a message of more than 32 MiB"))?;
        let mut frame = Vec::with_capacity(bytes.len() + FRAME_HEADER);
        frame.extend(length.to_le_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(bytes);
        let _sending = self.sending.lock();
        (&self.stream).write_all(&frame)
    }

    /// Receives a message, waiting at most `timeout` for its start.
    pub(super) fn receive<T: DeserializeOwned>(&self, timeout: Option<Duration>) -> io::Result<T> {
        decode(&self.receive_bytes(timeout)?)
    }

    /// Receives a frame. If none has started within `timeout`, the error is of kind `TimedOut`, and the connection
    /// remains usable; after any other error it is not.
    pub(super) fn receive_bytes(&self, timeout: Option<Duration>) -> io::Result<Vec<u8>> {
        let mut receiving = self.receiving.lock();
        let begun = Instant::now();
        // The deadline applies to the whole frame, not to each read.
        let mut deadline = None;
        loop {
            let missing = match receiving.next_frame()? {
                NextFrame::Complete(frame) => {
                    receiving.polling.arrived_after(begun.elapsed());
                    return Ok(frame);
                }
                NextFrame::Missing(missing) => missing,
            };
            let has_begun = !receiving.buffer.is_empty();
            let left = if has_begun {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + FRAME_TIMEOUT);
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "the rest of a frame did not arrive"));
                }
                Some(left)
            } else {
                timeout
            };
            let wanted = missing.clamp(READ_BYTES, MAX_READ_BYTES);
            let polled = if has_begun { None } else { receiving.poll(&self.stream, wanted) };
            let read = match polled {
                Some(read) => read,
                None => {
                    self.set_timeout(&mut receiving, left)?;
                    receiving.read(wanted, |buffer| (&self.stream).read(buffer))
                }
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && has_begun => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    receiving.polling = Polling::default();
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn set_timeout(&self, receiving: &mut Receiving, timeout: Option<Duration>) -> io::Result<()> {
        let steps = |timeout: Duration| timeout.as_millis().div_ceil(TIMEOUT_STEP.as_millis()).max(1);
        // A timeout of zero would mean no timeout. One that is too long for a step count can be left out.
        let timeout = timeout.and_then(|timeout| TIMEOUT_STEP.checked_mul(u32::try_from(steps(timeout)).ok()?));
        if HAS_TIMEOUTS && receiving.timeout != timeout {
            self.stream.set_recv_timeout(timeout)?;
            receiving.timeout = timeout;
        }
        Ok(())
    }
}

/// The result of parsing the received bytes.
enum NextFrame {
    /// A frame.
    Complete(Vec<u8>),
    /// An incomplete frame, or nothing: at least this many bytes are missing.
    Missing(usize),
}

impl Receiving {
    /// Takes the next frame from the buffer, if it is complete.
    fn next_frame(&mut self) -> io::Result<NextFrame> {
        let Some((length, zero)) = self.buffer.first_chunk::<FRAME_HEADER>().map(|header| header.split_at(4)) else {
            return Ok(NextFrame::Missing(FRAME_HEADER - self.buffer.len()));
        };
        let length = length.try_into().map_or(usize::MAX, |length| u32::from_le_bytes(length) as usize);
        if length > MAX_FRAME_BYTES || zero != [0; 4] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
        }
        let end = FRAME_HEADER + length;
        if self.buffer.len() < end {
            return Ok(NextFrame::Missing(end - self.buffer.len()));
        }
        let rest = self.buffer.split_off(end);
        let mut frame = std::mem::replace(&mut self.buffer, rest);
        frame.drain(..FRAME_HEADER);
        Ok(NextFrame::Complete(frame))
    }

    /// Polls for the start of the next frame; `None` if nothing arrives while that is worthwhile.
    fn poll(&mut self, stream: &Stream, length: usize) -> Option<io::Result<usize>> {
        self.polling.poll(|| match self.read(length, |buffer| read_available(stream, buffer)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            read => Some(read),
        })
    }

    /// Appends at most `length` bytes to the buffer with `read`, which returns how many there are.
    fn read(&mut self, length: usize, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let filled = self.buffer.len();
        self.buffer.resize(filled + length, 0);
        let read = read(self.buffer.get_mut(filled..).unwrap_or_default());
        self.buffer.truncate(filled + read.as_ref().map_or(0, |read| *read));
        read
    }
}

/// Encodes a message.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    rmp_serde::to_vec_named(message).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Decodes a message.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(MAX_DEPTH);
    T::deserialize(&mut deserializer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
