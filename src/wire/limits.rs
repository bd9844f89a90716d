//! Limits the size of replies: pages of rows, and texts and lists that are truncated until a reply fits.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::Error;
use super::error::RequestError;

/// The default maximum size of a reply's JSON, chosen because many clients truncate longer ones.
pub const DEFAULT_REPLY_BYTES: usize = 24_000;
/// The largest reply size that a caller can request.
pub const MAX_REPLY_BYTES: usize = 60_000;
/// The smallest reply size that a caller can request; every reply fits.
pub(super) const MIN_REPLY_BYTES: usize = 16_000;

/// The number of rows on a page by default.
const DEFAULT_LIMIT: u32 = 200;
/// The maximum number of rows on a page.
const MAX_LIMIT: u32 = 1000;
/// The size of a cursor in a reply, with its key.
const CURSOR_BYTES: usize = 256;

/// Returns the size of a value as JSON.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value that cannot be serialised does not fit anywhere.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// Returns the number of rows for a page, given the requested limit.
pub(super) fn limit(asked: Option<u32>) -> Result<usize, Error> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        0 => Err(RequestError::ZeroLimit { most: MAX_LIMIT }.into()),
        rows => Ok(usize::try_from(rows.min(MAX_LIMIT)).unwrap_or(usize::MAX)),
    }
}

/// The rows of a page: as many as the limit and the size allow, but at least one.
pub(super) struct PageRows<T> {
    /// The rows so far.
    pub(super) rows: Vec<T>,
    limit: usize,
    bytes_left: usize,
}

impl<T: Serialize> PageRows<T> {
    /// Creates a page of at most `limit` rows in a reply of at most `reply_bytes`. `envelope` is the reply without rows and
    /// cursor.
    pub(super) fn new(limit: usize, reply_bytes: usize, envelope: &impl Serialize) -> PageRows<T> {
        let bytes_left = reply_bytes.saturating_sub(json_bytes(envelope) + CURSOR_BYTES);
        PageRows { rows: Vec::new(), limit, bytes_left }
    }

    /// Adds a row, or returns `false` if the page is full. The first row is always added, so that paging makes
    /// progress.
    pub(super) fn push(&mut self, row: T) -> bool {
        let bytes = json_bytes(&row) + 1;
        if !self.rows.is_empty() && (self.rows.len() >= self.limit || bytes > self.bytes_left) {
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.rows.push(row);
        true
    }
}

/// Truncates a text to `most` bytes as a JSON string, with an ellipsis; `None` if it fits.
pub(super) fn clipped(text: &str, most: usize) -> Option<String> {
    // Escaping takes at most six bytes (\u001f) per byte.
    if text.len().saturating_mul(6) <= most {
        return None;
    }
    let mut used = 0;
    let mut cut = None;
    for (at, character) in text.char_indices() {
        if cut.is_none() && used + ELLIPSIS.len_utf8() + escaped_bytes(character) > most {
            cut = Some(at);
        }
        used += escaped_bytes(character);
        if used > most {
            let mut short = text.get(..cut.unwrap_or(at)).unwrap_or_default().to_owned();
            short.push(ELLIPSIS);
            return Some(short);
        }
    }
    None
}

/// Truncates a text in place. Returns whether it did.
pub(super) fn clip(text: &mut String, most: usize) -> bool {
    clipped(text, most).map(|short| *text = short).is_some()
}

/// The amount to keep of each kind of value.
pub(super) struct Limits {
    /// The maximum size of a long text, in bytes.
    pub(super) text: usize,
    /// The maximum size of a name, in bytes.
    pub(super) name: usize,
    /// The maximum number of list entries.
    pub(super) list: usize,
}

impl Limits {
    /// The limits from mild to severe. With the last, an iteration takes less than half of the default reply.
    pub(super) const STEPS: [Limits; 6] = [
        Limits { text: 16_000, name: 1100, list: 200 },
        Limits { text: 8000, name: 1100, list: 100 },
        Limits { text: 4000, name: 500, list: 32 },
        Limits { text: 2000, name: 300, list: 16 },
        Limits { text: 500, name: 200, list: 8 },
        Limits { text: 300, name: 100, list: 6 },
    ];
}

/// Truncates values and collects the names of the truncated ones.
pub(super) struct Truncator<'a> {
    /// The names of the truncated values.
    pub(super) truncated: &'a mut Vec<String>,
}

impl Truncator<'_> {
    /// Keeps at most `most` bytes of a text.
    pub(super) fn text(&mut self, name: &str, text: Option<&mut String>, most: usize) {
        if text.is_some_and(|text| clip(text, most)) {
            self.note(name);
        }
    }

    /// Keeps at most `most` bytes of a value; a larger array or object is replaced by the beginning of its JSON as
    /// text.
    pub(super) fn value(&mut self, name: &str, value: Option<&mut Value>, most: usize) {
        let Some(value) = value else { return };
        let short = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
            Value::String(text) => clipped(text, most),
            Value::Array(_) | Value::Object(_) if json_bytes(value) <= most => None,
            Value::Array(_) | Value::Object(_) => clipped(&value.to_string(), most),
        };
        if let Some(short) = short {
            *value = short.into();
            self.note(name);
        }
    }

    /// Keeps at most `most` entries of a list.
    pub(super) fn list<T>(&mut self, name: &str, list: &mut Vec<T>, most: usize) {
        if list.len() > most {
            list.truncate(most);
            self.note(name);
        }
    }

    /// Records that a value of this name was truncated.
    pub(super) fn note(&mut self, name: &str) {
        if !self.truncated.iter().any(|noted| noted == name) {
            self.truncated.push(name.to_owned());
        }
    }
}

const ELLIPSIS: char = '…';

fn escaped_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_by_the_size_in_json() {
        for text in [
            "plain text that goes on",
            "猫猫猫猫猫猫猫猫",
            "\"\"\"\"\"\"\"\"\"\"",
            "\u{1}\u{2}\u{3}\u{4}",
            "a🎨b🎨c🎨d🎨",
        ] {
            let whole = json_bytes(&text) - 2;
            assert_eq!(clipped(text, whole), None, "{text:?}");
            for most in 3..whole {
                let short = clipped(text, most).unwrap();
                assert!(short.ends_with('…'));
                assert!(json_bytes(&short) - 2 <= most, "{short:?} in {most}");
                assert!(text.starts_with(short.trim_end_matches('…')));
            }
        }
        assert_eq!(clipped("", 0), None);
    }

    #[test]
    fn a_page_is_full_by_rows_or_by_bytes() {
        let mut few = PageRows::new(2, MAX_REPLY_BYTES, &"{}");
        assert!(few.push(1) && few.push(2) && !few.push(3));

        let mut large = PageRows::new(1000, MAX_REPLY_BYTES, &"{}");
        let row = "x".repeat(10_000);
        while large.push(row.clone()) {}
        assert_eq!(large.rows.len(), 5);

        let mut huge = PageRows::new(1, MAX_REPLY_BYTES, &"{}");
        assert!(huge.push("x".repeat(100_000)), "an empty page would never make progress");
    }

    #[test]
    fn a_limit_of_zero_is_refused() {
        assert!(limit(Some(0)).is_err());
        assert_eq!((limit(None).unwrap(), limit(Some(7)).unwrap(), limit(Some(u32::MAX)).unwrap()), (200, 7, 1000));
    }
}
