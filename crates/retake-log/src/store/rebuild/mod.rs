//! Recovery: builds a new database from everything valid in any copy, repairs the journal, and records losses.
//!
//! Nothing is changed in place. The contents of the journal go into a new database next to the old one; other copies
//! (the old database, segments and databases in quarantine) are merged in where the chains allow it; what the journal
//! lacks is appended to it; damaged and foreign files are quarantined; the report comes last. Every step can be
//! repeated, so a crash at any point only costs time. A failed read ends the recovery with that error: only bytes that
//! were read are judged. `docs/format.md` states the rules.

mod finishing;
mod reading;
mod restoring;

pub(super) use self::reading::owned;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{ContentDir, Disk, FileId, FileKind};
use crate::model::{Hash, SessionId, Timestamp};

use super::checkpoint::Checkpoint;
use super::database::{Database, DatabaseError};
use super::fold::Evidence;
use super::journal::{Journal, moved};
use super::layout::Layout;
use super::payload::RECORDED;
use super::record::Header;
use super::segment::SegmentState;
use super::segments::{JournalFiles, Outline, StrayKind};
use super::{Error, Progress, Recovery, SessionLoss, Totals, keys, quarantine};

/// The workspace being opened or rebuilt.
pub(super) struct RecoveryContext<'a> {
    pub(super) layout: &'a Layout,
    pub(super) disk: &'a Disk,
    pub(super) files: &'a JournalFiles,
    pub(super) workspace: [u8; 16],
    pub(super) texts: &'a ContentDir,
    pub(super) segment_bytes: u64,
    pub(super) now: Timestamp,
    pub(super) progress: Option<&'a Progress>,
    /// The lock file of the workspace, with its identity.
    pub(super) lock: Option<(PathBuf, FileId)>,
    /// The last acknowledgement of the previous process, as far as known.
    pub(super) acknowledged: Option<Checkpoint>,
}

/// A workspace whose two copies are intact and agree.
pub(super) struct Loaded {
    pub(super) database: Database,
    pub(super) journal: Journal,
    pub(super) totals: Totals,
    pub(super) checkpoint: Checkpoint,
    /// The number of events applied since sled was opened.
    pub(super) since_open: usize,
    /// The report of a recovery, unless nothing was lost or quarantined.
    pub(super) recovery: Option<Recovery>,
}

impl RecoveryContext<'_> {
    /// Reports progress.
    pub(super) fn report(&self, what: &str, done: u64, of: u64) {
        if let Some(progress) = self.progress {
            progress(what, done, of);
        }
    }

    /// Checks that the workspace is still where it was locked, before anything is created there by path.
    pub(super) fn check_in_place(&self) -> Result<(), Error> {
        let Some((path, id)) = &self.lock else { return Ok(()) };
        let checked = self.disk.still_names(path, *id).and_then(|same| if same { Ok(()) } else { Err(moved()) });
        checked.map_err(self.error("open the workspace", self.layout.dir().to_owned()))
    }

    /// Returns a function that adds context to an I/O error.
    pub(super) fn error(&self, action: &'static str, path: PathBuf) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action: action.into(), path, source }
    }
}

/// Rebuilds the database, repairs the journal and records losses. The old database must be closed.
pub(super) fn rebuild(
    context: &RecoveryContext<'_>,
    causes: Vec<String>,
    checkpoint: Option<Checkpoint>,
) -> Result<Loaded, Error> {
    context.check_in_place()?;
    for cause in &causes {
        tracing::warn!(cause, "recovering");
    }
    let fresh = context.layout.new_database();
    for leftover in [&fresh, &context.layout.database_copy()] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(context.error("clear an unfinished database", leftover.clone())(error));
            }
            _ => {}
        }
    }
    let look = context.error("examine the quarantine", context.layout.quarantine());
    let name = quarantine::name_for(context.disk, context.layout, context.now).map_err(look)?;
    let place = context.layout.quarantined(&name);
    let create = context.error("make room for what is set aside", place.clone());
    context.disk.create_dir_all(&place).map_err(create)?;
    set_aside_what_is_not_a_journal(context, &place)?;
    let database = Database::open(context.disk, &fresh).map_err(|error| error.into_error(&fresh))?;
    let mut rebuild = Rebuild::begin(context, database, checkpoint, name)?;
    rebuild.read_journal()?;
    rebuild.read_other_copies()?;
    rebuild.merge()?;
    rebuild.derive()?;
    rebuild.finish(causes)
}

/// Moves anything but a directory away from the journal's path.
fn set_aside_what_is_not_a_journal(context: &RecoveryContext<'_>, place: &Path) -> Result<(), Error> {
    let journal = context.layout.journal();
    let error = || context.error("set aside what is not the journal", journal.clone());
    match context.disk.kind(&journal).map_err(error())? {
        FileKind::Absent | FileKind::Directory => Ok(()),
        FileKind::File(_) | FileKind::Other => {
            let free = quarantine::free_name(context.disk, place, "journal").map_err(error())?;
            context.disk.rename(&journal, &place.join(free)).map_err(error())
        }
    }
}

/// A recovery in progress.
pub(super) struct Rebuild<'a> {
    pub(super) context: &'a RecoveryContext<'a>,
    pub(super) database: Database,
    pub(super) candidates: sled::Tree,
    checkpoint: Option<Checkpoint>,
    pub(super) outline: Outline,
    name: String,
    segments: Vec<SegmentState>,
    journal: Option<Journal>,
    evidence: BTreeMap<SessionId, Evidence>,
    /// The number of events that must have existed.
    pub(super) expected_events: u64,
    /// Whether the old database belongs to another workspace.
    pub(super) database_is_foreign: bool,
    highest_frame: u64,
    /// Records and texts that are not in any intact frame of the journal.
    missing: Vec<Vec<u8>>,
    missing_bytes: usize,
    missing_texts: BTreeSet<Hash>,
    restored: u64,
    /// The number of events that contradict the chain they claim to be part of; they stay in quarantine.
    pub(super) contradicting: u64,
    /// The files quarantined so far, as paths below the workspace.
    quarantined: Vec<String>,
    losses: Vec<SessionLoss>,
    /// Losses recorded by a recovery before it died.
    unreported: Vec<SessionLoss>,
    totals: Totals,
    newest: (u32, u32),
}

impl<'a> Rebuild<'a> {
    fn begin(
        context: &'a RecoveryContext<'a>,
        database: Database,
        checkpoint: Option<Checkpoint>,
        name: String,
    ) -> Result<Rebuild<'a>, Error> {
        let known = checkpoint.map_or(0, |checkpoint| checkpoint.end.segment);
        let outline =
            context.files.outline(known).map_err(context.error("read the journal", context.layout.journal()))?;
        // A checkpoint of version 0.1 does not contain its workspace's id: next to a foreign journal it is foreign too.
        let is_foreign = outline.segments.is_empty()
            && outline.strays.iter().any(|stray| matches!(stray.kind, StrayKind::Foreign(_)));
        let checkpoint = checkpoint.filter(|checkpoint| !is_foreign || checkpoint.workspace == context.workspace);
        let evidence: Vec<Checkpoint> = checkpoint.into_iter().chain(context.acknowledged).collect();
        let candidates = database.candidates()?;
        Ok(Rebuild {
            context,
            database,
            candidates,
            checkpoint,
            outline,
            name,
            segments: Vec::new(),
            journal: None,
            evidence: BTreeMap::new(),
            expected_events: 0,
            database_is_foreign: false,
            highest_frame: evidence.iter().map(|known| known.frame).max().unwrap_or(0),
            missing: Vec::new(),
            missing_bytes: 0,
            missing_texts: BTreeSet::new(),
            restored: 0,
            contradicting: 0,
            quarantined: Vec::new(),
            losses: Vec::new(),
            unreported: Vec::new(),
            totals: Totals::default(),
            newest: evidence.iter().map(|known| known.newest).max().unwrap_or((0, 0)),
        })
    }

    /// Records that a session reached this far, whatever happens to its events.
    pub(super) fn heard_of(&mut self, id: SessionId, next_seq: u32, last_index: Option<u32>) {
        let evidence = self.evidence.entry(id).or_default();
        evidence.next_seq = evidence.next_seq.max(next_seq);
        evidence.last_index = evidence.last_index.max(last_index);
    }

    /// Records a record of which only the header is left.
    pub(super) fn heard_of_record(&mut self, header: Header) {
        self.heard_of(header.session, header.seq.saturating_add(1), None);
        if header.kind == RECORDED
            && let Some(evidence) = self.evidence.get_mut(&header.session)
        {
            evidence.recorded.insert(header.seq);
        }
    }

    /// Records that this many sessions were started on a day.
    pub(super) fn newest_of_day(&mut self, day: u32, number: u32) {
        if let Some(id) = keys::session_from(day, number) {
            self.heard_of(id, 0, None);
        }
    }
}

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Error {
        error.into_error(Path::new("db"))
    }
}
