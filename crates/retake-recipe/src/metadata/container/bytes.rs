//! Numbers in bytes, in either order, where they are there.

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The highest: `MM`.
    Big,
    /// The lowest: `II`.
    Little,
}

/// Two bytes at an offset.
pub(super) fn u16_at(bytes: &[u8], at: usize, order: Order) -> Option<u16> {
    let pair = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(match order {
        Order::Big => u16::from_be_bytes(pair),
        Order::Little => u16::from_le_bytes(pair),
    })
}

/// Four bytes at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize, order: Order) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(match order {
        Order::Big => u32::from_be_bytes(four),
        Order::Little => u32::from_le_bytes(four),
    })
}
