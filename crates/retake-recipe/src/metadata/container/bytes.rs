//! Numbers in either byte order. Reading at an offset returns `None` if the slice is too short.

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metadata) enum ByteOrder {
    /// Most significant byte first: `MM`.
    Big,
    /// Least significant byte first: `II`.
    Little,
}

impl ByteOrder {
    /// Returns the bytes of a 16-bit number.
    pub(in crate::metadata) fn u16_bytes(self, number: u16) -> [u8; 2] {
        match self {
            ByteOrder::Big => number.to_be_bytes(),
            ByteOrder::Little => number.to_le_bytes(),
        }
    }

    /// Returns the bytes of a 32-bit number.
    pub(in crate::metadata) fn u32_bytes(self, number: u32) -> [u8; 4] {
        match self {
            ByteOrder::Big => number.to_be_bytes(),
            ByteOrder::Little => number.to_le_bytes(),
        }
    }
}

/// Returns the 16-bit number at an offset.
pub(in crate::metadata) fn u16_at(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(match order {
        ByteOrder::Big => u16::from_be_bytes(pair),
        ByteOrder::Little => u16::from_le_bytes(pair),
    })
}

/// Returns the 32-bit number at an offset.
pub(in crate::metadata) fn u32_at(bytes: &[u8], at: usize, order: ByteOrder) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(match order {
        ByteOrder::Big => u32::from_be_bytes(four),
        ByteOrder::Little => u32::from_le_bytes(four),
    })
}

/// Returns the big-endian number in `size` bytes (at most eight) at an offset.
pub(super) fn uint_at(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let number = bytes.get(at..at.checked_add(size)?).filter(|number| number.len() <= 8)?;
    Some(number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
