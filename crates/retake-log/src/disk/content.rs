//! A directory of files named by the hash of their bytes: `ab/cdef…`.
//!
//! A file is written under a temporary name and synced; then it is renamed, and the directory is synced. Many files are
//! [written](ContentDir::write) first and then made durable [together](ContentDir::persist_all): each file is synced
//! individually, several at a time, and each directory once. A failed sync therefore only affects its own files, and a
//! file system that commits its journal on every sync does so once for all syncs in progress. A single `syncfs` for the
//! whole group was rejected: it waits for everything that any process has written to that file system, and its error
//! does not say which file is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

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

/// A file that is written but not durable yet. It is deleted on drop.
pub struct UnsyncedFile {
    stored: Stored,
    /// `None` if the file already existed.
    temp: Option<TempFile>,
}

impl UnsyncedFile {
    /// Returns the hash and the number of its bytes.
    pub fn stored(&self) -> Stored {
        self.stored
    }

    /// Returns whether there was no such file before.
    pub fn is_new(&self) -> bool {
        self.temp.is_some()
    }
}

/// The number of bytes copied at once.
const COPY_BYTES: usize = 64 * 1024;
/// The number of files synced concurrently.
const SYNC_THREADS: usize = 8;

impl ContentDir {
    /// Returns the directory at `root`, which is created when the first file is put there.
    pub fn new(disk: Disk, root: PathBuf) -> ContentDir {
        ContentDir { disk, root }
    }

    /// Returns its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the file with this hash, whether or not it exists.
    pub fn path(&self, hash: [u8; 32]) -> PathBuf {
        let hex = blake3::Hash::from_bytes(hash).to_hex();
        let (first, rest) = hex.split_at(2);
        self.root.join(first).join(rest)
    }

    /// Puts these bytes. They are durable when this returns.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Stored> {
        self.persist(self.write_bytes(bytes))
    }

    /// Puts the contents of a reader, without holding them in memory. They are durable when this returns.
    pub fn put_reader(&self, reader: &mut dyn Read) -> io::Result<Stored> {
        self.persist(self.write(reader))
    }

    fn persist(&self, file: io::Result<UnsyncedFile>) -> io::Result<Stored> {
        let mut stored = self.persist_all(vec![file]);
        stored.pop().unwrap_or_else(|| Err(io::Error::other("a file that was written has no result")))
    }

    /// Writes the contents of a reader, without holding them in memory. The file is neither durable nor found by its
    /// hash until [`persist_all`](ContentDir::persist_all).
    pub fn write(&self, reader: &mut dyn Read) -> io::Result<UnsyncedFile> {
        let temp = self.temporary()?;
        let stored = copy(reader, &temp)?;
        let is_there = self.check(stored.hash).is_ok();
        Ok(UnsyncedFile { stored, temp: (!is_there).then_some(temp) })
    }

    /// Writes these bytes like [`write`](ContentDir::write), unless there is such a file already.
    pub fn write_bytes(&self, bytes: &[u8]) -> io::Result<UnsyncedFile> {
        let stored = Stored { hash: *blake3::hash(bytes).as_bytes(), bytes: bytes.len() as u64 };
        if self.check(stored.hash).is_ok() {
            return Ok(UnsyncedFile { stored, temp: None });
        }
        let temp = self.temporary()?;
        temp.file().write_at(0, bytes)?;
        Ok(UnsyncedFile { stored, temp: Some(temp) })
    }

    /// Creates a temporary file in the directory, which is created first if necessary.
    fn temporary(&self) -> io::Result<TempFile> {
        match TempFile::create_in(&self.disk, &self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.create_dir_all(&self.root)?;
                TempFile::create_in(&self.disk, &self.root)
            }
            created => created,
        }
    }

    /// Returns the path at which an unsynced file can currently be read.
    pub fn path_of(&self, file: &UnsyncedFile) -> PathBuf {
        file.temp.as_ref().map_or_else(|| self.path(file.stored.hash), |temp| temp.file().path().to_owned())
    }

    /// Makes files durable together, and returns the result for each, in the same order. A file that cannot be synced
    /// or renamed fails individually; if a directory cannot be synced, all files in it fail. Files that could not be
    /// written stay failed.
    pub fn persist_all(&self, files: Vec<io::Result<UnsyncedFile>>) -> Vec<io::Result<Stored>> {
        let dir_of = |stored: Stored| parent_of(&self.path(stored.hash)).to_owned();
        let dirs: BTreeSet<PathBuf> = files.iter().flatten().map(|file| dir_of(file.stored)).collect();
        let mut failed: BTreeMap<PathBuf, io::Error> = BTreeMap::new();
        for dir in dirs.iter().filter(|dir| !dir.is_dir()) {
            if let Err(error) = self.disk.create_dir(dir) {
                failed.insert(dir.clone(), error);
            }
        }
        let named = on_threads(files, |file: io::Result<UnsyncedFile>| {
            let file = file?;
            match failed.get(&dir_of(file.stored)) {
                Some(error) => Err(duplicate(error)),
                None => self.sync_and_name(file),
            }
        });
        // The entries of a directory are durable once it is synced, and its own name once the root is.
        let dirs = dirs.into_iter().filter(|dir| !failed.contains_key(dir));
        let dirs: Vec<PathBuf> = dirs.chain([self.root.clone()]).filter(|_| named.iter().any(Result::is_ok)).collect();
        let synced = on_threads(dirs, |dir: PathBuf| (self.disk.sync_dir(&dir), dir));
        failed.extend(synced.into_iter().filter_map(|(synced, dir)| Some((dir, synced.err()?))));
        let check = |stored: Stored| match failed.get(&dir_of(stored)).or_else(|| failed.get(&self.root)) {
            Some(error) => Err(duplicate(error)),
            None => Ok(stored),
        };
        named.into_iter().map(|stored| stored.and_then(check)).collect()
    }

    /// Syncs a file, then renames it; the name is durable once the directory is synced.
    fn sync_and_name(&self, file: UnsyncedFile) -> io::Result<Stored> {
        if let Some(temp) = file.temp {
            temp.file().sync()?;
            temp.persist_unsynced(&self.path(file.stored.hash))?;
        }
        Ok(file.stored)
    }

    /// Returns the bytes with this hash. The error is `NotFound` if the file does not exist and `InvalidData` if it
    /// holds other bytes.
    pub fn get(&self, hash: [u8; 32]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(hash)?.read_to_end(&mut bytes)?;
        if *blake3::hash(&bytes).as_bytes() == hash { Ok(bytes) } else { Err(other_bytes()) }
    }

    /// Verifies the file with this hash without holding it in memory. Errors are those of [`get`](ContentDir::get).
    pub fn check(&self, hash: [u8; 32]) -> io::Result<()> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(self.open(hash)?)?;
        if *hasher.finalize().as_bytes() == hash { Ok(()) } else { Err(other_bytes()) }
    }

    /// Opens the file with this hash. Only regular files: a FIFO would block forever, and a device has no end.
    fn open(&self, hash: [u8; 32]) -> io::Result<File> {
        let path = self.path(hash);
        if fs::metadata(&path)?.is_file() { File::open(path) } else { Err(other_bytes()) }
    }
}

/// Copies a reader into an empty file, hashing the bytes.
fn copy(reader: &mut dyn Read, temp: &TempFile) -> io::Result<Stored> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES];
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

/// Calls `work` for every item on a few threads, and returns the results in the order of the items. Most of the time is
/// spent waiting for the disk.
fn on_threads<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = items.len().min(SYNC_THREADS);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let slots: Vec<Mutex<(Option<T>, Option<R>)>> =
        items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.1 = slot.0.take().map(&work);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If the system cannot start more threads, the existing ones do the work; the calling thread always takes
            // part.
            if let Err(error) = thread::Builder::new().name("retake-sync".to_owned()).spawn_scoped(scope, worker) {
                tracing::debug!(%error, "cannot start a thread");
                break;
            }
        }
        worker();
    });
    // Every slot was processed: a panic in `work` would have ended the scope.
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1).collect()
}

/// Returns a copy of an error, for another file that it concerns.
fn duplicate(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
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
