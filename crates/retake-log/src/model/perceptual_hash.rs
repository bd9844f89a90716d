//! The perceptual hash: 128 bits, few of which differ between images of the same composition.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A perceptual hash, written as 32 lower-case hexadecimal digits. It is computed in `images`, always in the same way,
/// so that stored ones stay comparable. It ignores colours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerceptualHash(pub u128);

/// The error for a text that is not 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid perceptual hash: expected 32 hexadecimal digits")]
pub struct ParsePerceptualHashError;

impl PerceptualHash {
    /// The largest distance of two images with the same composition: one was made from the other, resized, or saved
    /// again.
    pub const NEAR: u32 = 31;

    /// Returns the number of bits in which two hashes differ, of 128.
    pub fn distance(self, other: PerceptualHash) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}

impl fmt::Display for PerceptualHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PerceptualHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PerceptualHash({self})")
    }
}

impl FromStr for PerceptualHash {
    type Err = ParsePerceptualHashError;

    fn from_str(text: &str) -> Result<PerceptualHash, ParsePerceptualHashError> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(PerceptualHash).ok_or(ParsePerceptualHashError)
    }
}

impl Serialize for PerceptualHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PerceptualHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PerceptualHash, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_distance_counts_bits() {
        let hash = PerceptualHash(0x0f);
        assert_eq!(hash.to_string(), "0000000000000000000000000000000f");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!(hash.distance(PerceptualHash(0xf0)), 8);
        assert_eq!("+000000000000000000000000000000f".parse::<PerceptualHash>(), Err(ParsePerceptualHashError));
    }
}
