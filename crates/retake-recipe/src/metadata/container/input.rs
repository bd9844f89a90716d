//! A file that is read a little and skipped a lot.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

/// A buffered file that knows where it is and where it ends.
pub(super) struct Input<R> {
    reader: BufReader<R>,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> Input<R> {
    /// From the beginning.
    pub(super) fn new(mut reader: R) -> io::Result<Input<R>> {
        let end = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        Ok(Input { reader: BufReader::new(reader), at: 0, end })
    }

    /// Where the next byte is.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// The next bytes, at most so many, without moving on.
    pub(super) fn peek(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let buffer = self.reader.fill_buf()?;
        Ok(buffer.get(..most.min(buffer.len())).unwrap_or_default().to_vec())
    }

    /// Moves on, at most to the end; whether all of it was there.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<bool> {
        let there = count.min(self.left());
        // Within the buffer this costs nothing.
        self.reader.seek_relative(i64::try_from(there).unwrap_or(i64::MAX))?;
        self.at += there;
        Ok(there == count)
    }

    /// Moves back over what was just read.
    pub(super) fn back(&mut self, count: u32) -> io::Result<()> {
        self.reader.seek_relative(-i64::from(count))?;
        self.at = self.at.saturating_sub(u64::from(count));
        Ok(())
    }

    /// The next bytes: as many as are there when the file ends before. The buffer grows with what is read, not with
    /// what is asked for.
    pub(super) fn bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let count = count.min(self.left());
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes)?;
        self.at += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(bytes)
    }

    /// The next bytes, or none when the file ends before.
    pub(super) fn array<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut array = [0; N];
        match self.reader.read_exact(&mut array) {
            Ok(()) => {
                self.at += u64::try_from(N).unwrap_or(u64::MAX);
                Ok(Some(array))
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.at = self.end;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        Ok(self.array::<1>()?.map(|[byte]| byte))
    }
}
