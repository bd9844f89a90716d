//! The icon that clients show, as a bitmap that all of them can read and as a scalable image.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::Icon;

const PNG: &[u8] = include_bytes!("assets/icon.png");
const SVG: &[u8] = include_bytes!("assets/icon.svg");

/// Returns the icons as data URLs, since there is no server to fetch them from.
pub(super) fn all() -> Vec<Icon> {
    let icon = |bytes: &[u8], mime_type: &str, size: &str| {
        Icon::new(format!("data:{mime_type};base64,{}", STANDARD.encode(bytes)))
            .with_mime_type(mime_type)
            .with_sizes(vec![size.to_owned()])
    };
    vec![icon(PNG, "image/png", "64x64"), icon(SVG, "image/svg+xml", "any")]
}
