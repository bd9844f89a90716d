//! The gallery lock of a workspace: only one process serves it at a time, and others find its URL here.
//!
//! The serving process holds the lock as long as it lives, so a dead one is never taken for alive. The URL is in a
//! separate file, since a locked file cannot be read on every system.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{private_file, temp_name};
use crate::wire::{Error, ErrorKind};

/// How long to wait for the URL of a gallery that is just starting.
const STARTING: Duration = Duration::from_secs(10);

/// The state of a workspace's gallery.
pub enum GalleryLock {
    /// It is not being served; this process now holds the lock.
    Free(Held),
    /// Another process serves it.
    Taken(Served),
}

/// A gallery being served by another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its URL for browsers.
    pub url: String,
    /// The address it listens on, if known.
    address: Option<SocketAddr>,
    /// A hash of its token, if it has one.
    token: Option<String>,
}

impl Served {
    /// Returns an error if this gallery does not have the requested address or token.
    pub fn check(&self, address: Option<SocketAddr>, token: Option<&str>) -> Result<(), Error> {
        let url = &self.url;
        let hint = "stop it first, or leave out --addr and --token to use it";
        if address.is_some_and(|asked| asked.port() != 0 && self.address.is_some_and(|served| served != asked)) {
            return Err(Error::new(ErrorKind::Busy, format!("the workspace is already served at {url}"), hint));
        }
        if token.is_some_and(|asked| self.token != Some(token_hash(asked))) {
            let message = format!("the workspace is already served at {url} with another token");
            return Err(Error::new(ErrorKind::Busy, message, hint));
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        format!("{}\n{address}\n{}\n", self.url, self.token.as_deref().unwrap_or_default())
    }

    /// Parses the output of [`to_text`](Served::to_text); `None` if it is incomplete.
    fn from_text(text: &str) -> Option<Served> {
        let mut lines = text.lines();
        let url = lines.next().filter(|url| !url.is_empty())?.to_owned();
        let address = lines.next().and_then(|address| address.parse().ok());
        let token = lines.next().filter(|token| !token.is_empty()).map(str::to_owned);
        Some(Served { url, address, token })
    }
}

/// Hashes a token. Tokens are long enough that the hash does not reveal them.
fn token_hash(token: &str) -> String {
    blake3::Hash::from_bytes(blake3::derive_key("retake 2026 served token", token.as_bytes())).to_hex().to_string()
}

/// The right to serve a workspace, released on drop.
pub struct Held {
    /// `None` for a read-only workspace, in which nothing can be noted.
    noted: Option<Noted>,
}

/// The lock, and the file with the URL.
struct Noted {
    _lock: File,
    address: PathBuf,
}

impl GalleryLock {
    /// Takes the lock of the workspace in `dir`, or returns the gallery that has it.
    pub fn take(dir: &Path) -> Result<GalleryLock, Error> {
        let failed = |what: &str, path: &Path, error: io::Error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot {what}: {}", path.display()),
                "give yourself the right to read and write there, or choose another workspace",
            )
            .caused_by(error)
        };
        let (path, address) = (dir.join("serve.lock"), dir.join("serve.url"));
        let lock = private_file().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = match lock {
            Ok(lock) => lock,
            // Galleries of a read-only workspace do not find each other, and need not: each reads its own copy.
            Err(error) if is_refused(&error) && is_read_only(dir) => {
                return Ok(GalleryLock::Free(Held { noted: None }));
            }
            Err(error) => return Err(failed("note that this gallery is served", &path, error)),
        };
        let until = Instant::now() + STARTING;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    // Clear a URL left by a dead gallery.
                    if let Err(error) = write_private(&address, "") {
                        return Err(failed("note where this gallery is", &address, error));
                    }
                    return Ok(GalleryLock::Free(Held { noted: Some(Noted { _lock: lock, address }) }));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed("lock the gallery", &path, error)),
            }
            let served = fs::read_to_string(&address).ok().and_then(|text| Served::from_text(&text));
            match served {
                Some(served) => return Ok(GalleryLock::Taken(served)),
                None if Instant::now() >= until => {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "another process is starting the gallery of this workspace and has not become ready",
                        "stop it, then try again",
                    ));
                }
                // It holds the lock but has not written its URL yet. That takes milliseconds, and there is no event to
                // wait for.
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Held {
    /// Publishes the URL and the hash of the token.
    pub fn announce(&self, url: &str, address: SocketAddr, token: Option<&str>) -> Result<(), Error> {
        let Some(Noted { address: file, .. }) = &self.noted else { return Ok(()) };
        let served = Served { url: url.to_owned(), address: Some(address), token: token.map(token_hash) };
        write_private(file, &served.to_text()).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot note where this gallery is: {}", file.display()),
                "free some space, or give yourself the right to write there",
            )
            .caused_by(error)
        })
    }
}

/// Returns whether the system refused to write.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Returns whether no file can be created in this directory.
fn is_read_only(dir: &Path) -> bool {
    let Ok(path) = temp_name().map(|name| dir.join(name)) else { return false };
    match private_file().write(true).create_new(true).open(&path) {
        Ok(_) => {
            let _ = fs::remove_file(path);
            false
        }
        Err(error) => is_refused(&error),
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    private_file().write(true).create(true).truncate(true).open(path)?.write_all(text.as_bytes())
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(Noted { address, .. }) = &self.noted {
            // Best effort: only the lock decides whether a gallery is running.
            let _ = fs::remove_file(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gallery_finds_the_first_and_ignores_a_dead_one() {
        let dir = tempfile::tempdir().unwrap();
        let GalleryLock::Free(held) = GalleryLock::take(dir.path()).unwrap() else { panic!("the lock is taken") };
        let at = |address: &str| Some(address.parse::<SocketAddr>().unwrap());
        let token = Some("a token of some length");
        held.announce("http://127.0.0.1:7373/", at("127.0.0.1:7373").unwrap(), token).unwrap();
        match GalleryLock::take(dir.path()).unwrap() {
            GalleryLock::Taken(served) => {
                assert_eq!(served.url, "http://127.0.0.1:7373/");
                for (address, token, same) in [
                    (None, None, true),
                    (at("127.0.0.1:7373"), token, true),
                    (at("127.0.0.1:0"), None, true),
                    (at("127.0.0.1:7374"), None, false),
                    (at("0.0.0.0:7373"), token, false),
                    (None, Some("another token of some length"), false),
                ] {
                    assert_eq!(served.check(address, token).is_ok(), same, "{address:?} {token:?}");
                }
            }
            GalleryLock::Free(_) => panic!("it is taken"),
        }
        drop(held);
        fs::write(dir.path().join("serve.url"), "http://127.0.0.1:1/").unwrap();
        assert!(matches!(GalleryLock::take(dir.path()).unwrap(), GalleryLock::Free(_)));
    }
}
