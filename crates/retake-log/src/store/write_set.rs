//! Several commits added up to what the database must write: a session that many of them touch is written once, and all
//! is encoded before the database is held up.

use std::collections::BTreeMap;

use sled::IVec;

use crate::model::{Hash, Head, SessionId};

use super::database::{Change, KeyHit, encode_head, encode_totals, recency_of};
use super::event_tree::NewRecords;
use super::journal::Position;
use super::key_index::Key;
use super::keys;

/// What some commits change in all, as keys and values: a session that several of them touch is written once.
pub(super) struct WriteSet<'a> {
    pub(super) events: BTreeMap<SessionId, NewRecords<'a>>,
    pub(super) sessions: BTreeMap<SessionId, SessionWrite>,
    pub(super) keys: Vec<(Key, KeyHit)>,
    pub(super) children: Vec<[u8; 24]>,
    pub(super) days: BTreeMap<u32, u32>,
    pub(super) texts: Vec<(Hash, IVec)>,
    pub(super) totals: IVec,
    pub(super) position: IVec,
    pub(super) end: Position,
}

pub(super) struct SessionWrite {
    pub(super) head: IVec,
    pub(super) recency_before: Option<[u8; 17]>,
    pub(super) recency_after: Option<[u8; 17]>,
}

impl<'a> WriteSet<'a> {
    /// None when there are no commits.
    pub(super) fn of(changes: impl IntoIterator<Item = &'a Change>) -> Option<WriteSet<'a>> {
        let (mut keys_, mut children, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut events: BTreeMap<SessionId, NewRecords<'a>> = BTreeMap::new();
        let mut days = BTreeMap::new();
        let mut touched: BTreeMap<SessionId, (Option<[u8; 17]>, &Head)> = BTreeMap::new();
        let mut last = None;
        for change in changes {
            let id = change.after.id;
            let records = change.records.iter().map(|(seq, position, record)| (*seq, *position, record.as_slice()));
            events.entry(id).or_default().extend(records);
            let before = change.before.as_ref().and_then(recency_of);
            touched.entry(id).or_insert((before, &change.after)).1 = &change.after;
            keys_.extend_from_slice(&change.keys);
            children.extend(change.children.iter().map(|(parent, child)| keys::child_key(*parent, *child)));
            if change.before.is_none() {
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
            keys: keys_,
            children,
            days,
            texts,
            totals: encode_totals(last.totals).into(),
            position: last.end.to_bytes().to_vec().into(),
            end: last.end,
        })
    }
}
