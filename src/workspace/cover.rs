//! The covers of sessions: what a wall shows for each session, computed in one pass over its iterations.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::images::is_video;
use crate::model::diff::RecipeDiff;
use crate::model::{Annotation, Event, Hash, ImageRef, IterationId, IterationState, OutcomeStatus, Session, SessionId};

use super::image_rating::{cover_image, image_rating};
use super::strip::REJECTED_TAG;
use super::writing::truncate;
use super::{Error, Workspace};

/// The cover of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Cover {
    /// The iteration it is taken from: one tagged [`COVER_TAG`], otherwise the best rated one with an image, otherwise
    /// the newest one with an image, otherwise the newest one.
    pub reference: IterationId,
    /// The number of the image, if the iteration has several: the one in the tag, otherwise the best rated.
    pub number: Option<u32>,
    /// Its prompt, truncated.
    pub prompt: String,
    /// Its image.
    pub image: Option<Take>,
    /// The name of its image's file.
    pub file_name: Option<String>,
    /// Its outcome.
    pub outcome: OutcomeStatus,
    /// The best rating of the session.
    pub rating: Option<u8>,
    /// Some of the session's images, from first to last, to flip through.
    pub takes: Vec<Take>,
    /// The number of all its images.
    pub images: u32,
    /// The last change, in one line; `None` if the last iteration has no parent.
    pub change: Option<String>,
    /// The newest note of the session, truncated.
    pub note: Option<String>,
    /// Its cost, by currency.
    pub cost: BTreeMap<String, f64>,
    /// The number of open branches besides the one that ends with the last iteration.
    pub open_branches: u32,
    /// The outcome of the last iteration.
    pub last_outcome: OutcomeStatus,
    /// The number of iterations that were lost to damage.
    pub lost: u32,
}

/// An image of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Take {
    /// The index of its iteration.
    pub index: u32,
    /// The image.
    pub hash: Hash,
    /// Its width divided by its height, if they are known.
    pub ratio: Option<f32>,
    /// Whether it is a video.
    pub video: bool,
}

/// The tag that makes an iteration the cover of its session; with the suffix `/1`, its second image.
pub const COVER_TAG: &str = "cover";
/// The number of sessions read at once.
const SESSIONS_AT_ONCE: usize = 64;
/// The maximum number of images to flip through.
const MAX_TAKES: usize = 12;
/// The maximum size of a prompt or note.
const MAX_TEXT_BYTES: usize = 240;
/// The maximum size of a line of changes.
const MAX_CHANGE_BYTES: usize = 120;

impl Workspace {
    /// Returns the cover of a session; `None` if none of its iterations is left.
    #[doc(hidden)]
    pub fn cover(&self, id: SessionId) -> Result<Option<Cover>, Error> {
        Ok(self.covers(&[id])?.pop().flatten())
    }

    /// Returns the cover of each of these sessions, in order; `None` for a session without iterations left. Reads the
    /// log once for many sessions.
    pub fn covers(&self, ids: &[SessionId]) -> Result<Vec<Option<Cover>>, Error> {
        let mut covers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(SESSIONS_AT_ONCE) {
            let places: Vec<(SessionId, u32)> = chunk.iter().map(|id| (*id, 0)).collect();
            let mut events: HashMap<SessionId, Vec<Event>> = HashMap::new();
            for event in self.log.brief_events_from(&places)? {
                events.entry(event.session).or_default().push(event);
            }
            for id in chunk {
                let session = events.remove(id).and_then(Session::fold);
                for state in session.iter().flat_map(|session| session.iterations.values()) {
                    state.iteration.images.iter().for_each(|image| self.images.remember(image));
                }
                covers.push(session.as_ref().and_then(Cover::of));
            }
        }
        Ok(covers)
    }
}

impl Cover {
    fn of(session: &Session) -> Option<Cover> {
        let id = session.head.id;
        let (last_index, last) = session.iterations.last_key_value()?;
        let (index, chosen) = chosen(session).unwrap_or((*last_index, last));
        let number = chosen_image(chosen);
        let shown = chosen.iteration.images.get(number);
        let mut takes: Vec<Take> = Vec::new();
        let (mut cost, mut rating, mut note) = (BTreeMap::new(), None, None);
        let mut ends: BTreeSet<u32> = BTreeSet::new();
        for (index, state) in &session.iterations {
            if !has_tag(state, REJECTED_TAG) {
                takes.extend(state.iteration.images.iter().map(|image| take(*index, image)));
            }
            if let Some(spent) = &state.iteration.outcome.cost {
                *cost.entry(spent.currency.clone()).or_insert(0.0) += spent.amount;
            }
            rating = rating.max(state.annotation.rating);
            note = state.annotation.note.as_ref().filter(|note| !note.trim().is_empty()).or(note);
            if let Some(parent) = state.iteration.parent.filter(|parent| parent.session == id) {
                ends.remove(&parent.index);
            }
            // A failed attempt does not leave a branch open.
            if state.iteration.outcome.status == OutcomeStatus::Succeeded {
                ends.insert(*index);
            }
        }
        ends.remove(last_index);
        let before = last.iteration.parent.filter(|parent| parent.session == id);
        let change = before.and_then(|parent| session.iterations.get(&parent.index)).map(|parent| {
            cut(RecipeDiff::between(&parent.iteration.recipe, &last.iteration.recipe).summary, MAX_CHANGE_BYTES)
        });
        let images = u32::try_from(takes.len()).unwrap_or(u32::MAX);
        let lost = session.head.last_index.map_or(0, |last| last.saturating_add(1));
        Some(Cover {
            reference: id.iteration(index),
            number: if chosen.iteration.images.len() > 1 { u32::try_from(number).ok() } else { None },
            prompt: cut(chosen.iteration.recipe.prompt.clone(), MAX_TEXT_BYTES),
            image: shown.map(|image| take(index, image)),
            file_name: chosen.iteration.images.iter().find_map(|image| image.name.clone()),
            outcome: chosen.iteration.outcome.status,
            rating,
            takes: spread(&takes),
            images,
            change: change.filter(|change| !change.is_empty()),
            note: note.map(|note| cut(note.clone(), MAX_TEXT_BYTES)),
            cost,
            open_branches: u32::try_from(ends.len()).unwrap_or(u32::MAX),
            last_outcome: last.iteration.outcome.status,
            lost: lost.saturating_sub(u32::try_from(session.iterations.len()).unwrap_or(u32::MAX)),
        })
    }
}

/// Returns the iteration whose image represents the session.
fn chosen(session: &Session) -> Option<(u32, &IterationState)> {
    let pictured = || session.iterations.iter().filter(|(_, state)| !state.iteration.images.is_empty());
    let tagged = pictured().rev().find(|(_, state)| state.annotation.tags.iter().any(|tag| cover_image(tag).is_some()));
    let rank = |state: &IterationState| (!has_tag(state, REJECTED_TAG), state.annotation.rating);
    let best = || pictured().max_by_key(|(index, state)| (rank(state), **index));
    tagged.or_else(best).map(|(index, state)| (*index, state))
}

/// Returns the number of the image that represents an iteration.
fn chosen_image(state: &IterationState) -> usize {
    let Annotation { rating, tags, .. } = &state.annotation;
    let images = 0..state.iteration.images.len();
    let tagged = tags.iter().filter_map(|tag| cover_image(tag)).find(|number| images.contains(number));
    let best = || images.clone().rev().max_by_key(|number| image_rating(*rating, tags, *number));
    tagged.or_else(best).unwrap_or(0)
}

fn has_tag(state: &IterationState, wanted: &str) -> bool {
    state.annotation.tags.iter().any(|tag| tag == wanted)
}

fn take(index: u32, image: &ImageRef) -> Take {
    let size = image.width.zip(image.height).filter(|(width, height)| *width > 0 && *height > 0);
    #[expect(clippy::cast_precision_loss, reason = "a ratio for a layout needs three digits")]
    let ratio = size.map(|(width, height)| width as f32 / height as f32);
    Take { index, hash: image.hash, ratio, video: is_video(&image.mime_type) }
}

/// Returns evenly spaced images, from first to last.
fn spread(takes: &[Take]) -> Vec<Take> {
    if takes.len() <= MAX_TAKES {
        return takes.to_vec();
    }
    let last = takes.len() - 1;
    (0..MAX_TAKES).filter_map(|at| takes.get(at * last / (MAX_TAKES - 1)).copied()).collect()
}

fn cut(mut text: String, bytes: usize) -> String {
    truncate(&mut text, bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preview_images_are_spread_from_first_to_last() {
        let takes: Vec<Take> =
            (0..100).map(|index| Take { index, hash: Hash::NONE, ratio: None, video: false }).collect();
        let few = spread(&takes);
        assert_eq!(few.len(), MAX_TAKES);
        assert_eq!((few.first().unwrap().index, few.last().unwrap().index), (0, 99));
        assert_eq!(spread(&takes[..5]).len(), 5);
    }
}
