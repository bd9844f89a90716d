//! `status`: how a workspace is doing, for `retake doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::store::Recovery;

use super::{Error, Tracker};

/// How a workspace is doing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
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
    /// What it takes on disk, in bytes.
    pub sizes: Sizes,
    /// How many recoveries the workspace has been through.
    pub recoveries: u64,
    /// Recoveries whose report nobody has read yet, oldest first.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub unread_recoveries: Vec<Recovery>,
}

/// What the parts of a workspace take on disk, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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

impl Tracker {
    /// How the workspace is doing.
    pub fn status(&self) -> Result<StatusView, Error> {
        todo!()
    }

    /// Marks all recoveries as read: the listing no longer mentions them.
    pub fn mark_recoveries_read(&self) -> Result<(), Error> {
        Ok(self.store.mark_recoveries_read()?)
    }
}
