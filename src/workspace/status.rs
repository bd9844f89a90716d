//! `status`: the state of a workspace, for `retake doctor`.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Recovery;

use super::{Error, Workspace};

/// The state of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WorkspaceStatus {
    /// The directory it is in.
    pub workspace: String,
    /// The version of its format on disk, where `retake.toml` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_version: Option<u32>,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many of them are archived.
    pub archived: u64,
    /// How many events there are.
    pub events: u64,
    /// Its size on disk, in bytes.
    pub sizes: Sizes,
    /// How many recoveries the workspace has been through.
    pub recoveries: u64,
    /// Recoveries whose report has not been read yet, oldest first.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub unread_recoveries: Vec<Recovery>,
}

/// What the parts of a workspace take on disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sizes {
    /// The journal.
    pub journal: u64,
    /// The database.
    pub database: u64,
    /// The images.
    pub images: u64,
    /// The long texts.
    pub texts: u64,
    /// What recoveries set aside.
    pub quarantine: u64,
}

impl Sizes {
    /// Returns the sizes of the parts of the workspace in this directory.
    pub(crate) fn of(dir: &Path) -> Sizes {
        let size = |part: &str| bytes_below(&dir.join(part));
        Sizes {
            journal: size("journal"),
            database: size("db"),
            images: size("images"),
            texts: size("texts"),
            quarantine: size("quarantine"),
        }
    }
}

impl Workspace {
    /// Returns the state of the workspace.
    pub fn status(&self) -> Result<WorkspaceStatus, Error> {
        let totals = self.log.totals()?;
        Ok(WorkspaceStatus {
            workspace: self.dir.display().to_string(),
            format_version: format_version(&self.dir),
            sessions: totals.sessions,
            archived: totals.archived,
            events: totals.events,
            sizes: Sizes::of(&self.dir),
            recoveries: self.log.recoveries()?.len() as u64,
            unread_recoveries: self.log.unread_recoveries()?,
        })
    }

    /// Returns every recovery the workspace has been through, oldest first.
    pub fn recoveries(&self) -> Result<Vec<Recovery>, Error> {
        Ok(self.log.recoveries()?)
    }

    /// Marks all recoveries as read, so that listings no longer mention them.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        Ok(self.log.mark_recoveries_read()?)
    }
}

/// Returns the size of a directory tree. Unreadable entries are left out, since the number is only informative.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Returns the version of the format of the workspace in this directory, if its `retake.toml` can be read.
pub(crate) fn format_version(dir: &Path) -> Option<u32> {
    let table: toml::Table = fs::read_to_string(dir.join("retake.toml")).ok()?.parse().ok()?;
    table.get("format")?.as_integer()?.try_into().ok()
}
