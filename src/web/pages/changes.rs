//! Renders the changes between two recipes.

use maud::{Markup, html};
use serde_json::Value;

use crate::model::Field;
use crate::model::diff::words::{Side, runs};
use crate::model::diff::{PromptChange, PromptChangeKind, PromptDiff, RecipeDiff};
use crate::web::words;

/// The maximum number of changes listed for one prompt. Further changes can be seen in the prompt itself.
const MAX_MARKS: usize = 16;

/// Formats a summary of changes, with separated parts and a minus sign as wide as the plus.
pub(super) fn readable(summary: &str) -> String {
    let part = |part: &str| part.strip_prefix('-').map_or_else(|| part.to_owned(), |rest| format!("−{rest}"));
    summary.split("  ").filter(|it| !it.is_empty()).map(part).collect::<Vec<_>>().join(" · ")
}

/// Renders the changes as a row of labels.
pub(super) fn list(diff: &RecipeDiff) -> Markup {
    let nodes = diff.own_nodes();
    html! {
        ul.changes dir="auto" {
            @if diff.is_empty() { li { "Same recipe" } }
            @if let Some(prompt) = &diff.prompt { (prompt_marks(prompt)) }
            @if let Some(negative) = &diff.negative_prompt { li { "negative prompt" } (prompt_marks(negative)) }
            @for change in &diff.parameters {
                li { (name(&change.name)) " " @if let Some(old) = &change.old { del { (value(old)) } } " " @if let Some(new) = &change.new { ins { (value(new)) } } }
            }
            @for lora in &diff.loras {
                li { "lora " (lora.name) " " @if let Some(old) = lora.old_weight { del { (old) } } " " @if let Some(new) = lora.new_weight { ins { (new) } } }
            }
            @for node in nodes.iter().take(12) {
                li { (node.title.as_deref().unwrap_or(&node.class_type)) @if let Some(input) = &node.input { " " (input) " " @if let Some(old) = &node.old { del { (value(old)) } } " " @if let Some(new) = &node.new { ins { (value(new)) } } } }
            }
            @if nodes.len() > 12 { li { "and " (words::count((nodes.len() - 12) as u64, "more node")) } }
        }
    }
}

/// Renders two texts as one, with deletions and insertions marked.
pub(super) fn inline(old: &str, new: &str) -> Markup {
    html! {
        p.prompt {
            @for run in runs(old, new) {
                (run.before)
                @match run.side {
                    Side::Both => (run.text),
                    Side::Old => del { (run.text) },
                    Side::New => ins { (run.text) },
                }
            }
        }
    }
}

/// Returns the display name of a parameter.
pub(super) fn name(name: &str) -> &str {
    match name {
        "modelHash" => "model hash",
        name => match Field::by_key(name) {
            Some(field) => field.short,
            None => name.strip_prefix("parameters.").unwrap_or(name),
        },
    }
}

/// Returns a value in a few characters.
pub(super) fn value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        // 6.0 and 6 are the same number to people.
        value => value.to_string().trim_end_matches(".0").to_owned(),
    };
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Renders the changes in a prompt as labels.
pub(super) fn prompt_marks(diff: &PromptDiff) -> Markup {
    let weight = |weight: Option<f64>| weight.unwrap_or(1.0).to_string();
    let distinct = distinct(&diff.changes);
    html! {
        @if diff.reformatted { li { "same prompt, reformatted" } }
        @for (change, count) in distinct.iter().take(MAX_MARKS) {
            @let times = if *count > 1 { format!(" ×{count}") } else { String::new() };
            @match change.kind {
                PromptChangeKind::Added => li.added { "+ " (change.text) (times) },
                PromptChangeKind::Removed => li.removed { (change.text) (times) },
                PromptChangeKind::Reweighted => li { (change.text) " " del { (weight(change.old_weight)) } " " ins { (weight(change.new_weight)) } (times) },
                PromptChangeKind::Moved => li { "↕ " (change.text) (times) },
                PromptChangeKind::Reworded => li { @if let Some(old) = &change.old_text { del { (old) } " " } ins { (change.text) } (times) },
            }
        }
        @if distinct.len() > MAX_MARKS { li { "and " (distinct.len() - MAX_MARKS) " more" } }
    }
}

/// Returns each distinct change with its number of occurrences: long negative prompts are repetitive.
fn distinct(changes: &[PromptChange]) -> Vec<(&PromptChange, usize)> {
    let shown = |change: &PromptChange| {
        (change.kind, change.text.clone(), change.old_text.clone(), change.old_weight, change.new_weight)
    };
    let mut distinct: Vec<(&PromptChange, usize)> = Vec::new();
    for change in changes {
        match distinct.iter_mut().find(|(known, _)| shown(known) == shown(change)) {
            Some((_, count)) => *count += 1,
            None => distinct.push((change, 1)),
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_reads_as_a_caption() {
        assert_eq!(readable("-morning light  +at dusk  cfg 6→8.5"), "−morning light · +at dusk · cfg 6→8.5");
        assert_eq!(readable("same recipe"), "same recipe");
    }

    #[test]
    fn a_change_that_repeats_is_listed_once() {
        let old = "blurry, ".repeat(30);
        let new = "grainy, ".repeat(30);
        let diff = PromptDiff::between(&old, &new).expect("they differ");
        let shown = prompt_marks(&diff).into_string();
        assert!(shown.matches("grainy").count() <= 2, "{shown}");
        assert!(shown.contains('×'), "{shown}");
    }
}
