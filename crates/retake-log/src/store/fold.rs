//! A session on its way from events to a head, with what is missing between them.

use std::collections::BTreeSet;

use crate::model::{Event, EventBody, Head, Loss, SessionId, Timestamp};

use super::SessionLoss;

/// What is known of a session from elsewhere than its events.
#[derive(Clone, Copy, Default)]
pub(super) struct Evidence {
    pub(super) next_seq: u32,
    pub(super) last_index: Option<u32>,
}

/// A session on its way from events to a head.
pub(super) struct Fold {
    pub(super) head: Head,
    pub(super) events: u64,
    known_lost: BTreeSet<u32>,
    /// Places that are missing, and the times around the first and last of them.
    gaps: Vec<u32>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
    last_at: Option<Timestamp>,
    indexes: BTreeSet<u32>,
    known_last_index: Option<u32>,
    /// The idempotency key of the batch under way, its first place, and the index it recorded.
    pub(super) key: String,
    pub(super) key_seq: u32,
    pub(super) key_index: Option<u32>,
}

impl Fold {
    pub(super) fn new(id: SessionId) -> Fold {
        Fold {
            head: Head::new(id),
            events: 0,
            known_lost: BTreeSet::new(),
            gaps: Vec::new(),
            after: None,
            before: None,
            last_at: None,
            indexes: BTreeSet::new(),
            known_last_index: None,
            key: String::new(),
            key_seq: 0,
            key_index: None,
        }
    }

    pub(super) fn take(&mut self, event: &Event) {
        if event.seq > self.head.next_seq {
            self.gaps.extend(self.head.next_seq..event.seq);
            self.after = self.after.or(self.last_at);
            self.before = Some(event.at);
        }
        if event.key != self.key {
            (self.key, self.key_seq, self.key_index) = (event.key.clone(), event.seq, None);
        }
        match &event.body {
            EventBody::Recorded { index, .. } => {
                self.indexes.insert(*index);
                self.key_index = Some(*index);
            }
            EventBody::Lost(loss) => {
                self.known_lost.extend(&loss.seqs);
                self.known_last_index = self.known_last_index.max(loss.last_index);
            }
            _ => {}
        }
        self.last_at = Some(event.at);
        self.events += 1;
        self.head.advance(event);
    }

    /// What is missing and not on record as lost yet.
    pub(super) fn loss(&self, evidence: Evidence) -> Option<(Loss, SessionLoss)> {
        let mut seqs: Vec<u32> = self.gaps.iter().copied().filter(|seq| !self.known_lost.contains(seq)).collect();
        let at_end = evidence.next_seq > self.head.next_seq;
        seqs.extend(self.head.next_seq..evidence.next_seq);
        let never_seen = self.events == 0;
        if seqs.is_empty() && !never_seen {
            return None;
        }
        let last_index = evidence.last_index.filter(|last| Some(*last) > self.head.last_index);
        let after = if self.after.is_some() || !at_end { self.after } else { self.last_at };
        let before = if at_end { None } else { self.before };
        let last = self.head.last_index.max(evidence.last_index);
        let missing = last.map(|last| (0..=last).filter(|index| !self.indexes.contains(index)).collect());
        let iterations = missing.unwrap_or_default();
        let named = SessionLoss { session: Some(self.head.id), seqs: seqs.clone(), iterations, after, before };
        Some((Loss { seqs, last_index, after, before }, named))
    }
}
