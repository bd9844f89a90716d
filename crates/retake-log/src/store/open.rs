//! Opens a workspace: identifies it, opens sled, and catches up with the journal. A healthy workspace is never read in
//! full; anything else is left to [`rebuild`](super::rebuild). A system error is returned and starts no recovery.

use crate::disk::{ContentDir, FileId, FileKind};

use super::catch_up::{CatchUpError, CaughtUp, catch_up};
use super::checkpoint::Checkpoint;
use super::database::{Database, DatabaseError};
use super::identity::identity;
use super::journal::{Journal, SEALED, SegmentHeader};
use super::journal_tail::{JournalTail, START};
use super::key_index::KeyIndex;
use super::layout::Layout;
use super::log::Parts;
use super::rebuild::{self, Loaded, RecoveryContext};
use super::segments::{JournalFiles, Outline};
use super::{Error, Lock, Options, quarantine};

/// The cause of a rebuild that only migrates a database of an earlier version to the current layout.
pub(super) const UPGRADE: &str = "the database has the layout of an earlier version";

pub(super) fn open(lock: &Lock, options: &Options) -> Result<Parts, Error> {
    let layout = Layout::new(&lock.dir);
    let workspace = identity(options, &layout)?;
    let texts = ContentDir::new(options.disk.clone(), layout.texts());
    let id = FileId::of(&lock.file).map_err(|source| Error::Io {
        action: "examine the lock of the workspace".into(),
        path: layout.lock(),
        source,
    })?;
    let files = JournalFiles { disk: options.disk.clone(), layout: layout.clone(), workspace };
    let lock = id.map(|id| (layout.lock(), id));
    let read_error = |source| Error::Io { action: "read the checkpoint".into(), path: layout.checkpoint(), source };
    let acknowledged = Checkpoint::read_note(&options.disk, &layout.checkpoint(), workspace).map_err(read_error)?;
    let context = RecoveryContext {
        layout: &layout,
        disk: &options.disk,
        files: &files,
        workspace,
        texts: &texts,
        segment_bytes: options.segment_bytes,
        now: (options.clock)(),
        progress: options.progress.as_ref(),
        lock: lock.clone(),
        acknowledged,
    };
    begin_if_new(&context)?;
    let checkpoint = Checkpoint::read(&options.disk, &layout.checkpoint(), workspace).map_err(read_error)?;
    let Loaded { journal, database, totals, checkpoint, since_open, .. } = load(&context, checkpoint)?;
    Ok(Parts {
        layout,
        disk: options.disk.clone(),
        files,
        workspace,
        texts,
        lock,
        clock: options.clock.clone(),
        segment_bytes: options.segment_bytes,
        checkpoint_after: options.checkpoint_after,
        journal,
        database,
        totals,
        checkpoint,
        since_open,
        seal_from: options.seal_from,
    })
}

/// Creates the first segment of a new workspace.
fn begin_if_new(context: &RecoveryContext<'_>) -> Result<(), Error> {
    let layout = context.layout;
    let looked = || -> std::io::Result<bool> {
        Ok(context.disk.list(&layout.journal()).is_ok_and(|names| names.iter().all(|name| !name.ends_with(".log")))
            && matches!(context.disk.kind(&layout.journal())?, FileKind::Absent | FileKind::Directory)
            && context.disk.kind(&layout.checkpoint())? == FileKind::Absent
            && context.disk.kind(&layout.database())? == FileKind::Absent
            && quarantine::unfinished(context.disk, layout)?.is_empty())
    };
    if looked().map_err(context.error("examine the workspace", layout.dir().to_owned()))? {
        context.check_in_place()?;
        let header = SegmentHeader::first(context.workspace);
        Journal::create_segment(context.disk, layout, header)
            .map_err(context.error("create the journal", layout.journal()))?;
    }
    Ok(())
}

/// Opens sled and the end of the journal if they agree; otherwise rebuilds.
pub(super) fn load(context: &RecoveryContext<'_>, checkpoint: Option<Checkpoint>) -> Result<Loaded, Error> {
    let layout = context.layout;
    let read_error = || context.error("read the journal", layout.journal());
    let mut causes = Vec::new();
    let outline = match context.disk.kind(&layout.journal()).map_err(read_error())? {
        FileKind::Directory | FileKind::Absent => {
            context.files.outline(checkpoint.map_or(0, |checkpoint| checkpoint.end.segment)).map_err(read_error())?
        }
        FileKind::File(_) | FileKind::Other => {
            Outline { causes: vec!["the journal is not a directory".to_owned()], ..Outline::default() }
        }
    };
    if let Some(header) = outline.newer_format() {
        let path = layout.segment(header.segment);
        return Err(Error::NewerFormat { found: header.format, known: SEALED, path });
    }
    causes.extend(outline.causes.iter().cloned());
    let quarantine_error = || context.error("examine the quarantine", layout.quarantine());
    if quarantine::interrupted(context.disk, layout).map_err(quarantine_error())? {
        causes.push("a recovery was interrupted".to_owned());
    }
    let kind = context.disk.kind(&layout.checkpoint()).map_err(read_error())?;
    if matches!(kind, FileKind::Directory | FileKind::Other) {
        causes.push("the checkpoint is not a regular file".to_owned());
    }
    if !causes.is_empty() {
        // The database may be the only intact copy, and sled changes its files even if a read fails while it opens
        // them, so a recovery opens a copy.
        return rebuild::rebuild(context, causes, checkpoint);
    }
    let keys_end =
        KeyIndex::end_in(&layout.key_index(), START).map_err(context.error("read the database", layout.database()))?;
    let tail = match JournalTail::read(context, &outline, checkpoint, keys_end).map_err(read_error())? {
        Ok(tail) => tail,
        Err(cause) => return rebuild::rebuild(context, vec![cause], checkpoint),
    };
    let database_kind =
        context.disk.kind(&layout.database()).map_err(context.error("open the database", layout.database()))?;
    let database = if database_kind != FileKind::Absent || outline.is_new() {
        Database::open(context.disk, &layout.database())
    } else {
        Err(DatabaseError::Inconsistent("it is missing".to_owned()))
    };
    match database {
        Ok(database) if database.is_older_layout().unwrap_or(false) => causes.push(UPGRADE.to_owned()),
        Ok(database) => match catch_up(context, &outline, checkpoint, &tail, &database) {
            Ok(caught_up) => {
                quarantine::publish_pending(context.disk, layout)
                    .map_err(context.error("name the report of a recovery", layout.quarantine()))?;
                // Files that were missing at the last open may be back, in the same place and with nothing to repair.
                quarantine::returned(context.disk, layout, &database, caught_up.totals.events)
                    .and_then(|returned| quarantine::withdraw(context.disk, returned))
                    .map_err(context.error("withdraw losses that were recovered", layout.quarantine()))?;
                return healthy(context, checkpoint, database, caught_up);
            }
            Err(CatchUpError::Damage(cause)) => causes.push(cause),
            Err(CatchUpError::Io(source)) => return Err(read_error()(source)),
            Err(CatchUpError::Database(error)) if error.is_transient() => {
                return Err(error.into_error(&layout.database()));
            }
            Err(CatchUpError::Database(error)) => causes.push(format!("the database fails: {error}")),
        },
        Err(error) if error.is_transient() => return Err(error.into_error(&layout.database())),
        Err(error) => causes.push(format!("the database does not open: {error}")),
    }
    rebuild::rebuild(context, causes, checkpoint)
}

fn healthy(
    context: &RecoveryContext<'_>,
    before: Option<Checkpoint>,
    database: Database,
    caught_up: CaughtUp,
) -> Result<Loaded, Error> {
    let CaughtUp { at, totals, snapshot, applied } = caught_up;
    let journal = Journal::resume(context, at)
        .map_err(context.error("open the journal", context.layout.segment(at.end.segment)))?;
    let old = before.unwrap_or_default();
    let mut checkpoint = Checkpoint {
        frame: at.next_frame - 1,
        end: at.end,
        events: totals.events,
        unchecked: snapshot,
        workspace: context.workspace,
        ..old
    };
    if checkpoint != old {
        checkpoint.count += 1;
        if let Err(error) = journal.write_first_checkpoint(&checkpoint) {
            tracing::warn!(%error, "the checkpoint cannot be written");
        }
    }
    Ok(Loaded { journal, database, totals, checkpoint, since_open: applied, recovery: None })
}
