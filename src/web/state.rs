//! The state shared by requests: the workspace, the actor, and concurrency limits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::timeout;

use super::checking::Checking;
use super::readers::Readers;
use super::wrong_tokens::WrongTokens;
use crate::model::Actor;
use crate::wire::{Error, ErrorKind};
use crate::workspace::{Change, Overview, Workspace};

/// The client name in the audit trail.
const CLIENT: &str = concat!("retake-web ", env!("CARGO_PKG_VERSION"));

/// The maximum number of concurrent calls: each has a thread, and concurrent recordings share an fsync.
pub(super) const MAX_CALLS: usize = 48;
/// The maximum number of pages that listen for changes; each keeps a connection open.
const MAX_LISTENERS: usize = 128;
/// The maximum total size of all request bodies in memory: four of the largest.
const MAX_REQUEST_MEMORY: usize = 4 * 48 * 1024 * 1024;
/// How long a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The state shared by all requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Gallery(Arc<Inner>);

struct Inner {
    workspace: Arc<Workspace>,
    actor: Actor,
    token: Option<String>,
    calls: Arc<Semaphore>,
    reads: Semaphore,
    readers: Readers,
    listeners: Arc<Semaphore>,
    request_memory: Arc<Semaphore>,
    wrong_tokens: WrongTokens,
    overview: Arc<Overview>,
    checking: Arc<Checking>,
    news: broadcast::Sender<Change>,
    ending: watch::Receiver<bool>,
}

/// Returns the maximum number of pages and searches read at once: each may need megabytes while it runs over a million
/// iterations, and more of them than twice the cores are not faster.
fn max_reads() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    (2 * cores).clamp(4, 12)
}

/// Returns the error for a job that panicked.
fn panicked() -> Error {
    let hint = "try once more; if it happens again, run `retake verify` and report it with the request";
    Error::new(ErrorKind::Internal, "internal error: the request panicked", hint)
}

impl Gallery {
    /// Creates the state for a workspace on behalf of `user`. If there is a token, requests must carry it.
    pub(super) fn new(
        workspace: Arc<Workspace>,
        user: String,
        token: Option<String>,
        ending: watch::Receiver<bool>,
    ) -> io::Result<Gallery> {
        let (news, _) = broadcast::channel(1024);
        let actor = Actor { client: CLIENT.to_owned(), user };
        let calls = Arc::new(Semaphore::new(MAX_CALLS));
        let listeners = Arc::new(Semaphore::new(MAX_LISTENERS));
        let request_memory = Arc::new(Semaphore::new(MAX_REQUEST_MEMORY));
        let wrong_tokens = WrongTokens::default();
        let (overview, checking) = (Arc::default(), Arc::default());
        Ok(Gallery(Arc::new(Inner {
            workspace,
            actor,
            token,
            calls,
            reads: Semaphore::new(max_reads()),
            readers: Readers::start(max_reads())?,
            listeners,
            request_memory,
            wrong_tokens,
            overview,
            checking,
            news,
            ending,
        })))
    }

    /// Calls the workspace on a blocking thread, once a permit is available.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Workspace, &Actor) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = timeout(PERMIT_TIMEOUT, Arc::clone(&self.0.calls).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Error::new(
                ErrorKind::Busy,
                "too many requests are waiting",
                "try again in a moment, with fewer at once",
            ));
        };
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            job(&inner.workspace, &inner.actor)
        });
        done.await.unwrap_or_else(|panic| Err(panicked().caused_by(panic)))
    }

    /// Runs an expensive read on a thread for such reads, once one is available.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Workspace, &Actor) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let Ok(Ok(_turn)) = timeout(PERMIT_TIMEOUT, self.0.reads.acquire()).await else {
            let hint = "try again in a moment, with fewer at once";
            return Err(Error::new(ErrorKind::Busy, "too many requests are waiting", hint));
        };
        let inner = Arc::clone(&self.0);
        let done = self.0.readers.run(move || job(&inner.workspace, &inner.actor)).await;
        done.unwrap_or_else(|| Err(panicked()))
    }

    /// Reserves memory for a request body; `None` if none becomes available in time.
    pub(super) async fn request_memory(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.min(MAX_REQUEST_MEMORY as u64)).ok()?;
        let reserved = Arc::clone(&self.0.request_memory).acquire_many_owned(bytes);
        timeout(PERMIT_TIMEOUT, reserved).await.ok()?.ok()
    }

    /// Returns a short hash that identifies the workspace without naming it.
    pub(super) fn mark(&self) -> String {
        let workspace = &self.0.workspace;
        let id = std::fs::read(workspace.dir().join("retake.toml")).unwrap_or_default();
        let place = workspace.dir().as_os_str().as_encoded_bytes();
        // The identity moves with the directory. A team's cache directory has none, so its path is used.
        let hash = if id.is_empty() { blake3::hash(place) } else { blake3::hash(&id) };
        hash.to_hex().chars().take(16).collect()
    }

    /// Returns the overview of all sessions.
    pub(super) fn overview(&self) -> Arc<Overview> {
        Arc::clone(&self.0.overview)
    }

    /// Returns the workspace check started from a page.
    pub(super) fn checking(&self) -> Arc<Checking> {
        Arc::clone(&self.0.checking)
    }

    /// Returns the workspace, for work that outlives a request.
    pub(super) fn workspace(&self) -> Arc<Workspace> {
        Arc::clone(&self.0.workspace)
    }

    /// Returns the record of wrong tokens.
    pub(super) fn wrong_tokens(&self) -> &WrongTokens {
        &self.0.wrong_tokens
    }

    /// Returns the token that requests must carry.
    pub(super) fn token(&self) -> Option<&str> {
        self.0.token.as_deref()
    }

    /// Returns whether only this machine reaches the gallery, whose users have its files at hand.
    pub(super) fn is_local(&self) -> bool {
        self.0.token.is_none()
    }

    /// Reserves a permit for a listener; `None` if all are taken.
    pub(super) fn listener(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.listeners).try_acquire_owned().ok()
    }

    /// Returns the channel on which changes arrive.
    pub(super) fn news(&self) -> &broadcast::Sender<Change> {
        &self.0.news
    }

    /// Returns a flag that becomes true on shutdown.
    pub(super) fn ending(&self) -> watch::Receiver<bool> {
        self.0.ending.clone()
    }
}
