//! Files and directories: permissions, identity, positional I/O, links and syncs.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::path::Path;

/// Whether a lock on a file still allows others to read it. On Windows it does not.
pub(crate) const LOCKS_ARE_ADVISORY: bool = cfg!(unix);
/// The error number of symbolic link loops.
const ELOOP: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 40 } else { 62 };
/// The error numbers of a missing device or socket.
const ENXIO_ENODEV: [i32; 2] = [6, 19];

/// Syncs the entries of a directory. Windows has no way to do so, and its renames do not need it.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Makes files created with these options accessible only to their owner. On Windows, they inherit the permissions of
/// their directory.
#[cfg(unix)]
pub(crate) fn restrict_file(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(windows)]
pub(crate) fn restrict_file(_: &mut OpenOptions) {}

/// Makes directories created with this builder accessible only to their owner. On Windows, they inherit the permissions
/// of their parent.
#[cfg(unix)]
pub(crate) fn restrict_dir(builder: &mut DirBuilder) {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700);
}

#[cfg(windows)]
pub(crate) fn restrict_dir(_: &mut DirBuilder) {}

/// Gives a copied file the permissions of a new one, since it would inherit those of a read-only original.
#[cfg(unix)]
pub(crate) fn restrict_copy(permissions: &mut Permissions) {
    std::os::unix::fs::PermissionsExt::set_mode(permissions, 0o600);
}

#[cfg(windows)]
pub(crate) fn restrict_copy(permissions: &mut Permissions) {
    permissions.set_readonly(false);
}

/// Returns a number that identifies a file on this machine regardless of its name; `None` on systems without one.
#[cfg(unix)]
pub(crate) fn file_id(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(windows)]
pub(crate) fn file_id(_: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Returns the identity of the file that `path` refers to, as [`file_id`] does.
///
/// Asks for no timestamps. Since Linux 6.13, a file whose modification time was read gets a new, fine-grained one at the
/// next write, which dirties its inode: an append that reads it took 35 µs longer, most of it in `fdatasync`.
#[cfg(target_os = "linux")]
pub(crate) fn file_id_at(path: &Path) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
        Ok(found) => Ok(Some((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))),
        // Some sandboxes do not allow it.
        Err(rustix::io::Errno::NOSYS) => Ok(file_id(&std::fs::metadata(path)?)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn file_id_at(path: &Path) -> io::Result<Option<(u64, u64)>> {
    Ok(file_id(&std::fs::metadata(path)?))
}

/// Creates a symbolic link at `here`. The error is of kind `Unsupported` on Windows, where links need a special
/// privilege.
#[cfg(unix)]
pub fn symlink(original: &Path, here: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(original, here)
}

#[cfg(windows)]
pub fn symlink(_: &Path, _: &Path) -> io::Result<()> {
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

/// Reads some bytes at `offset`, and returns the number read.
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

/// Returns whether an error means that symbolic links form a loop.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    cfg!(unix) && error.raw_os_error() == Some(ELOOP)
}

/// Returns whether an error means that the file is a socket or a missing device.
pub(crate) fn is_no_such_device(error: &io::Error) -> bool {
    cfg!(unix) && error.raw_os_error().is_some_and(|code| ENXIO_ENODEV.contains(&code))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_identity() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        File::create(&a).unwrap();
        File::create(&b).unwrap();
        let of = |path: &Path| file_id(&std::fs::metadata(path).unwrap());
        assert_eq!(file_id_at(&a).unwrap(), of(&a));
        assert_ne!(file_id_at(&a).unwrap(), of(&b));
        assert_eq!(file_id_at(&dir.path().join("c")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

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
