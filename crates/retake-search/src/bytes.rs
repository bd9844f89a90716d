//! The encoding of numbers, and the checksums of all parts of the index.

use std::fs::File;

use retake_log::disk::read_at;

/// The error for an index that is not as it was written. It is discarded and rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the search index is damaged: {0}")]
pub(super) struct Damage(pub(super) String);

impl Damage {
    pub(super) fn new(what: &str) -> Damage {
        Damage(what.to_owned())
    }
}

/// The bytes of a segment.
pub(super) enum Source {
    /// A file, with its length when it was opened.
    File(File, u64),
    /// Memory, for segments that are not written yet or cannot be.
    Memory(Vec<u8>),
}

/// A range of bytes in a segment, with its checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) crc: u32,
}

impl Source {
    /// Creates a source from a file.
    pub(super) fn file(file: File) -> Result<Source, Damage> {
        let size = file.metadata().map_err(|error| Damage(error.to_string()))?.len();
        Ok(Source::File(file, size))
    }

    /// Reads an extent and verifies its checksum.
    pub(super) fn read(&self, extent: Extent) -> Result<Vec<u8>, Damage> {
        let bytes = self.raw(extent.offset, extent.length)?;
        if extent.holds(&bytes) { Ok(bytes) } else { Err(Damage::new("an extent does not match its checksum")) }
    }

    pub(super) fn length(&self) -> u64 {
        match self {
            Source::File(_, size) => *size,
            Source::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads bytes without verifying them. A file that was truncated since it was opened is an error.
    pub(super) fn raw(&self, offset: u64, length: u64) -> Result<Vec<u8>, Damage> {
        let cut = || Damage::new("a file is too short");
        let end = offset.checked_add(length).filter(|end| *end <= self.length()).ok_or_else(cut)?;
        let place = |number: u64| usize::try_from(number).map_err(|_| cut());
        let bytes = match self {
            Source::File(file, _) => {
                read_at(file, offset, place(length)?).map_err(|error| Damage(error.to_string()))?
            }
            Source::Memory(bytes) => bytes.get(place(offset)?..place(end)?).unwrap_or_default().to_vec(),
        };
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(cut()) }
    }
}

impl Extent {
    /// Returns whether these are the bytes that were written.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && crc32fast::hash(bytes) == self.crc
    }

    /// Returns the offset after its last byte.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// Writes a number as a variable-length integer (LEB128).
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7F).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

/// A reader of numbers that [`put`] wrote.
pub(super) struct Reader<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes: bytes.iter() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.as_slice().is_empty()
    }

    /// Returns the bytes that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.as_slice()
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let first = *self.bytes.next()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut number = u64::from(first & 0x7F);
        let mut shift = 7;
        loop {
            let byte = *self.bytes.next()?;
            number |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.as_slice();
        let taken = bytes.get(..length)?;
        self.bytes = bytes.get(length..)?.iter();
        Some(taken)
    }
}

/// Values of a fixed width.
pub(super) trait Fixed: Sized + Copy {
    const WIDTH: usize;
    fn put(self, bytes: &mut Vec<u8>);
    fn get(bytes: &[u8]) -> Option<Self>;
}

macro_rules! fixed {
    ($($type:ty),*) => {$(
        impl Fixed for $type {
            const WIDTH: usize = size_of::<$type>();
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Option<Self> {
                Some(<$type>::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}

fixed!(u8, u32, u64, i64, u128);

/// Encodes a column.
pub(super) fn pack<T: Fixed>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * T::WIDTH);
    values.iter().for_each(|value| value.put(&mut bytes));
    bytes
}

/// Decodes a column.
pub(super) fn unpack<T: Fixed>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::WIDTH).filter_map(T::get).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        let numbers = [0, 1, 127, 128, 300, 1 << 20, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        let mut reader = Reader::new(&bytes);
        numbers.iter().for_each(|number| assert_eq!(reader.number(), Some(*number)));
        assert!(reader.is_empty());
        assert_eq!(Reader::new(&[0x80; 40]).number(), None);
        assert_eq!(unpack::<i64>(&pack(&[-5i64, 7])), [-5, 7]);
    }
}
