//! `/sessions/{id}/audit`: the provenance of a session: the verdict, everything that happened as sentences, newest
//! first, and how one image was made. Hashes are folded under *Proof*; the audit bundle is a download.

use std::collections::BTreeSet;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Broken, Page, SearchBox, framed};
use super::trail::{self, Filter, TrailLine};
use super::verdict::Verdict;
use super::{changes, naming};
use crate::model::{EventKind, SessionId};
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, Error};
use crate::workspace::{SessionTrail, Step, Workspace};

/// The number of events on a page.
const PAGE: usize = 100;
/// The maximum number of ancestors shown.
const MAX_ANCESTORS: usize = 24;

/// The query parameters.
#[derive(Clone, Default, Deserialize)]
pub(super) struct AuditParams {
    #[serde(default)]
    who: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    /// Show only events of this iteration.
    #[serde(default)]
    image: Option<String>,
    /// Show the ancestry of this iteration.
    #[serde(default)]
    of: Option<String>,
    /// The number of events to skip, from the newest.
    #[serde(default)]
    from: Option<String>,
}

impl AuditParams {
    fn filter(&self) -> Filter {
        Filter {
            who: self.who.clone().unwrap_or_default(),
            kind: self.kind.clone().unwrap_or_default(),
            image: self.image.as_deref().and_then(|index| index.trim_start_matches('#').parse().ok()),
        }
    }

    fn address(&self, id: SessionId, from: usize) -> String {
        let from = (from > 0).then(|| from.to_string());
        let parts =
            [("who", &self.who), ("kind", &self.kind), ("image", &self.image), ("of", &self.of), ("from", &from)];
        words::address(&format!("/sessions/{id}/audit"), parts.map(|(name, value)| (name, value.as_deref())))
    }
}

/// The data shown on the page.
struct Provenance {
    id: SessionId,
    name: String,
    trail: SessionTrail,
    verdict: Verdict,
    made: Option<(Vec<Step>, usize)>,
}

impl Provenance {
    fn read(workspace: &Workspace, id: &str, asked: &AuditParams) -> Result<Provenance, Error> {
        let id = Api::new(workspace).session_id(id)?;
        let trail = workspace.audit(id)?;
        let verdict = Verdict::read(workspace, &trail)?;
        // A session with no readable iterations has no summary, but its trail can still be shown.
        let summary = workspace.summary(id).ok();
        let last = summary.as_ref().map(crate::model::Summary::current_iteration_index);
        let of = asked.of.as_deref().and_then(|index| index.trim_start_matches('#').parse().ok()).or(last);
        let made = of.and_then(|index| workspace.ancestry(id.iteration(index), MAX_ANCESTORS).ok());
        let first = last.and_then(|last| workspace.brief_state(id.iteration(last)).ok());
        let name = naming::session(summary.and_then(|it| it.title).as_deref(), first.as_ref().map(|it| &it.iteration));
        Ok(Provenance { id, name, trail, verdict, made })
    }
}

/// Handles `GET /sessions/{id}/audit`.
pub(super) async fn session(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(asked): Query<AuditParams>,
) -> Result<Response, Broken> {
    let question = asked.clone();
    let read = gallery.read(move |workspace, _| Provenance::read(workspace, &id, &question)).await?;
    let page = Page {
        title: &format!("Provenance of {}", read.name),
        name: "audit",
        menu: "audit",
        typed: SearchBox::default(),
    };
    Ok(framed(&page, &shown(&read, &asked)))
}

fn shown(read: &Provenance, asked: &AuditParams) -> Markup {
    let lines = trail::lines(&read.trail.events);
    let filter = asked.filter();
    let wanted: Vec<&TrailLine<'_>> = lines.iter().rev().filter(|line| filter.wants(line)).collect();
    let from = asked.from.as_deref().and_then(|from| from.parse().ok()).unwrap_or(0).min(wanted.len());
    let id = read.id;
    html! {
        main #main tabindex="-1" {
            div.provenance {
                div.bar {
                    h1 dir="auto" { (read.name) }
                    span.muted { "Provenance" }
                    span.spring {}
                    a.button href={ "/export/proof.tar?of=" (id) } download="" { "Download proof" }
                    a.button href={ "/sessions/" (id) } { "Open session" }
                }
                (verdict(&read.verdict))
                div.columns {
                    section.story aria-labelledby="trail" {
                        h2 #trail { (words::count(wanted.len() as u64, "event")) @if filter != Filter::default() { " of " (words::grouped(lines.len() as u64)) } }
                        (filters(&lines, asked, id))
                        ol.trail { @for line in wanted.iter().skip(from).take(PAGE) { (entry(line, id, asked)) } }
                        p.row {
                            @if from > 0 { a.button href=(asked.address(id, from.saturating_sub(PAGE))) { "Newer" } }
                            @if from + PAGE < wanted.len() { a.button href=(asked.address(id, from + PAGE)) { "Older" } a.button href=(asked.address(id, wanted.len().saturating_sub(1) / PAGE * PAGE)) { "Oldest" } }
                        }
                    }
                    aside aria-label="How this image was made" { (made(read)) (check_by_hand(id)) }
                }
            }
        }
    }
}

fn verdict(verdict: &Verdict) -> Markup {
    let place = |id: crate::model::IterationId| html! { a href={ "/sessions/" (id.session) "/" (id.index) } { "#" (id.index) } };
    html! {
        div.verdict.bad[!verdict.is_good()] role="status" {
            strong { (verdict.headline()) }
            @if verdict.chain_faults == 0 { span { "Hash chain intact: " (words::count(verdict.events, "event")) ", in both copies." } }
            @if !verdict.lost.is_empty() { span { "Lost: " (if verdict.lost.len() == 1 { "event" } else { "events" }) " " (verdict.lost.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")) } }
            span.muted { (words::grouped(verdict.images.checked.saturating_sub(verdict.broken()))) " of " (words::grouped(verdict.images.checked)) " " @if verdict.images.checked == 1 { "image matches its hash." } @else { "images match their hashes." } }
            @for (id, _) in verdict.images.missing.iter().take(20) { span { (place(*id)) ": missing on disk" } }
            @for (id, _) in verdict.images.damaged.iter().take(20) { span { (place(*id)) ": content changed" } }
        }
    }
}

fn filters(lines: &[TrailLine<'_>], asked: &AuditParams, id: SessionId) -> Markup {
    let people: BTreeSet<&str> = lines.iter().map(|line| line.event.actor.user.as_str()).collect();
    let mut kinds: Vec<EventKind> = Vec::new();
    for line in lines {
        let kind = line.event.body.kind();
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let chosen = |now: &Option<String>, value: &str| now.as_deref() == Some(value);
    html! {
        form.filters method="get" action={ "/sessions/" (id) "/audit" } {
            label { span { "Who" } select name="who" { option value="" { "Everyone" } @for who in people { option value=(who) selected[chosen(&asked.who, who)] { (who) } } } }
            label { span { "What" } select name="kind" { option value="" { "Everything" } @for kind in kinds { option value=(kind) selected[chosen(&asked.kind, kind.as_str())] { (trail::kind_name(kind)) } } } }
            label { span { "Take" } input name="image" type="text" inputmode="numeric" size="5" placeholder="#" value=(asked.image.as_deref().unwrap_or_default()); }
            button type="submit" { "Filter" }
        }
    }
}

fn entry(line: &TrailLine<'_>, id: SessionId, asked: &AuditParams) -> Markup {
    let event = line.event;
    let of = line.index.map(|index| AuditParams { of: Some(index.to_string()), ..asked.clone() }.address(id, 0));
    html! {
        li #{ "event-" (event.seq) } {
            @match (line.image, line.index) {
                (Some(image), Some(index)) => a.thumb href={ "/sessions/" (id) "/" (index) } { img src={ "/thumbs/" (image) } alt={ "#" (index) } loading="lazy" decoding="async"; },
                _ => span.thumb {},
            }
            div {
                p dir="auto" { strong { (if event.actor.user.is_empty() { "Someone" } else { event.actor.user.as_str() }) } " " (line.did) @if let Some(reason) = line.reason { span.muted { " “" (reason) "”" } } }
                p.muted.when {
                    time datetime=(event.at) data-exact="" { (words::minute(event.at)) } " · " (event.actor.client)
                    @if let Some(of) = of { " · " a href=(of) { "How #" (line.index.unwrap_or_default()) " was made" } }
                }
                details.proof { summary { "Proof" } dl.pairs {
                    dt { "Event" } dd { (event.seq) }
                    dt { "Hash" } dd { code { (event.hash) } }
                    dt { "Previous" } dd { code { (event.prev) } }
                } }
            }
        }
    }
}

/// Renders how one image was made: every ancestor with what changed.
fn made(read: &Provenance) -> Markup {
    let Some((steps, earlier)) = &read.made else { return html! {} };
    let Some(last) = steps.last() else { return html! {} };
    html! {
        section.block.made {
            h2 { "How #" (last.id.index) " was made" }
            ol {
                @if *earlier > 0 { li.muted { (words::count(*earlier as u64, "earlier step")) } }
                @for step in steps {
                    li {
                        a href={ "/sessions/" (step.id.session) "/" (step.id.index) } {
                            @match step.state.iteration.images.first() {
                                Some(image) => { img src={ "/thumbs/" (image.hash) } alt="" loading="lazy" decoding="async"; }
                                None => span.none {},
                            }
                            span {
                                strong { "#" (step.id.index) @if let Some(rating) = step.state.annotation.rating { " " span.rated { "★" (rating) } } }
                                span dir="auto" { (changes::readable(&step.summary)) }
                            }
                        }
                    }
                }
            }
            @if let Some(image) = last.state.iteration.images.first() {
                dl.pairs {
                    dt { "Recorded" } dd { (words::time(last.state.recorded_at)) }
                    dt { "By" } dd { (last.state.recorded_by.user) " with " (last.state.recorded_by.client) }
                    dt { "File" } dd { code { (image.hash) } }
                }
            }
        }
    }
}

fn check_by_hand(id: SessionId) -> Markup {
    html! {
        section.block {
            h2 { "Check it elsewhere" }
            p.muted { "The proof is one file with every event and every original. It can be checked on any machine, without this workspace." }
            pre tabindex="0" { code { "retake verify retake-proof.tar" } }
            p { a href={ "/export/sessions.zip?of=" (id) } download="" { "Images and story as a ZIP file" } }
        }
    }
}
