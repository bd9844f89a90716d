//! The owner's socket: a Unix socket in the workspace, or a named pipe on Windows.

use std::io;
use std::path::{Path, PathBuf};

use interprocess::local_socket::prelude::*;
use interprocess::local_socket::{ListenerOptions, Name, Stream};

/// Whether connecting, sending and receiving support timeouts. Named pipes do not: a slow client blocks a thread.
pub(crate) const HAS_TIMEOUTS: bool = cfg!(unix);
/// The maximum length of a socket path: 108 bytes on Linux, 104 elsewhere, with some margin.
#[cfg(unix)]
const MAX_SOCKET_PATH: usize = 100;

/// Returns the path of a workspace's socket.
#[cfg(unix)]
pub(crate) fn address(dir: &Path) -> PathBuf {
    let usual = dir.join("owner.sock");
    if usual.as_os_str().len() <= MAX_SOCKET_PATH { usual } else { in_runtime_dir(dir).unwrap_or(usual) }
}

/// Returns the name of a workspace's pipe, derived from its path.
#[cfg(windows)]
pub(crate) fn address(dir: &Path) -> PathBuf {
    PathBuf::from(format!("retake-{}", digest(dir)))
}

/// Returns whether `socket` may be the socket of the workspace in `dir`, as a file in the workspace claims.
///
/// A workspace can come from elsewhere, and whatever is written to a socket goes to the listening process. The socket
/// must therefore be in the workspace itself, or in a directory that only the owner of the workspace can write to,
/// under the name derived from the workspace's path; and only its owner may have access to it.
#[cfg(unix)]
pub(crate) fn is_trusted(socket: &Path, dir: &Path) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let (Ok(workspace), Ok(found)) = (std::fs::metadata(dir), std::fs::symlink_metadata(socket)) else { return false };
    let private = |found: &std::fs::Metadata| found.uid() == workspace.uid() && found.mode() & 0o077 == 0;
    let in_private_dir = || {
        socket.file_name().is_some_and(|name| name == file_name(dir).as_str())
            && socket
                .parent()
                .and_then(|parent| std::fs::symlink_metadata(parent).ok())
                .is_some_and(|parent| parent.is_dir() && private(&parent))
    };
    found.file_type().is_socket() && private(&found) && (socket == dir.join("owner.sock") || in_private_dir())
}

#[cfg(windows)]
pub(crate) fn is_trusted(socket: &Path, dir: &Path) -> bool {
    socket == address(dir)
}

/// Reads the bytes that have arrived, without waiting. If there are none, the error is of kind `WouldBlock`.
#[cfg(target_os = "linux")]
pub(crate) fn read_available(stream: &Stream, buffer: &mut [u8]) -> io::Result<usize> {
    use std::os::fd::AsFd;
    let Stream::UdSocket(socket) = stream;
    let (read, _) = rustix::net::recv(socket.as_fd(), buffer, rustix::net::RecvFlags::DONTWAIT)?;
    Ok(read)
}

/// Does the same on other systems, on which sockets are not polled.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read_available(_: &Stream, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// Removes a socket that is not in use. Named pipes disappear with their process.
pub(crate) fn remove(path: &Path) {
    if cfg!(unix) {
        let _ = std::fs::remove_file(path);
    }
}

/// Restricts a listener to this user. Named pipes are restricted by default.
#[cfg(unix)]
pub(crate) fn restrict_listener(options: ListenerOptions<'_>) -> ListenerOptions<'_> {
    interprocess::os::unix::local_socket::ListenerOptionsExt::mode(options, 0o600)
}

#[cfg(windows)]
pub(crate) fn restrict_listener(options: ListenerOptions<'_>) -> ListenerOptions<'_> {
    options
}

/// Converts an address to the form needed for connecting and listening.
#[cfg(unix)]
pub(crate) fn socket_name_of(path: &Path) -> io::Result<Name<'_>> {
    path.to_fs_name::<interprocess::local_socket::GenericFilePath>()
}

#[cfg(windows)]
pub(crate) fn socket_name_of(path: &Path) -> io::Result<Name<'_>> {
    path.to_ns_name::<interprocess::local_socket::GenericNamespaced>()
}

/// Returns the path of the socket in this user's runtime directory, for workspaces whose path is too long.
#[cfg(unix)]
fn in_runtime_dir(dir: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let user = std::fs::metadata(dir).ok()?.uid();
    let place = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|place| place.is_dir()) {
        Some(place) => place.join("retake"),
        None => std::env::temp_dir().join(format!("retake-{user}")),
    };
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&place);
    // Anyone can create directories in a shared location, so it must belong to this user and be inaccessible to others.
    let found = std::fs::symlink_metadata(&place).ok()?;
    (found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0).then(|| place.join(file_name(dir)))
}

#[cfg(unix)]
fn file_name(dir: &Path) -> String {
    format!("{}.sock", digest(dir))
}

fn digest(dir: &Path) -> String {
    blake3::hash(dir.as_os_str().as_encoded_bytes()).to_hex().chars().take(32).collect()
}
