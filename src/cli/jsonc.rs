//! Edits JSON with comments and trailing commas, as VS Code and Cursor write it, without touching the rest of the file.
//!
//! A full parser that preserves comments was considered, but only one member of one object is ever set or removed,
//! which only requires locating it. [`blanked`] replaces everything that plain JSON does not allow by spaces, so that
//! offsets stay the same.

use std::ops::Range;

use serde_json::Value;

/// Replaces comments and trailing commas by spaces of the same length.
pub(super) fn blanked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    // A comma that ends a value, as long as nothing follows it; and the last byte that is neither space nor comment.
    let (mut comma, mut last) = (None, b'{');
    while let Some(byte) = bytes.get(at).copied() {
        match byte {
            b'"' => {
                at = string_end(&bytes, at);
                (comma, last) = (None, b'"');
                continue;
            }
            b'/' if matches!(bytes.get(at + 1), Some(b'/' | b'*')) => {
                let end = comment_end(&bytes, at);
                bytes
                    .iter_mut()
                    .take(end)
                    .skip(at)
                    .filter(|byte| !byte.is_ascii_whitespace())
                    .for_each(|byte| *byte = b' ');
                at = end;
                continue;
            }
            b',' => comma = (!matches!(last, b'{' | b'[' | b',' | b':')).then_some(at),
            b'}' | b']' => {
                if let Some(comma) = comma.take().and_then(|comma| bytes.get_mut(comma)) {
                    *comma = b' ';
                }
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => comma = None,
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
        at += 1;
    }
    // Only whole comments and single commas were replaced, so this is still valid UTF-8.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Returns the text with a member of an object in the root set to a value; `None` if the text does not have that
/// structure. The text must parse after [`blanked`].
pub(super) fn set(text: &str, object: &str, name: &str, value: &Value, indent: &str) -> Option<String> {
    let plain = blanked(text);
    let root = plain.find('{')?;
    let Some(outer) = member(&plain, root, object) else {
        let inner = serde_json::json!({ name: value });
        return insert(text, &plain, root, object, &pretty(&inner, indent, 1)?, indent, 1);
    };
    if plain.as_bytes().get(outer.value.start) != Some(&b'{') {
        return None;
    }
    match member(&plain, outer.value.start, name) {
        Some(found) => {
            let mut edited = text.to_owned();
            edited.replace_range(found.value, &pretty(value, indent, 2)?);
            Some(edited)
        }
        None => insert(text, &plain, outer.value.start, name, &pretty(value, indent, 2)?, indent, 2),
    }
}

/// Returns the text without a member of an object in the root; `None` if it does not exist.
pub(super) fn remove(text: &str, object: &str, name: &str) -> Option<String> {
    let plain = blanked(text);
    let outer = member(&plain, plain.find('{')?, object)?;
    let found = member(&plain, outer.value.start, name)?;
    let bytes = text.as_bytes();
    let next = skip_blank(bytes, found.value.end);
    let mut edited = text.to_owned();
    if bytes.get(next) == Some(&b',') {
        // Remove it with the comma after it, and the line it starts on.
        let line = text.get(..found.key).and_then(|before| before.rfind('\n')).map_or(found.key, |at| at + 1);
        let start = if text.get(line..found.key)?.trim().is_empty() { line } else { found.key };
        let after = text.get(next + 1..)?;
        let rest =
            after.len() - after.trim_start_matches([' ', '\t']).trim_start_matches('\r').trim_start_matches('\n').len();
        edited.replace_range(start..next + 1 + if start == line { rest } else { 0 }, "");
    } else {
        // The last member: remove it with the comma before it, but keep a comment between the two.
        let start = text.get(..found.key).map_or(found.key, |before| before.trim_end().len());
        edited.replace_range(start..found.value.end, "");
        let before = plain.get(..found.key)?.trim_end();
        if before.ends_with(',') {
            edited.remove(before.len() - 1);
        }
    }
    Some(edited)
}

/// The positions of a member of an object: the start of its key, and the range of its value.
struct Member {
    key: usize,
    value: Range<usize>,
}

/// Finds a member of the object that starts at `object`.
fn member(plain: &str, object: usize, name: &str) -> Option<Member> {
    members(plain, object).into_iter().find(|(key, _)| key == name).map(|(_, member)| member)
}

/// Returns all members of an object with their names.
fn members(plain: &str, object: usize) -> Vec<(String, Member)> {
    let bytes = plain.as_bytes();
    let mut found = Vec::new();
    let mut at = object + 1;
    loop {
        at = skip_white(bytes, at);
        if bytes.get(at) != Some(&b'"') {
            return found;
        }
        let end = string_end(bytes, at);
        let key = plain.get(at..end).and_then(|key| serde_json::from_str(key).ok()).unwrap_or_default();
        // Skip the colon.
        let start = skip_white(bytes, skip_white(bytes, end) + 1);
        let value_end = value_end(bytes, start);
        found.push((key, Member { key: at, value: start..value_end }));
        at = skip_white(bytes, value_end);
        if bytes.get(at) == Some(&b',') {
            at += 1;
        }
    }
}

/// Adds a member at the end of an object.
fn insert(
    text: &str,
    plain: &str,
    object: usize,
    name: &str,
    value: &str,
    indent: &str,
    depth: usize,
) -> Option<String> {
    let key = serde_json::to_string(name).ok()?;
    let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let member = format!("{line}{}{key}: {value}", indent.repeat(depth));
    let mut edited = text.to_owned();
    match members(plain, object).last() {
        Some((_, last)) => {
            let next = skip_blank(text.as_bytes(), last.value.end);
            let has_comma = text.as_bytes().get(next) == Some(&b',');
            let after = if has_comma { next + 1 } else { last.value.end };
            edited.insert_str(after_comment(text, after), &member);
            if !has_comma {
                edited.insert(last.value.end, ',');
            }
        }
        None => {
            let close = skip_white(plain.as_bytes(), object + 1);
            let end = format!("{member}{line}{}", indent.repeat(depth - 1));
            // Comments between the braces stay before the new member.
            let inside = text.get(object + 1..close)?.trim_end().len() + object + 1;
            edited.replace_range(inside..close, &end);
        }
    }
    Some(edited)
}

/// Returns the end of a comment that follows `at` on the same line, so that it stays with the text before it; otherwise
/// `at`.
fn after_comment(text: &str, at: usize) -> usize {
    let line = text.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    if line.trim_start().starts_with("//") { at + line.len() } else { at }
}

/// Formats a value with this indentation, for a position at this depth.
fn pretty(value: &Value, indent: &str, depth: usize) -> Option<String> {
    let mut written = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut written, formatter);
    serde::Serialize::serialize(value, &mut serializer).ok()?;
    let written = String::from_utf8(written).ok()?;
    Some(written.replace('\n', &format!("\n{}", indent.repeat(depth))))
}

fn value_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' if depth == 0 => return at,
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Returns the end of the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn comment_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start + 2..).unwrap_or_default();
    let length = if bytes.get(start + 1) == Some(&b'/') {
        rest.iter().position(|byte| *byte == b'\n')
    } else {
        rest.windows(2).position(|pair| pair == b"*/").map(|at| at + 2)
    };
    length.map_or(bytes.len(), |length| start + 2 + length)
}

fn skip_white(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Skips white space and comments.
fn skip_blank(bytes: &[u8], start: usize) -> usize {
    let mut at = skip_white(bytes, start);
    while bytes.get(at) == Some(&b'/') && matches!(bytes.get(at + 1), Some(b'/' | b'*')) {
        at = skip_white(bytes, comment_end(bytes, at));
    }
    at
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "{\n  // mine\n  \"servers\": {\n    \"other\": { \"command\": \"x\" }, // \"kept\": {,}\n  },\n  /* end */\n}\n";

    fn parsed(text: &str) -> Value {
        serde_json::from_str(&blanked(text)).unwrap()
    }

    #[test]
    fn comments_and_trailing_commas_are_not_json() {
        let plain = blanked(FILE);
        assert_eq!(plain.len(), FILE.len());
        assert_eq!(parsed(FILE), json!({ "servers": { "other": { "command": "x" } } }));
        assert_eq!(parsed("{\"a\": \"// no \\\" comment,}\"}"), json!({ "a": "// no \" comment,}" }));
    }

    #[test]
    fn a_comma_without_a_value_stays_an_error() {
        for text in ["{,}", "{ \"servers\": {,} }", "[1,,]", "{\"a\": ,}"] {
            assert!(serde_json::from_str::<Value>(&blanked(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_member_is_set_and_removed_and_the_rest_stays() {
        let value = json!({ "command": "retake" });
        let added = set(FILE, "servers", "retake", &value, "  ").unwrap();
        assert_eq!(parsed(&added)["servers"]["retake"], value);
        for kept in ["// mine", "// \"kept\": {,}", "/* end */", "\"other\": { \"command\": \"x\" },"] {
            assert!(added.contains(kept), "{kept} in {added}");
        }
        assert!(added.contains("\"x\" }, // \"kept\": {,}\n    \"retake\""), "a comment stays on its line: {added}");
        let other = json!({ "command": "/bin/retake" });
        let changed = set(&added, "servers", "retake", &other, "  ").unwrap();
        assert_eq!(parsed(&changed)["servers"]["retake"], other);
        let removed = remove(&changed, "servers", "retake").unwrap();
        assert_eq!(parsed(&removed), parsed(FILE));
        assert!(removed.contains("// mine") && removed.contains("// \"kept\": {,}"), "{removed}");
        assert_eq!(remove(FILE, "servers", "retake"), None);
    }

    #[test]
    fn every_shape_of_object_takes_a_member() {
        for text in
            ["{}", "{ // mine\n}", "{\"a\": 1}", "{\"a\": 1,}", "{\n\t\"servers\": {}\n}", "{\"servers\": {/* x */}}"]
        {
            let edited = set(text, "servers", "retake", &json!({ "command": "x" }), "\t").unwrap();
            assert_eq!(parsed(&edited)["servers"]["retake"]["command"], "x", "{edited}");
            let removed = remove(&edited, "servers", "retake").unwrap();
            assert_eq!(parsed(&removed)["servers"], json!({}), "{removed}");
        }
        let both = "{\"servers\": {\"retake\": {}, \"b\": 1}}";
        assert_eq!(parsed(&remove(both, "servers", "retake").unwrap()), json!({ "servers": { "b": 1 } }));
        assert_eq!(set("{\"servers\": []}", "servers", "a", &json!(1), "  "), None);
    }
}
