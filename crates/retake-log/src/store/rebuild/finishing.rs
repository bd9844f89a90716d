//! The end of a recovery: folds every session, records losses, renames files, and writes the report.

use std::fs;
use std::path::Path;

use crate::disk::FileKind;
use crate::model::{Actor, EventBody};
use crate::store::checkpoint::Checkpoint;
use crate::store::database::{Database, DatabaseError};
use crate::store::fold::Fold;
use crate::store::journal::JournalPosition;
use crate::store::open::UPGRADE;
use crate::store::projection::Projection;
use crate::store::{Error, Recovery, Totals, keys, quarantine, record, report, segment};

use super::{Loaded, Rebuild, RecoveryContext};

/// The number of attempts to open a rebuilt database.
const REOPEN_ATTEMPTS: usize = 3;

/// The maximum number of damaged segments listed in a report.
const MAX_NAMED_SEGMENTS: usize = 3;

impl Rebuild<'_> {
    /// Folds every session (heads, recency, keys, lineage, counters) and records what is missing.
    pub(super) fn derive(&mut self) -> Result<(), Error> {
        self.put_back()?;
        let events = self.database.events.clone();
        let mut done = 0;
        events.for_each_session(|id, stored| -> Result<(), Error> {
            let mut fold = Fold::new(id);
            for stored in stored {
                let event = stored.record().and_then(|record| Some((record.event(&|_| None)?.0, record.texts())));
                let Some((event, texts)) = event else {
                    events.remove(id, stored.seq)?;
                    continue;
                };
                for hash in texts {
                    self.keep_text_twice(hash)?;
                }
                fold.take(&event);
            }
            done += fold.projection.events;
            self.context.report("rebuilding the database", done, self.expected_events.max(done));
            self.end_session(fold)
        })?;
        // Sessions that are known only from other evidence.
        self.newest_of_day(self.newest.0, self.newest.1);
        for id in self.evidence.keys().copied().collect::<Vec<_>>() {
            if self.database.head(id)?.is_none() {
                self.end_session(Fold::new(id))?;
            }
        }
        Ok(())
    }

    /// Writes the derived data of a session, after recording what is missing in it.
    pub(super) fn end_session(&mut self, mut fold: Fold) -> Result<(), Error> {
        let id = fold.projection.after.id;
        let evidence = self.evidence.get(&id).cloned().unwrap_or_default();
        if let Some((loss, named)) = fold.loss(&evidence) {
            self.losses.push(named);
            let head = &fold.projection.after;
            let seq = head.next_seq.max(evidence.next_seq);
            let actor = Actor { client: "retake recovery".to_owned(), user: String::new() };
            let key = format!("lost-{id}-{seq}");
            let record = record::encode((id, seq, head.tip), self.context.now, &actor, &key, EventBody::Lost(loss));
            self.put_back_frame(&record.bytes, &[0])?;
            self.restored -= 1;
            fold.take(&record.event);
        }
        self.newest = self.newest.max(keys::numbers(id));
        self.totals.advance(&Projection { before: None, ..fold.projection.clone() });
        self.database.put_session(&fold.projection)?;
        Ok(())
    }

    /// Puts the new database in place, quarantines the old one and damaged segments, and writes the report.
    pub(super) fn finish(mut self, mut causes: Vec<String>) -> Result<Loaded, Error> {
        let context = self.context;
        let layout = context.layout;
        // Report everything that was found, not only the cause of the recovery.
        let damaged = self.segments.iter().filter_map(|segment| Some((segment.number, segment.damaged.first()?.0)));
        for (segment, start) in damaged.take(MAX_NAMED_SEGMENTS) {
            let cause = format!("the journal is damaged at byte {start} of segment {segment}");
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        self.losses.append(&mut self.unreported);
        let named = self.losses.iter().map(|loss| loss.seqs.len() as u64).sum::<u64>();
        let found = self.totals.events.saturating_sub(self.losses.len() as u64);
        let unnamed = self.expected_events.saturating_sub(found + named);
        if unnamed > 0 {
            self.losses.push(report::unnamed_loss());
        }
        let position = self.journal(false)?.position();
        let next_frame = self.journal(false)?.next_frame();
        self.database.drop_candidates()?;
        self.database.finish(context.workspace, position, self.totals)?;
        let returned = quarantine::returned(context.disk, layout, &self.database, self.totals.events)
            .map_err(context.error("look at the reports of recoveries", layout.quarantine()))?;

        let place = layout.quarantined(&self.name);
        let mut quarantined = std::mem::take(&mut self.quarantined);
        for stray in std::mem::take(&mut self.outline.strays) {
            quarantined.push(self.set_stray_aside(&stray)?);
        }
        let damaged = segment::repair(context, &self.segments, self.highest_frame, &place)?;
        quarantined.extend(damaged.into_iter().map(|segment| format!("quarantine/{}/{segment:08}.log", self.name)));
        quarantined.extend(self.set_aside(&layout.checkpoint(), "mark", true)?);
        let old_name = if self.database_is_foreign { format!("{}db", quarantine::FOREIGN) } else { "db".to_owned() };
        quarantined.extend(self.set_aside(&layout.database(), &old_name, false)?);
        let Rebuild {
            database,
            candidates,
            journal,
            losses,
            totals,
            restored,
            newest,
            checkpoint,
            name,
            contradicting,
            expected_events,
            ..
        } = self;
        drop(candidates);
        drop(database);
        let lost_events = named + unnamed;
        // The new database has everything that the old one had, and so does the journal.
        let old_database = format!("quarantine/{name}/db");
        let is_upgrade = causes.iter().all(|cause| cause == UPGRADE)
            && restored == 0
            && losses.is_empty()
            && quarantined.iter().all(|path| *path == old_database);
        let mut recovery = None;
        if !is_upgrade && (restored > 0 || !quarantined.is_empty() || !losses.is_empty()) {
            let message = report::message(&causes, lost_events, &losses, restored, contradicting);
            let report = Recovery {
                name,
                at: context.now,
                causes,
                lost_events,
                losses,
                restored_to_journal: restored,
                quarantined,
                message,
            };
            quarantine::write_pending(context.disk, &place, &report, expected_events.max(totals.events))
                .map_err(context.error("write the report of a recovery", place.clone()))?;
            recovery = Some(report);
        }
        let (fresh, path) = (layout.new_database(), layout.database());
        context.disk.rename(&fresh, &path).map_err(context.error("put the new database in its place", path.clone()))?;
        let checkpoint = Checkpoint {
            count: checkpoint.map_or(1, |checkpoint| checkpoint.count + 1),
            frame: next_frame - 1,
            end: position,
            events: totals.events,
            unchecked: position,
            newest,
            workspace: context.workspace,
        };
        let journal = journal.ok_or(Error::Misuse("the journal was opened above".into()))?;
        journal
            .write_first_checkpoint(&checkpoint)
            .map_err(context.error("write the checkpoint", layout.checkpoint()))?;
        quarantine::withdraw(context.disk, returned)
            .map_err(context.error("withdraw losses that were recovered", layout.quarantine()))?;
        if recovery.is_some() {
            quarantine::publish_pending(context.disk, layout)
                .map_err(context.error("name the report of a recovery", place))?;
        } else if is_upgrade {
            let _ = fs::remove_dir_all(&place);
        } else {
            // Nothing was quarantined: only the database had been deleted.
            let _ = fs::remove_dir(&place);
        }
        let database = reopen(context, &path, position, totals)?;
        Ok(Loaded { database, journal, totals, checkpoint, since_open: 0, recovery })
    }

    /// Moves something to quarantine; with `unless_file`, only if it is not a regular file.
    pub(super) fn set_aside(&self, path: &Path, name: &str, unless_file: bool) -> Result<Option<String>, Error> {
        let error = || self.context.error("set the old files aside", path.to_owned());
        match self.context.disk.kind(path).map_err(error())? {
            FileKind::Absent => return Ok(None),
            FileKind::File(_) if unless_file => return Ok(None),
            _ => {}
        }
        let place = self.context.layout.quarantined(&self.name);
        let free = quarantine::free_name(self.context.disk, &place, name).map_err(error())?;
        self.context.disk.rename(path, &place.join(&free)).map_err(error())?;
        Ok(Some(format!("quarantine/{}/{free}", self.name)))
    }
}

/// Opens the rebuilt database and compares it with what was written: a failed read while sled opens can make it come up
/// with less.
pub(super) fn reopen(
    context: &RecoveryContext<'_>,
    path: &Path,
    position: JournalPosition,
    totals: Totals,
) -> Result<Database, Error> {
    let mut last = None;
    for _ in 0..REOPEN_ATTEMPTS {
        let opened = Database::open(context.disk, path);
        let checked = opened.and_then(|database| database.check_reopened(position, totals).map(|()| database));
        match checked {
            Ok(database) => return Ok(database),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or(DatabaseError::Closed);
    Err(error.into_error(path))
}
