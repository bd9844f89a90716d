//! The log in PostgreSQL: the same operations as the embedded store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::NaiveDate;
use retake_log::model::{Head, SessionId};

use super::connect::Server;
use super::{Config, Error, Settings, schema};

/// The most heads that are remembered for the next append.
const MAX_REMEMBERED_HEADS: usize = 1024;

/// The log of a team workspace. Every call may come from any thread, and blocks until it is answered or out of time.
pub struct PgLog {
    pub(crate) server: Arc<Server>,
    pub(crate) settings: Settings,
    pub(crate) known: Mutex<Known>,
    /// Held while a session is created.
    pub(crate) creating: parking_lot::Mutex<()>,
    pub(crate) notifier: Arc<super::append::Notifier>,
}

/// What this process believes about sessions and days. It may be stale: the server decides.
#[derive(Default)]
pub(crate) struct Known {
    heads: HashMap<SessionId, Head>,
    day: Option<(NaiveDate, u32)>,
}

impl PgLog {
    /// Connects to the workspace and checks that this program can use it.
    pub fn open(config: Config) -> Result<PgLog, Error> {
        let server = Server::new(config)?;
        let settings = schema::check(&server)?;
        let notifier = super::append::Notifier::new(&server.config.schema);
        Ok(PgLog { server, settings, known: Mutex::default(), creating: parking_lot::Mutex::default(), notifier })
    }

    /// Creates the schema of a new workspace with this id. Images are kept in `images`; `role` is granted the right to
    /// read and append.
    pub fn init(config: Config, workspace: &str, images: &str, role: Option<&str>) -> Result<(), Error> {
        schema::init(&Server::new(config)?, workspace, images, role)
    }

    /// Brings the schema to this program's version; returns what was done, one line each.
    pub fn upgrade(config: Config) -> Result<Vec<String>, Error> {
        schema::upgrade(&Server::new(config)?)
    }

    /// Returns where the workspace is, without secrets.
    pub fn config(&self) -> &Config {
        &self.server.config
    }

    /// Returns the settings of the workspace.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the name of the schema, which is safe to put into SQL.
    pub(crate) fn schema(&self) -> &str {
        &self.server.config.schema
    }

    pub(crate) fn remember(&self, head: &Head) {
        let mut known = self.known();
        if known.heads.len() >= MAX_REMEMBERED_HEADS {
            known.heads.clear();
        }
        known.remember_number(head.id);
        known.heads.insert(head.id, head.clone());
    }

    pub(crate) fn remembered(&self, id: SessionId) -> Option<Head> {
        self.known().heads.get(&id).cloned()
    }

    pub(crate) fn forget(&self, id: SessionId) {
        self.known().heads.remove(&id);
    }

    /// Returns the last number of a day as far as this process knows.
    pub(crate) fn last_number(&self, day: NaiveDate) -> Option<u32> {
        self.known().day.filter(|(known, _)| *known == day).map(|(_, last)| last)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn remember_number(&mut self, id: SessionId) {
        let number = id.number().get();
        match &mut self.day {
            Some((day, last)) if *day == id.day() => *last = (*last).max(number),
            Some((day, _)) if *day > id.day() => {}
            day => *day = Some((id.day(), number)),
        }
    }
}

impl fmt::Debug for PgLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PgLog({})", self.server.config)
    }
}
