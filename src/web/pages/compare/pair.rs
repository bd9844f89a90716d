//! Renders two overlaid images, and their differences in words.

use maud::{Markup, html};

use super::sides::Side;
use crate::images::ImageComparison as Comparison;
use crate::model::OutcomeStatus;
use crate::model::diff::RecipeDiff;
use crate::web::pages::changes;
use crate::web::words;
use crate::wire::{Error, ErrorKind};

/// The largest perceptual distance of images with a similar composition, as in search.
const SIMILAR: u32 = 40;
/// The largest colour difference that is hardly noticeable.
const SAME_COLOUR: f64 = 2.0;
/// The smallest colour difference that makes it a different picture, such as another time of day.
const STRONG_COLOUR: f64 = 16.0;

/// Renders two images with the controls of the compare modes.
pub(super) fn desk(sides: &[Side], a: usize, b: usize) -> Markup {
    let pane = |side: &str, shown: Option<&Side>| {
        html! {
            div.pane.(side) {
                div.clip {
                    @if let Some(shown) = shown { (image(shown)) }
                    span.outline hidden {}
                    @if side == "b" { img.heat alt="Where B differs from A" draggable="false" hidden; }
                }
                span.label dir="auto" { (side.to_uppercase()) " · " @if let Some(shown) = shown { (shown.short) } }
            }
        }
    };
    html! {
        div.desk #desk data-mode="side" role="group" aria-label="Images A and B" {
            (pane("a", sides.get(a))) (pane("b", sides.get(b)))
            button.handle type="button" role="slider" aria-label="Split" aria-valuemin="0" aria-valuemax="100" aria-valuenow="50" {}
            div.legend aria-hidden="true" hidden { span { "same" } span.scale {} span { "changed" } }
            p.flip hidden { "Press " kbd { "Space" } " to flip between A and B" }
        }
        ol.set #set aria-label="Compared images" hidden[sides.len() < 3] {
            @for (at, side) in sides.iter().enumerate() {
                li {
                    button type="button" data-pick=(at) title="Show as B; with Shift, pin as A" {
                        span.pic {
                            @if let Some(image) = side.image { img src={ "/thumbs/" (image.hash) } alt="" loading="lazy"; }
                            span.side hidden {}
                        }
                        span.ref title=(side.label) dir="auto" { (side.short) }
                    }
                }
            }
        }
    }
}

/// Renders the image of a side, or a word if there is none. Scripts replace the thumbnail with the original.
pub(super) fn image(side: &Side) -> Markup {
    html! {
        @match side.image {
            Some(image) => {
                img.whole src={ "/thumbs/" (image.hash) } data-full=[(image.shown && !image.missing).then(|| format!("/images/{}", image.hash))]
                    width=[image.size.map(|(width, _)| width)] height=[image.size.map(|(_, height)| height)] alt=(side.label) draggable="false";
                @if image.missing { span.flag { "original missing" } }
                @else if image.video { span.flag { "video: only its poster is compared" } }
            }
            None => p.none {
                @match side.outcome {
                    OutcomeStatus::Succeeded => "No image was recorded",
                    OutcomeStatus::Failed => "This attempt failed",
                    OutcomeStatus::Refused => "This attempt was refused",
                }
            },
        }
    }
}

/// Renders the differences between two sides: first the prompt, then the parameters, then the pixels.
pub(super) fn differences(a: &Side, b: &Side) -> Markup {
    let diff = RecipeDiff::between(&a.recipe, &b.recipe);
    let nodes = diff.own_nodes();
    let negative = |side: &Side| side.recipe.negative_prompt.clone().unwrap_or_default();
    html! {
        section {
            h2 { "Prompt" }
            @if a.recipe.prompt == b.recipe.prompt { p.muted { "The same in both." } p.prompt.small dir="auto" { (a.recipe.prompt) } }
            @else { (changes::inline(&a.recipe.prompt, &b.recipe.prompt)) }
            @if diff.negative_prompt.is_some() { h2 { "Negative prompt" } (changes::inline(&negative(a), &negative(b))) }
        }
        section {
            h2 { "Parameters" }
            @if diff.parameters.is_empty() && diff.loras.is_empty() && nodes.is_empty() { p.muted { "The same in both." } }
            @else {
                table {
                    thead { tr { td {} th scope="col" { "A" } th scope="col" { "B" } } }
                    tbody {
                        @for change in &diff.parameters {
                            tr { th scope="row" { (changes::name(&change.name)) } td { @if let Some(old) = &change.old { (changes::value(old)) } } td { @if let Some(new) = &change.new { (changes::value(new)) } } }
                        }
                        @for lora in &diff.loras {
                            tr { th scope="row" { "LoRA " (lora.name) } td { @if let Some(old) = lora.old_weight { (old) } } td { @if let Some(new) = lora.new_weight { (new) } } }
                        }
                        @for node in nodes.iter().take(40) {
                            tr { th scope="row" { (node.title.as_deref().unwrap_or(&node.class_type)) @if let Some(input) = &node.input { " " (input) } } td { @if let Some(old) = &node.old { (changes::value(old)) } } td { @if let Some(new) = &node.new { (changes::value(new)) } } }
                        }
                        @if nodes.len() > 40 { tr { th scope="row" { "and" } td colspan="2" { (words::count((nodes.len() - 40) as u64, "more node")) } } }
                    }
                }
            }
        }
        section {
            h2 { "Visual difference" }
            @if a.image.is_some() && b.image.is_some() {
                @let address = words::address("/compare/seen", [("refs", Some(format!("{},{}", a.reference, b.reference).as_str()))]);
                div data-seen=(address) { p.muted { a href=(address) { "Measure how much they differ" } } }
            } @else { p.muted { "One of them has no image." } }
        }
    }
}

/// Renders how much two images differ, in words; the measurements are folded away.
pub(super) fn seen(found: Option<&Result<Comparison, Error>>) -> Markup {
    let found = match found {
        Some(Ok(found)) => found,
        Some(Err(error)) => {
            let (short, what) = match error.kind {
                ErrorKind::NotFound => ("missing", "One of these images is missing on disk."),
                ErrorKind::Invalid => {
                    let what = "One of these cannot be compared by its pixels: it is a video, or an image that is damaged or cannot be decoded.";
                    return html! { div #seen data-short="–" { p.muted { (what) } } };
                }
                _ => ("damaged", "One of these images cannot be shown: its file is damaged or of an unknown type."),
            };
            return html! { div #seen data-short=(short) { p.fault { (what) } p.muted { "Import the original again to restore it." } } };
        }
        None => return html! { div #seen data-short="–" { p.muted { "One of them has no image." } } },
    };
    let percent = format!("{:.1} %", found.changed * 100.0);
    let outlined = found.bounds.filter(|_| found.same_shape);
    let area = outlined.map(|area| format!("{} {} {} {}", area.x, area.y, area.width, area.height));
    let rounded = (found.similarity * 10_000.0).round() / 10_000.0;
    let identical = found.changed == 0.0 && found.distance == 0 && found.same_shape;
    html! {
        div #seen data-box=[area.as_deref()] data-size={ (found.size.0) " " (found.size.1) } data-short=(if identical { "identical".to_owned() } else { format!("{} changed", short(found.changed)) }) {
            @if identical { p { "The images are identical." } }
            @else {
                dl.pairs {
                    dt { "Composition" } dd { (composition(found)) }
                    dt { "Colour" } dd { (colour(found)) }
                    dt { "Changed area" } dd { (percent) }
                }
                @if area.is_some() { p { button type="button" data-outline="" aria-pressed="false" { "Outline what changed" kbd data-shortcut="o" { "o" } } } }
            }
            @if !found.same_shape { p.muted { "Different aspect ratios: aligned at the centre; areas only one covers count as changed." } }
            @else if found.scaled { p.muted { "Different sizes: the smaller one was scaled to the larger." } }
            details { summary { "Measurements" } dl.pairs {
                dt { "Perceptual distance" } dd { (found.distance) " of 128" }
                dt { "Colour difference" } dd { (format!("{:.1}", found.colour_difference)) " (2 is just noticeable)" }
                dt { "SSIM" } dd { (rounded) }
            } }
        }
    }
}

fn composition(found: &Comparison) -> &'static str {
    match found.distance {
        _ if !found.same_shape => "another shape",
        _ if found.has_same_composition() => "same",
        distance if distance <= SIMILAR => "similar",
        _ => "different",
    }
}

fn colour(found: &Comparison) -> &'static str {
    match found.colour_difference {
        difference if difference <= SAME_COLOUR => "same",
        difference if difference <= Comparison::NEAR_COLOUR => "slightly changed",
        difference if difference <= STRONG_COLOUR => "changed",
        _ => "strongly changed",
    }
}

/// Returns a share as a percentage without false precision.
fn short(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { "< 1 %".to_owned() } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(distance: u32, colour_difference: f64, same_shape: bool) -> Comparison {
        Comparison {
            distance,
            colour_difference,
            similarity: 0.77,
            changed: 0.987,
            bounds: None,
            size: (768, 512),
            scaled: false,
            same_shape,
        }
    }

    #[test]
    fn words_never_contradict_the_numbers() {
        let text = |found: Comparison| seen(Some(&Ok(found))).into_string();
        let dusk = text(found(4, 30.0, true));
        assert!(dusk.contains("strongly changed") && dusk.contains("98.7 %") && !dusk.contains("nearly"), "{dusk}");
        assert!(text(found(4, 1.0, false)).contains("another shape"));
        assert_eq!((short(0.004), short(0.0), short(0.06)), ("< 1 %".into(), "0 %".into(), "6 %".into()));
    }
}
