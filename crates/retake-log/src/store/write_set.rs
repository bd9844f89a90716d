//! Combines several commits into the writes for the database: a session that many of them touch is written once, and
//! everything is encoded before the database is blocked.

use std::collections::BTreeMap;

use sled::IVec;

use crate::model::{Hash, Head, SessionId};

use super::database::{encode_head, encode_totals, recency_of};
use super::events::event_value;
use super::journal::JournalPosition;
use super::key_index::Key;
use super::keys;
use super::projection::{CommitChange, KeyHit};

/// The combined writes of some commits, as keys and values.
pub(super) struct WriteSet {
    pub(super) events: Vec<(SessionId, u32, IVec)>,
    pub(super) sessions: BTreeMap<SessionId, SessionWrite>,
    pub(super) keys: BTreeMap<Key, KeyHit>,
    pub(super) children: Vec<[u8; 24]>,
    pub(super) days: BTreeMap<u32, u32>,
    pub(super) texts: Vec<(Hash, IVec)>,
    pub(super) totals: IVec,
    pub(super) position: IVec,
    pub(super) end: JournalPosition,
}

/// The writes for one session.
pub(super) struct SessionWrite {
    pub(super) head: IVec,
    pub(super) recency_before: Option<[u8; 17]>,
    pub(super) recency_after: Option<[u8; 17]>,
}

impl WriteSet {
    /// Combines consecutive commits; `None` if there are none.
    pub(super) fn of<'a>(changes: impl IntoIterator<Item = &'a CommitChange>) -> Option<WriteSet> {
        let (mut events, mut children, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut days, mut keys) = (BTreeMap::new(), BTreeMap::new());
        let mut touched: BTreeMap<SessionId, (Option<[u8; 17]>, &Head)> = BTreeMap::new();
        let mut last = None;
        for change in changes {
            let (id, projection) = (change.session(), &change.projection);
            for (seq, position, record) in &change.records {
                events.push((id, *seq, event_value(record, *position)));
            }
            let before = projection.before.as_ref().and_then(recency_of);
            touched.entry(id).or_insert((before, change.head())).1 = change.head();
            for (key, hit) in &projection.keys {
                keys.entry(*key).and_modify(|known: &mut KeyHit| *known = known.merge(*hit)).or_insert(*hit);
            }
            let links = projection.children.iter();
            children.extend(links.map(|(parent, child)| keys::child_key(*parent, *child)));
            if change.is_new_session() {
                let (day, number) = keys::numbers(id);
                let highest = days.entry(day).or_insert(number);
                *highest = number.max(*highest);
            }
            texts.extend(change.texts.iter().map(|(hash, position)| (*hash, position.to_bytes().to_vec().into())));
            last = Some(change);
        }
        let last = last?;
        let session = |(id, (recency_before, head)): (SessionId, (Option<[u8; 17]>, &Head))| {
            (id, SessionWrite { head: encode_head(head).into(), recency_before, recency_after: recency_of(head) })
        };
        Some(WriteSet {
            events,
            sessions: touched.into_iter().map(session).collect(),
            keys,
            children,
            days,
            texts,
            totals: encode_totals(last.totals).into(),
            position: last.end.to_bytes().to_vec().into(),
            end: last.end,
        })
    }
}
