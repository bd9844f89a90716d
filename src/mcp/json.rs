//! Limits JSON before it is parsed: a tree takes up to a hundred times the memory of its text, so its values are
//! counted in the text first. The parser limits the nesting depth.

use rmcp::model::RequestId;

/// The maximum number of values in one message. The largest workflows in practice have some ten thousand.
pub(crate) const MAX_VALUES: usize = 500_000;

/// The maximum nesting depth that the parser accepts.
const MAX_DEPTH: usize = 128;

/// Returns whether a JSON text can be parsed in bounded memory: it has at most [`MAX_VALUES`] values, or its nesting
/// makes the parser fail before it has read that many.
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

/// Returns the id of a request that cannot be parsed, such as one with a lone surrogate or deep nesting, so that its
/// sender need not wait for a timeout. Only searches the outermost object.
pub(crate) fn request_id(text: &[u8]) -> Option<RequestId> {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'"' => {
                let behind = after_string(after);
                if depth == 1 && after.starts_with(b"id\"") {
                    let value = behind.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
                    return value.and_then(leading_id);
                }
                rest = behind;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Parses a string or a number at the beginning of a text.
fn leading_id(value: &[u8]) -> Option<RequestId> {
    let end = match value.first()? {
        b'"' => value.len() - after_string(value.get(1..)?).len(),
        _ => value.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-').unwrap_or(value.len()),
    };
    serde_json::from_slice(value.get(..end)?).ok()
}

/// Returns the text after a string whose opening quote has been consumed.
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
    fn the_id_of_a_broken_request_is_read() {
        let id = |text: &str| request_id(text.as_bytes());
        assert_eq!(id(r#"{"id": 7, "params": {"#), Some(RequestId::Number(7)));
        assert_eq!(id(r#"{"params":{"id":1,"s":"\ud83d \" id"},"id":"a\"b"}"#), Some(RequestId::String("a\"b".into())));
        for text in ["", "[", r#"{"params":{"id":1"#, r#"{"id":{}}"#, r#"{"id""#, r#"{"id":"unclosed"#, r#"["id",7]"#] {
            assert_eq!(id(text), None, "{text}");
        }
    }

    #[test]
    fn any_input_is_handled() {
        for text in [&b""[..], b"\"", b"\"\\", b"\"\\\"", b"[", b"\xff\"\xff", b"\\\\\""] {
            assert!(has_bounded_values(text));
        }
    }
}
