//! Files and directories: rights, identity, positions, links and syncs.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::path::Path;

/// Whether a lock on a file leaves others free to read it. On Windows it does not.
pub(crate) const LOCKS_ARE_ADVISORY: bool = cfg!(unix);
/// The error number of links that go round in a circle.
const ELOOP: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 40 } else { 62 };
/// The error numbers of a device or socket that is not there.
const ENXIO_ENODEV: [i32; 2] = [6, 19];

/// Syncs the entries of a directory. Windows has no way to do so, and its renames need none.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Makes files that are created with these options readable and writable by their owner only. On Windows they inherit the
/// rights of their directory.
#[cfg(unix)]
pub(crate) fn restrict_file(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(windows)]
pub(crate) fn restrict_file(_: &mut OpenOptions) {}

/// Makes directories that are created with this builder usable by their owner only. On Windows they inherit the rights of
/// their parent.
#[cfg(unix)]
pub(crate) fn restrict_dir(builder: &mut DirBuilder) {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700);
}

#[cfg(windows)]
pub(crate) fn restrict_dir(_: &mut DirBuilder) {}

/// Gives a copied file the rights of a new one: those of a read-only original would come along.
#[cfg(unix)]
pub(crate) fn restrict_copy(permissions: &mut Permissions) {
    std::os::unix::fs::PermissionsExt::set_mode(permissions, 0o600);
}

#[cfg(windows)]
pub(crate) fn restrict_copy(permissions: &mut Permissions) {
    permissions.set_readonly(false);
}

/// Returns what identifies a file on this machine whatever its name; `None` on systems without such a number.
#[cfg(unix)]
pub(crate) fn file_id(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(windows)]
pub(crate) fn file_id(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Creates a symbolic link at `here`. The error is of kind `Unsupported` on Windows, where links need a special right.
#[cfg(unix)]
pub(crate) fn symlink(original: &Path, here: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(original, here)
}

#[cfg(windows)]
pub(crate) fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes all of `bytes` at `offset`.
#[cfg(unix)]
pub(crate) fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Reads some bytes at `offset`, and returns how many.
#[cfg(unix)]
pub(crate) fn read_some_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read_some_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    match std::os::windows::fs::FileExt::seek_read(file, bytes, offset) {
        // ERROR_HANDLE_EOF: a position after the end of the file, where Unix reads nothing.
        Err(error) if error.raw_os_error() == Some(38) => Ok(0),
        read => read,
    }
}

/// Returns whether an error says that symbolic links go round in a circle.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    cfg!(unix) && error.raw_os_error() == Some(ELOOP)
}

/// Returns whether an error says that what a name stands for is a socket, or a device that is not there.
pub(crate) fn is_no_such_device(error: &io::Error) -> bool {
    cfg!(unix) && error.raw_os_error().is_some_and(|code| ENXIO_ENODEV.contains(&code))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_this_system_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        let (circle, socket) = (dir.path().join("circle"), dir.path().join("socket"));
        symlink(&circle, &circle).unwrap();
        let error = File::open(&circle).unwrap_err();
        assert!(is_link_loop(&error) && !is_no_such_device(&error), "{error:?}");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = File::open(&socket).unwrap_err();
        assert!(is_no_such_device(&error) && !is_link_loop(&error), "{error:?}");
    }
}
