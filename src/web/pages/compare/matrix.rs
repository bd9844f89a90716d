//! The parameter matrix of a set: a column for each image and a row for each property, as the command line prints it. A
//! dot means "same as A".

use maud::{Markup, html};
use serde_json::Value;

use super::sides::Side;
use crate::model::Recipe;
use crate::model::diff::{RecipeDiff, loras, parameters};
use crate::web::pages::changes;
use crate::web::words;

/// The maximum number of parameter rows.
const MAX_ROWS: usize = 80;

/// Renders the matrix of these sides, compared with the first.
pub(super) fn matrix(sides: &[Side], kinship: Option<&str>) -> Markup {
    let Some((first, others)) = sides.split_first() else { return html! {} };
    let recipes: Vec<&Recipe> = sides.iter().map(|side| &side.recipe).collect();
    let diffs: Vec<RecipeDiff> = others.iter().map(|other| RecipeDiff::between(&first.recipe, &other.recipe)).collect();
    let rows = parameters::table(&recipes);
    let weights = loras::table(&recipes);
    let shared = parameters::shared(&recipes);
    let same_prompt = diffs.iter().all(|diff| diff.prompt.is_none());
    let same_negative = diffs.iter().all(|diff| diff.negative_prompt.is_none());
    let negative = |side: &Side| side.recipe.negative_prompt.clone().unwrap_or_default();
    html! {
        section.matrix #matrix role="region" aria-label="Parameters" tabindex="0" {
            table {
                caption.sr { "What differs between the compared images" }
                thead {
                    tr {
                        td {}
                        @for (at, side) in sides.iter().enumerate() {
                            th scope="col" data-column=(side.reference) { span.letter { (Side::letter(at)) } " " a href=(side.address()) title=(side.label) dir="auto" { (side.short) } }
                        }
                    }
                }
                tbody {
                    tr data-same[same_prompt] {
                        th scope="row" { "prompt" }
                        td.text dir="auto" { (clipped(&first.recipe.prompt)) }
                        @for diff in &diffs { td.text { @match &diff.prompt { Some(prompt) => ul.changes { (changes::prompt_marks(prompt)) }, None => (dot()) } } }
                    }
                    @if !same_negative || sides.iter().any(|side| side.recipe.negative_prompt.is_some()) {
                        tr data-same[same_negative] {
                            th scope="row" { "negative prompt" }
                            td.text dir="auto" { (clipped(&negative(first))) }
                            @for diff in &diffs { td.text { @match &diff.negative_prompt { Some(prompt) => ul.changes { (changes::prompt_marks(prompt)) }, None => (dot()) } } }
                        }
                    }
                    @for row in rows.iter().take(MAX_ROWS) {
                        tr { th scope="row" { (changes::name(&row.name)) } (cells(&row.values)) }
                    }
                    @if rows.len() > MAX_ROWS { tr { th scope="row" { "and" } td colspan=(sides.len()) { (words::count((rows.len() - MAX_ROWS) as u64, "more parameter")) } } }
                    @for row in &weights {
                        tr { th scope="row" { "LoRA " (row.name) } (cells(&row.weights.iter().map(|weight| weight.map(Value::from)).collect::<Vec<_>>())) }
                    }
                    @for (name, value) in &shared {
                        tr data-same { th scope="row" { (changes::name(name)) } td { (changes::value(value)) } @for _ in others { td { (dot()) } } }
                    }
                    @if others.iter().any(|side| side.image.is_some()) && first.image.is_some() {
                        tr {
                            th scope="row" { "looks" }
                            td { (absent()) }
                            @for side in others {
                                td.number { @if side.image.is_some() { span data-looks=(words::address("/compare/seen", [("refs", Some(format!("{},{}", first.reference, side.reference).as_str()))])) { "…" } } @else { (absent()) } }
                            }
                        }
                    }
                    @if sides.iter().any(|side| side.cost.is_some()) {
                        tr { th scope="row" { "cost" } @for side in sides { td.number { @match &side.cost { Some(cost) => (cost), None => (absent()) } } } }
                    }
                    tr data-same { th scope="row" { "made" } @for side in sides { td.number { (words::time(side.at)) } } }
                }
            }
            @if let Some(kinship) = kinship { p.kinship { (kinship) } }
        }
    }
}

/// Returns a sentence on how the compared iterations descend from each other.
pub(super) fn kinship(sides: &[Side], ancestor: Option<crate::model::IterationId>, steps: &[u32]) -> Option<String> {
    let ancestor = ancestor?;
    let letters = || sides.iter().enumerate().map(|(at, side)| (Side::letter(at), side));
    match letters().find(|(_, side)| side.id == ancestor) {
        Some((origin, _)) => {
            let led = letters().zip(steps).filter(|((_, side), _)| side.id != ancestor);
            let parts: Vec<String> = led
                .map(|((letter, _), steps)| format!("{letter} in {}", words::count(u64::from(*steps), "step")))
                .collect();
            (!parts.is_empty()).then(|| format!("{origin} led to {}.", parts.join(", ")))
        }
        None => {
            let same_session = sides.iter().all(|side| side.id.session == ancestor.session);
            Some(if same_session {
                format!("All of them go back to #{}.", ancestor.index)
            } else {
                "All of them go back to one iteration.".to_owned()
            })
        }
    }
}

fn cells(values: &[Option<Value>]) -> Markup {
    let first = values.first().cloned().flatten();
    html! {
        @for (at, value) in values.iter().enumerate() {
            td.number {
                @match value {
                    Some(_) if at > 0 && *value == first => (dot()),
                    Some(value) => (changes::value(value)),
                    None if at > 0 && first.is_none() => (dot()),
                    None => (absent()),
                }
            }
        }
    }
}

fn dot() -> Markup {
    html! { span.as-a aria-label="as A" title="as A" role="img" { "·" } }
}

fn absent() -> Markup {
    html! { span.as-a aria-label="none" role="img" { "–" } }
}

/// Returns the beginning of a prompt; the iteration's page shows all of it.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(240) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None if text.is_empty() => "–".to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_stands_for_the_value_of_the_first() {
        let shown =
            cells(&[Some(Value::from(6.0)), Some(Value::from(8.5)), Some(Value::from(6.0)), None]).into_string();
        assert_eq!(shown.matches("as A").count(), 2, "the label and the title: {shown}");
        assert!(shown.contains(">6<") && shown.contains(">8.5<") && shown.contains("none"), "{shown}");
    }
}
