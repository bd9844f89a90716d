//! Sealed segments: segments that accept no more frames, compressed in blocks.
//!
//! A sealed segment keeps its name and number, and all of its bytes keep their offsets: readers use offsets of the
//! plain segment, and the blocks that contain them are decompressed. Each block has its own checksum and number, so
//! that a damaged one only costs its own bytes, which read as zeros, and the others are found even without the table at
//! the beginning.
//!
//! `docs/format.md` specifies the bytes. LZ4 was chosen for the same reason as in [packs](super::pack).

use std::collections::BTreeMap;
use std::io;

use memchr::memmem;

use crate::disk::ReadFile;

use super::journal::{MAX_SEGMENT_BYTES, SEALED, SEGMENT_HEADER, SegmentHeader};
use super::keys::{le_u32, le_u64};

const TABLE_MAGIC: [u8; 4] = [0xF3, b'R', b'T', b'Z'];
const BLOCK_MAGIC: [u8; 4] = [0xF2, b'R', b'T', b'B'];
/// The length of the table without the lengths of the blocks.
const TABLE_HEADER: usize = 20;
/// The length of a block header.
const BLOCK_HEADER: usize = 16;
/// The number of bytes of the plain segment in a block: reading a record decompresses one.
const BLOCK_BYTES: usize = 128 << 10;
/// The flag in the stored length of a block that is not compressed.
const RAW: u32 = 1 << 31;
/// The number of bytes of a file searched at once for blocks that are not in a table.
const CHUNK: usize = 4 << 20;

/// Returns the sealed form of a plain segment; `None` if it has no intact header, or is too long.
pub(super) fn seal(plain: &[u8]) -> Option<Vec<u8>> {
    let header_bytes = usize::try_from(SEGMENT_HEADER).ok()?;
    let header = SegmentHeader::from_bytes(plain)?;
    let body = plain.get(header_bytes..)?;
    let count = u32::try_from(body.len().div_ceil(BLOCK_BYTES)).ok()?;
    let (mut lengths, mut blocks) = (Vec::new(), Vec::new());
    for (number, block) in (0u32..).zip(body.chunks(BLOCK_BYTES)) {
        let compressed = lz4_flex::block::compress(block);
        let is_smaller = compressed.len() < block.len();
        let (stored, flag) = if is_smaller { (compressed.as_slice(), 0) } else { (block, RAW) };
        let length = u32::try_from(stored.len()).ok()? | flag;
        lengths.extend_from_slice(&length.to_le_bytes());
        blocks.extend_from_slice(&block_header(number, length, stored));
        blocks.extend_from_slice(stored);
    }
    let mut sealed = SegmentHeader { format: SEALED, ..header }.to_bytes();
    let mut table = TABLE_MAGIC.to_vec();
    table.extend_from_slice(&u32::try_from(BLOCK_BYTES).ok()?.to_le_bytes());
    table.extend_from_slice(&(plain.len() as u64).to_le_bytes());
    table.extend_from_slice(&count.to_le_bytes());
    table.extend_from_slice(&lengths);
    let crc = crc32fast::hash(&table);
    table.extend_from_slice(&crc.to_le_bytes());
    sealed.extend_from_slice(&table);
    sealed.extend_from_slice(&blocks);
    Some(sealed)
}

/// Returns the header of a block. The checksum covers the number and the length as well, so that a block cannot be
/// mistaken for another.
fn block_header(number: u32, length: u32, stored: &[u8]) -> [u8; BLOCK_HEADER] {
    let mut header = [0; BLOCK_HEADER];
    let parts =
        [BLOCK_MAGIC, number.to_le_bytes(), length.to_le_bytes(), block_crc(number, length, stored).to_le_bytes()];
    header.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = from);
    header
}

fn block_crc(number: u32, length: u32, stored: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(&length.to_le_bytes());
    crc.update(stored);
    crc.finalize()
}

/// An open sealed segment.
pub(super) struct SealedSegment {
    file: ReadFile,
    header: Vec<u8>,
    /// The length of the plain segment.
    length: u64,
    /// The position of the header and the stored length with its flag of each block, by number.
    blocks: BTreeMap<u32, (u64, u32)>,
}

impl SealedSegment {
    /// Opens a sealed segment, damaged or not; returns the file if it is not one.
    pub(super) fn open(file: ReadFile) -> io::Result<Result<SealedSegment, ReadFile>> {
        let header_bytes = usize::try_from(SEGMENT_HEADER).unwrap_or(64);
        let start = file.read_at(0, header_bytes + TABLE_HEADER)?;
        let header = SegmentHeader::from_bytes(&start);
        let table = start.get(header_bytes..).unwrap_or_default();
        if header.is_none_or(|header| header.format != SEALED) && !table.starts_with(&TABLE_MAGIC) {
            return Ok(Err(file));
        }
        let mut sealed = SealedSegment {
            header: start.get(..header_bytes).unwrap_or_default().to_vec(),
            file,
            length: 0,
            blocks: BTreeMap::new(),
        };
        if !sealed.read_table(table)? {
            sealed.find_blocks()?;
        }
        Ok(Ok(sealed))
    }

    /// Returns the length of the plain segment.
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// Reads up to `len` bytes of the plain segment at `offset`; fewer at its end. Damaged parts read as zeros.
    pub(super) fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let end = self.length.min(offset.saturating_add(len as u64));
        let mut bytes = Vec::with_capacity(usize::try_from(end.saturating_sub(offset)).unwrap_or(0));
        let mut at = offset;
        if at < SEGMENT_HEADER {
            let until = usize::try_from(end.min(SEGMENT_HEADER)).unwrap_or(0);
            bytes.extend_from_slice(self.header.get(usize::try_from(at).unwrap_or(0)..until).unwrap_or_default());
            at = until as u64;
        }
        while at < end {
            let body = at - SEGMENT_HEADER;
            let number = u32::try_from(body / BLOCK_BYTES as u64).unwrap_or(u32::MAX);
            let within = usize::try_from(body % BLOCK_BYTES as u64).unwrap_or(0);
            let wanted = (BLOCK_BYTES - within).min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let block = self.block(number)?.unwrap_or_default();
            let there = block.get(within..block.len().min(within + wanted)).unwrap_or_default();
            bytes.extend_from_slice(there);
            bytes.resize(bytes.len() + wanted - there.len(), 0);
            at += wanted as u64;
        }
        Ok(bytes)
    }

    /// Reads a block; `None` if it is damaged.
    fn block(&self, number: u32) -> io::Result<Option<Vec<u8>>> {
        let Some((offset, length)) = self.blocks.get(&number).copied() else { return Ok(None) };
        let stored_bytes = usize::try_from(length & !RAW).unwrap_or(0);
        let bytes = self.file.read_at(offset, BLOCK_HEADER + stored_bytes)?;
        let (Some(header), Some(stored)) = (bytes.get(..BLOCK_HEADER), bytes.get(BLOCK_HEADER..)) else {
            return Ok(None);
        };
        if stored.len() != stored_bytes || header != block_header(number, length, stored) {
            return Ok(None);
        }
        if length & RAW != 0 {
            return Ok(Some(stored.to_vec()));
        }
        Ok(lz4_flex::block::decompress(stored, BLOCK_BYTES).ok())
    }

    /// Reads the table of blocks. Returns whether it is intact.
    fn read_table(&mut self, start: &[u8]) -> io::Result<bool> {
        let known = (le_u32(start, 4), le_u64(start, 8), le_u32(start, 16));
        let (Some(block_bytes), Some(length), Some(count)) = known else { return Ok(false) };
        let is_plausible = start.starts_with(&TABLE_MAGIC)
            && usize::try_from(block_bytes) == Ok(BLOCK_BYTES)
            && (SEGMENT_HEADER..=2 * MAX_SEGMENT_BYTES).contains(&length)
            && u64::from(count) == (length - SEGMENT_HEADER).div_ceil(BLOCK_BYTES as u64);
        if !is_plausible {
            return Ok(false);
        }
        let table_bytes = TABLE_HEADER + 4 * usize::try_from(count).unwrap_or(0);
        let table = self.file.read_at(SEGMENT_HEADER, table_bytes + 4)?;
        let (Some(lengths), Some(crc)) = (table.get(..table_bytes), le_u32(&table, table_bytes)) else {
            return Ok(false);
        };
        if crc32fast::hash(lengths) != crc {
            return Ok(false);
        }
        let mut offset = SEGMENT_HEADER + table.len() as u64;
        for number in 0..count {
            let place = TABLE_HEADER + 4 * usize::try_from(number).unwrap_or(0);
            let length = le_u32(&table, place).unwrap_or(0);
            self.blocks.insert(number, (offset, length));
            offset += BLOCK_HEADER as u64 + u64::from(length & !RAW);
        }
        self.length = length;
        Ok(true)
    }

    /// Finds the blocks of a file whose table is damaged.
    fn find_blocks(&mut self) -> io::Result<()> {
        let mut at = SEGMENT_HEADER;
        loop {
            let chunk = self.file.read_at(at, CHUNK)?;
            for found in memmem::find_iter(&chunk, &BLOCK_MAGIC) {
                let header = chunk.get(found..).unwrap_or_default();
                if let (Some(number), Some(length)) = (le_u32(header, 4), le_u32(header, 8)) {
                    let plausible = usize::try_from(length & !RAW).is_ok_and(|stored| stored <= BLOCK_BYTES);
                    if plausible {
                        self.blocks.entry(number).or_insert((at + found as u64, length));
                    }
                }
            }
            if chunk.len() < CHUNK {
                break;
            }
            // A header may straddle the end of the chunk.
            at += (CHUNK - BLOCK_HEADER) as u64;
        }
        let numbers: Vec<u32> = self.blocks.keys().copied().collect();
        for number in numbers {
            match self.block(number)? {
                Some(block) => {
                    let end = SEGMENT_HEADER + u64::from(number) * BLOCK_BYTES as u64 + block.len() as u64;
                    self.length = self.length.max(end.min(MAX_SEGMENT_BYTES));
                }
                None => {
                    self.blocks.remove(&number);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::Disk;

    fn plain(bytes: usize) -> Vec<u8> {
        let mut plain = SegmentHeader::first([7; 16]).to_bytes();
        // Half of it is compressible, and half is not.
        let mut random = blake3::Hasher::new().finalize_xof();
        while plain.len() < bytes {
            let mut block = [0; 1000];
            random.fill(&mut block[..500]);
            plain.extend_from_slice(&block);
        }
        plain.truncate(bytes);
        plain
    }

    fn open(path: &Path) -> SealedSegment {
        let file = Disk::default().open_to_read(path).unwrap().unwrap();
        SealedSegment::open(file).unwrap().unwrap_or_else(|_| panic!("not sealed"))
    }

    #[test]
    fn every_byte_is_read_at_its_offset() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        for bytes in [64, 65, 64 + BLOCK_BYTES, 3 * BLOCK_BYTES + 1000] {
            let plain = plain(bytes);
            std::fs::write(&path, seal(&plain).unwrap()).unwrap();
            let sealed = open(&path);
            assert_eq!(sealed.len(), bytes as u64);
            let body = sealed.read_at(64, usize::MAX / 2).unwrap();
            assert!(body == plain[64..], "{bytes} bytes");
            for (offset, len) in [(64, 1), (70, 5000), (BLOCK_BYTES + 60, 200), (bytes.max(100) - 36, 100)] {
                let expected = plain.get(offset.min(bytes)..(offset + len).min(bytes)).unwrap();
                assert_eq!(sealed.read_at(offset as u64, len).unwrap(), expected, "{len} bytes at {offset} of {bytes}");
            }
            assert!(sealed.read_at(bytes as u64 + 10, 10).unwrap().is_empty());
        }
        std::fs::write(&path, plain(5000)).unwrap();
        let file = Disk::default().open_to_read(&path).unwrap().unwrap();
        assert!(SealedSegment::open(file).unwrap().is_err(), "a plain segment is not a sealed one");
        assert_eq!(seal(b"not a segment"), None);
    }

    #[test]
    fn a_damaged_block_costs_its_own_bytes_and_a_damaged_table_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        let plain = plain(3 * BLOCK_BYTES);
        let whole = seal(&plain).unwrap();
        let blocks: Vec<usize> = memmem::find_iter(&whole, &BLOCK_MAGIC).collect();
        assert_eq!(blocks.len(), 3);
        let mut damaged = whole.clone();
        damaged[blocks[1] + 100] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let read = open(&path).read_at(0, plain.len()).unwrap();
        let (from, until) = (64 + BLOCK_BYTES, 64 + 2 * BLOCK_BYTES);
        assert!(read[64..from] == plain[64..from] && read[until..] == plain[until..]);
        assert!(read[from..until].iter().all(|byte| *byte == 0));

        for at in [70, 72, 81, 86, 20] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let read = open(&path).read_at(64, plain.len()).unwrap();
            assert!(read == plain[64..], "byte {at}");
        }
        std::fs::write(&path, &whole[..blocks[2] + 50]).unwrap();
        let read = open(&path).read_at(64, plain.len()).unwrap();
        assert!(read[..2 * BLOCK_BYTES] == plain[64..until] && read[2 * BLOCK_BYTES..].iter().all(|byte| *byte == 0));
    }
}
