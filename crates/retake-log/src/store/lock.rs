//! The workspace lock: only one process at a time has a workspace open.

use std::fs::TryLockError;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{Disk, private_file};

use super::{Error, Lock};

/// How long to wait for another process to release the workspace.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

impl Lock {
    /// Takes the lock of the workspace in `dir`, creating the directory if necessary; `None` if another process holds
    /// it.
    pub fn take(dir: &Path, disk: &Disk) -> Result<Option<Lock>, Error> {
        let error = |action: &'static str, source| Error::Io { action: action.into(), path: dir.to_owned(), source };
        disk.create_dir_all(dir).map_err(|source| error("create the workspace", source))?;
        let path = dir.join("owner.lock");
        let file = private_file().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|source| error("lock the workspace", source))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { dir: dir.to_owned(), file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) if source.kind() == io::ErrorKind::Unsupported => {
                Err(error("lock the workspace, on a file system that has no locks", source))
            }
            Err(TryLockError::Error(source)) => Err(error("lock the workspace", source)),
        }
    }

    /// Takes the lock, waiting a few seconds for another process to release it.
    pub fn wait(dir: &Path, disk: &Disk) -> Result<Lock, Error> {
        let begun = Instant::now();
        loop {
            match Lock::take(dir, disk)? {
                Some(lock) => return Ok(lock),
                None if begun.elapsed() > LOCK_TIMEOUT => return Err(Error::InUse(dir.to_owned())),
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}
