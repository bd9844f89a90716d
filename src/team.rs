//! Team workspaces: a PostgreSQL URL where others have a directory.
//!
//! On each machine a directory in the cache holds what belongs to the machine: the socket of the process that holds the
//! connections, the search index, thumbnails and copies of originals. It can be deleted while no process uses it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use directories::ProjectDirs;
use retake_log::OpenLog;
use retake_team::{Config, DEFAULT_CACHE_BYTES, ImageLocation, PgLog, RemoteImages, Settings, open_log};

use crate::images::Originals;
use crate::model::Hash;
use crate::store::{self, Clock};

/// A variable that bounds the copies of originals on this machine, in bytes.
const CACHE_VARIABLE: &str = "RETAKE_CACHE_BYTES";
/// A variable that names the directory for what belongs to the machine.
const CACHE_DIR_VARIABLE: &str = "RETAKE_CACHE_DIR";

/// A team workspace, and this machine's directory for it.
#[derive(Clone, Debug)]
pub struct TeamWorkspace {
    config: Config,
    dir: PathBuf,
}

impl TeamWorkspace {
    /// Returns whether text names a team workspace rather than a directory.
    pub fn is_url(text: &str) -> bool {
        Config::is_url(text)
    }

    /// Parses the URL of a team workspace; nothing is connected yet.
    pub fn new(url: &str) -> Result<TeamWorkspace, store::Error> {
        let config: Config = url.parse()?;
        let root = std::env::var_os(CACHE_DIR_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let root = root.or_else(|| Some(ProjectDirs::from("", "", "retake")?.cache_dir().to_owned()));
        let root = root.unwrap_or_else(|| std::env::temp_dir().join("retake"));
        let root = std::path::absolute(&root).unwrap_or(root);
        // Without the role: all roles of a machine's user share the index.
        let name = blake3::hash(format!("{} {} {}", config.server(), config.database(), config.schema()).as_bytes());
        let name: String = name.to_hex().chars().take(16).collect();
        Ok(TeamWorkspace { config, dir: root.join("team").join(name) })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns this machine's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the URL without secrets.
    pub fn url(&self) -> String {
        self.config.to_string()
    }

    /// Returns what opens the log in the process that holds the connections.
    pub(crate) fn open_log(&self, clock: Clock) -> OpenLog {
        open_log(self.config.clone(), &self.dir, clock)
    }

    /// Opens the place of the originals, which the workspace's settings name.
    pub(crate) fn originals(&self) -> Result<Arc<dyn Originals>, store::Error> {
        let location: ImageLocation = self.settings()?.images.parse()?;
        let limit = std::env::var(CACHE_VARIABLE).ok().and_then(|bytes| bytes.parse().ok());
        let cache = self.dir.join("cache").join("originals");
        let images = RemoteImages::open(location, &cache, limit.unwrap_or(DEFAULT_CACHE_BYTES))?;
        Ok(Arc::new(SharedOriginals(images)))
    }

    /// Asks the server for the settings.
    fn settings(&self) -> Result<Settings, store::Error> {
        Ok(PgLog::open(self.config.clone())?.settings().clone())
    }

    /// Makes this machine's directory, readable for its user only: it holds copies of images and texts.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }
}

struct SharedOriginals(RemoteImages);

impl Originals for SharedOriginals {
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
