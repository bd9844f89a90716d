//! Adds the reference of the iteration to the response that completed it. This is the only change ever made to the
//! traffic; all other bytes of the line stay as the server wrote them.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The key of the reference in `_meta` of a result.
pub const META_KEY: &str = "dev.retake/iteration";

/// How the client is informed of the recorded iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Announce {
    /// In `_meta` of the result.
    #[default]
    Meta,
    /// As an additional text block of the result, which every model sees.
    Text,
    /// Not at all: every byte is forwarded unchanged.
    Off,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CallResult<'a> {
    // A key with the value `null` is present and must not be added again.
    #[serde(borrow, default, rename = "_meta", deserialize_with = "present")]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Returns the line with the reference added; `None` if it is not a single successful response, or has no place for it.
pub(crate) fn marked(line: &[u8], reference: &str, how: Announce) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line).ok()?;
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Leave batches unchanged, as well as messages with duplicate keys, which fail to parse here. The bracket is
    // checked because serde also deserialises a struct from a list.
    if !body.trim_start().starts_with('{') {
        return None;
    }
    let result = serde_json::from_str::<Envelope<'_>>(body).ok()?.result?.get();
    if !result.starts_with('{') {
        return None;
    }
    let CallResult { meta, content } = serde_json::from_str(result).ok()?;
    let (place, addition) = match how {
        Announce::Off => return None,
        Announce::Meta => {
            let entry = format!("\"{META_KEY}\":{{\"reference\":\"{reference}\"}}");
            match meta {
                Some(meta) => (after_opening(text, meta.get(), '{')?, entry + comma(meta.get(), '{')?),
                None => (after_opening(text, result, '{')?, format!("\"_meta\":{{{entry}}}{}", comma(result, '{')?)),
            }
        }
        Announce::Text => {
            let content = content?.get();
            let separator = if comma(content, '[')?.is_empty() { "" } else { "," };
            let block = format!("{separator}{{\"type\":\"text\",\"text\":\"Recorded by Retake as {reference}\"}}");
            (offset(text, content)? + content.rfind(']')?, block)
        }
    };
    let (before, after) = line.split_at_checked(place)?;
    Some([before, addition.as_bytes(), after].concat())
}

/// Returns the position in the text after the opening bracket of the part.
fn after_opening(text: &str, part: &str, bracket: char) -> Option<usize> {
    part.starts_with(bracket).then_some(offset(text, part)? + 1)
}

/// Returns the separator between a new first element and the existing ones.
fn comma(part: &str, bracket: char) -> Option<&'static str> {
    let rest = part.strip_prefix(bracket)?.trim_start();
    Some(if rest.starts_with(['}', ']']) { "" } else { "," })
}

/// Returns the offset of a part in the text.
fn offset(text: &str, part: &str) -> Option<usize> {
    (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize).filter(|start| start + part.len() <= text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mark(line: &str, how: Announce) -> Option<String> {
        marked(line.as_bytes(), "session-2026-11-17-001#0", how).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn only_the_reference_is_added() {
        let entry = r#""dev.retake/iteration":{"reference":"session-2026-11-17-001#0"}"#;
        for (line, expected) in [
            (
                "{ \"result\" : {\"content\":[] , \"n\": 1.0e5},\"id\":1 }\r\n",
                format!("{{ \"result\" : {{\"_meta\":{{{entry}}},\"content\":[] , \"n\": 1.0e5}},\"id\":1 }}\r\n"),
            ),
            (r#"{"id":1,"result":{}}"#, format!(r#"{{"id":1,"result":{{"_meta":{{{entry}}}}}}}"#)),
            (
                r#"{"id":1,"result":{"a":1,"_meta":{"x":2}}}"#,
                format!(r#"{{"id":1,"result":{{"a":1,"_meta":{{{entry},"x":2}}}}}}"#),
            ),
            (r#"{"result":{"_meta":{ }},"id":1}"#, format!(r#"{{"result":{{"_meta":{{{entry} }}}},"id":1}}"#)),
        ] {
            assert_eq!(mark(line, Announce::Meta).as_deref(), Some(expected.as_str()));
        }
    }

    #[test]
    fn a_text_block_is_added_at_the_end() {
        let line = r#"{"id":1,"result":{"content":[{"type":"text","text":"a ] b"}],"x":[1]}}"#;
        let value: Value = serde_json::from_str(&mark(line, Announce::Text).unwrap()).unwrap();
        assert_eq!(value["result"]["content"][1]["text"], "Recorded by Retake as session-2026-11-17-001#0");
        assert_eq!(value["result"]["x"], json!([1]));
        let empty = mark(r#"{"id":1,"result":{"content":[]}}"#, Announce::Text).unwrap();
        assert!(serde_json::from_str::<Value>(&empty).is_ok(), "{empty}");
    }

    #[test]
    fn responses_without_room_for_a_mark_are_unchanged() {
        for line in [
            r#"{"id":1,"error":{"code":1,"message":"no"}}"#,
            r#"[{"id":1,"result":{}}]"#,
            r#"{"id":1,"result":"text"}"#,
            r#"{"id":1,"result":{"_meta":null}}"#,
            r#"{"id":1,"result":{"_meta":{},"_meta":{}}}"#,
            r#"{"id":1,"result":{}"#,
            "Starting server",
        ] {
            assert_eq!(mark(line, Announce::Meta), None, "{line}");
        }
        assert_eq!(mark(r#"{"id":1,"result":{}}"#, Announce::Off), None);
        assert_eq!(mark(r#"{"id":1,"result":{}}"#, Announce::Text), None);
    }
}
