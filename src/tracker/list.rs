//! `list`: the sessions, most recently modified first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Timestamp;

use super::{Error, SessionRow, Tracker};

/// Which sessions to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListRequest {
    /// Which sessions: `all` (the default), `active` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusFilter>,
    /// At most this many rows (default 200, at most 1000). A page may hold fewer; `nextCursor` says whether there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before, with all other arguments unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// `recent` (the default): last modified first. `oldest`: last modified last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// Only sessions of exactly this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only sessions whose title, project or id contains this text; upper and lower case are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Which sessions to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatusFilter {
    /// All of them.
    #[default]
    All,
    /// Those not archived.
    Active,
    /// Those archived.
    Archived,
}

/// In which order to show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sort {
    /// Last modified first.
    #[default]
    Recent,
    /// Last modified last.
    Oldest,
}

/// A page of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionList {
    /// The sessions, in the order asked for.
    pub sessions: Vec<SessionRow>,
    /// How many sessions match, on all pages together.
    pub total_sessions: u64,
    /// When this answer was given (UTC).
    pub timestamp: Timestamp,
    /// Present when there are more: give it back as `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Present when the workspace was damaged and nobody has read the report yet: tell the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryNotice>,
}

/// What recoveries nobody has read about yet found and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryNotice {
    /// How many events are gone from every copy.
    pub lost_events: u64,
    /// What was set aside, as paths below the workspace.
    pub quarantined: Vec<String>,
    /// What happened, in a sentence or two.
    pub message: String,
}

impl Tracker {
    /// The sessions that match, a page at a time.
    pub fn list(&self, request: &ListRequest) -> Result<SessionList, Error> {
        let _ = request;
        todo!()
    }

    /// The row of one session, by its id.
    pub fn session(&self, id: &str) -> Result<SessionRow, Error> {
        let _ = id;
        todo!()
    }
}
