//! The single rule that derives everything from events: heads, idempotency keys, children, totals.
//!
//! Live appends, catching up on open, rebuilding and verifying all fold events through a [`Projection`], so that the
//! four cannot disagree. It is a pure function of the events of one session, without I/O.

use crate::model::{Event, EventBody, Hash, Head, IterationId, SessionId};

use super::Totals;
use super::journal::JournalPosition;
use super::keys;

/// The use of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHit {
    pub(super) session: SessionId,
    /// The sequence number of the first event with this key.
    pub(super) seq: u32,
    /// The index of the first iteration recorded with this key.
    pub(super) index: Option<u32>,
}

/// The changes made by consecutive events of one session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Projection {
    /// The session before them; `None` if it is new.
    pub(super) before: Option<Head>,
    /// The session after them.
    pub(super) after: Head,
    /// The keys of the events, without empty ones.
    pub(super) keys: Vec<([u8; 16], KeyHit)>,
    /// The links from parents to children, except those from one iteration to the next in the same session.
    pub(super) children: Vec<(IterationId, IterationId)>,
    /// The number of events.
    pub(super) events: u64,
}

/// A commit in the form in which the database applies it.
#[derive(Debug)]
pub(super) struct CommitChange {
    /// The journal position after it.
    pub(super) end: JournalPosition,
    pub(super) projection: Projection,
    /// Its records, each with its sequence number and its position in the journal.
    pub(super) records: Vec<(u32, JournalPosition, Vec<u8>)>,
    /// The long texts it added to the journal.
    pub(super) texts: Vec<(Hash, JournalPosition)>,
    /// The totals after it.
    pub(super) totals: Totals,
    /// Whether its keys are known to be new, so that they need not be merged with existing ones.
    pub(super) keys_are_new: bool,
}

impl Projection {
    /// Starts from the state of a session, or from its beginning if it is new.
    pub(super) fn new(id: SessionId, before: Option<Head>) -> Projection {
        let after = before.clone().unwrap_or_else(|| Head::new(id));
        Projection { before, after, keys: Vec::new(), children: Vec::new(), events: 0 }
    }

    /// Applies the session's next event.
    pub(super) fn apply(&mut self, event: &Event) {
        self.after.advance(event);
        self.events += 1;
        let mut hit = KeyHit { session: event.session, seq: event.seq, index: None };
        if let EventBody::Recorded { index, iteration } = &event.body {
            hit.index = Some(*index);
            self.children.extend(keys::link(iteration, event.session.iteration(*index)));
        }
        if event.key.is_empty() {
            return;
        }
        let key = keys::idempotency_key(&event.key);
        // Nearly always the same as that of the previous event, so check the last one first.
        match self.keys.iter_mut().rev().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = known.merge(hit),
            None => self.keys.push((key, hit)),
        }
    }
}

impl KeyHit {
    /// Merges two uses of one key, independent of their order: the lower session, then the first sequence number and
    /// the first index in it.
    pub(super) fn merge(self, other: KeyHit) -> KeyHit {
        if self.session != other.session {
            return if self.session < other.session { self } else { other };
        }
        let index = match (self.index, other.index) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        };
        KeyHit { session: self.session, seq: self.seq.min(other.seq), index }
    }
}

impl CommitChange {
    pub(super) fn new(projection: Projection) -> CommitChange {
        CommitChange {
            end: JournalPosition::default(),
            projection,
            records: Vec::new(),
            texts: Vec::new(),
            totals: Totals::default(),
            keys_are_new: false,
        }
    }

    /// Returns the session it changes.
    pub(super) fn session(&self) -> SessionId {
        self.projection.after.id
    }

    /// Returns the session's head after it.
    pub(super) fn head(&self) -> &Head {
        &self.projection.after
    }

    /// Returns whether it starts a session.
    pub(super) fn is_new_session(&self) -> bool {
        self.projection.before.is_none()
    }
}

impl Totals {
    /// Adds the changes of a projection.
    pub(super) fn advance(&mut self, projection: &Projection) {
        let listed = |head: Option<&Head>| u64::from(head.is_some_and(|head| head.span.is_some()));
        let archived = |head: Option<&Head>| u64::from(head.is_some_and(|head| head.span.is_some() && head.archived));
        let (before, after) = (projection.before.as_ref(), Some(&projection.after));
        self.sessions = (self.sessions + listed(after)).saturating_sub(listed(before));
        self.archived = (self.archived + archived(after)).saturating_sub(archived(before));
        self.events += projection.events;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(session: &str, seq: u32, index: Option<u32>) -> KeyHit {
        KeyHit { session: session.parse().unwrap(), seq, index }
    }

    #[test]
    fn merging_hits_does_not_depend_on_the_order() {
        let hits = [
            hit("session-2025-12-11-001", 4, None),
            hit("session-2025-12-11-001", 2, Some(3)),
            hit("session-2025-12-11-001", 7, Some(1)),
            hit("session-2025-12-11-002", 0, Some(0)),
        ];
        for a in hits {
            for b in hits {
                assert_eq!(a.merge(b), b.merge(a));
                for c in hits {
                    assert_eq!(a.merge(b).merge(c), a.merge(b.merge(c)));
                }
            }
        }
        assert_eq!(hits[0].merge(hits[1]).merge(hits[2]), hit("session-2025-12-11-001", 2, Some(1)));
    }
}
