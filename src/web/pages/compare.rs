//! `/compare?refs=…`: two to twelve iterations of any sessions. Two are looked at, with what differs in their recipes; scripts
//! step through the others and lay the pictures over each other.

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::changes;
use super::frame::{Broken, Page, SearchBox, framed};
use crate::model::diff::RecipeDiff;
use crate::model::{Hash, IterationId, OutcomeStatus, Recipe};
use crate::web::pictures;
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, Error, ErrorKind, VisualView};
use crate::workspace::Workspace;

/// The most that are compared at once.
const MOST: usize = 12;
/// Up to this distance search finds a picture similar.
const SIMILAR: u32 = 40;

/// Which iterations, as the address says it.
#[derive(Deserialize)]
pub(super) struct Chosen {
    #[serde(default)]
    refs: String,
    #[serde(default)]
    a: Option<usize>,
    #[serde(default)]
    b: Option<usize>,
}

/// `GET /compare`.
pub(super) async fn page(State(gallery): State<Gallery>, Query(chosen): Query<Chosen>) -> Result<Response, Broken> {
    let page = Page { title: "Compare", name: "compare", typed: SearchBox::default() };
    let names = names(&chosen.refs);
    if names.is_empty() {
        return Ok(framed(&page, &empty()));
    }
    let sides = gallery.ask(move |workspace, _| read(workspace, &names)).await?;
    let at = |index: Option<usize>, usual: usize| sides.get(index.unwrap_or(usual)).or_else(|| sides.get(usual));
    let (Some(a), Some(b)) = (at(chosen.a, 0), at(chosen.b, 1)) else {
        return Err(Error::new(
            ErrorKind::Invalid,
            "there is only one iteration to compare",
            "choose at least two: c puts the one you look at into the tray",
        )
        .into());
    };
    Ok(framed(&page, &desk(&sides, a, b)))
}

/// `GET /compare/part?refs=A,B`: what differs.
pub(super) async fn part(State(gallery): State<Gallery>, Query(chosen): Query<Chosen>) -> Result<Response, Broken> {
    let names = names(&chosen.refs);
    let sides = gallery.ask(move |workspace, _| read(workspace, &names)).await?;
    let [a, b] = sides.as_slice() else { return Err(two_wanted().into()) };
    Ok(reply::html(differences(a, b)))
}

/// `GET /compare/seen?refs=A,B`: how much the pictures differ to the eye. By itself, since it takes a while.
pub(super) async fn seen(State(gallery): State<Gallery>, Query(chosen): Query<Chosen>) -> Result<Response, Broken> {
    let names = names(&chosen.refs);
    let read = gallery.ask(move |workspace, _| {
        let sides = read(workspace, &names)?;
        let [a, b] = sides.as_slice() else { return Err(two_wanted()) };
        // One of the two that cannot be read is something to say and nothing to fail on.
        let seen = a.image.zip(b.image).map(|(one, other)| {
            let compared = workspace.compare_images(one, other).map(VisualView::from);
            compared.map_err(|error| pictures::without_path(error.into(), "of one of the two"))
        });
        Ok((a.id, b.id, seen))
    });
    let (a, b, seen) = read.await?;
    let page = Page { title: "To the eye", name: "seen", typed: SearchBox::default() };
    let body = html! { main.plain #main tabindex="-1" { h1 { (a) " and " (b) } (to_the_eye(seen.as_ref())) } };
    Ok(framed(&page, &body))
}

/// An iteration that is compared.
struct Side {
    id: IterationId,
    recipe: Recipe,
    image: Option<Hash>,
    rating: Option<u8>,
    outcome: OutcomeStatus,
    at: crate::model::Timestamp,
}

fn two_wanted() -> Error {
    Error::new(ErrorKind::Invalid, "two iterations are compared", "name two")
}

fn names(refs: &str) -> Vec<String> {
    refs.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn read(workspace: &Workspace, names: &[String]) -> Result<Vec<Side>, Error> {
    if names.len() > MOST {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} iterations are too many to compare", names.len()),
            format!("choose 2 to {MOST}"),
        ));
    }
    let side = |name: &String| {
        let id = Api::new(workspace).resolve(name)?;
        let state = workspace.state(id)?;
        let iteration = state.iteration;
        Ok(Side {
            id,
            image: iteration.images.first().map(|image| image.hash),
            recipe: iteration.recipe,
            rating: state.annotation.rating,
            outcome: iteration.outcome.status,
            at: iteration.created_at,
        })
    };
    names.iter().map(side).collect()
}

fn desk(sides: &[Side], a: &Side, b: &Side) -> Markup {
    let mode = |name: &str, text: &str| {
        html! { button type="button" data-mode-choice=(name) aria-pressed=(name == "side") { (text) } }
    };
    let pane = |side: &str, shown: &Side| {
        html! {
            div.pane.(side) {
                div.clip {
                    img.whole src=[shown.image.map(|hash| format!("/images/{hash}"))] alt={ (side.to_uppercase()) ": " (shown.id) } draggable="false" hidden[shown.image.is_none()];
                    p.gone hidden[shown.image.is_some()] { "No image" }
                    span.outline hidden {}
                    @if side == "b" { img.heat alt="Where B differs from A" draggable="false" hidden; }
                }
                span.label { (side.to_uppercase()) " · " (shown.id) }
            }
        }
    };
    html! {
        main #main tabindex="-1" data-refs=(sides.len()) {
            header.head {
                h1 { "Compare" }
                span.muted { (words::count(sides.len() as u64, "iteration")) }
                span.spring {}
                div.choice role="group" aria-label="How to compare" {
                    (mode("side", "Side by side")) (mode("slider", "Slider")) (mode("blink", "Blink")) (mode("difference", "Difference")) (mode("heat", "Heat map"))
                }
            }
            div.desk #desk data-mode="side" role="group" aria-label="Images" {
                (pane("a", a)) (pane("b", b))
                button.handle type="button" role="slider" aria-label="How much of B" aria-valuemin="0" aria-valuemax="100" aria-valuenow="50" {}
            }
            ol.set #set aria-label="Compared iterations" {
                @for side in sides {
                    li {
                        button type="button" data-reference=(side.id) data-image=[side.image] title="Show as B; with Shift, pin as A" {
                            span.pic {
                                @if let Some(image) = side.image { img src={ "/thumbs/" (image) } alt=""; }
                                span.side hidden {}
                            }
                            span.ref title=(side.id) { "#" (side.id.index) " · " (side.id.session.to_string().trim_start_matches("session-")) }
                        }
                    }
                }
            }
            aside.facts #facts aria-label="What differs" aria-live="polite" tabindex="0" { (differences(a, b)) }
        }
    }
}

fn differences(a: &Side, b: &Side) -> Markup {
    let diff = RecipeDiff::between(&a.recipe, &b.recipe);
    let head = |name: &str, side: &Side| {
        html! {
            tr {
                th scope="row" { (name) }
                td { a href={ "/sessions/" (side.id.session) "/" (side.id.index) } { (side.id) } }
                td.number { @if let Some(rating) = side.rating { (rating) " ★" } }
                td.number { (words::time(side.at)) @match side.outcome { OutcomeStatus::Succeeded => {}, OutcomeStatus::Failed => " failed", OutcomeStatus::Refused => " refused" } }
            }
        }
    };
    html! {
        section { table { tbody { (head("A", a)) (head("B", b)) } } }
        @if a.image.is_some() && b.image.is_some() {
            @let address = words::address("/compare/seen", [("refs", Some(format!("{},{}", a.id, b.id).as_str()))]);
            section { h2 { "To the eye" } div data-seen=(address) { p.muted { a href=(address) { "Measure how much they differ" } } } }
        }
        section {
            h2 { "Prompt" }
            @if a.recipe.prompt == b.recipe.prompt { p.muted { "The same in both." } p.prompt.small { (a.recipe.prompt) } }
            @else { (changes::inline(&a.recipe.prompt, &b.recipe.prompt)) }
        }
        @if diff.negative_prompt.is_some() {
            section { h2 { "Negative prompt" } (changes::inline(a.recipe.negative_prompt.as_deref().unwrap_or_default(), b.recipe.negative_prompt.as_deref().unwrap_or_default())) }
        }
        section {
            h2 { "Parameters" }
            @if diff.parameters.is_empty() && diff.loras.is_empty() && diff.nodes.is_empty() { p.muted { "No difference." } }
            @else {
                table {
                    thead { tr { th scope="col" { "" } th scope="col" { "A" } th scope="col" { "B" } } }
                    tbody {
                        @for change in &diff.parameters {
                            tr { th scope="row" { (changes::name(&change.name)) } td { @if let Some(old) = &change.old { (changes::value(old)) } } td { @if let Some(new) = &change.new { (changes::value(new)) } } }
                        }
                        @for lora in &diff.loras {
                            tr { th scope="row" { "LoRA " (lora.name) } td { @if let Some(old) = lora.old_weight { (old) } } td { @if let Some(new) = lora.new_weight { (new) } } }
                        }
                        @for node in diff.nodes.iter().take(40) {
                            tr { th scope="row" { (node.title.as_deref().unwrap_or(&node.class_type)) @if let Some(input) = &node.input { " " (input) } } td { @if let Some(old) = &node.old { (changes::value(old)) } } td { @if let Some(new) = &node.new { (changes::value(new)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn to_the_eye(seen: Option<&Result<VisualView, Error>>) -> Markup {
    let seen = match seen {
        Some(Ok(seen)) => seen,
        Some(Err(error)) => return html! { div #seen { p.fault { (error.message) } p.muted { (error.hint) } } },
        None => return html! { div #seen { p.muted { "One of the two has no image." } } },
    };
    let percent = format!("{:.1} %", seen.changed_area * 100.0);
    let alike = match seen.perceptual_distance {
        0 if seen.changed_area == 0.0 => "the same image",
        _ if seen.nearly_same => "nearly the same image",
        _ if seen.perceptual_distance <= SIMILAR => "a similar image",
        _ => "a different image",
    };
    let outlined = seen.changed_box.filter(|_| !seen.different_shapes);
    let area = outlined.map(|area| format!("{} {} {} {}", area.x, area.y, area.width, area.height));
    html! {
        div #seen data-box=[area] data-size={ (seen.width) " " (seen.height) } {
            dl.pairs {
                dt { "Perceptual distance" } dd { (seen.perceptual_distance) " of 128, " (alike) }
                dt { "SSIM" } dd { (seen.ssim) }
                dt { "Changed area" } dd { (percent) }
                @if let Some(area) = seen.changed_box { dt { "Within" } dd { (area.width) " × " (area.height) " at " (area.x) ", " (area.y) } }
            }
            @if seen.different_shapes { p.muted { "Their shapes differ: centred on each other, what only one covers counts as changed." } }
            @else if seen.scaled { p.muted { "Their sizes differ: the smaller was scaled to the larger." } }
        }
    }
}

fn empty() -> Markup {
    html! {
        main.plain-compare #main tabindex="-1" {
            div.empty {
                h2 { "Nothing to compare yet" }
                p { "Open a session and press " kbd { "c" } " on what you want to see side by side. From any sessions, up to twelve." }
                p { a.button href="/" { "All sessions" } }
            }
        }
    }
}
