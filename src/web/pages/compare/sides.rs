//! Parses the references in a compare URL leniently. A link may outlive the images it names, and another workspace may
//! be served at the same address, so a reference that cannot be resolved is skipped with a message.

use crate::model::{Hash, IterationId, Recipe};
use crate::model::{OutcomeStatus, Timestamp};
use crate::web::pages::naming;
use crate::web::pictures;
use crate::wire::{Api, Error};
use crate::workspace::{Workspace, image_rating};

/// The maximum number of images that are compared at once.
pub(super) const MAX_SIDES: usize = 12;

/// An image being compared, with its iteration.
pub(super) struct Side {
    /// The exact reference; for an image of a batch with its number: `…#3/1`.
    pub(super) reference: String,
    pub(super) id: IterationId,
    /// Its display name: `Harbour at dusk #3`.
    pub(super) label: String,
    /// Its name within this set: `#3` if all sides are of one session.
    pub(super) short: String,
    /// The name of its session, and its own within it.
    session: String,
    own: String,
    pub(super) recipe: Recipe,
    pub(super) image: Option<SideImage>,
    pub(super) rating: Option<u8>,
    pub(super) outcome: OutcomeStatus,
    pub(super) at: Timestamp,
    pub(super) cost: Option<String>,
}

/// The image of a side.
#[derive(Clone, Copy)]
pub(super) struct SideImage {
    pub(super) hash: Hash,
    pub(super) size: Option<(u32, u32)>,
    /// Whether the original is missing.
    pub(super) missing: bool,
    /// Whether browsers can show the original as an image.
    pub(super) shown: bool,
    /// Whether it is a video.
    pub(super) video: bool,
}

/// The result of reading a set.
pub(super) struct Sides {
    pub(super) sides: Vec<Side>,
    /// The references that were skipped, each with the reason.
    pub(super) skipped: Vec<(String, String)>,
}

impl Side {
    /// Returns the letter of a position in the set.
    pub(super) fn letter(at: usize) -> char {
        u8::try_from(at).ok().and_then(|at| b'A'.checked_add(at)).filter(u8::is_ascii_uppercase).map_or('·', char::from)
    }

    /// Returns the URL of its page.
    pub(super) fn address(&self) -> String {
        format!("/sessions/{}", self.reference.replacen('#', "/", 1))
    }
}

impl Sides {
    /// Reads the sides named in a URL, separated by commas.
    pub(super) fn read(workspace: &Workspace, refs: &str) -> Sides {
        let mut found = Sides { sides: Vec::new(), skipped: Vec::new() };
        for name in refs.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if found.sides.len() >= MAX_SIDES {
                found.skipped.push((name.to_owned(), format!("at most {MAX_SIDES} are compared")));
                continue;
            }
            match side(workspace, name) {
                Ok(side) if found.sides.iter().any(|known| known.reference == side.reference) => {}
                Ok(side) => found.sides.push(side),
                Err(error) => found.skipped.push((name.to_owned(), error.message)),
            }
        }
        if found.session().is_some() {
            found.sides.iter_mut().for_each(|side| side.short = side.own.clone());
        }
        found
    }

    /// Returns the name of the session, if all of several sides are of one.
    pub(super) fn session(&self) -> Option<&str> {
        let (first, others) = self.sides.split_first()?;
        let is_shared = !others.is_empty() && others.iter().all(|side| side.id.session == first.id.session);
        is_shared.then_some(first.session.as_str())
    }
}

fn side(workspace: &Workspace, name: &str) -> Result<Side, Error> {
    let named = Api::new(workspace).resolve_exactly(name)?;
    let (id, number) = (named.iteration, named.image.unwrap_or(0));
    let state = workspace.state(id)?;
    let title = workspace.summary(id.session).ok().and_then(|summary| summary.title);
    let iteration = state.iteration;
    let count = iteration.images.len();
    let session = naming::session(title.as_deref(), Some(&iteration));
    let own = match count {
        0 | 1 => format!("#{}", id.index),
        _ => format!("#{} · {} of {count}", id.index, number + 1),
    };
    let label = format!("{session} {own}");
    let chosen = usize::try_from(number).ok().and_then(|number| iteration.images.get(number));
    let image = chosen.map(|image| SideImage {
        hash: image.hash,
        size: image.width.zip(image.height).filter(|(width, height)| *width > 0 && *height > 0),
        missing: !workspace.has_original(image),
        shown: pictures::is_shown(&image.mime_type),
        video: pictures::is_played(&image.mime_type),
    });
    Ok(Side {
        reference: if count > 1 { format!("{id}/{number}") } else { id.to_string() },
        id,
        short: label.clone(),
        label,
        session,
        own,
        image,
        rating: image_rating(state.annotation.rating, &state.annotation.tags, number as usize),
        outcome: iteration.outcome.status,
        at: iteration.created_at,
        cost: iteration.outcome.cost.as_ref().map(|cost| format!("{} {}", cost.amount, cost.currency)),
        recipe: iteration.recipe_of(number),
    })
}
