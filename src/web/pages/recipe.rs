//! Renders a recipe.

use maud::{Markup, html};

use crate::web::words;
use crate::wire::IterationView;

/// Renders the fields of a recipe as name-value pairs.
pub(super) fn pairs(view: &IterationView) -> Markup {
    let recipe = &view.recipe.recipe;
    let rows = recipe
        .facts()
        .into_iter()
        .map(|(label, value)| (if label == "Made with" { "Generator" } else { label }, Some(value)))
        .chain([
            ("Duration", view.outcome.generation_time_ms.map(words::duration)),
            ("Cost", view.outcome.cost.as_ref().map(|cost| format!("{} {}", cost.amount, cost.currency))),
            // If there is no image, the message is shown in its place instead.
            ("Message", view.outcome.message.clone().filter(|_| !view.images.is_empty())),
        ]);
    html! {
        dl.pairs {
            @for (name, value) in rows { @if let Some(value) = value { dt { (name) } dd dir="auto" { (value) } } }
        }
        @if recipe.facts().is_empty() { p.muted { "Only the prompt was recorded." } }
    }
}
