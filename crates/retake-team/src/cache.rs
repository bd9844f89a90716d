//! A bounded directory of local copies. Everything in it can be fetched again, so any file may be removed at any time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use retake_log::model::Hash;
use tempfile::NamedTempFile;

/// The age below which a used copy is not removed, since a reader may be about to open it.
const MIN_AGE: Duration = Duration::from_secs(600);
/// The fill level to which a full cache is reduced, in percent of the limit.
const FILL_AFTER_EVICTION: u64 = 80;

/// Local copies by hash.
pub(crate) struct Cache {
    dir: PathBuf,
    limit: u64,
    min_age: Duration,
    /// The current size; `None` until it was computed.
    bytes: Mutex<Option<u64>>,
}

impl Cache {
    pub(crate) fn new(dir: PathBuf, limit: u64) -> Cache {
        Cache { dir, limit, min_age: MIN_AGE, bytes: Mutex::new(None) }
    }

    /// Returns the path of an intact copy. A damaged one is removed.
    pub(crate) fn get(&self, hash: Hash) -> Option<PathBuf> {
        let path = self.path(hash);
        let file = fs::File::open(&path).ok()?;
        // Record the use in the modification time, since access times are often disabled.
        let _ = file.set_modified(SystemTime::now());
        let mut hasher = blake3::Hasher::new();
        if hasher.update_reader(file).is_ok() && *hasher.finalize().as_bytes() == hash.0 {
            return Some(path);
        }
        let _ = fs::remove_file(&path);
        None
    }

    /// Returns a temporary file for a download.
    pub(crate) fn incoming(&self) -> io::Result<NamedTempFile> {
        fs::create_dir_all(&self.dir)?;
        NamedTempFile::with_prefix_in("incoming-", &self.dir)
    }

    /// Adds a verified copy, evicting others if the cache is full.
    pub(crate) fn keep(&self, hash: Hash, incoming: NamedTempFile) -> io::Result<PathBuf> {
        let path = self.prepare(hash)?;
        let length = incoming.as_file().metadata()?.len();
        incoming.persist(&path).map_err(|error| error.error)?;
        self.count(length, &path);
        Ok(path)
    }

    /// Moves a verified file into the cache.
    pub(crate) fn adopt(&self, hash: Hash, file: &Path) -> io::Result<()> {
        let path = self.prepare(hash)?;
        let length = fs::metadata(file)?.len();
        fs::rename(file, &path)?;
        self.count(length, &path);
        Ok(())
    }

    fn prepare(&self, hash: Hash) -> io::Result<PathBuf> {
        let path = self.path(hash);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        Ok(path)
    }

    fn count(&self, added: u64, newest: &Path) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let total = bytes.map_or_else(|| self.files().iter().map(|file| file.length).sum(), |known| known + added);
        *bytes = Some(if total > self.limit { self.evict(newest) } else { total });
    }

    /// Removes the least recently used copies, and returns the remaining size.
    fn evict(&self, keep: &Path) -> u64 {
        let mut files = self.files();
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.length).sum();
        let target = self.limit / 100 * FILL_AFTER_EVICTION;
        for file in files {
            if total <= target {
                break;
            }
            let old = file.used.elapsed().is_ok_and(|age| age >= self.min_age);
            if old && file.path != keep && fs::remove_file(&file.path).is_ok() {
                total -= file.length;
            }
        }
        total
    }

    fn files(&self) -> Vec<CachedFile> {
        let Ok(parts) = fs::read_dir(&self.dir) else { return Vec::new() };
        let parts = parts.flatten().filter_map(|part| fs::read_dir(part.path()).ok());
        let file = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok()?;
            Some(CachedFile { path: entry.path(), length: metadata.len(), used: metadata.modified().ok()? })
        };
        parts.flatten().flatten().filter_map(file).collect()
    }

    fn path(&self, hash: Hash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        self.dir.join(first).join(rest)
    }
}

struct CachedFile {
    path: PathBuf,
    length: u64,
    used: SystemTime,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn put(cache: &Cache, bytes: &[u8]) -> Hash {
        let mut incoming = cache.incoming().unwrap();
        incoming.write_all(bytes).unwrap();
        let hash = Hash::of(bytes);
        cache.keep(hash, incoming).unwrap();
        hash
    }

    #[test]
    fn the_least_recently_used_copies_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut cache = Cache::new(dir.path().join("originals"), 1000);
        cache.min_age = Duration::ZERO;
        let hashes: Vec<Hash> = (0..9u8).map(|n| put(&cache, &[n; 100])).collect();
        for (n, hash) in hashes.iter().enumerate() {
            let used = SystemTime::now() - Duration::from_secs(1000 - n as u64);
            fs::File::open(cache.path(*hash)).unwrap().set_modified(used).unwrap();
        }
        assert!(cache.get(hashes[0]).is_some(), "used again just now");
        put(&cache, &[9; 200]);
        assert!(cache.get(hashes[0]).is_some());
        assert!(cache.get(hashes[1]).is_none());
        assert!(cache.get(hashes[8]).is_some());
        let left: u64 = cache.files().iter().map(|file| file.length).sum();
        assert!(left <= 800, "{left}");
    }

    #[test]
    fn a_damaged_copy_is_not_served() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().to_owned(), 1000);
        let hash = put(&cache, b"image");
        fs::write(cache.path(hash), b"imagE").unwrap();
        assert_eq!(cache.get(hash), None);
        assert!(!cache.path(hash).exists());
    }
}
