//! `/compare?refs=…`: compares two to twelve images of any sessions. *Survey* shows all of them as large as the window
//! allows, with the parameter matrix below; *Pair* overlays two. The URL contains the set, the view, the pair and the
//! mode, so that a link shows the same. Scripts zoom, rate, drop and reorder; every change to the set is a new URL.

mod matrix;
mod pair;
mod sides;

use axum::extract::{Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::changes;
use super::frame::{Broken, Page, SearchBox, framed};
use crate::images::{Panel, Render};
use crate::model::diff::RecipeDiff;
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Error, ErrorKind};
use crate::workspace::Workspace;

use sides::{MAX_SIDES, Side, Sides};

/// The query parameters. Malformed numbers count as absent.
#[derive(Deserialize)]
pub(super) struct CompareParams {
    #[serde(default)]
    refs: String,
    #[serde(default)]
    a: Option<String>,
    #[serde(default)]
    b: Option<String>,
    #[serde(default)]
    view: Option<String>,
    /// The name of the set.
    #[serde(default)]
    name: Option<String>,
}

/// Handles `GET /compare`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Query(chosen): Query<CompareParams>,
) -> Result<Response, Broken> {
    let refs = chosen.refs.clone();
    let read = gallery.read(move |workspace, _| {
        let found = Sides::read(workspace, &refs);
        let ids: Vec<_> = found.sides.iter().map(|side| side.id).collect();
        // The lineage is only informative: if it is broken, the comparison is still shown.
        let (ancestor, steps) = workspace.common_ancestor(&ids).unwrap_or_default();
        let kinship = matrix::kinship(&found.sides, ancestor, &steps);
        Ok((found, kinship))
    });
    let (found, kinship) = read.await?;
    let name = chosen.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let title = name.unwrap_or("Compare");
    let page = Page { title, name: "compare", menu: "compare", typed: SearchBox::default() };
    if found.sides.is_empty() {
        return Ok(framed(&page, &empty(&found)));
    }
    let count = found.sides.len();
    let at = |text: &Option<String>, usual: usize| {
        text.as_deref().and_then(|text| text.parse::<usize>().ok()).filter(|at| *at < count).unwrap_or(usual)
    };
    let (a, b) = (at(&chosen.a, 0), at(&chosen.b, 1.min(count - 1)));
    let pair = match chosen.view.as_deref() {
        Some("pair") => count > 1,
        Some("survey") => false,
        _ => count == 2,
    };
    Ok(framed(&page, &shown(&found, (a, b), pair, name, kinship.as_deref())))
}

/// Handles `GET /compare/part?refs=A,B`: the differences between two images.
pub(super) async fn part(
    State(gallery): State<Gallery>,
    Query(chosen): Query<CompareParams>,
) -> Result<Response, Broken> {
    let found = gallery.read(move |workspace, _| Ok(Sides::read(workspace, &chosen.refs))).await?;
    let [a, b] = found.sides.as_slice() else { return Err(two_wanted().into()) };
    Ok(reply::html(pair::differences(a, b)))
}

/// Handles `GET /compare/seen?refs=A,B`: how much two images differ visually. Separate, since measuring takes a while.
pub(super) async fn seen(
    State(gallery): State<Gallery>,
    Query(chosen): Query<CompareParams>,
) -> Result<Response, Broken> {
    let read = gallery.read(move |workspace, _| {
        let found = Sides::read(workspace, &chosen.refs);
        let [a, b] = found.sides.as_slice() else { return Err(two_wanted()) };
        // An unreadable image is reported on the page and is not an error.
        let seen = a.image.zip(b.image).map(|(one, other)| Ok(workspace.compare_images(one.hash, other.hash)?));
        Ok((a.label.clone(), b.label.clone(), seen))
    });
    let (a, b, seen) = read.await?;
    let page = Page { title: "Visual difference", name: "seen", menu: "compare", typed: SearchBox::default() };
    let body = html! { main.plain #main tabindex="-1" { h1 { (a) " and " (b) } (pair::seen(seen.as_ref())) } };
    Ok(framed(&page, &body))
}

/// Handles `GET /compare/sheet.png?refs=…`: the set as one image, each labelled with its name and its differences.
pub(super) async fn sheet(
    State(gallery): State<Gallery>,
    Query(chosen): Query<CompareParams>,
) -> Result<Response, Broken> {
    let drawn = gallery.read(move |workspace, _| draw(workspace, &chosen.refs)).await?;
    let headers = [(CONTENT_TYPE, "image/png"), (CONTENT_DISPOSITION, "attachment; filename=\"retake-compare.png\"")];
    Ok((headers, drawn).into_response())
}

fn draw(workspace: &Workspace, refs: &str) -> Result<Vec<u8>, Error> {
    let found = Sides::read(workspace, refs);
    let first = found.sides.first();
    let panels: Vec<Panel> = found
        .sides
        .iter()
        .enumerate()
        .map(|(at, side)| {
            let stars = side.rating.map(|rating| format!("  {}", "★".repeat(rating.into()))).unwrap_or_default();
            let lines = match first.filter(|_| at > 0) {
                // Two spaces separate the parts of a summary.
                Some(first) => RecipeDiff::between(&first.recipe, &side.recipe)
                    .summary
                    .split("  ")
                    .map(|part| part.trim().to_owned())
                    .collect(),
                None => vec![side.recipe.prompt.chars().take(300).collect()],
            };
            Panel {
                image: side.image.map(|image| image.hash),
                absent: None,
                title: format!("{} {}{stars}", Side::letter(at), side.label),
                lines,
            }
        })
        .collect();
    let how = if panels.len() == 2 { Render::SideBySide } else { Render::Sheet };
    let sheet = workspace.render(how, &panels, &workspace.context())?;
    sheet.map(|sheet| sheet.png()).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "none of these iterations has an image", "choose iterations with images")
    })
}

fn two_wanted() -> Error {
    Error::new(ErrorKind::Invalid, "two images are compared here", "name two that exist")
}

fn shown(found: &Sides, (a, b): (usize, usize), in_pair: bool, name: Option<&str>, kinship: Option<&str>) -> Markup {
    let sides = &found.sides;
    let refs = sides.iter().map(|side| side.reference.as_str()).collect::<Vec<_>>().join(",");
    let mode = |name: &str, text: &str, key: &str| {
        html! { button type="button" data-mode-choice=(name) title=(text) data-shortcut=(key) aria-pressed=(name == "side") { (text) } }
    };
    let view = |name: &str, text: &str, on: bool| {
        html! { button type="button" data-view-choice=(name) aria-pressed=(on) disabled[sides.len() < 2 && name == "pair"] { (text) } }
    };
    html! {
        main.compare #main tabindex="-1" data-view=(if in_pair { "pair" } else { "survey" }) data-a=(a) data-b=(b) data-name=[name] {
            header.cbar {
                h1 dir="auto" { (name.or(found.session()).unwrap_or("Compare")) } span.muted { (sides.len()) }
                div.choice role="group" aria-label="View" { (view("survey", "Survey", !in_pair)) (view("pair", "Pair", in_pair)) }
                div.choice.modes role="group" aria-label="How to compare" {
                    (mode("side", "Side by side", "s")) (mode("slider", "Swipe", "l")) (mode("onion", "Onion skin", "k")) (mode("blink", "Blink", "b")) (mode("difference", "Difference", "d")) (mode("heat", "Heat map", "h"))
                }
                label.amount hidden { span { "Opacity" } input #amount type="range" min="0" max="100" value="50"; }
                span.spring {}
                div.zoom role="group" aria-label="Zoom" {
                    button.icon type="button" data-zoom="out" aria-label="Zoom out" title="Zoom out" data-shortcut="-" { "−" }
                    button.level type="button" data-zoom="actual" title="Show at 100 %" data-shortcut="z" { "Fit" }
                    button.icon type="button" data-zoom="in" aria-label="Zoom in" title="Zoom in" data-shortcut="+" { "+" }
                    button type="button" data-zoom="fit" title="Fit" data-shortcut="f" { "Fit" }
                }
                button type="button" data-add="" { "Add…" }
                details.drop.sets { summary { "Set" } div {
                    button type="button" data-set="save" { "Save this set…" }
                    button type="button" data-set="link" { "Copy link" }
                    a.button href=(words::address("/compare/sheet.png", [("refs", Some(refs.as_str()))])) download="" { "Download as PNG" }
                    div #sets {}
                } }
            }
            (skipped(found))
            @if sides.len() == 1 { p.alone { "Add one more to compare: " button type="button" data-add="" { "Add…" } } }
            div.tiles #tiles role="group" aria-label="Compared images" {
                @for (at, side) in sides.iter().enumerate() { (tile(at, side, sides.first().filter(|_| at > 0))) }
            }
            div.pairing {
                (pair::desk(sides, a, b))
            }
            div.below {
                div.facts-of-pair #facts aria-label="What differs between A and B" role="region" {
                    @if let (true, Some(a), Some(b)) = (in_pair, sides.get(a), sides.get(b)) { (pair::differences(a, b)) }
                }
                @if sides.len() > 1 {
                    div.matrix-head { h2 { "Parameters" } label.check { input #only type="checkbox" checked; " Only differences" } }
                    (matrix::matrix(sides, kinship))
                }
            }
        }
    }
}

/// Renders an image of the survey with its controls, captioned with what differs from the first.
fn tile(at: usize, side: &Side, first: Option<&Side>) -> Markup {
    let differs = first.map(|first| changes::readable(&RecipeDiff::between(&first.recipe, &side.recipe).summary));
    let rating = side.rating.unwrap_or(0);
    let letter = Side::letter(at);
    html! {
        div.tile data-reference=(side.reference) data-label=(side.label) data-short=(side.short) data-rating=(rating) data-image=[side.image.map(|image| image.hash)]
            data-ratio=[side.image.and_then(|image| image.size).map(|(width, height)| f64::from(width) / f64::from(height))] {
            div.clip { (pair::image(side)) }
            div.caption draggable="true" {
                button.letter type="button" data-promote="" aria-label={ "Make " (side.label) " the first" } title="Make it A" data-shortcut="ArrowUp" { (letter) }
                a.what href=(side.address()) title={ (side.label) @if let Some(differs) = &differs { ": " (differs) } } dir="auto" { (side.short) @if let Some(differs) = &differs { " · " (differs) } }
                span.stars role="group" aria-label={ "Rating of " (side.label) } {
                    @for star in 1..=5_u8 { button.on[star <= rating] type="button" data-rate=(star) aria-label={ (star) " of 5" } aria-pressed=(star == rating) { "★" } }
                }
                button.quiet type="button" data-drop="" aria-label={ "Remove " (side.label) } title="Remove" data-shortcut="x" { "×" }
            }
        }
    }
}

fn skipped(found: &Sides) -> Markup {
    let count = found.skipped.len();
    html! {
        @if count > 0 {
            details.skipped data-skipped=(found.skipped.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")) {
                summary { (words::count(count as u64, "image")) " of this link " @if count == 1 { "is" } @else { "are" } " missing and left out" }
                ul { @for (name, why) in &found.skipped { li { code { (name) } ": " (why) } } }
            }
        }
    }
}

fn empty(found: &Sides) -> Markup {
    html! {
        main.plain-compare #main tabindex="-1" data-empty="" {
            (skipped(found))
            div.empty {
                h1 { "Nothing to compare yet" }
                p { "Choose " strong { "Compare" } " beside any image " kbd data-shortcut="c" { "c" } ", or select several. From any sessions, up to " (MAX_SIDES) "." }
                p.row { a.button href="/" { "Sessions" } a.button href="/search" { "Images" } }
                div #sets {}
            }
        }
    }
}
