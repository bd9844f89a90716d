//! What a picture looks like, as 128 bits: pictures that look alike differ in few of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A perceptual hash, shown as 32 lower-case hexadecimal digits. How it is made is the business of `images`; that it is
/// never made differently is what makes stored ones comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Looks(pub u128);

/// The text is not 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("looks are 32 hexadecimal digits")]
pub struct NotLooks;

impl Looks {
    /// Up to this distance two pictures are nearly the same: one was made from the other, or resized, or saved again.
    pub const NEAR: u32 = 31;

    /// In how many of 128 bits they differ.
    pub fn distance(self, other: Looks) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Looks({self})")
    }
}

impl FromStr for Looks {
    type Err = NotLooks;

    fn from_str(text: &str) -> Result<Looks, NotLooks> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(Looks).ok_or(NotLooks)
    }
}

impl Serialize for Looks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Looks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Looks, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_through_text_and_counts_bits() {
        let looks = Looks(0x0f);
        assert_eq!(looks.to_string(), "0000000000000000000000000000000f");
        assert_eq!(looks.to_string().parse(), Ok(looks));
        assert_eq!(looks.distance(Looks(0xf0)), 8);
        assert_eq!("+000000000000000000000000000000f".parse::<Looks>(), Err(NotLooks));
    }
}
