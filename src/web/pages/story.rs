//! `/sessions/{id}/story`: the information of `retake resume` as a page: how the work developed, what was liked, open
//! branches, the cost, and how to continue.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::Broken;
use super::session_head::{self, NamedSession, View, session_id, summary_of, worded};
use super::{continuing, film};
use crate::model::query::facet_term;
use crate::model::{Annotation, Hash, IterationId, OutcomeStatus, Position, Reference, SessionChoice, SessionId};
use crate::web::state::Gallery;
use crate::web::{url, words};
use crate::wire::Error;
use crate::workspace::{Branch, Earlier, Liked, Resumption, Step, Workspace, is_image_rating, subject};

/// The maximum number of failed attempts listed.
const MAX_FAILURES: usize = 24;

/// The iteration to continue from: an index, or the last one.
#[derive(Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: Option<String>,
}

/// Handles `GET /sessions/{id}/story`.
pub(super) async fn page(
    State(gallery): State<Gallery>,
    Path(id): Path<String>,
    Query(from): Query<From>,
) -> Result<Response, Broken> {
    let name = id.clone();
    let read = gallery.ask(move |workspace, _| {
        let from = from.from.and_then(|from| from.parse::<u32>().ok());
        let read = session_id(&id).and_then(|session| StoryData::read(workspace, session, from));
        Ok(read.map_err(|error| (error, summary_of(workspace, &id))))
    });
    let data = read.await?.map_err(|(error, found)| worded(error, &name, found.as_ref()))?;
    let found = &data.found;
    let named = NamedSession::new(found.session.clone(), data.subject.as_deref());
    let body = html! {
        main.page-story #main tabindex="-1" data-session=(found.id.session) data-name=(named.name) data-archived[found.session.archived] {
            div.telling {
                section aria-labelledby="how" {
                    h2 #how { "How it came to be" }
                    ol.story {
                        @if let Some(earlier) = &found.earlier { (before(earlier)) }
                        @for step in &found.story { (step_item(found, step)) }
                    }
                }
            }
            aside.recap aria-label="In short" {
                (figures(&data))
                @if !found.liked.is_empty() {
                    section aria-labelledby="liked" { h2 #liked { "Liked" } ul.cards { @for liked in &found.liked { (liked_item(&data, liked)) } } }
                }
                @if let Some(open) = data.open_branches() {
                    section aria-labelledby="open" { h2 #open { "Open branches" } ul.cards { @for branch in open { (branch_item(&data, branch)) } } }
                }
                @if !found.continued_in.is_empty() {
                    section aria-labelledby="elsewhere" { h2 #elsewhere { "Continued in" } ul.plain-list { @for id in &found.continued_in { li { a href=(address(*id)) { (id) } } } } }
                }
                @if !data.failures.is_empty() {
                    details.failures { summary { (words::count(data.failures.len() as u64, "failed attempt")) }
                        ul.plain-list { @for (id, status, message) in data.failures.iter().take(MAX_FAILURES) { li { a href=(address(*id)) { "#" (id.index) } " " (outcome(*status)) @if let Some(message) = message { ": " span dir="auto" { (message) } } } } }
                    }
                }
            }
            section.continue aria-labelledby="continue" {
                h2 #continue { "Continue with #" (found.id.index) }
                div.from {
                    @if let Some(image) = first_image(found) { a href=(address(found.id)) { img src={ "/thumbs/" (image) } alt={ "#" (found.id.index) }; } }
                    div {
                        p.prompt dir="auto" { (found.state.iteration.recipe.prompt) }
                        @if found.session.archived { p.muted { "This session is archived: what comes next starts a new one, or restore it from the menu." } }
                        (continuing::ways(found.id, found.session.archived, continuing::has_workflow(&found.state.iteration.recipe, false)))
                        pre.command tabindex="0" { (continuing::command(found.id, found.session.archived)) }
                    }
                }
            }
        }
    };
    let title = format!("{} · Story", named.name);
    Ok(session_head::framed(&named, View::Story, found.id.index, &title, &body))
}

/// A resumption with the additional data of the page.
struct StoryData {
    found: Resumption,
    subject: Option<String>,
    images: BTreeMap<IterationId, Hash>,
    failures: Vec<(IterationId, OutcomeStatus, Option<String>)>,
    costs: BTreeMap<String, f64>,
    spent_ms: u64,
}

impl StoryData {
    fn read(workspace: &Workspace, id: SessionId, from: Option<u32>) -> Result<StoryData, Error> {
        let position = from.map_or(Position::Unsaid, Position::Index);
        let found = workspace.resume(Some(Reference { session: SessionChoice::Id(id), position, image: None }))?;
        let session = workspace.load_session(id)?;
        let (mut images, mut failures, mut costs, mut spent_ms) = (BTreeMap::new(), Vec::new(), BTreeMap::new(), 0);
        for (index, state) in &session.iterations {
            let (at, outcome) = (id.iteration(*index), &state.iteration.outcome);
            if let Some(image) = state.iteration.images.first() {
                images.insert(at, image.hash);
            }
            if outcome.status != OutcomeStatus::Succeeded {
                failures.push((at, outcome.status, outcome.message.clone()));
            }
            if let Some(cost) = &outcome.cost {
                *costs.entry(cost.currency.to_string()).or_insert(0.0) += cost.amount;
            }
            spent_ms += outcome.generation_time_ms.unwrap_or(0);
        }
        let subject = subject(&session);
        Ok(StoryData { found, subject, images, failures, costs, spent_ms })
    }

    /// Returns the branches, if there are any. A branch that is a single failed attempt is only listed as a failure.
    fn open_branches(&self) -> Option<Vec<&Branch>> {
        let is_open = |branch: &&Branch| branch.end.failure().is_none() || branch.steps > 1;
        let open: Vec<&Branch> = self.found.branches.iter().filter(is_open).collect();
        (!open.is_empty()).then_some(open)
    }
}

fn address(id: IterationId) -> String {
    format!("/sessions/{}/{}", id.session, id.index)
}

fn first_image(found: &Resumption) -> Option<Hash> {
    found.state.iteration.images.first().map(|image| image.hash)
}

/// Returns the name of an iteration, without its session if that is `here`.
fn name_of(id: IterationId, here: SessionId) -> String {
    if id.session == here { format!("#{}", id.index) } else { id.to_string() }
}

fn outcome(status: OutcomeStatus) -> &'static str {
    match status {
        OutcomeStatus::Succeeded => "succeeded",
        OutcomeStatus::Failed => "failed",
        OutcomeStatus::Refused => "refused",
    }
}

fn before(earlier: &Earlier) -> Markup {
    html! {
        li.earlier {
            span.thumb {}
            div {
                p { (words::count(earlier.iterations.into(), "earlier iteration")) " from " a href=(address(earlier.first)) { (earlier.first) } }
                @if let Some(prompt) = &earlier.first_prompt { p.muted dir="auto" { (shortened(prompt, 240)) } }
            }
        }
    }
}

fn step_item(found: &Resumption, step: &Step) -> Markup {
    let image = step.state.iteration.images.first().map(|image| image.hash);
    let link = address(step.id);
    html! {
        li.failed[step.failure().is_some()] aria-current=[(step.id == found.id).then_some("step")] {
            a.thumb href=(link) tabindex="-1" aria-hidden="true" { @if let Some(image) = image { img src={ "/thumbs/" (image) } alt="" loading="lazy"; } @else if let Some(status) = step.failure() { (outcome(status)) } }
            div {
                p.what {
                    a.index href=(link) { (name_of(step.id, found.id.session)) } " "
                    @match &step.label {
                        Some(label) => { strong { (label) } " " (summary(&step.summary)) },
                        // Its parent is gone, or was never compared.
                        None if step.state.iteration.parent.is_some() => { strong { "came" } " " (summary(&step.summary)) },
                        None => { strong { "began with" } " " span dir="auto" { (beginning(step)) } },
                    }
                    @if let Some(status) = step.failure() { " " span.outcome { (outcome(status)) } }
                }
                (said(&step.state.annotation))
                p.muted.small {
                    (words::time(step.state.iteration.created_at))
                    @if step.rerolls > 0 { " · then " (words::count(step.rerolls.into(), "reroll")) }
                }
            }
        }
    }
}

/// Returns what a session began with: the prompt, or the file of an image without one.
fn beginning(step: &Step) -> String {
    let file = || step.state.iteration.images.iter().find_map(|image| image.name.clone());
    match step.summary.trim() {
        "" => file().unwrap_or_else(|| "no prompt".to_owned()),
        _ => format!("“{}”", shortened(&step.summary, 400)),
    }
}

/// The maximum number of tags shown of an iteration.
const MAX_TAGS: usize = 12;

/// Renders the annotation of an iteration: stars, note, tags.
fn said(annotation: &Annotation) -> Markup {
    html! {
        @if annotation.rating.is_some() || annotation.note.is_some() || !annotation.tags.is_empty() {
            p.said {
                @if annotation.rating.is_some() { (film::stars(annotation.rating)) " " }
                @if let Some(note) = &annotation.note { q dir="auto" { (shortened(note, 400)) } " " }
                @let tags: Vec<&String> = annotation.tags.iter().filter(|tag| !is_image_rating(tag)).collect();
                @for tag in tags.iter().take(MAX_TAGS) { a.chip dir="auto" href={ "/search?q=" (url::encode(&facet_term("tag", tag))) } { (tag) } " " }
                @if tags.len() > MAX_TAGS { span.muted { "and " (words::count((tags.len() - MAX_TAGS) as u64, "more tag")) } }
            }
        }
    }
}

fn liked_item(data: &StoryData, liked: &Liked) -> Markup {
    let here = data.found.id.session;
    html! {
        li {
            a.thumb href=(address(liked.id)) tabindex="-1" aria-hidden="true" { @if let Some(image) = data.images.get(&liked.id) { img src={ "/thumbs/" (image) } alt="" loading="lazy"; } }
            div {
                p { a.index href=(address(liked.id)) { (name_of(liked.id, here)) } }
                (said(&liked.annotation))
                @match &liked.since {
                    Some((_, since)) => p.muted.small { "Since then: " (summary(since)) },
                    None => p.muted.small { "This is where you are." },
                }
            }
        }
    }
}

fn branch_item(data: &StoryData, branch: &Branch) -> Markup {
    let here = data.found.id.session;
    let end = branch.end.id;
    html! {
        li {
            a.thumb href=(address(end)) tabindex="-1" aria-hidden="true" { @if let Some(image) = data.images.get(&end) { img src={ "/thumbs/" (image) } alt="" loading="lazy"; } }
            div {
                p { a.index href=(address(end)) { (name_of(end, here)) } " "
                    span.muted { (words::count(branch.steps.into(), "step")) @if let Some(fork) = branch.fork { " from " (name_of(fork, here)) } }
                    @if let Some(status) = branch.end.failure() { " " span.outcome { (outcome(status)) } }
                }
                p.small { (summary(&branch.end.summary)) }
                (said(&branch.end.state.annotation))
                @if end.session == here { p.small { a href={ "/sessions/" (here) "/story?from=" (end.index) } { "Continue this one" } } }
            }
        }
    }
}

fn figures(data: &StoryData) -> Markup {
    let session = &data.found.session;
    let failed = data.failures.len() as u64;
    html! {
        dl.pairs.totals {
            dt { "Iterations" } dd { (words::grouped(session.iteration_count().into())) @if failed > 0 { ", " (failed) " of them failed" } }
            dt { "Began" } dd { (words::time(session.created_at)) }
            dt { "Last change" } dd { (words::time(session.last_modified_at)) }
            @if !data.costs.is_empty() { dt { "Cost" } dd { @for (at, (currency, amount)) in data.costs.iter().enumerate() { @if at > 0 { " + " } (money(*amount)) " " (currency) } } }
            @if data.spent_ms > 0 { dt { "Generating" } dd { (words::duration(data.spent_ms)) } }
        }
    }
}

/// Formats an amount, rounded to hide floating-point errors.
fn money(amount: f64) -> String {
    let text = format!("{amount:.4}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

/// Renders a summary of changes, with additions and removals marked.
pub(super) fn summary(line: &str) -> Markup {
    let parts = line.split("  ").map(str::trim).filter(|part| !part.is_empty() && *part != "reroll");
    html! {
        span.changes dir="auto" {
            @for part in parts {
                @match part.chars().next() {
                    Some('+') => ins { (part) },
                    Some('-') => del { (part.trim_start_matches('-')) },
                    _ => span { (counted(part)) },
                }
                " "
            }
        }
    }
}

/// Merges equal changes of a negative prompt, which often repeats a phrase dozens of times.
fn counted(part: &str) -> String {
    let Some((name, changes)) = part.split_once(": ") else { return part.to_owned() };
    let mut distinct: Vec<(&str, usize)> = Vec::new();
    for change in changes.split(", ") {
        match distinct.iter_mut().find(|(known, _)| *known == change) {
            Some((_, count)) => *count += 1,
            None => distinct.push((change, 1)),
        }
    }
    let worded: Vec<String> = distinct
        .into_iter()
        .map(|(change, count)| if count == 1 { change.to_owned() } else { format!("{change} ×{count}") })
        .collect();
    format!("{name}: {}", worded.join(", "))
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_reads_without_rounding_noise() {
        assert_eq!(money(0.1 + 0.2), "0.3");
        assert_eq!(money(12.0), "12");
        assert_eq!(money(0.0), "0");
        assert_eq!(money(0.0043), "0.0043");
    }

    #[test]
    fn a_line_of_changes_tells_added_from_removed() {
        let html = summary("reroll  +low mist  -dusk  cfg 6→8.5").into_string();
        assert!(html.contains("<ins>+low mist</ins>") && html.contains("<del>dusk</del>"), "{html}");
        assert!(html.contains("<span>cfg 6→8.5</span>") && !html.contains("reroll"), "{html}");
        let html = summary("negative: -blurry, -text, -blurry, and 50 more").into_string();
        assert!(html.contains("negative: -blurry ×2, -text, and 50 more"), "{html}");
    }
}
