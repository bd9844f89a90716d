//! UNO: the options of its script in EXIF's description, as Python prints them: `prompt='a cat', seed=7, num_steps=25`.

use serde_json::Value;

use super::Generator;
use super::container::Texts;
use super::fields::{Fields, at};

/// Reads the options of a run.
pub(super) fn read(texts: &Texts) -> Option<Fields> {
    let (make, index) = (texts.exif("Make")?, texts.exif("ImageDescription")?);
    if texts.text(make).trim() != "UNO" {
        return None;
    }
    let (prompt, rest) = quoted(texts.text(index).trim().strip_prefix("prompt=")?)?;
    let mut fields = Fields::of(Generator::Uno, at(make, "`Make`"));
    fields.prompt(at(index, "`prompt`"), &prompt);
    let mut size = (Value::Null, Value::Null);
    for (name, value) in rest.split(", ").filter_map(|option| option.split_once('=')) {
        let number = serde_json::from_str::<Value>(value).ok().filter(Value::is_number);
        let Some(number) = number else { continue };
        match name {
            "width" => size.0 = number,
            "height" => size.1 = number,
            "seed" => _ = fields.seed(at(index, "`seed`"), &number),
            "num_steps" => _ = fields.steps(at(index, "`num_steps`"), &number),
            "guidance" => _ = fields.guidance(at(index, "`guidance`"), &number),
            _ => {}
        }
    }
    fields.size(at(index, "`width`, `height`"), &size.0, &size.1);
    if let Some(model) = texts.exif("Model") {
        fields.model(at(model, "`Model`"), texts.text(model), None);
    }
    Some(fields)
}

/// Returns the text of a Python literal, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|it| ['\'', '"'].contains(it))?;
    let mut found = String::new();
    let mut escaped = false;
    for (place, it) in text.char_indices().skip(1) {
        match (std::mem::take(&mut escaped), it) {
            (true, 'n') => found.push('\n'),
            (true, 't') => found.push('\t'),
            (true, it) => found.push(it),
            (false, '\\') => escaped = true,
            (false, it) if it == quote => return Some((found, text.get(place + it.len_utf8()..)?)),
            (false, it) => found.push(it),
        }
    }
    None
}
