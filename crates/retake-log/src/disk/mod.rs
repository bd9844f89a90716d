//! What Retake asks of the file system: files that are whole or absent, and on the platter when we say so.
//!
//! Every write, sync and rename that a promise rests on goes through [`Disk`], so that a test can record them, replay
//! any prefix as if the power had failed there, or make any one of them fail as a full disk would.
//!
//! Never known here: what the bytes mean.

mod content;
mod reading;

pub use content::{ContentDir, Stored};
pub use reading::{FileId, FileKind, ReadFile};

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation about to happen.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// An empty file is made; its name lasts only when the directory is synced.
    Create(&'a Path),
    /// Bytes are written.
    Write(&'a Path, u64, &'a [u8]),
    /// A file is cut or extended with zeros.
    SetLen(&'a Path, u64),
    /// A file's bytes and length are made to last.
    SyncFile(&'a Path),
    /// A directory's entries are made to last.
    SyncDir(&'a Path),
    /// A file or directory gets another name.
    Rename(&'a Path, &'a Path),
    /// A file gets a second name.
    Link(&'a Path, &'a Path),
    /// A directory is made.
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

/// Sees every operation before it happens, and may refuse it.
pub trait Observer: Send + Sync {
    /// Called before `op`; an error is returned to the caller in place of doing it.
    fn before(&self, op: Op<'_>) -> io::Result<()>;
}

/// The file system, perhaps with someone watching.
#[derive(Clone, Default)]
pub struct Disk {
    observer: Option<Arc<dyn Observer>>,
}

/// An open file that is written at offsets and synced.
pub struct DiskFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

impl Disk {
    /// A disk that tells `observer` of everything first.
    pub fn observed(observer: Arc<dyn Observer>) -> Disk {
        Disk { observer: Some(observer) }
    }

    /// Makes a directory and those above it, so that they last.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        self.tell(Op::CreateDir(path))?;
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
            _ => {}
        }
        self.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    /// Opens a file for reading and writing.
    pub fn open(&self, path: &Path) -> io::Result<DiskFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(DiskFile { disk: self.clone(), path: path.to_owned(), file })
    }

    /// Makes a new file; it is an error when there is one.
    pub fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.tell(Op::Create(path))?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(DiskFile { disk: self.clone(), path: path.to_owned(), file })
    }

    /// Writes a whole file under its name: afterwards, also after a power cut, it is the old one or the new one.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = temp_beside(path);
        let file = self.create(&temp)?;
        let written = file.write_at(0, bytes).and_then(|()| file.sync()).and_then(|()| self.rename(&temp, path));
        if written.is_err() {
            drop(file);
            let _ = fs::remove_file(&temp);
        }
        written
    }

    /// Renames, replacing what is there, so that it lasts.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell(Op::Rename(from, to))?;
        fs::rename(from, to)?;
        let (from, to) = (parent_of(from), parent_of(to));
        self.sync_dir(to)?;
        if from == to { Ok(()) } else { self.sync_dir(from) }
    }

    /// Gives a file a second name, so that it lasts; copies it where the file system has no links.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell(Op::Link(from, to))?;
        if fs::hard_link(from, to).is_err() {
            fs::copy(from, to)?;
            self.open(to)?.sync()?;
        }
        self.sync_dir(parent_of(to))
    }

    /// Removes a file that nothing depends on.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.tell(Op::Remove(path))?;
        fs::remove_file(path)
    }

    /// Makes the entries of a directory last.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.tell(Op::SyncDir(path))?;
        // Windows has no way to sync a directory, and its renames need none.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    /// Reports an operation to the observer, which may refuse it.
    pub(crate) fn tell(&self, op: Op<'_>) -> io::Result<()> {
        self.observer.as_ref().map_or(Ok(()), |observer| observer.before(op))
    }
}

impl DiskFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.tell(Op::Write(&self.path, offset, bytes))?;
        write_all_at(&self.file, offset, bytes)
    }

    /// Makes the bytes and the length last: one fdatasync.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.tell(Op::SyncFile(&self.path))?;
        self.file.sync_data()
    }

    /// Cuts it, or extends it with zeros.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.tell(Op::SetLen(&self.path, len))?;
        self.file.set_len(len)
    }

    /// Its length.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Reads up to `len` bytes at `offset`: fewer where the file ends.
pub fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read_some_at(file, offset + filled as u64, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(unix)]
fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_some_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        offset += written as u64;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(windows)]
fn read_some_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name beside `path` that nothing else uses: this process's number and a counter.
fn temp_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
    parent_of(path).join(name)
}
