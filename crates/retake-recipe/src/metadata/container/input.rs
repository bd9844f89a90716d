//! A buffered reader for reading a little and skipping a lot, over files and forward-only streams.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

/// A buffered reader that knows its position and, for files, the end of the data.
pub(super) struct MediaInput<R> {
    reader: BufReader<R>,
    at: u64,
    /// The length of the file; `u64::MAX` for a stream, whose length is unknown.
    end: u64,
}

impl<R: Read + Seek> MediaInput<R> {
    /// Creates an input over a seekable source, starting at its first byte.
    pub(super) fn new(mut reader: R) -> io::Result<MediaInput<R>> {
        let end = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        Ok(MediaInput { reader: BufReader::new(reader), at: 0, end })
    }

    /// Creates an input over a stream whose length is unknown.
    pub(super) fn unbounded(reader: R) -> MediaInput<R> {
        MediaInput { reader: BufReader::new(reader), at: 0, end: u64::MAX }
    }

    /// Returns the offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes left; a very large number for a stream.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Returns the next bytes, at most `most` of them, without consuming them.
    pub(super) fn peek(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let buffer = self.reader.fill_buf()?;
        Ok(buffer.get(..most.min(buffer.len())).unwrap_or_default().to_vec())
    }

    /// Skips bytes, at most to the end, and returns whether all of them existed.
    pub(super) fn skip(&mut self, count: u64) -> io::Result<bool> {
        let there = count.min(self.left());
        // Within the buffer, this costs nothing. A count beyond `i64` only occurs in streams, and ends them.
        self.reader.seek_relative(i64::try_from(there).unwrap_or(i64::MAX))?;
        self.at = self.at.saturating_add(there);
        Ok(there == count)
    }

    /// Moves to an offset, at most to the end. Moving backwards in a stream fails with [`ErrorKind::Unsupported`].
    pub(super) fn seek_to(&mut self, offset: u64) -> io::Result<()> {
        let to = offset.min(self.end);
        let distance = i64::try_from(i128::from(to) - i128::from(self.at)).unwrap_or(i64::MAX);
        self.reader.seek_relative(distance)?;
        self.at = to;
        Ok(())
    }

    /// Moves back over bytes that were just read.
    pub(super) fn back(&mut self, count: u32) -> io::Result<()> {
        self.reader.seek_relative(-i64::from(count))?;
        self.at = self.at.saturating_sub(u64::from(count));
        Ok(())
    }

    /// Reads the next bytes, fewer if the file ends first. The buffer grows with the bytes read, not with `count`.
    pub(super) fn bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let count = count.min(self.left());
        let read = self.reader.by_ref().take(count).read_to_end(&mut bytes)?;
        self.at += u64::try_from(read).unwrap_or(u64::MAX);
        Ok(bytes)
    }

    /// Reads the next `N` bytes; `None` if the file ends first.
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

    /// Reads the next byte; `None` at the end.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        Ok(self.array::<1>()?.map(|[byte]| byte))
    }
}

/// A stream that can only be read forwards: seeking ahead reads and discards.
pub(super) struct Forward<R>(pub(super) R);

impl<R: Read> Read for Forward<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Seek for Forward<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Current(ahead @ 0..) => {
                io::copy(&mut self.0.by_ref().take(ahead.unsigned_abs()), &mut io::sink())
            }
            _ => Err(io::Error::new(ErrorKind::Unsupported, "a stream cannot be read backwards")),
        }
    }
}
