//! Sealed segments: a journal segment that takes no more frames, compressed block by block.
//!
//! A sealed segment stands for exactly the bytes of the plain one. Positions in the journal stay what they were: the bytes
//! at an offset are found through an index of blocks, of which only those that hold them are decompressed. Each
//! block carries its own place and checksum, so that a damaged block costs no other one, and a damaged index costs
//! nothing: the blocks are then found by their magic.
//!
//! [`seal`] never leaves a moment without a complete synced copy: the sealed file is written under another name, synced,
//! read back and compared, renamed, its directory synced, and only then is the plain file removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use memchr::memmem;

use crate::disk::{Disk, read_at};

use super::journal::{SEGMENT_HEADER, SegmentHeader, segment_path};
use super::keys::{le_u32, le_u64};

const MAGIC: [u8; 8] = *b"RETAKES1";
const VERSION: u32 = 1;
/// The length of the file header: 64 bytes of our own, then the header of the plain segment as it was.
const FILE_HEADER: usize = 128;
const BLOCK_MAGIC: [u8; 4] = [0xF3, b'R', b'T', b'B'];
const BLOCK_HEADER: usize = 24;
/// The uncompressed length of all blocks but the last: the reach of LZ4, and a quarter of what larger blocks would save.
const BLOCK: usize = 64 << 10;
/// The largest plain segment that is believed when a header is read: a batch may be larger than a segment.
const MAX_PLAIN: u64 = 8 << 30;

/// A sealed segment, open for reading.
pub(super) struct SealedSegment {
    file: File,
    /// The header of the plain segment.
    pub(super) header: SegmentHeader,
    plain: u64,
    /// Where each block begins in the file; `None` for those that were not found.
    blocks: Vec<Option<u64>>,
    /// The block that was read last. Readers go forward in small steps.
    recent: Mutex<Option<(u64, Vec<u8>)>>,
}

/// Bytes of a sealed segment. Where blocks are damaged, zeros stand for what is lost.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SealedBytes {
    /// The bytes that were asked for.
    pub(super) bytes: Vec<u8>,
    /// The first byte in the segment, and the one after the last, of each damaged block among them.
    pub(super) damaged: Vec<(u64, u64)>,
}

/// Returns where the sealed segment of that number is.
pub(super) fn sealed_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:08}.sealed"))
}

/// Replaces a plain segment, whose frames end at `end`, with a sealed one.
pub(super) fn seal(disk: &Disk, dir: &Path, segment: u32, end: u64) -> io::Result<()> {
    let (plain_path, path) = (segment_path(dir, segment), sealed_path(dir, segment));
    let plain = read_at(&File::open(&plain_path)?, 0, usize::try_from(end).map_err(io::Error::other)?)?;
    if plain.len() as u64 != end {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the segment is shorter than its frames"));
    }
    let bytes = encode(&plain).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the segment has no header"))?;
    disk.replace(&path, &bytes)?;
    let written = SealedSegment::open(&path)?;
    let same = match &written {
        Some(sealed) => sealed.read_at(0, plain.len())? == SealedBytes { bytes: plain, damaged: Vec::new() },
        None => false,
    };
    if !same {
        disk.remove(&path)?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the sealed segment reads differently"));
    }
    disk.remove(&plain_path)?;
    disk.sync_dir(dir)
}

impl SealedSegment {
    /// Opens a sealed segment; `None` if its header is not valid.
    pub(super) fn open(path: &Path) -> io::Result<Option<SealedSegment>> {
        let file = File::open(path)?;
        let header = read_at(&file, 0, FILE_HEADER)?;
        let Some((header, plain)) = read_header(&header) else { return Ok(None) };
        let length = file.metadata()?.len();
        let blocks = match read_index(&file, length, plain)? {
            Some(blocks) => blocks,
            None => find_blocks(&file, plain)?,
        };
        Ok(Some(SealedSegment { file, header, plain, blocks, recent: Mutex::new(None) }))
    }

    /// Returns the length of the plain segment.
    pub(super) fn len(&self) -> u64 {
        self.plain
    }

    /// Reads up to `length` bytes of the plain segment at `offset`: fewer where it ends.
    pub(super) fn read_at(&self, offset: u64, length: usize) -> io::Result<SealedBytes> {
        let end = offset.saturating_add(length as u64).min(self.plain);
        let mut read = SealedBytes::default();
        let mut at = offset;
        while at < end {
            let number = at / BLOCK as u64;
            let start = number * BLOCK as u64;
            let until = (start + BLOCK as u64).min(self.plain);
            let (from, to) = (small(at - start), small(end.min(until) - start));
            let mut recent = self.recent.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if recent.as_ref().is_none_or(|(held, _)| *held != number) {
                *recent = self.block(number, small(until - start))?.map(|bytes| (number, bytes));
            }
            match recent.as_ref().and_then(|(_, bytes)| bytes.get(from..to)) {
                Some(bytes) => read.bytes.extend_from_slice(bytes),
                None => {
                    read.bytes.resize(read.bytes.len() + (to - from), 0);
                    read.damaged.push((start, until));
                }
            }
            at = start + to as u64;
        }
        Ok(read)
    }

    /// Reads a block; `None` if it is damaged.
    fn block(&self, number: u64, plain: usize) -> io::Result<Option<Vec<u8>>> {
        let place = usize::try_from(number).ok().and_then(|at| self.blocks.get(at)).copied().flatten();
        let Some(place) = place else { return Ok(None) };
        // A block is stored as it is when compressing does not make it smaller.
        let bytes = read_at(&self.file, place, BLOCK_HEADER + BLOCK)?;
        Ok(decode_block(&bytes).filter(|block| block.number == number && block.plain.len() == plain).map(|block| block.plain))
    }
}

struct Block {
    number: u64,
    plain: Vec<u8>,
}

fn encode(plain: &[u8]) -> Option<Vec<u8>> {
    let header = SegmentHeader::from_bytes(plain)?;
    let mut bytes = Vec::with_capacity(plain.len() / 3);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&header.segment.to_le_bytes());
    bytes.extend_from_slice(&header.workspace);
    bytes.extend_from_slice(&(plain.len() as u64).to_le_bytes());
    bytes.resize(60, 0);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(plain.get(..small(SEGMENT_HEADER))?);
    let mut index = Vec::new();
    for (chunk, number) in plain.chunks(BLOCK).zip(0u32..) {
        index.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        let packed = lz4_flex::block::compress(chunk);
        let stored = if packed.len() < chunk.len() { packed.as_slice() } else { chunk };
        let start = bytes.len();
        bytes.extend_from_slice(&BLOCK_MAGIC);
        for field in [number, u32::try_from(stored.len()).ok()?, u32::try_from(chunk.len()).ok()?, crc32fast::hash(stored)] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        let crc = crc32fast::hash(bytes.get(start..)?);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(stored);
    }
    let crc = crc32fast::hash(&index);
    bytes.extend_from_slice(&index);
    bytes.extend_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

/// Reads the header of a file: that of the plain segment, and its length.
fn read_header(bytes: &[u8]) -> Option<(SegmentHeader, u64)> {
    let sound = bytes.starts_with(&MAGIC) && crc32fast::hash(bytes.get(..60)?) == le_u32(bytes, 60)?;
    if !sound || le_u32(bytes, 8)? != VERSION {
        return None;
    }
    let header = SegmentHeader::from_bytes(bytes.get(64..)?)?;
    let same = header.segment == le_u32(bytes, 12)? && bytes.get(16..32)? == header.workspace;
    let plain = le_u64(bytes, 32)?;
    (same && plain <= MAX_PLAIN).then_some((header, plain))
}

/// Reads the index at the end of a file; `None` if it is damaged.
fn read_index(file: &File, length: u64, plain: u64) -> io::Result<Option<Vec<Option<u64>>>> {
    let count = plain.div_ceil(BLOCK as u64);
    let size = count * 8 + 4;
    let Some(start) = length.checked_sub(size) else { return Ok(None) };
    let bytes = read_at(file, start, small(size))?;
    let Some((index, crc)) = bytes.split_at_checked(small(size - 4)) else { return Ok(None) };
    if le_u32(crc, 0) != Some(crc32fast::hash(index)) {
        return Ok(None);
    }
    Ok(Some((0..small(count)).map(|at| le_u64(index, at * 8)).collect()))
}

/// Finds blocks by their magic, for a file whose index is damaged.
fn find_blocks(file: &File, plain: u64) -> io::Result<Vec<Option<u64>>> {
    let length = file.metadata()?.len();
    let bytes = read_at(file, 0, small(length))?;
    let mut blocks = vec![None; small(plain.div_ceil(BLOCK as u64))];
    for at in memmem::find_iter(&bytes, &BLOCK_MAGIC) {
        let found = bytes.get(at..).and_then(decode_block);
        let slot = found.and_then(|block| blocks.get_mut(small(block.number)));
        if let Some(slot) = slot {
            *slot = Some(at as u64);
        }
    }
    Ok(blocks)
}

fn decode_block(bytes: &[u8]) -> Option<Block> {
    if !bytes.starts_with(&BLOCK_MAGIC) || crc32fast::hash(bytes.get(..20)?) != le_u32(bytes, 20)? {
        return None;
    }
    let number = u64::from(le_u32(bytes, 4)?);
    let (stored, plain) = (small(le_u32(bytes, 8)?.into()), small(le_u32(bytes, 12)?.into()));
    let body = bytes.get(BLOCK_HEADER..BLOCK_HEADER.checked_add(stored)?)?;
    if plain > BLOCK || crc32fast::hash(body) != le_u32(bytes, 16)? {
        return None;
    }
    let plain = if stored == plain { body.to_vec() } else { lz4_flex::block::decompress(body, plain).ok()? };
    Some(Block { number, plain })
}

/// Converts a length that fits in memory.
fn small(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Removes a plain segment that was sealed before the process was killed: both copies are complete then. Returns whether
/// there was one.
pub(super) fn finish_sealing(disk: &Disk, dir: &Path, segment: u32) -> io::Result<bool> {
    let (plain, path) = (segment_path(dir, segment), sealed_path(dir, segment));
    if !(plain.exists() && path.exists()) {
        return Ok(false);
    }
    let Some(sealed) = SealedSegment::open(&path)? else { return Ok(false) };
    let bytes = fs::read(&plain)?;
    let read = sealed.read_at(0, small(sealed.len()))?;
    let rest = bytes.get(read.bytes.len()..).unwrap_or_default();
    let same = read.damaged.is_empty() && bytes.starts_with(&read.bytes) && rest.iter().all(|byte| *byte == 0);
    if same {
        disk.remove(&plain)?;
        disk.sync_dir(dir)?;
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::disk::{Observer, Op};

    /// A segment of that many bytes, half of it noise.
    fn plain(length: usize) -> Vec<u8> {
        let header = SegmentHeader { format: 1, segment: 3, workspace: [9; 16], first_frame: 17, previous_end: 1234 };
        let mut bytes = header.to_bytes();
        let mut number = 0u64;
        while bytes.len() < length {
            bytes.extend_from_slice(blake3::hash(&number.to_le_bytes()).as_bytes());
            bytes.extend_from_slice(b"a lighthouse at dusk, oil on canvas");
            number += 1;
        }
        bytes.truncate(length);
        bytes
    }

    fn sealed(dir: &Path, length: usize) -> (Vec<u8>, PathBuf) {
        let plain = plain(length);
        let mut ahead = plain.clone();
        // Segments are written ahead with zeros.
        ahead.resize(length + 5000, 0);
        fs::write(segment_path(dir, 3), ahead).unwrap();
        seal(&Disk::default(), dir, 3, length as u64).unwrap();
        assert!(!segment_path(dir, 3).exists());
        (plain, sealed_path(dir, 3))
    }

    #[test]
    fn every_byte_is_where_it_was() {
        let home = tempfile::tempdir().unwrap();
        let (plain, path) = sealed(home.path(), 300_000);
        assert!(fs::metadata(&path).unwrap().len() < 250_000);
        let segment = SealedSegment::open(&path).unwrap().unwrap();
        assert_eq!(segment.len(), 300_000);
        assert_eq!(segment.header.first_frame, 17);
        for (offset, length) in [(0, 64), (64, 1), (65_530, 20), (131_072, 65_536), (299_990, 100), (300_000, 5), (0, 300_000)] {
            let read = segment.read_at(offset as u64, length).unwrap();
            assert!(read.damaged.is_empty());
            assert!(read.bytes == plain[offset..(offset + length).min(plain.len())], "{length} bytes at {offset}");
        }
    }

    proptest! {
        #[test]
        fn damage_costs_the_block_it_hits(at in 0usize..400_000, flip in 1u8..) {
            let home = tempfile::tempdir().unwrap();
            let (plain, path) = sealed(home.path(), 400_000);
            let mut bytes = fs::read(&path).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            fs::write(&path, &bytes).unwrap();
            let Some(segment) = SealedSegment::open(&path).unwrap() else {
                prop_assert!(at < FILE_HEADER, "byte {} hides the whole segment", at);
                return Ok(());
            };
            let read = segment.read_at(0, plain.len()).unwrap();
            prop_assert!(read.damaged.len() <= 1);
            for (place, (read, plain)) in read.bytes.chunks(BLOCK).zip(plain.chunks(BLOCK)).enumerate() {
                let start = (place * BLOCK) as u64;
                prop_assert!(read == plain || segment.read_at(start, 1).unwrap().damaged.len() == 1);
            }
        }
    }

    #[test]
    fn a_cut_file_keeps_its_blocks() {
        let home = tempfile::tempdir().unwrap();
        let (plain, path) = sealed(home.path(), 400_000);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let read = SealedSegment::open(&path).unwrap().unwrap().read_at(0, plain.len()).unwrap();
        assert_eq!(read.bytes.len(), plain.len());
        assert!((1..=5).contains(&read.damaged.len()), "{:?}", read.damaged);
        assert!(read.bytes[..BLOCK] == plain[..BLOCK]);
    }

    /// Fails the operation of that number, and reports whether there was one.
    struct FailAt(std::sync::atomic::AtomicI64);

    impl Observer for FailAt {
        fn before(&self, _: Op<'_>) -> io::Result<()> {
            match self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
                0 => Err(io::Error::other("injected")),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_failure_at_any_step_leaves_a_complete_copy() {
        for step in 0.. {
            let home = tempfile::tempdir().unwrap();
            let plain = plain(200_000);
            fs::write(segment_path(home.path(), 3), &plain).unwrap();
            let observer = Arc::new(FailAt(step.into()));
            let done = seal(&Disk::observed(observer), home.path(), 3, plain.len() as u64);
            let kept = fs::read(segment_path(home.path(), 3)).is_ok_and(|kept| kept == plain);
            let sealed = SealedSegment::open(&sealed_path(home.path(), 3)).ok().flatten();
            let complete = sealed.is_some_and(|sealed| sealed.read_at(0, plain.len()).unwrap().bytes == plain);
            assert!(kept || complete, "step {step}");
            if done.is_ok() {
                assert!(step > 3 && complete);
                return;
            }
            if kept && complete {
                assert!(finish_sealing(&Disk::default(), home.path(), 3).unwrap());
                assert!(!segment_path(home.path(), 3).exists());
            }
        }
    }
}
