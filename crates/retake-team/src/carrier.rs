//! The log in PostgreSQL as a carrier for [`retake_log::sharing`]: on each machine, one process at a time holds the
//! connections and the search index, and serves the others, like the owner of a directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{iter, mem};

use retake_log::disk::{ContentDir, Disk};
use retake_log::model::{Event, Hash, Head, IterationId, SessionId, Summary};
use retake_log::store::{
    self, Ack, Batch, Clock, Detail, Error, JournalCursor, Order, Progress, RecencyKey, Recovery, Since, Status,
    Totals, Trail, Verification,
};
use retake_log::{Follower, Log, OpenLog};

use super::follow::Cursor;
use super::{Config, PgLog, Settings};

/// The number of records of several sessions that are read with one query.
const RECORDS_AT_ONCE: usize = 4096;
/// The number of logs opened in this process.
static OPENINGS: AtomicU64 = AtomicU64::new(1 << 32);

/// A check of the workspace's settings before its log is used.
pub type CheckSettings = Arc<dyn Fn(&Settings) -> Result<(), Error> + Send + Sync>;

/// Returns the function that opens the log of a team workspace on a machine whose local files are in `dir`.
pub fn open_log(config: Config, dir: &Path, clock: Clock, check: CheckSettings) -> OpenLog {
    let dir = dir.to_owned();
    Arc::new(move || {
        let log = PgLog::open(config.clone())?;
        check(log.settings())?;
        Ok(Box::new(TeamLog::new(log, &dir, clock.clone())))
    })
}

/// The log of a team workspace, with locally cached texts.
struct TeamLog {
    log: PgLog,
    texts: ContentDir,
    dir: PathBuf,
    opening: u64,
    clock: Clock,
}

impl TeamLog {
    fn new(log: PgLog, dir: &Path, clock: Clock) -> TeamLog {
        TeamLog {
            log,
            texts: store::texts_dir(dir, Disk::default()),
            dir: dir.to_owned(),
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            clock,
        }
    }

    /// Returns the id of this workspace in cursors, so that the index of another one is detected.
    fn mark(&self) -> [u8; 16] {
        let mut mark = [0; 16];
        let digest = blake3::hash(self.log.settings().workspace.as_bytes());
        mark.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
        mark
    }

    fn to_point(&self, cursor: Cursor, events: u64) -> JournalCursor {
        let (ord, pos) = cursor.to_parts();
        let mut place = [0; 32];
        let bytes = ord.to_be_bytes().into_iter().chain(pos.to_be_bytes()).chain(self.mark());
        place.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
        JournalCursor::of_carrier(place, events)
    }

    fn to_cursor(&self, point: &JournalCursor) -> Option<Cursor> {
        let place = point.carrier_place()?;
        let (ord, rest) = place.split_first_chunk::<8>()?;
        let (pos, mark) = rest.split_first_chunk::<8>()?;
        (mark == self.mark()).then(|| Cursor::from_parts((i64::from_be_bytes(*ord), i64::from_be_bytes(*pos))))
    }

    /// Returns a long text from the local copy, or else from the server, which is then cached.
    fn text(&self, hash: Hash) -> Result<Option<String>, Error> {
        if let Some(text) = self.texts.get(hash.0).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
            return Ok(Some(text));
        }
        let text = self.log.text(hash)?;
        if let Some(text) = &text
            && let Err(error) = self.texts.put(text.as_bytes())
        {
            tracing::warn!(%error, "a long text cannot be kept on this machine");
        }
        Ok(text)
    }

    /// Decodes a record with its long texts; `None` if it does not match its hash.
    fn decode(&self, record: &[u8], detail: Detail) -> Result<Option<Event>, Error> {
        let failure = std::cell::RefCell::new(None);
        let texts = |hash: Hash| {
            self.text(hash).unwrap_or_else(|error| {
                failure.replace(Some(error));
                None
            })
        };
        let event = store::decode(record, detail, &texts);
        // A text that could not be fetched is not lost.
        failure.take().map_or(Ok(event), Err)
    }

    /// Decodes a record of one of these sessions. An altered one becomes a loss at its place, so that it costs only
    /// what it contained; `None` if its header cannot be trusted either.
    fn decode_or_lost(&self, record: &[u8], detail: Detail, of: &[SessionId]) -> Result<Option<Event>, Error> {
        if let Some(event) = self.decode(record, detail)? {
            return Ok(Some(event));
        }
        retake_log::lost_event(record, of, &|id| Ok(self.log.head(id)?))
    }

    /// Decodes records of one session.
    fn decode_all(&self, id: SessionId, records: &[Vec<u8>], detail: Detail) -> Result<Vec<Event>, Error> {
        records.iter().filter_map(|record| self.decode_or_lost(record, detail, &[id]).transpose()).collect()
    }
}

impl Log for TeamLog {
    fn append(&self, batch: Batch) -> Result<Ack, Error> {
        Ok(self.log.append(batch)?)
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        Ok(self.log.head(id)?)
    }

    fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.log.record(id, seq)?)
    }

    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.log.records(id)?)
    }

    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        Ok(self.log.page(status, order, after, limit)?)
    }

    fn totals(&self) -> Result<Totals, Error> {
        Ok(self.log.totals()?)
    }

    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.log.records_of_iteration(id)?)
    }

    fn records_from(&self, places: &[(SessionId, u32)], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.log.records_from(places, limit)?)
    }

    fn each_session(
        &self,
        ids: &[SessionId],
        detail: Detail,
        take: &mut dyn FnMut(SessionId, Vec<Event>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut rest = ids;
        let (mut events, mut from) = (Vec::new(), 0);
        while let Some((first, others)) = rest.split_first() {
            let places: Vec<(SessionId, u32)> =
                iter::once((*first, from)).chain(others.iter().map(|id| (*id, 0))).collect();
            let records = self.log.records_from(&places, RECORDS_AT_ONCE)?;
            let start = (*first, from);
            for record in &records {
                let Some(event) = self.decode_or_lost(record, detail, rest)? else { continue };
                while let Some((id, others)) = rest.split_first().filter(|(id, _)| **id != event.session) {
                    take(*id, mem::take(&mut events))?;
                    rest = others;
                }
                from = event.seq + 1;
                events.push(event);
            }
            if records.len() < RECORDS_AT_ONCE {
                for id in rest {
                    take(*id, mem::take(&mut events))?;
                }
                break;
            }
            if rest.first().is_some_and(|id| (*id, from) == start) {
                return Err(Error::Server {
                    problem: format!("thousands of records of {first} are damaged in the database"),
                    remedy: Some(store::Remedy::RestoreRecord),
                    temporary: false,
                });
            }
        }
        Ok(())
    }

    fn events_of_iteration(&self, id: IterationId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.decode_all(id.session, &self.log.records_of_iteration(id)?, detail)
    }

    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        Ok(self.log.children(id)?)
    }

    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        Ok(self.log.ids(after, limit)?)
    }

    fn text(&self, hash: Hash) -> Option<String> {
        TeamLog::text(self, hash).unwrap_or_else(|error| {
            tracing::warn!(%error, "a long text cannot be fetched");
            None
        })
    }

    fn follow(&self, mut follower: Follower) {
        match self.log.position_now() {
            Ok(position) => self.log.start_follower(position, move |event| follower(&event)),
            Err(error) => tracing::warn!(%error, "changes by other machines are not followed"),
        }
    }

    fn point(&self) -> Result<JournalCursor, Error> {
        // Read the count first: if it is too low, a reader only reads once more.
        let events = self.log.totals()?.events;
        Ok(self.to_point(self.log.position_now()?.safe, events))
    }

    fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error> {
        let Some(cursor) = self.to_cursor(point) else { return Ok(None) };
        let found = self.log.records_since(cursor)?;
        let decoded = found.records.iter().map(|record| self.decode(record, Detail::Brief));
        let events = decoded.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let point = self.to_point(found.cursor, point.events + found.settled as u64);
        Ok(Some(Since { events, point, complete: found.complete }))
    }

    fn ends_at(&self, _: &JournalCursor) -> bool {
        // Only the server knows what other machines have appended.
        false
    }

    fn opening(&self) -> u64 {
        self.opening
    }

    fn import(&self, records: &[Vec<u8>]) -> Result<u64, Error> {
        let texts = |hash: Hash| self.texts.get(hash.0).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(self.log.import(records, &texts)?)
    }

    fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        Ok(self.log.trail(id)?)
    }

    fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        Ok(self.log.verify(progress)?)
    }

    fn repair(&self, progress: Option<Progress>) -> Result<Option<Recovery>, Error> {
        let found = self.log.verify(progress)?;
        if found.problems.is_empty() {
            return Ok(None);
        }
        let message = "PostgreSQL holds the only copy of the log, so nothing was changed: restore what is named here from \
                       a backup of the database";
        Ok(Some(Recovery {
            name: String::new(),
            at: (self.clock)(),
            lost_events: found.problems.len() as u64,
            causes: found.problems,
            losses: Vec::new(),
            restored_to_journal: 0,
            quarantined: Vec::new(),
            message: message.to_owned(),
        }))
    }

    fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(store::recoveries(&self.dir).into_iter().map(|(recovery, _)| recovery).collect())
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }

    fn event(&self, id: SessionId, seq: u32, detail: Detail) -> Result<Option<Event>, Error> {
        let record = self.log.record(id, seq)?;
        Ok(self.decode_all(id, record.as_slice(), detail)?.pop())
    }

    fn events(&self, id: SessionId, detail: Detail) -> Result<Vec<Event>, Error> {
        self.decode_all(id, &self.log.records(id)?, detail)
    }
}
