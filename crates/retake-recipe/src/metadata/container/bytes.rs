//! Reads numbers at an offset of a byte slice, in either byte order; `None` if the slice is too short.

/// The byte order of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Most significant byte first: `MM`.
    Big,
    /// Least significant byte first: `II`.
    Little,
}

/// Returns the 16-bit number at an offset.
pub(super) fn u16_at(bytes: &[u8], at: usize, order: Order) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(match order {
        Order::Big => u16::from_be_bytes(pair),
        Order::Little => u16::from_le_bytes(pair),
    })
}

/// Returns the 32-bit number at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize, order: Order) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(match order {
        Order::Big => u32::from_be_bytes(four),
        Order::Little => u32::from_le_bytes(four),
    })
}

/// Returns the big-endian number in `size` bytes (at most eight) at an offset.
pub(super) fn uint_at(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let number = bytes.get(at..at.checked_add(size)?).filter(|number| number.len() <= 8)?;
    Some(number.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}
