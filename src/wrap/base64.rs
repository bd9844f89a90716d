//! Lenient base64: padded or not, in either alphabet, with line breaks, or as a data URL.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Decoded data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Whether it was a data URL.
    pub(crate) is_data_url: bool,
}

/// Decodes a text that is entirely base64.
pub(crate) fn decode(text: &str) -> Option<Decoded> {
    let (data, is_data_url) = match text.trim_start().strip_prefix("data:") {
        Some(url) => (url.split_once(";base64,")?.1, true),
        None => (text, false),
    };
    let plausible = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte);
    if data.is_empty() || !data.trim().bytes().all(plausible) {
        return None;
    }
    let digits: Vec<u8> = data.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let url_safe = digits.contains(&b'-') || digits.contains(&b'_');
    let alphabet = if url_safe { alphabet::URL_SAFE } else { alphabet::STANDARD };
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let bytes = GeneralPurpose::new(&alphabet, config).decode(digits).ok()?;
    Some(Decoded { bytes, is_data_url })
}

/// Serialises bytes as base64 in JSON.
pub(crate) mod text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Serialises bytes.
    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    /// Deserialises bytes.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_base64_is_decoded() {
        assert_eq!(decode("aGk=").unwrap().bytes, b"hi");
        assert_eq!(decode("aG\r\nk").unwrap().bytes, b"hi");
        assert!(decode("data:image/png;base64,aGk=").unwrap().is_data_url);
        for text in ["", "a fox", "aGk=...", "data:image/png,abc", "aGkx…"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
