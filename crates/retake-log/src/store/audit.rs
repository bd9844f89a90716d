//! Checking: one session's chain in both copies, and every byte of the store.

use std::fs::File;
use std::path::Path;
use std::sync::PoisonError;

use crate::disk::read_at;
use crate::model::{Event, EventBody, Hash, Head, SessionId};

use super::database::{Database, DatabaseError, encode_head, event_value, position_in, recency_of};
use super::journal::{Position, SEGMENT_HEADER, STANDS_FOR_LOST, segment_path};
use super::log::Log;
use super::open::outline;
use super::payload::MAX_PAYLOAD;
use super::record::Record;
use super::scan::{Entry, ScanItem, carve, read_segment, walk};
use super::{Error, Fault, FaultKind, Progress, Trail, Verification, keys};

impl Log {
    /// A session's events, each checked in both copies, and the chain between them.
    pub(super) fn trail(&self, id: SessionId) -> Result<Trail, DatabaseError> {
        self.settle(Some(id));
        let values = self.read()?.events_of(id)?;
        let head = self.head(id)?;
        let mut trail = Trail { events: Vec::new(), faults: Vec::new() };
        let mut chain = Chain::default();
        for (seq, value) in values {
            let fault = |kind| Fault { seq, kind };
            let stored = Record::read(&value);
            let position = Record::read_unchecked(&value).and_then(|record| position_in(&value, record.bytes.len()));
            let journal = position.and_then(|position| record_in_journal(&self.dir, position));
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

    /// Compares every byte of both copies, and everything derived with what it is derived from.
    pub(super) fn verify(&self, progress: Option<&Progress>) -> Result<Verification, Error> {
        self.settle(None);
        let _maintenance = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let mut check = Check { log: self, progress, found: Verification::default(), journal_events: 0 };
        let database = match self.read() {
            Ok(database) => database,
            Err(trouble) => {
                check.problem(format!("the database: {trouble}"));
                return Ok(check.found);
            }
        };
        if let Err(trouble) = check.journal(&database).and_then(|()| check.database(&database)) {
            check.problem(format!("the database: {trouble}"));
        }
        Ok(check.found)
    }
}

/// The text at a position of the journal, if it is the one of that hash.
pub(super) fn text_in_journal(dir: &Path, position: Position, hash: Hash) -> Option<String> {
    let file = File::open(segment_path(&dir.join("journal"), position.segment)).ok()?;
    let header = read_at(&file, position.offset, super::journal::TEXT_HEADER).ok()?;
    let length = usize::try_from(keys::le_u32(&header, 4)?).ok()?;
    let bytes = read_at(&file, position.offset, super::journal::TEXT_HEADER + length).ok()?;
    carve(&bytes, 0).0.into_iter().find_map(|(_, entry)| match entry {
        Entry::Text(found, text) if found == hash => Some(text.to_owned()),
        _ => None,
    })
}

fn record_in_journal(dir: &Path, position: Position) -> Option<Vec<u8>> {
    let file = File::open(segment_path(&dir.join("journal"), position.segment)).ok()?;
    let header = read_at(&file, position.offset, 72).ok()?;
    let payload = keys::le_u32(&header, 12).filter(|length| u64::from(*length) <= MAX_PAYLOAD)?;
    read_at(&file, position.offset, 72 + usize::try_from(payload).ok()? + 32).ok()
}

/// Follows a session's chain.
#[derive(Default)]
struct Chain {
    next: u32,
    tip: Option<Hash>,
}

impl Chain {
    fn link(&mut self, event: &Event, faults: &mut Vec<Fault>) {
        let gap = event.seq > self.next;
        faults.extend((self.next..event.seq).map(|seq| Fault { seq, kind: FaultKind::Missing }));
        // CatchUpError a gap only the event that names the loss can be linked: it names the last one there is.
        let linkable = !gap || matches!(event.body, EventBody::Lost(_));
        if linkable && event.prev != self.tip.unwrap_or(Hash::NONE) {
            faults.push(Fault { seq: event.seq, kind: FaultKind::Unlinked });
        }
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

/// A check of everything, under way.
struct Check<'a> {
    log: &'a Log,
    progress: Option<&'a Progress>,
    found: Verification,
    journal_events: u64,
}

impl Check<'_> {
    /// Reads the journal, and looks for each of its entries in the database.
    fn journal(&mut self, database: &Database) -> Result<(), DatabaseError> {
        let applied = database.position()?.unwrap_or_default();
        let dir = self.log.dir.join("journal");
        let outline = match outline(&dir) {
            Ok(outline) => outline,
            Err(error) => {
                self.problem(format!("the journal cannot be read: {error}"));
                return Ok(());
            }
        };
        outline.causes.iter().for_each(|cause| self.problem(cause.clone()));
        let mut expected = 1;
        let mut trouble = Ok(());
        for (at, (number, _)) in outline.headers.iter().enumerate() {
            self.tell("checking the journal", at as u64, outline.headers.len() as u64);
            let bytes = match read_segment(&segment_path(&dir, *number), SEGMENT_HEADER) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.problem(format!("segment {number} of the journal cannot be read: {error}"));
                    continue;
                }
            };
            self.found.journal_bytes += bytes.len() as u64;
            let void_from = outline.void_from(*number);
            walk(&bytes, SEGMENT_HEADER, &mut |item| match item {
                ScanItem::Frame(frame) if frame.number < void_from => {
                    let stands_for_lost = frame.flags & STANDS_FOR_LOST != 0;
                    if frame.number != expected && !stands_for_lost {
                        self.problem(format!("frame {expected} of the journal is missing"));
                    }
                    expected = frame.number + 1;
                    if (Position { segment: *number, offset: frame.end }) > applied {
                        return;
                    }
                    for (offset, entry) in frame.entries {
                        let position = Position { segment: *number, offset };
                        let compared = self.compare(database, entry, position);
                        if trouble.is_ok() {
                            trouble = compared;
                        }
                    }
                }
                ScanItem::Frame(_) => {}
                ScanItem::DamagedSpan(span) => {
                    if span.is_followed || (Position { segment: *number, offset: span.start }) < applied {
                        self.problem(format!("the journal is damaged at byte {} of segment {number}", span.start));
                    }
                }
            });
        }
        trouble
    }

    fn compare(&mut self, database: &Database, entry: Entry<'_>, position: Position) -> Result<(), DatabaseError> {
        match entry {
            Entry::Record(record) => {
                self.journal_events += 1;
                let (id, seq) = (record.header.session, record.header.seq);
                if Record::read(record.bytes).is_none() {
                    self.problem(format!("event {seq} of {id} was altered in the journal"));
                }
                let stored = database.events.get(id, seq)?;
                if stored.as_deref() != Some(event_value(record.bytes, position).as_slice()) {
                    self.problem(format!("event {seq} of {id} differs between the journal and the database"));
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

    /// Reads the database: every record, every chain, and every tree that is derived from them.
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
            self.tell("checking the database", self.found.events, totals.events);
        }
        let recency = database.recency.iter().keys().try_fold(0, |count, key| key.map(|_| count + 1u64))?;
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
        let mut head = Head::new(id);
        let mut chain = Chain::default();
        let mut faults = Vec::new();
        let mut known_lost = Vec::new();
        for (seq, value) in database.events_of(id)? {
            self.found.events += 1;
            let event = Record::read(&value).and_then(|record| Some((record.event(&|_| None)?.0, record.texts())));
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
            head.advance(&event);
            if !event.key.is_empty() && database.key(keys::idempotency_key(&event.key))?.is_none() {
                self.problem(format!("the key of event {seq} of {id} is not known"));
            }
            if let EventBody::Recorded { index, iteration } = &event.body
                && let Some((parent, child)) = keys::link(iteration, id.iteration(*index))
                && !database.children.contains_key(keys::child_key(parent, child))?
            {
                self.problem(format!("{child} is not known as a child of {parent}"));
            }
            if let EventBody::Lost(loss) = event.body {
                known_lost.extend(loss.seqs);
            }
        }
        self.found.sessions += u64::from(head.span.is_some());
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
        if database.head(id)?.as_ref() != Some(&head) {
            self.problem(format!("what the database says of {id} differs from its events"));
        }
        if let Some(key) = recency_of(&head)
            && database.recency.get(key)?.as_deref() != Some(encode_head(&head).as_slice())
        {
            self.problem(format!("{id} is not in the listing"));
        }
        let (day, number) = keys::numbers(id);
        if database.last_of_day(day)? < number {
            self.problem(format!("the number of {id} could be given out again"));
        }
        Ok(())
    }

    fn problem(&mut self, problem: String) {
        self.found.problems.push(problem);
    }

    fn tell(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }
}
