//! Folds the events of a session that is being rebuilt, and tracks the gaps between them.

use std::collections::BTreeSet;

use crate::model::{Event, EventBody, Loss, SessionId, Timestamp};

use super::SessionLoss;
use super::projection::Projection;

/// What is known about a session from sources other than its events.
#[derive(Clone, Default)]
pub(super) struct Evidence {
    pub(super) next_seq: u32,
    pub(super) last_index: Option<u32>,
    /// The sequence numbers of recorded iterations of which only the header is left, which does not contain the index.
    pub(super) recorded: BTreeSet<u32>,
}

/// A session being rebuilt.
pub(super) struct Fold {
    pub(super) projection: Projection,
    known_lost: BTreeSet<u32>,
    /// Missing sequence numbers, and the times around the first and last of them.
    gaps: Vec<u32>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
    last_at: Option<Timestamp>,
    indexes: BTreeSet<u32>,
    /// The sequence number after the last remaining recorded iteration.
    after_last_recorded: u32,
}

impl Fold {
    pub(super) fn new(id: SessionId) -> Fold {
        Fold {
            projection: Projection::new(id, None),
            known_lost: BTreeSet::new(),
            gaps: Vec::new(),
            after: None,
            before: None,
            last_at: None,
            indexes: BTreeSet::new(),
            after_last_recorded: 0,
        }
    }

    /// Applies the session's next event.
    pub(super) fn take(&mut self, event: &Event) {
        let next_seq = self.projection.after.next_seq;
        if event.seq > next_seq {
            self.gaps.extend(next_seq..event.seq);
            self.after = self.after.or(self.last_at);
            self.before = Some(event.at);
        }
        match &event.body {
            EventBody::Recorded { index, .. } => {
                self.indexes.insert(*index);
                self.after_last_recorded = event.seq.saturating_add(1);
            }
            EventBody::Lost(loss) => self.known_lost.extend(&loss.seqs),
            _ => {}
        }
        self.last_at = Some(event.at);
        self.projection.apply(event);
    }

    /// Returns the events that are missing and not recorded as lost yet.
    pub(super) fn loss(&self, evidence: &Evidence) -> Option<(Loss, SessionLoss)> {
        let head = &self.projection.after;
        let mut seqs: Vec<u32> = self.gaps.iter().copied().filter(|seq| !self.known_lost.contains(seq)).collect();
        let at_end = evidence.next_seq > head.next_seq;
        seqs.extend(head.next_seq..evidence.next_seq);
        let never_seen = self.projection.events == 0;
        if seqs.is_empty() && !never_seen {
            return None;
        }
        // Iterations recorded after the last remaining one had the indexes after its own.
        let recorded_last = evidence.recorded.range(self.after_last_recorded..).count();
        let assigned = u32::try_from(recorded_last).ok().and_then(|recorded| recorded.checked_sub(1));
        let assigned = assigned.map(|more| head.last_index.map_or(more, |last| last.saturating_add(more + 1)));
        let known_last = evidence.last_index.max(assigned);
        let last_index = known_last.filter(|last| Some(*last) > head.last_index);
        let after = if self.after.is_some() || !at_end { self.after } else { self.last_at };
        let before = if at_end { None } else { self.before };
        let last = head.last_index.max(known_last);
        let missing = last.map(|last| (0..=last).filter(|index| !self.indexes.contains(index)).collect());
        let iterations = missing.unwrap_or_default();
        let named = SessionLoss { session: Some(head.id), seqs: seqs.clone(), iterations, after, before };
        Some((Loss { seqs, last_index, after, before }, named))
    }
}
