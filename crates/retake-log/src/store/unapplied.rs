//! Changes that the database does not have yet: queued commits (which may still fail), and commits that are
//! acknowledged but not applied. Reads check here first.

use std::collections::HashMap;
use std::hash::Hash as MapKey;

use crate::model::{Hash, Head, SessionId};

use super::projection::{CommitChange, KeyHit};

/// The newest state of each session, key, day and text, with the ticket of the commit that set it.
#[derive(Default)]
pub(super) struct Unapplied {
    pub(super) heads: HashMap<SessionId, (u64, Head)>,
    pub(super) keys: HashMap<[u8; 16], (u64, KeyHit)>,
    pub(super) days: HashMap<u32, (u64, u32)>,
    pub(super) texts: HashMap<Hash, (u64, ())>,
}

impl Unapplied {
    /// Adds a commit.
    pub(super) fn add(&mut self, ticket: u64, change: &CommitChange) {
        let head = change.head();
        self.heads.insert(head.id, (ticket, head.clone()));
        for (key, hit) in &change.projection.keys {
            let known = self.keys.get(key).map_or(*hit, |(_, known)| known.merge(*hit));
            self.keys.insert(*key, (ticket, known));
        }
        if change.is_new_session() {
            let (day, number) = super::keys::numbers(head.id);
            let last = self.days.get(&day).map_or(0, |(_, last)| *last);
            self.days.insert(day, (ticket, number.max(last)));
        }
        for (hash, _) in &change.texts {
            self.texts.insert(*hash, (ticket, ()));
        }
    }

    /// Removes what one commit set, unless a later ticket set it again.
    pub(super) fn forget_change(&mut self, ticket: u64, change: &CommitChange) {
        forget_one(&mut self.heads, ticket, &change.session());
        change.projection.keys.iter().for_each(|(key, _)| forget_one(&mut self.keys, ticket, key));
        // Days stay: they are few, and the next session of today needs today's number again.
        change.texts.iter().for_each(|(hash, _)| forget_one(&mut self.texts, ticket, hash));
    }

    /// Removes what was set up to this ticket and not since.
    pub(super) fn forget(&mut self, ticket: u64) {
        forget(&mut self.heads, ticket);
        forget(&mut self.keys, ticket);
        forget(&mut self.days, ticket);
        forget(&mut self.texts, ticket);
    }
}

fn forget<K: Eq + MapKey, V>(map: &mut HashMap<K, (u64, V)>, ticket: u64) {
    map.retain(|_, (set_by, _)| *set_by > ticket);
    shrink(map);
}

fn forget_one<K: Eq + MapKey, V>(map: &mut HashMap<K, (u64, V)>, ticket: u64, key: &K) {
    if map.get(key).is_some_and(|(set_by, _)| *set_by <= ticket) {
        map.remove(key);
        shrink(map);
    }
}

/// Releases memory after a burst.
fn shrink<K: Eq + MapKey, V>(map: &mut HashMap<K, V>) {
    if map.is_empty() && map.capacity() > 4096 {
        map.shrink_to_fit();
    }
}
