//! Bounds on JSON before it is parsed: a tree takes up to a hundred times the memory of its text, so the number of its
//! values is counted in the text first. Nesting is bounded by the parser.

/// The most values in one message. The largest workflows that people send have some ten thousand.
pub(crate) const MAX_VALUES: usize = 500_000;

/// The deepest nesting that the parser accepts.
const MAX_DEPTH: usize = 128;

/// Returns whether a JSON text can be parsed in bounded memory: it has at most [`MAX_VALUES`] values, or is nested so
/// deeply that the parser stops before it has read that many.
pub(crate) fn has_bounded_values(text: &[u8]) -> bool {
    let (mut values, mut depth) = (1_usize, 0_usize);
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'"' => rest = after_string(rest),
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if values > MAX_VALUES {
            return false;
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
        assert!(!has_bounded_values(format!("[{}0]", "[],".repeat(MAX_VALUES)).as_bytes()));
        assert!(has_bounded_values("[".repeat(10 * MAX_VALUES).as_bytes()), "left to the parser, which stops at once");
    }

    #[test]
    fn any_bytes_end() {
        for text in [&b""[..], b"\"", b"\"\\", b"\"\\\"", b"[", b"\xff\"\xff", b"\\\\\""] {
            assert!(has_bounded_values(text));
        }
    }
}
