//! Summarises a difference in one line: `+solo  ~red dress 1.2→1.35  -standing  steps 20→30`.
//!
//! `+` was added, `-` removed, `~` reweighted, `↕` moved. Names are those of the recipe's fields, except for a few common
//! abbreviations.

use serde_json::Value;

use crate::Field;

use super::loras::LoraChange;
use super::nodes::{NodeChange, NodeChangeKind};
use super::parameters::ParameterChange;
use super::prompt::{PromptChange, PromptChangeKind, PromptDiff};
use super::words::{self, Side};
use super::{RecipeDiff, label};

/// The maximum number of characters in one part of a line.
const MAX_CHARS: usize = 60;
/// The maximum number of parts about one kind of change; the others are counted.
const MAX_PARTS: usize = 10;
/// The maximum number of moves listed; more of them are usually a single reordering, and only counted.
const MAX_MOVED: usize = 3;
/// The separator between parts.
const GAP: &str = "  ";

/// Summarises the difference of two prompts in one line.
pub fn prompt(diff: &PromptDiff) -> String {
    prompt_parts(diff).join(GAP)
}

/// Summarises the difference of two recipes in one line.
pub fn recipe(diff: &RecipeDiff) -> String {
    if diff.is_empty() {
        return "same recipe".to_owned();
    }
    let mut parts = Vec::new();
    if label::is_chance(diff) && !diff.parameters.is_empty() {
        parts.push("reroll".to_owned());
    }
    if let Some(diff) = &diff.prompt {
        parts.extend(prompt_parts(diff));
    }
    if let Some(diff) = &diff.negative_prompt {
        // One part with commas, since two spaces would end the negative prompt.
        parts.push(format!("negative: {}", prompt_parts(diff).join(", ")));
    }
    // The prompt as sent follows from the prompt as typed, so it only matters if the latter is unchanged.
    if let Some(diff) = diff.prompt_sent.as_ref().filter(|_| diff.prompt.is_none()) {
        parts.push(format!("sent: {}", prompt_parts(diff).join(", ")));
    }
    parts.extend(few(parameter_parts(&diff.parameters)));
    parts.extend(few(diff.loras.iter().map(lora_part)));
    parts.extend(few(diff.nodes.iter().map(node_part)));
    parts.join(GAP)
}

/// Formats a value for people: text without quotes, 7 for 7.0.
pub fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => float.to_string(),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn prompt_parts(diff: &PromptDiff) -> Vec<String> {
    if diff.reformatted {
        return vec!["reformatted".to_owned()];
    }
    let moves = |change: &&PromptChange| change.kind == PromptChangeKind::Moved && change.new_weight.is_none();
    let moved = diff.changes.iter().filter(moves).count();
    let shown = diff.changes.iter().filter(|change| moved <= MAX_MOVED || !moves(change));
    let mut parts = few(shown.flat_map(|change| match change.kind {
        PromptChangeKind::Reworded => reworded_parts(change),
        _ => vec![prompt_part(change)],
    }));
    if moved > MAX_MOVED {
        parts.push(format!("↕{moved} moved"));
    }
    parts
}

/// Returns the first parts, and the number of others.
fn few(parts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut parts = parts.into_iter();
    let mut few: Vec<String> = parts.by_ref().take(MAX_PARTS).collect();
    match parts.count() {
        0 => {}
        more => few.push(format!("and {more} more")),
    }
    few
}

fn prompt_part(change: &PromptChange) -> String {
    let text = short(&change.text);
    let weights = match (change.old_weight, change.new_weight) {
        (None, None) => String::new(),
        (Some(weight), None) | (None, Some(weight)) => format!(" {weight}"),
        (Some(old), Some(new)) => format!(" {old}→{new}"),
    };
    let sign = match change.kind {
        PromptChangeKind::Added => '+',
        PromptChangeKind::Removed => '-',
        PromptChangeKind::Reweighted | PromptChangeKind::Reworded => '~',
        PromptChangeKind::Moved => '↕',
    };
    format!("{sign}{text}{weights}")
}

fn reworded_parts(change: &PromptChange) -> Vec<String> {
    let old = change.old_text.as_deref().unwrap_or_default();
    let runs = words::runs(old, &change.text);
    let mut parts: Vec<String> = runs
        .iter()
        .filter_map(|run| match run.side {
            Side::Both => None,
            Side::Old => Some(format!("-{}", short(run.text))),
            Side::New => Some(format!("+{}", short(run.text))),
        })
        .collect();
    if change.new_weight.is_some() || parts.is_empty() {
        parts.push(prompt_part(change));
    }
    parts
}

fn parameter_parts(changes: &[ParameterChange]) -> Vec<String> {
    let find = |name: &str| changes.iter().find(|change| change.name == name);
    let mut parts = Vec::new();
    for change in changes {
        let name = match change.name.as_str() {
            // Show width and height as one size.
            "width" | "height" if find("width").is_some() && find("height").is_some() => {
                if change.name == "height" {
                    parts.extend(find("width").map(|width| size_part(width, change)));
                }
                continue;
            }
            name => match Field::by_key(name) {
                Some(field) => field.short,
                None => name.strip_prefix("parameters.").unwrap_or(name),
            },
        };
        parts.push(value_part(&short(name), change.old.as_ref(), change.new.as_ref()));
    }
    parts
}

fn size_part(width: &ParameterChange, height: &ParameterChange) -> String {
    let size = |width: &Option<Value>, height: &Option<Value>| match (width, height) {
        (Some(width), Some(height)) => Some(Value::from(format!("{width}x{height}"))),
        (None, None) => None,
        (width, height) => Some(Value::from(format!("{}x{}", side(width), side(height)))),
    };
    value_part("size", size(&width.old, &height.old).as_ref(), size(&width.new, &height.new).as_ref())
}

fn side(side: &Option<Value>) -> String {
    side.as_ref().map_or_else(|| "?".to_owned(), Value::to_string)
}

fn lora_part(change: &LoraChange) -> String {
    let name = short(&change.name);
    match (change.old_weight, change.new_weight) {
        (Some(old), Some(new)) => format!("~lora {name} {old}→{new}"),
        (Some(old), None) => format!("-lora {name} {old}"),
        (None, Some(new)) => format!("+lora {name} {new}"),
        (None, None) => format!("lora {name}"),
    }
}

fn node_part(change: &NodeChange) -> String {
    let node = short(change.title.as_ref().unwrap_or(&change.class_type));
    match (change.kind, &change.input) {
        (NodeChangeKind::Added, _) => format!("+[{node}]"),
        (NodeChangeKind::Removed, _) => format!("-[{node}]"),
        (NodeChangeKind::Changed, input) => {
            let name = format!("[{node}].{}", short(input.as_deref().unwrap_or_default()));
            value_part(&name, change.old.as_ref(), change.new.as_ref())
        }
    }
}

fn value_part(name: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("{name} {}→{}", short(&value(old)), short(&value(new))),
        (None, Some(new)) => format!("+{name} {}", short(&value(new))),
        (Some(old), None) => format!("-{name} {}", short(&value(old))),
        (None, None) => name.to_owned(),
    }
}

/// Reduces a text to one short line.
fn short(text: &str) -> String {
    let mut line = String::new();
    for (number, word) in text.split_whitespace().enumerate() {
        if number > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * MAX_CHARS {
            break;
        }
    }
    if line.chars().count() > MAX_CHARS {
        line = line.chars().take(MAX_CHARS - 1).collect();
        line.push('…');
    }
    line
}
