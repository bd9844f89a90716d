//! The frame of every page: head, header, error pages, and the dialogs that scripts open.

use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::web::{assets, reply};
use crate::wire::{Error, ErrorKind};

/// The properties of a page.
pub(super) struct Page<'a> {
    /// The window's title.
    pub(super) title: &'a str,
    /// The name that selects its scripts.
    pub(super) name: &'a str,
    /// The name of its menu entry.
    pub(super) menu: &'a str,
    /// The contents of the search box.
    pub(super) typed: SearchBox<'a>,
}

/// The search box of a page.
#[derive(Default)]
pub(super) struct SearchBox<'a> {
    /// Its text.
    pub(super) query: &'a str,
    /// Other parameters submitted along with it, by name.
    pub(super) carried: &'a [(&'a str, &'a str)],
    /// The URL to go to when it is cleared.
    pub(super) emptied: &'a str,
}

/// An error shown as a page.
pub(super) struct Broken {
    error: Error,
    wording: Option<Wording>,
}

/// The text of an error page, in place of the message meant for programs.
pub(super) struct Wording {
    /// The heading.
    pub(super) heading: &'static str,
    /// A sentence on what happened.
    pub(super) text: String,
    /// Links to continue with: the URL and the label.
    pub(super) ways: Vec<(String, String)>,
}

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken { error, wording: None }
    }
}

impl Broken {
    /// Creates an error page with its own wording.
    pub(super) fn worded(error: Error, wording: Wording) -> Broken {
        Broken { error, wording: Some(wording) }
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let Broken { error, wording } = self;
        if !error.causes.is_empty() {
            tracing::warn!(causes = ?error.causes, "{}", error.message);
        }
        let wording = wording.unwrap_or_else(|| usual_wording(&error));
        let page = Page { title: wording.heading, name: "error", menu: "error", typed: SearchBox::default() };
        let body = html! {
            main.plain #main tabindex="-1" {
                h1 { (wording.heading) }
                p dir="auto" { (wording.text) }
                p.row {
                    @for (address, name) in &wording.ways { a.button dir="auto" href=(address) { (name) } }
                    a.button href="/" { "All sessions" }
                }
            }
        };
        (reply::status(error.kind), framed(&page, &body)).into_response()
    }
}

/// Returns the default wording of an error. Hints are written for programs and left out.
fn usual_wording(error: &Error) -> Wording {
    let heading = match error.kind {
        ErrorKind::NotFound => "Page not found",
        ErrorKind::Invalid => "Can't open this link",
        ErrorKind::Damaged => "Lost to damage",
        ErrorKind::Busy => "Busy",
        _ => "Something went wrong",
    };
    Wording { heading, text: sentence(&error.message), ways: Vec::new() }
}

/// Formats a message as a sentence: capitalised, with a full stop.
pub(super) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if message.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// Returns the response for an unknown URL.
pub(in super::super) fn nothing_here() -> Response {
    let error = Error::new(ErrorKind::NotFound, "there is nothing at this address", "");
    Broken::from(error).into_response()
}

/// Renders a whole page.
pub(super) fn framed(page: &Page<'_>, main: &Markup) -> Response {
    let entry = |name: &str, href: &str, text: &str| {
        html! { a href=(href) data-text=(text) aria-current=[(page.menu == name).then_some("page")] { (text) } }
    };
    let top = html! {
        a.brand href="/" { (mark()) span { "Retake" } }
        (search_box(&page.typed, "Search prompts, models, tags"))
        nav.menu aria-label="Main" {
            (entry("sessions", "/", "Sessions"))
            (entry("search", "/search", "Images"))
            (entry("compare", "/compare", "Compare"))
            (entry("workspace", "/workspace", "Workspace"))
            (theme_button())
            (keys_button())
        }
    };
    let styles: &[&str] = if page.name == "compare" { &["shelf.css", "compare.css"] } else { &["shelf.css"] };
    whole(page, styles, &top, main)
}

/// Renders a page of one session. Its header contains the session and its views in place of the main menu, which saves
/// the height of a second bar for the image. `more` is the content of the session's menu.
pub(super) fn framed_session(page: &Page<'_>, head: &Markup, more: &Markup, main: &Markup) -> Response {
    let top = html! {
        a.brand href="/" aria-label="Retake: all sessions" { (mark()) }
        (head)
        (search_box(&page.typed, "Search"))
        nav.menu aria-label="Main" {
            a #compare-link href="/compare" { "Compare" span #compare-count {} }
            (theme_button())
            (keys_button())
            (more)
        }
    };
    let styles: &[&str] = if page.name == "session" { &["session.css"] } else { &["session.css", "views.css"] };
    whole(page, styles, &top, main)
}

fn whole(page: &Page<'_>, styles: &[&str], top: &Markup, main: &Markup) -> Response {
    reply::html(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (page.title) " · Retake" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" type="image/svg+xml" href=(assets::url("icon.svg"));
                link rel="stylesheet" href=(assets::url("style.css"));
                link rel="stylesheet" href=(assets::url("tray.css"));
                @for style in styles { link rel="stylesheet" href=(assets::url(style)); }
                // Loaded before the first paint, so that a chosen theme does not flash.
                script src=(assets::url("theme.js")) {}
                script type="module" src=(assets::url("app.js")) {}
            }
            body data-page=(page.name) {
                a.skip href="#main" { "Skip to the content" }
                header.top { (top) }
                p.banner #offline role="status" hidden { "Connection lost. Reconnecting…" }
                (main)
                aside.tray #tray aria-label="Compare tray" hidden {}
                p.toast #toast role="status" aria-live="polite" {}
            }
        }
    })
}

fn search_box(typed: &SearchBox<'_>, placeholder: &str) -> Markup {
    html! {
        form.search role="search" action="/search" method="get" {
            input #search type="search" name="q" value=(typed.query) dir="auto" placeholder=(placeholder) aria-label="Search" autocomplete="off" spellcheck="false" maxlength="2000" data-shortcut="/";
            kbd aria-hidden="true" data-shortcut="/" { "/" }
            span #carried hidden data-emptied=(typed.emptied) {
                @for (name, value) in typed.carried { input type="hidden" name=(name) value=(value); }
            }
            p.asking #asking role="status" {}
        }
    }
}

fn theme_button() -> Markup {
    html! { button.icon.quiet #theme type="button" aria-label="Theme: automatic" title="Theme: automatic" { (theme_icon()) } }
}

fn keys_button() -> Markup {
    html! { button.icon.quiet #keys type="button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" data-shortcut="?" { "?" } }
}

/// Draws a circle, half of it dark.
fn theme_icon() -> Markup {
    html! {
        svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true" {
            circle cx="10" cy="10" r="7" fill="none" stroke="currentColor" stroke-width="1.5" {}
            path d="M10 3a7 7 0 0 1 0 14z" fill="currentColor" {}
        }
    }
}

/// Draws the logo: two frames, one behind the other.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            rect x="7" y="3" width="14" height="14" rx="3" fill="none" stroke="currentColor" stroke-width="1.6" opacity="0.45" {}
            rect x="3" y="7" width="14" height="14" rx="3" fill="currentColor" {}
        }
    }
}
