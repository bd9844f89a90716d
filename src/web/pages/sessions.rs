//! `/`: all sessions as a shelf of stacks. The wall is rendered in parts of [`PART`] cards, the first with the page;
//! scripts request the others by offset as they come into view. The order and the months come from an in-memory
//! overview, so that every part costs the same.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed};
use super::statistics::MAX_COSTED;
use super::{card, changes, recovery};
use crate::model::{Status, Summary};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, Error, ErrorKind, RecoveryNotice};
use crate::workspace::{Cover, Overview, Selection, Workspace};

/// The number of cards in a part.
pub(super) const PART: usize = 60;
/// The number of sessions in the *Continue* row.
const CONTINUED: usize = 4;

/// The query parameters. Malformed ones count as absent, since people type and truncate URLs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Wall {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    sort: Option<String>,
    #[serde(default)]
    project: Option<String>,
    /// The offset of the first card.
    #[serde(default)]
    from: Option<String>,
}

/// The sort orders: their names in the URL, and in the menu.
const SORTS: [(&str, &str); 5] =
    [("recent", "Recent"), ("oldest", "Oldest"), ("name", "Name"), ("takes", "Most takes"), ("cost", "Cost")];

/// Handles `GET /`.
pub(super) async fn page(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let asked = wall.clone();
    let overview = gallery.overview();
    let read = gallery.read(move |workspace, _| {
        let part = WallPart::read(workspace, &overview, &asked)?;
        let to_continue = if asked.is_plain() { part.continued() } else { Vec::new() };
        Ok((part, to_continue, Api::new(workspace).recovery_notice()?))
    });
    let (part, to_continue, notice) = read.await?;
    // A search from here finds sessions among those shown.
    let choices = [("by", Some("session")), ("status", wall.status.as_deref()), ("project", wall.project.as_deref())];
    let carried: Vec<(&str, &str)> = choices.into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let typed = SearchBox { query: "", carried: &carried, emptied: &wall.address() };
    let body = shown(&wall, &part, &to_continue, notice.as_ref());
    Ok(framed(&Page { title: "Sessions", name: "sessions", menu: "sessions", typed }, &body))
}

/// Handles `GET /sessions/part?from=…`: more cards.
pub(super) async fn part(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let overview = gallery.overview();
    let part = gallery.read(move |workspace, _| WallPart::read(workspace, &overview, &wall)).await?;
    let headers = [(HeaderName::from_static("x-total"), part.total.to_string())];
    Ok((headers, reply::html(part.cards())).into_response())
}

/// Handles `GET /sessions/marks`: the months of the shelf in order, each with its number of sessions.
pub(super) async fn marks(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let overview = gallery.overview();
    let months = gallery.read(move |workspace, _| {
        let selection = wall.select(workspace, &overview)?;
        let mut months = match wall.sort() {
            "recent" | "oldest" => selection.months.clone(),
            _ => Vec::new(),
        };
        if wall.sort() == "oldest" {
            months.reverse();
        }
        Ok(months)
    });
    Ok(Json(months.await?).into_response())
}

impl Wall {
    fn sort(&self) -> &str {
        let known = |sort: &&str| SORTS.iter().any(|(name, _)| name == sort);
        self.sort.as_deref().filter(known).unwrap_or("recent")
    }

    fn project(&self) -> Option<&str> {
        self.project.as_deref().filter(|project| !project.is_empty())
    }

    fn from(&self) -> usize {
        self.from.as_deref().and_then(|from| from.parse().ok()).unwrap_or(0)
    }

    fn select(&self, workspace: &Workspace, overview: &Overview) -> Result<Arc<Selection>, Error> {
        Ok(overview.select(workspace, status_of(self.status.as_deref())?, self.project())?)
    }

    /// Returns whether this is the default shelf: all active sessions, newest first.
    fn is_plain(&self) -> bool {
        let active = matches!(status_of(self.status.as_deref()), Ok(Status::Active));
        active && self.sort() == "recent" && self.project().is_none() && self.from() == 0
    }

    /// Returns the URL of this wall.
    fn address(&self) -> String {
        let Wall { status, sort, project, .. } = self;
        let parts = [("status", status), ("sort", sort), ("project", project)];
        words::address("/", parts.map(|(name, value)| (name, value.as_deref())))
    }

    /// Returns the URL of this wall with a changed parameter.
    fn with(&self, change: impl FnOnce(&mut Wall)) -> String {
        let mut wall = self.clone();
        change(&mut wall);
        wall.address()
    }
}

/// Parses the status in a URL.
pub(super) fn status_of(text: Option<&str>) -> Result<Status, Error> {
    match text.filter(|text| !text.is_empty()) {
        None | Some("active") => Ok(Status::Active),
        Some("archived") => Ok(Status::Archived),
        Some("all") => Ok(Status::All),
        Some(_) => Err(Error::new(ErrorKind::Invalid, "unknown status", "start from all sessions")),
    }
}

/// Renders the choice between active and archived sessions; `address` returns the URL of the page with another status.
pub(super) fn status_choice(now: Option<&str>, address: impl Fn(Option<&str>) -> String) -> Markup {
    let now = now.filter(|now| *now != "active" && !now.is_empty());
    html! {
        nav.choice aria-label="Which sessions" {
            @for (value, text) in [(None, "Active"), (Some("archived"), "Archived"), (Some("all"), "All")] {
                a href=(address(value)) aria-current=[(now == value).then_some("true")] { (text) }
            }
        }
    }
}

/// Some cards of the wall.
struct WallPart {
    cards: Vec<(Arc<Summary>, Option<Arc<Cover>>)>,
    total: usize,
    from: usize,
    /// Whether dates are shown as headings.
    dated: bool,
}

impl WallPart {
    fn read(workspace: &Workspace, overview: &Overview, wall: &Wall) -> Result<WallPart, Error> {
        let selection = wall.select(workspace, overview)?;
        let (total, from) = (selection.rows.len(), wall.from());
        let rows: Vec<Arc<Summary>> = match wall.sort() {
            "oldest" => selection.rows.iter().rev().skip(from).take(PART).cloned().collect(),
            "name" => selection.by_name().iter().skip(from).take(PART).cloned().collect(),
            "takes" => most_takes(&selection.rows, from, PART),
            "cost" => by_cost(workspace, &selection.rows)?.into_iter().skip(from).take(PART).collect(),
            _ => selection.rows.iter().skip(from).take(PART).cloned().collect(),
        };
        let covers = overview.covers(workspace, &rows)?;
        let dated = matches!(wall.sort(), "recent" | "oldest");
        Ok(WallPart { cards: rows.into_iter().zip(covers).collect(), total, from, dated })
    }

    /// Returns the sessions to continue: the last few that have an image.
    fn continued(&self) -> Vec<Continued> {
        // With so few sessions, the shelf itself shows the same.
        if self.total <= CONTINUED {
            return Vec::new();
        }
        let pictured = self.cards.iter().filter_map(|(row, cover)| {
            let cover = cover.as_ref().filter(|cover| cover.image.is_some())?;
            Some((Arc::clone(row), Arc::clone(cover)))
        });
        pictured.take(CONTINUED).collect()
    }

    fn cards(&self) -> Markup {
        let mut day = String::new();
        html! {
            @for (row, cover) in &self.cards {
                @let today: String = row.last_modified_at.to_string().chars().take(10).collect();
                @let is_new = self.dated && today != day;
                @if is_new { ({ day.clone_from(&today); "" }) }
                (card::session(row, cover.as_deref(), is_new.then_some(today.as_str())))
            }
        }
    }
}

/// Returns a part of the sessions by their number of iterations, highest first, without sorting all of them.
fn most_takes(rows: &[Arc<Summary>], from: usize, count: usize) -> Vec<Arc<Summary>> {
    let mut order: Vec<(Reverse<u32>, usize)> =
        rows.iter().enumerate().map(|(at, row)| (Reverse(row.iteration_count()), at)).collect();
    let end = from.saturating_add(count).min(order.len());
    if end < order.len() {
        order.select_nth_unstable(end);
    }
    order.truncate(end);
    order.sort_unstable();
    order.into_iter().skip(from).filter_map(|(_, at)| rows.get(at).cloned()).collect()
}

/// Sorts sessions by cost, highest first. If there are very many, only the newest are read, and the rest follow in
/// their original order.
fn by_cost(workspace: &Workspace, rows: &[Arc<Summary>]) -> Result<Vec<Arc<Summary>>, Error> {
    let (newest, rest) = rows.split_at(rows.len().min(MAX_COSTED));
    let mut costed: Vec<(f64, &Arc<Summary>)> = Vec::with_capacity(newest.len());
    for row in newest {
        let costs = workspace.cost(row.id)?;
        costed.push((costs.iter().map(|cost| cost.amount).fold(0.0, f64::max), row));
    }
    costed.sort_by(|one, other| other.0.total_cmp(&one.0));
    Ok(costed.into_iter().map(|(_, row)| row).chain(rest).cloned().collect())
}

/// A session to continue, with its cover.
type Continued = (Arc<Summary>, Arc<Cover>);

fn shown(wall: &Wall, part: &WallPart, to_continue: &[Continued], notice: Option<&RecoveryNotice>) -> Markup {
    let status = wall.status.as_deref().unwrap_or("active");
    let project = wall.project();
    let projects = words::address("/projects", [("status", wall.status.as_deref()), ("project", project)]);
    let favourites = words::address(
        "/search",
        [("q", Some("rating:>=4")), ("by", Some("session")), ("status", wall.status.as_deref()), ("project", project)],
    );
    let rated = words::address(
        "/search",
        [("by", Some("session")), ("sort", Some("best")), ("status", wall.status.as_deref()), ("project", project)],
    );
    let next = part.from + part.cards.len();
    html! {
        main #main tabindex="-1" {
            (recovery::notice(notice))
            @if to_continue.len() > 1 { (continue_row(to_continue)) }
            div.bar {
                h1 dir="auto" { @if let Some(project) = project { (project) } @else { "Sessions" } }
                span.muted #total aria-live="polite" { (words::grouped(part.total as u64)) }
                @if part.total > 0 || project.is_some() {
                    a.toggle href=(favourites) title="Only what is rated 4 or 5" { "★ 4+" }
                    details.drop data-load=(projects) data-take=".projects" {
                        summary { "Projects" }
                        div { p { a href=(projects) { "Show all projects" } } }
                    }
                    (saved_searches())
                }
                @if project.is_some() { a.chip href=(wall.with(|wall| wall.project = None)) { "All projects" span aria-hidden="true" { " ×" } } }
                div.spring {}
                (size_slider())
                details.drop.right {
                    summary { "Sort: " (SORTS.iter().find(|(name, _)| *name == wall.sort()).map_or("Recent", |(_, text)| text)) }
                    div { nav.list aria-label="Order" {
                        @for (name, text) in SORTS {
                            a href=(wall.with(|wall| wall.sort = (name != "recent").then(|| name.to_owned()))) aria-current=[(wall.sort() == name).then_some("true")] { (text) }
                        }
                        a href=(rated) { "Rating" }
                    } }
                }
                (status_choice(wall.status.as_deref(), |status| wall.with(|wall| wall.status = status.map(str::to_owned))))
            }
            @if part.cards.is_empty() {
                (empty(status, project))
            } @else {
                div.shelf {
                    div.wall #wall data-total=(part.total) data-from=(part.from) data-dated[part.dated] {
                        div.part data-part="0" { (part.cards()) }
                    }
                    nav.scrubber #scrubber aria-label="Jump to a month" hidden {}
                }
                @if next < part.total { p.onward { a.button href=(with_from(&wall.address(), next)) { "More sessions" } } }
            }
        }
    }
}

fn with_from(address: &str, from: usize) -> String {
    format!("{address}{}from={from}", if address.contains('?') { '&' } else { '?' })
}

/// Renders the image size slider, which needs scripts.
pub(super) fn size_slider() -> Markup {
    html! { label.size hidden { span.sr { "Size of the images" } input #size type="range" min="110" max="420" step="10" value="220"; } }
}

/// Renders the menu of searches saved in this browser.
pub(super) fn saved_searches() -> Markup {
    html! { details.drop.saved hidden { summary { "Saved" } div #saved {} } }
}

/// Renders the row of recent sessions to continue.
fn continue_row(sessions: &[Continued]) -> Markup {
    html! {
        section.continue aria-labelledby="continue" {
            h2 #continue { "Continue" }
            div {
                @for (row, cover) in sessions {
                    a href={ "/sessions/" (row.id) "/story" } {
                        @if let Some(image) = cover.image { img src={ "/thumbs/" (image.hash) } alt="" decoding="async"; }
                        span.text {
                            strong dir="auto" { (card::name(row, Some(cover))) }
                            span.why dir="auto" {
                                @match (&cover.note, &cover.change) {
                                    (Some(note), _) => { "“" (note) "”" }
                                    (None, Some(change)) => (changes::readable(change)),
                                    (None, None) => (words::count(u64::from(row.iteration_count()), "iteration")),
                                }
                            }
                            span.muted {
                                @if let Some(rating) = cover.rating { "★" (rating) " · " }
                                @if cover.open_branches > 0 { (card::branches(cover.open_branches)) " · " }
                                (words::time(row.last_modified_at))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn empty(status: &str, project: Option<&str>) -> Markup {
    html! {
        div.empty data-drop-here="" {
            @if status == "archived" {
                h2 { "Nothing is archived" }
                p { "Archive a session when it is done. It stays, and can be restored." }
            } @else if project.is_some() {
                h2 { "No active session of this project" }
                p { a href="/" { "All sessions" } }
            } @else {
                h2 { "No sessions yet" }
                p.needs-scripts hidden { "Drop images here, or " button type="button" data-import="" { "Choose files…" } }
                p { "Every image you make can be kept here, with its recipe and lineage. Import those you have, or record the next one:" }
                pre tabindex="0" { code { "retake import ~/ComfyUI/output\nretake record \"a glass bridge at night\" --seed 42 --image bridge.png" } }
                p.muted { "Or let your agent do it: " code { "retake mcp" } ". To see what it looks like with work in it: " code { "retake demo" } "." }
            }
        }
    }
}
