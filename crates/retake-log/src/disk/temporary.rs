//! Temporary files: written next to their destination and renamed when they are complete.
//!
//! Processes in different containers share a workspace but not a PID namespace, so a name derived from a process id is
//! not unique. Names are random, creation is exclusive, and only the process that created a file renames or deletes it.
//! A file is locked while it is being written, which lets [`sweep_temporaries`] recognise files left by killed
//! processes without checking which processes exist.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::platform;

use super::{Disk, DiskFile};

/// The prefix of temporary file names.
const PREFIX: &str = ".retake-";
/// The suffix of temporary file names.
const SUFFIX: &str = ".tmp";
/// The age below which a temporary file is never removed, since its writer may not have locked it yet.
const MIN_AGE: Duration = Duration::from_secs(60 * 60);
/// The age below which a file is kept if its lock cannot be checked: written by an older version, or on a file system
/// without locks.
const MIN_AGE_UNLOCKED: Duration = Duration::from_secs(24 * 60 * 60);

/// A file that is deleted on drop, unless it was renamed to its final name.
pub(super) struct TempFile {
    file: DiskFile,
    is_persisted: bool,
}

impl TempFile {
    /// Creates an empty file in `dir` under a name that no other process uses.
    pub(super) fn create_in(disk: &Disk, dir: &Path) -> io::Result<TempFile> {
        let file = disk.create(&dir.join(temp_name()?))?;
        if platform::LOCKS_ARE_ADVISORY {
            // Only the sweep checks the lock.
            let _ = file.file.try_lock();
        }
        Ok(TempFile { file, is_persisted: false })
    }

    /// Returns the open file.
    pub(super) fn file(&self) -> &DiskFile {
        &self.file
    }

    /// Renames the file to `path`, replacing an existing file, and syncs the directories.
    pub(super) fn persist(mut self, path: &Path) -> io::Result<()> {
        self.check_ours()?;
        self.file.disk.rename(&self.file.path, path)?;
        self.is_persisted = true;
        Ok(())
    }

    /// Renames the file to `path`, replacing an existing file. The name is durable once the caller has synced the
    /// directory.
    pub(super) fn persist_unsynced(mut self, path: &Path) -> io::Result<()> {
        self.check_ours()?;
        self.file.disk.rename_unsynced(&self.file.path, path)?;
        self.is_persisted = true;
        Ok(())
    }

    fn check_ours(&self) -> io::Result<()> {
        if self.is_ours()? {
            return Ok(());
        }
        Err(io::Error::other("the temporary file was replaced by another process"))
    }

    /// Returns whether the path still refers to the file that was created.
    fn is_ours(&self) -> io::Result<bool> {
        let (open, named) = (self.file.file.metadata()?, fs::symlink_metadata(&self.file.path)?);
        Ok(platform::file_id(&open) == platform::file_id(&named))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_persisted && self.is_ours().unwrap_or(false) {
            let _ = fs::remove_file(&self.file.path);
        }
    }
}

/// Returns a random file name that [`sweep_temporaries`] recognises.
pub fn temp_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(format!("{PREFIX}{:032x}{SUFFIX}", u128::from_le_bytes(random)))
}

/// Removes temporary files in `dir` whose writers are gone, and returns the number removed.
///
/// A file is removed only if it is at least an hour old and not locked. The lock is held by the kernel, so it also
/// protects writers in other containers and suspended ones. `now` is a parameter so that tests need not wait.
pub fn sweep_temporaries(dir: &Path, now: SystemTime) -> usize {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let abandoned = entries.map(|entry| entry.path()).filter(|path| is_abandoned(path, now));
    abandoned.filter(|path| fs::remove_file(path).is_ok()).count()
}

fn is_abandoned(path: &Path, now: SystemTime) -> bool {
    let Some(kind) = TempKind::of(path) else { return false };
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let age = metadata.modified().ok().and_then(|modified| now.duration_since(modified).ok());
    let Some(age) = age.filter(|age| metadata.is_file() && *age >= MIN_AGE) else { return false };
    if kind == TempKind::Locked && platform::LOCKS_ARE_ADVISORY {
        match File::open(path).map(|file| file.try_lock()) {
            Ok(Ok(())) => return true,
            Ok(Err(TryLockError::WouldBlock)) => return false,
            Ok(Err(TryLockError::Error(_))) | Err(_) => {}
        }
    }
    age >= MIN_AGE_UNLOCKED
}

/// How the writer of a temporary file can be detected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TempKind {
    /// The writer holds a lock.
    Locked,
    /// Version 0.1 wrote it, as `.PID-COUNTER.tmp`, without a lock.
    Unlocked,
}

impl TempKind {
    fn of(path: &Path) -> Option<TempKind> {
        let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
        if let Some(random) = name.strip_prefix(PREFIX) {
            let random = random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
            return random.then_some(TempKind::Locked);
        }
        let (pid, counter) = name.strip_prefix('.')?.split_once('-')?;
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (number(pid) && number(counter)).then_some(TempKind::Unlocked)
    }
}

/// Returns the directories of a workspace in which temporary files are created.
pub(crate) fn temporary_dirs(workspace: &Path) -> [PathBuf; 5] {
    ["", "images", "texts", "journal", "cache/thumbs"].map(|name| workspace.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_not_persisted_is_removed_and_only_that_one() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let (dropped, kept) = (TempFile::create_in(&disk, dir.path()), TempFile::create_in(&disk, dir.path()));
        let (dropped, kept) = (dropped.unwrap(), kept.unwrap());
        assert_eq!(names(dir.path()).len(), 2);
        drop(dropped);
        kept.file().write_at(0, b"kept").unwrap();
        kept.persist(&dir.path().join("final")).unwrap();
        assert_eq!(names(dir.path()), ["final"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_another_process_took_is_neither_renamed_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let temp = TempFile::create_in(&Disk::default(), dir.path()).unwrap();
        let path = temp.file().path().to_owned();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of another process").unwrap();
        temp.persist(&dir.path().join("final")).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another process");
        assert!(!dir.path().join("final").exists());
    }

    #[test]
    fn only_what_killed_writers_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let live = TempFile::create_in(&Disk::default(), dir.path()).unwrap();
        let left = dir.path().join(temp_name().unwrap());
        for name in [".12-3.tmp", ".notes.tmp", "4-5.tmp", ".retake-1.tmp", "image.png"] {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::write(&left, "half an image").unwrap();
        let after = |hours: u64| SystemTime::now() + Duration::from_secs(hours * 3600 + 60);

        assert_eq!(sweep_temporaries(dir.path(), SystemTime::now()), 0);
        if cfg!(unix) {
            assert_eq!(sweep_temporaries(dir.path(), after(1)), 1);
            assert!(!left.exists());
        }
        sweep_temporaries(dir.path(), after(24));
        let live_name = live.file().path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected = [".notes.tmp", ".retake-1.tmp", "4-5.tmp", "image.png", &live_name];
        expected.sort_unstable();
        if cfg!(unix) {
            assert_eq!(names(dir.path()), expected);
        }
    }
}
