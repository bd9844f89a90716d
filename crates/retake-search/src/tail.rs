//! The tail: what was acknowledged since the last segment, as documents in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use retake_log::Log;
use retake_log::model::{Event, EventBody, IterationId};
use retake_log::store::{Detail, Error};

use super::bytes::Damage;
use super::doc::{Doc, SessionDoc, SessionKey, TAG, key_of};
use super::evaluate::Live;

/// Documents that are not in a segment yet, or newer than there.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) docs: BTreeMap<(SessionKey, u32), Doc>,
    pub(super) sessions: BTreeMap<SessionKey, SessionDoc>,
}

/// Something that was not in the tail before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fresh {
    Iteration(SessionKey, u32),
    Session(SessionKey),
}

/// Why events could not be taken in.
pub(super) enum Stuck {
    /// The index must be made again.
    Damage(Damage),
    /// The log cannot be read.
    Log(Error),
}

impl From<Damage> for Stuck {
    fn from(damage: Damage) -> Stuck {
        Stuck::Damage(damage)
    }
}

impl From<Error> for Stuck {
    fn from(error: Error) -> Stuck {
        Stuck::Log(error)
    }
}

impl Tail {
    pub(super) fn is_empty(&self) -> bool {
        self.docs.is_empty() && self.sessions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.docs.len() + self.sessions.len()
    }

    /// Takes in an event. Taking in one again that was taken in before does no harm, as long as all behind it follow: what
    /// an iteration says is only ever replaced by something newer. Gives what is in the tail now and was not before.
    pub(super) fn take(&mut self, event: &Event, store: &dyn Log, parts: &[Live]) -> Result<Option<Fresh>, Stuck> {
        let session = key_of(event.session);
        match &event.body {
            EventBody::Recorded { index, iteration } => {
                let doc = Doc::new(event.session.iteration(*index), event.seq, iteration);
                let known = self.docs.insert((session, *index), doc).is_some();
                Ok((!known).then_some(Fresh::Iteration(session, *index)))
            }
            EventBody::Annotated { index, change } => {
                let id = event.session.iteration(*index);
                match self.docs.entry((session, *index)) {
                    Entry::Occupied(known) => {
                        known.into_mut().annotate(event.seq, change);
                        Ok(None)
                    }
                    Entry::Vacant(vacant) => {
                        // What damage took cannot be found, and what is said of it neither.
                        let Some(mut doc) = again(id, store, parts)? else { return Ok(None) };
                        doc.annotate(event.seq, change);
                        vacant.insert(doc);
                        Ok(Some(Fresh::Iteration(session, *index)))
                    }
                }
            }
            EventBody::Started { .. }
            | EventBody::Titled { .. }
            | EventBody::Archived { .. }
            | EventBody::Restored { .. } => {
                // The head may know of later events already; they will say the same.
                let Some(head) = store.head(event.session)? else { return Ok(None) };
                let known = self.sessions.insert(session, SessionDoc::new(&head)).is_some();
                Ok((!known).then_some(Fresh::Session(session)))
            }
            EventBody::Lost(_) | EventBody::Unknown { .. } => Ok(None),
        }
    }
}

/// The document of an iteration that is in a segment, with its texts read from the log.
fn again(id: IterationId, store: &dyn Log, parts: &[Live]) -> Result<Option<Doc>, Stuck> {
    let session = key_of(id.session);
    for part in parts.iter().rev() {
        let Some(number) = part.segment.find(session, id.index)? else { continue };
        if part.dead.contains(number) {
            continue;
        }
        let facts = part.segment.facts(number)?;
        let Some(Event { body: EventBody::Recorded { index, iteration }, .. }) =
            store.event(id.session, facts.seq, Detail::Brief)?
        else {
            return Err(Damage::new("an iteration is not where the index says").into());
        };
        let mut doc = Doc::new(id.session.iteration(index), facts.seq, &iteration);
        doc.facts.rating = facts.rating;
        if let (Some(has), Some(had)) = (doc.facts.lists.get_mut(TAG), facts.lists.get(TAG)) {
            has.clone_from(had);
        }
        if facts.noted > 0 {
            let Some(Event { body: EventBody::Annotated { change, .. }, .. }) =
                store.event(id.session, facts.noted, Detail::Brief)?
            else {
                return Err(Damage::new("a note is not where the index says").into());
            };
            doc.note(facts.noted, change.note.as_deref().unwrap_or_default());
        }
        return Ok(Some(doc));
    }
    Ok(None)
}
