//! Cards of a wall: a session as a stack of takes, or one image. A card always has a name, and its second line helps to
//! choose: stars, the last change, the cost.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{changes, naming};
use crate::model::{ExactReference, Hash, OutcomeStatus, Summary};
use crate::web::words;
use crate::workspace::Cover;

/// Returns the name of a session on its card.
pub(super) fn name(row: &Summary, cover: Option<&Cover>) -> String {
    let title = row.title.as_deref().map(str::trim).filter(|title| !title.is_empty()).map(str::to_owned);
    let words = || cover.and_then(|cover| naming::first_words(&cover.prompt));
    let file = || cover.and_then(|cover| cover.file_name.clone());
    let untitled = || if cover.is_some() { "Untitled" } else { "All iterations were lost" }.to_owned();
    title.or_else(words).or_else(file).unwrap_or_else(untitled)
}

/// Returns `1 open branch`, `2 open branches`.
pub(super) fn branches(count: u32) -> String {
    if count == 1 { "1 open branch".to_owned() } else { format!("{count} open branches") }
}

/// Returns a cost by currency, formatted.
pub(super) fn cost(cost: &BTreeMap<String, f64>) -> Option<String> {
    let shown = cost.iter().filter(|(_, amount)| **amount > 0.0).map(|(currency, amount)| {
        let amount = if *amount < 0.1 { format!("{amount:.3}") } else { format!("{amount:.2}") };
        format!("{amount} {currency}")
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Renders the card of a session. `day` is the date heading that it starts, if any.
pub(super) fn session(row: &Summary, cover: Option<&Cover>, day: Option<&str>) -> Markup {
    let called = name(row, cover);
    let takes = row.iteration_count();
    let image = cover.and_then(|cover| cover.image);
    let leaves = cover.filter(|cover| cover.takes.len() > 1).map(|cover| {
        cover.takes.iter().map(|take| format!("{}:{}", take.index, take.hash)).collect::<Vec<_>>().join(",")
    });
    // Hovering over several takes flips through them; a single video is played.
    let video = image.filter(|image| image.video && leaves.is_none()).map(|image| image.hash);
    html! {
        div.item data-ratio=[image.and_then(|image| image.ratio)] data-at=(row.last_modified_at) {
            @if let Some(day) = day { h2.day { (day) } }
            a.card href={ "/sessions/" (row.id) } data-session=(row.id) data-project=[row.project.as_deref()] data-reference=[cover.map(|cover| ExactReference { iteration: cover.reference, image: cover.number })] data-label=(called)
                data-rating=(cover.and_then(|cover| cover.rating).unwrap_or(0)) {
                span.cover data-many[takes > 1] data-takes=[leaves] data-video=[video] {
                    (pictured(image.map(|image| image.hash), cover.map(|cover| cover.outcome).unwrap_or_default()))
                    span.flags {
                        @if row.archived { span.flag { "archived" } }
                        @if let Some(cover) = cover {
                            @if cover.open_branches > 0 { span.flag { (branches(cover.open_branches)) } }
                            @match cover.last_outcome { OutcomeStatus::Failed => span.flag.bad { "last failed" }, OutcomeStatus::Refused => span.flag.bad { "last refused" }, OutcomeStatus::Succeeded => {} }
                            @if cover.lost > 0 { span.flag.bad { "damaged: " (cover.lost) " lost" } }
                        }
                    }
                    @if takes > 1 { span.takes { (words::grouped(takes.into())) span.sr { " iterations" } } }
                }
                span.name dir="auto" { (called) }
                span.meta { (second_line(row, cover)) }
            }
        }
    }
}

fn second_line(row: &Summary, cover: Option<&Cover>) -> Markup {
    let rating = cover.and_then(|cover| cover.rating);
    let change = cover.and_then(|cover| cover.change.as_deref());
    html! {
        @if let Some(rating) = rating { span.rated aria-label={ (rating) " of 5" } role="img" { @for _ in 0..rating { "★" } } " " }
        @if let Some(change) = change { @let change = changes::readable(change); span.change dir="auto" title=(change) { (change) } " · " }
        (words::time(row.last_modified_at))
        @if let Some(spent) = cover.and_then(|cover| cost(&cover.cost)) { " · " (spent) }
        @if let Some(project) = &row.project { " · " span dir="auto" { (project) } }
    }
}

/// Renders the image of an iteration, or a word if there is none.
pub(super) fn pictured(image: Option<Hash>, outcome: OutcomeStatus) -> Markup {
    html! {
        @match (image, outcome) {
            (Some(hash), _) => { img src={ "/thumbs/" (hash) } alt="" loading="lazy" decoding="async"; }
            (None, OutcomeStatus::Refused) => span.blank { "refused" },
            (None, OutcomeStatus::Failed) => span.blank { "failed" },
            (None, OutcomeStatus::Succeeded) => span.blank { "no image" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_short() {
        let spent =
            |pairs: &[(&str, f64)]| cost(&pairs.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect());
        assert_eq!(spent(&[("USD", 0.0042), ("EUR", 1.5)]).as_deref(), Some("1.50 EUR, 0.004 USD"));
        assert_eq!(spent(&[("USD", 0.0)]), None);
        assert_eq!((branches(1), branches(3)), ("1 open branch".into(), "3 open branches".into()));
    }
}
