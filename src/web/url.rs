//! Percent-encoding of URL components.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text as one component of a URL.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes a component of a URL; malformed escapes stay as they are.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_survives_the_way_to_the_browser_and_back() {
        assert_eq!(encode("a+b c/é~-._"), "a%2Bb%20c%2F%C3%A9~-._");
        for text in ["", "a+b c/é~-._", "%", "100%25", "?&=#\u{0}\n"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }

    #[test]
    fn malformed_escapes_do_not_match_anything_else() {
        assert_eq!(decode("%"), "%");
        assert_eq!(decode("%zzx"), "%zzx");
        assert_eq!(decode("%ff"), "\u{fffd}");
    }
}
