//! `covers`: the picture a session is known by, and what it shows. For a wall of sessions, where folding each would cost
//! all of its events.

use serde::Serialize;

use crate::model::{EventBody, Hash, IterationId, OutcomeStatus, SessionId};
use crate::store::Detail;

use super::{Error, Tracker, fit};

/// What a session is known by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cover {
    /// The iteration it is taken from: the newest that has a picture, or else the newest.
    pub reference: IterationId,
    /// Its prompt, cut short.
    pub prompt: String,
    /// Its picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Hash>,
    /// What came of it.
    pub outcome: OutcomeStatus,
}

/// How many events are looked at for a picture, from the newest back.
const LOOK_BACK: u32 = 24;
/// What a prompt may take.
const PROMPT_BYTES: usize = 240;

impl Tracker {
    /// The cover of each of these sessions; none where nothing of it is left.
    pub fn covers(&self, ids: &[SessionId]) -> Result<Vec<Option<Cover>>, Error> {
        ids.iter().map(|id| self.cover(*id)).collect()
    }

    fn cover(&self, id: SessionId) -> Result<Option<Cover>, Error> {
        let Some(head) = self.log.head(id)? else { return Ok(None) };
        let mut newest = None;
        for seq in (0..head.next_seq).rev().take(LOOK_BACK as usize) {
            let event = self.log.event(id, seq, Detail::Brief)?;
            let Some(EventBody::Recorded { index, iteration }) = event.map(|event| event.body) else { continue };
            iteration.images.first().inspect(|image| self.images.remember(image));
            let mut prompt = iteration.recipe.prompt;
            fit::clip(&mut prompt, PROMPT_BYTES);
            let cover = Cover {
                reference: id.iteration(index),
                prompt,
                image: iteration.images.first().map(|image| image.hash),
                outcome: iteration.outcome.status,
            };
            if cover.image.is_some() {
                return Ok(Some(cover));
            }
            newest.get_or_insert(cover);
        }
        Ok(newest)
    }
}
