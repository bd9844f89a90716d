//! Cursors: the position of the next page of a listing. Opaque to callers, and valid only for the listing they came
//! from.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::model::Hash;

use super::Error;
use super::error::RequestError;

/// Returns the cursor for `place` in the listing described by `scope`: the command and every argument that selects or
/// orders rows, as text that is stable across versions.
pub(super) fn encode(scope: &str, place: &str) -> String {
    let mut bytes = checksum(scope.as_bytes()).to_vec();
    bytes.extend_from_slice(place.as_bytes());
    bytes.extend_from_slice(&checksum(&bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a cursor and parses its position with `parse`.
pub(super) fn decode<T>(scope: &str, cursor: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
    let invalid = || Error::from(RequestError::InvalidCursor);
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
    let (bytes, check) = bytes.split_last_chunk::<4>().ok_or_else(invalid)?;
    if checksum(bytes) != *check {
        return Err(invalid());
    }
    let (listing, place) = bytes.split_first_chunk::<4>().ok_or_else(invalid)?;
    if checksum(scope.as_bytes()) != *listing {
        // Continuing from here would silently skip or repeat rows.
        return Err(RequestError::ForeignCursor.into());
    }
    std::str::from_utf8(place).ok().and_then(parse).ok_or_else(invalid)
}

/// Returns a checksum that detects accidental changes. It is not a secret: a cursor grants no access.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let Hash([a, b, c, d, ..]) = Hash::of(bytes);
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(cursor: &str) -> Result<u32, Error> {
        decode("audit session-2025-12-11-001", cursor, |place| place.parse().ok())
    }

    #[test]
    fn decodes_the_position() {
        assert_eq!(number(&encode("audit session-2025-12-11-001", "42")).unwrap(), 42);
    }

    #[test]
    fn refuses_forged_and_foreign_cursors() {
        let whole = encode("audit session-2025-12-11-001", "42");
        for cursor in ["", "42", "%%%", "AAAA", &whole[1..], &format!("{whole}A"), &whole.to_uppercase()] {
            let error = number(cursor).unwrap_err();
            assert_eq!(error.message, "invalid cursor", "{cursor:?}");
        }
        let elsewhere = number(&encode("audit session-2025-12-11-002", "42")).unwrap_err();
        assert_eq!(elsewhere.message, "the cursor belongs to another listing");
        let unread = number(&encode("audit session-2025-12-11-001", "x")).unwrap_err();
        assert_eq!(unread.message, "invalid cursor");
    }
}
