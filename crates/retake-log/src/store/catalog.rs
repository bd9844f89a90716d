//! Reading: a session's events, and pages of the listing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Event, EventBody, Hash, Head, SessionId, Summary};

use super::database::{Database, DatabaseError};
use super::event_tree::StoredEvent;
use super::log::{Log, State};
use super::record::Record;
use super::recent::{RecentPage, MAX_RECENT, RecentSessions, place_of};
use super::{Detail, Order, RecencyKey, Status};

impl Log {
    /// All events of a session.
    pub(super) fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, DatabaseError> {
        let texts = |hash: Hash| self.text(hash);
        let values = self.values(id)?;
        values
            .iter()
            .map(|(seq, value)| Ok(read(id, *seq, value)?.event_in(detail, &texts).ok_or_else(unread(id, *seq))?.0))
            .collect()
    }

    /// One event of a session.
    pub(super) fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, DatabaseError> {
        let Some(bytes) = self.record(id, seq)? else { return Ok(None) };
        let texts = |hash: Hash| self.text(hash);
        Ok(Some(read(id, seq, &bytes)?.event_in(detail, &texts).ok_or_else(unread(id, seq))?.0))
    }

    /// The exact bytes of one record of a session.
    pub(super) fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.settle(Some(id));
        let Some(value) = self.read()?.events.get(id, seq)? else { return Ok(None) };
        Ok(Some(read(id, seq, &value)?.bytes.to_vec()))
    }

    /// The exact bytes of a session's records, each checked.
    pub(super) fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, DatabaseError> {
        let values = self.values(id)?;
        values.iter().map(|(seq, value)| Ok(Record::read(value).ok_or_else(unread(id, *seq))?.bytes.to_vec())).collect()
    }

    /// A session's records as sled has them. A place that is missing and not on record as lost is trouble.
    fn values(&self, id: SessionId) -> Result<Vec<(u32, StoredEvent)>, DatabaseError> {
        self.settle(Some(id));
        let (values, head) = {
            let database = self.read()?;
            (database.events_of(id)?, database.head(id)?)
        };
        let last = values.last().map_or(0, |(seq, _)| seq.saturating_add(1));
        if head.is_some_and(|head| head.next_seq > last) {
            return Err(DatabaseError::Wrong(format!("the last events of {id} are missing")));
        }
        if !values.iter().zip(0u32..).all(|((seq, _), dense)| *seq == dense) {
            check_gaps(id, &values)?;
        }
        Ok(values)
    }

    /// The next sessions after a place: from the window where it reaches, from the tree below.
    pub(super) fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, DatabaseError> {
        let mut rows = Vec::new();
        let mut after = after;
        if order == Order::Recent {
            let mut state = self.lock();
            let glimpse = match &state.window {
                Some(window) => window.recent(status, after, limit),
                None => {
                    let window = self.new_window(&state)?;
                    state.window.insert(window).recent(status, after, limit)
                }
            };
            let RecentPage { rows: seen, go_on_after } = glimpse;
            rows = seen;
            match go_on_after {
                Some(place) if rows.len() < limit => after = Some(place),
                _ => return Ok(rows),
            }
        }
        self.settle(None);
        let database = self.read()?;
        for (place, head) in next_listed(&database, status, order, after, limit - rows.len())? {
            rows.push(Arc::new(row(place, &head)?));
        }
        Ok(rows)
    }

    fn new_window(&self, state: &State) -> Result<RecentSessions, DatabaseError> {
        let database = self.read()?;
        // The tree may be behind for sessions in the overlay, which therefore tell their place themselves.
        let ahead: Vec<&Head> = state.acked.heads.values().map(|(_, head)| head).collect();
        let wanted = MAX_RECENT + ahead.len();
        let listed = next_listed(&database, Status::All, Order::Recent, None, wanted)?;
        let complete = listed.len() < wanted;
        let floor = listed.last().map(|(place, _)| *place);
        let mut newest: Vec<Arc<Summary>> = Vec::with_capacity(listed.len());
        for (place, head) in listed.into_iter().filter(|(place, _)| !state.acked.heads.contains_key(&place.id)) {
            newest.push(Arc::new(row(place, &head)?));
        }
        let above_floor = |row: &Summary| complete || floor.is_none_or(|floor| place_of(row) > floor);
        newest.extend(ahead.into_iter().filter_map(Head::summary).filter(above_floor).map(Arc::new));
        Ok(RecentSessions::new(newest, complete))
    }
}

/// Merges active and archived sessions in the order asked for.
fn next_listed(
    database: &Database,
    status: Status,
    order: Order,
    after: Option<RecencyKey>,
    limit: usize,
) -> Result<Vec<(RecencyKey, Head)>, DatabaseError> {
    let recent = order == Order::Recent;
    let mut listed = Vec::new();
    if status != Status::Archived {
        listed.extend(database.listed(false, recent, after, limit)?);
    }
    if status != Status::Active {
        listed.extend(database.listed(true, recent, after, limit)?);
    }
    if recent {
        listed.sort_unstable_by_key(|(place, _)| std::cmp::Reverse(*place));
    } else {
        listed.sort_unstable_by_key(|(place, _)| *place);
    }
    listed.truncate(limit);
    Ok(listed)
}

/// Returns the row of a session, checked against the place in the order that it was found at.
fn row(place: RecencyKey, head: &Head) -> Result<Summary, DatabaseError> {
    head.summary()
        .filter(|summary| place_of(summary) == place)
        .ok_or_else(|| DatabaseError::Wrong(format!("the listing and what is known of {} disagree", place.id)))
}

fn check_gaps(id: SessionId, values: &[(u32, StoredEvent)]) -> Result<(), DatabaseError> {
    let mut there = BTreeSet::new();
    let mut lost = BTreeSet::new();
    for (seq, value) in values {
        there.insert(*seq);
        let (event, _) = read(id, *seq, value)?.event(&|_| None).ok_or_else(unread(id, *seq))?;
        if let EventBody::Lost(loss) = event.body {
            lost.extend(loss.seqs);
        }
    }
    let last = there.last().copied().unwrap_or(0);
    match (0..last).find(|seq| !there.contains(seq) && !lost.contains(seq)) {
        Some(seq) => Err(DatabaseError::Wrong(format!("event {seq} of {id} is missing"))),
        None => Ok(()),
    }
}

fn read(id: SessionId, seq: u32, value: &[u8]) -> Result<Record<'_>, DatabaseError> {
    Record::read_unchecked(value).ok_or_else(unread(id, seq))
}

fn unread(id: SessionId, seq: u32) -> impl Fn() -> DatabaseError {
    move || DatabaseError::Wrong(format!("event {seq} of {id} cannot be read"))
}
