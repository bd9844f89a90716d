//! Where the gallery of a workspace is: one process at a time serves it, and the others find it here.
//!
//! Who serves holds a lock for as long as it lives, so that one that died is never taken for alive; the address lies in a
//! file beside it, since a locked file cannot be read on every system.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::private_file;
use crate::tracker::{Error, ErrorKind};

/// How long to wait for the address of one that is only just starting.
const STARTING: Duration = Duration::from_secs(10);

/// The gallery of a workspace.
pub enum GalleryLock {
    /// Nobody serves it: it is ours to serve.
    Free(Held),
    /// Another process serves it.
    Taken(Served),
}

/// A gallery that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where to point a browser.
    pub url: String,
    /// The address it listens at, where it is known.
    address: Option<SocketAddr>,
    /// A hash of its token, where it has one.
    token: Option<String>,
}

impl Served {
    /// Returns an error if this gallery is not what was asked for: one at that address, and with that token.
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

    /// Reads what [`to_text`](Served::to_text) wrote; `None` if it is not complete yet.
    fn from_text(text: &str) -> Option<Served> {
        let mut lines = text.lines();
        let url = lines.next().filter(|url| !url.is_empty())?.to_owned();
        let address = lines.next().and_then(|address| address.parse().ok());
        let token = lines.next().filter(|token| !token.is_empty()).map(str::to_owned);
        Some(Served { url, address, token })
    }
}

/// Tokens are long enough that a hash does not give them away.
fn token_hash(token: &str) -> String {
    blake3::Hash::from_bytes(blake3::derive_key("retake 2026 served token", token.as_bytes())).to_hex().to_string()
}

/// The right to serve a workspace, until it is dropped.
pub struct Held {
    _lock: File,
    address: PathBuf,
}

impl GalleryLock {
    /// Takes the place in the workspace in `dir`, or says who has it.
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
        let lock = lock.map_err(|error| failed("note that this gallery is served", &path, error))?;
        let until = Instant::now() + STARTING;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    // What a gallery that is gone left behind would send people to nobody.
                    if let Err(error) = write_private(&address, "") {
                        return Err(failed("note where this gallery is", &address, error));
                    }
                    return Ok(GalleryLock::Free(Held { _lock: lock, address }));
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
                        "another process is starting the gallery of this workspace, and does not get on",
                        "stop it, then try again",
                    ));
                }
                // It has the lock and no address yet: a matter of milliseconds, and nobody to be woken by.
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Held {
    /// Publishes where it is served, and with which token.
    pub fn announce(&self, url: &str, address: SocketAddr, token: Option<&str>) -> Result<(), Error> {
        let served = Served { url: url.to_owned(), address: Some(address), token: token.map(token_hash) };
        write_private(&self.address, &served.to_text()).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format!("cannot note where this gallery is: {}", self.address.display()),
                "free some space, or give yourself the right to write there",
            )
            .caused_by(error)
        })
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    private_file().write(true).create(true).truncate(true).open(path)?.write_all(text.as_bytes())
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
