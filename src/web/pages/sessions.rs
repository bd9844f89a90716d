//! `/`: all sessions as a wall of covers. The wall is rendered in parts of [`PART`] cards, the first with the page; scripts
//! ask for those that come into sight, by the cursor before them or by the nearest mark.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::HeaderName;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed, notice};
use crate::model::{Hash, OutcomeStatus};
use crate::model::{Order, Status};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, Error, ErrorKind, ListRequest, RecoveryNotice, SessionRow};
use crate::workspace::{Cover, Workspace};

/// Cards in a part: it fills rows of 1, 2, 3, 4, 5, 6, 10, 12, 15 and 20 columns.
const PART: usize = 60;
/// Cards from one mark to the next.
const MARK: usize = 600;

/// Which sessions, as the address says it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Wall {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    sort: Option<String>,
    #[serde(default)]
    project: Option<String>,
    /// The cursor to begin behind.
    #[serde(default)]
    at: Option<String>,
    /// How many to pass over from there.
    #[serde(default)]
    skip: Option<usize>,
}

/// `GET /`.
pub(super) async fn page(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let asked = wall.clone();
    let part = gallery.ask(move |workspace, _| Part::read(workspace, &asked)).await?;
    // Who searches from here looks for sessions, among those that are shown.
    let choices = [("by", Some("session")), ("status", wall.status.as_deref()), ("project", wall.project.as_deref())];
    let carried: Vec<(&str, &str)> = choices.into_iter().filter_map(|(name, it)| Some((name, it?))).collect();
    let typed = SearchBox { query: "", carried: &carried, emptied: &wall.address() };
    Ok(framed(&Page { title: "Sessions", name: "sessions", typed }, &shown(&wall, &part)))
}

/// `GET /sessions/part`: more cards, and in `x-next` the cursor behind them.
pub(super) async fn part(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let part = gallery.ask(move |workspace, _| Part::read(workspace, &wall)).await?;
    let headers = [
        (HeaderName::from_static("x-next"), part.next.clone().unwrap_or_default()),
        (HeaderName::from_static("x-total"), part.total.to_string()),
    ];
    Ok((headers, reply::html(cards(&part.cards))).into_response())
}

/// `GET /sessions/marks`: the cursors before every 600th card.
pub(super) async fn marks(State(gallery): State<Gallery>, Query(wall): Query<Wall>) -> Result<Response, Broken> {
    let marks = gallery.ask(move |workspace, _| Api::new(workspace).unbounded().marks(&wall.request()?, MARK)).await?;
    Ok(Json(marks).into_response())
}

impl Wall {
    fn request(&self) -> Result<ListRequest, Error> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let status = status_of(self.status.as_deref())?;
        let sort = match some(&self.sort).as_deref() {
            None | Some("recent") => Order::Recent,
            Some("oldest") => Order::Oldest,
            Some(_) => return Err(unknown("order")),
        };
        Ok(ListRequest {
            status: Some(status),
            sort: Some(sort),
            project: some(&self.project),
            cursor: some(&self.at),
            ..ListRequest::default()
        })
    }

    /// The address of this wall.
    fn address(&self) -> String {
        let Wall { status, sort, project, .. } = self;
        let parts = [("status", status), ("sort", sort), ("project", project)];
        words::address("/", parts.map(|(name, value)| (name, value.as_deref())))
    }

    /// The address of this wall with another choice.
    fn with(&self, change: impl FnOnce(&mut Wall)) -> String {
        let mut wall = self.clone();
        change(&mut wall);
        wall.address()
    }
}

/// Which sessions a word in an address means.
pub(super) fn status_of(text: Option<&str>) -> Result<Status, Error> {
    match text.filter(|text| !text.is_empty()) {
        None | Some("active") => Ok(Status::Active),
        Some("archived") => Ok(Status::Archived),
        Some("all") => Ok(Status::All),
        Some(_) => Err(unknown("status")),
    }
}

/// The choice between active and archived sessions; `address` is that of the page with another one.
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

/// What is seen of an iteration on its card.
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

fn unknown(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("there is no such {what}"), "begin with all sessions")
}

/// Some cards of the wall.
struct Part {
    cards: Vec<(SessionRow, Option<Cover>)>,
    total: u64,
    next: Option<String>,
    recovery: Option<RecoveryNotice>,
}

impl Part {
    fn read(workspace: &Workspace, wall: &Wall) -> Result<Part, Error> {
        let mut request = wall.request()?;
        let skip = wall.skip.unwrap_or(0).min(MARK);
        request.limit = u32::try_from(skip + PART).ok();
        let list = Api::new(workspace).unbounded().list(&request)?;
        let rows: Vec<SessionRow> = list.sessions.into_iter().skip(skip).collect();
        let mut part =
            Part { cards: Vec::new(), total: list.total_sessions, next: list.next_cursor, recovery: list.recovery };
        let ids: Vec<_> = rows.iter().map(SessionRow::id).collect();
        part.cards = rows.into_iter().zip(workspace.covers(&ids)?).collect();
        Ok(part)
    }
}

fn shown(wall: &Wall, part: &Part) -> Markup {
    let status = wall.status.as_deref().unwrap_or("active");
    let sort = wall.sort.as_deref().unwrap_or("recent");
    let project = wall.project.as_deref().filter(|it| !it.is_empty());
    let order = |value: Option<&str>, text: &str| {
        let now = if sort == "recent" { None } else { Some(sort) };
        html! { a href=(wall.with(|wall| wall.sort = value.map(str::to_owned))) aria-current=[(now == value).then_some("true")] { (text) } }
    };
    let projects = words::address("/projects", [("status", wall.status.as_deref()), ("project", project)]);
    html! {
        main #main tabindex="-1" {
            (notice(part.recovery.as_ref()))
            div.bar {
                h1 { @if let Some(project) = project { (project) } @else { "Sessions" } }
                span.muted #total aria-live="polite" { (words::grouped(part.total)) }
                @if part.total > 0 || project.is_some() {
                    details.drop data-load=(projects) data-take=".projects" {
                        summary { "Projects" }
                        div { p { a href=(projects) { "Show all projects" } } }
                    }
                }
                @if project.is_some() { a.chip href=(wall.with(|wall| wall.project = None)) { "All projects" span aria-hidden="true" { " ×" } } }
                div.spring {}
                nav.choice aria-label="Order" { (order(None, "Newest")) (order(Some("oldest"), "Oldest")) }
                (status_choice(wall.status.as_deref(), |status| wall.with(|wall| wall.status = status.map(str::to_owned))))
            }
            @if part.cards.is_empty() {
                (empty(status, project))
            } @else {
                div.wall #wall data-total=(part.total) data-next=[part.next.as_deref()] {
                    div.part data-part="0" { (cards(&part.cards)) }
                }
            }
        }
    }
}

fn cards(cards: &[(SessionRow, Option<Cover>)]) -> Markup {
    html! { @for (row, cover) in cards { (card(row, cover.as_ref())) } }
}

fn card(row: &SessionRow, cover: Option<&Cover>) -> Markup {
    let prompt = cover.map(|cover| cover.prompt.as_str());
    let name = row.title().or(prompt).unwrap_or("All iterations were lost");
    let count = row.iteration_count();
    html! {
        a.card href={ "/sessions/" (row.id()) } data-session=(row.id()) data-reference=[cover.map(|cover| cover.reference)] {
            span.cover data-many[count > 1] {
                (pictured(cover.and_then(|cover| cover.image), cover.map(|cover| cover.outcome).unwrap_or_default()))
                @if row.archived() { span.flag { "archived" } }
            }
            span.name { (name) }
            span.meta { (words::count(count.into(), "iteration")) " · " (words::time(row.last_modified_at()))
                @if let Some(project) = row.project() { " · " (project) } }
        }
    }
}

fn empty(status: &str, project: Option<&str>) -> Markup {
    html! {
        div.empty {
            @if status == "archived" {
                h2 { "Nothing is archived" }
                p { "Archive a session with " kbd { "a" } " when it is done. It stays, and can be restored." }
            } @else if project.is_some() {
                h2 { "No active session of this project" }
                p { a href="/" { "All sessions" } }
            } @else {
                h2 { "No sessions yet" }
                p { "Every image you make can be kept here, with its recipe and lineage. Import those you have, or record the next one:" }
                pre { code { "retake import ~/ComfyUI/output\nretake record \"a glass bridge at night\" --seed 42 --image bridge.png" } }
                p.muted { "Or let your agent do it: " code { "retake mcp" } ". To see what it looks like with work in it: " code { "retake demo" } "." }
            }
        }
    }
}
