//! Reads a session's events, and pages of the listing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Event, EventBody, Hash, Head, IterationId, SessionId, Summary};

use super::database::{Database, DatabaseError};
use super::events::StoredEvent;
use super::log::LocalLog;
use super::recent::{MAX_RECENT, RecentPage, RecentSessions, place_of};
use super::record::Record;
use super::view::Ahead;
use super::{Detail, Order, RecencyKey, Status};

impl LocalLog {
    /// Returns all events of a session.
    pub(super) fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, DatabaseError> {
        let texts = |hash: Hash| self.text(hash);
        let values = self.values(id)?;
        let mut events = Vec::with_capacity(values.len());
        for stored in &values {
            events.push(read(id, stored)?.event_in(detail, &texts).ok_or_else(unread(id, stored.seq))?.0);
        }
        Ok(events)
    }

    /// Returns one event of a session; `None` if it does not exist.
    pub(super) fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, DatabaseError> {
        let Some(bytes) = self.record(id, seq)? else { return Ok(None) };
        let texts = |hash: Hash| self.text(hash);
        let record = Record::read_unchecked(&bytes).ok_or_else(unread(id, seq))?;
        Ok(Some(record.event_in(detail, &texts).ok_or_else(unread(id, seq))?.0))
    }

    /// Returns the events that record and annotate one iteration, without reading the others of its session.
    pub(super) fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, DatabaseError> {
        let texts = |hash: Hash| self.text(hash);
        let event = |stored: &StoredEvent| {
            let record = read(id.session, stored)?;
            Ok(record.event_in(detail, &texts).ok_or_else(unread(id.session, stored.seq))?.0)
        };
        self.values_of_iteration(id)?.iter().map(event).collect()
    }

    /// Returns the exact bytes of the records that record and annotate one iteration.
    pub(super) fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, DatabaseError> {
        let bytes = |stored: &StoredEvent| Ok(read(id.session, stored)?.bytes.to_vec());
        self.values_of_iteration(id)?.iter().map(bytes).collect()
    }

    /// Returns the iterations derived from this one, in any session.
    pub(super) fn children(&self, id: IterationId) -> Result<Vec<IterationId>, DatabaseError> {
        self.view.wait_until_applied(None);
        let mut children = self.view.read()?.children(id)?;
        // Nearly every iteration is derived from the previous one, so the tree leaves out those links.
        if let Some(next) = id.index.checked_add(1).map(|index| id.session.iteration(index)) {
            let events = self.events_of_iteration(next, Detail::Brief)?;
            let is_child = |event: &Event| matches!(&event.body, EventBody::Recorded { iteration, .. } if iteration.parent == Some(id));
            children.extend(events.iter().any(is_child).then_some(next));
        }
        children.sort_unstable();
        Ok(children)
    }

    /// Returns the exact bytes of one record of a session.
    pub(super) fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, DatabaseError> {
        self.view.wait_until_applied(Some(id));
        let Some(stored) = self.view.read()?.events.get(id, seq)? else { return Ok(None) };
        Ok(Some(read(id, &stored)?.bytes.to_vec()))
    }

    /// Returns the exact bytes of a session's records, verified.
    pub(super) fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, DatabaseError> {
        let values = self.values(id)?;
        let bytes =
            |stored: &StoredEvent| Ok(stored.checked_record().ok_or_else(unread(id, stored.seq))?.bytes.to_vec());
        values.iter().map(bytes).collect()
    }

    fn values_of_iteration(&self, id: IterationId) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.view.wait_until_applied(Some(id.session));
        self.view.read()?.events.of_iteration(id.session, id.index)
    }

    /// Returns a session's records as stored in sled. A missing sequence number that is not recorded as lost is an
    /// error.
    fn values(&self, id: SessionId) -> Result<Vec<StoredEvent>, DatabaseError> {
        self.view.wait_until_applied(Some(id));
        let (values, head) = {
            let database = self.view.read()?;
            (database.events.of_session(id)?, database.head(id)?)
        };
        let last = values.last().map_or(0, |stored| stored.seq.saturating_add(1));
        if head.is_some_and(|head| head.next_seq > last) {
            return Err(DatabaseError::Inconsistent(format!("the last events of {id} are missing")));
        }
        if !values.iter().zip(0u32..).all(|(stored, dense)| stored.seq == dense) {
            check_gaps(id, &values)?;
        }
        Ok(values)
    }

    /// Returns the next sessions after a position: first from the newest ones kept in memory, then from the tree.
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
            let mut ahead = self.view.ahead();
            let page = match &ahead.recent {
                Some(recent) => recent.page(status, after, limit),
                None => {
                    let recent = self.recent_sessions(&ahead)?;
                    ahead.recent.insert(recent).page(status, after, limit)
                }
            };
            let RecentPage { rows: seen, go_on_after } = page;
            rows = seen;
            match go_on_after {
                Some(place) if rows.len() < limit => after = Some(place),
                _ => return Ok(rows),
            }
        }
        self.view.wait_until_applied(None);
        let database = self.view.read()?;
        for (place, head) in next_listed(&database, status, order, after, limit - rows.len())? {
            rows.push(Arc::new(row(place, head)?));
        }
        Ok(rows)
    }

    fn recent_sessions(&self, ahead: &Ahead) -> Result<RecentSessions, DatabaseError> {
        let database = self.view.read()?;
        // The tree lags behind for unapplied sessions, so those are placed by their own heads.
        let heads: Vec<&Head> = ahead.unapplied.heads.values().map(|(_, head)| head).collect();
        let wanted = MAX_RECENT + heads.len();
        let listed = next_listed(&database, Status::All, Order::Recent, None, wanted)?;
        let complete = listed.len() < wanted;
        let floor = listed.last().map(|(place, _)| *place);
        let mut newest: Vec<Arc<Summary>> = Vec::with_capacity(listed.len());
        for (place, head) in listed.into_iter().filter(|(place, _)| !ahead.unapplied.heads.contains_key(&place.id)) {
            newest.push(Arc::new(row(place, head)?));
        }
        let above_floor = |row: &Summary| complete || floor.is_none_or(|floor| place_of(row) > floor);
        newest.extend(heads.into_iter().filter_map(Head::summary).filter(above_floor).map(Arc::new));
        Ok(RecentSessions::new(newest, complete))
    }
}

/// Merges active and archived sessions in the requested order.
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

/// Returns the row of a session, checked against the position in the order where it was found.
fn row(place: RecencyKey, head: Head) -> Result<Summary, DatabaseError> {
    head.into_summary()
        .filter(|summary| place_of(summary) == place)
        .ok_or_else(|| DatabaseError::Inconsistent(format!("the listing and the head of {} disagree", place.id)))
}

fn check_gaps(id: SessionId, values: &[StoredEvent]) -> Result<(), DatabaseError> {
    let mut there = BTreeSet::new();
    let mut lost = BTreeSet::new();
    for stored in values {
        there.insert(stored.seq);
        let (event, _) = read(id, stored)?.event(&|_| None).ok_or_else(unread(id, stored.seq))?;
        if let EventBody::Lost(loss) = event.body {
            lost.extend(loss.seqs);
        }
    }
    let last = there.last().copied().unwrap_or(0);
    match (0..last).find(|seq| !there.contains(seq) && !lost.contains(seq)) {
        Some(seq) => Err(DatabaseError::Inconsistent(format!("event {seq} of {id} is missing"))),
        None => Ok(()),
    }
}

fn read(id: SessionId, stored: &StoredEvent) -> Result<Record<'_>, DatabaseError> {
    stored.record().ok_or_else(unread(id, stored.seq))
}

fn unread(id: SessionId, seq: u32) -> impl Fn() -> DatabaseError {
    move || DatabaseError::Inconsistent(format!("event {seq} of {id} cannot be read"))
}
