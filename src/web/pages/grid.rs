//! `/sessions/{id}/grid`: every image of a session, uncropped, each captioned with its changes.

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::film;
use super::frame::Broken;
use super::session_head::{self, NamedSession, View, session_id, summary_of, worded};
use crate::model::OutcomeStatus;
use crate::web::pictures;
use crate::web::state::Gallery;
use crate::workspace::{Strip, StripStep};

/// The number of iterations on a page.
const PAGE: u32 = 200;

/// The query parameters.
#[derive(Deserialize)]
pub(super) struct GridParams {
    #[serde(default)]
    from: Option<String>,
}

/// Handles `GET /sessions/{id}/grid`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(window): Query<GridParams>,
) -> Result<Response, Broken> {
    let name = id.clone();
    let from = window.from.and_then(|from| from.parse::<u32>().ok()).unwrap_or(0);
    let read = gallery.ask(move |workspace, _| {
        let read = session_id(&id).and_then(|id| Ok(workspace.strip(id, from, PAGE)?));
        Ok(read.map_err(|error| (error, summary_of(workspace, &id))))
    });
    let strip = read.await?.map_err(|(error, found)| worded(error, &name, found.as_ref()))?;
    let named = NamedSession::new(strip.session.clone(), strip.subject.as_deref());
    let row = &named.row;
    let next = from.saturating_add(PAGE);
    let body = html! {
        main.page-grid #main tabindex="-1" data-session=(row.id) data-name=(named.name) data-count=(row.iteration_count())
            data-marks=(film::marks(&strip)) data-archived[row.archived] {
            div.bar {
                label { span.sr { "Show" }
                    select #filter {
                        option value="takes" { "All" }
                        option value="unreviewed" { "Unreviewed" }
                        option value="liked" { "★ 4 and up" }
                        option value="everything" { "With rejected" }
                    }
                }
                label.size { span { "Size" } input #size type="range" min="120" max="480" step="20" value="240"; }
                span.spring {}
                span.muted #shown-count role="status" {}
            }
            div.tiles #tiles data-show="takes" { (tiles(&strip)) }
            p.muted #none hidden { "Nothing matches this filter." }
            @if next < row.iteration_count() {
                p.row { a.button #next rel="next" href={ "/sessions/" (row.id) "/grid?from=" (next) } { "Show more" } }
            }
            p.sr #announce role="status" aria-live="polite" {}
        }
    };
    let title = format!("{} · Grid", named.name);
    Ok(session_head::framed(&named, View::Grid, row.current_iteration_index(), &title, &body))
}

fn tiles(strip: &Strip) -> Markup {
    let id = strip.session.id;
    html! {
        @for step in &strip.steps {
            @let address = format!("/sessions/{id}/{}", step.index);
            @for number in 0..step.images.len().max(1) { (tile(&address, step, number)) }
        }
    }
}

fn tile(address: &str, step: &StripStep, number: usize) -> Markup {
    let image = step.images.get(number);
    let caption = film::caption(step);
    let rating = image.map_or(step.rating, |image| image.rating);
    let many = step.images.len();
    let address = if number == 0 { address.to_owned() } else { format!("{address}/{number}") };
    let (width, height) = image.and_then(|image| image.size).unwrap_or((1, 1));
    html! {
        a.tile href=(address) data-index=(step.index) data-image=(number) data-hash=[image.map(|image| image.hash)] data-mark=(film::image_letter(step.mark, rating))
            data-rating=[rating] title={ "#" (step.index) " · " (step.change.as_deref().unwrap_or(&step.prompt)) } {
            span.pic data-video=[image.filter(|image| pictures::is_played(&image.mime_type)).map(|image| image.hash)] {
                @match (image, step.outcome) {
                    (Some(image), _) => { img src={ "/thumbs/" (image.hash) } alt="" width=(width) height=(height) loading="lazy" decoding="async"; }
                    (None, OutcomeStatus::Failed) => span.no { "failed" },
                    (None, OutcomeStatus::Refused) => span.no { "refused" },
                    (None, OutcomeStatus::Succeeded) => span.no { "no image" },
                }
                (film::number(step.index))
                @if many > 1 { span.many { (number + 1) "/" (many) } }
                (film::stars(rating))
            }
            span.caption dir="auto" { (caption) }
        }
    }
}
