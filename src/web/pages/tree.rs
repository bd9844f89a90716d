//! `/sessions/{id}/tree`: an overview of a session as a graph from left to right: a lane for each branch, a link for
//! each image, a dot for each failure. Rendered on the server as SVG, so that it needs no scripts or inline styles.

use std::collections::HashSet;

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::film;
use super::frame::Broken;
use super::session_head::{self, NamedSession, View, session_id, summary_of, worded};
use crate::model::OutcomeStatus;
use crate::web::state::Gallery;
use crate::web::words;
use crate::workspace::{Mark, Strip, StripStep};

/// The maximum number of iterations drawn; of a longer session, the newest.
const MAX_STEPS: u32 = 500;
/// The distance between two iterations, and between two lanes.
const STEP: u32 = 112;
const LANE: u32 = 108;
/// The size of an image, and the margin around the drawing.
const WIDTH: u32 = 84;
const HEIGHT: u32 = 56;
/// The radius of the dot of a failure.
const DOT: u32 = 7;
const MARGIN: u32 = 24;
/// The maximum number of characters in a caption line.
const MAX_CAPTION: usize = 14;

/// Handles `GET /sessions/{id}/tree`.
pub(super) async fn page(State(gallery): State<Gallery>, Path(id): Path<String>) -> Result<Response, Broken> {
    let name = id.clone();
    let read = gallery.ask(move |workspace, _| {
        let read = session_id(&id).and_then(|id| {
            let from = workspace.summary(id)?.iteration_count().saturating_sub(MAX_STEPS);
            Ok((from, workspace.strip(id, from, MAX_STEPS)?))
        });
        Ok(read.map_err(|error| (error, summary_of(workspace, &id))))
    });
    let (from, strip) = read.await?.map_err(|(error, found)| worded(error, &name, found.as_ref()))?;
    let named = NamedSession::new(strip.session.clone(), strip.subject.as_deref());
    let row = &named.row;
    let body = html! {
        main.page-tree #main tabindex="-1" data-session=(row.id) data-name=(named.name) data-archived[row.archived] {
            div.bar {
                span.muted { @match branches(&strip) { 0 => {}, 1 => "1 branch · ", count => { (words::grouped(count as u64)) " branches · " } } "Choose an image to open it" @if from > 0 { " · the last " (words::grouped(MAX_STEPS.into())) } }
                span.spring {}
                label.size { span { "Size" } input #size type="range" min="25" max="250" step="5" value="100"; }
            }
            section.graph #graph tabindex="0" aria-label="Tree of iterations" { (drawing(&strip, from)) }
        }
    };
    let title = format!("{} · Tree", named.name);
    Ok(session_head::framed(&named, View::Tree, row.current_iteration_index(), &title, &body))
}

/// Returns the number of branches besides the main line. Each ends in an iteration that nothing is based on; several may
/// share a lane.
fn branches(strip: &Strip) -> usize {
    let parents: HashSet<u32> = strip
        .steps
        .iter()
        .filter_map(|step| step.parent.zip(step.parent_lane))
        .map(|(parent, _)| parent.index)
        .collect();
    strip.steps.iter().filter(|step| !parents.contains(&step.index)).count().saturating_sub(1)
}

fn drawing(strip: &Strip, from: u32) -> Markup {
    let count = strip.session.iteration_count().saturating_sub(from);
    let width = 2 * MARGIN + count.saturating_mul(STEP);
    let height = 2 * MARGIN + strip.lanes.saturating_mul(LANE);
    html! {
        svg #drawing width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="group" aria-label="Iterations" {
            g.lines aria-hidden="true" { @for step in &strip.steps { (line(strip, step, from)) } }
            @for step in &strip.steps { (node(strip, step, from)) }
        }
    }
}

/// Returns the top left corner of an iteration's image.
fn place(index: u32, lane: u32, from: u32) -> (u32, u32) {
    (MARGIN + index.saturating_sub(from) * STEP, MARGIN + lane * LANE)
}

/// Returns how far an iteration's drawing is from the left and right edges of its place: a failure is only a dot.
fn inset(step: &StripStep) -> u32 {
    if is_dot(step) { WIDTH / 2 - DOT } else { 0 }
}

fn is_dot(step: &StripStep) -> bool {
    step.images.is_empty() && step.outcome != OutcomeStatus::Succeeded
}

/// Draws the line from the parent: along its lane, then down or up just before the child.
fn line(strip: &Strip, step: &StripStep, from: u32) -> Markup {
    let parent = step.parent.zip(step.parent_lane).filter(|(parent, _)| parent.index >= from);
    html! {
        @if let Some((parent, lane)) = parent {
            @let (start_x, start_y) = place(parent.index, lane, from);
            @let (x, y) = place(step.index, step.lane, from);
            @let before = strip.steps.iter().find(|before| before.index == parent.index).map_or(0, inset);
            @let (start_x, start_y, x, y) = (start_x + WIDTH - before, start_y + HEIGHT / 2, x + inset(step), y + HEIGHT / 2);
            @if start_y == y {
                path data-hue=(step.lane % 5) d={ "M" (start_x) " " (start_y) "H" (x) } {}
            } @else {
                // Route the line between two lanes, so that it does not cross an image.
                @let between = if y >= start_y { start_y + LANE - HEIGHT / 2 - 8 } else { start_y - HEIGHT / 2 - 8 };
                path data-hue=(step.lane % 5) d={ "M" (start_x) " " (start_y) "h" (before + 10) "V" (between) "H" (x - inset(step) - 14) "V" (y) "H" (x) } {}
            }
        }
    }
}

fn node(strip: &Strip, step: &StripStep, from: u32) -> Markup {
    let (x, y) = place(step.index, step.lane, from);
    let caption = film::caption(step);
    let rating = step.rating.map(|rating| format!(", {rating} stars")).unwrap_or_default();
    let state = match (step.mark, step.outcome) {
        (Mark::Rejected, _) => ", rejected",
        (_, OutcomeStatus::Failed) => ", failed",
        (_, OutcomeStatus::Refused) => ", refused",
        _ => "",
    };
    html! {
        a href={ "/sessions/" (strip.session.id) "/" (step.index) } data-mark=(film::letter(step.mark)) {
            title { "#" (step.index) " · " (step.change.as_deref().unwrap_or(&step.prompt)) (rating) (state) }
            @match step.images.first() {
                Some(image) => {
                    rect.place x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
                    image href={ "/thumbs/" (image.hash) } x=(x) y=(y) width=(WIDTH) height=(HEIGHT) preserveAspectRatio="xMidYMid slice" {}
                }
                None if is_dot(step) => circle.dot cx=(x + WIDTH / 2) cy=(y + HEIGHT / 2) r=(DOT) {},
                None => {
                    rect.place x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
                    text.words aria-hidden="true" x=(x + WIDTH / 2) y=(y + HEIGHT / 2 + 4) text-anchor="middle" { "no image" }
                }
            }
            rect.ring x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            @if let Some(rating) = step.rating {
                rect.behind x=(x) y=(y + HEIGHT - 16) width=(u32::from(rating) * 10 + 8) height="16" rx="4" {}
                text.stars-text aria-hidden="true" x=(x + 4) y=(y + HEIGHT - 5) { @for _ in 0..rating { "★" } }
            }
            text.words aria-hidden="true" x=(x) y=(y + HEIGHT + 15) { (shortened(&caption)) }
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CAPTION) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}
