//! Files: permissions, and opening without following links or blocking.

#[cfg(feature = "mcp")]
use std::fs::File;
use std::fs::OpenOptions;
#[cfg(any(feature = "mcp", feature = "team"))]
use std::io;
#[cfg(any(feature = "mcp", feature = "team"))]
use std::path::Path;

/// Whether symbolic links can be created without special privileges.
pub(crate) const HAS_SYMLINKS: bool = cfg!(unix);

/// Returns how many files this process may have open; `None` if it is unlimited.
#[cfg(unix)]
pub(crate) fn max_open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(windows)]
pub(crate) fn max_open_files() -> Option<u64> {
    None
}

/// Makes opening a named pipe return immediately.
#[cfg(unix)]
pub(crate) fn open_without_blocking(options: &mut OpenOptions) {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags);
}

#[cfg(windows)]
pub(crate) fn open_without_blocking(_: &mut OpenOptions) {}

/// Restricts an existing directory to its owner. On Windows, it keeps the permissions of its parent.
#[cfg(all(unix, feature = "team"))]
pub(crate) fn restrict_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

#[cfg(all(windows, feature = "team"))]
pub(crate) fn restrict_dir(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Opens a directory for [`open_beneath`]; `None` on Windows, where the standard library has no handle-relative calls.
#[cfg(feature = "mcp")]
pub(crate) fn open_dir(path: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) { File::open(path).map(Some) } else { Ok(None) }
}

/// Opens the file `below` a directory, one component at a time and without following links.
#[cfg(all(unix, feature = "mcp"))]
pub(crate) fn open_beneath(handle: Option<&File>, _: &Path, below: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, openat};
    let mut directory = match handle {
        Some(handle) => handle.try_clone()?,
        None => return Err(io::ErrorKind::NotFound.into()),
    };
    let mut components = below.components().peekable();
    while let Some(component) = components.next() {
        let std::path::Component::Normal(name) = component else { return Err(io::ErrorKind::NotFound.into()) };
        // Non-blocking, since it may have become a pipe.
        let kind = if components.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind;
        directory = openat(&directory, name, flags, Mode::empty())?.into();
    }
    Ok(directory)
}

/// Opens the file `below` a directory by its path. Follows a link that appears after the path was resolved.
#[cfg(all(windows, feature = "mcp"))]
pub(crate) fn open_beneath(_: Option<&File>, directory: &Path, below: &Path) -> io::Result<File> {
    File::open(directory.join(below))
}
