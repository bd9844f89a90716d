//! A directory of files named by the hash of what is in them: `ab/cdef…`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Disk, parent_of, temp_beside};

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
    /// How many there are.
    pub bytes: u64,
}

impl ContentDir {
    /// The directory at `root`, which is made when something is first put there.
    pub fn new(disk: Disk, root: PathBuf) -> ContentDir {
        ContentDir { disk, root }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the file of that hash is, or would be.
    pub fn path(&self, hash: [u8; 32]) -> PathBuf {
        let hex = blake3::Hash::from_bytes(hash).to_hex();
        let (first, rest) = hex.split_at(2);
        self.root.join(first).join(rest)
    }

    /// Puts these bytes; when it returns they last.
    pub fn put(&self, bytes: &[u8]) -> io::Result<Stored> {
        self.put_reader(&mut &*bytes)
    }

    /// Puts what a reader gives, without holding it in memory; when it returns it lasts.
    pub fn put_reader(&self, reader: &mut dyn Read) -> io::Result<Stored> {
        self.disk.create_dir_all(&self.root)?;
        let temp = temp_beside(&self.root.join("incoming"));
        let kept = self.write_temp(&temp, reader).and_then(|stored| self.keep(&temp, stored));
        if !matches!(kept, Ok((_, true))) {
            let _ = fs::remove_file(&temp);
        }
        kept.map(|(stored, _)| stored)
    }

    /// The bytes of that hash: not found when there is no such file, invalid data when it holds something else.
    pub fn get(&self, hash: [u8; 32]) -> io::Result<Vec<u8>> {
        let bytes = fs::read(self.path(hash))?;
        if *blake3::hash(&bytes).as_bytes() == hash {
            Ok(bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not hold what its name says"))
        }
    }

    /// Checks the file of that hash without holding it in memory; errors as [`get`](ContentDir::get).
    pub fn check(&self, hash: [u8; 32]) -> io::Result<()> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(self.path(hash))?)?;
        if *hasher.finalize().as_bytes() == hash {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not hold what its name says"))
        }
    }

    fn write_temp(&self, temp: &Path, reader: &mut dyn Read) -> io::Result<Stored> {
        let file = self.disk.create(temp)?;
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
                break;
            }
            hasher.update(bytes);
            file.write_at(offset, bytes)?;
            offset += read as u64;
        }
        let stored = Stored { hash: *hasher.finalize().as_bytes(), bytes: offset };
        if self.check(stored.hash).is_err() {
            file.sync()?;
        }
        Ok(stored)
    }

    /// Gives the temporary file its name, unless a whole file has it already. Says whether the temporary was used.
    fn keep(&self, temp: &Path, stored: Stored) -> io::Result<(Stored, bool)> {
        let path = self.path(stored.hash);
        if self.check(stored.hash).is_ok() {
            // Whoever put it may have died before its name was synced.
            self.disk.sync_dir(parent_of(&path))?;
            return Ok((stored, false));
        }
        self.disk.create_dir_all(parent_of(&path))?;
        self.disk.rename(temp, &path)?;
        Ok((stored, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_file_and_mends_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let content = ContentDir::new(Disk::default(), dir.path().join("images"));
        let stored = content.put(b"picture").unwrap();
        assert_eq!(content.put(b"picture").unwrap(), stored);
        assert_eq!(content.get(stored.hash).unwrap(), b"picture");

        fs::write(content.path(stored.hash), b"pictur3").unwrap();
        assert_eq!(content.get(stored.hash).unwrap_err().kind(), io::ErrorKind::InvalidData);
        content.put(b"picture").unwrap();
        assert_eq!(content.get(stored.hash).unwrap(), b"picture");

        let left: Vec<_> = fs::read_dir(content.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 1, "a temporary file stayed behind: {left:?}");
    }
}
