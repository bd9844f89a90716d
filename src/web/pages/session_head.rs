//! The header shared by all pages of a session: the back link, the session's name, its views and its menu.

use maud::{Markup, html};

use super::frame::{Broken, Page, SearchBox, Wording, framed_session};
use super::{naming, verdict};
use crate::model::{SessionId, Summary};
use crate::web::{reply, url, words};
use crate::wire::{Error, ErrorKind};
use crate::workspace::{self, Workspace};
use axum::response::Response;

/// The views of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// One image, large.
    Loupe,
    /// All images.
    Grid,
    /// How it developed, and how to continue.
    Story,
    /// An overview with all branches.
    Tree,
}

impl View {
    /// Returns the name of the page, used by scripts and styles.
    fn page(self) -> &'static str {
        match self {
            View::Loupe => "session",
            View::Grid => "grid",
            View::Story => "story",
            View::Tree => "tree",
        }
    }
}

/// A session with its display name.
pub(super) struct NamedSession {
    /// The session.
    pub(super) row: Summary,
    /// Its title, or its subject.
    pub(super) name: String,
}

impl NamedSession {
    /// Names a session: by its title, its subject or its day.
    pub(super) fn new(row: Summary, subject: Option<&str>) -> NamedSession {
        let about = || subject.and_then(naming::first_words);
        let name = row.title.clone().filter(|title| !title.trim().is_empty()).or_else(about);
        let name = name.unwrap_or_else(|| {
            let day = row.created_at.to_string();
            format!("Untitled, {}", day.get(..10).unwrap_or(&day))
        });
        NamedSession { row, name }
    }
}

/// Wraps the body of a page of a session into the frame.
pub(super) fn framed(named: &NamedSession, view: View, index: u32, title: &str, main: &Markup) -> Response {
    let page = Page { title, name: view.page(), menu: "sessions", typed: SearchBox::default() };
    framed_session(&page, &head(named, view, index), &menu(named, view), main)
}

/// Renders only the header, for a page that is open while the session changes.
pub(super) fn part(named: &NamedSession) -> Response {
    reply::html(html! { (about(named)) (menu(named, View::Loupe)) })
}

fn head(named: &NamedSession, view: View, index: u32) -> Markup {
    let id = named.row.id;
    let tab = |this: View, address: String, name: &str, key: &str| {
        html! { a href=(address) data-view=(this.page()) title=(name) data-shortcut=(key) aria-current=[(this == view).then_some("page")] { (name) } }
    };
    html! {
        a.crumb #crumb href="/" title="All sessions" data-shortcut="Escape" aria-label="Back to all sessions" { "‹" }
        (about(named))
        nav.views aria-label="Views of this session" {
            (tab(View::Loupe, format!("/sessions/{id}/{index}"), "Loupe", "e"))
            (tab(View::Grid, format!("/sessions/{id}/grid"), "Grid", "g"))
            (tab(View::Story, format!("/sessions/{id}/story"), "Story", "s"))
            (tab(View::Tree, format!("/sessions/{id}/tree"), "Tree", "T"))
        }
    }
}

fn about(named: &NamedSession) -> Markup {
    let row = &named.row;
    html! {
        div.about #about data-title=[row.title.as_deref()] data-project=[row.project.as_deref()] data-archived[row.archived] {
            h1 dir="auto" title=(named.name) { (named.name) }
            button.icon.quiet.rename type="button" data-do="rename" aria-label="Rename this session" title="Rename" data-shortcut="r" { "✎" }
            @if row.archived { span.badge { "Archived" } }
            span.muted {
                @if let Some(project) = &row.project { a dir="auto" href={ "/?project=" (url::encode(project)) } { (project) } " · " }
                span #count { (words::count(row.iteration_count().into(), "iteration")) }
                " · " (words::time(row.last_modified_at))
                " · " (verdict::badge(row.id))
            }
        }
    }
}

fn menu(named: &NamedSession, view: View) -> Markup {
    let row = &named.row;
    let switch = |name: &str, text: &str| {
        html! { label.switch { input type="checkbox" data-setting=(name); span { (text) } } }
    };
    html! {
        details.drop.more #more {
            summary aria-label="More about this session" title="More" { "⋯" }
            div {
                @if view == View::Loupe {
                    (switch("advance", "Go to the next after rating"))
                    (switch("follow", "Follow new iterations"))
                    button.item type="button" data-do="slideshow" { "Slideshow" }
                    hr;
                }
                button.item type="button" data-do="rename" { "Rename…" }
                button.item type="button" data-do="project" { @if row.project.is_some() { "Change project…" } @else { "Set project…" } }
                button.item type="button" data-do="copy" data-what="Session ID" data-text=(row.id) { "Copy session ID" }
                a.item href={ "/export/sessions.zip?of=" (row.id) } download="" { "Download as ZIP" }
                a.item href={ "/sessions/" (row.id) "/audit" } { "Provenance" }
                a.item href="/workspace" { "Workspace" }
                hr;
                button.item type="button" data-do="archive" { @if row.archived { "Restore…" } @else { "Archive…" } }
            }
        }
    }
}

/// Parses the session id in a URL.
pub(super) fn session_id(text: &str) -> Result<SessionId, Error> {
    Ok(text.parse::<SessionId>().map_err(workspace::Error::from)?)
}

/// Words an error on a session's page, with a link to what exists.
pub(super) fn worded(error: Error, id: &str, found: Option<&Summary>) -> Broken {
    let (heading, text, ways) = match (error.kind, found) {
        (ErrorKind::NotFound, Some(row)) => (
            "No such iteration",
            format!("This session has {}.", words::count(row.iteration_count().into(), "iteration")),
            vec![(format!("/sessions/{}", row.id), "Go to the last one".to_owned())],
        ),
        (ErrorKind::NotFound, None) => {
            ("No such session", format!("This workspace has no session {id}. It may be in another one."), Vec::new())
        }
        (ErrorKind::Invalid, _) => ("Can't open this link", format!("“{id}” is not the ID of a session."), Vec::new()),
        (ErrorKind::Damaged, _) => (
            "Lost to damage",
            "Nothing of this session could be saved.".to_owned(),
            vec![
                (format!("/sessions/{id}/audit"), "What the audit trail knows".to_owned()),
                ("/workspace".to_owned(), "What happened".to_owned()),
            ],
        ),
        _ => return error.into(),
    };
    Broken::worded(error, Wording { heading, text, ways })
}

/// Returns the summary of a session, if it can be read.
pub(super) fn summary_of(workspace: &Workspace, id: &str) -> Option<Summary> {
    workspace.summary(session_id(id).ok()?).ok()
}
