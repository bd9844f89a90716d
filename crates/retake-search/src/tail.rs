//! The tail: documents acknowledged since the last segment, in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use retake_log::Log;
use retake_log::model::{Event, EventBody, IterationId};
use retake_log::store::{Detail, Error};

use super::bytes::Damage;
use super::doc::{Doc, SessionDoc, SessionKey, TAG, key_of};
use super::evaluate::SegmentView;

/// Documents that are not in a segment yet, or are newer than there.
#[derive(Default)]
pub(super) struct Tail {
    pub(super) docs: BTreeMap<(SessionKey, u32), Doc>,
    pub(super) sessions: BTreeMap<SessionKey, SessionDoc>,
}

/// A key that was not in the tail before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fresh {
    Iteration(SessionKey, u32),
    Session(SessionKey),
}

/// The reason why events cannot be indexed.
pub(super) enum IndexError {
    /// The index is damaged and must be rebuilt.
    Damage(Damage),
    /// The log cannot be read.
    Log(Error),
}

impl From<Damage> for IndexError {
    fn from(damage: Damage) -> IndexError {
        IndexError::Damage(damage)
    }
}

impl From<Error> for IndexError {
    fn from(error: Error) -> IndexError {
        IndexError::Log(error)
    }
}

impl Tail {
    pub(super) fn is_empty(&self) -> bool {
        self.docs.is_empty() && self.sessions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.docs.len() + self.sessions.len()
    }

    /// Indexes an event, and returns the key that was not in the tail before. Indexing an event again is harmless as long
    /// as all later ones follow, since documents are only ever replaced by newer states.
    pub(super) fn take(
        &mut self,
        event: &Event,
        store: &dyn Log,
        parts: &[SegmentView],
    ) -> Result<Option<Fresh>, IndexError> {
        let session = key_of(event.session);
        match &event.body {
            EventBody::Recorded { index, iteration } => {
                let doc = Doc::new(event.session.iteration(*index), event.seq, iteration, &event.actor);
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
                        // An iteration lost to damage is not indexed, and neither are its annotations.
                        let Some(mut doc) = restored(id, store, parts)? else { return Ok(None) };
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
                // The head may include later events already; indexing those gives the same document.
                let Some(head) = store.head(event.session)? else { return Ok(None) };
                let known = self.sessions.insert(session, SessionDoc::new(&head)).is_some();
                Ok((!known).then_some(Fresh::Session(session)))
            }
            EventBody::Lost(_) | EventBody::Unknown { .. } => Ok(None),
        }
    }
}

/// Restores the document of an iteration from its segment, with its texts read from the log.
fn restored(id: IterationId, store: &dyn Log, parts: &[SegmentView]) -> Result<Option<Doc>, IndexError> {
    let session = key_of(id.session);
    for part in parts.iter().rev() {
        let Some(number) = part.segment.find(session, id.index)? else { continue };
        if part.dead.contains(number) {
            continue;
        }
        let facts = part.segment.facts(number)?;
        let Some(Event { body: EventBody::Recorded { index, iteration }, actor, .. }) =
            store.event(id.session, facts.seq, Detail::Brief)?
        else {
            return Err(Damage::new("an iteration is not at its recorded position").into());
        };
        let mut doc = Doc::new(id.session.iteration(index), facts.seq, &iteration, &actor);
        doc.facts.rating = facts.rating;
        if let (Some(has), Some(had)) = (doc.facts.lists.get_mut(TAG), facts.lists.get(TAG)) {
            has.clone_from(had);
        }
        if facts.noted > 0 {
            let Some(Event { body: EventBody::Annotated { change, .. }, .. }) =
                store.event(id.session, facts.noted, Detail::Brief)?
            else {
                return Err(Damage::new("a note is not at its recorded position").into());
            };
            doc.note(facts.noted, change.note.as_deref().unwrap_or_default());
        }
        return Ok(Some(doc));
    }
    Ok(None)
}
