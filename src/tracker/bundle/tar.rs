//! The container of a bundle: a POSIX tar of regular files, which every system can open. Only what a bundle needs of it:
//! short names, no links, no directories, sizes below 8 GiB.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// What a header and every padded file are a multiple of.
const BLOCK: usize = 512;

/// Writes files one after the other.
pub(super) struct Writer<'a> {
    out: &'a mut dyn Write,
    seconds: u64,
}

/// A file in a tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name.
    pub(super) name: String,
    /// Where its bytes begin.
    pub(super) offset: u64,
    /// How many there are.
    pub(super) size: u64,
}

impl<'a> Writer<'a> {
    /// A tar whose files all carry this time, in seconds since 1970.
    pub(super) fn new(out: &'a mut dyn Write, seconds: u64) -> Writer<'a> {
        Writer { out, seconds }
    }

    /// A file of exactly `size` bytes.
    pub(super) fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
        self.out.write_all(&header(name, size, self.seconds)?)?;
        let copied = io::copy(&mut content.take(size), self.out)?;
        if copied < size {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        let padding = [0; BLOCK];
        self.out.write_all(padding.get(..(BLOCK - over) % BLOCK).unwrap_or_default())
    }

    /// The end.
    pub(super) fn finish(self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])
    }
}

fn header(name: &str, size: u64, seconds: u64) -> io::Result<[u8; BLOCK]> {
    if name.len() > 99 || size >= 1 << 33 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a bundle takes no file of this name or size"));
    }
    let mut header = [0; BLOCK];
    let mut put = |offset: usize, text: &[u8]| {
        if let Some(place) = header.get_mut(offset..offset + text.len()) {
            place.copy_from_slice(text);
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{:011o}\0", seconds & 0o77_777_777_777).as_bytes());
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum = checksum(&header);
    if let Some(place) = header.get_mut(148..156) {
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    Ok(header)
}

/// The sum of the header's bytes, with its own field taken for spaces.
fn checksum(header: &[u8]) -> u64 {
    (0..).zip(header).map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) }).sum()
}

/// The files of a tar, and whether it is whole: ends where a tar ends, with nothing in between that is no file.
pub(super) fn list(input: &mut (impl Read + Seek)) -> io::Result<(Vec<Entry>, bool)> {
    let length = input.seek(SeekFrom::End(0))?;
    let (mut entries, mut at) = (Vec::new(), 0);
    loop {
        let mut header = [0; BLOCK];
        input.seek(SeekFrom::Start(at))?;
        match input.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok((entries, false)),
            Err(error) => return Err(error),
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok((entries, true));
        }
        let Some((name, size)) = read_header(&header) else { return Ok((entries, false)) };
        let offset = at + BLOCK as u64;
        let whole = offset + size <= length;
        entries.push(Entry { name, offset, size: size.min(length.saturating_sub(offset)) });
        if !whole {
            return Ok((entries, false));
        }
        at = offset + size.next_multiple_of(BLOCK as u64);
    }
}

/// The name and size in a header; none when it is no header of a regular file.
fn read_header(header: &[u8; BLOCK]) -> Option<(String, u64)> {
    let text = |from: usize, to: usize| {
        let field = header.get(from..to)?;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        std::str::from_utf8(field.get(..end)?).ok()
    };
    let octal = |from, to| u64::from_str_radix(text(from, to)?.trim(), 8).ok();
    let regular = matches!(header.get(156)?, b'0' | 0);
    if !regular || octal(148, 156)? != checksum(header) {
        return None;
    }
    Some((text(0, 100)?.to_owned(), octal(124, 136)?))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn made(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, 1_765_447_200);
        for (name, content) in files {
            writer.file(name, content.len() as u64, &mut &**content).unwrap();
        }
        writer.finish().unwrap();
        out
    }

    #[test]
    fn what_was_written_is_listed() {
        let files: [(&str, &[u8]); 4] = [("a", b""), ("images/b.png", &[7; 512]), ("c", b"hello"), ("d", &[1; 1000])];
        let tar = made(&files);
        assert_eq!(tar.len() % 512, 0);
        let (entries, whole) = list(&mut Cursor::new(&tar)).unwrap();
        assert!(whole);
        let read: Vec<(&str, &[u8])> = entries
            .iter()
            .map(|entry| {
                let from = usize::try_from(entry.offset).unwrap();
                (entry.name.as_str(), &tar[from..from + usize::try_from(entry.size).unwrap()])
            })
            .collect();
        assert_eq!(read, files);
    }

    #[test]
    fn a_cut_or_crooked_tar_gives_what_comes_before() {
        let tar = made(&[("a", b"one"), ("b", b"two")]);
        for end in 0..tar.len() - 1024 {
            let (entries, whole) = list(&mut Cursor::new(&tar[..end])).unwrap();
            assert!(!whole, "cut at {end}");
            assert!(entries.len() <= 2);
        }
        let mut crooked = tar;
        crooked[1024 + 3] ^= 1;
        let (entries, whole) = list(&mut Cursor::new(&crooked)).unwrap();
        assert_eq!((entries.len(), whole), (1, false));
    }

    #[test]
    fn a_file_that_shrinks_is_noticed() {
        let mut out = Vec::new();
        assert!(Writer::new(&mut out, 0).file("a", 10, &mut &b"short"[..]).is_err());
    }
}
