//! A directory of files named by the hash of their bytes: `ab/cdef…`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::temporary::TempFile;
use super::{Disk, parent_of};

/// Files named by the BLAKE3 hash of their bytes. Putting the same bytes twice keeps one file.
#[derive(Clone)]
pub struct ContentDir {
    disk: Disk,
    root: PathBuf,
}

/// A file that is in the directory and synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The hash of its bytes.
    pub hash: [u8; 32],
    /// The number of bytes.
    pub bytes: u64,
}

impl ContentDir {
    /// Returns the directory at `root`, which is created when the first file is put there.
    pub fn new(disk: Disk, root: PathBuf) -> ContentDir {
        ContentDir { disk, root }
    }

    /// Returns its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the file with that hash, whether or not it exists.
    pub fn path(&self, hash: [u8; 32]) -> PathBuf {
        let hex = blake3::Hash::from_bytes(hash).to_hex();
        let (first, rest) = hex.split_at(2);
        self.root.join(first).join(rest)
    }

    /// Puts these bytes. They are durable when this returns.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Stored> {
        self.put_reader(&mut &*bytes)
    }

    /// Puts what a reader returns, without holding it in memory. It is durable when this returns.
    pub fn put_reader(&self, reader: &mut dyn Read) -> io::Result<Stored> {
        self.disk.create_dir_all(&self.root)?;
        let temp = TempFile::create_in(&self.disk, &self.root)?;
        let stored = copy(reader, &temp)?;
        let path = self.path(stored.hash);
        if self.check(stored.hash).is_ok() {
            // The process that put it may have died before its name was synced.
            self.disk.sync_dir(parent_of(&path))?;
            return Ok(stored);
        }
        temp.file().sync()?;
        self.disk.create_dir_all(parent_of(&path))?;
        temp.persist(&path)?;
        Ok(stored)
    }

    /// Returns the bytes with that hash. The error is `NotFound` if there is no such file and `InvalidData` if it holds
    /// other bytes.
    pub fn get(&self, hash: [u8; 32]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(hash)?.read_to_end(&mut bytes)?;
        if *blake3::hash(&bytes).as_bytes() == hash { Ok(bytes) } else { Err(other_bytes()) }
    }

    /// Checks the file with that hash without holding it in memory. Errors are those of [`get`](ContentDir::get).
    pub fn check(&self, hash: [u8; 32]) -> io::Result<()> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(self.open(hash)?)?;
        if *hasher.finalize().as_bytes() == hash { Ok(()) } else { Err(other_bytes()) }
    }

    /// Opens the file with that hash. A FIFO of its name would block for ever, and a device has no end.
    fn open(&self, hash: [u8; 32]) -> io::Result<File> {
        let path = self.path(hash);
        if fs::metadata(&path)?.is_file() { File::open(path) } else { Err(other_bytes()) }
    }
}

/// Copies a reader to the end into an empty file, hashing on the way.
fn copy(reader: &mut dyn Read, temp: &TempFile) -> io::Result<Stored> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = 0;
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(Stored { hash: *hasher.finalize().as_bytes(), bytes: offset });
        }
        hasher.update(bytes);
        temp.file().write_at(offset, bytes)?;
        offset += read as u64;
    }
}

fn other_bytes() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file's bytes do not match the hash in its name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_file_and_replaces_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let content = ContentDir::new(Disk::default(), dir.path().join("images"));
        let stored = content.put(b"image").unwrap();
        assert_eq!(content.put(b"image").unwrap(), stored);
        assert_eq!(content.get(stored.hash).unwrap(), b"image");

        fs::write(content.path(stored.hash), b"imag3").unwrap();
        assert_eq!(content.get(stored.hash).unwrap_err().kind(), io::ErrorKind::InvalidData);
        content.put(b"image").unwrap();
        assert_eq!(content.get(stored.hash).unwrap(), b"image");

        let left: Vec<_> = fs::read_dir(content.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 1, "a temporary file was left: {left:?}");
    }
}
