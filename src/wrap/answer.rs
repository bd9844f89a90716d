//! Parses the result of a call: its texts, the JSON in them, images, and the locations of images.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::base64::decode;
use super::redact::normalized;

/// The parts of a call's result.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolAnswer {
    /// All text blocks, and the message of a JSON-RPC error.
    pub(crate) texts: Vec<String>,
    /// All JSON values: the structured content, and texts that are or contain JSON.
    pub(crate) values: Vec<Value>,
    /// Images embedded in the result, in order.
    pub(crate) inline: Vec<Vec<u8>>,
    /// Possible file paths, most significant first, without duplicates.
    pub(crate) paths: Vec<String>,
    /// Directories mentioned in the result, which may contain files given by bare names.
    pub(crate) dirs: Vec<String>,
    /// URLs of images.
    pub(crate) urls: Vec<String>,
    /// Resources that the client can read.
    pub(crate) links: Vec<String>,
    /// Whether the result, or a block in it, is flagged as an error, or the call ended in a JSON-RPC error.
    pub(crate) is_error: bool,
    /// The MCP task that the call became.
    pub(crate) task: Option<String>,
}

/// The minimum length of a base64 text that can be an image.
const MIN_IMAGE_CHARS: usize = 64;
/// The maximum depth at which JSON inside JSON strings is parsed.
const MAX_NESTING: usize = 4;

impl ToolAnswer {
    /// Parses a result.
    pub(crate) fn read(result: &Result<Value, Value>) -> ToolAnswer {
        let mut answer = ToolAnswer::default();
        match result {
            Ok(result) => answer.result(result),
            Err(error) => {
                answer.is_error = true;
                let message = error.get("message").and_then(Value::as_str).unwrap_or("the server gave no reason");
                answer.text(message);
            }
        }
        answer.collect();
        answer
    }

    /// Returns the first value with one of these keys, preferring the structured content. Keys are compared without
    /// case and separators, at any depth.
    pub(crate) fn find(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|key| self.values.iter().find_map(|value| find(value, key, 0)))
    }

    /// Returns all texts joined.
    pub(crate) fn text_joined(&self) -> String {
        self.texts.join("\n")
    }

    fn result(&mut self, result: &Value) {
        self.is_error = result.get("isError") == Some(&Value::Bool(true));
        self.task = result.pointer("/task/taskId").and_then(Value::as_str).map(str::to_owned);
        if let Some(structured) = result.get("structuredContent") {
            self.value(structured.clone(), 0);
        }
        for blocks in ["content", "contents"] {
            for block in result.get(blocks).and_then(Value::as_array).into_iter().flatten() {
                self.block(block);
            }
        }
    }

    fn block(&mut self, block: &Value) {
        self.is_error |= block.get("isError") == Some(&Value::Bool(true));
        let text = |key: &str| block.get(key).and_then(Value::as_str);
        match text("type") {
            Some("image") => {
                self.inline.extend(text("data").and_then(decode).map(|decoded| decoded.bytes));
                if let Some(metadata) = block.get("metadata") {
                    self.value(metadata.clone(), 0);
                }
            }
            Some("resource_link") => self.links.extend(text("uri").map(str::to_owned)),
            Some("resource") => {
                if let Some(resource) = block.get("resource") {
                    self.resource(resource);
                }
            }
            _ if block.get("uri").is_some() => self.resource(block),
            _ => {
                if let Some(text) = text("text") {
                    self.text(text);
                }
            }
        }
    }

    fn resource(&mut self, resource: &Value) {
        let text = |key: &str| resource.get(key).and_then(Value::as_str);
        if let Some(bytes) = text("blob").and_then(decode) {
            self.inline.push(bytes.bytes);
        } else if let Some(uri) = text("uri") {
            self.place(uri, true);
        }
        if let Some(text) = text("text") {
            self.text(text);
        }
    }

    fn text(&mut self, text: &str) {
        // Some servers send only the base64 of the image as text.
        if text.len() >= MIN_IMAGE_CHARS
            && !text.trim_start().starts_with(['/', '.', '~', '{', '['])
            && let Some(decoded) = decode(text)
            && crate::images::Header::of(&decoded.bytes).width.is_some()
        {
            self.inline.push(decoded.bytes);
            return;
        }
        self.texts.push(text.to_owned());
        if let Some(value) = json_in(text) {
            self.value(value, 0);
        }
    }

    /// Adds a JSON value, with JSON in its strings parsed.
    fn value(&mut self, value: Value, depth: usize) {
        if depth < MAX_NESTING {
            let nested = |text: &str| text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten();
            let mut inner = Vec::new();
            strings(&value, &mut |_, text| inner.extend(nested(text)));
            self.values.push(value);
            for value in inner {
                self.value(value, depth + 1);
            }
        } else {
            self.values.push(value);
        }
    }

    /// Collects images and locations from all values and texts.
    fn collect(&mut self) {
        let values = std::mem::take(&mut self.values);
        for value in &values {
            strings(value, &mut |key, text| self.string(key, text));
        }
        self.values = values;
        for text in std::mem::take(&mut self.texts) {
            // A text that is JSON has been searched already, with its keys.
            if !text.trim_start().starts_with(['{', '[']) || serde_json::from_str::<Value>(&text).is_err() {
                self.prose(&text);
            }
            self.texts.push(text);
        }
        unique(&mut self.paths);
        unique(&mut self.urls);
        unique(&mut self.links);
        let mut seen = BTreeSet::new();
        self.inline.retain(|bytes| seen.insert(blake3::hash(bytes).to_hex()));
    }

    fn string(&mut self, key: &str, text: &str) {
        let key = normalized(key);
        if text.len() >= MIN_IMAGE_CHARS
            && !text.starts_with(['/', '.', '~'])
            && let Some(decoded) = decode(text)
            && crate::images::Header::of(&decoded.bytes).width.is_some()
        {
            self.inline.push(decoded.bytes);
            return;
        }
        let is_dir = ["dir", "folder", "directory"].iter().any(|word| key.contains(word));
        if is_dir && text.len() < 4096 && !text.contains('\n') {
            self.dirs.push(text.to_owned());
        }
        let telling = ["path", "file", "saved", "uri", "output", "image", "location", "url", "result", "asset"];
        let is_input =
            ["input", "source", "original", "reference", "mask", "template"].iter().any(|it| key.contains(it));
        if telling.iter().any(|word| key.contains(word)) && !is_input {
            if !text.contains('\n') && text.len() < 4096 {
                self.place(text, false);
            } else {
                self.prose(text);
            }
        } else if !is_input && IMAGE_NAME.is_match(text) {
            self.prose(text);
        }
    }

    fn place(&mut self, text: &str, is_resource: bool) {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            if is_resource {
                self.links.push(text.to_owned());
            }
            self.urls.push(text.to_owned());
        } else if let Some(path) = from_file_uri(text) {
            self.paths.push(path);
        } else if text.contains("://") {
            self.links.push(text.to_owned());
        } else if !text.is_empty() && !text.starts_with("data:") {
            self.paths.push(text.to_owned());
        }
    }

    /// Finds images and locations in prose.
    fn prose(&mut self, text: &str) {
        for data in DATA_URL.find_iter(text) {
            self.inline.extend(decode(data.as_str()).map(|decoded| decoded.bytes));
        }
        if is_lone_address(text.trim()) {
            self.urls.push(text.trim().to_owned());
            return;
        }
        for url in WEB_URL.find_iter(text) {
            self.urls.push(url.as_str().trim_end_matches(['.', ',', ';', ':', '!', '*', '`']).to_owned());
        }
        for line in text.lines() {
            // A line that names the source image: `Original: /a/b.png`.
            if INPUT_LABEL.is_match(line) {
                continue;
            }
            self.line(line);
        }
        let whole = text.trim();
        if !whole.contains('\n') && whole.len() < 1024 && whole.starts_with(['/', '~']) {
            self.paths.push(whole.to_owned());
        }
    }

    fn line(&mut self, line: &str) {
        for uri in FILE_URI.find_iter(line) {
            self.paths.extend(from_file_uri(uri.as_str()));
        }
        let line = WEB_URL.replace_all(line, " ");
        let line = FILE_URI.replace_all(&line, " ");
        for quoted in QUOTED.captures_iter(&line) {
            let inner = quoted.iter().skip(1).flatten().next().map(|inner| inner.as_str());
            self.paths.extend(inner.map(str::to_owned));
        }
        // Paths with spaces: from the start of a path to the extension, after splitting lists at commas.
        for found in SPACED.find_iter(&line) {
            let parts: Vec<&str> = LIST_COMMA.split(found.as_str()).collect();
            self.paths.extend(parts.iter().map(|part| part.trim().to_owned()));
            self.paths.push(found.as_str().trim().to_owned());
        }
        let bare = BULLET.replace(line.trim(), "");
        let after_label = bare.rsplit_once(": ").map_or(bare.as_ref(), |(_, rest)| rest);
        for part in LIST_COMMA.split(after_label) {
            let part = part.trim().trim_matches(['`', '\'', '"', '*']);
            if IMAGE_NAME.is_match(part) {
                self.paths.push(part.to_owned());
            }
        }
        for found in BARE.find_iter(&line) {
            self.paths.push(found.as_str().to_owned());
        }
    }
}

/// Returns whether a text consists only of a URL. The URL may contain spaces from an unencoded prompt, if it continues
/// as a URL after them.
fn is_lone_address(text: &str) -> bool {
    let goes_on = text.split(' ').next_back().is_some_and(|last| last.contains(['?', '&']));
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    is_address && goes_on && text.len() < 4096 && !text.contains(['\n', ',', '"'])
}

/// Returns whether a result may contain or name an image, judging only by its text.
pub(crate) fn mentions_image(result: &Result<Value, Value>) -> bool {
    let Ok(result) = result else { return false };
    let mut found = result.get("task").is_some();
    let mut look = |key: &str, text: &str| {
        found |= (key == "type" && matches!(text, "image" | "resource" | "resource_link"))
            || text.len() >= MIN_IMAGE_CHARS && (text.starts_with("data:image/") || decode(text).is_some())
            || IMAGE_NAME.is_match(text);
    };
    strings(result, &mut look);
    found
}

/// Calls the function for every string in a value, with the key it belongs to.
fn strings(value: &Value, found: &mut dyn FnMut(&str, &str)) {
    fn walk(key: &str, value: &Value, found: &mut dyn FnMut(&str, &str)) {
        match value {
            Value::String(text) => found(key, text),
            Value::Array(items) => items.iter().for_each(|item| walk(key, item, found)),
            Value::Object(object) => object.iter().for_each(|(key, value)| walk(key, value, found)),
            _ => (),
        }
    }
    walk("", value, found);
}

fn find<'a>(value: &'a Value, wanted: &str, depth: usize) -> Option<&'a Value> {
    if depth > 8 {
        return None;
    }
    let object = |object: &'a Map<String, Value>| {
        let here = object.iter().find(|(key, value)| normalized(key) == wanted && !value.is_null());
        here.map(|(_, value)| value).or_else(|| object.values().find_map(|value| find(value, wanted, depth + 1)))
    };
    match value {
        Value::Object(inner) => object(inner),
        Value::Array(items) => items.iter().find_map(|item| find(item, wanted, depth + 1)),
        _ => None,
    }
}

/// Returns the JSON that a text consists of, or that starts within it and extends to the end of the text or of its
/// line.
fn json_in(text: &str) -> Option<Value> {
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '[']) {
        return serde_json::from_str(trimmed).ok();
    }
    let start = trimmed.find(['{', '['])?;
    let rest = trimmed.get(start..)?;
    let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    stream
        .next()?
        .ok()
        .filter(|value| value.is_object() || value.as_array().is_some_and(|items| items.iter().any(Value::is_object)))
}

/// Returns the path of a `file:` URI, unescaped.
pub(crate) fn from_file_uri(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let path = percent_encoding::percent_decode_str(rest).decode_utf8().ok()?.into_owned();
    // `file:///C:/a.png`
    let windows = path.strip_prefix('/').filter(|rest| rest.as_bytes().get(1) == Some(&b':'));
    Some(windows.map_or(path.clone(), str::to_owned))
}

fn unique(list: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    list.retain(|item| !item.is_empty() && seen.insert(item.clone()));
}

const EXTENSION: &str = r"\.(?i:png|jpe?g|webp|gif|avif|bmp|tiff?|svg|heic)";

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

static IMAGE_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"[^\s]{EXTENSION}\b")));
static DATA_URL: LazyLock<Regex> = LazyLock::new(|| pattern(r"data:image/[a-z+.-]+;base64,[A-Za-z0-9+/=_-]+"));
static WEB_URL: LazyLock<Regex> = LazyLock::new(|| pattern(r#"https?://[^\s'"<>()\[\]{}|\\`]+"#));
static FILE_URI: LazyLock<Regex> = LazyLock::new(|| pattern(r#"file://[^\s'"<>()\[\]`]+"#));
static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r#"`([^`]+{EXTENSION})`|'([^']+{EXTENSION})'|"([^"]+{EXTENSION})"|\(([^()]+{EXTENSION})\)"#))
});
static SPACED: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r#"(?:~[/\\]|\.{{0,2}}/|\b[A-Za-z]:[\\/])[^'"`<>|*?\n]*{EXTENSION}"#)));
static LIST_COMMA: LazyLock<Regex> = LazyLock::new(|| pattern(r",\s+|;\s+"));
static BARE: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r#"[^\s'"`<>|*?,:()\[\]]+{EXTENSION}"#)));
static BULLET: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[-•*–]|\d+[.)])\s+"));
static INPUT_LABEL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^\W*(?:original(?: image)?(?: path)?|input(?: image)?|source(?: image)?|edit source|reference(?: image)?s?|mask(?: image)?|based on)\s*\**\s*:",
    )
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(text: &str) -> Vec<String> {
        ToolAnswer::read(&Ok(json!({"content": [{"type": "text", "text": text}]}))).paths
    }

    #[test]
    fn paths_in_prose_are_found_however_they_are_written() {
        for (text, path) in [
            ("/tmp/a.png", "/tmp/a.png"),
            ("Image saved to: file:///tmp/a%20b.png", "/tmp/a b.png"),
            ("📁 Image saved to:\n- /p/generated-1.png\n\n💡 View", "/p/generated-1.png"),
            ("  1. `/p/7d.png`\n     48x32", "/p/7d.png"),
            ("Images saved as: [PosixPath('/p/0.jpg'), PosixPath('/p/1.jpg')]", "/p/1.jpg"),
            (
                "Image(s) saved: /d/image_0_a paper crane_x.jpg, /d/image_1_a paper crane_y.jpg",
                "/d/image_1_a paper crane_y.jpg",
            ),
            ("Saved 2 image(s): ['outputs/a.png', 'outputs/b.png']", "outputs/b.png"),
            ("[a.png](file:///x/a.png)", "/x/a.png"),
            ("Image generated successfully: ~/Pictures/a.webp", "~/Pictures/a.webp"),
            (r"File saved to: C:\Users\ada\a.png", r"C:\Users\ada\a.png"),
            ("• Image saved to: ./rel.png", "./rel.png"),
            ("Generated files:\n• /p/x y.png", "/p/x y.png"),
            ("Saved as sunset.jpeg.", "sunset.jpeg"),
        ] {
            assert!(paths(text).contains(&path.to_owned()), "{text}: {:?}", paths(text));
        }
        assert_eq!(paths("Original: /p/in.png"), Vec::<String>::new());
        assert_eq!(paths("No image was generated."), Vec::<String>::new());
    }

    #[test]
    fn json_is_read_wherever_it_is() {
        let text = "Image metadata: {\"seed\": 7, \"file_path\": \"/a.png\"}";
        let answer = ToolAnswer::read(&Ok(json!({"content": [{"type": "text", "text": text}]})));
        assert_eq!(answer.find(&["seed"]), Some(&json!(7)));
        let answer =
            ToolAnswer::read(&Ok(json!({"structuredContent": {"result": "{\"model_used\": \"m\"}"}, "content": []})));
        assert_eq!(answer.find(&["model", "modelused"]), Some(&json!("m")));
        let answer = ToolAnswer::read(&Ok(json!({"content": [{"type": "text", "text": "[\"https://x/a.png\"]"}]})));
        assert_eq!(answer.urls, ["https://x/a.png"]);
        let answer =
            ToolAnswer::read(&Ok(json!({"content": [{"type": "text", "text": "![Generated](https://x/b?c=1)"}]})));
        assert_eq!(answer.urls, ["https://x/b?c=1"]);
        let answer = ToolAnswer::read(&Ok(json!({"content": [{"type": "text", "text": "https://x/a fox?w=1\n"}]})));
        assert_eq!(answer.urls, ["https://x/a fox?w=1"]);
    }

    #[test]
    fn a_cut_off_base64_text_is_not_an_image() {
        let stub =
            "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgCAIAAADbtmxLAAADIHRFWHRwcm9tcHQAeyIzIjogeyJjbGFzc190eXBlIjogIktT...";
        let answer = ToolAnswer::read(&Ok(json!({"structuredContent": {"base64_preview": stub}, "content": []})));
        assert!(answer.inline.is_empty());
        assert!(ToolAnswer::read(&Err(json!({"message": "no"}))).is_error);
    }
}
