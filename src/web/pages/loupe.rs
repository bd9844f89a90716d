//! One iteration in the loupe: the stage with its image, and the facts next to it.

use std::path::PathBuf;

use maud::{Markup, html};

use super::{changes, continuing, recipe};
use crate::export::ending;
use crate::model::diff::RecipeDiff;
use crate::model::query::facet_term;
use crate::model::{Hash, IterationId, OutcomeStatus};
use crate::web::{pictures, url, words};
use crate::wire::{Api, Error, ImageView, IterationView, MAX_REPLY_BYTES};
use crate::workspace::{REJECTED_TAG, Workspace, image_rating, is_image_rating};

/// The maximum number of links to other iterations, each with its image.
const MAX_LINKS: usize = 24;

/// The length of the prompts in bytes above which the actions come before them.
const LONG_PROMPT: usize = 900;

/// The selected iteration with its parent and children.
pub(super) struct SelectedIteration {
    view: IterationView,
    diff: Option<RecipeDiff>,
    parent: Option<Link>,
    /// The parent's prompt, to show the changes.
    parent_prompt: Option<String>,
    children: Vec<Link>,
    more_children: usize,
    count: u32,
    /// The paths of its images, if they may be shown.
    paths: Vec<Option<PathBuf>>,
}

/// A link to another iteration.
struct Link {
    id: IterationId,
    image: Option<Hash>,
}

impl SelectedIteration {
    /// Reads an iteration with its relatives. Paths are only for people at this machine.
    pub(super) fn read(workspace: &Workspace, id: IterationId, is_local: bool) -> Result<SelectedIteration, Error> {
        let view = Api::new(workspace).with_reply_bytes(MAX_REPLY_BYTES).iteration(id)?;
        let link = |id: IterationId| {
            let images = workspace.brief_state(id).map(|state| state.iteration.images);
            Link { id, image: images.ok().and_then(|images| images.first().map(|image| image.hash)) }
        };
        // A lost ancestor is still named, but without its image and changes.
        let before = view.parent.and_then(|parent| workspace.state(parent).ok()).map(|state| state.iteration.recipe);
        Ok(SelectedIteration {
            diff: before.as_ref().map(|before| RecipeDiff::between(before, &view.recipe.recipe)),
            parent_prompt: before.map(|before| before.prompt),
            parent: view.parent.map(link),
            children: view.children.iter().take(MAX_LINKS).copied().map(link).collect(),
            more_children: view.children.len().saturating_sub(MAX_LINKS),
            count: workspace.summary(id.session)?.iteration_count(),
            paths: view.images.iter().map(|image| workspace.local_original(image.hash).filter(|_| is_local)).collect(),
            view,
        })
    }

    /// Returns the number of the last image, from 0.
    pub(super) fn last_image(&self) -> usize {
        self.view.images.len().saturating_sub(1)
    }
}

/// Returns the title of the window.
pub(super) fn title(name: &str, index: u32) -> String {
    format!("{name} #{index}")
}

/// Renders the stage: the image, and the controls over it, which need scripts and are hidden without them.
pub(super) fn stage(chosen: &SelectedIteration, image: usize) -> Markup {
    let view = &chosen.view;
    html! {
        div.stage #stage {
            div.frame #frame {
                @match view.images.get(image) {
                    Some(image) => (picture(view, image)),
                    None => (nothing(view)),
                }
            }
            button.turn.back type="button" data-do="back" aria-label="Previous" title="Previous" data-shortcut="ArrowLeft" { "‹" }
            button.turn.on type="button" data-do="on" aria-label="Next" title="Next" data-shortcut="ArrowRight" { "›" }
            div.controls {
                span.dots #dots role="group" aria-label="Images of this iteration" {
                    @if view.images.len() > 1 {
                        @for number in 0..view.images.len() {
                            button type="button" data-do="image" data-image=(number) aria-label={ "Image " (number + 1) " of " (view.images.len()) } aria-pressed=(if number == image { "true" } else { "false" }) {}
                        }
                    }
                }
                span.zoom role="group" aria-label="Zoom" {
                    button type="button" data-do="farther" aria-label="Zoom out" title="Zoom out" data-shortcut="-" { "−" }
                    button #level type="button" data-do="level" title="Fit or 100 %" data-shortcut="z" { "Fit" }
                    button type="button" data-do="closer" aria-label="Zoom in" title="Zoom in" data-shortcut="+" { "+" }
                }
                button #hold type="button" title="Hold to see the parent" data-shortcut=" " hidden { "Parent" }
                button type="button" data-do="full" aria-label="Full screen" title="Full screen" data-shortcut="f" { (full_icon()) }
            }
            p.corner #corner { }
            button.new #new type="button" hidden {}
        }
    }
}

fn full_icon() -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" {
            path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4" fill="none" stroke="currentColor" stroke-width="1.6" {}
        }
    }
}

fn picture(view: &IterationView, image: &ImageView) -> Markup {
    let video = pictures::is_played(&image.mime_type);
    let shown = video || pictures::is_shown(&image.mime_type);
    let original = format!("/images/{}", image.hash);
    let thumbnail = format!("/thumbs/{}", image.hash);
    html! {
        figure.canvas {
            @if video && !image.missing {
                video.picture src=(original) poster=(thumbnail) aria-label=(alt(view)) width=[image.width] height=[image.height]
                    controls preload="metadata" playsinline {}
            } @else if shown && !image.missing {
                img.picture src=(original) alt=(alt(view)) width=[image.width] height=[image.height];
            } @else {
                img.picture.stand-in src=(thumbnail) alt=(alt(view)) width=[image.width] height=[image.height];
            }
        }
        div.gone.note data-when=(if image.missing { "missing" } else if shown { "failed" } else { "file" }) hidden[shown && !image.missing] {
            @if image.missing {
                strong { "Original missing" } span { span.thumb-only { "This is the thumbnail. " } "The recipe is safe. Import the same file to restore the original." }
            } @else if video {
                strong { "This browser cannot play this video" } a.button href=(original) download=[image.name.as_deref()] { "Download" }
            } @else if shown {
                strong { "Image damaged or missing" } span { "The recipe is safe. Import the original file to restore it." }
            } @else {
                strong { "No preview for this file type" } a.button href=(original) download=[image.name.as_deref()] { "Download" }
            }
        }
    }
}

fn nothing(view: &IterationView) -> Markup {
    html! {
        div.gone {
            strong {
                @match view.outcome.status {
                    OutcomeStatus::Succeeded => "No image was recorded",
                    OutcomeStatus::Failed => "This attempt failed",
                    OutcomeStatus::Refused => "This attempt was refused",
                }
            }
            @if let Some(message) = &view.outcome.message { span dir="auto" { (message) } }
        }
    }
}

/// Renders the placeholder for a lost iteration.
pub(super) fn lost(id: IterationId, nearest: Option<u32>) -> Markup {
    let (session, index) = (id.session, id.index);
    html! {
        div.stage #stage {
            div.frame #frame {
                div.gone {
                    strong { "#" (index) " was lost to damage" }
                    @if let Some(near) = nearest { a.button href={ "/sessions/" (session) "/" (near) } data-index=(near) { "Nearest iteration that is left: #" (near) } }
                    a href={ "/sessions/" (session) "/audit" } { "What the audit trail knows" }
                }
            }
            p.corner #corner { }
            button.new #new type="button" hidden {}
        }
        aside.facts #facts aria-label="Details" tabindex="0" { div.step { h2 { "#" (index) } } p.muted { "Its number is not used again." } }
    }
}

fn alt(view: &IterationView) -> String {
    let prompt = &view.recipe.recipe.prompt;
    let short: String = prompt.chars().take(200).collect();
    format!("#{}: {short}", view.index)
}

/// Renders the facts of the iteration, most important first: the change, the prompt, the annotation.
pub(super) fn facts(chosen: &SelectedIteration, image: usize) -> Markup {
    let view = &chosen.view;
    let recipe = &view.recipe.recipe;
    let archived = view.session.archived();
    let is_long = recipe.prompt.len() + recipe.negative_prompt.as_deref().map_or(0, str::len) > LONG_PROMPT;
    html! {
        aside.facts #facts aria-label="Details" tabindex="0" data-index=(view.index) data-parent=[chosen.parent.as_ref().map(|parent| parent.id)]
            data-parent-image=[chosen.parent.as_ref().and_then(|parent| parent.image)] {
            (first_line(chosen, image))
            @if let Some(diff) = &chosen.diff {
                section.change aria-label={ "Changed from " (here_or_there(view, chosen.parent.as_ref())) } {
                    p.muted { "Changed from " (here_or_there(view, chosen.parent.as_ref())) }
                    (changes::list(diff))
                }
            }
            // A long prompt would push the actions out of sight.
            @if is_long { (actions(chosen, image)) }
            section {
                div.heading { h2 { "Prompt" } span.spring {}
                    @if chosen.diff.as_ref().is_some_and(|diff| diff.prompt.is_some()) {
                        button.quiet type="button" data-do="diff" aria-pressed="false" { "Changes" }
                    }
                    (copy_button("Prompt", "#prompt", Some("y")))
                }
                @if recipe.prompt.trim().is_empty() { p.muted { "No prompt was recorded." } }
                p.prompt #prompt dir="auto" { (recipe.prompt) }
                @if let Some(before) = &chosen.parent_prompt {
                    div #prompt-diff dir="auto" hidden { (changes::inline(before, &recipe.prompt)) }
                }
                @if let Some(sent) = &recipe.prompt_sent {
                    details data-name="sent" { summary { "Prompt as sent" } p.prompt.small dir="auto" { (sent) } }
                }
                @if let Some(negative) = &recipe.negative_prompt {
                    div.heading { h2 { "Negative prompt" } span.spring {} (copy_button("Negative prompt", "#negative", None)) }
                    p.prompt.small #negative dir="auto" { (negative) }
                }
            }
            @if !is_long { (actions(chosen, image)) }
            (said(view))
            (lineage(chosen))
            details data-name="recipe" open { summary { "Recipe" } (recipe::pairs(view)) }
            @if !recipe.parameters.is_empty() || view.recipe.parameters_omitted_bytes.is_some() {
                details data-name="parameters" {
                    summary { "Parameters" }
                    @match view.recipe.parameters_omitted_bytes {
                        Some(bytes) => p.muted { (words::size(bytes)) ". " a href={ "/sessions/" (view.session_id) "/" (view.index) "/recipe" } { "Show the whole recipe" } },
                        None => pre dir="auto" tabindex="0" { (serde_json::to_string_pretty(&recipe.parameters).unwrap_or_default()) },
                    }
                }
            }
            (files(chosen))
            details data-name="continue" { summary { "Continue with" } (continuing::ways(view.reference, archived, continuing::has_workflow(recipe, view.recipe.parameters_omitted_bytes.is_some()))) }
            p.muted.small { "Recorded " (words::time(view.recorded_at)) " by " (view.recorded_by.user) " with " (view.recorded_by.client) }
            @if !view.truncated.is_empty() { p.muted.small { "Shortened here: " (view.truncated.join(", ")) } }
        }
    }
}

fn first_line(chosen: &SelectedIteration, image: usize) -> Markup {
    let view = &chosen.view;
    let rating = image_rating(view.annotations.rating, &view.annotations.tags, image).unwrap_or(0);
    let rejected = view.annotations.tags.iter().any(|tag| tag == REJECTED_TAG);
    html! {
        div.step {
            h2 { "#" (view.index) }
            span.muted.of { "of " (chosen.count) }
            span.muted { (words::time(view.timestamp)) }
            @match view.outcome.status {
                OutcomeStatus::Failed => span.outcome { "failed" },
                OutcomeStatus::Refused => span.outcome { "refused" },
                OutcomeStatus::Succeeded => {}
            }
        }
        div.judge {
            span.stars #stars role="group" aria-label={ "Rating: " (rating) " of 5" } data-rating=(rating) {
                @for star in 1..=5_u8 {
                    button.on[star <= rating] type="button" data-do="rate" data-rating=(star) aria-label={ "Rate " (star) " of 5" } data-shortcut=(star) aria-pressed=(if star == rating { "true" } else { "false" }) { "★" }
                }
            }
            button.quiet.clear #clear type="button" data-do="rate" data-rating="0" hidden[rating == 0] aria-label="Clear the rating" title="Clear" data-shortcut="0" { "Clear" }
            span.spring {}
            button.reject #reject type="button" data-do="reject" aria-pressed=(if rejected { "true" } else { "false" }) title="Reject: hidden, never deleted" data-shortcut="x" { "Reject" }
        }
    }
}

fn actions(chosen: &SelectedIteration, image: usize) -> Markup {
    let view = &chosen.view;
    let first = view.images.get(image);
    let reference =
        if view.images.len() < 2 { view.reference.to_string() } else { format!("{}/{image}", view.reference) };
    html! {
        div.row.actions {
            button type="button" title="Add to compare, or remove" data-shortcut="c" data-tray=(reference) data-image=[first.map(|image| image.hash)] aria-pressed="false" { "Add to compare" }
            @if let Some(parent) = &chosen.parent {
                button type="button" data-do="compare-parent" title="Compare with the parent" data-shortcut="p" data-parent=(parent.id) { "Compare with " (here_or_there(view, Some(parent))) }
            }
            @if first.is_some() { button #cover type="button" data-do="cover" aria-pressed="false" title="Show this image for the session" data-shortcut="v" { "Use as cover" } }
            @if first.is_some() { a.button href={ "/search?like=" (url::encode(&view.reference.to_string())) } { "Similar" } }
            @if let Some(image) = first.filter(|image| !image.missing) {
                a.button #download href={ "/images/" (image.hash) } download=(file_name(view, image)) { "Download" }
            }
            @if first.is_some_and(|image| !image.missing && pictures::is_shown(&image.mime_type)) {
                // Shown by scripts where the browser allows it.
                button #copy-image type="button" data-do="copy-image" title="Copy the image itself" data-shortcut="i" hidden { "Copy image" }
            }
            button type="button" data-do="copy" data-what="Reference" data-text=(reference) #copy-reference { "Copy reference" }
        }
    }
}

/// Returns the file name of a download: the original's, or one derived from the reference.
fn file_name(view: &IterationView, image: &ImageView) -> String {
    let extension = ending(&image.mime_type);
    image.name.clone().unwrap_or_else(|| format!("{}-{}.{extension}", view.session_id, view.index))
}

fn said(view: &IterationView) -> Markup {
    // Ratings of single images are shown as stars, not as tags.
    let tags: Vec<&String> = view.annotations.tags.iter().filter(|tag| !is_image_rating(tag)).collect();
    html! {
        section {
            div.heading { h2 { "Tags & note" } span.spring {}
                button.quiet type="button" data-do="tag" title="Tags" data-shortcut="t" { @if tags.is_empty() { "Add tag" } @else { "Edit tags" } }
                button.quiet type="button" data-do="note" title="Note" data-shortcut="n" { @if view.annotations.note.is_none() { "Add note" } @else { "Edit note" } }
            }
            @if tags.is_empty() && view.annotations.note.is_none() { p.muted { "No tags or note" } }
            @if !tags.is_empty() {
                div.tags { @for tag in &tags { a.chip dir="auto" data-tag=(tag) href={ "/search?q=" (url::encode(&facet_term("tag", tag))) } { (tag) } } }
            }
            @if let Some(note) = &view.annotations.note { p.prompt.small dir="auto" data-note="" { (note) } }
        }
    }
}

fn files(chosen: &SelectedIteration) -> Markup {
    let view = &chosen.view;
    html! {
        @if !view.images.is_empty() {
            details data-name="file" {
                summary { @if view.images.len() == 1 { "File" } @else { (view.images.len()) " files" } }
                @for (number, image) in view.images.iter().enumerate() {
                    dl.pairs {
                        @if view.images.len() > 1 { dt { "Image" } dd { (number + 1) " · " a href={ "/sessions/" (view.session_id) "/" (view.index) "/" (number) } data-image-link=(number) { "Show" } } }
                        @if let Some(name) = &image.name { dt { "Name" } dd dir="auto" { (name) } }
                        dt { "Type" } dd { (image.mime_type) }
                        dt { "Size" } dd { (words::size(image.bytes)) @if let (Some(width), Some(height)) = (image.width, image.height) { ", " (width) " × " (height) } }
                        dt { "Hash" } dd { code { (image.hash) } }
                    }
                    @if let Some(path) = chosen.paths.get(number).and_then(Option::as_ref).and_then(|path| path.to_str()) {
                        div.row { button type="button" data-do="copy" data-what="Path" data-text=(path) title=(path) { "Copy path" } }
                    }
                }
            }
        }
        @if view.images.first().is_some_and(|image| !image.missing) {
            details data-name="raw" data-load={ "/sessions/" (view.session_id) "/" (view.index) "/raw" } { summary { "Embedded metadata" } div { p.muted { "Reading…" } } }
        }
    }
}

fn here_or_there(view: &IterationView, parent: Option<&Link>) -> String {
    match parent {
        Some(parent) if parent.id.session == view.session_id => format!("#{}", parent.id.index),
        Some(parent) => parent.id.to_string(),
        None => "nothing".to_owned(),
    }
}

fn copy_button(what: &str, from: &str, key: Option<&str>) -> Markup {
    html! { button.quiet type="button" data-do="copy" data-what=(what) data-from=(from) data-shortcut=[key] aria-label={ "Copy: " (what) } { "Copy" } }
}

fn lineage(chosen: &SelectedIteration) -> Markup {
    let view = &chosen.view;
    let to = |link: &Link| {
        let here = link.id.session == view.session_id;
        html! {
            @if let Some(image) = link.image { img src={ "/thumbs/" (image) } alt="" loading="lazy"; }
            span { @if here { "#" (link.id.index) } @else { (link.id) } }
        }
    };
    let index = |link: &Link| (link.id.session == view.session_id).then_some(link.id.index);
    let address = |link: &Link| format!("/sessions/{}/{}", link.id.session, link.id.index);
    html! {
        @if chosen.parent.is_some() || !chosen.children.is_empty() || view.likely_parent.is_some() {
            section.family {
                @if let Some(parent) = &chosen.parent {
                    h2 { "Based on" }
                    div.links { a href=(address(parent)) data-index=[index(parent)] data-parent-link="" { (to(parent)) } }
                    @if let Some(reason) = &view.parent_reason { p.muted { (reason) } }
                }
                @if let Some(likely) = &view.likely_parent {
                    h2 { "Probably based on" }
                    div.links { a href={ "/sessions/" (likely.reference.session) "/" (likely.reference.index) } { span { (likely.reference) } } }
                    p.muted { (likely.reason) }
                }
                @if !chosen.children.is_empty() {
                    h2 { "Variations" }
                    div.links { @for child in &chosen.children { a href=(address(child)) data-index=[index(child)] data-child-link="" { (to(child)) } } }
                    @if chosen.more_children > 0 { p.muted { "and " (chosen.more_children) " more" } }
                }
            }
        }
    }
}
