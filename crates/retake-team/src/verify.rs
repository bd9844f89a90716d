//! Verification: one session's chain, and everything in the database against the records.

use retake_log::model::{Event, EventBody, Hash, Head, SessionId};
use retake_log::store::carrier::decode_exact;
use retake_log::store::{Fault, FaultKind, Progress, Totals, Trail, Verification, place, texts_of};

use super::Error;
use super::log::PgLog;

/// The number of sessions listed at once.
const CHUNK: usize = 500;

impl PgLog {
    /// Returns a session's events with their faults. There is only one copy; PostgreSQL's checksums and standbys
    /// replace the second one.
    pub fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        let head = self.head(id)?;
        let records = self.records(id)?;
        let mut trail = Trail { events: Vec::new(), faults: Vec::new() };
        let (mut next, mut tip) = (0, Hash::NONE);
        for bytes in &records {
            let Some(event) = self.whole_event(bytes, &mut trail.faults)? else {
                trail.faults.push(Fault { seq: place(bytes).unwrap_or(next), kind: FaultKind::DatabaseCopy });
                continue;
            };
            let gap = event.seq > next;
            trail.faults.extend((next..event.seq).map(|seq| Fault { seq, kind: FaultKind::Missing }));
            let linkable = !gap || matches!(event.body, EventBody::Lost(_));
            if linkable && event.prev != tip {
                trail.faults.push(Fault { seq: event.seq, kind: FaultKind::Unlinked });
            }
            next = event.seq.saturating_add(1);
            tip = event.hash;
            trail.events.push(event);
        }
        if let Some(head) = head {
            trail.faults.extend((next..head.next_seq).map(|seq| Fault { seq, kind: FaultKind::Missing }));
            if next == head.next_seq && tip != head.tip {
                trail.faults.push(Fault { seq: next.saturating_sub(1), kind: FaultKind::Unlinked });
            }
        }
        trail.faults.sort_by_key(|fault| fault.seq);
        trail.faults.dedup();
        Ok(trail)
    }

    /// Verifies every record, chain, head, text and total. Nothing is repaired: data that PostgreSQL lost can only come
    /// from its backups, and is reported here.
    pub fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        let before = self.totals()?;
        let mut found = Verification::default();
        let mut counted = Totals::default();
        let mut after = None;
        loop {
            let ids = self.ids(after, CHUNK)?;
            for id in &ids {
                self.verify_session(*id, &mut found, &mut counted)?;
            }
            if let Some(progress) = &progress {
                progress("checking sessions", found.sessions, before.sessions.max(found.sessions));
            }
            after = ids.last().copied();
            if ids.len() < CHUNK {
                break;
            }
        }
        // Sessions may have grown during the check, so a difference counts only if nothing was appended meanwhile.
        if before == self.totals()? && before != counted {
            found.problems.push(format!("the totals say {before:?}, the records {counted:?}"));
        }
        Ok(found)
    }

    fn verify_session(&self, id: SessionId, found: &mut Verification, counted: &mut Totals) -> Result<(), Error> {
        let trail = self.trail(id)?;
        let head = self.head(id)?;
        found.sessions += 1;
        found.events += trail.events.len() as u64;
        counted.events += trail.events.len() as u64;
        let named: Vec<u32> = trail.events.iter().flat_map(losses).collect();
        for fault in &trail.faults {
            let line = format!("event {} of {id}: {}", fault.seq, fault_text(fault.kind));
            let known = fault.kind == FaultKind::Missing && named.contains(&fault.seq);
            if known { found.lost.push(line) } else { found.problems.push(line) }
        }
        let mut folded = Head::new(id);
        trail.events.iter().for_each(|event| folded.advance(event));
        if let Some(head) = head {
            counted.sessions += u64::from(head.span.is_some());
            counted.archived += u64::from(head.span.is_some() && head.archived);
            if trail.faults.is_empty() && head.next_seq == folded.next_seq && head != folded {
                found.problems.push(format!("{id}: the listing does not show what its records say"));
            }
        }
        Ok(())
    }

    /// Decodes a record and checks that its long texts exist.
    fn whole_event(&self, bytes: &[u8], faults: &mut Vec<Fault>) -> Result<Option<Event>, Error> {
        let Some(event) = decode_exact(bytes) else { return Ok(None) };
        let named = texts_of(bytes);
        if named.is_empty() {
            return Ok(Some(event));
        }
        for hash in named {
            if self.text(hash)?.is_none() {
                faults.push(Fault { seq: event.seq, kind: FaultKind::Text });
            }
        }
        let texts = |hash: Hash| self.text(hash).ok().flatten();
        Ok(retake_log::store::decode(bytes, retake_log::store::Detail::Full, &texts))
    }
}

fn losses(event: &Event) -> Vec<u32> {
    match &event.body {
        EventBody::Lost(loss) => loss.seqs.clone(),
        _ => Vec::new(),
    }
}

fn fault_text(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Missing => "missing",
        FaultKind::Unlinked => "does not follow the event before it",
        FaultKind::DatabaseCopy | FaultKind::JournalCopy => "does not match its hash",
        FaultKind::Text => "a long text is missing or altered",
    }
}
