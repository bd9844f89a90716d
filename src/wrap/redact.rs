//! Redaction: removes secrets and large data from arguments and messages before anything is stored.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::base64::{Decoded, decode};

/// The replacement for a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// The minimum length of a text that is checked for base64; shorter ones are kept as they are.
const MIN_BASE64_CHARS: usize = 256;

/// Replaces secrets in a value by [`REDACTED`], and base64 data by the hash of its bytes.
///
/// `extra` lists further arguments to redact, compared without case and separators.
pub(crate) fn value(value: &Value, extra: &[String]) -> Value {
    match value {
        Value::Object(object) => Value::Object(self::object(object, extra)),
        Value::Array(items) => Value::Array(items.iter().map(|item| self::value(item, extra)).collect()),
        Value::String(text) => Value::String(bulky(text).unwrap_or_else(|| self::text(text))),
        other => other.clone(),
    }
}

/// Redacts an object like [`value`], including values whose keys denote a secret.
pub(crate) fn object(object: &Map<String, Value>, extra: &[String]) -> Map<String, Value> {
    let hidden = |key: &str, value: &Value| {
        let secret = is_secret_key(key) || extra.iter().any(|name| normalized(name) == normalized(key));
        // `max_tokens: 512` is a setting, not a secret.
        secret && !matches!(value, Value::Number(_) | Value::Bool(_) | Value::Null)
    };
    let redacted = |(key, value): (&String, &Value)| {
        let value = if hidden(key, value) { Value::String(REDACTED.to_owned()) } else { self::value(value, extra) };
        (key.clone(), value)
    };
    object.iter().map(redacted).collect()
}

/// Redacts texts in the format of a well-known service's key.
pub(crate) fn text(text: &str) -> String {
    SECRET_VALUE.replace_all(text, REDACTED).into_owned()
}

/// Normalises a key for comparison: letters and digits in lower case.
pub(crate) fn normalized(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn is_secret_key(key: &str) -> bool {
    SECRET_KEY.is_match(key)
}

/// Returns a short replacement for a text that is base64 data: its hash, which is also the name of an image in the
/// store.
fn bulky(text: &str) -> Option<String> {
    if text.len() < MIN_BASE64_CHARS {
        return None;
    }
    let Decoded { bytes, .. } = decode(text)?;
    Some(format!("blake3:{} ({} bytes)", blake3::hash(&bytes).to_hex(), bytes.len()))
}

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static SECRET_KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)api[_-]?key|token|secret|passw(or)?d|authorization|credential|bearer|cookie").expect("a pattern")
});

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static SECRET_VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b(sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|xox[a-z]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|ya29\.[A-Za-z0-9_-]{16,})|(?i:bearer) [A-Za-z0-9._~+/-]{16,}=*",
    )
    .expect("a pattern")
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_and_settings_are_not() {
        let before = json!({
            "prompt": "a token on a table", "apiKey": "abc", "nested": {"image_hosting_token": "x", "max_tokens": 5},
            "note": "use sk-abcdefghijklmnopqrstuv please", "mine": "hide me",
        });
        let after = value(&before, &["MINE".to_owned()]);
        assert_eq!(
            after,
            json!({
                "prompt": "a token on a table", "apiKey": REDACTED,
                "nested": {"image_hosting_token": REDACTED, "max_tokens": 5},
                "note": "use [redacted] please", "mine": REDACTED,
            })
        );
    }

    #[test]
    fn data_becomes_its_hash_and_prose_stays() {
        let data = "QUFB".repeat(100);
        let bytes = "AAA".repeat(100);
        let hash = blake3::hash(bytes.as_bytes()).to_hex();
        assert_eq!(value(&json!(data), &[]), json!(format!("blake3:{hash} (300 bytes)")));
        let prose = "a fox in the snow ".repeat(40);
        assert_eq!(value(&json!(prose), &[]), json!(prose));
    }
}
