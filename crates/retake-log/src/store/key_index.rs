//! The index of idempotency keys, which maps each key to the batch it was used for, in separate files under `db/keys/`.
//!
//! A key is looked up before every append and almost never found, and it is never removed. With one sled item per key,
//! keys were the second largest part of the database, with a page table that was read on every open. Here they are in
//! sorted, immutable tables ("runs"), each with a Bloom filter that answers "not here" from 64 of its bytes. Opening
//! only loads the headers of the runs; filters of small runs are kept in memory once they were used.
//!
//! New keys are collected in memory and written as a run at every checkpoint. A run that is not much larger than the
//! next one is merged with it, so that there are never more than a few. Each run states the range of the journal whose
//! keys it holds. These ranges are contiguous from the start of the journal; keys after the last range are read from
//! the journal on open, and so are all keys if the files are missing or damaged: the index only copies information that
//! is in the events.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::disk::{Disk, read_at};

use super::database::is_transient;
use super::journal::JournalPosition;
use super::keys::le_u32;
use super::projection::KeyHit;

const MAGIC: [u8; 8] = *b"RETAKEK1";
const VERSION: u32 = 1;
const HEADER: usize = 64;
/// One filter line: 60 bytes of bits and their CRC-32, so that a lookup reads and checks no more than this.
const LINE: usize = 64;
const LINE_BITS: u32 = 480;
/// The number of keys per line, at twelve bits each: about one lookup in a hundred reads the table unnecessarily.
const KEYS_PER_LINE: usize = 40;
const PROBES: usize = 6;
/// The maximum size of a filter kept in memory: that of 160,000 keys. There are at most a few such runs, and each one
/// saves a system call per append.
const MAX_KEPT_FILTER: usize = 256 << 10;
const ENTRY: usize = 32;
/// One block of the table: 127 entries and their CRC-32.
const BLOCK: usize = 4096;
const ENTRIES_PER_BLOCK: usize = 127;
/// The size ratio up to which a run is merged with the next one.
const MERGE_RATIO: u64 = 3;

/// An idempotency key, hashed.
pub(super) type Key = [u8; 16];

/// A failed lookup or write.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyIndexError {
    /// A file could not be read or written; its contents may be fine.
    #[error("cannot use the key index {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The checksum of a file does not match: the index must be rebuilt.
    #[error("the key index {0} is damaged")]
    Damaged(PathBuf),
}

/// All keys of a journal up to a position.
pub(super) struct KeyIndex {
    disk: Disk,
    dir: PathBuf,
    /// The runs in the order of the journal.
    runs: Vec<Run>,
    /// Keys that are not in a run yet.
    pending: HashMap<Key, KeyHit>,
    /// The position up to which all keys are in a run, and the position up to which they are known at all.
    durable: JournalPosition,
    end: JournalPosition,
}

/// A file to be written.
pub(super) struct WriteJob {
    disk: Disk,
    dir: PathBuf,
    from: JournalPosition,
    to: JournalPosition,
    source: Source,
}

enum Source {
    Pending(Vec<(Key, KeyHit)>),
    Runs(Run, Run),
}

/// A sorted table of the keys of one range of the journal.
#[derive(Clone)]
pub(super) struct Run {
    path: PathBuf,
    file: Arc<File>,
    from: JournalPosition,
    to: JournalPosition,
    count: u64,
    lines: u64,
    /// The filter, once it was read; longer ones are read line by line.
    filter: Arc<OnceLock<Vec<u8>>>,
}

impl KeyIndex {
    /// Opens the index in `dir`, whose journal starts at `start`. Files that are not part of the contiguous chain from
    /// `start` are ignored; [`end`](KeyIndex::end) returns how far the chain reaches.
    pub(super) fn open(dir: &Path, start: JournalPosition) -> Result<KeyIndex, KeyIndexError> {
        let (runs, end) = chain(dir, start)?;
        Ok(KeyIndex { disk: Disk::default(), dir: dir.to_owned(), runs, pending: HashMap::new(), durable: end, end })
    }

    /// Returns the position up to which the files in `dir` have every key; `start` if there are none.
    pub(super) fn end_in(dir: &Path, start: JournalPosition) -> io::Result<JournalPosition> {
        match chain(dir, start) {
            Ok((_, end)) => Ok(end),
            Err(KeyIndexError::Io { source, .. }) if is_transient(&source) => Err(source),
            // Anything that is not a directory of key files contains no keys.
            Err(_) => Ok(start),
        }
    }
    /// Returns the position up to which the index has every key.
    pub(super) fn end(&self) -> JournalPosition {
        self.end
    }

    /// Returns the number of keys waiting for the next run.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the use of a key.
    pub(super) fn get(&self, key: Key) -> Result<Option<KeyHit>, KeyIndexError> {
        let mut found = self.pending.get(&key).copied();
        for run in &self.runs {
            if let Some(hit) = run.get(key)? {
                found = Some(found.map_or(hit, |known| known.merge(hit)));
            }
        }
        Ok(found)
    }

    /// Adds the keys of a range of the journal that ends at `end`.
    pub(super) fn insert(&mut self, keys: impl IntoIterator<Item = (Key, KeyHit)>, end: JournalPosition) {
        for (key, hit) in keys {
            self.pending.entry(key).and_modify(|known| *known = known.merge(hit)).or_insert(hit);
        }
        self.end = self.end.max(end);
    }

    /// Ends the range of pending keys before the journal does, so that they can be written. A rebuild finds keys
    /// session by session and cannot hold all of them in memory; the positions at which it ends its runs only order
    /// them, and the last run ends where the journal does.
    pub(super) fn end_early(&mut self) {
        self.end.offset += 1;
    }

    /// Returns the next file to write: pending keys as a run, or two runs of similar size merged; `None` if there is
    /// nothing to do. Writing it needs no access to the index, so that lookups continue meanwhile.
    pub(super) fn next_job(&self) -> Option<WriteJob> {
        let (disk, dir) = (self.disk.clone(), self.dir.clone());
        if self.end > self.durable {
            let mut entries: Vec<(Key, KeyHit)> = self.pending.iter().map(|(key, hit)| (*key, *hit)).collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            return Some(WriteJob { disk, dir, from: self.durable, to: self.end, source: Source::Pending(entries) });
        }
        let [.., older, newer] = self.runs.as_slice() else { return None };
        if older.count > newer.count.saturating_mul(MERGE_RATIO) {
            return None;
        }
        let source = Source::Runs(older.clone(), newer.clone());
        Some(WriteJob { disk, dir, from: older.from, to: newer.to, source })
    }

    /// Adds a written run. Nothing was inserted since the job was taken, since there is only one writer.
    pub(super) fn install(&mut self, run: Run) {
        if run.from == self.durable {
            self.durable = run.to;
            self.pending = HashMap::new();
            self.runs.push(run);
            return;
        }
        let at = self.runs.iter().position(|known| known.from == run.from).unwrap_or(self.runs.len());
        for replaced in self.runs.split_off(at) {
            // A leftover file is recognised on open, since the merged run covers it.
            let _ = self.disk.remove(&replaced.path);
        }
        self.runs.push(run);
    }

    /// Writes everything pending.
    #[cfg(test)]
    fn flush(&mut self) -> Result<(), KeyIndexError> {
        while let Some(job) = self.next_job() {
            self.install(job.run()?);
        }
        Ok(())
    }
}

impl WriteJob {
    /// Writes and syncs the file.
    pub(super) fn run(self) -> Result<Run, KeyIndexError> {
        let entries = match self.source {
            Source::Pending(entries) => entries,
            Source::Runs(older, newer) => merge(older.entries()?, newer.entries()?),
        };
        let (from, to) = (self.from, self.to);
        let name = format!("{:08}-{:012}-{:08}-{:012}.keys", from.segment, from.offset, to.segment, to.offset);
        let path = self.dir.join(name);
        self.disk.create_dir_all(&self.dir).map_err(io_error(&self.dir))?;
        self.disk.replace(&path, &encode(from, to, &entries)).map_err(io_error(&path))?;
        Run::open(&path)?.ok_or(KeyIndexError::Damaged(path))
    }
}

/// Returns the contiguous chain of runs in `dir` from `start`, and its end.
fn chain(dir: &Path, start: JournalPosition) -> Result<(Vec<Run>, JournalPosition), KeyIndexError> {
    let mut found: BTreeMap<JournalPosition, Run> = BTreeMap::new();
    for path in run_paths(dir)? {
        let Some(run) = Run::open(&path)? else { continue };
        // After an interrupted merge, both the merged run and its parts exist.
        match found.get(&run.from) {
            Some(other) if other.to >= run.to => {}
            _ => drop(found.insert(run.from, run)),
        }
    }
    let mut runs = Vec::new();
    let mut end = start;
    while let Some(run) = found.remove(&end).filter(|run| run.to > run.from) {
        end = run.to;
        runs.push(run);
    }
    Ok((runs, end))
}

/// Merges two sorted tables.
fn merge(older: Vec<(Key, KeyHit)>, newer: Vec<(Key, KeyHit)>) -> Vec<(Key, KeyHit)> {
    let mut merged = Vec::with_capacity(older.len() + newer.len());
    let (mut older, mut newer) = (older.into_iter().peekable(), newer.into_iter().peekable());
    while let Some(next) = match (older.peek(), newer.peek()) {
        (Some(old), Some(new)) if old.0 < new.0 => older.next(),
        (Some(old), Some(new)) if old.0 == new.0 => {
            let both = older.next().zip(newer.next());
            both.map(|((key, old), (_, new))| (key, old.merge(new)))
        }
        (Some(_), None) => older.next(),
        (_, Some(_)) => newer.next(),
        (None, None) => None,
    } {
        merged.push(next);
    }
    merged
}

impl Run {
    /// Opens a run; `None` if its header is invalid.
    fn open(path: &Path) -> Result<Option<Run>, KeyIndexError> {
        let file = File::open(path).map_err(io_error(path))?;
        let header = read_at(&file, 0, HEADER).map_err(io_error(path))?;
        let length = file.metadata().map_err(io_error(path))?.len();
        Ok(Run::from_header(path, file, &header, length))
    }

    fn from_header(path: &Path, file: File, header: &[u8], length: u64) -> Option<Run> {
        let sound = header.starts_with(&MAGIC) && crc32fast::hash(header.get(..60)?) == le_u32(header, 60)?;
        if !sound || le_u32(header, 8)? != VERSION {
            return None;
        }
        let (count, lines) = (u64::from(le_u32(header, 12)?), u64::from(le_u32(header, 56)?));
        let blocks = count.div_ceil(ENTRIES_PER_BLOCK as u64);
        let whole = HEADER as u64 + lines * LINE as u64 + blocks * BLOCK as u64;
        let (from, to) =
            (JournalPosition::from_bytes(header.get(16..28)?)?, JournalPosition::from_bytes(header.get(28..40)?)?);
        let file = Arc::new(file);
        let filter = Arc::default();
        (length == whole).then(|| Run { path: path.to_owned(), file, from, to, count, lines, filter })
    }

    fn get(&self, key: Key) -> Result<Option<KeyHit>, KeyIndexError> {
        if self.count == 0 || !self.may_hold(key)? {
            return Ok(None);
        }
        // Keys are uniformly distributed hashes: the block is at or near the position given by the key's first bytes.
        let blocks = self.blocks();
        let (mut low, mut high) = (0, blocks);
        let mut probe = scale(key, blocks);
        while low < high {
            let entries = self.block(probe)?;
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(None) };
            if key < first.0 {
                high = probe;
            } else if key > last.0 {
                low = probe + 1;
            } else {
                return Ok(entries.iter().find(|(found, _)| *found == key).map(|(_, hit)| *hit));
            }
            // Near misses are neighbours; stepping finds them faster than bisecting.
            probe = if key < first.0 { probe.saturating_sub(1).max(low) } else { low };
        }
        Ok(None)
    }

    fn may_hold(&self, key: Key) -> Result<bool, KeyIndexError> {
        let line = scale(key, self.lines);
        let bytes = self.filter_line(line)?;
        let (bits, crc) = bytes.split_at_checked(LINE - 4).ok_or_else(|| self.damaged())?;
        if le_u32(crc, 0) != Some(crc32fast::hash(bits)) {
            return Err(self.damaged());
        }
        let set = |bit: u32| bits.get(bit as usize / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
        Ok(probes(key).all(set))
    }

    fn filter_line(&self, line: u64) -> Result<Cow<'_, [u8]>, KeyIndexError> {
        let length = usize::try_from(self.lines).unwrap_or(usize::MAX).saturating_mul(LINE);
        if length > MAX_KEPT_FILTER {
            return Ok(Cow::Owned(self.read(HEADER as u64 + line * LINE as u64, LINE)?));
        }
        let filter = match self.filter.get() {
            Some(filter) => filter,
            None => {
                let filter = self.read(HEADER as u64, length)?;
                self.filter.get_or_init(|| filter)
            }
        };
        let start = usize::try_from(line).unwrap_or(usize::MAX).saturating_mul(LINE);
        let line = filter.get(start..start.saturating_add(LINE));
        line.map(Cow::Borrowed).ok_or_else(|| self.damaged())
    }

    fn blocks(&self) -> u64 {
        self.count.div_ceil(ENTRIES_PER_BLOCK as u64)
    }

    fn block(&self, number: u64) -> Result<Vec<(Key, KeyHit)>, KeyIndexError> {
        let start = HEADER as u64 + self.lines * LINE as u64 + number * BLOCK as u64;
        let bytes = self.read(start, BLOCK)?;
        let (entries, crc) = bytes.split_at_checked(BLOCK - 4).ok_or_else(|| self.damaged())?;
        if le_u32(crc, 0) != Some(crc32fast::hash(entries)) {
            return Err(self.damaged());
        }
        let before = number * ENTRIES_PER_BLOCK as u64;
        let here = usize::try_from(self.count - before.min(self.count)).unwrap_or(usize::MAX).min(ENTRIES_PER_BLOCK);
        let decoded: Option<Vec<_>> = entries.chunks_exact(ENTRY).take(here).map(decode_entry).collect();
        decoded.ok_or_else(|| self.damaged())
    }

    fn entries(&self) -> Result<Vec<(Key, KeyHit)>, KeyIndexError> {
        let mut entries = Vec::with_capacity(usize::try_from(self.count).unwrap_or(0));
        for number in 0..self.blocks() {
            entries.extend(self.block(number)?);
        }
        Ok(entries)
    }

    fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, KeyIndexError> {
        read_at(&self.file, at, length).map_err(io_error(&self.path))
    }

    fn damaged(&self) -> KeyIndexError {
        KeyIndexError::Damaged(self.path.clone())
    }
}

/// Maps a key to one of `parts` ranges of equal size.
fn scale(key: Key, parts: u64) -> u64 {
    let high = u64::from_be_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]);
    let scaled = (u128::from(high) * u128::from(parts)) >> 64;
    // Less than `parts`, so it fits.
    u64::try_from(scaled).unwrap_or(0)
}

/// Returns the bits that a key sets in its line. They come from the half of the key that did not select the line.
fn probes(key: Key) -> impl Iterator<Item = u32> {
    let low = u64::from_le_bytes([key[8], key[9], key[10], key[11], key[12], key[13], key[14], key[15]]);
    (0..PROBES).map(move |probe| {
        let ten_bits = (low >> (10 * probe)) & 0x3FF;
        // Ten bits, so both casts are exact.
        u32::try_from(ten_bits).unwrap_or(0) * LINE_BITS / 1024
    })
}

fn encode(from: JournalPosition, to: JournalPosition, entries: &[(Key, KeyHit)]) -> Vec<u8> {
    let lines = entries.len().div_ceil(KEYS_PER_LINE).max(1);
    let blocks = entries.len().div_ceil(ENTRIES_PER_BLOCK);
    let mut bytes = Vec::with_capacity(HEADER + lines * LINE + blocks * BLOCK);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let short = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&short(entries.len()).to_le_bytes());
    bytes.extend_from_slice(&from.to_bytes());
    bytes.extend_from_slice(&to.to_bytes());
    bytes.resize(56, 0);
    bytes.extend_from_slice(&short(lines).to_le_bytes());
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let mut filter = vec![[0u8; LINE - 4]; lines];
    for (key, _) in entries {
        let line = usize::try_from(scale(*key, lines as u64)).ok().and_then(|line| filter.get_mut(line));
        let Some(line) = line else { continue };
        for bit in probes(*key) {
            if let Some(byte) = line.get_mut(bit as usize / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }
    for line in filter {
        bytes.extend_from_slice(&line);
        bytes.extend_from_slice(&crc32fast::hash(&line).to_le_bytes());
    }
    for block in entries.chunks(ENTRIES_PER_BLOCK) {
        let start = bytes.len();
        for (key, hit) in block {
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&super::database::encode_hit(*hit));
        }
        bytes.resize(start + BLOCK - 4, 0);
        let crc = crc32fast::hash(bytes.get(start..).unwrap_or_default());
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes
}

fn decode_entry(bytes: &[u8]) -> Option<(Key, KeyHit)> {
    let (key, hit) = bytes.split_at_checked(16)?;
    Some((key.try_into().ok()?, super::database::decode_hit(hit)?))
}

/// Returns the files of runs in `dir`, sorted by name.
fn run_paths(dir: &Path) -> Result<Vec<PathBuf>, KeyIndexError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(KeyIndexError::Io { path: dir.to_owned(), source }),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error(dir))?;
        let is_file = entry.file_type().map_err(io_error(dir))?.is_file();
        let path = entry.path();
        if is_file && path.extension().is_some_and(|extension| extension == "keys") {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> KeyIndexError {
    let path = path.to_owned();
    move |source| KeyIndexError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::keys;

    const START: JournalPosition = JournalPosition { segment: 1, offset: 64 };

    fn entry(number: u32) -> (Key, KeyHit) {
        let session = "session-2025-12-11-001".parse().unwrap();
        (keys::idempotency_key(&format!("key {number}")), KeyHit { session, seq: number, index: number.checked_sub(1) })
    }

    fn position(number: u32) -> JournalPosition {
        JournalPosition { segment: 1, offset: 64 + u64::from(number) * 100 }
    }

    fn open(dir: &Path) -> KeyIndex {
        KeyIndex::open(dir, START).unwrap()
    }

    /// Fills an index with the keys of `0..total`, writing a run after every `each` keys.
    fn fill(dir: &Path, total: u32, each: u32) -> KeyIndex {
        let mut index = open(dir);
        for first in (0..total).step_by(each as usize) {
            let last = (first + each).min(total);
            index.insert((first..last).map(entry), position(last));
            index.flush().unwrap();
        }
        index
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        let home = tempfile::tempdir().unwrap();
        let mut index = fill(home.path(), 20_000, 700);
        index.insert((20_000..20_100).map(entry), position(20_100));
        for number in 0..20_100 {
            assert_eq!(index.get(entry(number).0).unwrap(), Some(entry(number).1), "key {number}");
        }
        for number in 20_100..40_000 {
            assert_eq!(index.get(entry(number).0).unwrap(), None, "key {number}");
        }
        assert!(index.runs.len() <= 8, "{} runs", index.runs.len());
        // Keys that were not flushed are lost in a crash, and the end states from where to read the journal again.
        drop(index);
        let index = open(home.path());
        assert_eq!(index.end(), position(20_000));
        assert_eq!(index.get(entry(19_999).0).unwrap(), Some(entry(19_999).1));
        assert_eq!(index.get(entry(20_000).0).unwrap(), None);
    }

    #[test]
    fn many_small_runs_become_few() {
        let home = tempfile::tempdir().unwrap();
        let index = fill(home.path(), 3_000, 1);
        assert!(index.runs.len() <= 10, "{} runs", index.runs.len());
        assert_eq!(run_paths(home.path()).unwrap().len(), index.runs.len(), "merged runs are removed");
        assert_eq!(index.get(entry(1_234).0).unwrap(), Some(entry(1_234).1));
    }

    #[test]
    fn a_missing_run_ends_the_chain_where_it_began() {
        let home = tempfile::tempdir().unwrap();
        let index = fill(home.path(), 10_000, 900);
        let (removed, from) = index.runs.get(1).map(|run| (run.path.clone(), run.from)).unwrap();
        drop(index);
        fs::remove_file(removed).unwrap();
        let index = open(home.path());
        assert_eq!(index.end(), from);
        assert_eq!(index.get(entry(9_999).0).unwrap(), None, "keys after a gap are not trusted");
    }

    #[test]
    fn an_interrupted_merge_leaves_the_merged_run() {
        let home = tempfile::tempdir().unwrap();
        let aside = tempfile::tempdir().unwrap();
        let index = fill(home.path(), 100, 100);
        let old = index.runs.last().unwrap().path.clone();
        fs::copy(&old, aside.path().join("old")).unwrap();
        drop(index);
        let mut index = open(home.path());
        index.insert((100..200).map(entry), position(200));
        index.flush().unwrap();
        assert_eq!(index.runs.len(), 1);
        drop(index);
        fs::copy(aside.path().join("old"), &old).unwrap();
        let index = open(home.path());
        assert_eq!(index.end(), position(200));
        assert_eq!(index.get(entry(150).0).unwrap(), Some(entry(150).1));
    }

    #[test]
    fn damage_is_an_error_and_never_a_missing_key() {
        let home = tempfile::tempdir().unwrap();
        let index = fill(home.path(), 2_000, 2_000);
        let path = index.runs.last().unwrap().path.clone();
        let whole = fs::read(&path).unwrap();
        for at in (HEADER..whole.len()).step_by(1_777) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            fs::write(&path, &bytes).unwrap();
            let index = open(home.path());
            for number in (0..2_000).step_by(3) {
                match index.get(entry(number).0) {
                    Ok(hit) => assert_eq!(hit, Some(entry(number).1), "byte {at}, key {number}"),
                    Err(error) => assert!(matches!(error, KeyIndexError::Damaged(_)), "{error}"),
                }
            }
        }
        // A file with a damaged header, or a truncated one, counts as absent.
        for bytes in [&whole[..whole.len() - 1], &[&b"X"[..], &whole[1..]].concat()] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(open(home.path()).end(), START);
        }
    }
}
