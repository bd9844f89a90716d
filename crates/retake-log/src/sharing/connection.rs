//! Connections between processes, and frames on them. `platform` knows the kind of socket.
//!
//! A frame is its length, four bytes that are zero, and that many bytes: JSON in the greeting, MessagePack afterwards,
//! which carries any JSON value (parameters are nested as their senders like) and byte strings as they are.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{ConnectOptions, Listener as SocketListener, ListenerOptions, Stream};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::platform::{HAS_TIMEOUTS, restrict_listener, socket_name_of};
pub(super) use crate::platform::{address, is_trusted, remove_socket as remove};

/// The largest frame. The largest recipe takes a quarter of it.
pub(super) const MAX_FRAME_BYTES: usize = 32 << 20;
/// The deepest nesting that is decoded: twice that of JSON parsers, and little enough for the stack of any thread.
const MAX_DEPTH: usize = 300;
/// How long the rest of a frame may take once it has begun, and how long an unread one is kept.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// One end of a connection.
pub(super) struct Connection {
    stream: Stream,
    /// Held while a frame is sent, since answers and signs of life come from different threads.
    sending: Mutex<()>,
}

/// A socket that accepts connections.
pub(super) struct Listener {
    socket: SocketListener,
}

impl Listener {
    /// Listens at `path`, for this user only. The caller holds the workspace's lock, so a socket there is left over.
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
    /// Connects, or returns `None` if no process listens there. A listener that does not accept within `timeout` is an
    /// error of kind `TimedOut`.
    pub(super) fn connect(path: &Path, timeout: Duration) -> io::Result<Option<Connection>> {
        let wait_mode = if HAS_TIMEOUTS { ConnectWaitMode::Timeout(timeout) } else { ConnectWaitMode::Unbounded };
        match ConnectOptions::new().name(socket_name_of(path)?).wait_mode(wait_mode).connect_sync() {
            Ok(stream) => Connection::new(stream).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::TimedOut) => {
                Err(error)
            }
            // A full queue is reported at once on Linux, without waiting.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(_) => Ok(None),
        }
    }

    fn new(stream: Stream) -> io::Result<Connection> {
        if HAS_TIMEOUTS {
            stream.set_send_timeout(Some(FRAME_TIMEOUT))?;
        }
        Ok(Connection { stream, sending: Mutex::new(()) })
    }

    /// Sends a message. The error is of kind `InvalidInput` if it cannot be encoded or is too large, and then nothing was
    /// sent.
    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_bytes(&encode(message)?)
    }

    /// Sends a frame with these bytes.
    pub(super) fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME_BYTES);
        let length = length.ok_or(io::Error::new(io::ErrorKind::InvalidInput, "a message of more than 32 MiB"))?;
        let mut frame = Vec::with_capacity(bytes.len() + 8);
        frame.extend(length.to_le_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(bytes);
        let _sending = self.sending.lock();
        (&self.stream).write_all(&frame)
    }

    /// Receives a message, waiting for its beginning for at most `timeout`.
    pub(super) fn receive<T: DeserializeOwned>(&self, timeout: Option<Duration>) -> io::Result<T> {
        decode(&self.receive_bytes(timeout)?)
    }

    /// Receives a frame. The error is of kind `TimedOut` if none has begun within `timeout`, and the connection can still
    /// be used; after any other error it cannot.
    pub(super) fn receive_bytes(&self, timeout: Option<Duration>) -> io::Result<Vec<u8>> {
        let mut header = [0; 8];
        let (first, rest) = header.split_at_mut(1);
        self.set_timeout(timeout)?;
        (&self.stream).read_exact(first).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        let until = Instant::now() + FRAME_TIMEOUT;
        self.read_until(rest, until)?;
        let (length, zero) = header.split_at(4);
        let length = length.try_into().map_or(usize::MAX, |length| u32::from_le_bytes(length) as usize);
        if length > MAX_FRAME_BYTES || zero != [0; 4] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
        }
        let mut bytes = Vec::new();
        while bytes.len() < length {
            // Grows as bytes arrive, so that a header alone does not cost memory.
            let read = bytes.len();
            bytes.resize(length.min(read + (64 << 10)), 0);
            self.read_until(bytes.get_mut(read..).unwrap_or_default(), until)?;
        }
        Ok(bytes)
    }

    /// Fills a buffer before a deadline, which holds for the frame as a whole and not for each byte of it.
    fn read_until(&self, mut buffer: &mut [u8], until: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the rest of a frame did not arrive"));
            }
            self.set_timeout(Some(left))?;
            match (&self.stream).read(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => buffer = buffer.split_at_mut(read).1,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        // A timeout of zero means none at all.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
        if HAS_TIMEOUTS { self.stream.set_recv_timeout(timeout) } else { Ok(()) }
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
