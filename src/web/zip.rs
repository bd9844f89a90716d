//! A writer for ZIP archives without compression, since images are compressed already. Sizes are known in advance, so
//! no data descriptors are needed, and every program can read the archives. ZIP64 is not supported: an archive ends at
//! 4 GiB.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// An archive being written.
pub(super) struct Zip<W> {
    out: W,
    at: u64,
    entries: Vec<ZipEntry>,
}

struct ZipEntry {
    name: String,
    checksum: u32,
    size: u32,
    at: u32,
}

/// The earliest date of the format, 1980-01-01. File times are not part of an export.
const DATE: u16 = 0x21;
/// The flag for UTF-8 names.
const FLAGS: u16 = 0x0800;
const VERSION: u16 = 20;

impl<W: Write> Zip<W> {
    pub(super) fn new(out: W) -> Zip<W> {
        Zip { out, at: 0, entries: Vec::new() }
    }

    /// Adds a file.
    pub(super) fn add_file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let (checksum, size) = checksum(&mut file)?;
        file.seek(SeekFrom::Start(0))?;
        self.begin(name, checksum, size)?;
        let copied = io::copy(&mut file, &mut self.out)?;
        self.at += copied;
        if copied == size { Ok(()) } else { Err(io::Error::other("the file changed while it was read")) }
    }

    /// Adds a file with these contents.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.begin(name, crc32fast::hash(bytes), bytes.len() as u64)?;
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes the central directory and returns the underlying writer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let start = small(self.at)?;
        let mut directory = Vec::new();
        for entry in &self.entries {
            directory.extend_from_slice(&0x0201_4b50_u32.to_le_bytes());
            directory.extend_from_slice(&VERSION.to_le_bytes());
            directory.extend_from_slice(&header(entry));
            // No comment, first disk, no attributes.
            directory.extend_from_slice(&[0; 10]);
            directory.extend_from_slice(&entry.at.to_le_bytes());
            directory.extend_from_slice(entry.name.as_bytes());
        }
        let count = u16::try_from(self.entries.len()).map_err(|_| io::Error::other("too many files for an archive"))?;
        let mut end = 0x0605_4b50_u32.to_le_bytes().to_vec();
        end.extend_from_slice(&[0; 4]);
        end.extend_from_slice(&count.to_le_bytes());
        end.extend_from_slice(&count.to_le_bytes());
        end.extend_from_slice(&small(directory.len() as u64)?.to_le_bytes());
        end.extend_from_slice(&start.to_le_bytes());
        end.extend_from_slice(&[0; 2]);
        self.out.write_all(&directory)?;
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, name: &str, checksum: u32, size: u64) -> io::Result<()> {
        let entry = ZipEntry { name: name.to_owned(), checksum, size: small(size)?, at: small(self.at)? };
        small(self.at + size)?;
        let mut bytes = 0x0403_4b50_u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&header(&entry));
        bytes.extend_from_slice(entry.name.as_bytes());
        self.out.write_all(&bytes)?;
        self.at += bytes.len() as u64;
        self.entries.push(entry);
        Ok(())
    }
}

/// Returns the fields that a local file header and a directory entry have in common.
fn header(entry: &ZipEntry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(26);
    for field in [VERSION, FLAGS, 0, 0, DATE] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    for field in [entry.checksum, entry.size, entry.size] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    let length = u16::try_from(entry.name.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes
}

fn checksum(file: &mut File) -> io::Result<(u32, u64)> {
    let (mut hasher, mut size, mut buffer) = (crc32fast::Hasher::new(), 0, vec![0; 64 * 1024]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((hasher.finalize(), size));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        size += read as u64;
    }
}

fn small(size: u64) -> io::Result<u32> {
    u32::try_from(size).map_err(|_| io::Error::other("the archive would be larger than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_laid_out_as_the_format_says() {
        let mut zip = Zip::new(Vec::new());
        zip.add("a.txt", b"hello").unwrap();
        zip.add("b/é.txt", b"").unwrap();
        let bytes = zip.finish().unwrap();
        assert_eq!(&bytes[..4], b"PK\x03\x04");
        assert_eq!(&bytes[30..40], b"a.txthello");
        let end = bytes.len() - 22;
        assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(u16::from_le_bytes([bytes[end + 10], bytes[end + 11]]), 2);
        let directory = number(end + 16);
        assert_eq!(&bytes[directory..directory + 4], b"PK\x01\x02");
        assert_eq!(directory + number(end + 12), end);
        assert_eq!(number(directory + 16), crc32fast::hash(b"hello") as usize);
    }
}
