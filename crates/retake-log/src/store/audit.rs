//! Verification: one session's chain in both copies, and every byte of the store.

use std::collections::BTreeSet;

use crate::model::{Event, EventBody, Hash, Head, SessionId};

use super::database::{Database, DatabaseError};
use super::journal::{JournalPosition, SEGMENT_HEADER, STANDS_FOR_LOST, frame_hash};
use super::log::LocalLog;
use super::projection::Projection;
use super::record::Record;
use super::scan::{Entry, ScanItem, walk};
use super::{Error, Fault, FaultKind, Progress, Trail, Verification, keys};

impl LocalLog {
    /// Returns a session's events, each verified in both copies, and the faults of the chain between them.
    pub(super) fn trail(&self, id: SessionId) -> Result<Trail, DatabaseError> {
        self.view.wait_until_applied(Some(id));
        let values = self.view.read()?.events.of_session(id)?;
        let head = self.view.head(id)?;
        let mut trail = Trail { events: Vec::new(), faults: Vec::new() };
        let mut chain = Chain::default();
        for value in values {
            let fault = |kind| Fault { seq: value.seq, kind };
            let stored = value.checked_record();
            // A read that fails is reported as an error, not as a damaged copy.
            let journal = value.position().map_or(Ok(None), |position| self.files.record_at(position))?;
            let journal = journal.as_deref().and_then(Record::read);
            if stored.is_none() {
                trail.faults.push(fault(FaultKind::DatabaseCopy));
            }
            if journal.is_none() || stored.is_some_and(|stored| journal.is_some_and(|copy| copy.bytes != stored.bytes))
            {
                trail.faults.push(fault(FaultKind::JournalCopy));
            }
            let Some(record) = stored.or(journal) else { continue };
            let Some((event, missing)) = record.event(&|hash| self.text(hash)) else { continue };
            if !missing.is_empty() {
                trail.faults.push(fault(FaultKind::Text));
            }
            chain.link(&event, &mut trail.faults);
            trail.events.push(event);
        }
        if let Some(head) = head {
            chain.close(&head, &mut trail.faults);
        }
        trail.faults.sort_by_key(|fault| fault.seq);
        Ok(trail)
    }

    /// Compares every byte of both copies, and all derived data with the events.
    pub(super) fn verify(&self, progress: Option<&Progress>) -> Result<Verification, Error> {
        self.view.wait_until_applied(None);
        let _maintenance = self.view.maintain();
        let mut check = Check { log: self, progress, found: Verification::default(), journal_events: 0 };
        let database = match self.view.read() {
            Ok(database) => database,
            Err(error) => {
                check.problem(format!("the database: {error}"));
                return Ok(check.found);
            }
        };
        match check.journal(&database).and_then(|()| check.database(&database)) {
            Ok(()) => {}
            // The check could not be completed, so nothing is called damaged.
            Err(error) if error.is_transient() => return Err(error.into_error(&self.layout.database())),
            Err(error) => check.problem(format!("the database: {error}")),
        }
        Ok(check.found)
    }
}

/// Tracks the chain of a session.
#[derive(Default)]
struct Chain {
    next: u32,
    tip: Option<Hash>,
    seen: BTreeSet<[u8; 32]>,
}

impl Chain {
    fn link(&mut self, event: &Event, faults: &mut Vec<Fault>) {
        let gap = event.seq > self.next;
        faults.extend((self.next..event.seq).map(|seq| Fault { seq, kind: FaultKind::Missing }));
        // After a gap, only the event that records the loss can be linked. It refers to the last event known when it
        // was written, which is not its predecessor if lost events came back.
        let is_lost = matches!(event.body, EventBody::Lost(_));
        let follows = event.prev == self.tip.unwrap_or(Hash::NONE);
        let follows_earlier = is_lost && (event.prev == Hash::NONE || self.seen.contains(&event.prev.0));
        if (!gap || is_lost) && !follows && !follows_earlier {
            faults.push(Fault { seq: event.seq, kind: FaultKind::Unlinked });
        }
        self.seen.insert(event.hash.0);
        self.next = event.seq.saturating_add(1);
        self.tip = Some(event.hash);
    }

    fn close(&self, head: &Head, faults: &mut Vec<Fault>) {
        faults.extend((self.next..head.next_seq).map(|seq| Fault { seq, kind: FaultKind::Missing }));
        if self.next == head.next_seq && self.tip != Some(head.tip) {
            faults.push(Fault { seq: self.next.saturating_sub(1), kind: FaultKind::Unlinked });
        }
    }
}

/// A check of the whole store in progress.
struct Check<'a> {
    log: &'a LocalLog,
    progress: Option<&'a Progress>,
    found: Verification,
    journal_events: u64,
}

impl Check<'_> {
    /// Reads the journal, and looks up each of its entries in the database.
    fn journal(&mut self, database: &Database) -> Result<(), DatabaseError> {
        let applied = database.position()?.unwrap_or_default();
        let outline = self.log.files.outline(applied.segment)?;
        outline.causes.iter().for_each(|cause| self.problem(cause.clone()));
        let mut expected = 1;
        let mut failed = Ok(());
        for (at, segment) in outline.segments.iter().enumerate() {
            let number = segment.number;
            self.report("checking the journal", at as u64, outline.segments.len() as u64);
            let bytes = self.log.files.read(number, SEGMENT_HEADER)?.unwrap_or_default();
            self.found.journal_bytes += bytes.len() as u64;
            let void_from = outline.void_from(number);
            let mut last_frame = None;
            walk(&bytes, SEGMENT_HEADER, &mut |item| match item {
                ScanItem::Frame(frame) if frame.number < void_from => {
                    let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
                    if frame.number != expected && !stands_for_lost {
                        self.problem(format!("frame {expected} of the journal is missing"));
                    }
                    expected = frame.number + 1;
                    last_frame = (!stands_for_lost).then(|| (frame.end, frame_hash(frame.bytes)));
                    if (JournalPosition { segment: number, offset: frame.end }) > applied {
                        return;
                    }
                    for (offset, entry) in frame.entries {
                        let compared = self.compare(database, entry, JournalPosition { segment: number, offset });
                        if failed.is_ok() {
                            failed = compared;
                        }
                    }
                }
                ScanItem::Frame(_) => {}
                ScanItem::Damage(span) => {
                    // A write that never completed or was refused is not damage: the next segment states where this one
                    // ended, and in the last one nothing was acknowledged after it.
                    let next = outline.header(number + 1).map(|header| header.previous_end);
                    let is_void = span.start >= outline.void_offset(number, last_frame)
                        || next.is_some_and(|end| end != 0 && end <= span.start && span.is_torn)
                        || (number == outline.last() && span.is_torn);
                    if span.is_followed || !is_void {
                        self.problem(format!("the journal is damaged at byte {} of segment {number}", span.start));
                    }
                }
            });
        }
        failed
    }

    fn compare(
        &mut self,
        database: &Database,
        entry: Entry<'_>,
        position: JournalPosition,
    ) -> Result<(), DatabaseError> {
        match entry {
            Entry::Record(record) => {
                let (id, seq) = (record.header.session, record.header.seq);
                if Record::read(record.bytes).is_none() {
                    self.problem(format!("event {seq} of {id} was altered in the journal"));
                }
                let stored = database.events.get(id, seq)?;
                let is_same = |bytes: &[u8]| bytes == record.bytes;
                match &stored {
                    Some(stored) if stored.record().is_some_and(|stored| is_same(stored.bytes)) => {
                        // A segment that was missing and came back contains events that were restored meanwhile.
                        self.journal_events += u64::from(stored.position() == Some(position));
                    }
                    _ => self.problem(format!("event {seq} of {id} differs between the journal and the database")),
                }
            }
            Entry::Text(hash, text) => {
                if Hash::of(text.as_bytes()) != hash {
                    self.problem(format!("the long text {hash} was altered in the journal"));
                }
                if self.log.texts.check(hash.0).is_err() {
                    self.problem(format!("the file of the long text {hash} is missing or was altered"));
                }
                if database.text(hash)?.is_none() {
                    self.problem(format!("the database lacks the long text {hash}"));
                }
            }
        }
        Ok(())
    }

    /// Reads the database: every record, every chain, and every derived tree.
    fn database(&mut self, database: &Database) -> Result<(), DatabaseError> {
        let totals = database.totals()?;
        let mut after = None;
        loop {
            let ids = database.ids(after, 512)?;
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            for id in ids {
                self.session(database, id)?;
            }
            self.report("checking the database", self.found.events, totals.events);
        }
        let recency = database.count_listed()?;
        let events = database.events.count()?;
        if events != self.found.events || totals.events != events {
            self.problem(format!("the database counts {} events and has {events}", totals.events));
        }
        if self.journal_events != events {
            self.problem(format!("the journal has {} events and the database {events}", self.journal_events));
        }
        if recency != totals.sessions {
            self.problem(format!("the listing has {recency} sessions, not {}", totals.sessions));
        }
        Ok(())
    }

    fn session(&mut self, database: &Database, id: SessionId) -> Result<(), DatabaseError> {
        let mut projection = Projection::new(id, None);
        let mut chain = Chain::default();
        let mut faults = Vec::new();
        let mut known_lost = Vec::new();
        for stored in database.events.of_session(id)? {
            self.found.events += 1;
            let seq = stored.seq;
            let record = stored.checked_record();
            let event = record.and_then(|record| Some((record.event(&|_| None)?.0, record.texts())));
            let Some((event, texts)) = event else {
                self.problem(format!("event {seq} of {id} was altered in the database"));
                continue;
            };
            for hash in texts {
                if database.text(hash)?.is_none() && self.log.texts.check(hash.0).is_err() {
                    self.found.lost.push(format!("the long text {hash} of event {seq} of {id} is in no copy"));
                }
            }
            chain.link(&event, &mut faults);
            projection.apply(&event);
            if let EventBody::Lost(loss) = event.body {
                known_lost.extend(loss.seqs);
            }
        }
        self.derived(database, &projection)?;
        for fault in faults {
            let seq = fault.seq;
            match fault.kind {
                FaultKind::Missing if known_lost.contains(&seq) => {
                    self.found.lost.push(format!("event {seq} of {id} was lost"));
                }
                FaultKind::Missing => self.problem(format!("event {seq} of {id} is missing")),
                _ => self.problem(format!("event {seq} of {id} does not follow the one before it")),
            }
        }
        Ok(())
    }

    /// Compares derived data in the database with what a session's events derive to.
    fn derived(&mut self, database: &Database, projection: &Projection) -> Result<(), DatabaseError> {
        let head = &projection.after;
        let id = head.id;
        self.found.sessions += u64::from(head.span.is_some());
        if database.head(id)?.as_ref() != Some(head) {
            self.problem(format!("the head of {id} in the database differs from its events"));
        }
        if database.check_listed(head).is_err() {
            self.problem(format!("{id} is not in the listing"));
        }
        for (key, hit) in &projection.keys {
            let known = database.key(*key)?;
            // A key may belong to an event of another session that was imported.
            if known.is_none_or(|known| known.session == id && known != *hit) {
                self.problem(format!("the idempotency key of event {} of {id} is not known", hit.seq));
            }
        }
        for (parent, child) in &projection.children {
            if !database.children.contains_key(keys::child_key(*parent, *child))? {
                self.problem(format!("{child} is not known as a child of {parent}"));
            }
        }
        let (day, number) = keys::numbers(id);
        if database.last_of_day(day)? < number {
            self.problem(format!("the number of {id} could be reused"));
        }
        Ok(())
    }

    fn problem(&mut self, problem: String) {
        self.found.problems.push(problem);
    }

    fn report(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }
}
