//! C2PA: boxes in boxes (JUMBF) with assertions as CBOR. The assertions of the last manifest, which is the picture's own,
//! are listed as JSON; earlier manifests are those of what it was made from. Signatures, hashes and thumbnails are left.

use serde_json::{Map, Number, Value};

use super::bytes::{Order, u32_at};
use super::{Slot, Texts};

/// How deep boxes and values lie in each other.
const MAX_DEPTH: usize = 16;
/// The most values of one assertion, and the most boxes of a manifest.
const MAX_VALUES: usize = 10_000;
/// The largest manifest store that is looked at; they hold thumbnails.
pub(super) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Lists the assertions of a manifest store that begins at `offset` of the file.
pub(super) fn read(store: &[u8], offset: u64, texts: &mut Texts) {
    let manifests: Vec<Box<'_>> =
        Boxes { bytes: store }.filter_map(|it| it.superbox()).flat_map(|it| it.children).collect();
    let manifests: Vec<Super<'_>> = manifests.iter().filter_map(Box::superbox).collect();
    if manifests.len() > 1 {
        texts.note(format!("C2PA: {} more manifests, of what this was made from", manifests.len() - 1));
    }
    let mut left = MAX_VALUES;
    if let Some(own) = manifests.last() {
        list(own, offset, texts, 0, &mut left);
    }
}

fn list(manifest: &Super<'_>, offset: u64, texts: &mut Texts, depth: usize, left: &mut usize) {
    const QUIET: [&str; 5] = ["c2pa.signature", "c2pa.hash", "c2pa.thumbnail", "c2pa.certificate-status", "c2pa.icon"];
    if depth > MAX_DEPTH || QUIET.iter().any(|label| manifest.label.starts_with(label)) {
        return;
    }
    for child in &manifest.children {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let text = match child.kind {
            b"cbor" => cbor(child.bytes).map(|value| value.to_string()),
            b"json" => std::str::from_utf8(child.bytes).ok().map(str::to_owned),
            b"jumb" => {
                if let Some(inner) = child.superbox() {
                    list(&inner, offset, texts, depth + 1, left);
                }
                continue;
            }
            _ => continue,
        };
        match text {
            Some(text) => texts.add(Slot::C2pa, offset, manifest.label.clone(), text),
            None => texts.note(format!("C2PA: {:?} cannot be read", manifest.label)),
        }
    }
}

/// A box: its type and what is in it.
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
        let length = usize::try_from(u32_at(self.bytes, 0, Order::Big)?).ok()?;
        let kind = self.bytes.get(4..8)?.try_into().ok()?;
        // 0 goes on to the end; sizes of 64 bits do not occur in pictures.
        let end = if length == 0 { self.bytes.len() } else { length.min(self.bytes.len()) };
        let bytes = self.bytes.get(8..end)?;
        self.bytes = self.bytes.get(end..).unwrap_or_default();
        Some(Box { kind, bytes })
    }
}

impl<'a> Box<'a> {
    /// What is in a superbox, behind its description: 16 bytes of type, a byte of switches, perhaps a label.
    fn superbox(&self) -> Option<Super<'a>> {
        if self.kind != b"jumb" {
            return None;
        }
        let mut boxes = Boxes { bytes: self.bytes };
        let description = boxes.next().filter(|first| first.kind == b"jumd")?.bytes;
        let labelled = description.get(16).is_some_and(|switches| switches & 2 != 0);
        let label = description.get(17..).filter(|_| labelled).and_then(|rest| rest.split(|byte| *byte == 0).next());
        let label = String::from_utf8_lossy(label.unwrap_or_default()).into_owned();
        Some(Super { label, children: boxes.take(MAX_VALUES).collect() })
    }
}

/// The value that these bytes are, as JSON; bytes in it are only counted.
fn cbor(bytes: &[u8]) -> Option<Value> {
    Cbor { bytes, left: MAX_VALUES }.value(0)
}

struct Cbor<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Cbor<'a> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let head = *self.take(1)?.first()?;
        let argument = match head & 0x1f {
            short @ 0..24 => Some(u64::from(short)),
            long @ 24..28 => {
                let bytes = self.take(1 << (long - 24))?;
                Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
            }
            31 => None,
            _ => return None,
        };
        match (head >> 5, argument) {
            (0, Some(number)) => Some(Value::from(number)),
            (1, Some(number)) => Some(i64::try_from(number).map_or(Value::Null, |number| Value::from(-1 - number))),
            (2, Some(length)) => {
                self.take(usize::try_from(length).ok()?)?;
                Some(Value::from(format!("({length} bytes)")))
            }
            (3, Some(length)) => {
                let text = self.take(usize::try_from(length).ok()?)?;
                Some(Value::from(String::from_utf8_lossy(text).into_owned()))
            }
            (2 | 3, None) => {
                let mut whole = String::new();
                while !self.ends() {
                    whole.push_str(self.value(depth + 1)?.as_str()?);
                }
                Some(Value::from(whole))
            }
            (4, count) => {
                let mut list = Vec::new();
                while self.more(count, list.len()) {
                    list.push(self.value(depth + 1)?);
                }
                Some(Value::Array(list))
            }
            (5, count) => {
                let mut map = Map::new();
                let mut pairs = 0;
                while self.more(count, pairs) {
                    let key = self.value(depth + 1)?;
                    let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                    map.insert(key, self.value(depth + 1)?);
                    pairs += 1;
                }
                Some(Value::Object(map))
            }
            // A tag says what the value means; the value is enough.
            (6, Some(_)) => self.value(depth + 1),
            (7, Some(20)) => Some(Value::Bool(false)),
            (7, Some(21)) => Some(Value::Bool(true)),
            (7, Some(bits)) if head & 0x1f == 27 => Number::from_f64(f64::from_bits(bits)).map(Value::Number),
            (7, Some(bits)) if head & 0x1f == 26 => {
                Number::from_f64(f64::from(f32::from_bits(u32::try_from(bits).ok()?))).map(Value::Number)
            }
            (7, Some(_)) => Some(Value::Null),
            _ => None,
        }
    }

    /// Whether a list goes on.
    fn more(&mut self, count: Option<u64>, so_far: usize) -> bool {
        match count {
            Some(count) => u64::try_from(so_far).is_ok_and(|so_far| so_far < count),
            None => !self.ends(),
        }
    }

    /// Takes the mark that ends what has no length; the end of the bytes is one too.
    fn ends(&mut self) -> bool {
        match self.bytes.first() {
            Some(0xff) => {
                self.bytes = self.bytes.get(1..).unwrap_or_default();
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}
