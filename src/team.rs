//! Team workspaces: a PostgreSQL URL takes the place of a directory.
//!
//! On each machine, a cache directory holds local data: the socket of the process that owns the connections, the search
//! index, thumbnails and copies of originals. It can be deleted while no process uses it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use directories::ProjectDirs;
use retake_log::OpenLog;
use retake_team::{Config, DEFAULT_CACHE_BYTES, Health, ImageLocation, PgLog, RemoteImages, Settings, open_log};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::images::OriginalStore;
use crate::model::{Hash, SessionId};
use crate::platform;
use crate::store::{self, Clock};

/// The file in which this machine caches a workspace's settings.
const KNOWN_FILE: &str = "team.json";
/// The environment variable that limits the size of cached originals on this machine, in bytes.
const CACHE_VARIABLE: &str = "RETAKE_CACHE_BYTES";
/// The environment variable that sets the directory for local data.
const CACHE_DIR_VARIABLE: &str = "RETAKE_CACHE_DIR";

/// A team workspace, and this machine's directory for it.
#[derive(Clone, Debug)]
pub struct TeamWorkspace {
    config: Config,
    dir: PathBuf,
}

impl TeamWorkspace {
    /// Returns whether a text is the URL of a team workspace rather than a directory.
    pub fn is_url(text: &str) -> bool {
        Config::is_url(text)
    }

    /// Parses the URL of a team workspace without connecting.
    pub fn new(url: &str) -> Result<TeamWorkspace, store::Error> {
        let config: Config = url.parse()?;
        let root = std::env::var_os(CACHE_DIR_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let root = root.or_else(|| Some(ProjectDirs::from("", "", "retake")?.cache_dir().to_owned()));
        let root = root.unwrap_or_else(|| std::env::temp_dir().join("retake"));
        let root = std::path::absolute(&root).unwrap_or(root);
        // Without the role: all roles of a local user share the index.
        let name = blake3::hash(format!("{} {} {}", config.server(), config.database(), config.schema()).as_bytes());
        let name: String = name.to_hex().chars().take(16).collect();
        Ok(TeamWorkspace { config, dir: root.join("team").join(name) })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the local directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the URL without secrets.
    pub fn url(&self) -> String {
        self.config.to_string()
    }

    /// Returns the database role that wrote each event of a session, by sequence number. Queries the server directly.
    pub(crate) fn roles(&self, id: SessionId) -> Result<HashMap<u32, String>, store::Error> {
        Ok(PgLog::open(self.config.clone())?.roles(id)?.into_iter().collect())
    }

    /// Queries the configuration of the server.
    pub(crate) fn health(&self) -> Result<Health, store::Error> {
        Ok(PgLog::open(self.config.clone())?.health()?)
    }

    /// Returns the function that opens the log in the process that owns the connections.
    pub(crate) fn open_log(&self, clock: Clock) -> OpenLog {
        let team = self.clone();
        open_log(self.config.clone(), &self.dir, clock, Arc::new(move |settings| team.check_known(settings)))
    }

    /// Opens the store of originals given in the workspace's settings.
    pub(crate) fn originals(&self) -> Result<Arc<dyn OriginalStore>, store::Error> {
        let location: ImageLocation = self.settings()?.images.parse()?;
        let limit = std::env::var(CACHE_VARIABLE).ok().and_then(|bytes| bytes.parse().ok());
        let cache = self.dir.join("cache").join("originals");
        let images = RemoteImages::open(location, &cache, limit.unwrap_or(DEFAULT_CACHE_BYTES))?;
        Ok(Arc::new(SharedOriginals(images)))
    }

    /// Returns the cached settings, or queries the server the first time. They never change, and the process that owns
    /// the connections checks them.
    fn settings(&self) -> Result<Known, store::Error> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let known = Known::from(PgLog::open(self.config.clone())?.settings());
        self.remember(&known);
        Ok(known)
    }

    fn known(&self) -> Option<Known> {
        serde_json::from_slice(&fs::read(self.dir.join(KNOWN_FILE)).ok()?).ok()
    }

    fn remember(&self, known: &Known) {
        let text = serde_json::to_vec(known).map_err(io::Error::other);
        let written = text.and_then(|text| Disk::default().replace(&self.dir.join(KNOWN_FILE), &text));
        if let Err(error) = written {
            tracing::warn!(%error, "cannot save the settings of the workspace on this machine");
        }
    }

    /// Fails if the workspace was replaced by another one, since its images are elsewhere.
    fn check_known(&self, settings: &Settings) -> Result<(), store::Error> {
        let found = Known::from(settings);
        match self.known() {
            Some(known) if known != found => {
                self.remember(&found);
                Err(store::Error::Server {
                    problem: format!("{} is not the workspace that this machine used before", self.config),
                    remedy: Some(store::Remedy::Retry),
                    temporary: false,
                })
            }
            _ => Ok(()),
        }
    }

    /// Creates the local directory, accessible only to its user, since it holds copies of images and texts.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        platform::restrict_dir(&self.dir)
    }
}

/// The cached settings of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    workspace: String,
    images: String,
}

impl From<&Settings> for Known {
    fn from(settings: &Settings) -> Known {
        Known { workspace: settings.workspace.clone(), images: settings.images.clone() }
    }
}

struct SharedOriginals(RemoteImages);

impl OriginalStore for SharedOriginals {
    fn keep(&self, hash: Hash, path: &Path) -> io::Result<()> {
        self.0.take_over(hash, path)
    }

    fn fetch(&self, hash: Hash) -> io::Result<PathBuf> {
        self.0.fetch(hash)
    }

    fn contains(&self, hash: Hash) -> io::Result<bool> {
        self.0.contains(hash)
    }

    fn check(&self, hash: Hash) -> io::Result<()> {
        self.0.check(hash)
    }
}
