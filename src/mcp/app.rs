//! The page that clients with MCP Apps display instead of the JSON of a comparison or a story.
//!
//! The extension `io.modelcontextprotocol/ui` (2026-01-26) has four parts: the capability, `_meta.ui.resourceUri` on a
//! tool, a resource with the media type below, and JSON-RPC between the page and its host through `postMessage`. The
//! page is a single self-contained file: it receives the result of the tool from the host, and requests images
//! (`resources/read`) and the actions of its buttons (`tools/call`) through the host, so it has no more access than the
//! client grants to the server. Clients without the extension ignore all of this.

use rmcp::model::{ExtensionCapabilities, JsonObject, MetaObject, ResourceContents};
use serde_json::{Value, json};

use crate::wire::tools::APP_VIEW;

/// The complete page.
const PAGE: &str = include_str!("assets/app.html");
/// The extension's name in capabilities.
const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The media type that marks a page for hosts.
const MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Returns the capability.
pub(super) fn extension() -> ExtensionCapabilities {
    [(EXTENSION.to_owned(), object(json!({ "mimeTypes": [MIME_TYPE] })))].into()
}

/// Returns the metadata that links a tool to its page. The second key is for hosts before the first stable revision.
pub(super) fn tool_meta(view: &str) -> MetaObject {
    MetaObject(object(json!({
        "ui": { "resourceUri": view, "visibility": ["model", "app"] },
        "ui/resourceUri": view,
    })))
}

/// Returns the page as a resource. It loads nothing, so hosts need not grant it anything.
pub(super) fn page() -> ResourceContents {
    ResourceContents::TextResourceContents {
        uri: APP_VIEW.to_owned(),
        mime_type: Some(MIME_TYPE.to_owned()),
        text: PAGE.to_owned(),
        meta: Some(MetaObject(object(json!({
            "ui": { "csp": { "connectDomains": [], "resourceDomains": [] }, "prefersBorder": false },
        })))),
    }
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing() {
        assert!(PAGE.len() < 40_000, "{}", PAGE.len());
        for outside in
            ["http://", "https://", "src=\"", "import ", "@import", "url(", "fetch(", "XMLHttpRequest", "eval("]
        {
            assert!(!PAGE.contains(outside), "{outside}");
        }
    }
}
