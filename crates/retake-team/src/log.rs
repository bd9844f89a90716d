//! The log in PostgreSQL: the same operations as the embedded store.

use std::fmt;
use std::sync::Arc;

use super::append::Appender;
use super::connect::Server;
use super::{Config, Error, Settings, schema};

/// The log of a team workspace. Calls may come from any thread, and block until they complete or time out.
pub struct PgLog {
    pub(crate) server: Arc<Server>,
    pub(crate) settings: Settings,
    pub(crate) appender: Arc<Appender>,
}

impl PgLog {
    /// Connects to the workspace and checks that this program can use it.
    pub fn open(config: Config) -> Result<PgLog, Error> {
        let server = Server::new(config)?;
        let settings = schema::check(&server)?;
        let appender = Appender::new(Arc::clone(&server));
        Ok(PgLog { server, settings, appender })
    }

    /// Creates the schema of a new workspace with this id. Images are stored in `images`; `role` is granted the right
    /// to read and append.
    pub fn init(config: Config, workspace: &str, images: &str, role: Option<&str>) -> Result<(), Error> {
        schema::init(&Server::new(config)?, workspace, images, role)
    }

    /// Upgrades the schema to this program's version, and returns what was done, one line each.
    pub fn upgrade(config: Config) -> Result<Vec<String>, Error> {
        schema::upgrade(&Server::new(config)?)
    }

    /// Returns the address of the workspace, without secrets.
    pub fn config(&self) -> &Config {
        &self.server.config
    }

    /// Returns the settings of the workspace.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the name of the schema, which can be safely inserted into SQL.
    pub(crate) fn schema(&self) -> &str {
        &self.server.config.schema
    }
}

impl fmt::Debug for PgLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgLog({})", self.server.config)
    }
}
