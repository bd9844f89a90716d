//! Keeping answers small: no answer's JSON passes [`MAX_ANSWER_BYTES`], whatever was recorded.

use std::io;

use serde::Serialize;
use serde_json::Value;

use super::Error;

/// The most bytes an answer takes as JSON.
pub const MAX_ANSWER_BYTES: usize = 60_000;

/// Rows on a page when nobody says how many.
const DEFAULT_LIMIT: u32 = 200;
/// The most rows on a page.
const MAX_LIMIT: u32 = 1000;
/// What a cursor takes in an answer, with its key.
const CURSOR_BYTES: usize = 256;

/// How many bytes this takes as JSON.
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
    // What cannot be written as JSON does not fit anywhere.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// The number of rows to show, from what was asked for.
pub(super) fn limit(asked: Option<u32>) -> Result<usize, Error> {
    match asked.unwrap_or(DEFAULT_LIMIT) {
        0 => Err(Error::invalid("limit is 0", format!("ask for 1 to {MAX_LIMIT} rows, or leave it out"))),
        rows => Ok(usize::try_from(rows.min(MAX_LIMIT)).unwrap_or(usize::MAX)),
    }
}

/// Rows that fit an answer: as many as the limit and the bytes allow, and never none.
pub(super) struct Page<T> {
    /// The rows so far.
    pub(super) rows: Vec<T>,
    limit: usize,
    bytes_left: usize,
}

impl<T: Serialize> Page<T> {
    /// A page of at most `limit` rows inside `envelope`: the answer without rows and cursor.
    pub(super) fn new(limit: usize, envelope: &impl Serialize) -> Page<T> {
        let bytes_left = MAX_ANSWER_BYTES.saturating_sub(json_bytes(envelope) + CURSOR_BYTES);
        Page { rows: Vec::new(), limit, bytes_left }
    }

    /// Takes a row; false when the page is full without it. A first row is always taken, so that paging gets on.
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

/// The text cut so that it takes at most `most` bytes inside JSON quotes, with an ellipsis where it was cut; none when it fits.
pub(super) fn clipped(text: &str, most: usize) -> Option<String> {
    // No character takes more than six bytes (\u001f) for each of its own.
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

/// Cuts the text in place; says whether it did.
pub(super) fn clip(text: &mut String, most: usize) -> bool {
    clipped(text, most).map(|short| *text = short).is_some()
}

/// How much of everything to leave.
pub(super) struct Cuts {
    /// Of a long text.
    pub(super) text: usize,
    /// Of a name.
    pub(super) name: usize,
    /// Of a list.
    pub(super) list: usize,
}

impl Cuts {
    /// From little to much. With the last, everything together takes less than half of an answer.
    pub(super) const STEPS: [Cuts; 5] = [
        Cuts { text: 16_000, name: 1100, list: 200 },
        Cuts { text: 8000, name: 1100, list: 100 },
        Cuts { text: 4000, name: 500, list: 32 },
        Cuts { text: 2000, name: 300, list: 16 },
        Cuts { text: 500, name: 200, list: 8 },
    ];
}

/// Cuts, and keeps the names of what was cut.
pub(super) struct Cutting<'a> {
    /// The names.
    pub(super) truncated: &'a mut Vec<String>,
}

impl Cutting<'_> {
    /// Leaves at most so many bytes of a text.
    pub(super) fn text(&mut self, name: &str, text: Option<&mut String>, most: usize) {
        if text.is_some_and(|text| clip(text, most)) {
            self.note(name);
        }
    }

    /// Leaves of a text at most so many bytes; of a larger value of another kind, how it begins, as text.
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

    /// Leaves at most so many entries of a list.
    pub(super) fn list<T>(&mut self, name: &str, list: &mut Vec<T>, most: usize) {
        if list.len() > most {
            list.truncate(most);
            self.note(name);
        }
    }

    fn note(&mut self, name: &str) {
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
    fn cuts_by_what_it_takes_in_json() {
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
        let mut few = Page::new(2, &"{}");
        assert!(few.push(1) && few.push(2) && !few.push(3));

        let mut large = Page::new(1000, &"{}");
        let row = "x".repeat(10_000);
        while large.push(row.clone()) {}
        assert_eq!(large.rows.len(), 5);

        let mut huge = Page::new(1, &"{}");
        assert!(huge.push("x".repeat(100_000)), "a page that stays empty would never end");
    }

    #[test]
    fn no_rows_is_no_listing() {
        assert!(limit(Some(0)).is_err());
        assert_eq!((limit(None).unwrap(), limit(Some(7)).unwrap(), limit(Some(u32::MAX)).unwrap()), (200, 7, 1000));
    }
}
