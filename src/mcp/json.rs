//! Bounds on JSON before it is parsed: a tree takes up to a hundred times the memory of its text, so the number of its
//! values is counted in the text first. Nesting is bounded by the parser.

/// The most values in one message. The largest workflows that people send have some ten thousand.
pub(crate) const MAX_VALUES: usize = 500_000;

/// Returns whether a JSON text has at most [`MAX_VALUES`] values. Other text may have any result.
pub(crate) fn has_bounded_values(text: &[u8]) -> bool {
    let mut values = 1_usize;
    let mut rest = text;
    while let Some(at) = memchr::memchr3(b'"', b',', b'[', rest) {
        let found = rest.get(at).copied();
        rest = rest.get(at + 1..).unwrap_or_default();
        if found == Some(b'"') {
            rest = after_string(rest);
        } else {
            // Every value but the first of an object or array follows a comma; an array may hold nothing but arrays.
            values += 1;
            if values > MAX_VALUES {
                return false;
            }
        }
    }
    true
}

/// Returns what follows a string whose opening quote has been read.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let escaped = usize::from(rest.get(at) == Some(&b'\\'));
        rest = rest.get(at + 1 + escaped..).unwrap_or_default();
        if escaped == 0 {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_strings_are_not_looked_into() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(has_bounded_values(list(MAX_VALUES - 3).as_bytes()));
        assert!(!has_bounded_values(list(MAX_VALUES).as_bytes()));
        let text = format!(r#"{{"prompt":"{}","note":"a \"b\", c"}}"#, ",[".repeat(MAX_VALUES));
        assert!(has_bounded_values(text.as_bytes()));
        let members = format!("{{{}\"z\":0}}", "\"a\":0,".repeat(MAX_VALUES));
        assert!(!has_bounded_values(members.as_bytes()));
        assert!(!has_bounded_values("[[],".repeat(MAX_VALUES).as_bytes()));
    }

    #[test]
    fn any_bytes_end() {
        for text in [&b""[..], b"\"", b"\"\\", b"\"\\\"", b"[", b"\xff\"\xff", b"\\\\\""] {
            assert!(has_bounded_values(text));
        }
    }
}
