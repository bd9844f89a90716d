//! Verifies a session: its event chain in both copies, and every image against its hash. The session header includes
//! [`badge`], which scripts fill in when the check is done, since it reads every image.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::frame::Broken;
use crate::model::{Event, EventBody, SessionId};
use crate::web::reply;
use crate::web::state::Gallery;
use crate::web::words;
use crate::wire::{Api, Error};
use crate::workspace::{CallContext, ImageCheck, SessionTrail, Workspace};

/// The maximum number of images read for a badge, which is shown on every page of a session.
const MAX_READ: usize = 48;

/// The result of verifying a session.
pub(super) struct Verdict {
    pub(super) events: u64,
    pub(super) chain_faults: u64,
    pub(super) lost: Vec<u32>,
    pub(super) images: ImageCheck,
}

impl Verdict {
    /// Verifies all events and images of a session.
    pub(super) fn read(workspace: &Workspace, trail: &SessionTrail) -> Result<Verdict, Error> {
        let images = workspace.check_images(trail, &CallContext::default())?;
        Ok(Verdict { images, ..Verdict::of_chain(trail) })
    }

    /// Verifies only the events.
    fn of_chain(trail: &SessionTrail) -> Verdict {
        Verdict {
            events: trail.events.len() as u64,
            chain_faults: trail.faults.len() as u64,
            lost: trail.lost(),
            images: ImageCheck::default(),
        }
    }

    /// Returns whether no problems were found.
    pub(super) fn is_good(&self) -> bool {
        self.chain_faults == 0 && self.lost.is_empty() && self.broken() == 0
    }

    /// Returns the number of images that are missing or altered.
    pub(super) fn broken(&self) -> u64 {
        (self.images.missing.len() + self.images.damaged.len()) as u64
    }

    /// Returns the result in a few words.
    pub(super) fn headline(&self) -> String {
        let broken = self.broken();
        if self.chain_faults > 0 {
            format!("Chain broken: {} missing or altered", words::count(self.chain_faults, "event"))
        } else if !self.lost.is_empty() {
            format!("{} lost to damage, and on record", words::count(self.lost.len() as u64, "event"))
        } else if broken > 0 {
            format!("{} of {} missing or altered", words::grouped(broken), words::count(self.images.checked, "image"))
        } else {
            "Everything checks out".to_owned()
        }
    }
}

/// Renders the badge in the session header: a link to the provenance page, to which scripts add the result.
pub(super) fn badge(id: SessionId) -> Markup {
    html! { a.verdict-badge href={ "/sessions/" (id) "/audit" } data-verdict={ "/sessions/" (id) "/verdict" } { "Provenance" } }
}

/// Handles `GET /sessions/{id}/verdict`: the badge with the result.
pub(super) async fn part(State(gallery): State<Gallery>, Path(id): Path<String>) -> Result<Response, Broken> {
    let read = gallery.read(move |workspace, _| {
        let id = Api::new(workspace).session_id(&id)?;
        let trail = workspace.audit(id)?;
        let images = |event: &Event| match &event.body {
            EventBody::Recorded { iteration, .. } => iteration.images.len(),
            _ => 0,
        };
        let all_read = trail.events.iter().map(images).sum::<usize>() <= MAX_READ;
        let verdict = if all_read { Verdict::read(workspace, &trail)? } else { Verdict::of_chain(&trail) };
        Ok((id, verdict, all_read))
    });
    let (id, verdict, all_read) = read.await?;
    let counted =
        format!("{} · {}", words::count(verdict.events, "event"), words::count(verdict.images.checked, "image"));
    Ok(reply::html(html! {
        a.verdict-badge.good[verdict.is_good()].bad[!verdict.is_good()] href={ "/sessions/" (id) "/audit" } title={ (verdict.headline()) " (" (counted) ")" } {
            @if verdict.is_good() && all_read { "✓ verified" } @else if verdict.is_good() { "✓ chain verified" } @else { "! " (verdict.headline()) }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Hash;

    #[test]
    fn the_worst_comes_first() {
        let mut verdict = Verdict {
            events: 17,
            chain_faults: 0,
            lost: Vec::new(),
            images: ImageCheck { checked: 9, ..Default::default() },
        };
        assert!(verdict.is_good());
        let id = "session-2025-12-11-001#3".parse().unwrap();
        verdict.images.missing.push((id, Hash::NONE));
        assert_eq!(verdict.headline(), "1 of 9 images missing or altered");
        verdict.lost = vec![4];
        assert_eq!(verdict.headline(), "1 event lost to damage, and on record");
        verdict.chain_faults = 2;
        assert_eq!(verdict.headline(), "Chain broken: 2 events missing or altered");
    }
}
