//! Patches that turn an exported image back into the original: ranges of the exported file, and the bytes in between.
//! Embedding a recipe only changes the beginning or the end of a file, so patches are small.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A piece of the original.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Piece {
    /// Bytes of the exported file: offset and length.
    Copy {
        /// The offset and the length.
        copy: (usize, usize),
    },
    /// Other bytes, as base64.
    Data {
        /// The bytes.
        data: String,
    },
}

/// The number of bytes in the middle of the original that are searched for in the exported file.
const ANCHOR: usize = 32;

/// Returns the pieces that `original` is made of, given `exported`.
pub(crate) fn patch(exported: &[u8], original: &[u8]) -> Vec<Piece> {
    let prefix = common(exported.iter(), original.iter());
    let (rest, wanted) = (exported.get(prefix..).unwrap_or_default(), original.get(prefix..).unwrap_or_default());
    let suffix = common(rest.iter().rev(), wanted.iter().rev());
    let middle = wanted.get(..wanted.len() - suffix).unwrap_or_default();
    let between = rest.get(..rest.len() - suffix).unwrap_or_default();
    let mut pieces = vec![Piece::Copy { copy: (0, prefix) }];
    match anchored(between, middle) {
        Some((there, here, length)) => {
            pieces.push(data(middle.get(..here).unwrap_or_default()));
            pieces.push(Piece::Copy { copy: (prefix + there, length) });
            pieces.push(data(middle.get(here + length..).unwrap_or_default()));
        }
        None => pieces.push(data(middle)),
    }
    pieces.push(Piece::Copy { copy: (exported.len() - suffix, suffix) });
    pieces.retain(|piece| match piece {
        Piece::Copy { copy: (_, length) } => *length > 0,
        Piece::Data { data } => !data.is_empty(),
    });
    pieces
}

/// Returns the original; `None` if the pieces do not fit the file.
pub(crate) fn apply(exported: &[u8], pieces: &[Piece]) -> Option<Vec<u8>> {
    let mut original = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Copy { copy: (offset, length) } => {
                original.extend_from_slice(exported.get(*offset..offset.checked_add(*length)?)?);
            }
            Piece::Data { data } => original.extend(STANDARD.decode(data).ok()?),
        }
    }
    Some(original)
}

/// Returns the longest range around the middle of `wanted` that also occurs in `bytes`: its offsets in `bytes` and in
/// `wanted`, and its length.
fn anchored(bytes: &[u8], wanted: &[u8]) -> Option<(usize, usize, usize)> {
    let at = wanted.len() / 2;
    let anchor = wanted.get(at..at + ANCHOR)?;
    let found = bytes.windows(ANCHOR).position(|window| window == anchor)?;
    let before = common(bytes.get(..found)?.iter().rev(), wanted.get(..at)?.iter().rev());
    let after = common(bytes.get(found..)?.iter(), wanted.get(at..)?.iter());
    Some((found - before, at - before, before + after))
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

fn data(bytes: &[u8]) -> Piece {
    Piece::Data { data: STANDARD.encode(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_original_is_restored_from_a_small_patch() {
        let body: Vec<u8> = (0..20_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        let with = |parts: &[&[u8]]| parts.concat();
        let original = with(&[b"head", b"old", &body, b"tail"]);
        for exported in [
            with(&[b"head", b"old", b"inserted", &body, b"tail"]),
            with(&[b"size", b"new", &body, b"appended"]),
            with(&[b"", &body]),
            original.clone(),
        ] {
            let pieces = patch(&exported, &original);
            assert_eq!(apply(&exported, &pieces), Some(original.clone()));
            assert!(serde_json::to_string(&pieces).unwrap().len() < 300, "{pieces:?}");
        }
        for exported in [&b""[..], b"x", b"something else entirely"] {
            assert_eq!(apply(exported, &patch(exported, b"original")), Some(b"original".to_vec()));
            assert_eq!(apply(exported, &patch(exported, b"")), Some(Vec::new()));
        }
        assert_eq!(apply(b"short", &[Piece::Copy { copy: (3, 9) }]), None);
        assert_eq!(apply(b"short", &[Piece::Copy { copy: (usize::MAX, 2) }]), None);
    }
}
