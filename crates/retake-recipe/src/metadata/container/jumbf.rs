//! C2PA manifest stores: nested boxes (JUMBF) with assertions as CBOR or JSON.
//!
//! The last manifest of a store is that of the file itself; earlier ones belong to what it was made from. The claims,
//! actions and ingredients of all of them are listed as JSON, each with the label of its manifest. Thumbnails, hashes
//! and certificates are left out. Nothing is verified here, but the presence of a signature is listed.

use ciborium::Value as Cbor;
use serde_json::{Map, Number, Value};

use super::bytes::{ByteOrder, u32_at, uint_at};
use super::{Slot, Texts};

/// The maximum nesting depth of boxes and values.
const MAX_DEPTH: usize = 16;
/// The maximum number of boxes visited in one store.
const MAX_BOXES: usize = 10_000;
/// The maximum number of manifests listed; a store keeps one for every earlier version of the file.
const MAX_MANIFESTS: usize = 32;
/// The maximum size of an assertion that is decoded, since its values take about forty times its size.
const MAX_CBOR_BYTES: usize = 1024 * 1024;
/// The maximum size of a manifest store; stores contain thumbnails.
pub(super) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The key under which the presence of a signature is listed.
pub(in crate::metadata) const SIGNATURE: &str = "c2pa.signature";

/// Lists the assertions of a manifest store at `offset` of the file.
pub(super) fn read(store: &[u8], offset: u64, texts: &mut Texts) {
    let outer: Vec<Super<'_>> = Boxes { bytes: store }.filter_map(|it| it.superbox()).collect();
    // Files may contain other JUMBF boxes (JPEG 360, JPEG Systems) besides the store.
    let manifests: Vec<Super<'_>> = outer
        .iter()
        .filter(|it| it.label == "c2pa")
        .flat_map(|it| it.children.iter().filter_map(Box::superbox))
        .collect();
    let mut left = MAX_BOXES;
    for (place, manifest) in manifests.iter().rev().enumerate() {
        if place >= MAX_MANIFESTS {
            texts.note(format!("only the last {MAX_MANIFESTS} C2PA manifests are listed"));
            break;
        }
        let slot = if place == 0 { Slot::C2pa } else { Slot::C2paIngredient };
        list(manifest, &manifest.label, slot, offset, texts, 0, &mut left);
    }
}

fn list(found: &Super<'_>, manifest: &str, slot: Slot, offset: u64, texts: &mut Texts, depth: usize, left: &mut usize) {
    const QUIET: [&str; 4] = ["c2pa.hash", "c2pa.thumbnail", "c2pa.certificate-status", "c2pa.icon"];
    if depth > MAX_DEPTH || QUIET.iter().any(|label| found.label.starts_with(label)) {
        return;
    }
    let key = || {
        if slot == Slot::C2pa { found.label.clone() } else { format!("{manifest}/{}", found.label) }
    };
    for child in &found.children {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let text = match child.kind {
            b"cbor" if found.label == SIGNATURE => Some(format!("({} bytes, not verified)", child.bytes.len())),
            b"cbor" if slot == Slot::C2paIngredient && !tells_of_making(&found.label) => continue,
            b"cbor" => cbor(child.bytes).map(|value| value.to_string()),
            b"json" if slot == Slot::C2paIngredient && !tells_of_making(&found.label) => continue,
            b"json" => std::str::from_utf8(child.bytes).ok().map(str::to_owned),
            b"jumb" => {
                if let Some(inner) = child.superbox() {
                    list(&inner, manifest, slot, offset, texts, depth + 1, left);
                }
                continue;
            }
            _ => continue,
        };
        match text {
            Some(text) => texts.add(slot, offset, key(), text),
            None => texts.note(format!("C2PA: {:?} cannot be decoded", found.label)),
        }
    }
}

/// Returns whether a box states how the content was made, which is all that matters in earlier manifests.
fn tells_of_making(label: &str) -> bool {
    ["c2pa.claim", "c2pa.actions", "c2pa.ingredient", "stds.schema-org"].iter().any(|known| label.starts_with(known))
}

/// A box: its type and its contents.
#[derive(Clone, Copy)]
struct Box<'a> {
    kind: &'a [u8; 4],
    bytes: &'a [u8],
}

/// A box of boxes with a label.
struct Super<'a> {
    label: String,
    children: Vec<Box<'a>>,
}

struct Boxes<'a> {
    bytes: &'a [u8],
}

impl<'a> Iterator for Boxes<'a> {
    type Item = Box<'a>;

    fn next(&mut self) -> Option<Box<'a>> {
        let length = usize::try_from(u32_at(self.bytes, 0, ByteOrder::Big)?).ok()?;
        let kind = self.bytes.get(4..8)?.try_into().ok()?;
        // 0 extends to the end, and 1 means a 64-bit length.
        let (start, end) = match length {
            0 => (8, self.bytes.len()),
            1 => (16, usize::try_from(uint_at(self.bytes, 8, 8)?).ok()?.min(self.bytes.len())),
            _ => (8, length.min(self.bytes.len())),
        };
        let bytes = self.bytes.get(start..end)?;
        self.bytes = self.bytes.get(end..).unwrap_or_default();
        Some(Box { kind, bytes })
    }
}

impl<'a> Box<'a> {
    /// Returns the contents of a superbox. They follow its description: 16 bytes of type, a byte of flags, and
    /// optionally a label.
    fn superbox(&self) -> Option<Super<'a>> {
        if self.kind != b"jumb" {
            return None;
        }
        let mut boxes = Boxes { bytes: self.bytes };
        let description = boxes.next().filter(|first| first.kind == b"jumd")?.bytes;
        let labelled = description.get(16).is_some_and(|flags| flags & 2 != 0);
        let label = description.get(17..).filter(|_| labelled).and_then(|rest| rest.split(|byte| *byte == 0).next());
        let label = String::from_utf8_lossy(label.unwrap_or_default()).into_owned();
        Some(Super { label, children: boxes.take(MAX_BOXES).collect() })
    }
}

/// Decodes CBOR to JSON; byte strings are replaced by their lengths.
fn cbor(bytes: &[u8]) -> Option<Value> {
    let bytes = bytes.get(..bytes.len().min(MAX_CBOR_BYTES))?;
    let value: Cbor = ciborium::de::from_reader_with_recursion_limit(bytes, MAX_DEPTH).ok()?;
    Some(json(value))
}

fn json(value: Cbor) -> Value {
    match value {
        Cbor::Integer(number) => {
            let number = i128::from(number);
            u64::try_from(number)
                .map(Value::from)
                .or_else(|_| i64::try_from(number).map(Value::from))
                .unwrap_or_default()
        }
        Cbor::Bytes(bytes) => Value::from(format!("({} bytes)", bytes.len())),
        Cbor::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        Cbor::Text(text) => Value::String(text),
        Cbor::Bool(bool) => Value::Bool(bool),
        // The tag only states the meaning; the value is enough.
        Cbor::Tag(_, inner) => json(*inner),
        Cbor::Array(list) => Value::Array(list.into_iter().map(json).collect()),
        Cbor::Map(pairs) => Value::Object(
            pairs
                .into_iter()
                .map(|(key, value)| {
                    let key = json(key);
                    (key.as_str().map_or_else(|| key.to_string(), str::to_owned), json(value))
                })
                .collect::<Map<_, _>>(),
        ),
        _ => Value::Null,
    }
}
