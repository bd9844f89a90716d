//! The file system as Retake needs it: files that are complete or absent, and durable once a call has returned.
//!
//! Every write, sync and rename that durability depends on goes through [`Disk`], so that a test can record them, replay
//! any prefix as if the power had failed there, or make any one of them fail as a full disk would.
//!
//! Everything is created with access for its owner only, regardless of the umask: prompts and images are private.
//!
//! This module does not know what the bytes mean.

mod content;
pub(crate) mod io_error;
mod reading;
mod temporary;

pub use crate::platform::symlink;
pub use content::{ContentDir, Stored, UnsyncedFile};
pub use reading::{FileId, FileKind, ReadFile};
pub(crate) use temporary::temporary_dirs;
pub use temporary::{sweep_temporaries, temp_name};

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::platform;

use self::temporary::TempFile;

/// An operation that is about to happen.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// An empty file is created; its name is durable only when the directory is synced.
    Create(&'a Path),
    /// Bytes are written.
    Write(&'a Path, u64, &'a [u8]),
    /// A file is truncated or extended with zeros.
    SetLen(&'a Path, u64),
    /// A file's bytes and length are synced.
    SyncFile(&'a Path),
    /// A directory's entries are synced.
    SyncDir(&'a Path),
    /// A file or directory is renamed.
    Rename(&'a Path, &'a Path),
    /// A file gets a second name (a hard link).
    Link(&'a Path, &'a Path),
    /// A directory is created.
    CreateDir(&'a Path),
    /// A file is removed: a temporary one, or one that has been set aside.
    Remove(&'a Path),
    /// A file is opened or read, or its metadata is.
    Read(&'a Path),
    /// The names in a directory are read.
    List(&'a Path),
    /// The database engine opens its files in this directory.
    OpenDatabase(&'a Path),
    /// The database engine is about to write to its files in this directory.
    WriteDatabase(&'a Path),
    /// The database engine syncs its files in this directory.
    SyncDatabase(&'a Path),
}

/// A witness of every operation, which may make it fail.
pub trait Observer: Send + Sync {
    /// Called before `op`. If it returns an error, the operation is not performed and the caller gets the error.
    fn before(&self, op: Op<'_>) -> io::Result<()>;
}

/// The file system, optionally with an observer.
#[derive(Clone, Default)]
pub struct Disk {
    observer: Option<Arc<dyn Observer>>,
}

/// An open file for positional writes and syncs.
pub struct DiskFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

/// A complete file without its final name. It is deleted on drop.
pub struct PreparedFile {
    temp: TempFile,
}

impl PreparedFile {
    /// Returns its temporary name.
    pub fn path(&self) -> &Path {
        self.temp.file().path()
    }

    /// Renames it durably, replacing an existing file.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        self.temp.persist(path)
    }
}

impl Disk {
    /// Returns a disk that reports every operation to `observer` first.
    pub fn observed(observer: Arc<dyn Observer>) -> Disk {
        Disk { observer: Some(observer) }
    }

    /// Creates a directory and its parents durably.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        self.create_dir(path)?;
        self.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    /// Creates a directory, unless it exists. Its name is durable once its parent is synced.
    pub(crate) fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.observe(Op::CreateDir(path))?;
        match private_dir().create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens a file for reading and writing.
    pub fn open(&self, path: &Path) -> io::Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(DiskFile { disk: self.clone(), path: path.to_owned(), file })
    }

    /// Creates a new file; fails if it exists.
    pub fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.observe(Op::Create(path))?;
        let file = private_file().read(true).write(true).create_new(true).open(path)?;
        Ok(DiskFile { disk: self.clone(), path: path.to_owned(), file })
    }

    /// Replaces a whole file atomically: afterwards, even after a power cut, it is the old one or the new one.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = TempFile::create_in(self, parent_of(path))?;
        temp.file().write_at(0, bytes)?;
        temp.file().sync()?;
        temp.persist(path)
    }

    /// Writes and syncs a file next to `path`, to be renamed to it later.
    pub fn prepare(&self, path: &Path, bytes: &[u8]) -> io::Result<PreparedFile> {
        let temp = TempFile::create_in(self, parent_of(path))?;
        temp.file().write_at(0, bytes)?;
        temp.file().sync()?;
        Ok(PreparedFile { temp })
    }

    /// Renames durably, replacing an existing file.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename_unsynced(from, to)?;
        let (from, to) = (parent_of(from), parent_of(to));
        self.sync_dir(to)?;
        if from == to { Ok(()) } else { self.sync_dir(from) }
    }

    /// Renames, replacing an existing file. The new name is durable once its directory is synced.
    pub(crate) fn rename_unsynced(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.observe(Op::Rename(from, to))?;
        fs::rename(from, to)
    }

    /// Creates a hard link durably; copies the file if the file system does not support hard links.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.observe(Op::Link(from, to))?;
        if fs::hard_link(from, to).is_err() {
            fs::copy(from, to)?;
            self.open(to)?.sync()?;
        }
        self.sync_dir(parent_of(to))
    }

    /// Removes a file that nothing depends on.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.observe(Op::Remove(path))?;
        fs::remove_file(path)
    }

    /// Syncs the entries of a directory.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.observe(Op::SyncDir(path))?;
        platform::sync_dir(path)
    }

    /// Reports an operation to the observer, which may make it fail.
    pub(crate) fn observe(&self, op: Op<'_>) -> io::Result<()> {
        self.observer.as_ref().map_or(Ok(()), |observer| observer.before(op))
    }
}

impl DiskFile {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.observe(Op::Write(&self.path, offset, bytes))?;
        platform::write_all_at(&self.file, offset, bytes)
    }

    /// Syncs the bytes and the length: one fdatasync.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.observe(Op::SyncFile(&self.path))?;
        self.file.sync_data()
    }

    /// Truncates it, or extends it with zeros.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.observe(Op::SetLen(&self.path, len))?;
        self.file.set_len(len)
    }

    /// Returns its length.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Returns options that create files accessible only to their owner.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    platform::restrict_file(&mut options);
    options
}

/// Creates a directory and its parents without syncing them, for caches, which may be lost. Accessible only to the
/// owner.
pub fn create_cache_dir(path: &Path) -> io::Result<()> {
    private_dir().recursive(true).create(path)
}

/// Returns a builder of directories accessible only to their owner.
pub(crate) fn private_dir() -> DirBuilder {
    let mut builder = DirBuilder::new();
    platform::restrict_dir(&mut builder);
    builder
}

/// Reads up to `len` bytes at `offset`; fewer at the end of the file.
pub fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match platform::read_some_at(file, offset + filled as u64, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
