//! Where the gallery of a workspace is: one process at a time serves it, and the others find it here.
//!
//! Who serves holds a lock for as long as it lives, so that one that died is never taken for alive; the address lies in a
//! file beside it, since a locked file cannot be read on every system.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::tracker::{Error, ErrorKind};

/// How long to wait for the address of one that is only just starting.
const STARTING: Duration = Duration::from_secs(10);

/// The gallery of a workspace.
pub enum GalleryLock {
    /// Nobody serves it: it is ours to serve.
    Free(Held),
    /// Another process serves it, at this address.
    Taken(String),
}

/// The right to serve a workspace, until it is dropped.
pub struct Held {
    _lock: File,
    address: PathBuf,
}

impl GalleryLock {
    /// Takes the place in the workspace in `dir`, or says who has it.
    pub fn take(dir: &Path) -> Result<GalleryLock, Error> {
        let failed = |what: &str, path: &Path, error: std::io::Error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot {what}: {}", path.display()),
                "give yourself the right to read and write there, or choose another workspace",
            )
            .caused_by(error)
        };
        let (path, address) = (dir.join("serve.lock"), dir.join("serve.url"));
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(|error| failed("note that this gallery is served", &path, error))?;
        let until = Instant::now() + STARTING;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    // What a gallery that is gone left behind would send people to nobody.
                    if let Err(error) = fs::write(&address, "") {
                        return Err(failed("note where this gallery is", &address, error));
                    }
                    return Ok(GalleryLock::Free(Held { _lock: lock, address }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed("lock the gallery", &path, error)),
            }
            match fs::read_to_string(&address) {
                Ok(url) if !url.is_empty() => return Ok(GalleryLock::Taken(url)),
                _ if Instant::now() >= until => {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "another process is starting the gallery of this workspace, and does not get on",
                        "stop it, then try again",
                    ));
                }
                // It has the lock and no address yet: a matter of milliseconds, and nobody to be woken by.
                _ => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Held {
    /// Says where it is served.
    pub fn announce(&self, url: &str) -> Result<(), Error> {
        fs::write(&self.address, url).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot note where this gallery is: {}", self.address.display()),
                "free some space, or give yourself the right to write there",
            )
            .caused_by(error)
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Only tidiness: the lock says whether anyone is there.
        let _ = fs::remove_file(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_finds_the_first_and_a_dead_one_is_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let GalleryLock::Free(held) = GalleryLock::take(dir.path()).unwrap() else { panic!("nobody is there") };
        held.announce("http://127.0.0.1:7373/").unwrap();
        match GalleryLock::take(dir.path()).unwrap() {
            GalleryLock::Taken(url) => assert_eq!(url, "http://127.0.0.1:7373/"),
            GalleryLock::Free(_) => panic!("it is taken"),
        }
        drop(held);
        fs::write(dir.path().join("serve.url"), "http://127.0.0.1:1/").unwrap();
        assert!(matches!(GalleryLock::take(dir.path()).unwrap(), GalleryLock::Free(_)));
    }
}
