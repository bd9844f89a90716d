//! The container of a bundle: a POSIX tar of regular files, which every system can open. The `tar` crate reads and
//! writes it. This module enforces what a bundle promises in addition: only regular files, files of exactly the
//! announced size, and nothing but zeros outside of headers and files.

use std::io::{self, Read, Seek, SeekFrom, Write};

use ::tar::{Archive, Builder, EntryType, Header};

/// The block size of a tar: headers occupy one block, and files are padded to whole blocks.
const BLOCK: u64 = 512;
/// The size of the two zero blocks that end a tar.
const END: u64 = 2 * BLOCK;
/// The maximum number of zeros after the last file, since `tar` pads archives to its own record size.
const MAX_TAIL: u64 = 20 * BLOCK;

/// A tar writer.
pub(super) struct Writer<'a> {
    tar: Builder<&'a mut dyn Write>,
    seconds: u64,
}

/// The position of a file in a tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TarEntry {
    /// The name of the file.
    pub(super) name: String,
    /// The offset of its first byte.
    pub(super) offset: u64,
    /// Its size in bytes.
    pub(super) size: u64,
}

impl<'a> Writer<'a> {
    /// Creates a writer that gives all files this modification time, in seconds since 1970.
    pub(super) fn new(out: &'a mut dyn Write, seconds: u64) -> Writer<'a> {
        Writer { tar: Builder::new(out), seconds }
    }

    /// Appends a file of exactly `size` bytes.
    pub(super) fn file(&mut self, name: &str, size: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(self.seconds);
        header.set_size(size);
        header.set_cksum();
        let mut content = content.take(size);
        self.tar.append(&header, &mut content)?;
        // The crate pads whatever it reads, so a file that shrank meanwhile would shift everything after it.
        if content.limit() > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
        }
        Ok(())
    }

    /// Writes the end-of-archive marker.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.tar.finish()
    }
}

/// Lists the files of a tar and returns whether it is intact: only regular files, zeros in between, and a proper end.
///
/// For a damaged tar, returns the files before the damage. An error means that reading failed.
pub(super) fn list(input: &mut (impl Read + Seek)) -> io::Result<(Vec<TarEntry>, bool)> {
    let length = input.seek(SeekFrom::End(0))?;
    input.seek(SeekFrom::Start(0))?;
    let (mut entries, mut intact) = (Vec::new(), true);
    // Raw entries: otherwise the crate reads long names and other extensions into memory, whatever their size.
    for found in Archive::new(&mut *input).entries_with_seek()?.raw(true) {
        let entry = match found {
            Ok(entry) => entry,
            // Format errors found by the crate carry no OS error.
            Err(error) if error.raw_os_error().is_none() => {
                intact = false;
                break;
            }
            Err(error) => return Err(error),
        };
        let header = entry.header();
        let name = String::from_utf8(entry.path_bytes().into_owned());
        let (Ok(name), Ok(size), EntryType::Regular) = (name, header.entry_size(), header.entry_type()) else {
            intact = false;
            break;
        };
        let offset = entry.raw_file_position();
        let available = length.saturating_sub(offset);
        entries.push(TarEntry { name, offset, size: size.min(available) });
        if size > available {
            intact = false;
            break;
        }
    }
    Ok((entries.clone(), intact && is_padded(input, &entries, length)?))
}

/// Returns whether every file is followed by zeros up to the next block, and the last one by zeros up to the end.
fn is_padded(input: &mut (impl Read + Seek), entries: &[TarEntry], length: u64) -> io::Result<bool> {
    let mut end = 0;
    for entry in entries {
        let content = entry.offset + entry.size;
        end = content.next_multiple_of(BLOCK);
        if !is_zero(input, content, end.min(length))? {
            return Ok(false);
        }
    }
    let tail = length.saturating_sub(end);
    Ok((END..=MAX_TAIL).contains(&tail) && is_zero(input, end, length)?)
}

fn is_zero(input: &mut (impl Read + Seek), from: u64, to: u64) -> io::Result<bool> {
    input.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    input.take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, 1_765_447_200);
        for (name, content) in files {
            writer.file(name, content.len() as u64, &mut &**content).unwrap();
        }
        writer.finish().unwrap();
        out
    }

    fn listed(tar: &[u8]) -> (Vec<TarEntry>, bool) {
        list(&mut Cursor::new(tar)).unwrap()
    }

    #[test]
    fn lists_what_was_written() {
        let files: [(&str, &[u8]); 4] = [("a", b""), ("images/b.png", &[7; 512]), ("c", b"hello"), ("d", &[1; 1000])];
        let tar = tar_of(&files);
        assert_eq!(tar.len() % 512, 0);
        let (entries, intact) = listed(&tar);
        assert!(intact);
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
    fn a_truncated_tar_lists_the_files_before_the_cut() {
        let tar = tar_of(&[("a", b"one"), ("b", b"two")]);
        for end in 0..tar.len() {
            let (entries, intact) = listed(&tar[..end]);
            assert!(!intact, "cut at {end}");
            assert!(entries.len() <= 2);
        }
    }

    #[test]
    fn a_changed_byte_outside_of_files_is_noticed() {
        let tar = tar_of(&[("a", b"one"), ("b", b"two")]);
        let contents = [512..515, 1536..1539];
        for at in (0..tar.len()).filter(|at| !contents.iter().any(|content| content.contains(at))) {
            let mut changed = tar.clone();
            changed[at] ^= 1;
            let (entries, intact) = listed(&changed);
            assert!(!intact, "byte {at} changed, and {entries:?} passes for intact");
        }
    }

    #[test]
    fn links_directories_and_long_names_are_refused() {
        for kind in [EntryType::Symlink, EntryType::Directory, EntryType::GNULongName, EntryType::XHeader] {
            let mut header = Header::new_ustar();
            header.set_path("a").unwrap();
            header.set_entry_type(kind);
            header.set_size(3);
            header.set_cksum();
            let mut tar = Builder::new(Vec::new());
            tar.append(&header, &b"one"[..]).unwrap();
            assert_eq!(listed(&tar.into_inner().unwrap()), (Vec::new(), false), "{kind:?}");
        }
    }

    #[test]
    fn false_sizes_are_bounded_by_the_file() {
        for size in [4, 1 << 33, u64::MAX] {
            let mut header = Header::new_ustar();
            header.set_path("a").unwrap();
            header.set_entry_type(EntryType::Regular);
            header.set_size(size);
            header.set_cksum();
            let mut tar = header.as_bytes().to_vec();
            tar.extend_from_slice(b"one");
            let (entries, intact) = listed(&tar);
            assert!(!intact && entries.iter().all(|entry| entry.size <= 3), "{size}: {entries:?}");
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let mut out = Vec::new();
        assert!(Writer::new(&mut out, 0).file("a", 10, &mut &b"short"[..]).is_err());
    }

    #[test]
    fn a_failing_disk_is_not_a_damaged_tar() {
        struct Failing(Cursor<Vec<u8>>);
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        impl Seek for Failing {
            fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
                self.0.seek(to)
            }
        }
        let tar = tar_of(&[("a", b"one")]);
        assert!(list(&mut Failing(Cursor::new(tar))).is_err());
    }
}
