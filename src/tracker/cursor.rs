//! Cursors: where the next page of a listing begins. Opaque to callers, and good only for the listing they came from.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::model::Hash;

use super::Error;

/// The cursor for `place` in the listing that `scope` describes: the verb and every argument that chooses or orders rows.
pub(super) fn encode(scope: &str, place: &str) -> String {
    let mut bytes = mark(scope.as_bytes()).to_vec();
    bytes.extend_from_slice(place.as_bytes());
    bytes.extend_from_slice(&mark(&bytes));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place a cursor stands for, as `parse` reads it.
pub(super) fn decode<T>(scope: &str, cursor: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
    let made_up = || {
        Error::invalid(
            "the cursor is none that was given out",
            "give back `nextCursor` of the page before exactly as it is, or leave the cursor out to begin again",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| made_up())?;
    let (bytes, check) = bytes.split_last_chunk::<4>().ok_or_else(made_up)?;
    if mark(bytes) != *check {
        return Err(made_up());
    }
    let (listing, place) = bytes.split_first_chunk::<4>().ok_or_else(made_up)?;
    if mark(scope.as_bytes()) != *listing {
        // Going on from here would skip or repeat rows without anyone noticing.
        return Err(Error::invalid(
            "the cursor belongs to another listing",
            "keep all arguments but `limit` as they were on the page before, or leave the cursor out to begin again",
        ));
    }
    std::str::from_utf8(place).ok().and_then(parse).ok_or_else(made_up)
}

/// Enough to tell an accident from a cursor. It is no secret: a cursor gives access to nothing.
fn mark(bytes: &[u8]) -> [u8; 4] {
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
    fn gives_back_the_place() {
        assert_eq!(number(&encode("audit session-2025-12-11-001", "42")).unwrap(), 42);
    }

    #[test]
    fn refuses_what_was_made_up_or_comes_from_elsewhere() {
        let whole = encode("audit session-2025-12-11-001", "42");
        for cursor in ["", "42", "%%%", "AAAA", &whole[1..], &format!("{whole}A"), &whole.to_uppercase()] {
            let error = number(cursor).unwrap_err();
            assert_eq!(error.message, "the cursor is none that was given out", "{cursor:?}");
        }
        let elsewhere = number(&encode("audit session-2025-12-11-002", "42")).unwrap_err();
        assert_eq!(elsewhere.message, "the cursor belongs to another listing");
        let unread = number(&encode("audit session-2025-12-11-001", "x")).unwrap_err();
        assert_eq!(unread.message, "the cursor is none that was given out");
    }
}
