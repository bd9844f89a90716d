//! Draw Things: JSON as EXIF's UserComment, in PNG inside XMP, with a text like A1111's as the description.

use serde_json::{Map, Value};

use super::container::{Slot, Texts};
use super::fields::{self, Fields, at, string};
use super::xmp::{Namespace, Packet};
use super::{Generator, a1111, json};

const KNOWN: &[&str] = &["c", "uc", "model", "sampler", "scale", "seed", "size", "steps", "strength", "lora"];
const NAME: &str = "Draw Things";

/// Reads Draw Things' metadata.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    in_xmp(texts).or_else(|| in_exif(texts))
}

fn in_xmp(texts: &Texts) -> Option<Fields> {
    let index = texts.raw.iter().position(|raw| raw.slot == Slot::Xmp)?;
    let packet = Packet::parse(texts.text(index));
    if packet.get(Namespace::Xmp, "CreatorTool")? != NAME {
        return None;
    }
    let description = packet.get(Namespace::DublinCore, "description").unwrap_or_default();
    let comment = packet.get(Namespace::Exif, "UserComment").and_then(json::parse);
    Some(fill(comment.as_ref(), index, description, index))
}

fn in_exif(texts: &Texts) -> Option<Fields> {
    let comment = texts.exif("UserComment");
    let record = comment.and_then(|index| texts.json(index));
    let signed = |index: &usize| texts.text(*index).trim_end() == NAME;
    let own = |record: &&Value| record.get("c").is_some() && record.get("seed_mode").is_some();
    texts.exif("Software").filter(signed).or(record.filter(own).and(comment))?;
    let description =
        texts.exif("ImageDescription").or_else(|| texts.raw.iter().position(|raw| raw.slot == Slot::Iptc));
    let text = description.map_or("", |index| texts.text(index));
    Some(fill(record, comment.or(description)?, text, description.or(comment)?))
}

fn fill(record: Option<&Value>, index: usize, description: &str, described: usize) -> Fields {
    let mut fields = Fields::of(Generator::DrawThings, at(index, "the name of the tool, or `c` and `seed_mode`"));
    if let Some(record) = record.and_then(Value::as_object) {
        from_json(record, index, description, described, &mut fields);
    }
    // The text repeats the JSON in another form, and fills in what it lacks.
    if let Some(parsed) = a1111::parse(description) {
        from_text(&parsed, described, &mut fields);
    }
    fields
}

fn from_json(record: &Map<String, Value>, index: usize, description: &str, described: usize, fields: &mut Fields) {
    let text = |key: &str| string(record, key).unwrap_or_default();
    let value = |key: &str| record.get(key).unwrap_or(&Value::Null);
    match restored(&text("c"), description) {
        Some(prompt) => {
            fields.prompt(at(described, "the description, of which `c` lost the letters beyond ASCII"), prompt)
        }
        None => fields.prompt(at(index, "`c`"), &text("c")),
    };
    let lines = description.lines().filter_map(|line| line.strip_prefix('-'));
    match lines.filter_map(|line| restored(&text("uc"), line)).next() {
        Some(negative) => {
            fields.negative(at(described, "the description, of which `uc` lost the letters beyond ASCII"), negative)
        }
        None => fields.negative(at(index, "`uc`"), &text("uc")),
    };
    fields.seed(at(index, "`seed`"), value("seed"));
    fields.steps(at(index, "`steps`"), value("steps"));
    fields.guidance(at(index, "`scale`"), value("scale"));
    fields.sampler(at(index, "`sampler`"), &text("sampler"));
    fields.model(at(index, "`model`"), &text("model"), Some("model"));
    fields.denoise(at(index, "`strength`"), value("strength"));
    if let Some((width, height)) = a1111::size(&text("size")) {
        fields.size(at(index, "`size`"), &width.into(), &height.into());
    }
    for lora in value("lora").as_array().into_iter().flatten() {
        let weight = lora.get("weight").and_then(fields::number).unwrap_or(1.0);
        let name = lora.get("model").or_else(|| lora.get("file")).and_then(Value::as_str);
        fields.lora(at(index, "`lora`"), name.unwrap_or_default(), weight);
    }
    fields.evidence.from_image = value("strength").as_f64().is_some_and(|strength| strength < 1.0);
    fields.parameters_but(record, KNOWN);
}

fn from_text(parsed: &a1111::Parsed, index: usize, fields: &mut Fields) {
    let mut lines: Vec<&str> = parsed.prompt.lines().collect();
    // The negative prompt is a last line that starts with a dash.
    if let Some(negative) = lines.last().and_then(|line| line.strip_prefix('-')) {
        fields.negative(at(index, "the line with a dash in the description"), negative);
        lines.pop();
    }
    fields.prompt(at(index, "the description"), &lines.join("\n"));
    for a1111::Pair { key, value, .. } in &parsed.pairs {
        let from = at(index, format!("`{key}` in the description"));
        let json = Value::from(value.as_str());
        match key.as_str() {
            "Steps" => fields.steps(from, &json),
            "Seed" => fields.seed(from, &json),
            "Guidance Scale" => fields.guidance(from, &json),
            "Sampler" => fields.sampler(from, value),
            "Model" => fields.model(from, value, None),
            "Size" => {
                a1111::size(value).is_some_and(|(width, height)| fields.size(from, &width.into(), &height.into()))
            }
            _ => false,
        };
    }
}

/// Restores non-ASCII letters, which became question marks in JPEG files, from the description.
fn restored<'a>(lossy: &str, whole: &'a str) -> Option<&'a str> {
    if !lossy.contains('?') || whole.is_empty() {
        return None;
    }
    let mut end = 0;
    let mut letters = whole.char_indices();
    for c in lossy.chars() {
        let (at, letter) = letters.next()?;
        let lost = c == '?' && !letter.is_ascii();
        if c != letter && !lost {
            return None;
        }
        end = at + letter.len_utf8();
    }
    whole.get(..end)
}
