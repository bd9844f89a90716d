//! The socket: where it is, and frames on it. The only file that knows what kind of socket it is.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{Listener, ListenerOptions, Name, Stream};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest frame, JSON and bytes together. The largest recipe is a quarter of it.
pub(super) const MOST: usize = 32 << 20;
/// How long a half-sent frame, and an answer that nobody takes, are waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a socket's address may take: 108 bytes on Linux, 104 elsewhere, less a little.
#[cfg(unix)]
const LONGEST_PATH: usize = 100;

/// One end of a connection.
pub(super) struct Wire {
    stream: Stream,
}

/// Waits for connections.
pub(super) struct Door {
    listener: Listener,
}

/// A frame as read.
pub(super) struct Frame {
    pub(super) json: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

impl Door {
    /// Listens at `path`, for this user only. The caller has the workspace's lock, so what is there is left over.
    pub(super) fn open(path: &Path) -> io::Result<Door> {
        remove(path);
        let options = ListenerOptions::new().name(name(path)?).reclaim_name(false);
        #[cfg(unix)]
        let options = interprocess::os::unix::local_socket::ListenerOptionsExt::mode(options, 0o600);
        Ok(Door { listener: options.create_sync()? })
    }

    pub(super) fn accept(&self) -> io::Result<Wire> {
        Wire::new(self.listener.accept()?)
    }
}

impl Wire {
    /// Connects; none when nobody listens there.
    pub(super) fn connect(path: &Path) -> io::Result<Option<Wire>> {
        match Stream::connect(name(path)?) {
            Ok(stream) => Wire::new(stream).map(Some),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn new(stream: Stream) -> io::Result<Wire> {
        // Named pipes have no time limits; a slow client there costs a thread.
        if cfg!(unix) {
            stream.set_send_timeout(Some(PATIENCE))?;
        }
        Ok(Wire { stream })
    }

    /// Sends a frame.
    pub(super) fn send(&self, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
        let mut frame = vec![0; 8];
        serde_json::to_writer(&mut frame, message)?;
        let json = frame.len() - 8;
        frame.extend_from_slice(bytes);
        if frame.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame of more than 32 MiB"));
        }
        for (place, length) in frame.chunks_mut(4).zip([json, bytes.len()]) {
            place.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        (&self.stream).write_all(&frame)
    }

    /// Waits for a frame: for its beginning as long as it takes, or `patience`, and then not long for the rest.
    pub(super) fn receive(&self, patience: Option<Duration>) -> io::Result<Frame> {
        let mut lengths = [0; 8];
        self.limit(patience)?;
        let (first, rest) = lengths.split_at_mut(1);
        (&self.stream).read_exact(first)?;
        self.limit(Some(PATIENCE))?;
        (&self.stream).read_exact(rest)?;
        let (json, bytes) = lengths.split_at(4);
        let length = |bytes: &[u8]| bytes.try_into().map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize);
        let (json, bytes) = (length(json), length(bytes));
        if json.saturating_add(bytes) > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of more than 32 MiB"));
        }
        Ok(Frame { json: self.take(json)?, bytes: self.take(bytes)? })
    }

    /// Reads that many bytes, never holding more than were sent.
    fn take(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.min(64 << 10));
        let read = (&self.stream).take(length as u64).read_to_end(&mut bytes)?;
        if read == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn limit(&self, patience: Option<Duration>) -> io::Result<()> {
        if cfg!(unix) { self.stream.set_recv_timeout(patience) } else { Ok(()) }
    }
}

impl Frame {
    pub(super) fn read<T: DeserializeOwned>(&self) -> io::Result<T> {
        Ok(serde_json::from_slice(&self.json)?)
    }
}

/// Where the socket of a workspace is.
#[cfg(unix)]
pub(super) fn address(dir: &Path) -> PathBuf {
    let usual = dir.join("owner.sock");
    if usual.as_os_str().len() <= LONGEST_PATH { usual } else { elsewhere(dir).unwrap_or(usual) }
}

/// Pipes have a name space of their own; the workspace's path makes the name.
#[cfg(windows)]
pub(super) fn address(dir: &Path) -> PathBuf {
    PathBuf::from(format!("retake-{}", digest(dir)))
}

/// Removes a socket that is not, or no longer, in use.
pub(super) fn remove(path: &Path) {
    if cfg!(unix) {
        let _ = std::fs::remove_file(path);
    }
}

/// A directory of this user's for sockets whose workspace has too long a path.
#[cfg(unix)]
fn elsewhere(dir: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let user = std::fs::metadata(dir).ok()?.uid();
    let place = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|place| place.is_dir()) {
        Some(place) => place.join("retake"),
        None => std::env::temp_dir().join(format!("retake-{user}")),
    };
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&place);
    // Anyone can make directories in a shared place: it must be the user's own, and nobody else's to write to.
    let found = std::fs::symlink_metadata(&place).ok()?;
    (found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
        .then(|| place.join(format!("{}.sock", digest(dir))))
}

fn digest(dir: &Path) -> String {
    blake3::hash(dir.as_os_str().as_encoded_bytes()).to_hex().chars().take(32).collect()
}

#[cfg(unix)]
fn name(path: &Path) -> io::Result<Name<'_>> {
    path.to_fs_name::<interprocess::local_socket::GenericFilePath>()
}

#[cfg(windows)]
fn name(path: &Path) -> io::Result<Name<'_>> {
    path.to_ns_name::<interprocess::local_socket::GenericNamespaced>()
}
