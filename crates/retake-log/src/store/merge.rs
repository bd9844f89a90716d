//! Merging: decides which of several events with the same sequence number is kept.
//!
//! Events that are not in an intact frame of the journal are candidates. They are collected in a tree of the new
//! database, which is dropped afterwards, and decided session by session: an event that its successor refers to wins; a
//! real event wins over a `lost` one; then the journal wins over other copies. A candidate that contradicts its
//! neighbours is not part of the chain and is left where it is.

use std::collections::BTreeMap;

use crate::model::{Hash, SessionId};

use super::Error;
use super::database::{DatabaseError, guard};
use super::journal::JournalPosition;
use super::keys;
use super::payload::LOST;
use super::rebuild::Rebuild;
use super::record::Record;

/// The source of an event, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Journal,
    Database,
    Quarantine,
}

impl Rank {
    fn from_byte(byte: u8) -> Rank {
        match byte {
            0 => Rank::Journal,
            1 => Rank::Database,
            _ => Rank::Quarantine,
        }
    }
}

/// An event that may belong at a position of a chain.
#[derive(Clone, Debug)]
struct Choice {
    hash: Hash,
    prev: Hash,
    is_lost: bool,
    rank: Rank,
    /// Its position in the journal, if an intact frame contains it.
    position: Option<JournalPosition>,
    /// Whether the new database already has it.
    is_there: bool,
    bytes: Vec<u8>,
}

impl Rebuild<'_> {
    /// Adds a candidate.
    pub(super) fn put_candidate(
        &mut self,
        record: &Record<'_>,
        rank: Rank,
        position: Option<JournalPosition>,
    ) -> Result<(), DatabaseError> {
        let mut key = keys::numbered_key(record.header.session, record.header.seq).to_vec();
        key.extend_from_slice(&record.hash.0);
        let mut value = vec![rank as u8];
        value.extend_from_slice(&position.unwrap_or_default().to_bytes());
        value.extend_from_slice(record.bytes);
        guard(|| {
            // The best source it was found in counts.
            let known = self.candidates.get(&key)?;
            if known.is_none_or(|known| known.first().is_none_or(|known| *known > rank as u8)) {
                self.candidates.insert(&key, value)?;
            }
            Ok(())
        })
    }

    /// Decides every session that has candidates, and restores to the journal what it lacks.
    pub(super) fn merge(&mut self) -> Result<(), Error> {
        let candidates = self.candidates.clone();
        let mut items = candidates.iter();
        let mut current: Option<(SessionId, BTreeMap<u32, Vec<Choice>>)> = None;
        while let Some((key, value)) = guard(|| Ok(items.next().transpose()?))? {
            let Some((id, seq)) = keys::numbered_of(&key) else { continue };
            let Some(choice) = candidate(&value) else { continue };
            if current.as_ref().is_none_or(|(same, _)| *same != id) {
                let finished = current.replace((id, BTreeMap::new()));
                finished.map_or(Ok(()), |(id, choices)| self.merge_session(id, choices))?;
            }
            if let Some((_, choices)) = &mut current {
                choices.entry(seq).or_default().push(choice);
            }
        }
        current.map_or(Ok(()), |(id, choices)| self.merge_session(id, choices))
    }

    fn merge_session(&mut self, id: SessionId, mut choices: BTreeMap<u32, Vec<Choice>>) -> Result<(), Error> {
        for stored in self.database.events.of_session(id)? {
            let Some(record) = stored.record() else { continue };
            choices.entry(stored.seq).or_default().push(Choice {
                hash: record.hash,
                prev: record.header.prev,
                is_lost: record.header.kind == LOST,
                rank: Rank::Journal,
                position: stored.position(),
                is_there: true,
                bytes: record.bytes.to_vec(),
            });
        }
        let chosen = choose(&choices);
        for (seq, options) in choices {
            let winner = chosen.get(&seq).copied();
            for (at, option) in options.into_iter().enumerate() {
                match (Some(at) == winner, option.is_there) {
                    (true, true) => {}
                    (true, false) => self.keep(id, seq, option)?,
                    (false, _) => self.reject(id, seq, &option, winner.is_some())?,
                }
            }
        }
        Ok(())
    }

    /// Keeps a candidate: it is already in the journal, or is restored there.
    fn keep(&mut self, id: SessionId, seq: u32, option: Choice) -> Result<(), Error> {
        match option.position {
            Some(position) => {
                let value = super::events::event_value(&option.bytes, position);
                self.database.events.put(id, seq, &value)?;
                Ok(())
            }
            None => {
                // Until it is restored, the existing event must not be taken for it.
                self.database.events.remove(id, seq)?;
                self.put_back_later(option.bytes)
            }
        }
    }

    fn reject(&mut self, id: SessionId, seq: u32, option: &Choice, has_winner: bool) -> Result<(), Error> {
        if let Some(position) = option.position {
            self.cut_out(position)?;
        }
        if option.is_there && !has_winner {
            self.database.events.remove(id, seq)?;
        }
        if !option.is_lost {
            self.contradicting += 1;
            // Its sequence number was used, and is not used again.
            if !has_winner {
                let index = Record::read(&option.bytes).and_then(|record| record.event(&|_| None));
                let index = index.and_then(|(event, _)| match event.body {
                    crate::model::EventBody::Recorded { index, .. } => Some(index),
                    _ => None,
                });
                self.heard_of(id, seq.saturating_add(1), index);
            }
        }
        Ok(())
    }
}

fn candidate(value: &[u8]) -> Option<Choice> {
    let (rank, rest) = value.split_first()?;
    let (position, bytes) = rest.split_at_checked(12)?;
    let record = Record::read(bytes)?;
    Some(Choice {
        hash: record.hash,
        prev: record.header.prev,
        is_lost: record.header.kind == LOST,
        rank: Rank::from_byte(*rank),
        position: JournalPosition::from_bytes(position).filter(|position| *position != JournalPosition::default()),
        is_there: false,
        bytes: record.bytes.to_vec(),
    })
}

/// Chooses at most one event per sequence number, from last to first, since an event is identified by its successor.
fn choose(choices: &BTreeMap<u32, Vec<Choice>>) -> BTreeMap<u32, usize> {
    let mut chosen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut successor: Option<(u32, &Choice)> = None;
    for (seq, options) in choices.iter().rev() {
        let next = successor.filter(|(next, _)| seq.checked_add(1) == Some(*next)).map(|(_, next)| next);
        // A `lost` event refers to the last one known when it was written, which may not be its predecessor.
        let named = next.filter(|next| !next.is_lost).map(|next| next.prev);
        let before = seq.checked_sub(1).and_then(|before| choices.get(&before));
        let links_back = |option: &Choice| match before {
            Some(before) => before.iter().any(|before| before.hash == option.prev),
            None => *seq != 0 || option.prev == Hash::NONE,
        };
        let best = options.iter().enumerate().max_by_key(|(_, option)| {
            let was_named = named == Some(option.hash) || next.is_some_and(|next| next.prev == option.hash);
            (was_named, !option.is_lost, links_back(option), std::cmp::Reverse(option.rank), option.is_there)
        });
        let Some((at, best)) = best else { continue };
        // A journal event stays even if its neighbours contradict it: verification then reports the broken link.
        let contradicts_next = named.is_some_and(|named| named != best.hash);
        let is_known = before.is_some_and(|before| before.iter().any(|before| !before.is_lost));
        let contradicts_previous = named.is_none() && is_known && !links_back(best);
        if best.position.is_none() && !best.is_lost && (contradicts_next || contradicts_previous) {
            continue;
        }
        chosen.insert(*seq, at);
        successor = Some((*seq, best));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str) -> Hash {
        if name.is_empty() { Hash::NONE } else { Hash::of(name.as_bytes()) }
    }

    fn option(name: &str, prev: &str, rank: Rank) -> Choice {
        let position = (rank == Rank::Journal).then_some(JournalPosition { segment: 1, offset: 64 });
        let is_lost = name.starts_with("lost");
        Choice { hash: hash(name), prev: hash(prev), is_lost, rank, position, is_there: false, bytes: Vec::new() }
    }

    fn check(options: &[(u32, &str, &str, Rank)], expected: &[(u32, &str)]) {
        let mut choices: BTreeMap<u32, Vec<Choice>> = BTreeMap::new();
        for (seq, name, prev, rank) in options {
            choices.entry(*seq).or_default().push(option(name, prev, *rank));
        }
        let chosen = choose(&choices);
        let found: Vec<(u32, Hash)> = chosen.iter().map(|(seq, at)| (*seq, choices[seq][*at].hash)).collect();
        let expected: Vec<(u32, Hash)> = expected.iter().map(|(seq, name)| (*seq, hash(name))).collect();
        assert_eq!(found, expected, "{options:?}");
    }

    #[test]
    fn the_chain_decides_which_event_is_kept() {
        use Rank::{Database, Journal, Quarantine};
        // Events that the journal lacks come from elsewhere.
        check(&[(0, "a", "", Journal), (1, "b", "a", Database)], &[(0, "a"), (1, "b")]);
        // A foreign event does not follow.
        check(&[(0, "a", "", Journal), (1, "x", "y", Database)], &[(0, "a")]);
        check(&[(0, "x", "", Database), (1, "b", "a", Journal)], &[(1, "b")]);
        // A loss is replaced by the recovered event.
        check(&[(0, "lost", "", Journal), (0, "a", "", Quarantine), (1, "b", "a", Quarantine)], &[(0, "a"), (1, "b")]);
        // A loss that was built on stays, and the events it lists come back before it.
        check(
            &[(0, "a", "", Journal), (1, "b", "a", Database), (2, "lost", "a", Journal), (3, "d", "lost", Journal)],
            &[(0, "a"), (1, "b"), (2, "lost"), (3, "d")],
        );
        // An edited copy in the journal is not the one that its successor refers to.
        check(&[(0, "edited", "", Journal), (0, "a", "", Database), (1, "b", "a", Journal)], &[(0, "a"), (1, "b")]);
        // If both fit, the journal's copy wins.
        check(&[(0, "a", "", Journal), (1, "b", "a", Journal), (1, "c", "a", Database)], &[(0, "a"), (1, "b")]);
    }
}
