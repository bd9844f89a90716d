//! The frame of every page: head, header, what is said when something goes wrong, and the dialogs that scripts open.

use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::web::{assets, reply, words};
use crate::wire::{Error, ErrorKind, RecoveryNotice};

/// What a page says of itself.
pub(super) struct Page<'a> {
    /// The window's title.
    pub(super) title: &'a str,
    /// Which scripts it needs, and which entry of the menu is lit.
    pub(super) name: &'a str,
    /// What stands in the search box.
    pub(super) typed: SearchBox<'a>,
}

/// The search box of a page.
#[derive(Default)]
pub(super) struct SearchBox<'a> {
    /// What stands in it.
    pub(super) query: &'a str,
    /// What else is asked along with it, by name.
    pub(super) carried: &'a [(&'a str, &'a str)],
    /// Where to go when nothing stands in it any more.
    pub(super) emptied: &'a str,
}

/// A failure as a page.
pub(super) struct Broken(Error);

impl From<Error> for Broken {
    fn from(error: Error) -> Broken {
        Broken(error)
    }
}

impl IntoResponse for Broken {
    fn into_response(self) -> Response {
        let Broken(error) = self;
        if !error.causes.is_empty() {
            tracing::warn!(causes = ?error.causes, "{}", error.message);
        }
        let heading = match error.kind {
            ErrorKind::NotFound => "Not here",
            ErrorKind::Invalid => "That cannot be shown",
            ErrorKind::Damaged => "Lost to damage",
            ErrorKind::Busy => "Busy",
            _ => "Something went wrong",
        };
        let page = Page { title: heading, name: "error", typed: SearchBox::default() };
        let body = html! {
            main.plain #main tabindex="-1" {
                h1 { (heading) }
                p { (error.message) }
                p.muted { (error.hint) }
                p { a.button href="/" { "All sessions" } }
            }
        };
        (reply::status(error.kind), framed(&page, &body)).into_response()
    }
}

/// Whatever has no page.
pub(in super::super) fn nothing_here() -> Response {
    let error = Error::new(ErrorKind::NotFound, "there is no such page", "go back, or begin with all sessions");
    Broken(error).into_response()
}

/// A whole page.
pub(super) fn framed(page: &Page<'_>, main: &Markup) -> Response {
    let entry = |name: &str, href: &str, text: &str| {
        html! { a href=(href) aria-current=[(page.name == name).then_some("page")] { (text) } }
    };
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
                script type="module" src=(assets::url("app.js")) {}
            }
            body data-page=(page.name) {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { (mark()) span { "Retake" } }
                    form.search role="search" action="/search" method="get" {
                        input #search type="search" name="q" value=(page.typed.query) placeholder="Search prompts, models, tags" aria-label="Search" autocomplete="off" spellcheck="false" maxlength="2000";
                        kbd aria-hidden="true" { "/" }
                        span #carried hidden data-emptied=(page.typed.emptied) {
                            @for (name, value) in page.typed.carried { input type="hidden" name=(name) value=(value); }
                        }
                        p.asking #asking role="status" {}
                    }
                    nav.menu aria-label="Main" {
                        (entry("sessions", "/", "Sessions"))
                        (entry("compare", "/compare", "Compare"))
                        (entry("workspace", "/workspace", "Workspace"))
                        button.icon #keys type="button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" { "?" }
                    }
                }
                p.banner #offline role="status" hidden { "Retake is not running, or cannot be reached. This page comes back by itself." }
                (main)
                aside.tray #tray aria-label="Compare tray" hidden {}
                p.toast #toast role="status" aria-live="polite" {}
            }
        }
    })
}

/// What recoveries that nobody has read about yet did, for the top of a page.
pub(super) fn notice(recovery: Option<&RecoveryNotice>) -> Markup {
    html! {
        @if let Some(recovery) = recovery {
            section.notice role="status" {
                h2 {
                    @if recovery.lost_events == 0 { "The workspace was damaged. Nothing was lost." }
                    @else { "The workspace was damaged. " (words::count(recovery.lost_events, "event")) " could not be saved." }
                }
                p { (recovery.message) }
                p { a href="/workspace" { "What happened, and what was set aside" } }
            }
        }
    }
}

/// The mark: two frames, one behind the other.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" {
            rect x="7" y="3" width="14" height="14" rx="3" fill="none" stroke="currentColor" stroke-width="1.6" opacity="0.45" {}
            rect x="3" y="7" width="14" height="14" rx="3" fill="currentColor" {}
        }
    }
}
