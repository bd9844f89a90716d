//! The covers of sessions: the image that a wall of sessions shows for each, found without loading the session.

use crate::model::{EventBody, Hash, IterationId, OutcomeStatus, SessionId};
use crate::store::Detail;

use super::writing::truncate;
use super::{Error, Workspace};

/// The image and prompt that stand for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The iteration it is taken from: the newest that has an image, or else the newest.
    pub reference: IterationId,
    /// Its prompt, truncated.
    pub prompt: String,
    /// Its image.
    pub image: Option<Hash>,
    /// Its outcome.
    pub outcome: OutcomeStatus,
}

/// The maximum number of events examined for an image, from the newest back.
const LOOK_BACK: u32 = 24;
/// The maximum size of a prompt.
const MAX_PROMPT_BYTES: usize = 240;

impl Workspace {
    /// Returns the cover of each of these sessions; `None` if nothing of it is left.
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
            truncate(&mut prompt, MAX_PROMPT_BYTES);
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
