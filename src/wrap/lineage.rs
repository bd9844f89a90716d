//! Determines which iteration an input image came from, by everything a later call may use to refer to an earlier
//! result.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::Hash;

use super::answer::from_file_uri;
use super::arguments::{CallArguments, NamedArgument};
use super::base64::decode;
use super::files::Base;

/// The iterations made on this connection, by path, URL, id and content.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLineage {
    known: HashMap<String, String>,
    last: Option<String>,
}

/// The maximum number of input images of a call that are looked up.
const MAX_INPUTS: usize = 8;
/// The minimum length of an id that is searched for within a longer text.
const MIN_CONTAINED_ID: usize = 6;

impl ConnectionLineage {
    /// Remembers that these names refer to this iteration.
    pub(crate) fn remember(&mut self, names: impl IntoIterator<Item = String>, reference: &str) {
        self.known.extend(names.into_iter().filter(|name| !name.is_empty()).map(|name| (name, reference.to_owned())));
        self.last = Some(reference.to_owned());
    }

    /// Returns the last recorded iteration.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Returns whether an image with these bytes was made on this connection.
    pub(crate) fn knows_bytes(&self, bytes: &[u8]) -> bool {
        self.known.contains_key(&content_name(bytes))
    }

    /// Returns the iteration that the arguments use as an input, and the argument that names it.
    pub(crate) fn parent(&self, arguments: &Value, asked: &CallArguments, base: &Base) -> Option<(String, String)> {
        let inputs = asked.inputs.iter().find_map(|named| {
            let found = self.named(&named.value, base).or_else(|| self.by_content(&named.value, base));
            found.map(|reference| (reference.clone(), named.argument.clone()))
        });
        inputs.or_else(|| self.anywhere("", arguments, asked, base))
    }

    /// Returns the hashes of the input images whose bytes are available.
    pub(crate) fn inputs(asked: &CallArguments, base: &Base) -> Vec<Hash> {
        let hash = |named: &NamedArgument| Some(Hash(*blake3::hash(&input_bytes(&named.value, base)?).as_bytes()));
        asked.inputs.iter().take(MAX_INPUTS).filter_map(hash).collect()
    }

    fn anywhere(&self, key: &str, value: &Value, asked: &CallArguments, base: &Base) -> Option<(String, String)> {
        match value {
            // A previous output may still exist at the output location.
            Value::String(_) if asked.outputs.iter().any(|output| output.argument == key) => None,
            Value::String(text) => self.named(text, base).map(|reference| (reference.clone(), key.to_owned())),
            Value::Array(items) => items.iter().find_map(|item| self.anywhere(key, item, asked, base)),
            Value::Object(object) => object.iter().find_map(|(key, value)| self.anywhere(key, value, asked, base)),
            _ => None,
        }
    }

    fn named(&self, text: &str, base: &Base) -> Option<&String> {
        let found = self.known.get(text).or_else(|| {
            let path = base.resolve(from_file_uri(text).as_deref().unwrap_or(text));
            let path = path.canonicalize().ok()?;
            self.known.get(path.to_str()?)
        });
        found.or_else(|| {
            let contained = |id: &&String| id.len() >= MIN_CONTAINED_ID && text.contains(id.as_str());
            text.contains("://").then(|| self.known.keys().find(contained)).flatten().and_then(|id| self.known.get(id))
        })
    }

    fn by_content(&self, text: &str, base: &Base) -> Option<&String> {
        self.known.get(&content_name(&input_bytes(text, base)?))
    }
}

/// Returns the bytes of an input image: of the file that the text names, or of the base64 it consists of.
fn input_bytes(text: &str, base: &Base) -> Option<Vec<u8>> {
    match base.image(from_file_uri(text).as_deref().unwrap_or(text)) {
        Some(file) => Some(file.bytes),
        None => Some(decode(text)?.bytes),
    }
}

/// Returns the content-based name of an image.
pub(crate) fn content_name(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}
