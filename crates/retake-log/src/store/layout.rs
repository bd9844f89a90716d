//! The layout of a workspace: the only place that knows the names of its files and directories.

use std::path::{Path, PathBuf};

/// The files and directories of a workspace.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub(super) fn new(dir: &Path) -> Layout {
        Layout { dir: dir.to_owned() }
    }

    /// Returns the workspace directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the file with the format version and the workspace id.
    pub(super) fn identity(&self) -> PathBuf {
        self.dir.join("retake.toml")
    }

    /// Returns the lock file of the workspace.
    pub(super) fn lock(&self) -> PathBuf {
        self.dir.join("owner.lock")
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    /// Returns the journal segment with this number.
    pub(super) fn segment(&self, number: u32) -> PathBuf {
        self.journal().join(segment_name(number))
    }

    /// Returns the checkpoint file of the journal.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.journal().join("mark")
    }

    pub(super) fn database(&self) -> PathBuf {
        self.dir.join("db")
    }

    /// Returns the directory of the idempotency keys.
    pub(super) fn key_index(&self) -> PathBuf {
        self.database().join("keys")
    }

    /// Returns where a recovery builds a new database before it replaces the old one.
    pub(super) fn new_database(&self) -> PathBuf {
        self.dir.join("db.new")
    }

    /// Returns where a recovery copies a database to, since opening it in place could overwrite recoverable data.
    pub(super) fn database_copy(&self) -> PathBuf {
        self.dir.join("db.copy")
    }

    pub(super) fn texts(&self) -> PathBuf {
        self.dir.join("texts")
    }

    pub(super) fn quarantine(&self) -> PathBuf {
        self.dir.join("quarantine")
    }

    /// Returns the quarantine directory of the recovery with this name.
    pub(super) fn quarantined(&self, name: &str) -> PathBuf {
        self.quarantine().join(name)
    }
}

/// Returns the file name of the segment with this number.
pub(super) fn segment_name(number: u32) -> String {
    format!("{number:08}.log")
}

/// Returns the number of the segment with this file name.
pub(super) fn segment_number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 8)?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}
