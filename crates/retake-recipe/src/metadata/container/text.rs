//! Decodes text the way tools write it, which is not always what the formats specify.

use super::bytes::ByteOrder;

/// The number of code units of a comment that are inspected to detect its byte order.
const LOOK_AT_UNITS: usize = 200;

/// Decodes UTF-8 if it is valid, and Latin-1 otherwise. PNG specifies Latin-1 for `tEXt`, but some tools write UTF-8;
/// Latin-1 text with an accent is practically never valid UTF-8.
pub(super) fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Decodes a text without trailing NULs, or leading ones that some writers add.
pub(super) fn ascii(bytes: &[u8]) -> String {
    decode(trim_nul(bytes))
}

/// Decodes EXIF's UserComment, which should start with the name of its encoding.
pub(super) fn user_comment(bytes: &[u8], order: ByteOrder) -> String {
    if let Some(text) = bytes.strip_prefix(b"UNICODE\0") {
        unicode(text, order)
    } else if let Some(text) = bytes.strip_prefix(b"ASCII\0\0\0").or_else(|| bytes.strip_prefix(b"\0\0\0\0\0\0\0\0")) {
        ascii(text)
    } else if looks_wide(bytes).is_some() {
        unicode(bytes, order)
    } else {
        ascii(bytes)
    }
}

/// Decodes little-endian UTF-16, as in the XP tags of Windows.
pub(super) fn utf16_le(bytes: &[u8]) -> String {
    wide(bytes, ByteOrder::Little)
}

/// Decodes big-endian UTF-16.
pub(super) fn utf16_be(bytes: &[u8]) -> String {
    wide(bytes, ByteOrder::Big)
}

/// Decodes a "UNICODE" comment: UTF-16 in the order of a byte order mark, or else in the order indicated by the zero
/// bytes of Latin letters, since the order of the directory is often wrong. Without zero bytes, it may be UTF-8, as in
/// Exif 3.0.
fn unicode(bytes: &[u8], order: ByteOrder) -> String {
    if let Some(text) = bytes.strip_prefix(b"\xff\xfe") {
        return wide(text, ByteOrder::Little);
    }
    if let Some(text) = bytes.strip_prefix(b"\xfe\xff") {
        return wide(text, ByteOrder::Big);
    }
    if let Some(seen) = looks_wide(bytes) {
        return wide(bytes, seen.unwrap_or(order));
    }
    match std::str::from_utf8(trim_nul(bytes)) {
        Ok(text) => text.to_owned(),
        Err(_) => wide(bytes, order),
    }
}

/// Returns whether there are zero bytes as in UTF-16, and which order they indicate, if any.
fn looks_wide(bytes: &[u8]) -> Option<Option<ByteOrder>> {
    let (mut first, mut second) = (0usize, 0usize);
    for pair in trim_nul_units(bytes).chunks_exact(2).take(LOOK_AT_UNITS) {
        match pair {
            [0, 0] => {}
            [0, _] => first += 1,
            [_, 0] => second += 1,
            _ => {}
        }
    }
    match first.cmp(&second) {
        std::cmp::Ordering::Greater => Some(Some(ByteOrder::Big)),
        std::cmp::Ordering::Less => Some(Some(ByteOrder::Little)),
        std::cmp::Ordering::Equal if first > 0 => Some(None),
        std::cmp::Ordering::Equal => None,
    }
}

fn wide(bytes: &[u8], order: ByteOrder) -> String {
    let units = bytes.chunks_exact(2).map(|pair| match (pair, order) {
        ([high, low], ByteOrder::Big) | ([low, high], ByteOrder::Little) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    });
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.trim_matches('\0').to_owned()
}

fn trim_nul(mut bytes: &[u8]) -> &[u8] {
    while let [0, rest @ ..] | [rest @ .., 0] = bytes {
        bytes = rest;
    }
    bytes
}

/// Returns whole code units without the NULs at the end.
fn trim_nul_units(mut bytes: &[u8]) -> &[u8] {
    if !bytes.len().is_multiple_of(2) {
        bytes = bytes.split_last().map_or(bytes, |(_, rest)| rest);
    }
    while let [rest @ .., 0, 0] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, order: ByteOrder) -> Vec<u8> {
        let bytes = |unit: u16| if order == ByteOrder::Big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn comment(prefix: &[u8], body: &[u8], order: ByteOrder) -> String {
        user_comment(&[prefix, body].concat(), order)
    }

    #[test]
    fn the_byte_order_of_a_comment_is_detected() {
        let text = "a cat, 猫と зима\nSteps: 20";
        for written in [ByteOrder::Big, ByteOrder::Little] {
            for directory in [ByteOrder::Big, ByteOrder::Little] {
                assert_eq!(comment(b"UNICODE\0", &utf16(text, written), directory), text);
            }
        }
        assert_eq!(
            comment(b"UNICODE\0", &[b"\xff\xfe".to_vec(), utf16("猫", ByteOrder::Little)].concat(), ByteOrder::Big),
            "猫"
        );
        assert_eq!(comment(b"UNICODE\0", &utf16("猫犬", ByteOrder::Big), ByteOrder::Big), "猫犬");
        assert_eq!(comment(b"UNICODE\0", text.as_bytes(), ByteOrder::Big), text, "Exif 3.0: UTF-8");
        assert_eq!(comment(b"UNICODE\0", &[utf16(text, ByteOrder::Big), vec![0, 0, 0]].concat(), ByteOrder::Big), text);
        assert_eq!(comment(b"", &utf16(text, ByteOrder::Big), ByteOrder::Little), text, "no prefix at all");
    }

    #[test]
    fn narrow_comments() {
        assert_eq!(comment(b"ASCII\0\0\0", "{\"c\":\"猫\"}\0".as_bytes(), ByteOrder::Big), "{\"c\":\"猫\"}");
        assert_eq!(comment(b"", b"{\"prompt\": {}}\0", ByteOrder::Little), "{\"prompt\": {}}");
        assert_eq!(comment(b"\0\0\0\0\0\0\0\0", b"text", ByteOrder::Little), "text");
        assert_eq!(comment(b"", b"", ByteOrder::Little), "");
        assert_eq!(comment(b"UNICODE\0", b"", ByteOrder::Little), "");
    }

    #[test]
    fn latin_1_is_used_only_if_it_is_not_utf_8() {
        assert_eq!(decode("テスト".as_bytes()), "テスト");
        assert_eq!(decode(b"caf\xe9"), "café");
    }
}
