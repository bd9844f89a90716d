//! Read-only workspaces: on a read-only medium, or owned by another user.
//!
//! sled writes when it is opened, and so does a recovery. Therefore everything that opening changes (the database, the
//! last segment, the checkpoint, the recovery reports) is copied to a temporary directory, everything else is linked
//! there, and the store is opened on that. Problems are repaired only in the copy, and reported as problems of the
//! original. Nothing in the workspace is locked, created or changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, FileKind, private_dir, temp_name};
use crate::log::{Follower, Log};
use crate::model::{Hash, Head, IterationId, SessionId, Summary};
use crate::platform;

use super::layout::{Layout, segment_number};
use super::{
    Ack, Batch, Error, JournalCursor, Options, Order, Progress, RecencyKey, Recovery, Since, Status, Store, Totals,
    Trail, Verification,
};

/// The number of attempts to copy a workspace that another process is writing to, before its state is used as it is.
const ATTEMPTS: usize = 3;

/// The store of a read-only workspace, as it was when it was opened.
pub(crate) struct ReadOnlyStore {
    store: Store,
    /// Recoveries that the original needs.
    needed: Vec<Recovery>,
    dir: PathBuf,
    copy: TemporaryCopy,
}

impl ReadOnlyStore {
    /// Returns whether an error means that the workspace in `dir` can be read but not written.
    pub(crate) fn is_wanted(error: &Error, dir: &Path) -> bool {
        let is_refused = matches!(error, Error::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem));
        is_refused && Layout::new(dir).identity().is_file()
    }

    /// Opens the workspace in `dir` in its current state.
    pub(crate) fn open(dir: &Path, options: &Options) -> Result<ReadOnlyStore, Error> {
        let mut attempt = 1;
        loop {
            let failed = |source| Error::Io { action: "read the workspace".into(), path: dir.to_owned(), source };
            let before = recovery_names(dir);
            // The database of a running process changes while it is copied; its journal is always consistent.
            let is_in_use = is_locked(dir);
            let copy = TemporaryCopy::create(dir, &options.disk, !is_in_use).map_err(failed)?;
            let is_in_use = is_in_use || is_locked(dir);
            let store = Store::open(&copy.path, options.clone())?;
            let mut needed = store.recoveries()?;
            needed.retain(|recovery| !before.contains(&recovery.name));
            if needed.is_empty() || !is_in_use || attempt == ATTEMPTS {
                return Ok(ReadOnlyStore { store, needed, dir: dir.to_owned(), copy });
            }
            attempt += 1;
        }
    }

    /// Returns the directory of the recovery reports, including those that the original needs.
    pub(crate) fn reports_dir(&self) -> &Path {
        &self.copy.path
    }

    fn refusal(&self) -> Error {
        Error::Io {
            action: "write to the workspace".into(),
            path: self.dir.clone(),
            source: io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the workspace can only be read"),
        }
    }
}

impl Log for ReadOnlyStore {
    fn append(&self, _: Batch) -> Result<Ack, Error> {
        Err(self.refusal())
    }

    fn import(&self, _: &[Vec<u8>]) -> Result<u64, Error> {
        Err(self.refusal())
    }

    fn repair(&self, _: Option<Progress>) -> Result<Option<Recovery>, Error> {
        Err(self.refusal())
    }

    fn verify(&self, progress: Option<Progress>) -> Result<Verification, Error> {
        let mut found = self.store.verify(progress)?;
        found.problems.extend(self.needed.iter().flat_map(|recovery| recovery.causes.clone()));
        Ok(found)
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, Error> {
        self.store.head(id)
    }

    fn record(&self, id: SessionId, seq: u32) -> Result<Option<Vec<u8>>, Error> {
        self.store.record(id, seq)
    }

    fn records(&self, id: SessionId) -> Result<Vec<Vec<u8>>, Error> {
        self.store.records(id)
    }

    fn records_of_iteration(&self, id: IterationId) -> Result<Vec<Vec<u8>>, Error> {
        self.store.records_of_iteration(id)
    }

    fn page(
        &self,
        status: Status,
        order: Order,
        after: Option<RecencyKey>,
        limit: usize,
    ) -> Result<Vec<Arc<Summary>>, Error> {
        self.store.page(status, order, after, limit)
    }

    fn totals(&self) -> Result<Totals, Error> {
        self.store.totals()
    }

    fn children(&self, id: IterationId) -> Result<Vec<IterationId>, Error> {
        self.store.children(id)
    }

    fn ids(&self, after: Option<SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.store.ids(after, limit)
    }

    fn text(&self, hash: Hash) -> Option<String> {
        self.store.text(hash)
    }

    fn follow(&self, follower: Follower) {
        self.store.add_follower(follower);
    }

    fn point(&self) -> Result<JournalCursor, Error> {
        self.store.point()
    }

    fn since(&self, point: &JournalCursor) -> Result<Option<Since>, Error> {
        self.store.since(point)
    }

    fn ends_at(&self, point: &JournalCursor) -> bool {
        self.store.ends_at(point)
    }

    fn opening(&self) -> u64 {
        self.store.opening()
    }

    fn trail(&self, id: SessionId) -> Result<Trail, Error> {
        self.store.trail(id)
    }

    fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        self.store.recoveries()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        let ReadOnlyStore { store, copy, .. } = *self;
        let closed = store.close();
        drop(copy);
        closed
    }
}

/// Returns whether a process has the workspace open. A lock can be checked without write permission.
fn is_locked(dir: &Path) -> bool {
    let file = fs::File::open(Layout::new(dir).lock());
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

fn recovery_names(dir: &Path) -> Vec<String> {
    super::recoveries(dir).into_iter().map(|(recovery, _)| recovery.name).collect()
}

/// A temporary copy of a workspace, removed on drop.
struct TemporaryCopy {
    path: PathBuf,
}

impl Drop for TemporaryCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a temporary copy is left");
        }
    }
}

impl TemporaryCopy {
    /// Copies what opening changes and links the rest. Without `with_database`, the database is left out and then
    /// rebuilt.
    fn create(dir: &Path, disk: &Disk, with_database: bool) -> io::Result<TemporaryCopy> {
        let path = std::env::temp_dir().join(temp_name()?);
        private_dir().create(&path)?;
        let copy = TemporaryCopy { path };
        let (from, to) = (Layout::new(dir), Layout::new(&copy.path));
        copy_file(&from.identity(), &to.identity())?;
        if with_database {
            copy_dir(disk, &from.database(), &to.database())?;
        }
        private_dir().create(to.journal())?;
        let names = disk.list(&from.journal())?;
        let last = names.iter().filter_map(|name| segment_number(name)).max();
        for name in &names {
            let (original, here) = (from.journal().join(name), to.journal().join(name));
            let is_changed = name == "mark" || last.is_some_and(|last| segment_number(name) == Some(last));
            match disk.kind(&original)? {
                FileKind::File(_) if is_changed => copy_file(&original, &here)?,
                _ => link(&original, &here)?,
            }
        }
        if from.texts().is_dir() {
            link(&from.texts(), &to.texts())?;
        }
        for name in disk.list(&from.quarantine())? {
            let (place, here) = (from.quarantined(&name), to.quarantined(&name));
            if disk.kind(&place)? != FileKind::Directory {
                continue;
            }
            fs::create_dir_all(&here)?;
            for name in disk.list(&place)? {
                match disk.kind(&place.join(&name))? {
                    FileKind::File(_) if segment_number(&name).is_none() => {
                        copy_file(&place.join(&name), &here.join(&name))?;
                    }
                    _ => link(&place.join(&name), &here.join(&name))?,
                }
            }
        }
        Ok(copy)
    }
}

/// Copies the regular files below a directory; anything else does not belong to a database.
fn copy_dir(disk: &Disk, from: &Path, to: &Path) -> io::Result<()> {
    if disk.kind(from)? != FileKind::Directory {
        return Ok(());
    }
    private_dir().create(to)?;
    for name in disk.list(from)? {
        match disk.kind(&from.join(&name))? {
            FileKind::Directory => copy_dir(disk, &from.join(&name), &to.join(&name))?,
            FileKind::File(_) => copy_file(&from.join(&name), &to.join(&name))?,
            FileKind::Absent | FileKind::Other => {}
        }
    }
    Ok(())
}

/// Copies a file and gives the copy the usual permissions, since it would inherit those of a read-only original.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let mut permissions = fs::metadata(to)?.permissions();
    platform::restrict_copy(&mut permissions);
    fs::set_permissions(to, permissions)
}

/// Links a file or directory, or copies it if links are not supported.
fn link(original: &Path, here: &Path) -> io::Result<()> {
    match platform::symlink(original, here) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            if original.is_dir() {
                copy_dir(&Disk::default(), original, here)
            } else {
                copy_file(original, here)
            }
        }
        linked => linked,
    }
}
