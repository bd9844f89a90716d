//! Catching up: compares what sled wrote since its last snapshot with the journal, and applies what sled lacks.
//!
//! Sled's own recovery can lose such writes silently, and the journal can have been truncated or replaced by an older
//! copy. Neither is trusted over the other: if they disagree, or if sled contains more than the journal,
//! [`rebuild`](super::rebuild) merges everything found in either.

use std::collections::BTreeMap;
use std::io;

use crate::model::{Hash, SessionId};

use super::Totals;
use super::checkpoint::Checkpoint;
use super::database::{Database, DatabaseError};
use super::events::StoredEvent;
use super::frame_sequence::{FrameSequence, damaged_at};
use super::journal::{JournalEnd, JournalPosition, PUT_BACK};
use super::journal_tail::{JournalTail, SMALL, START, entry_position};
use super::key_index::Key;
use super::projection::{CommitChange, KeyHit, Projection};
use super::rebuild::RecoveryContext;
use super::record::Record;
use super::scan::{DamagedSpan, Entry, Frame, ScanItem, walk};
use super::segments::Outline;

/// The number of bytes of events collected before they are compared with the database.
const MAX_NOTED: usize = 8 << 20;
/// The number of changes applied at once.
const MAX_CHANGES: usize = 256;

/// The result of catching up.
pub(super) struct CaughtUp {
    pub(super) at: JournalEnd,
    pub(super) totals: Totals,
    /// The end of sled's snapshot in the journal.
    pub(super) snapshot: JournalPosition,
    /// The number of events applied.
    pub(super) applied: usize,
}

/// The reason why the database could not catch up.
#[derive(Debug)]
pub(super) enum CatchUpError {
    /// The two copies disagree, or one is damaged.
    Damage(String),
    /// The journal cannot be read at the moment.
    Io(io::Error),
    Database(DatabaseError),
}

impl From<DatabaseError> for CatchUpError {
    fn from(error: DatabaseError) -> CatchUpError {
        CatchUpError::Database(error)
    }
}

fn damage<T>(cause: impl Into<String>) -> Result<T, CatchUpError> {
    Err(CatchUpError::Damage(cause.into()))
}

/// Compares the tail of the journal with the database and applies what it lacks.
pub(super) fn catch_up(
    context: &RecoveryContext<'_>,
    outline: &Outline,
    checkpoint: Option<Checkpoint>,
    journal: &JournalTail,
    database: &Database,
) -> Result<CaughtUp, CatchUpError> {
    let is_first = outline.last() == 1 && checkpoint.is_none_or(|checkpoint| checkpoint.events == 0);
    match database.workspace()? {
        Some(id) if id != context.workspace => return damage("the database belongs to another workspace"),
        _ => {}
    }
    let position = match database.position()? {
        Some(position) => position,
        None if is_first && database.events.is_empty()? => {
            // New, or killed before the first event was applied.
            database.finish(context.workspace, START, Totals::default())?;
            START
        }
        None => return damage("the database was never filled"),
    };
    let high_water = database.high_water()?.unwrap_or(position).max(position);
    let unchecked = checkpoint.map_or(START, |checkpoint| checkpoint.unchecked);
    let mut tail = Tail::new(context, database, position, database.totals()?);
    let is_clean = checkpoint.is_some_and(|checkpoint| checkpoint.end == high_water && unchecked == high_water);
    tail.is_thorough = !is_clean && tail.totals.events <= SMALL;
    tail.keys_end = database.keys_end();
    let from = if tail.is_thorough { START } else { unchecked.min(position).min(tail.keys_end) };
    tail.sequence = FrameSequence::new(from, from == START);
    let known = high_water.segment.max(checkpoint.map_or(0, |checkpoint| checkpoint.end.segment));
    if outline.last() < known {
        return damage(format!("segment {} of the journal is missing", outline.last() + 1));
    }
    for segment in outline.segments.iter().filter(|segment| segment.number >= from.segment) {
        let at = entry_position(from, segment.number);
        if segment.number != from.segment {
            tail.sequence.check_segment(outline, segment.number).map_err(CatchUpError::Damage)?;
        }
        let Some(bytes) = journal.bytes(context, at).map_err(CatchUpError::Io)? else {
            return damage(format!("segment {} of the journal is missing", segment.number));
        };
        tail.sequence.enter(outline, at);
        let mut failed = None;
        walk(&bytes, at.offset, &mut |item| {
            if failed.is_none() {
                let taken = match item {
                    ScanItem::Frame(frame) => tail.take(segment.number, &frame),
                    ScanItem::Damage(span) => tail.meet(segment.number == outline.last(), segment.number, &span),
                };
                failed = taken.err();
            }
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
    }
    tail.finish()?;
    tail.caught_up(checkpoint, high_water)
}

/// The tail of the journal being applied to the database.
struct Tail<'a> {
    context: &'a RecoveryContext<'a>,
    database: &'a Database,
    /// The position up to which the database has everything.
    position: JournalPosition,
    sequence: FrameSequence,
    totals: Totals,
    changes: Vec<CommitChange>,
    /// Events that the database should have, by session.
    compared: BTreeMap<SessionId, Vec<(u32, Vec<u8>)>>,
    /// The position up to which the key index has all keys.
    keys_end: JournalPosition,
    /// The number of bytes of events collected.
    noted_bytes: usize,
    /// Keys after that position, of events that the database has.
    missing_keys: BTreeMap<Key, KeyHit>,
    /// Whether sessions are folded again, rather than only checked by their last event.
    is_thorough: bool,
    applied: usize,
}

impl<'a> Tail<'a> {
    fn new(
        context: &'a RecoveryContext<'a>,
        database: &'a Database,
        position: JournalPosition,
        totals: Totals,
    ) -> Tail<'a> {
        Tail {
            context,
            database,
            position,
            sequence: FrameSequence::new(position, false),
            totals,
            changes: Vec::new(),
            compared: BTreeMap::new(),
            keys_end: position,
            noted_bytes: 0,
            missing_keys: BTreeMap::new(),
            is_thorough: false,
            applied: 0,
        }
    }

    fn take(&mut self, segment: u32, frame: &Frame<'_>) -> Result<(), CatchUpError> {
        if !self.sequence.take(segment, frame).map_err(CatchUpError::Damage)? {
            return Ok(());
        }
        let end = self.sequence.end;
        if end <= self.position {
            return self.compare(end, frame);
        }
        if frame.flags & PUT_BACK != 0 {
            return damage("the database is older than the last recovery");
        }
        if !frame.entries.iter().all(|(_, entry)| entry.is_true()) {
            return damage(format!("frame {} of the journal was altered", frame.number));
        }
        self.apply(segment, frame)?;
        if self.changes.len() >= MAX_CHANGES { self.flush() } else { Ok(()) }
    }

    /// Judges bytes that are not a frame: damage, unless they are an incomplete write that the database does not know
    /// either.
    fn meet(&mut self, is_last: bool, segment: u32, span: &DamagedSpan<'_>) -> Result<(), CatchUpError> {
        self.sequence.check_damage(is_last, segment, span).map_err(CatchUpError::Damage)?;
        let records = span.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Record(record) => Some(record.header),
            Entry::Text(..) => None,
        });
        for header in records.chain(span.headers.iter().copied()) {
            let stored = self.database.events.get(header.session, header.seq)?;
            let acknowledged = stored.and_then(|stored| Some(stored.record()?.header == header)).unwrap_or(false);
            if is_last && acknowledged {
                return damage(damaged_at(segment, span));
            }
        }
        Ok(())
    }

    /// Collects the events of a frame that the database should have. They are compared session by session, since a
    /// session's events are stored together.
    fn compare(&mut self, end: JournalPosition, frame: &Frame<'_>) -> Result<(), CatchUpError> {
        for (_, entry) in &frame.entries {
            let Entry::Record(record) = entry else { continue };
            let (id, seq) = (record.header.session, record.header.seq);
            self.compared.entry(id).or_default().push((seq, record.bytes.to_vec()));
            if end > self.keys_end {
                let Some((event, _)) = record.event(&|_| None) else {
                    return damage(format!("event {seq} of {id} cannot be read"));
                };
                let mut projection = Projection::new(id, None);
                projection.apply(&event);
                for (key, hit) in projection.keys {
                    self.missing_keys.entry(key).and_modify(|known| *known = known.merge(hit)).or_insert(hit);
                }
            }
            self.noted_bytes += record.bytes.len();
        }
        if self.noted_bytes < MAX_NOTED { Ok(()) } else { self.compare_noted(end) }
    }

    /// Compares the events collected up to `end`.
    fn compare_noted(&mut self, end: JournalPosition) -> Result<(), CatchUpError> {
        for (id, expected) in &self.compared {
            self.compare_session(*id, expected)?;
        }
        // The set of sessions is still needed at the end.
        self.compared.values_mut().for_each(|expected| *expected = Vec::new());
        self.noted_bytes = 0;
        if end > self.keys_end {
            self.database.put_keys(std::mem::take(&mut self.missing_keys), end)?;
            self.keys_end = end;
        }
        Ok(())
    }

    /// Looks up the collected events of a session in the database.
    fn compare_session(&self, id: SessionId, expected: &[(u32, Vec<u8>)]) -> Result<(), CatchUpError> {
        let seqs = || expected.iter().map(|(seq, _)| *seq);
        let (Some(first), Some(last)) = (seqs().min(), seqs().max()) else { return Ok(()) };
        let stored = self.database.events.between(id, first, last)?;
        let stored: BTreeMap<u32, &StoredEvent> = stored.iter().map(|event| (event.seq, event)).collect();
        for (seq, expected) in expected {
            let record = stored.get(seq).and_then(|stored| stored.record());
            match record {
                Some(stored) if stored.bytes == expected => {}
                // This cannot be an accident: both are intact, so one of them was rewritten, or a loss was recorded too
                // early.
                Some(stored) if !expected.ends_with(&stored.hash.0) && Record::read(stored.bytes).is_some() => {
                    return damage(format!(
                        "the journal and the database hold different events at place {seq} of {id}"
                    ));
                }
                _ => return damage(format!("the database lacks event {seq} of {id}")),
            }
        }
        Ok(())
    }

    fn apply(&mut self, segment: u32, frame: &Frame<'_>) -> Result<(), CatchUpError> {
        let end = JournalPosition { segment, offset: frame.end };
        let mut current: Option<CommitChange> = None;
        let mut texts = Vec::new();
        for (offset, entry) in &frame.entries {
            let position = JournalPosition { segment, offset: *offset };
            match entry {
                Entry::Record(record) => {
                    let id = record.header.session;
                    if current.as_ref().is_none_or(|change| change.session() != id) {
                        let next = CommitChange::new(Projection::new(id, self.head_before(current.as_ref(), id)?));
                        let finished = current.replace(next);
                        self.push(finished, end);
                    }
                    if let Some(change) = &mut current {
                        change.texts.append(&mut texts);
                        append(change, record, position)?;
                    }
                }
                Entry::Text(hash, text) => {
                    texts.push((*hash, position));
                    self.keep_text(*hash, text);
                }
            }
        }
        if let Some(change) = &mut current {
            change.texts.append(&mut texts);
        }
        self.push(current, end);
        Ok(())
    }

    /// Returns the state of a session after pending changes, or else from the database.
    fn head_before(
        &self,
        current: Option<&CommitChange>,
        id: SessionId,
    ) -> Result<Option<crate::model::Head>, DatabaseError> {
        let pending = current.into_iter().chain(self.changes.iter().rev()).find(|change| change.session() == id);
        match pending {
            Some(change) => Ok(Some(change.head().clone())),
            None => self.database.head(id),
        }
    }

    fn push(&mut self, change: Option<CommitChange>, end: JournalPosition) {
        let Some(mut change) = change else { return };
        self.totals.advance(&change.projection);
        self.applied += change.records.len();
        (change.end, change.totals) = (end, self.totals);
        self.changes.push(change);
    }

    /// Restores a text's file that was damaged since: it was synced before the frame was.
    fn keep_text(&self, hash: Hash, text: &str) {
        if self.context.texts.check(hash.0).is_err()
            && let Err(error) = self.context.texts.put(text.as_bytes())
        {
            tracing::warn!(%hash, %error, "a long text is only in the journal, and its file cannot be written");
        }
    }

    fn flush(&mut self) -> Result<(), CatchUpError> {
        // Frames up to the database's own position come first, so all of them are collected by now.
        self.compare_noted(self.position)?;
        let changes = std::mem::take(&mut self.changes);
        Ok(self.database.apply(&changes)?)
    }

    fn finish(&mut self) -> Result<(), CatchUpError> {
        self.flush()?;
        for id in self.compared.keys() {
            if self.is_thorough { self.database.check_session(*id)? } else { self.database.check_tip(*id)? }
        }
        if self.is_thorough {
            if self.database.events.count()? != self.totals.events {
                return damage("the database's events disagree with its totals");
            }
            if self.database.count_listed()? != self.totals.sessions {
                return damage("the database's sessions disagree with its totals");
            }
        }
        Ok(())
    }

    /// Checks that the journal reaches as far as all other evidence, and returns its end.
    fn caught_up(self, checkpoint: Option<Checkpoint>, high_water: JournalPosition) -> Result<CaughtUp, CatchUpError> {
        self.sequence.check_end(checkpoint, self.context.acknowledged, high_water).map_err(CatchUpError::Damage)?;
        let Some(next_frame) = self.sequence.next_frame(checkpoint) else {
            return damage("the checkpoint of the journal is missing");
        };
        if checkpoint.is_some_and(|checkpoint| self.totals.events < checkpoint.events) {
            return damage("the database has fewer events than were acknowledged");
        }
        if self.database.workspace()?.is_none() {
            self.database.set_workspace(self.context.workspace)?;
        }
        let synced = checkpoint.map_or(JournalPosition::default(), |checkpoint| checkpoint.end);
        let FrameSequence { end, last_frame, has_junk, .. } = self.sequence;
        let at = JournalEnd { end, next_frame, last_frame, is_spoilt: has_junk, synced };
        Ok(CaughtUp { at, totals: self.totals, snapshot: self.position, applied: self.applied })
    }
}

fn append(change: &mut CommitChange, record: &Record<'_>, position: JournalPosition) -> Result<(), CatchUpError> {
    let (id, seq) = (record.header.session, record.header.seq);
    let Some((event, _)) = record.event(&|_| None) else {
        return damage(format!("event {seq} of {id} cannot be read"));
    };
    let head = change.head();
    if event.seq < head.next_seq || event.prev != head.tip {
        return damage(format!("event {seq} of {id} does not follow what the database has"));
    }
    change.projection.apply(&event);
    change.records.push((seq, position, record.bytes.to_vec()));
    Ok(())
}
