//! Reading through [`Disk`], so that a test can make any read fail, and so that only regular files are ever opened: a
//! FIFO would block forever, and a device has no end.
//!
//! An error never means absence: only [`FileKind::Absent`] says that a file does not exist.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::platform;

use super::{Disk, DiskFile, Op, read_at};

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing.
    Absent,
    /// A regular file of this many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// Anything else: a FIFO, a device, a socket, a dangling link.
    Other,
}

/// A regular file opened for reading.
pub struct ReadFile {
    disk: Disk,
    path: PathBuf,
    file: File,
}

impl Disk {
    /// Returns what exists at `path`, following links.
    pub fn kind(&self, path: &Path) -> io::Result<FileKind> {
        self.observe(Op::Read(path))?;
        kind_of(path)
    }

    /// Returns whether `path` is a regular file or a directory.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.kind(path)? != FileKind::Absent)
    }

    /// Opens a regular file for reading; `None` if it does not exist. Anything else at the path is invalid data.
    pub fn open_to_read(&self, path: &Path) -> io::Result<Option<ReadFile>> {
        self.observe(Op::Read(path))?;
        match kind_of(path)? {
            FileKind::Absent => Ok(None),
            FileKind::File(_) => {
                Ok(Some(ReadFile { disk: self.clone(), path: path.to_owned(), file: File::open(path)? }))
            }
            FileKind::Directory | FileKind::Other => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"))
            }
        }
    }

    /// Reads at most `limit` bytes of a small file; `None` if it does not exist.
    pub fn read(&self, path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
        match self.open_to_read(path)? {
            Some(file) => {
                let len = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(limit);
                file.read_at(0, len).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Returns the names in a directory, sorted; empty if the directory does not exist.
    pub fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.observe(Op::List(dir))?;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// The identity of a file, which distinguishes it from another file of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u64, u64);

impl FileId {
    /// Returns the identity of an open file; `None` if the system does not support this.
    pub fn of(file: &File) -> io::Result<Option<FileId>> {
        Ok(id_in(&file.metadata()?))
    }
}

impl Disk {
    /// Returns whether `path` still refers to the file with this identity.
    pub fn still_names(&self, path: &Path, id: FileId) -> io::Result<bool> {
        self.observe(Op::Read(path))?;
        match platform::file_id_at(path) {
            Ok(found) => Ok(found == Some((id.0, id.1))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl DiskFile {
    /// Returns the identity of the file; `None` if the system does not support this.
    pub fn id(&self) -> io::Result<Option<FileId>> {
        FileId::of(&self.file)
    }

    /// Reads up to `len` bytes at `offset`; fewer at the end of the file.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.disk.observe(Op::Read(&self.path))?;
        read_at(&self.file, offset, len)
    }
}

fn id_in(metadata: &fs::Metadata) -> Option<FileId> {
    platform::file_id(metadata).map(|(device, number)| FileId(device, number))
}

impl ReadFile {
    /// Returns the identity of the file; `None` if the system does not support this.
    pub fn id(&self) -> io::Result<Option<FileId>> {
        FileId::of(&self.file)
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Returns whether the file has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `len` bytes at `offset`; fewer at the end of the file.
    pub fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.disk.observe(Op::Read(&self.path))?;
        read_at(&self.file, offset, len)
    }
}

fn kind_of(path: &Path) -> io::Result<FileKind> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link is not absence: creating a file of that name would fail.
            let dangling = fs::symlink_metadata(path).is_ok();
            return Ok(if dangling { FileKind::Other } else { FileKind::Absent });
        }
        // The parent is not a directory, so nothing can be in it.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(FileKind::Absent),
        Err(error) if platform::is_link_loop(&error) && path.is_symlink() => return Ok(FileKind::Other),
        Err(error) => return Err(error),
    };
    Ok(match metadata.file_type() {
        kind if kind.is_file() => FileKind::File(metadata.len()),
        kind if kind.is_dir() => FileKind::Directory,
        _ => FileKind::Other,
    })
}
