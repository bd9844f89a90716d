//! Lenient JSON: with NaN and Infinity, with NULs after it or a byte order mark before it.

use serde_json::Value;

/// Parses a text that is an object or a list as a whole.
pub(super) fn parse(text: &str) -> Option<Value> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\0' | '\u{feff}'));
    if !text.starts_with(['{', '[']) {
        return None;
    }
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(_) => serde_json::from_str(&without_nan(text)?).ok(),
    }
}

/// Returns a string, or the digits of a number.
pub(super) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        _ => None,
    }
}

/// Replaces the NaN and Infinity that Python's `json.dumps` writes, which are not JSON, by `null` outside of strings.
fn without_nan(text: &str) -> Option<String> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return None;
    }
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !quoted && rest.starts_with(word));
        if let Some(word) = word {
            changed.push_str("null");
            rest = rest.strip_prefix(word)?;
            continue;
        }
        let mut next = rest.chars();
        next.next();
        changed.push(c);
        match c {
            '\\' if quoted => changed.extend(next.next()),
            '"' => quoted = !quoted,
            _ => {}
        }
        rest = next.as_str();
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_json_as_python_writes_it() {
        let value = parse("\u{feff}{\"a\": [NaN, -Infinity, \"say \\\"NaN\\\"\"], \"seed\": 18446744073709551615}\0\0")
            .unwrap();
        assert_eq!(value.to_string(), r#"{"a":[null,null,"say \"NaN\""],"seed":18446744073709551615}"#);
        assert_eq!(parse("NaN"), None);
        assert_eq!(parse("a cat, {masterpiece}"), None);
        assert_eq!(parse("{\"a\": 1} and more"), None);
    }

    #[test]
    fn depth_is_refused_and_does_not_overflow() {
        assert_eq!(parse(&"[".repeat(5_000_000)), None);
        assert_eq!(parse(&"[NaN,".repeat(1_000_000)), None);
    }
}
